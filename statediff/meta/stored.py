"""Trials as one compact document, and back: for a corpus whose cases are small changes of a trial.

A document holds a pool. Tables and states stand in it once, in the order of their first use; a
table like an earlier one says only in which rows it differs, how it is cut and what it covers. A
trial names its states by their place in the pool. Every state carries its digest, and is refused
where what is read has another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from statediff.errors import UsageError
from statediff.evaluate import ContractFile, TrialFacts, parse_contract
from statediff.evidence import documents as doc
from statediff.evidence.traces import trace_document, trace_from
from statediff.meta.reference import Reference, differs
from statediff.model.batches import Row
from statediff.model.readings import Capture, History, SourceCapture, Transaction
from statediff.model.schema import EntityType, Schema
from statediff.model.state import MemoryChunks, State, Table, build_table
from statediff.model.trace import NoAnswer
from statediff.model.values import Key, Value, decode, encode

Json = Any
PARTS: Final = ("contract", "before", "after", "history", "timeline", "answer", "trace")
"""What a trial's document tells, each part by itself."""


class Pool:
    """What is stored once; `document` grows as trials are put in."""

    def __init__(self) -> None:
        self.document: dict[str, list[Json]] = {
            "contracts": [], "schemas": [], "tables": [], "states": []
        }  # fmt: skip
        self._known: dict[tuple[Any, ...], int] = {}
        self._last: dict[str, tuple[int, Table]] = {}

    def trial(self, reference: Reference, base: Reference | None = None) -> Json:
        """The trial's document: of `base`'s parts only those that differ."""
        history = reference.after.history
        whole: dict[str, Json] = {
            "contract": self._contract(reference.contract),
            "before": self._capture(reference.before),
            "after": self._capture(reference.after),
            "history": {
                "readings": [doc.reading_document(each) for each in history.readings],
                "transactions": [self._transaction(each) for each in history.transactions],
            },
            "timeline": doc.timeline_document(reference.timeline),
            "answer": doc.answer_document(reference.answer),
            "trace": trace_document(reference.trace),
        }
        if base is None:
            return {**whole, "name": reference.name, "facts": reference.facts.as_json()}
        known = self.trial(base)
        return {part: told for part, told in whole.items() if told != known[part]}

    def _capture(self, capture: Capture) -> Json:
        return [[doc.reading_document(p.reading), self._state(p.state)] for p in capture.parts]

    def _transaction(self, transaction: Transaction) -> Json:
        return [
            transaction.id, transaction.source, transaction.position,
            encode(transaction.committed_at), self._state(transaction.state),
            list(transaction.names),
        ]  # fmt: skip

    def _contract(self, file: ContractFile) -> int:
        recorded = None if file.recorded is None else file.recorded.decode()
        return self._put("contracts", ("contract", file.digest), [file.data.decode(), recorded])

    def _state(self, state: State) -> int:
        schema = doc.schema_document(state.schema)
        at = self._put("schemas", ("schema", repr(schema)), schema)
        tables = {name: self._table(at, table) for name, table in sorted(state.tables.items())}
        known = ("state", at, *tables.items())
        return self._put("states", known, [at, list(tables.values()), state.digest()])

    def _table(self, schema: int, table: Table) -> int:
        chunks = tuple(chunk.digest for chunk in table.chunks)
        known = ("table", schema, table.type.name, chunks, table.partition, table.enumeration)
        if known in self._known:
            return self._known[known]
        cuts = [doc.key_document(key) for key in table.partition]
        coverage = doc.enumeration_document(table.enumeration)
        name, rows = table.type.name, dict(table.rows())
        like, base = self._last.get(f"{schema} {name}", (None, None))
        if like is None or base is None or table.type.is_keyless:
            listed = [_cells(table.type, row) for row in rows.values()]
            told: Json = [name, schema, cuts, coverage, listed]
        else:
            old = dict(base.rows())
            put = [
                _cells(table.type, row)
                for key, row in rows.items()
                if key not in old or differs(old[key], row)
            ]
            gone = [doc.key_document(key) for key in old if key not in rows]
            told = [like, cuts, coverage, put, gone]
        at = self._put("tables", known, told)
        self._last.setdefault(f"{schema} {name}", (at, table))
        return at

    def _put(self, kind: str, known: tuple[Any, ...], document: Json) -> int:
        if known not in self._known:
            self._known[known] = len(self.document[kind])
            self.document[kind].append(document)
        return self._known[known]


class Opened:
    """A stored pool; what is in it is built when first asked for. Raises `UsageError` if broken."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._built: dict[tuple[str, int], Any] = {}

    def trial(self, told: Mapping[str, Any], base: Reference | None = None) -> Reference:
        """The trial of a document; what it does not tell is as in `base`."""
        try:
            return self._trial(told, base)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"the corpus is damaged: {type(error).__name__}: {error}; build it anew"
            ) from error

    def _trial(self, told: Mapping[str, Any], base: Reference | None) -> Reference:
        if base is None:
            facts = told["facts"]
            made = Reference(
                told["name"],
                self._contract(told["contract"]),
                before=Capture(()),
                after=Capture(()),
                trace=trace_from(told["trace"]),
                answer=_answer(told["answer"]),
                timeline=None,
                facts=TrialFacts(
                    facts["id"],
                    facts["agent"],
                    facts["sandbox"],
                    facts["isolation"],
                    int(facts["seed"]),
                    facts["receipt"],
                    tuple(facts["sources"]),
                ),
            )
        else:
            made = base
        for part in PARTS:
            if part in told:
                made = self._with(made, part, told[part])
        return made

    def _with(self, made: Reference, part: str, told: Json) -> Reference:
        match part:
            case "contract":
                return replace(made, contract=self._contract(told))
            case "before":
                return replace(made, before=replace(made.before, parts=self._parts(told)))
            case "after":
                return replace(made, after=replace(made.after, parts=self._parts(told)))
            case "history":
                return replace(made, after=replace(made.after, history=self._history(told)))
            case "timeline":
                return replace(made, timeline=doc.timeline_from(told))
            case "answer":
                return replace(made, answer=_answer(told))
            case _:
                return replace(made, trace=trace_from(told))

    def _parts(self, told: Json) -> tuple[SourceCapture, ...]:
        return tuple(
            SourceCapture(doc.reading_from(reading), self._state(at)) for reading, at in told
        )

    def _history(self, told: Json) -> History:
        return History(
            tuple(doc.reading_from(each) for each in told["readings"]),
            tuple(
                Transaction(
                    name, source, position, doc.instant_or_none(moment), self._state(at),
                    tuple(names),
                )
                for name, source, position, moment, at, names in told["transactions"]
            ),
        )  # fmt: skip

    def _contract(self, at: int) -> ContractFile:
        if ("contract", at) not in self._built:
            text, recorded = self._document["contracts"][at]
            self._built["contract", at] = parse_contract(
                text.encode(), "the corpus's contract", lambda _: (recorded or "").encode()
            )
        built: ContractFile = self._built["contract", at]
        return built

    def _state(self, at: int) -> State:
        if ("state", at) not in self._built:
            schema_at, listed, digest = self._document["states"][at]
            schema = self._schema(schema_at)
            tables = [self._table(number) for number in listed]
            state = State(schema, {table.type.name: table for table in tables})
            if state.digest() != digest:
                raise ValueError(f"state {at} has another digest than it says")
            self._built["state", at] = state
        built: State = self._built["state", at]
        return built

    def _schema(self, at: int) -> Schema:
        if ("schema", at) not in self._built:
            self._built["schema", at] = doc.schema_from(self._document["schemas"][at])
        built: Schema = self._built["schema", at]
        return built

    def _table(self, at: int) -> Table:
        if ("table", at) not in self._built:
            self._built["table", at] = self._made(self._document["tables"][at])
        built: Table = self._built["table", at]
        return built

    def _made(self, told: Sequence[Any]) -> Table:
        if isinstance(told[0], str):
            name, schema_at, cuts, coverage, listed = told
            entity = self._schema(schema_at).by_name[name]
            rows = [_row(entity, cells) for cells in listed]
        else:
            like, cuts, coverage, put, gone = told
            base = self._table(like)
            entity = base.type
            known: dict[Key, Row] = dict(base.rows())
            for key in gone:
                del known[doc.key_from(key)]
            for cells in put:
                row = _row(entity, cells)
                known[tuple(row[part] for part in entity.key)] = row  # type: ignore[misc]  # keys hold values
            rows = list(known.values())
        store = MemoryChunks()
        cut = Table(entity, (), tuple(doc.key_from(key) for key in cuts), store)
        kept = doc.enumeration_from(coverage)
        return build_table(entity, rows, store, like=cut, enumeration=kept)


def _answer(told: Json) -> Value | NoAnswer:
    return doc.answer_from(told)


def _cells(entity: EntityType, row: Row) -> Json:
    return [encode(row[field.name]) for field in entity.fields]


def _row(entity: EntityType, cells: Json) -> Row:
    named = zip(entity.fields, cells, strict=True)
    return {field.name: decode(cell) for field, cell in named}
