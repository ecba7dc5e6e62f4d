"""A payment API as a source, and its feed: read by a question to its process, never by its API.

The process gives the rows of its store as they are after some transaction (`ledger`); this module
makes entities of them (`types`). A value that is not of its field's kind is the value that it is.
What no field is for stays in `other`. An object of a class that no type is for is `unknown_object`.

The feed has one transaction for each request that changed something, whatever it was called, and
for each payment that settled later. The process keeps them from its fork to its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.errors import InputError
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture, Transaction
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, State, Table
from statediff.model.strictjson import read_json
from statediff.model.values import Map, Value
from statediff.systems.base.rows import keyed_table, source_schema
from statediff_payments.types import BY_CLASS, IN_MICROSECONDS, INSIDE, OTHER, TYPES

Ask = Callable[[Mapping[str, Any]], dict[str, Any] | None]
"""A question to the server of this trial → its answer; None if it gives none."""
Refine = Callable[[Schema], Schema]

NO_ANSWER: Final = "the payment API's process does not answer"
_MOST_BYTES: Final = 4 * 1024 * 1024
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999."""
UNKNOWN_OBJECT: Final = EntityType(
    "unknown_object",
    ("class", "id"),
    (
        Field("class", Kind.TEXT, is_nullable=False),
        Field("id", Kind.TEXT, is_nullable=False),
        Field(OTHER, Kind.MAP, is_nullable=False),
    ),
)
_ALL: Final = (*TYPES, UNKNOWN_OBJECT)


class PaymentsSource:
    """The store of one payment API as a source."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "requests that changed nothing: no log of them is kept",
        "whether an answer that the sandbox loses was lost already",
        "the number of a card or an account and a client secret, beyond a digest",
        "the secret of an API key, which no request changes",
        "the answer that an idempotency key gives again, beyond a digest",
        "the order in which objects are listed",
    )

    def __init__(self, name: str, ask: Ask, refine: Refine | None = None) -> None:
        self._name = name
        self._ask = ask
        plain = source_schema(name, sorted(_ALL, key=lambda t: t.name))
        self._schema = plain if refine is None else refine(plain)
        self._types = {t.source_table: t for t in self._schema.types}
        self._read: dict[tuple[str, str, str], Row] = {}

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        return self._schema

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        answer = self.asked({"rows": True})
        rows = {(kind, key): text for kind, key, text in answer["rows"]}
        return scanned(self._name, as_of, self.state(rows, store, like), position=str(answer["n"]))

    def asked(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The process's answer. Raises `SourceUnavailable`."""
        answer = self._ask(question)
        if answer is None:
            raise SourceUnavailable(NO_ANSWER)
        return answer

    def state(
        self,
        rows: Mapping[tuple[str, str], str],
        store: ChunkStore,
        like: State | None,
        changed: frozenset[str] | None = None,
    ) -> State:
        """The state of a store with these rows; only `changed` classes differ from `like`."""
        by_type: dict[str, list[Row]] = {name: [] for name in self._types}
        for (kind, key), text in rows.items():
            table = kind if kind in BY_CLASS else UNKNOWN_OBJECT.name
            if changed is None or table in changed:
                by_type[table].append(self._row(kind, key, text))
        tables: dict[str, Table] = {}
        for table, entity_type in self._types.items():
            earlier = None if like is None else like.tables.get(entity_type.name)
            if changed is not None and table not in changed and earlier is not None:
                tables[entity_type.name] = earlier
                continue
            found = by_type[table]
            tables[entity_type.name] = keyed_table(entity_type, found, COMPLETE, store, earlier)
        return State(self._schema, tables)

    def _row(self, kind: str, key: str, text: str) -> Row:
        known = self._read.get((kind, key, text))
        if known is None:
            if len(self._read) > 10_000:
                self._read.clear()
            known = self._read[kind, key, text] = row_of(kind, key, text)
        return known


def row_of(kind: str, key: str, text: str) -> Row:
    """The row of one object, by source column."""
    values = _members(text)
    if kind not in BY_CLASS:
        return {"class": kind, "id": key, OTHER: Map.of(values)}
    entity_type = BY_CLASS[kind]
    row: Row = {"id": key or kind}
    for name, within in INSIDE.get(kind, {}).items():
        holder = values.get(within)
        if isinstance(holder, Map) and name in holder:
            found = dict(holder.items)
            values[name] = found.pop(name)
            values[within] = Map.of(found)
    for each in entity_type.fields:
        if each.name not in ("id", OTHER):
            row[each.source_column] = _cell(each, values.pop(each.source_column, None))
    row[OTHER] = Map.of(values)
    return row


def _members(text: str) -> dict[str, Value]:
    """The values of an object; a value that is no JSON is the text that stands for it."""
    try:
        found = read_json(text.encode(), "a row", max_bytes=_MOST_BYTES)
        return dict(found.items) if isinstance(found, Map) else {}
    except InputError:
        return {_text(name): _value(value) for name, value in json.loads(text).items()}


def _value(value: Any) -> Value:
    text = json.dumps(value)
    try:
        return read_json(text.encode(), "a value", max_bytes=_MOST_BYTES)
    except InputError:
        return text


def _text(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def _cell(field: Field, value: Value) -> Value:
    if field.kind is Kind.TIMESTAMP and type(value) is int:
        micros = value if field.name in IN_MICROSECONDS else value * 1_000_000
        if 0 <= micros <= _LAST_SECOND * 1_000_000:
            return _EPOCH + timedelta(microseconds=micros)
    return value


class PaymentsFeed:
    """A `Feed` of one payment API; `source` asks whatever process serves now."""

    def __init__(self, told_by: PaymentsSource, serving: Callable[[], int]) -> None:
        self._told_by = told_by
        self._serving = serving
        """How often a server was forked: another one knows nothing of this run."""
        self._start: tuple[int, int, dict[tuple[str, str], str]] | None = None

    @property
    def source(self) -> str:
        return self._told_by.name

    def attach(self) -> None:
        answer = self._told_by.asked({"rows": True})
        rows = {(kind, key): text for kind, key, text in answer["rows"]}
        self._start = (self._serving(), answer["n"], rows)

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        if self._start is None:
            raise SourceUnavailable(f"no feed of {self.source} is attached")
        serving, first, rows = self._start
        if serving != self._serving():
            return Seen((), "its server was put back since")
        rows = dict(rows)
        state = before
        seen: list[Transaction] = []
        for each in self._told_by.asked({"since": first})["transactions"]:
            changed = _applied(rows, each["rows"])
            state = self._told_by.state(rows, store, state, changed)
            number = str(each["n"])
            at = _EPOCH + timedelta(microseconds=each["at"] // 1000)
            seen.append(
                Transaction(f"{self.source}/{number}", self.source, number, at, state, (number,))
            )
        return Seen(tuple(seen))

    def detach(self) -> None:
        self._start = None


def _applied(rows: dict[tuple[str, str], str], changes: Iterable[Any]) -> frozenset[str]:
    """The tables whose rows a transaction changed; it is applied to `rows`."""
    tables: set[str] = set()
    for kind, key, text in changes:
        if text is None:
            rows.pop((kind, key), None)
        else:
            rows[kind, key] = text
        tables.add(kind if kind in BY_CLASS else UNKNOWN_OBJECT.name)
    return frozenset(tables)
