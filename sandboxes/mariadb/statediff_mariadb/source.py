"""MariaDB as a source: every row, schema object, account and setting, in one consistent read.

1. A connection with the evaluator's own account, in UTC and with strict quoting, read only.
2. The catalogue, which no transaction covers, is read before and after the rows; where the two
   differ the reading begins again.
3. Rows come from plain tables of InnoDB in one snapshot. A table of another engine has none: those
   whose rows are in the server are locked against writing before the snapshot is taken, by a
   session apart, until all is read. What cannot be locked, or whose definition changed after the
   snapshot, is unobserved; so are such tables of a sandbox's own server, which no feed follows.
4. No view, trigger or routine is run: a table that was read is held until the end, and is then
   found to be a table still.

A table that cannot be read to its end is incomplete or unobserved with the cause, and the others
stand; only a server that does not answer, or has no readable catalogue, is unavailable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar, Final

import pymysql
from pymysql.constants import ER
from pymysql.cursors import SSCursor

from statediff.capture.source import Clock, SourceRuined, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.explanation import unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES, EntityType, Field, Kind, Schema
from statediff.model.state import ChunkStore, State, Table
from statediff.model.values import ABSENT, Digested, printable
from statediff.systems.base.rows import Convert, converter, instant, zone_named
from statediff.systems.relational.schema import (
    Pass,
    Refine,
    Shelf,
    continued,
    is_key,
    state_of,
    unread_value,
)
from statediff.systems.relational.structure import STRUCTURE, Checked, structure_table
from statediff.systems.relational.urls import EVERY_TABLE, TableChoice
from statediff_mariadb.catalogue import (
    OBJECT_NAMES,
    Catalogue,
    Column,
    TableEntry,
    catalogue_schema,
    read_catalogue,
)
from statediff_mariadb.session import Connection, cause_of, connected, fetched, quoted
from statediff_mariadb.structure import check

MAX_VALUE_BYTES: Final = 1024 * 1024
LOCK_SECONDS: Final = 2
READ_SECONDS: Final = 300
TABLE_SECONDS: Final = 6 * 3600
"""All rows of one table, while none of them takes longer than `READ_SECONDS` to come."""
ATTEMPTS: Final = 3
UNBOUNDED: Final = frozenset({"longtext", "longblob", "geometry", "json"})
BINARY: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
DIGESTIBLE: Final = BINARY | {
    "char",
    "varchar",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "json",
}
_SESSIONS: Final = """
SELECT user FROM information_schema.processlist
WHERE db = {db} AND id <> CONNECTION_ID() AND command <> 'Daemon'
"""
_SEES_ALL: Final = """
SELECT 1 FROM information_schema.user_privileges WHERE privilege_type = 'SELECT'
UNION SELECT 1 FROM information_schema.schema_privileges
WHERE privilege_type = 'SELECT' AND {db} LIKE table_schema
"""
"""Whether the account may read the whole database, so that what it does not see is not there."""
_SETTINGS: Final = (
    (
        "SET SESSION time_zone = '+00:00', sql_mode = 'ANSI_QUOTES', "
        f"lock_wait_timeout = {LOCK_SECONDS}, innodb_lock_wait_timeout = {LOCK_SECONDS}, "
        f"max_statement_time = {READ_SECONDS}, group_concat_max_len = 1048576"
    ),
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)


class MariaDbSource:
    """One database of a MariaDB server as a source.

    `url` holds the evaluator's account, and as `unix_socket` in its query where the server is.
    `refine` maps the schema of the catalogue to the logical one. Of the database's tables only
    those of `tables` are read. With `may_mark` the whole server is a sandbox's: all of it is read,
    and its indexes are checked, so that it may mark one that is damaged and nobody can use any
    more. Of another server, other databases and accounts without rights here are outside.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "other databases of a server that is not the sandbox's, and accounts without rights here",
        "rows of other databases of a sandbox's server, and of temporary tables",
        "rows of tables that have no snapshot and are not locked: they are unobserved",
        "statistics, and what the server counts and logs",
        "functions of libraries (`mysql.func`), servers, time zones and other tables of `mysql`",
        "files of the server: its configuration, plug-ins, what a program left in its folders",
        "indexes that do not have what their tables have, but for those over computed values",
        "which words a full-text index leaves out",
        "sessions, locks and what has not been committed",
    )

    def __init__(
        self,
        name: str,
        url: str,
        refine: Refine | None = None,
        own_databases: Container[str] = (),
        *,
        tables: TableChoice = EVERY_TABLE,
        may_mark: bool = False,
    ) -> None:
        self._name = name
        self._may_mark = may_mark
        self._tables = tables
        self._url = url
        self._refine = refine
        self._own = own_databases

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        with self.session() as (connection, database):
            catalogue = self.catalogue(connection, database)
            self._tables.require((database, name) for name in catalogue.tables)
            return self._schema(catalogue)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()  # before the snapshot is taken: the state shown is never older than this
        with self.session() as (connection, database):
            for _ in range(ATTEMPTS):
                catalogue = self.catalogue(connection, database)
                self._require_sight(connection, database, catalogue, like)
                state, failures = self.look(connection, database, catalogue, store, like)
                is_steady = self.catalogue(connection, database) == catalogue
                connection.rollback()
                if is_steady:
                    break
            else:
                raise SourceUnavailable("its tables kept changing while they were read")
        return scanned(self._name, as_of, state, gaps=failures)

    def _require_sight(
        self, connection: Connection[Any], database: str, catalogue: Catalogue, like: State | None
    ) -> None:
        """`SourceUnavailable` where a table may be hidden: it looks as if it had been dropped."""
        known = (
            [] if like is None else [t for t in like.tables.values() if t.enumeration.is_complete]
        )
        gone = [
            t.type.source_table
            for t in known
            if not t.type.name.startswith(SCHEMA_OBJECT_PREFIXES)
            and t.type.source_table not in catalogue.tables
        ]
        if gone and not fetched(connection, _SEES_ALL, database):
            raise SourceUnavailable(
                f"{printable(gone[0])} was dropped, or this account may not see it any more; give "
                "it the right to read all tables of the database"
            )

    def sessions(self) -> tuple[str, ...]:
        """Other clients of the database, as far as this account may see them."""
        with self.session() as (connection, database):
            found = fetched(connection, _SESSIONS, database)
        return tuple(sorted(printable(str(who)) for (who,) in found))

    def look(
        self,
        connection: Connection[Any],
        database: str,
        catalogue: Catalogue,
        store: ChunkStore,
        like: State | None,
        wanted: Collection[str] | None = None,
    ) -> tuple[State, list[str]]:
        """All types, or those of `wanted` and those that `like` lacks, and what failed.

        They are read in a snapshot, whose transaction stays open.
        """
        checked = check(connection, database, catalogue.at_risk, may_mark=self._may_mark)
        if like is None or not like.schema.types:
            schema = self._schema(catalogue)
        else:
            found = catalogue_schema(self._name, catalogue)
            schema = continued(like.schema, found, OBJECT_NAMES, "here.")
        with self._locked(database, catalogue) as locked:
            connection.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            scan = Scan(connection, database, catalogue, Shelf(store), checked, locked)
            tables = {
                t.name: scan.table(t, None if like is None else like.tables.get(t.name))
                for t in schema.types
                if wanted is None or like is None or t.name in wanted or t.name not in like.tables
            }
        state = state_of(schema, tables)
        return state, scan.shelf.failures

    @contextlib.contextmanager
    def _locked(self, database: str, catalogue: Catalogue) -> Iterator[Container[str]]:
        """The tables without a snapshot that nobody writes meanwhile."""
        names = sorted(name for name, entry in catalogue.tables.items() if entry.is_locked)
        if self._may_mark or not names:
            yield ()
            return
        with self.session() as (keeper, _):
            held = ", ".join(f"{quoted(database)}.{quoted(name)} READ" for name in names)
            try:
                keeper.query(f"LOCK TABLES {held}")
            except pymysql.Error:  # it may not, or somebody writes them
                names = []
            yield names

    def _schema(self, catalogue: Catalogue) -> Schema:
        schema = catalogue_schema(self._name, catalogue)
        return schema if self._refine is None else self._refine(schema)

    @contextlib.contextmanager
    def session(self) -> Iterator[tuple[Connection[Any], str]]:
        """A connection that reads, and the database's name. Raises `SourceUnavailable`."""
        try:
            connection, database = connected(self._url, READ_SECONDS)
            with contextlib.closing(connection):
                for statement in _SETTINGS:
                    connection.query(statement)
                yield connection, database
        except (pymysql.Error, OSError) as error:
            is_gone = isinstance(error, pymysql.Error) and error.args[:1] == (ER.BAD_DB_ERROR,)
            refusal = SourceRuined if is_gone else SourceUnavailable
            raise refusal(cause_of(error)) from error
        except UnicodeDecodeError as error:
            raise SourceRuined("a name in its catalogue is not UTF-8") from error

    def catalogue(self, connection: Connection[Any], database: str) -> Catalogue:
        """The server's catalogue, without the databases that are not the agent's."""
        catalogue = read_catalogue(connection, database, is_shared=not self._may_mark)
        for name in [name for name in catalogue.tables if not self._tables.has(database, name)]:
            del catalogue.tables[name]
        names = catalogue.objects["db.database"]
        if not self._may_mark and not names:
            raise SourceRuined(f"it has no database {printable(database)!r}")
        if self._may_mark and database.casefold() not in {str(d["name"]).casefold() for d in names}:
            raise SourceRuined(
                f"it has no database {printable(database)!r} that this account may see"
            )
        catalogue.objects["db.database"] = [d for d in names if d["name"] not in self._own]
        return catalogue


class Scan:
    """One reading under way."""

    def __init__(
        self,
        connection: Connection[Any],
        database: str,
        catalogue: Catalogue,
        shelf: Shelf,
        checked: Checked,
        locked: Container[str] = (),
    ) -> None:
        self._locked = locked
        self._checked = checked
        self._connection = connection
        self._database = database
        self._catalogue = catalogue
        self.shelf = shelf

    def table(self, entity_type: EntityType, like: Table | None) -> Table:
        """The rows of one type, keyed as in `like` so that before and after can be compared."""
        if like is not None and like.type.key != entity_type.key:
            entity_type = replace(entity_type, key=like.type.key)
        shelf = self.shelf
        if entity_type.name == STRUCTURE:
            return structure_table(self._checked, shelf, entity_type, like)
        listed = shelf.listed(entity_type, self._catalogue, like)
        if listed is not None:
            return listed
        entry = self._catalogue.tables.get(entity_type.source_table)
        if entry is None:
            hidden = self._catalogue.refused.get("db.view")
            return shelf.missing(entity_type, like, hidden)
        cause = None if entry.name in self._locked else entry.unreadable
        by_name = entity_type.by_name
        for key in entity_type.key:
            if key not in by_name or entry.column(by_name[key].source_column) is None:
                cause = f"its key column {key} is gone"
        if cause is not None:
            return shelf.fail(shelf.empty(entity_type, like), cause)
        query = Query(self._database, entity_type, entry)
        met = Pass()
        return shelf.of_pass(entity_type, self._rows(query, met), like, met)

    def _rows(self, query: Query, met: Pass) -> Iterator[Row]:
        """The rows, up to where the server refuses; in the order of their key where it has one."""
        limit = f"SET STATEMENT max_statement_time = {TABLE_SECONDS} FOR "
        order = f" ORDER BY {query.order}" if query.is_sorted else ""
        try:
            with self._connection.cursor(SSCursor) as cursor:
                cursor.execute(limit + query.text + order)
                for stored in cursor:
                    row = query.row(stored)
                    if all(is_key(row[name]) for name in query.key):
                        yield row
                    else:
                        met.skipped_rows += 1
        except (pymysql.err.OperationalError, pymysql.err.ProgrammingError) as error:
            if not self._connection.open:
                raise
            met.cause = unread_because(cause_of(error))
        except UnicodeDecodeError:
            raise SourceRuined("a value is not UTF-8") from None


class Query:
    """How one table is read: the statement, and how a stored row becomes a `Row`."""

    def __init__(self, database: str, entity_type: EntityType, entry: TableEntry) -> None:
        self.key = entity_type.key
        stored = [
            (f, column)
            for f in entity_type.fields
            if (column := entry.column(f.source_column)) is not None and not column.is_virtual
        ]
        self.columns = tuple(column for _, column in stored)
        """What is asked for, in this order; sizes and digests of the `guarded` stand behind."""
        self._names = tuple(f.name for f, _ in stored)
        places = {f.name: column for f, column in stored}
        keys = [places[name] for name in self.key if name in places]
        self.order = ", ".join(quoted(column.name) for column in keys)
        self.is_sorted = (
            tuple(column.name for column in keys) == entry.key
            and bool(keys)
            and all(column.kind is Kind.INT for column in keys)
        )
        """Whether the server has the rows in our order: by a primary key of integers."""
        self._absent = dict.fromkeys(
            (f.name for f in entity_type.fields if f.name not in self._names), ABSENT
        )
        self._readers: list[tuple[str, Convert]] = []
        for field, column in stored:
            is_identity = field.name in self.key or field.reference is not None
            for step in (_reader(field, column), None if is_identity else converter(field)):
                if step is not None:
                    self._readers.append((field.name, step))
        most = {c.name: entity_type.kept_bytes(f, MAX_VALUE_BYTES) for f, c in stored}
        self.guarded = tuple(
            Guarded(f.name, c, most[c.name] if c.data_type in DIGESTIBLE else MAX_VALUE_BYTES)
            for f, c in stored
            if c.data_type in UNBOUNDED
            or (c.data_type in DIGESTIBLE and most[c.name] < MAX_VALUE_BYTES)
        )
        """The columns whose values may be left in the server, in the order of their sizes."""
        limits = {guarded.column.name: guarded.most for guarded in self.guarded}
        columns = [_expression(column, limits.get(column.name)) for _, column in stored]
        sizes = [f"OCTET_LENGTH({quoted(g.column.name)})" for g in self.guarded]
        digests = [_digest(guarded) for guarded in self.guarded]
        place = f"{quoted(database)}.{quoted(entry.name)}"
        self.text = f"SELECT {', '.join([*columns, *sizes, *digests]) or '1'} FROM {place}"  # noqa: S608 - quoted

    def row(self, stored: tuple[Any, ...]) -> Row:
        row: Row = dict(zip(self._names, stored, strict=False))
        for name, read in self._readers:
            if row[name] is not None:
                row[name] = read(row[name])
        told = stored[len(self._names) :]
        sizes, digests = told[: len(self.guarded)], told[len(self.guarded) :]
        for guarded, size, digest in zip(self.guarded, sizes, digests, strict=True):
            if size is not None and int(size) > guarded.most:
                row[guarded.name] = unread_value(size, digest)
        row.update(self._absent)
        return row


@dataclass(frozen=True)
class Guarded:
    """A column of which values longer than `most` bytes stay in the server."""

    name: str
    column: Column
    most: int

    def digest_of(self, cell: str | bytes) -> str | None:
        """The server's word for a value that its log tells whole."""
        if len(cell) * 4 <= self.most or self.column.data_type not in DIGESTIBLE:
            return None  # of the short ones nobody asks
        found = Digested.of(cell)
        return f"{found.kind} {found.size_bytes} {found.sha256}"


def _digest(guarded: Guarded) -> str:
    """SQL: `KIND SIZE SHA-256` of a value that is left in the server; null of all others."""
    name, data_type = quoted(guarded.column.name), guarded.column.data_type
    if data_type not in DIGESTIBLE:
        return "NULL"
    is_bytes = data_type in BINARY
    content = name if is_bytes else f"CONVERT({name} USING utf8mb4)"
    kind = "bytes" if is_bytes else "text"
    return (
        f"CASE WHEN OCTET_LENGTH({name}) > {guarded.most} THEN"
        f" CONCAT('{kind} ', OCTET_LENGTH({content}), ' ', SHA2({content}, 256)) END"
    )


def _expression(column: Column, most: int | None) -> str:
    name = quoted(column.name)
    if column.data_type == "float":
        return f"CAST({name} AS DOUBLE)"  # as text it has six digits only
    if most is not None:
        return f"CASE WHEN OCTET_LENGTH({name}) <= {most} THEN {name} END"
    return name


def _reader(field: Field, column: Column) -> Convert | None:
    match column.kind:
        case Kind.INT | Kind.BOOL:
            return int
        case Kind.FLOAT:
            return float
        case Kind.DECIMAL:
            return Decimal
        case Kind.LOCAL_TIMESTAMP:
            zone = None
            if field.zone is not None and field.kind is Kind.TIMESTAMP:
                zone = zone_named(field.zone)
            return lambda text: instant(text, zone)
        case Kind.TIMESTAMP:
            return lambda text: instant(f"{text}+00:00", None)
        case _:
            return None
