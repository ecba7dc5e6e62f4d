"""A reference trial as faults see it: rows by type and key, edited as a whole and put back.

An edit of an entity is made in every source that delivers it, so that what is seeded is a change
of the world and not a contradiction between two looks at it (that is a fault of its own).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache

from statediff.evaluate import ContractFile, TrialFacts, judgement_of
from statediff.model.batches import Row
from statediff.model.readings import (
    Capture,
    History,
    Reading,
    SourceCapture,
    Timeline,
    Transaction,
)
from statediff.model.schema import EntityType, merge_schemas
from statediff.model.state import Enumeration, MemoryChunks, State, Table, build_table
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Key, Value, is_value, same
from statediff.model.verdict import Judgement

Rows = dict[Key, Row]
Change = Callable[[Rows], None]
"""Edits the rows of one type in place."""

MAX_ROWS = 20_000
"""Rows a type may have for faults to be seeded into it; editing holds them all in memory."""


@dataclass(frozen=True)
class Reference:
    """A trial with everything judging needs; frozen, and so is every mutant made of it."""

    name: str
    contract: ContractFile
    _: KW_ONLY
    before: Capture
    after: Capture
    trace: Trace
    answer: Value | NoAnswer
    timeline: Timeline | None
    facts: TrialFacts

    def judged(self) -> Judgement:
        """The judgement; `ContractError` where the contract does not fit what was captured."""
        return judgement_of(
            self.contract, self.before, self.after, trace=self.trace, answer=self.answer,
            timeline=self.timeline, facts=self.facts,
        )  # fmt: skip

    @cached_property
    def types(self) -> Mapping[str, EntityType]:
        """Every type that some source delivers after the run."""
        schema = merge_schemas(tuple(part.state.schema for part in self.after.parts))
        return schema.by_name

    def rows(self, type_name: str) -> Rows:
        """The entities after the run, as the first source that delivers the type shows them."""
        return self._rows(self.after, type_name)

    def rows_before(self, type_name: str) -> Rows:
        """The entities before the run."""
        return self._rows(self.before, type_name)

    def is_as_before(self, type_name: str) -> bool:
        """Whether both states hold the very same chunks of the type, whose rows then are equal."""
        before, after = (
            [(table.type, table.chunks) for table in _tables(capture, type_name)[:1]]
            for capture in (self.before, self.after)
        )
        return before == after

    def is_editable(self, type_name: str) -> bool:
        """Whether the type was captured, and small enough to be held."""
        tables = [t for t in _tables(self.after, type_name) if t.enumeration.is_complete]
        return bool(tables) and all(table.row_count <= MAX_ROWS for table in tables)

    def edited(self, changes: Mapping[str, Change], only_source: str | None = None) -> Reference:
        """The trial with the rows of some types edited after the run, in every source or in one."""
        parts = tuple(
            part if only_source not in (None, part.reading.source) else _edited(part, changes)
            for part in self.after.parts
        )
        return self.with_parts(parts)

    def with_parts(self, parts: tuple[SourceCapture, ...]) -> Reference:
        """The trial with other states after.

        A source whose state is another one came there in one transaction: what a feed saw of the
        reference is no history of the mutant.
        """
        ends = {part.reading.source: part.state for part in parts}
        history = self.after.history
        kept: list[Transaction] = []
        readings: list[Reading] = []
        for reading in history.readings:
            source, own = reading.source, history.of(reading.source)
            end = ends.get(source)
            if end is None or not reading.is_complete or reading.digest == end.digest():
                kept += own
                readings.append(reading)
                continue
            kept.append(Transaction(f"{source}/1", source, reading.position or "", None, end))
            readings.append(replace(reading, digest=end.digest()))
        told = History(tuple(readings), tuple(kept))
        return replace(self, after=replace(self.after, parts=parts, history=told))

    def passing(self, changes: Mapping[str, Change]) -> Reference | None:
        """The trial with the edits made half-way through it, in every source, and undone at once.

        None where no complete history tells of such a source.
        """
        history = self.after.history
        kept: list[Transaction] = []
        is_made = False
        starts = {part.reading.source: part for part in self.before.parts}
        for source in (reading.source for reading in history.readings):
            own = history.of(source)
            start = starts.get(source)
            if start is None or not changes.keys() & set(start.state.tables):
                kept += own
                continue
            if history.gap(source) is not None:
                return None
            half = len(own) // 2
            state = own[half - 1].state if half else start.state
            edited = _edited(SourceCapture(start.reading, state), changes).state
            is_made = True
            kept += own[:half]
            kept += (
                Transaction(f"{source}/{name}", source, "", None, each)
                for name, each in (("made", edited), ("undone", state))
            )
            kept += own[half:]
        if not is_made:
            return None
        told = replace(history, transactions=tuple(kept))
        return replace(self, after=replace(self.after, history=told))

    def _rows(self, capture: Capture, type_name: str) -> Rows:
        for table in _tables(capture, type_name):
            return dict(rows_of(table))
        return {}


@lru_cache(maxsize=512)  # every mutant of a reference shares its tables
def rows_of(table: Table) -> Mapping[Key, Row]:
    """The entities of a table. Shared: neither it nor a row of it may be changed."""
    return dict(table.rows())


def _tables(capture: Capture, type_name: str) -> list[Table]:
    return [p.state.tables[type_name] for p in capture.parts if type_name in p.state.tables]


def _edited(part: SourceCapture, changes: Mapping[str, Change]) -> SourceCapture:
    tables = dict(part.state.tables)
    for name, change in changes.items():
        if name in tables:
            rows = dict(rows_of(tables[name]))
            change(rows)
            tables[name] = rebuilt(tables[name], rows.values())
    return with_state(part, State(part.state.schema, tables))


def rebuilt(table: Table, rows: Iterable[Row], enumeration: Enumeration | None = None) -> Table:
    """The table with these rows, cut as before."""
    kept = table.enumeration if enumeration is None else enumeration
    names = [field.name for field in table.type.fields]
    whole = [{name: row.get(name) for name in names} for row in rows]
    return build_table(table.type, whole, MemoryChunks(), like=table, enumeration=kept)


def with_state(part: SourceCapture, state: State) -> SourceCapture:
    """The part with another state, and a reading that vouches for it."""
    digest = None if part.reading.digest is None else state.digest()
    return SourceCapture(replace(part.reading, digest=digest), state)


def differs(a: Row, b: Row) -> tuple[str, ...]:
    """The fields of which the two rows say different things."""
    return tuple(sorted(n for n in {*a, *b} if not same(a.get(n), b.get(n))))


def is_known(row: Row) -> bool:
    """Whether every field of the row was observed."""
    return all(is_value(value) for value in row.values())
