"""A SQLite file behind the gate: the open transaction of a connection of ours.

The hook before each change of a row (`sqlite3_preupdate_hook`) names every row that the transaction
touched, by triggers and cascades too, and of tables without a key. What it does not name decides
that the whole is read instead, from the pages of the open transaction (`serialize`): another
`schema_version`, other settings in the file's header, virtual tables, generated columns, statistics
and values beyond the capture limit.

The process holds two copies of the library, apsw's and Python's own. Two copies in one process give
up each other's locks on a file (sqlite.org/howtocorrupt, §2.2.1), so that here only apsw ever opens
the database: our reader gets a copy, in a folder of its own.

A transaction holds the write lock from its beginning, so that nobody writes between what is judged
and its commit. Nothing is prepared durably: of several systems this one commits first of all once
the others are prepared, and its commit is the decision (`statediff_gate.journal`).
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

import apsw

from statediff.errors import InputError
from statediff.model.batches import Row
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Key, printable
from statediff.systems.base.plugin import Refinement
from statediff.systems.relational.schema import quoted
from statediff.systems.relational.tools import Scalar
from statediff.systems.sqlite.catalogue import Catalogue
from statediff.systems.sqlite.definitions import folded
from statediff.systems.sqlite.scan import MAX_VALUE_BYTES, Query
from statediff.systems.sqlite.source import SqliteSource
from statediff_gate.course import Changes, Course, Edits, Prepared
from statediff_gate.participant import MOST_ROWS, Answer, Participant, Refused, refuse_ends
from statediff_gate.statements import SQLITE

_SEQUENCES: Final = "sqlite_sequence"
_HEADER: Final = ("schema_version", "user_version", "application_id")
_STATISTICS: Final = ("sqlite_stat1", "sqlite_stat4")
_LOCKED_MS: Final = 5000
_READING: Final = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info"})
"""Pragmas that an agent may ask; all others set something of the connection or the file."""
_PASSING: Final = frozenset({"query_only", "defer_foreign_keys"})
"""Pragmas that only refuse more, and that the next transaction does not find."""
_REFUSED: Final = (
    apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH,
    apsw.SQLITE_CREATE_TEMP_VIEW, apsw.SQLITE_CREATE_TEMP_TRIGGER,
)  # fmt: skip
"""Actions that end a transaction half, or that act on another one from the connection."""
_LOOKS: Final = frozenset({
    apsw.SQLITE_PRAGMA, apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION,
    apsw.SQLITE_RECURSIVE,
})  # fmt: skip
_ENFORCED: Final = "foreign_keys"
_YES: Final = frozenset({"1", "on", "true", "yes"})
_TEMPORARY: Final = """
SELECT name FROM temp.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC"""
"""Tables of the connection alone; a virtual one takes those that it is kept in along."""


class SqliteGate(Participant):
    """One database file behind the gate."""

    is_single: ClassVar[bool] = False
    product: ClassVar[tuple[str, str] | None] = ("SQLite", SQLITE)

    def __init__(self, name: str, path: Path, refine: Refinement | None = None) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix="statediff-gate-")
        self._refine = refine
        self._is_agents = False
        self._has_acted = False
        self._wish: bool | None = None
        self._dangling: Counter[Any] | None = None
        try:
            flags = apsw.SQLITE_OPEN_READWRITE
            self._db = apsw.Connection(str(path), flags=flags)
        except apsw.Error as error:
            raise InputError(f"{printable(str(path))}: cannot be opened: {error}") from error
        self._db.set_busy_timeout(_LOCKED_MS)
        self._db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        self._db.preupdate_hook(self._note)
        self._db.authorizer = self._authorize
        self._touched: dict[tuple[str, Any], list[Any]] = {}
        self._whole: str | None = None
        self._plain: dict[str, _PlainTable] = {}
        self._db.execute("BEGIN")
        state = self._read(None)
        self._version = self._ask("PRAGMA data_version")
        self._db.execute("ROLLBACK")
        self._course = Course(name, state)

    def begin_run(self) -> None:
        super().begin_run()
        self._db.execute("PRAGMA query_only = OFF")
        for name in [row[0] for row in self._db.execute(_TEMPORARY)]:
            self._db.execute(f"DROP TABLE IF EXISTS temp.{quoted(name)}")

    def begin(self, transaction: str) -> None:
        self._begin(is_enforced=True)

    def _begin(self, *, is_enforced: bool) -> None:
        try:
            self._db.execute(f"PRAGMA query_only = OFF; PRAGMA {_ENFORCED} = {is_enforced}")
            self._db.execute("BEGIN IMMEDIATE")
        except apsw.Error as error:
            raise Refused(f"{self.name}: no transaction can begin: {error}") from error
        self._touched, self._whole = {}, None
        self._has_acted, self._wish = False, None
        self._dangling = None if is_enforced else self._pointing_nowhere()
        version = self._ask("PRAGMA data_version")
        if version != self._version:
            self._follow()
            self._version = version
        self._header = self._numbers()
        self._sequences = self._counted((_SEQUENCES,)), self._counted(_STATISTICS)

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Answer:
        refuse_ends(statement)
        self._is_agents = True
        try:
            cursor = self._db.cursor()
            before = self._db.total_changes()
            cursor.execute(statement, tuple(values) or None)
            names = _names(cursor)
            rows = tuple(itertools.islice(cursor, MOST_ROWS + 1))
            for _ in cursor:  # a statement that writes ends with its last row
                pass
            touched = self._db.total_changes() - before
            self._switch()
            return Answer(names, rows[:MOST_ROWS], touched, len(rows) > MOST_ROWS)
        except (apsw.Error, UnicodeDecodeError, ValueError, TypeError) as error:
            raise Refused(f"{self.name}: the database refuses it: {error}") from error
        finally:
            self._is_agents = False

    def _switch(self) -> None:
        """Foreign keys as the agent wishes, in a new transaction: SQLite changes them in none.

        As in SQLite it is without effect where the transaction wrote already. The next transaction
        has them again.
        """
        wish, self._wish, self._is_agents = self._wish, None, False
        if wish is None or self._has_acted or wish == (self._dangling is None):
            return
        self._db.execute("ROLLBACK")
        self._begin(is_enforced=wish)

    def _pointing_nowhere(self) -> Counter[Any]:
        """(table, the table it refers to) → how many of its rows refer to none."""
        found = self._db.execute("PRAGMA main.foreign_key_check")
        return Counter((table, parent) for table, _, parent, _ in found)

    def prepare(self) -> Prepared:
        course = self._course
        if self._dangling is not None:
            for table, parent in self._pointing_nowhere() - self._dangling:
                raise Refused(f"{self.name}: rows of {table} refer to rows of {parent} that are"
                              " not there, which foreign keys would not allow")  # fmt: skip
        whole = self._reason_to_read_all()
        if whole is None:
            changes = self._edits()
            state, own = course.with_changes(changes)
        else:
            state = self._read(course.base)
            own, changes = course.part_of(state)
        self._proposed = state, own, self._header[0] != self._numbers()[0]
        return course.prepared(state, changes)

    def row(self, name: str, key: Key) -> Row | None:
        """The row that is there, of a type with a key."""
        table = self._course.committed().tables.get(name)
        return None if table is None else table.row(key)

    def count(self, name: str, digest: str) -> int:
        """How many rows of this content a type without a key has."""
        table = self._course.committed().tables.get(name)
        numbers = itertools.count(1)
        if table is None:
            return 0
        return next(n for n in numbers if table.row((digest, n)) is None) - 1

    def commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except apsw.Error as error:
            self.abort()
            raise Refused(f"{self.name}: nothing was committed: {error}") from error
        self._course.accept(*self._proposed)
        if self._whole is not None:
            self._plain = {}

    def abort(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):
            self.abort()
        self._db.close(True)
        self._folder.cleanup()

    # ------------------------------------------------------------ what the transaction did

    def _note(self, update: apsw.PreUpdate) -> None:
        """A row is about to change: its first content and its last one are kept."""
        if update.database_name != "main":
            return
        table = update.table_name
        plain: _PlainTable | None = self._plain.get(folded(table))
        if plain is None:
            self._whole = f"{table} is not a plain table"
            return
        for identity, side, row in (
            (update.rowid, 0, update.old),
            (update.rowid_new, 1, update.new),
        ):
            if row is None:
                continue
            place = (folded(table), identity if plain.has_row_ids else plain.key(row))
            kept = self._touched.setdefault(place, [None, None, False])
            if not kept[2]:
                kept[0], kept[2] = (row if side == 0 else None), True
            kept[1] = row if side == 1 else None

    def _reason_to_read_all(self) -> str | None:
        if self._numbers() != self._header:
            self._whole = "the structure or the settings of the file changed"
        elif self._course.is_restructured:
            self._whole = "the structure was changed before"
        elif self._counted(_STATISTICS) != self._sequences[1]:
            self._whole = "statistics were made"
        elif any(_is_large(row) for kept in self._touched.values() for row in kept[:2]):
            self._whole = "a value is beyond the capture limit"
        return self._whole

    def _edits(self) -> Changes:
        found: dict[str, tuple[list[Any], list[Any]]] = {}
        for (table, _), (first, last, _) in self._touched.items():
            if repr(first) != repr(last):  # to Python 1 and 1.0 are one
                known = self._plain[table]
                gone, come = found.setdefault(known.type_name, ([], []))
                gone += [] if first is None else [known.row(first)]
                come += [] if last is None else [known.row(last)]
        counted = self._counted((_SEQUENCES,))
        if counted != self._sequences[0] and (plain := self._plain.get(_SEQUENCES)) is not None:
            old, new = self._sequences[0][0], counted[0]
            both = found.setdefault(plain.type_name, ([], []))
            both[0].extend(plain.row(row) for row in old if row not in new)
            both[1].extend(plain.row(row) for row in new if row not in old)
        return {
            name: Edits(tuple(gone), tuple(come))
            for name, (gone, come) in found.items()
            if gone or come
        }

    def _numbers(self) -> tuple[Any, ...]:
        return tuple(self._ask(f"PRAGMA {name}") for name in _HEADER)

    def _counted(self, tables: Sequence[str]) -> tuple[Any, ...]:
        """The rows of SQLite's own tables, which the hook does not name."""
        found = []
        for table in tables:
            is_there = self._ask(f"SELECT 1 FROM main.sqlite_schema WHERE name = '{table}'")  # noqa: S608 - ours
            found.append(tuple(self._db.execute(f"SELECT * FROM main.{table}")) if is_there else ())  # noqa: S608 - ours
        return tuple(found)

    def _ask(self, question: str) -> Any:
        return next(iter(self._db.execute(question)), (None,))[0]

    def _authorize(self, action: int, one: str | None, other: str | None, *_: str | None) -> int:
        """SQLite's question about each step of an agent's statement."""
        if not self._is_agents:
            return int(apsw.SQLITE_OK)
        self._has_acted |= action not in _LOOKS
        if action == apsw.SQLITE_PRAGMA and folded(one or "") == _ENFORCED and other is not None:
            self._wish = folded(other) in _YES
            return int(apsw.SQLITE_OK)
        is_setting = action == apsw.SQLITE_PRAGMA and folded(one or "") not in _READING | _PASSING
        if action in _REFUSED or (is_setting and other is not None):
            return int(apsw.SQLITE_DENY)
        return int(apsw.SQLITE_OK)

    # ------------------------------------------------------------ the world

    def _follow(self) -> None:
        """Take over what others committed before this transaction began."""
        course = self._course
        state = self._read(course.base)
        if course.own and course.is_restructured:
            course.conflict = "others wrote after the agent had changed the structure"
            return
        if state.schema != course.base.schema and not course.own:
            self._course = Course(self.name, state)
            return
        _, changes = course.part_of(state)
        course.others(changes)

    def _read(self, like: State | None) -> State:
        """The whole, as the open transaction sees it: its pages, read by our reader in a copy."""
        copy = Path(self._folder.name) / "copy.sqlite"
        copy.write_bytes(self._db.serialize("main"))
        source = SqliteSource(self.name, copy, self._refine)
        state = source.read(MemoryChunks(), lambda: datetime.now(UTC), like).state
        with closing(source.open()) as connection:
            catalogue = source.begin(connection)
            (encoding,) = connection.execute("PRAGMA main.encoding").fetchone()
        for beside in Path(self._folder.name).glob("copy.sqlite*"):
            beside.unlink()
        if encoding == "UTF-8":
            self._plain = _plain_tables(state, catalogue, self._columns)
        else:
            self._plain = {}
        return state

    def _columns(self, table: str) -> tuple[str, ...]:
        return tuple(
            row[1] for row in self._db.execute(f"PRAGMA main.table_xinfo({quoted(table)})")
        )


class _PlainTable:
    """A table of which the hook says all, and how what it says becomes a row."""

    def __init__(self, query: Query, type_name: str, names: Sequence[str], places: list[int],
                 keys: list[int], *, has_row_ids: bool) -> None:  # fmt: skip
        self.type_name = type_name
        self.has_row_ids = has_row_ids
        self._query, self._names, self._places, self._keys = query, names, places, keys

    def key(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """The key of a row of a table without row ids."""
        return tuple(row[at] for at in self._keys)

    def row(self, stored: Sequence[Any]) -> Any:
        """The row as our reader delivers it."""
        return self._query.row([stored[at] for at in self._places], None)


def _plain_tables(
    state: State, catalogue: Catalogue, columns_of: Callable[[str], Sequence[str]]
) -> dict[str, _PlainTable]:
    """Folded name → table; none where a virtual table may keep its own in others."""
    lines = (line for about in catalogue.lines.values() for line in about)
    if any("VIRTUAL" in str(line[-1]).upper()[:40] for line in lines):
        return {}
    found: dict[str, _PlainTable] = {}
    for entity in state.schema.types:
        entry = catalogue.tables.get(folded(entity.source_table))
        table = state.tables[entity.name]
        if entry is None or entry.unreadable or not table.enumeration.is_complete:
            continue
        if any(column.hidden for column in entry.columns):
            continue
        query = Query(table.type, entry, False, None)
        is_digested = any(field.digest_above_bytes is not None for field in entity.fields)
        order = [folded(name) for name in columns_of(entry.name)]
        fields = table.type.by_name
        wanted = [folded(fields[name].source_column) for name in query.names]
        if is_digested or not set(wanted) <= set(order):
            continue  # e.g. a key that is the number of a row, which no column is
        found[folded(entry.name)] = _PlainTable(
            query,
            entity.name,
            order,
            [order.index(name) for name in wanted],
            [order.index(folded(column.name)) for column in entry.key],
            has_row_ids=entry.has_row_ids,
        )
    return found


def _names(cursor: apsw.Cursor) -> tuple[str, ...]:
    try:
        return tuple(each[0] for each in cursor.get_description())
    except apsw.ExecutionCompleteError:
        return ()  # it gives no rows


def _is_large(row: Sequence[Any] | None) -> bool:
    most = MAX_VALUE_BYTES // 4
    return row is not None and any(isinstance(v, str | bytes) and len(v) > most for v in row)
