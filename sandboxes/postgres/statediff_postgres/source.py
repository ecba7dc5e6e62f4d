"""PostgreSQL as a source: every row, schema object, role and setting, in one consistent snapshot.

1. A connection with the evaluator's own account; every setting that decides how a value is written
   is set, whatever the server, the database or the role says.
2. All tables are locked against being altered *before* the snapshot is taken: a table that is
   rewritten after a snapshot looks empty in it. What the agent keeps locked is unobserved.
3. One repeatable-read, read-only transaction covers the catalogue and all rows.
4. Rows come from plain tables only, named with their schema; no view, rule, policy, cast, operator
   or function of the database is run to read them (its indexes are checked in connections apart,
   `postgres.structure`; `search_path` holds nothing but the server's own). Of a large
   table only what the server's digests tell to be other than before is read (`postgres.digests`).
5. After each table it is checked that the name still means the table that was locked.

A table that cannot be read to its end is incomplete or unobserved with the cause, and the others
stand; only a server that does not answer, or has no readable catalogue, is unavailable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeVar

import psycopg

from statediff.capture.source import Clock, SourceRuined, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.bulk import NotInBulk
from statediff.model.explanation import unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import ChunkStore, State, Table
from statediff.model.values import printable
from statediff.systems.relational.schema import Pass, Refine, Shelf, continued, is_key, state_of
from statediff.systems.relational.structure import STRUCTURE, structure_table
from statediff.systems.relational.urls import EVERY_TABLE, TableChoice
from statediff_postgres.catalogue import (
    OBJECT_NAMES,
    RUNS_FUNCTIONS,
    Catalogue,
    Connection,
    Relation,
    TableEntry,
    catalogue_schema,
    read_catalogue,
    relations,
)
from statediff_postgres.digests import Digests
from statediff_postgres.rows import OUTSIDE_BYTES, TableQuery
from statediff_postgres.session import (
    READ_SECONDS,
    ahead,
    blocks_copied,
    cause_of,
    connected,
)
from statediff_postgres.structure import check

_ATTEMPTS: Final = 3
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SNAPSHOT: Final = "SELECT pg_current_snapshot()::text"
_SESSIONS: Final = """
SELECT concat_ws(' ', usename, nullif(concat('(', application_name, ')'), '()'))
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
T = TypeVar("T")


class PostgresSource:
    """One database of a PostgreSQL server as a source.

    `url` holds the evaluator's account. `own_databases` are a sandbox's, which come and go beside
    the one that is read, where the whole server is that sandbox's; of another server the other
    databases, and accounts that can do nothing in this one, are outside. `refine` maps the schema
    of the catalogue to the logical one. With `reads_all` no chunk is known by the server's digest
    of it: every row is read each time. Of the database's tables only those of `tables` are read.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "other databases of a server that is not the sandbox's, and accounts without rights here",
        "rows of other databases of a sandbox's server, and of temporary tables",
        "rows of foreign tables: their definitions are read",
        "statistics, and what the server counts, logs and notes of who depends on whom",
        "in which order the rows of a table lie, and by which index it was last clustered",
        "the server's own views, columns and comments; replication slots; security labels",
        "files of the server: `postgresql.conf`, `pg_hba.conf`, what a program left in its folders",
        "indexes over the server's own functions only that do not have what their tables have",
        "sessions, locks, prepared transactions and what has not been committed",
    )

    def __init__(
        self,
        name: str,
        url: str,
        refine: Refine | None = None,
        own_databases: Container[str] | None = None,
        *,
        reads_all: bool = False,
        tables: TableChoice = EVERY_TABLE,
    ) -> None:
        self._name = name
        self._tables = tables
        self._reads_all = reads_all
        self._url = url
        self._refine = refine
        self.own_databases = own_databases

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        with self.session() as connection:
            _, catalogue = self.snapshot(connection)
            found = [entry.relation for entry in catalogue.tables.values()]
            self._tables.require((each.schema, each.name) for each in found)
            return self._schema(catalogue)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()  # before the snapshot is taken: the state shown is never older than this
        with self.session() as connection:
            held, catalogue = self.snapshot(connection)
            schema = self.schema_after(like, catalogue)
            digests = None if self._reads_all else Digests(connection, store)
            scan = Scan(connection, catalogue, held, Shelf(store), digests)
            tables = {
                t.name: scan.table(t, None if like is None else like.tables.get(t.name))
                for t in schema.types
            }
        state = state_of(schema, tables)
        return scanned(self._name, as_of, state, gaps=scan.shelf.failures)

    def sessions(self) -> tuple[str, ...]:
        """Other clients of the database: the account, and the program where it says which."""
        with self.session() as connection:
            found = connection.execute(_SESSIONS).fetchall()
        return tuple(sorted(printable(str(who)) for (who,) in found))

    def schema_after(self, like: State | None, catalogue: Catalogue) -> Schema:
        """The types to deliver: those of `like` go on, and the catalogue's new ones join them."""
        if like is None or not like.schema.types:
            return self._schema(catalogue)
        found = catalogue_schema(self._name, catalogue)
        return continued(like.schema, found, OBJECT_NAMES, "public.")

    def _schema(self, catalogue: Catalogue) -> Schema:
        schema = catalogue_schema(self._name, catalogue)
        return schema if self._refine is None else self._refine(schema)

    @contextlib.contextmanager
    def session(self, seconds: float = READ_SECONDS) -> Iterator[Connection]:
        """A connection of the evaluator's; whatever it raises is the source's cause."""
        try:
            with connected(self._url, seconds) as connection:
                connection.execute("SET default_transaction_read_only = on")
                yield connection
        except psycopg.Error as error:
            raise SourceUnavailable(cause_of(error)) from error
        except UnicodeDecodeError as error:
            raise SourceRuined("a name in its catalogue is not UTF-8") from error

    def snapshot(
        self,
        connection: Connection,
        expected: tuple[Relation, ...] | None = None,
        seen: Callable[[str], None] | None = None,
    ) -> tuple[dict[int, str | None], Catalogue]:
        """A transaction has begun: the tables held, each with why it is not, and the catalogue.

        `expected` are tables that were there: where there are no others now, none are listed first.
        `seen` gets what it sees, in the server's form, once the snapshot is taken; again where
        another one had to be.
        """
        held: dict[int, str | None] = {}
        guesses = () if expected is None else (expected,)
        for guess in (*guesses, *[None] * _ATTEMPTS):
            held, shown = _lock(connection, self._relations(connection) if guess is None else guess)
            if seen is not None:
                seen(shown)
            catalogue = read_catalogue(connection, is_shared=self.own_databases is None)
            for name, entry in list(catalogue.tables.items()):
                if not self._tables.has(entry.relation.schema, entry.relation.name):
                    del catalogue.tables[name]
            found = tuple(entry.relation for entry in catalogue.tables.values())
            # What is held cannot be renamed: where all is as guessed, its names meant these tables.
            if _by_name(found) == _by_name(guess) if guess else {r.oid for r in found} <= set(held):
                break
            connection.execute("ROLLBACK")  # a table was made in between
        else:
            raise SourceUnavailable("its tables kept changing while they were to be read")
        databases = catalogue.objects["db.database"]
        catalogue.objects["db.database"] = [
            d for d in databases if d["name"] not in (self.own_databases or ())
        ]
        return held, replace(catalogue, checked=check(self.session, catalogue.at_risk))

    def _relations(self, connection: Connection) -> tuple[Relation, ...]:
        return tuple(r for r in relations(connection) if self._tables.has(r.schema, r.name))


def _by_name(tables: tuple[Relation, ...]) -> list[Relation]:
    return [replace(table, outside_bytes=0) for table in tables]


def _lock(
    connection: Connection, tables: tuple[Relation, ...]
) -> tuple[dict[int, str | None], str]:
    """A transaction begins: every table that can be held is, the others have the cause.

    Only then the snapshot is taken; the second is what it sees.
    """
    held: dict[int, str | None] = {t.oid: t.unreadable for t in tables}
    # Others cannot be locked so.
    wanted = [t for t in tables if t.kind in ("r", "p") and t.unreadable is None]
    if not wanted:
        connection.execute(_BEGIN)
    else:
        try:
            with connection.pipeline():
                connection.execute(_BEGIN)
                _hold(connection, wanted)
                seen = connection.execute(_SNAPSHOT)
        except psycopg.Error as error:
            _ = _give_up(connection, error)
        else:
            return held, str((seen.fetchone() or ("",))[0])
        connection.execute("SET LOCAL lock_timeout = '200ms'")
        for table in wanted:
            try:
                with connection.pipeline():
                    _hold(connection, [table])
            except psycopg.Error as error:
                held[table.oid] = _give_up(connection, error)
    return held, str((connection.execute(_SNAPSHOT).fetchone() or ("",))[0])


def _hold(connection: Connection, tables: list[Relation]) -> None:
    names = ", ".join(t.only for t in tables)
    connection.execute("SAVEPOINT held")
    connection.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode())
    connection.execute("RELEASE held")


def _give_up(connection: Connection, error: psycopg.Error) -> str:
    """The transaction goes on without what was to be held; why it is not."""
    if connection.broken:
        raise error
    connection.execute("ROLLBACK TO held")
    return unread_because(cause_of(error))


class Scan:
    """One reading under way."""

    def __init__(
        self,
        connection: Connection,
        catalogue: Catalogue,
        held: dict[int, str | None],
        shelf: Shelf,
        digests: Digests | None = None,
    ) -> None:
        self._connection = connection
        self._catalogue = catalogue
        self._held = held
        self.shelf = shelf
        self._digests = digests

    def table(self, entity_type: EntityType, like: Table | None) -> Table:
        """The rows of one type, keyed as in `like` so that before and after can be compared."""
        if like is not None and like.type.key != entity_type.key:
            entity_type = replace(entity_type, key=like.type.key)
        shelf = self.shelf
        if entity_type.name == STRUCTURE:
            return structure_table(self._catalogue.checked, shelf, entity_type, like)
        listed = shelf.listed(entity_type, self._catalogue, like)
        if listed is not None:
            return listed
        entry = self._catalogue.tables.get(entity_type.source_table)
        if entry is None:
            return shelf.missing(entity_type, like)
        empty = shelf.empty(entity_type, like)
        cause = self._held.get(entry.relation.oid)
        if cause is not None:
            return shelf.fail(empty, cause)
        if entry.relation.runs_functions and entry.relation.outside_bytes > OUTSIDE_BYTES:
            return shelf.fail(empty, f"{RUNS_FUNCTIONS}; its large values cannot be left out so")
        by_name = entity_type.by_name
        lost = [
            k
            for k in entity_type.key
            if k not in by_name or entry.column(by_name[k].source_column) is None
        ]
        if lost:
            return shelf.fail(empty, f"its key column {', '.join(lost)} is gone")
        return self._rows_of(entity_type, entry, like)

    def _rows_of(self, entity_type: EntityType, entry: TableEntry, like: Table | None) -> Table:
        query = TableQuery(entity_type, entry)
        table = self._in_bulk(query, like)
        if table is not None:
            return table
        met = Pass()
        skipped = "rows have no key, or one beyond the capture limit"
        return self.shelf.of_pass(entity_type, self._stream(query, met), like, met, skipped)

    def _in_bulk(self, query: TableQuery, like: Table | None) -> Table | None:
        """The table, whole and read in columns; None where only reading by rows can tell more."""
        if not (query.is_sorted and query.bulk.is_possible):
            return None
        digests = self._digests
        compared = None if digests is None or like is None else digests.compared(query, like)
        if digests is not None and compared is not None:
            cuts = (None, *compared.like.partition, None)
            runs = (query.run(cuts[first], cuts[last + 1]) for first, last in compared.runs)
            table = self._columns(query, self._blocks(runs), compared.cut)
            if table is not None:
                table = compared.joined(table)
                digests.learn(query, table, compared.digests)
                return table
        table = self._columns(query, ahead(self._blocks([query.text])), like)
        if digests is not None and table is not None and like is None:
            digests.learn(query, table)
        return table

    def _blocks(self, copies: Iterable[str]) -> Generator[bytearray]:
        for each in copies:
            yield from blocks_copied(self._connection, f"{each} (FORMAT csv)")

    def _columns(
        self, query: TableQuery, texts: Generator[bytearray], like: Table | None
    ) -> Table | None:
        met = Pass()
        try:
            with contextlib.closing(self._copy_rows(texts, query.relation, met)) as copied:
                table = self.shelf.in_bulk(query.bulk, copied, like)
        except NotInBulk:
            return None
        return table if met.cause is None else None

    def _stream(self, query: TableQuery, met: Pass) -> Iterator[Row]:
        rows = self._one_by_one(query.text)
        with contextlib.closing(self._copy_rows(rows, query.relation, met)) as copied:
            for stored in copied:
                row = query.row(stored)
                if all(is_key(row[name]) for name in query.key):
                    yield row
                else:
                    met.skipped_rows += 1

    def _one_by_one(self, text: str) -> Generator[tuple[Any, ...]]:
        with self._connection.cursor() as cursor, cursor.copy(text.encode()) as copy:
            yield from copy.rows()

    def _copy_rows(self, delivered: Generator[T], relation: Relation, met: Pass) -> Generator[T]:
        """Yields the rows of a `COPY`; `met.cause` says why that is not all of it."""
        self._connection.execute("SAVEPOINT rows")
        is_whole = False
        try:
            with contextlib.closing(delivered):
                yield from delivered
            is_whole = True
            met.cause = self._replacement_cause(relation)
        except (psycopg.Error, UnicodeDecodeError) as error:
            is_whole = False
            if self._connection.broken:
                raise
            is_text = isinstance(error, UnicodeDecodeError)
            met.cause = "a value is not UTF-8" if is_text else unread_because(cause_of(error))  # type: ignore[arg-type]  # the other of the two
        finally:
            # Anyone who reads may stop in the middle: the rest of the copy is then cancelled.
            if not is_whole and not self._connection.broken:
                self._connection.execute("ROLLBACK TO rows")

    def _replacement_cause(self, relation: Relation) -> str | None:
        """Why what was read under its name may not have been the table that is held."""
        (found,) = self._connection.execute(
            "SELECT to_regclass(%s)::oid::int8", (relation.quoted,)
        ).fetchone() or (None,)
        return (
            None
            if found == relation.oid
            else unread_because("another table took its name while it was read")
        )
