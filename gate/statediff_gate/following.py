"""A PostgreSQL database as its log moves it on: how the rows of each table are read from there.

`read_world` reads everything once, in a snapshot; later changes come from a slot that was made
before. `Tables` makes the lines of one transaction to changes of rows, and says why where the log
does not have all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from statediff_postgres.catalogue import Catalogue
from statediff_postgres.rows import TableQuery
from statediff_postgres.session import Connection
from statediff_postgres.source import PostgresSource, Scan

from statediff.errors import UsageError
from statediff.model.batches import Row
from statediff.model.schema import EntityType
from statediff.model.state import State
from statediff.model.values import key_order
from statediff.systems.relational.schema import Shelf, state_of
from statediff_gate.course import (
    Changes,
    Course,
    Sides,
    WorldChunks,
    add_edits,
    key_of,
    sided,
)
from statediff_gate.decoding import UNCHANGED, Cells, RowLine

_TABLES: Final = """
SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relpersistence::text, c.relreplident::text,
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
  pg_partition_root(c.oid)::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384
"""


@dataclass(frozen=True)
class Known:
    """A table, and how its rows are read from the log."""

    entity: EntityType
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    """Those of the fields; `there` are all that the table has."""
    there: frozenset[str]
    query: TableQuery
    most: tuple[int, ...]
    keys: tuple[str, ...]
    """The columns of the key."""
    is_part: bool
    """A partition, whose rows are only some of the table's."""

    def key(self, cells: Cells) -> Any:
        """The key in the cells; None where they do not have all of it."""
        if any(name not in cells for name in self.keys):
            return None
        none = dict.fromkeys(self.columns)
        row = self.row({**none, **{name: cells[name] for name in self.keys}}, None)
        return None if row is None else key_of(self.entity, row)

    def row(self, cells: Cells, before: Row | None) -> Row | None:
        """The row as our reader delivers it; None where the log does not have all of it."""
        if not self.there.issuperset(cells):
            return None  # a column that was added since
        kept = {}
        texts: list[Any] = []
        for name, column, most in zip(self.fields, self.columns, self.most, strict=True):
            text = cells.get(column, UNCHANGED)
            if text is UNCHANGED:
                if before is None:
                    return None
                kept[name], text = before[name], None
            elif isinstance(text, str) and len(text) * 4 > most:
                return None
            texts.append(text)
        if self.query.is_guarded:
            texts += [None] * (2 * len(self.columns))
        return {**self.query.row(tuple(texts)), **kept}


DECODES: Final = "wal_level", "logical", "ALTER SYSTEM SET wal_level = logical"


def require_settings(own: Connection, source: str, needs: Iterable[tuple[str, str, str]]) -> None:
    """The server has the settings. `UsageError` says what to set."""
    for setting, wanted, how in needs:
        row: Any = own.execute(f"SHOW {setting}".encode()).fetchone()
        if row[0] in ("0", "minimal", "replica"):
            raise UsageError(
                f"{source}: {setting} is {row[0]} and has to be {wanted}: {how}, then restart the "
                "server"
            )


def read_world(source: PostgresSource) -> tuple[State, Catalogue, str]:
    """Everything, its catalogue, and the snapshot that it was read in."""
    seen: list[str] = []
    with source.session() as connection:
        held, catalogue = source.snapshot(connection, seen=seen.append)
        schema = source.schema_after(None, catalogue)
        scan = Scan(connection, catalogue, held, Shelf(WorldChunks()))
        state = state_of(schema, {t.name: scan.table(t, None) for t in schema.types})
    return state, catalogue, seen[-1]


class Tables:
    """The tables of a state, and why some rows of theirs are not in the log."""

    def __init__(self, own: Connection, state: State, catalogue: Catalogue) -> None:
        by_oid = {entry.relation.oid: entry for entry in catalogue.tables.values()}
        types = {t.source_table: t for t in state.schema.types}
        self.logged: dict[tuple[str, str], Known] = {}
        self.unlogged: dict[int, str] = {}
        self._unidentified: set[tuple[str, str]] = set()
        self._partitions: dict[int, list[int]] = {}
        for oid, schema, name, persistence, identity, has_key, root in own.execute(
            _TABLES.encode()
        ).fetchall():
            self._partitions.setdefault(root or oid, []).append(oid)
            entry = by_oid.get(root or oid)
            entity = None if entry is None else types.get(entry.relation.type_name)
            if entry is None or entity is None or persistence != "p":
                self.unlogged[oid] = f"{schema}.{name}"
                continue
            if identity == "n" or (identity == "d" and not has_key):
                self._unidentified.add((schema, name))
            entity = state.tables[entity.name].type
            stored = [(f, c) for f in entity.fields if (c := entry.column(f.source_column))]
            self.logged[schema, name] = Known(
                entity,
                tuple(f.name for f, _ in stored),
                tuple(c.name for _, c in stored),
                frozenset(c.name for c in entry.columns),
                TableQuery(entity, entry),
                tuple(entity.kept_bytes(f, 1024 * 1024) for f, _ in stored),
                tuple(entity.by_name[name].source_column for name in entity.key),
                is_part=root not in (None, oid),
            )

    def parts(self, oid: int) -> frozenset[int]:
        """A table, and the partitions that its rows lie in."""
        return frozenset((oid, *self._partitions.get(oid, ())))

    def types_of(self, lines: Iterable[RowLine]) -> set[str]:
        """The types of the lines' rows."""
        return {k.entity.name for r in lines if (k := self.logged.get((r.schema, r.table)))}

    def knows(self, lines: Iterable[RowLine]) -> bool:
        """True where the tables of all lines are known."""
        return all((line.schema, line.table) in self.logged for line in lines)

    def edits(self, lines: Iterable[RowLine], course: Course) -> tuple[Changes, str | None]:
        """The rows of one transaction, net by key, and why they may not be all."""
        net: dict[str, _Net] = {}
        doubt: str | None = None
        for line in lines:
            place = line.schema, line.table
            known = self.logged.get(place)
            if known is None:
                doubt = doubt or f"{line.table}: a table that was made since the gate was opened"
                continue
            name = known.entity.name
            rows = net.setdefault(name, _Net(known.entity, course))
            if line.op != "INSERT" and place in self._unidentified:
                doubt = doubt or f"{name}: its REPLICA IDENTITY does not tell which row changed"
            elif not rows.add(known, line):
                doubt = doubt or f"{name}: the log does not have the whole row"
        return {n: sided(rows.sides.values()) for n, rows in net.items() if rows.sides}, doubt


class _Net:
    """The rows of one type while the changes of a transaction are put together."""

    def __init__(self, entity: EntityType, course: Course) -> None:
        self._entity, self._course = entity, course
        self.sides: dict[Any, Sides] = {}

    def _now(self, key: Any) -> Row | None:
        order = key_order(key)
        known = self.sides.get(order)
        return self._course.row(self._entity, key) if known is None else known[1]

    def _put(self, before: Row | None, after: Row | None) -> bool:
        add_edits(self._entity, self.sides, sided([(before, after)]))
        return True

    def add(self, known: Known, line: RowLine) -> bool:
        """Add a change. False where not all of it is known."""
        if line.op == "TRUNCATE":
            return self._empty() if not known.is_part else False
        if self._entity.is_keyless:
            old = None if line.old is None else known.row(line.old, None)
            new = None if line.new is None else known.row(line.new, old)
            if (line.old is not None and old is None) or (line.new is not None and new is None):
                return False
            return self._put(old, new)
        key = known.key(line.old or line.new or {})
        if key is None:
            return False
        before = self._now(key)
        if line.op != "INSERT" and before is None:
            return False
        row = None if line.new is None else known.row(line.new, before)
        return False if line.new is not None and row is None else self._put(before, row)

    def _empty(self) -> bool:
        if not self._entity.is_keyless:
            for key, _ in self._course.committed().tables[self._entity.name].rows():
                self._put(self._now(key), None)
            for _, last in list(self.sides.values()):
                self._put(last, None)
        return not self._entity.is_keyless


@dataclass(frozen=True)
class Snapshot:
    """Which transactions a snapshot shows, by the low half of their numbers."""

    least: int
    next: int
    running: frozenset[int] = field(default_factory=frozenset)

    @staticmethod
    def of(text: str) -> Snapshot:
        least, after, running = text.split(":")
        low = [int(each) for each in running.split(",") if each]
        return Snapshot(int(least), int(after), frozenset(low))

    def has(self, xid: int) -> bool:
        """True where the snapshot shows the transaction, whose number is of 32 bits."""
        whole = (self.next >> 32 << 32) | xid
        if whole - self.next > 1 << 31:
            whole -= 1 << 32
        elif self.next - whole > 1 << 31:
            whole += 1 << 32
        return whole < self.next and whole not in self.running
