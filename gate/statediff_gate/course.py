"""The agent's own part of a run, apart from the work of others in the same system.

`base` is the world without the agent: as it was found, moved on by what others committed. The
agent's own part is kept by key, from the row that it first found to the row that it last left; both
sides of a judgement are made of these two, so that only the agent's part is judged.

A row that the agent and others wrote in turns has no own part that is certain: that is a conflict,
and from then on nothing is allowed without a person.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from statediff.capture.source import scanned
from statediff.model.batches import Row
from statediff.model.columns import table_changes
from statediff.model.patch import patched
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType
from statediff.model.state import LayeredChunks, MemoryChunks, State, Table, row_digest
from statediff.model.values import Key, key_order, same


@dataclass(frozen=True)
class Edits:
    """One transaction's changes of one type: the rows that are gone, and those that have come."""

    gone: tuple[Row, ...]
    come: tuple[Row, ...]


Changes: TypeAlias = Mapping[str, Edits]
"""Type → what became of its rows; of a keyed type each key occurs once on a side."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that a commit would do."""

    before: SourceCapture
    """The world without anything that the agent did since the gate was opened."""
    after: SourceCapture
    """The same with all that the agent did, this transaction included."""
    changes: Changes = field(repr=False)
    """Those of this transaction alone."""
    doubt: str | None = None
    """Why the agent's own part is not known for certain; then nothing may be allowed."""


Sides: TypeAlias = tuple[Row | None, Row | None]
Own: TypeAlias = Mapping[str, Mapping[Any, Sides]]
"""Type → key's order → the row that was first found, and the one that was last left."""


def key_of(entity: EntityType, row: Row) -> Key:
    """The key of a row; of a type without one, its content."""
    if entity.is_keyless:
        return (row_digest(row),)
    return tuple([row[name] for name in entity.key])  # type: ignore[misc]  # keys are values


def alike(one: Row | None, other: Row | None) -> bool:
    """True where two rows are the same, value by value, or both are missing."""
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


class Course:
    """The two states of one system, moved on by transactions."""

    def __init__(self, name: str, state: State) -> None:
        self._name = name
        self._base = state
        self._moved: dict[str, dict[Any, Sides]] = {}
        """What others changed since, of each type; `base` has it."""
        self.own: Own = {}
        self.conflict: str | None = None
        self.is_restructured = False
        """The agent changed the structure: only a whole reading shows its part then."""
        self._after: State | None = None
        self._captures: dict[str, tuple[State, SourceCapture]] = {}

    def row(self, entity: EntityType, key: Key) -> Row | None:
        """The committed row of a keyed type."""
        order = key_order(key)
        for rows in (self.own, self._moved):
            known = rows.get(entity.name, {}).get(order)
            if known is not None:
                return known[1]
        return self._base.tables[entity.name].row(key)

    @property
    def base(self) -> State:
        """The world without the agent's part."""
        if self._moved:
            known = self._base.tables
            tables = {
                name: known[name].with_chunks(_patched(known[name], rows, is_kept=True).chunks)
                for name, rows in self._moved.items()
            }
            self._base = State(self._base.schema, {**known, **tables})
            self._moved = {}
            for table in tables.values():
                if isinstance(table.store, WorldChunks):
                    table.store.drop_others(self._base)
        return self._base

    def meeting(self, changes: Changes) -> str | None:
        """Why the agent's part is not certain any more, once others made these changes."""
        for name, edits in changes.items():
            mine, entity = self.own.get(name), self._base.schema.by_name[name]
            rows = (*edits.gone, *edits.come) if mine else ()
            if mine and any(key_order(key_of(entity, row)) in mine for row in rows):
                return f"{name}: the agent and others wrote the same row in turns"
        return None

    def others(self, changes: Changes, doubt: str | None = None) -> None:
        """Add a commit of somebody else's to the world; `doubt` is why not all of it is known."""
        if doubt is not None:
            self.conflict = f"others wrote what cannot be followed: {doubt}"
        for name, edits in changes.items():
            conflict = self.meeting({name: edits})
            if conflict is not None:
                self.conflict = conflict
                continue
            entity = self._base.schema.by_name[name]
            add_edits(entity, self._moved.setdefault(name, {}), edits)
        self._after = None

    def with_changes(self, changes: Changes) -> tuple[State, Own]:
        """The world with the agent's part and these changes, and that part."""
        own = {name: dict(rows) for name, rows in self.own.items()}
        for name, edits in changes.items():
            add_edits(self.base.tables[name].type, own.setdefault(name, {}), edits)
        tables = {
            name: _patched(self.base.tables[name], rows) for name, rows in own.items() if rows
        }
        return State(self.base.schema, {**self.base.tables, **tables}), own

    def accept(self, state: State, own: Own, is_restructured: bool = False) -> None:
        """Take what was prepared as committed."""
        self.own = own
        self.is_restructured |= is_restructured
        self._after = state

    def begin_run(self) -> None:
        """Begin the agent's part anew: its work so far belongs to the world.

        A conflict stays: what others did to the agent's rows is in neither.
        """
        if self.is_restructured:
            committed = self.committed()
            tables = {name: _flat(table) for name, table in committed.tables.items()}
            self._base = State(committed.schema, tables)
        else:  # the base is moved on when it is asked for again
            for name, rows in self.own.items():
                entity = self._base.schema.by_name[name]
                add_edits(entity, self._moved.setdefault(name, {}), sided(rows.values()))
        self.own, self._after, self.is_restructured = {}, None, False

    def committed(self) -> State:
        """The world as it is, with the agent's part."""
        if self._after is None:
            self._after = self.with_changes({})[0]
        return self._after

    def part_of(self, state: State) -> tuple[Own, Changes]:
        """The agent's whole part where the world was read as `state`, and what is new in it."""
        own: dict[str, dict[Any, Sides]] = {}
        for name, rows in _differences(self.base, state).items():
            own[name] = {key_order(key): (gone, come) for key, gone, come in rows}
        new = {
            name: sided([(gone, come) for _, gone, come in rows])
            for name, rows in _differences(self.committed(), state).items()
        }
        return own, new

    def world(self, moment: str) -> SourceCapture:
        """The world as it is known, without the agent's part (`before`) or with it (`after`)."""
        return self.capture(moment, self.base if moment == "before" else self.committed())

    def prepared(self, after: State, changes: Changes, doubt: str | None = None) -> Prepared:
        """A commit that makes the world be `after`, with the changes of its transaction alone."""
        both = self.capture("before", self.base), self.capture("after", after)
        doubt = doubt or self.conflict
        return Prepared(before=both[0], after=both[1], changes=changes, doubt=doubt)

    def capture(self, moment: str, state: State) -> SourceCapture:
        """The state as the judge takes it; the same object as long as the state is."""
        known = self._captures.get(moment)
        if known is not None and known[0] is state:
            return known[1]
        part = scanned(self._name, datetime.now(UTC), state, gaps=())
        made = SourceCapture(part.reading.cited_as(f"{moment}/{self._name}"), state)
        self._captures[moment] = state, made
        return made


_COUNTING = ("db.sequence", "db.storage")
"""Types of what an engine counts by itself, and of the room that a file takes."""


def structural(changes: Changes) -> list[str]:
    """The types of the changes that say something of structure."""
    return sorted(name for name in changes if name.startswith("db.") and name not in _COUNTING)


def rows_alone(part: SourceCapture) -> SourceCapture:
    """The capture without the types that say something of structure."""
    schema = part.state.schema
    types = tuple(each for each in schema.types if not each.name.startswith("db."))
    names = {each.name for each in types}
    sources = tuple((s, tuple(n for n in ts if n in names)) for s, ts in schema.sources)
    tables = {name: table for name, table in part.state.tables.items() if name in names}
    state = State(replace(schema, types=types, sources=sources), tables)
    scan = scanned(part.reading.source, part.reading.as_of, state, gaps=())
    return SourceCapture(scan.reading.cited_as(part.reading.id), state)


def _differences(
    before: State, after: State
) -> Mapping[str, list[tuple[Key, Row | None, Row | None]]]:
    found = {}
    for name, table in after.tables.items():
        known = before.tables.get(name)
        if known is None:
            rows: list[tuple[Key, Row | None, Row | None]] = [
                (key, None, row) for key, row in table.rows()
            ]
        elif known.chunks == table.chunks:
            continue
        else:
            rows = [(c.key, c.before, c.after) for c in table_changes(known, table)]
            rows = [each for each in rows if not alike(each[1], each[2])]
        if rows:
            found[name] = rows
    return found


def sided(rows: Collection[Sides]) -> Edits:
    """The rows that are gone, and those that have come."""
    return Edits(
        tuple(before for before, _ in rows if before is not None),
        tuple(after for _, after in rows if after is not None),
    )


def net(entity: EntityType, changes: Iterable[Sides]) -> Edits:
    """The changes as one: what was there of their rows, and what is there then."""
    sides: dict[Any, Sides] = {}
    for each in changes:
        add_edits(entity, sides, sided([each]))
    return sided(sides.values())


def add_edits(entity: EntityType, own: dict[Any, Sides], edits: Edits) -> None:
    """The transaction's rows on top of the part so far, by key."""
    gone = {key_order(key_of(entity, row)): row for row in edits.gone}
    come = {key_order(key_of(entity, row)): row for row in edits.come}
    if entity.is_keyless:
        # Rows without a key are counted, each by a number of its own.
        for side, rows in ((0, edits.gone), (1, edits.come)):
            for row in rows:
                own[len(own), side] = (row, None) if side == 0 else (None, row)
        return
    for order in {**gone, **come}:
        first = own[order][0] if order in own else gone.get(order)
        last = come.get(order)
        if alike(first, last):
            own.pop(order, None)
        else:
            own[order] = first, last


def _patched(table: Table, rows: Mapping[Any, Sides], *, is_kept: bool = False) -> Table:
    both = sided(rows.values())
    return patched(table, both.gone, both.come, None if is_kept else LayeredChunks(table.store))


def _flat(table: Table) -> Table:
    """The table without the memory of what it was made of."""
    return Table(table.type, table.chunks, table.partition, table.store, table.enumeration)


class WorldChunks(MemoryChunks):
    """The chunks of a world that others move on, without those that it had before."""

    _most = 0

    def drop_others(self, state: State) -> None:
        """Keep the chunks of this state alone, once they are far fewer than all."""
        if len(self._batches) > self._most:
            listed = {ref.digest for table in state.tables.values() for ref in table.chunks}
            self._batches = {n: each for n, each in self._batches.items() if n in listed}
            self._most = 2 * len(listed) + _SPARE


_SPARE: Final = 256
"""Chunks that may be kept of older states."""
