"""The states between two looks at a MariaDB database, told from its log of rows.

1. Forwards from the state before, a type is known until the first transaction that leaves it in
   doubt: a change of its definition, rows that follow others without a word in the log (foreign
   keys), cells that the log does not tell exactly.
2. Backwards from a look after the run, it is known again from the last such transaction on: the log
   has whole rows, so that what a transaction did can be taken back. With one doubt nothing is
   lost; between two of them the type is unobserved, with the cause.
3. What the log takes away must be there as it says, and what it brings must not: a log that does
   not fit the state is no history of it.

Numbers that a table gives out are in no log. Where they differ at the two ends they are unobserved
in between; without a change of definitions they only grow, so that equal ends mean no change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from statediff.capture.source import SourceUnavailable
from statediff.model.patch import patched
from statediff.model.schema import EntityType
from statediff.model.state import ChunkStore, Row, State, Table, build_table
from statediff.model.values import Unobserved, key_order, printable, same
from statediff.sources.mariadb import UNBOUNDED, Query, is_key
from statediff.sources.mariadb_catalogue import OBJECT_NAMES, Catalogue
from statediff.sources.mariadb_cells import Image, Inexact, Layout
from statediff.sources.mariadb_log import Kind, Logged, RowsChanged
from statediff.sources.relational import with_types

ACCOUNTS: Final = frozenset({"db.grant", "db.membership", "db.role"})
NUMBERS: Final = "db.sequence"
MOVED: Final = "its log does not fit the state that was read"
_ACCOUNT: Final = re.compile(
    r"\s*(GRANT|REVOKE|SET\s+PASSWORD|SET\s+DEFAULT\s+ROLE"
    r"|(CREATE|DROP|ALTER|RENAME)\s+(OR\s+REPLACE\s+)?(USER|ROLE))\b", re.IGNORECASE
)  # fmt: skip
GIVES_RIGHTS: Final = re.compile(r"\s*(GRANT|RENAME\s+USER)\b", re.IGNORECASE)
_CREATION: Final = re.compile(
    r"\s*CREATE\s+(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?"
    r"(TABLE|INDEX|TRIGGER|VIEW|PROCEDURE|FUNCTION|EVENT|SEQUENCE|DATABASE|SCHEMA)\b",
    re.IGNORECASE,
)
_SAVEPOINT: Final = re.compile(r"\s*(SAVEPOINT|RELEASE\s+SAVEPOINT)\b", re.IGNORECASE)


class Cascade(NamedTuple):
    """A foreign key whose rows follow those they refer to, which the log of rows does not tell."""

    child: str
    child_columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    on_delete: bool
    on_update: bool


@dataclass(frozen=True)
class Look:
    """What the catalogue told at one end of the run."""

    catalogue: Catalogue
    cascades: tuple[Cascade, ...]


class _Change(NamedTuple):
    """One row as it was and as it is then; None where there is none."""

    old: Row | None
    new: Row | None


@dataclass
class _Doubts:
    """Of each type in doubt: the first and the last transaction that left it so, and why."""

    first: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, number: int, cause: str) -> None:
        self.first.setdefault(name, number)
        self.last[name] = max(number, self.last.get(name, number))
        self.causes.setdefault(name, cause)


class Replay:
    """One run: first `forwards`, then `backwards` from a look at what is in doubt, then `state`."""

    def __init__(
        self, database: str, before: State, start: Look, logged: Sequence[Logged], store: ChunkStore
    ) -> None:
        self._database = database
        self._before = before
        self._start = start
        self._logged = logged
        self._store = store
        self._types = {t.source_table: t for t in before.schema.types if t.name not in OBJECT_NAMES}
        self._forwards: list[dict[str, Table]] = []
        self._backwards: dict[int, dict[str, Table]] = {}
        self._doubts = _Doubts()
        self._cascades = start.cascades
        self._redefined: list[int] = []
        """The transactions after which the catalogue may be another one."""

    @property
    def doubts(self) -> dict[str, str]:
        """The types that the log does not establish at the end, with the cause."""
        return self._doubts.causes

    # Forwards

    def forwards(self, end: Look) -> None:
        """Each transaction applied to what is known so far. Raises `SourceUnavailable`."""
        self._cascades = tuple(dict.fromkeys((*self._start.cascades, *end.cascades)))
        state = dict(self._before.tables)
        self._forwards = [state]
        for name, table in self._before.tables.items():
            if not table.enumeration.is_complete:
                self.distrust(name, table.enumeration.cause or "it was not read whole before")
        for number, transaction in enumerate(self._logged, start=1):
            state = dict(state)
            for text in transaction.statements:
                self._doubt_statement(number, text, rows=bool(transaction.rows))
            changes: dict[str, list[_Change]] = {}
            for rows in transaction.rows:
                self._follow(number, rows, changes, state)
            for name in [n for n in state if n in self._doubts.first]:
                del state[name]
            for name, changed in changes.items():
                if name in state:
                    state[name] = _applied(state[name], changed)
            self._forwards.append(state)

    def _doubt_statement(self, number: int, text: str, *, rows: bool) -> None:
        shown = printable(" ".join(text.split()[:3]))
        cause = f"no history: {shown} changed more than its log tells"
        if _ACCOUNT.match(text):
            touched: Iterable[str] = ACCOUNTS
        elif _SAVEPOINT.match(text):
            return
        elif _CREATION.match(text) and not rows:
            touched = OBJECT_NAMES - ACCOUNTS
            self._redefined.append(number)
        else:
            touched = self._before.tables.keys() | OBJECT_NAMES
            self._redefined.append(number)
        for name in touched:
            self._doubts.add(name, number, cause)

    def _follow(
        self,
        number: int,
        rows: RowsChanged,
        changes: dict[str, list[_Change]],
        state: dict[str, Table],
    ) -> None:
        if rows.database != self._database:
            if rows.database == "mysql":
                self._doubt_statement(number, "a write to the tables of mysql", rows=True)
            return
        entity_type = self._types.get(rows.table)
        if entity_type is None:
            # A sequence, or a table made in the run, whose rows are known from its making on.
            self._doubts.add(NUMBERS, number, "no history: sequences give out numbers unlogged")
            return
        name, found = entity_type.name, None
        if name in state and name not in self._doubts.first:
            try:
                found = self._read(rows, entity_type, self._start.catalogue)
                changes.setdefault(name, []).extend(found)
            except Inexact as error:
                self._doubts.add(name, number, f"no history: {error}")
        self._cascade(number, rows, found, changes, state)

    def _cascade(
        self,
        number: int,
        rows: RowsChanged,
        found: Sequence[_Change] | None,
        changes: dict[str, list[_Change]],
        state: dict[str, Table],
    ) -> None:
        """Rows of other tables may follow these: their types are in doubt where some might."""
        if not rows.keys_checked or rows.kind is Kind.WRITE:
            return
        for key in self._cascades:
            follows = key.on_delete if rows.kind is Kind.DELETE else key.on_update
            child = self._types.get(key.child)
            if key.parent != rows.table or not follows or child is None:
                continue
            gone = None if found is None else _gone(self._types[rows.table], key, found)
            if gone == []:
                continue
            known = None if child.name in self._doubts.first else state.get(child.name)
            if (
                gone is None
                or known is None
                or _may_follow(child, key, gone, known, changes.get(child.name, []))
            ):
                self._doubt_followers(number, child, set())

    def _doubt_followers(self, number: int, child: EntityType, seen: set[str]) -> None:
        if child.name in seen:
            return
        seen.add(child.name)
        self._doubts.add(
            child.name, number, "no history: rows that follow others change without being logged"
        )
        for key in self._cascades:
            follower = self._types.get(key.child)
            if key.parent == child.source_table and follower is not None:
                self._doubt_followers(number, follower, seen)

    # Backwards

    def backwards(self, end: State, look: Look) -> None:
        """What is in doubt, told from its state after the run. Raises `SourceUnavailable`."""
        types = {t.source_table: t for t in end.schema.types if t.name not in OBJECT_NAMES}
        state = dict(end.tables)
        for name in state.keys() - self._before.tables.keys():
            for number in self._redefined:
                self._doubts.add(name, number, "no history: it was made in the run")
        self._backwards[len(self._logged)] = state
        for number in range(len(self._logged), 0, -1):
            state = dict(state)
            changes: dict[str, list[_Change]] = {}
            for rows in reversed(self._logged[number - 1].rows):
                entity_type = types.get(rows.table)
                if rows.database != self._database or entity_type is None:
                    continue
                name = entity_type.name
                if name not in state or self._doubts.last.get(name, 0) >= number:
                    continue
                try:
                    found = self._read(rows, entity_type, look.catalogue)
                    changes.setdefault(name, []).extend(_Change(c.new, c.old) for c in found[::-1])
                except Inexact as error:
                    self._doubts.add(name, number, f"no history: {error}")
            for name in list(state):
                is_whole = state[name].enumeration.is_complete
                if not is_whole or self._doubts.last.get(name, 0) >= number:
                    del state[name]
                elif name in changes:
                    state[name] = _applied(state[name], changes[name])
            self._backwards[number - 1] = state

    def unlogged(self, end: State) -> list[str]:
        """Schema objects that are others after the run without the log saying so, sorted."""
        last = self._forwards[-1]
        return sorted(
            name for name in OBJECT_NAMES & last.keys() - {NUMBERS}
            if last[name].chunks != end.tables[name].chunks
        )  # fmt: skip

    def tell(self, name: str, tables: Mapping[int, Table]) -> None:
        """The type after these transactions is known otherwise, and stays so until the next."""
        known: Table | None = None
        for number, state in enumerate(self._forwards):
            known = tables.get(number, known)
            if known is not None:
                state[name] = known

    def distrust(self, name: str, cause: str) -> None:
        """Nothing of the type is known but at the ends."""
        self._doubts.first[name], self._doubts.last[name] = 0, len(self._logged)
        self._doubts.causes[name] = cause
        for state in self._forwards:
            state.pop(name, None)

    # What came of it

    def state(self, number: int, end: State) -> State:
        """The state after a transaction; the last one is as `end` in what is in doubt."""
        tables: dict[str, Table] = {}
        forwards, backwards = self._forwards[number], self._backwards.get(number, {})
        for name in self._before.tables.keys() | end.tables.keys():
            if name == NUMBERS:
                continue
            known = forwards.get(name) or backwards.get(name)
            if known is not None:
                tables[name] = known
            elif name in self._before.tables or number >= self._doubts.first[name]:
                known = self._before.tables.get(name) or end.tables[name]
                tables[name] = self._unobserved(known, self._doubts.causes[name])
        if NUMBERS in self._before.tables:
            is_last = number == len(self._logged)
            tables[NUMBERS] = end.tables[NUMBERS] if is_last else self._numbers(end.tables[NUMBERS])
        base = self._before.schema if number < max(self._redefined, default=0) else end.schema
        schema = replace(
            with_types(base, {name: table.type for name, table in tables.items()}),
            sources=tuple((source, tuple(sorted(tables))) for source, _ in base.sources),
        )
        schema = replace(schema, types=tuple(t for t in schema.types if t.name in tables))
        return State(schema, tables)

    def _unobserved(self, table: Table, cause: str) -> Table:
        return build_table(table.type, (), self._store, like=table).unobserved(cause)

    def _numbers(self, end: Table) -> Table:
        """The numbers that tables give out next, between the ends."""
        table = self._before.tables[NUMBERS]
        if NUMBERS in self._doubts.first:
            return self._unobserved(table, self._doubts.causes[NUMBERS])
        after = {key_order(key): row for key, row in end.rows()}
        open_value = Unobserved("no history: numbers are given out without being logged")
        rows = [
            row if same(row["value"], after.get(key_order(key), {}).get("value"))
            else {**row, "value": open_value}
            for key, row in table.rows()
        ]  # fmt: skip
        return build_table(table.type, rows, self._store, like=table)

    def _read(
        self, rows: RowsChanged, entity_type: EntityType, catalogue: Catalogue
    ) -> list[_Change]:
        """The rows of an event as a scan would have read them. Raises `Inexact`."""
        entry = catalogue.tables.get(rows.table)
        if entry is None or entry.unreadable is not None:
            raise Inexact("its table is not one whose rows can be read")
        if not entity_type.is_keyless and any(
            entry.column(entity_type.by_name[k].source_column) is None for k in entity_type.key
        ):
            raise Inexact("its key is another one")
        collations = {
            str(row["name"]): None if row["collation"] is None else str(row["collation"])
            for row in catalogue.objects["db.column"] if row["table"] == rows.table
        }  # fmt: skip
        kinds = {row["name"]: row["kind"] for row in catalogue.objects["db.table"]}
        if kinds.get(rows.table) != "table":
            raise Inexact("its old rows are kept beside the present ones")
        layout = Layout(rows.columns, entry, collations)
        query = Query(self._database, entity_type, entry)
        found: list[_Change] = []
        for images in layout.images(rows.content, rows.bitmaps):
            made = [_row(query, entity_type, image) for image in images]
            match rows.kind:
                case Kind.WRITE:
                    found.append(_Change(None, made[0]))
                case Kind.DELETE:
                    found.append(_Change(made[0], None))
                case Kind.UPDATE:
                    found.append(_Change(made[0], made[1]))
        return found


def _row(query: Query, entity_type: EntityType, image: Image) -> Row:
    cells: list[Any] = []
    sizes: list[Any] = []
    for column in query.columns:
        cell = image[column.name]
        cells.append(cell)
        if column.data_type in UNBOUNDED:
            content = cell.encode() if isinstance(cell, str) else cell
            sizes.append(None if content is None else len(content))
    row = query.row((*cells, *sizes))
    if not all(is_key(row[name]) for name in entity_type.key):
        raise Inexact("a row has a key beyond the capture limit")
    return row


def _applied(table: Table, changes: Sequence[_Change]) -> Table:
    """The table after the changes, in their order. Raises `SourceUnavailable`."""
    try:
        if table.type.is_keyless:
            gone = [c.old for c in changes if c.old is not None]
            come = [c.new for c in changes if c.new is not None]
        else:
            gone, come = _net(table.type, changes)
        return patched(table, gone, come)
    except ValueError as error:
        raise SourceUnavailable(f"{MOVED}: {printable(str(error))}") from error


def _net(entity_type: EntityType, changes: Iterable[_Change]) -> tuple[list[Row], list[Row]]:
    """What was there of the rows that changed, and what is there then."""
    first: dict[Any, Row | None] = {}
    last: dict[Any, Row | None] = {}
    for change in changes:
        for row, is_new in ((change.old, False), (change.new, True)):
            if row is None:
                continue
            order = key_order(tuple(row[name] for name in entity_type.key))  # type: ignore[misc]  # keys are values
            there = last.get(order)
            if order not in first:
                first[order] = None if is_new else row
            elif (there is not None) if is_new else (there is None or not _equal(there, row)):
                raise ValueError(f"a row of {entity_type.name} changes into another one")
            last[order] = row if is_new else None
    gone = [row for row in first.values() if row is not None]
    return gone, [row for row in last.values() if row is not None]


def _equal(one: Row, other: Row) -> bool:
    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


def _gone(parent: EntityType, key: Cascade, found: Iterable[_Change]) -> list[tuple[Any, ...]]:
    """What rows may have referred to, and what is no longer there after the changes."""
    fields = _fields(parent, key.parent_columns)
    gone = []
    for change in found:
        if change.old is None:
            continue
        old = tuple(change.old.get(name) for name in fields)
        new = None if change.new is None else tuple(change.new.get(name) for name in fields)
        is_whole = len(fields) == len(key.parent_columns)
        if new is None or not is_whole or not all(map(same, old, new)):
            gone.append(old)
    return gone


def _may_follow(
    child: EntityType,
    key: Cascade,
    gone: Iterable[tuple[Any, ...]],
    known: Table,
    changes: Sequence[_Change],
) -> bool:
    """Whether a row of the child's may refer to one of what is gone."""
    fields = _fields(child, key.child_columns)
    wanted = list(gone)
    present = _applied(known, changes) if changes else known
    return any(
        all(map(_may_be, (row[name] for name in fields), values))
        for _, row in present.rows(fields)
        for values in wanted
    )


def _may_be(one: Any, other: Any) -> bool:
    """Whether the server may take two values for equal; of texts, nobody but itself can say."""
    if one is None or other is None:
        return False
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return True


def _fields(entity_type: EntityType, columns: Iterable[str]) -> tuple[str, ...]:
    by_column = {f.source_column: f.name for f in entity_type.fields}
    return tuple(by_column[c] for c in columns if c in by_column)
