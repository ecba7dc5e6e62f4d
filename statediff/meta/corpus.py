"""The stored corpus: seeded cases that anyone can judge again, without a sandbox or an agent.

A file holds the trial of one contract's reference, and of each case what differs from it: captures,
contract, answer, timeline. Beside it stand what it must get (verdict, stage, clause, codes), why in
one sentence, and its harmless twin. `build_corpus` makes such a file, `replay_corpus`
judges it.

Tables and states stand in the file once, in the order of their first use; a table like an earlier
one says only in which rows it differs, how it is cut and what it covers. A trial names its states
by their place. Every state carries its digest, and is refused where what is read has another.
"""

from __future__ import annotations

import gzip
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, TypeAdapter
from pydantic import Field as Described

from statediff.contract.file import ContractFile, parse_contract
from statediff.errors import AdapterError, BundleError, InputError, UsageError
from statediff.evidence import documents as doc
from statediff.evidence.canonical import MAX_DEPTH, write
from statediff.evidence.documents import check_shape, trace_from
from statediff.evidence.shapes import Count, Encoded, Text, check, many
from statediff.evidence.shapes import Key as KeyShape
from statediff.meta import stage_cases
from statediff.meta.fault_classes import class_of
from statediff.meta.metatest import (
    SEEDED,
    MetaCase,
    Part,
    beside_case,
    fault_case,
    removal_case,
    stage_case,
    stage_faults,
)
from statediff.meta.mutate import Argued, seed_faults
from statediff.meta.reference import (
    Reference,
    differs,
    facts_from,
    in_shape,
)
from statediff.meta.twins import twin_of
from statediff.meta.world import Fault, World
from statediff.model.batches import Row
from statediff.model.readings import Capture, History, SourceCapture, Transaction
from statediff.model.schema import EntityType, Schema
from statediff.model.state import Coverage, MemoryChunks, State, Table, build_table
from statediff.model.strictjson import Flaw, Limits, read_tree
from statediff.model.values import Key, decode, encode, is_value, printable
from statediff.model.verdict import Verdict

SCHEMA: Final = "statediff/corpus/1"
SUFFIX: Final = ".corpus.gz"
REMOVED: Final = 3
"""Items that are taken out of a bundle, one at a time."""
MAX_BYTES: Final = 64 * 1024 * 1024
_LIMITS: Final = Limits(MAX_BYTES, MAX_DEPTH, max_digits=17, max_exponent=None)

Json = Any
T = TypeVar("T")
_READINGS: Final = TypeAdapter[Any](many(doc.READING).annotation())
PARTS: Final = ("contract", "before", "after", "history", "timeline", "answer", "trace")
"""The parts of a trial's document, each by itself."""


class TrialPool:
    """The parts that are stored once; `document` grows as trials are put in."""

    def __init__(self) -> None:
        self.document: dict[str, list[Json]] = {
            "contracts": [],
            "schemas": [],
            "tables": [],
            "states": [],
        }
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
            "trace": doc.trace_document(reference.trace),
        }
        if base is None:
            return {**whole, "name": reference.name, "facts": reference.facts.as_json()}
        known = self.trial(base)
        return {part: told for part, told in whole.items() if told != known[part]}

    def _capture(self, capture: Capture) -> Json:
        return [[doc.reading_document(p.reading), self._state(p.state)] for p in capture.parts]

    def _transaction(self, transaction: Transaction) -> Json:
        return [
            transaction.id,
            transaction.source,
            transaction.position,
            encode(transaction.committed_at),
            self._state(transaction.state),
            list(transaction.names),
        ]

    def _contract(self, file: ContractFile) -> int:
        return self._put("contracts", ("contract", file.digest), [file.data.decode(), None])

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


CoverageShape: TypeAlias = tuple[Coverage, Text | None]


class _Pool(BaseModel):
    contracts: list[tuple[Text, Text | None]]
    schemas: list[Any]
    tables: list[
        tuple[Text, Count, list[KeyShape], CoverageShape, list[list[Encoded]]]
        | tuple[Count, list[KeyShape], CoverageShape, list[list[Encoded]], list[KeyShape]]
    ]
    """Whole tables with name and schema; those like an earlier one with what differs."""
    states: list[tuple[Count, list[Count], Text]]


_Capture: TypeAlias = list[tuple[Any, Count]]
"""Reading and place of the state."""


class _History(BaseModel):
    readings: list[Any]
    transactions: list[tuple[Text, Text, Text, Encoded, Count, list[Text]]]


class _Trial(BaseModel):
    contract: Count = 0
    before: _Capture = []
    after: _Capture = []
    history: _History = _History(readings=[], transactions=[])


class StoredPool:
    """A stored pool, which builds each part on first use. Raises `UsageError` if broken."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._built: dict[tuple[str, int], Any] = {}
        with _damage():
            shape = in_shape(_Pool, document, "the pool")
            for schema in shape.schemas:
                check_shape(schema, "schema.json")

    def trial(self, document: Json, base: Reference | None = None) -> Reference:
        """The trial of a document; what it does not tell is as in `base`."""
        with _damage():
            shape = in_shape(_Trial, document, "a trial")
            told = [reading for reading, _ in (*shape.before, *shape.after)]
            check([*told, *shape.history.readings], _READINGS, "a trial's readings")
            for name in ("timeline", "answer", "trace"):
                if name in document:
                    check_shape(document[name], f"{name}.json")
            if base is None:
                if not {*PARTS, "name", "facts"} <= document.keys() or not isinstance(
                    document["name"], str
                ):
                    raise BundleError("a trial: expected all its parts")
                base = Reference(
                    document["name"],
                    self._contract(shape.contract),
                    before=Capture(()),
                    after=Capture(()),
                    trace=trace_from(document["trace"]),
                    answer=doc.answer_from(document["answer"]),
                    timeline=None,
                    facts=facts_from(document["facts"]),
                )
            for part in PARTS:
                if part in document:
                    base = self._with(base, part, document[part])
            return base

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
                return replace(made, answer=doc.answer_from(told))
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
                    name,
                    source,
                    position,
                    doc.instant_or_none(moment),
                    self._state(at),
                    tuple(names),
                )
                for name, source, position, moment, at, names in told["transactions"]
            ),
        )

    def _contract(self, at: int) -> ContractFile:
        def build(entry: Json) -> ContractFile:
            text, _ = entry  # nothing is beside it
            return parse_contract(text.encode(), "the corpus's contract")

        return self._item("contracts", at, build)

    def _state(self, at: int) -> State:
        def build(entry: Json) -> State:
            schema_at, listed, digest = entry
            tables = [self._table(number) for number in listed]
            state = State(self._schema(schema_at), {table.type.name: table for table in tables})
            if state.digest() != digest:
                raise BundleError(f"state {at} has another digest than it says")
            return state

        return self._item("states", at, build)

    def _schema(self, at: int) -> Schema:
        return self._item("schemas", at, doc.schema_from)

    def _table(self, at: int) -> Table:
        return self._item("tables", at, partial(self._build_table, at))

    def _item(self, kind: str, at: int, build: Callable[[Json], T]) -> T:
        """The part at that place of the pool, built once."""
        if (kind, at) not in self._built:
            if at >= len(self._document[kind]):
                raise BundleError(f"there is no number {at} among the {kind}")
            self._built[kind, at] = build(self._document[kind][at])
        found: T = self._built[kind, at]
        return found

    def _build_table(self, at: int, entry: Json) -> Table:
        if isinstance(entry[0], str):
            name, schema_at, cuts, coverage, listed = entry
            entity = self._schema(schema_at).by_name.get(name)
            if entity is None:
                raise BundleError(f"table {at} is of no type of its schema")
            rows = [_row(entity, cells) for cells in listed]
        else:
            like, cuts, coverage, put, gone = entry
            if like >= at:
                raise BundleError(f"table {at} is like one that is not before it")
            base = self._table(like)
            entity = base.type
            known: dict[Key, Row] = dict(base.rows())
            for key in gone:
                known.pop(doc.key_from(key), None)
            for cells in put:
                row = _row(entity, cells)
                known[tuple(row[part] for part in entity.key)] = row  # type: ignore[misc]  # keys hold values
            rows = list(known.values())
        store = MemoryChunks()
        cut = Table(entity, (), tuple(doc.key_from(key) for key in cuts), store)
        enumeration = doc.enumeration_from(coverage)
        try:
            return build_table(entity, rows, store, like=cut, enumeration=enumeration)
        except ValueError as error:  # two rows of one key
            raise BundleError(f"table {at}: {error}") from error


@contextmanager
def _damage() -> Iterator[None]:
    """Errors of damaged documents become a `UsageError` that says how to get a sound corpus."""
    try:
        yield
    except (BundleError, AdapterError, InputError) as error:
        raise UsageError(f"the corpus is damaged: {error}; build it anew") from error


def _cells(entity: EntityType, row: Row) -> Json:
    return [encode(row[field.name]) for field in entity.fields]


def _row(entity: EntityType, cells: Json) -> Row:
    if len(cells) != len(entity.fields):
        raise BundleError(f"a row of {entity.name} has {len(cells)} cells")
    named = zip(entity.fields, cells, strict=True)
    row = {field.name: decode(cell) for field, cell in named}
    if not all(is_value(row[name]) for name in entity.key):
        raise BundleError(f"a row of {entity.name} has a key that is not known")
    return row


def build_corpus(reference: Reference, seed: int, argued: Mapping[str, Argued], most: int) -> bytes:
    """A corpus of one reference: of each fault class at most so many cases, picked by the seed.

    Raises `UsageError` if the reference does not MATCH.
    """
    judgement = reference.judged()
    if judgement.verdict is not Verdict.MATCH:
        raise UsageError(f"{reference.name} gets {judgement.verdict.value}, not MATCH")
    world = World(reference, judgement, seed)
    pool, rng = TrialPool(), random.Random(f"{seed} {reference.contract.digest}")  # noqa: S311 — reproducible
    base = pool.trial(reference)
    cases: list[Json] = []
    counts: Counter[str] = Counter()
    faults = list(seed_faults(world, SEEDED))
    for fault in rng.sample(faults, len(faults)):
        kind = class_of(fault)
        case = None if counts[kind] >= most else fault_case(fault, world, argued)
        if case is not None:
            counts[kind] += 1
            twin = twin_of(fault, world)
            told = {"trial": pool.trial(twin.mutant, reference), **_fault(twin)}
            cases.append({**_case(case, fault, pool, reference), "twin": told})
    listed = list(stage_faults(world))
    for stage, fault, clauses in rng.sample(listed, len(listed)):
        if counts[f"stage {stage}"] < most:
            counts[f"stage {stage}"] += 1
            case = stage_case(stage, fault, clauses, world)
            told = _case(case, fault, pool, reference)
            cases.append({**told, "stage": stage, "clauses": sorted(clauses)})
    removals = list(stage_cases.removals(world))
    cases += (
        {"part": Part.STAGE.value, "stage": "evidence", "place": removal.place}
        for removal in rng.sample(removals, min(REMOVED, len(removals)))
    )
    document = {"schema": SCHEMA, "seed": seed, **pool.document, "reference": base, "cases": cases}
    return gzip.compress(write(document), mtime=0)


def _case(case: MetaCase, fault: Fault, pool: TrialPool, reference: Reference) -> Json:
    expected = {
        "verdict": case.expected.value,
        "clause": case.clause,
        "stage": case.stage,
        "codes": list(case.codes),
    }
    trial = pool.trial(fault.mutant, reference)
    return {"part": case.part.value, **_fault(fault), "expected": expected, "trial": trial}


def _fault(fault: Fault) -> Json:
    return {"operator": fault.operator, "target": fault.target, "sentence": fault.sentence}


def corpus_files(folder: Path) -> list[Path]:
    """The files of a corpus, sorted. Raises `UsageError` if there is none."""
    found = sorted(folder.rglob(f"*{SUFFIX}"))
    if not found:
        raise UsageError(f"{folder}: expected a corpus, which is files named *{SUFFIX}; found none")
    return found


class _Expected(BaseModel):
    clause: Text
    stage: Text
    codes: list[Text]


class _Twin(BaseModel):
    operator: Text
    target: Text
    sentence: Text
    trial: Any


class _SeededCase(_Twin):
    """A seeded case; `stage` and `clauses` where it was seeded for one stage."""

    part: Part
    stage: Literal["capture", "resolve", "canonicalize", "policy", ""] = ""
    clauses: list[Text] = []
    expected: _Expected
    twin: _Twin | None = None


class _RemovalCase(BaseModel):
    place: Annotated[Text, Described(min_length=1)]


class _Corpus(BaseModel):
    reference: Any
    cases: list[_RemovalCase | _SeededCase]


def replay_corpus(path: Path, sample: int = 0, seed: int = 0) -> Iterator[MetaCase]:
    """The cases of a file, judged again; with `sample`, so many, picked by the seed.

    A case that gets another clause, stage or code than it says is not named. Raises `UsageError` if
    the file is no corpus, or if its reference no longer gets MATCH.
    """
    document = _read_corpus(path)
    pool = StoredPool(document)
    with _damage():
        corpus = in_shape(_Corpus, document, "the corpus")
        reference = pool.trial(corpus.reference)
        judgement = reference.judged()
        if judgement.verdict is not Verdict.MATCH:
            raise UsageError(f"{path}: the reference gets {judgement.verdict.value}, not MATCH")
        world = World(reference, judgement, seed)
        every = range(len(corpus.cases))
        picked = sorted(world.rng.sample(every, min(sample, len(every)))) if sample else every
        for case in (corpus.cases[at] for at in picked):
            yield from _judge_case(case, pool, world)


def _judge_case(
    stored: _RemovalCase | _SeededCase, pool: StoredPool, world: World
) -> Iterator[MetaCase]:
    if isinstance(stored, _RemovalCase):
        whole = stage_cases.bundle_of(world.reference)
        if stored.place not in stage_cases.places_in(whole):
            raise BundleError(f"the bundle has no {printable(stored.place)[:120]}")
        yield removal_case(stage_cases.remove_item(whole, stored.place), world)
        return
    fault = _fault_from(stored, pool, world)
    if stored.part is Part.STAGE:
        case = stage_case(stored.stage, fault, frozenset(stored.clauses), world)
    else:
        found = fault_case(fault, world, {})
        if found is None:
            raise BundleError(f"{printable(fault.id)[:120]} changes nothing")
        case = found
    yield _compare(case, stored.expected)
    if stored.twin is not None:
        yield beside_case(_fault_from(stored.twin, pool, world, is_twin=True), case, world)


def _compare(case: MetaCase, expected: _Expected) -> MetaCase:
    """The case, not named where it says something else than was stored."""
    wanted = (expected.clause, expected.stage, tuple(expected.codes))
    found = (case.clause, case.stage, case.codes)
    if wanted == found:
        return case
    return replace(case, is_named=False, error=case.error or f"expected {wanted}, found {found}")


def _fault_from(stored: _Twin, pool: StoredPool, world: World, is_twin: bool = False) -> Fault:
    mutant, reference = pool.trial(stored.trial, world.reference), world.reference
    for before, after in ((reference.before, mutant.before), (reference.after, mutant.after)):
        known = [(part.reading.source, set(part.state.tables)) for part in before.parts]
        found = [(part.reading.source, set(part.state.tables)) for part in after.parts]
        if [source for source, _ in known] != [source for source, _ in found] or any(
            not types <= there for (_, types), (_, there) in zip(known, found, strict=True)
        ):
            raise BundleError("a trial has other sources or types than the reference")
    return Fault(stored.operator, stored.target, stored.sentence, mutant, is_twin)


def _read_corpus(path: Path) -> Json:
    try:
        with gzip.open(path) as file:
            data = file.read(MAX_BYTES + 1)
        document = read_tree(data, _LIMITS) if len(data) <= MAX_BYTES else None
    except (OSError, EOFError, zlib.error, Flaw) as error:
        raise UsageError(f"{path}: cannot be read as a corpus: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"{path}: expected a corpus, {SCHEMA}, of at most {MAX_BYTES} bytes")
    return document
