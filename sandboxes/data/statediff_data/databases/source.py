"""Any database as a source, by SQLAlchemy: tables, their rows, and the texts of views.

1. The catalogue is read before and after the rows; where the two differ the reading begins again.
2. Rows are read in one transaction, serializable where the dialect sets it, and nothing is
   written. A dialect that promises no one moment is read twice: a reading stands only where both
   show the same, else the database is unavailable, for it was written meanwhile.
3. Values are those of the driver, by their own type. What this reader has no type for is text
   where that is exact (times, intervals, UUIDs), else unobserved with the name of its type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final
from uuid import UUID

import sqlalchemy as sa

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.errors import UsageError
from statediff.model.batches import Row
from statediff.model.explanation import unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import ChunkStore, State, Table
from statediff.model.values import (
    ABSENT,
    MAX_DEPTH,
    Digested,
    Map,
    Observed,
    Unobserved,
    Value,
    is_value,
    printable,
)
from statediff.systems.base.rows import converter
from statediff.systems.base.urls import account_of, without_passwords
from statediff.systems.relational.schema import Pass, Refine, Shelf, continued, is_key, state_of
from statediff.systems.relational.urls import EVERY_TABLE, TableChoice
from statediff_data.databases.catalogue import (
    OBJECT_NAMES,
    Catalogue,
    TableEntry,
    catalogue_schema,
    read_catalogue,
)
from statediff_data.databases.dialects import PACKAGES

MAX_VALUE_BYTES: Final = 1024 * 1024
ATTEMPTS: Final = 3
ROWS_AT_ONCE: Final = 5_000
ONE_MOMENT: Final = ("SERIALIZABLE", "SNAPSHOT")
"""Isolation levels under which a transaction sees one state, phantoms included."""
_HIDDEN: Final = "the server does not list it for this account"
READ_ONLY: Final[Mapping[str, Mapping[str, str]]] = {"duckdb": {"access_mode": "read_only"}}
"""Dialect → parameters without which opening a database could make or change it."""
MAX_CAUSE: Final = 300


class DatabaseSource:
    """The database at a URL of SQLAlchemy as a source.

    `refine` maps the schema of the catalogue to the logical one. `UsageError` where the dialect or
    its driver is not installed, or the URL is none.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "other databases of the server, and schemas that `?schema=NAME` leaves out",
        "sequences, indexes, triggers, routines, constraints but primary keys, accounts, settings",
        "what the driver does not hand over, e.g. fractions of a second beyond six digits",
        "sessions, locks and what has not been committed",
    )

    def __init__(
        self,
        name: str,
        url: str,
        refine: Refine | None = None,
        tables: TableChoice = EVERY_TABLE,
    ) -> None:
        self._name = name
        self._text = url
        self._refine = refine
        self._tables = tables
        self._url = self._parsed(url)
        dialect = self._url.drivername.partition("+")[0]
        try:
            self._url.get_dialect().import_dbapi()
        except (ModuleNotFoundError, sa.exc.NoSuchModuleError) as error:
            package = PACKAGES.get(dialect, f"the dialect of SQLAlchemy for {dialect}")
            lacks = error.name if isinstance(error, ModuleNotFoundError) else "its dialect"
            raise UsageError(
                f"{dialect}:// needs {lacks}; get it with `pip install {package}`"
            ) from error

    def _parsed(self, text: str) -> sa.URL:
        try:
            url = sa.make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            raise UsageError(
                f"the URL of {self._name} is none of a database: expected "
                "DIALECT://USER:PASSWORD@HOST:PORT/DATABASE"
            ) from None
        if url.password is None and (password := account_of(self._name, text)[1]) is not None:
            url = url.set(password=password)
        defaults = READ_ONLY.get(url.get_backend_name(), {})
        return url.update_query_dict({**defaults, **url.query})

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        with self._engine() as engine:
            catalogue = read_catalogue(engine, self._tables, self._said)
            self._tables.require((t.schema or "", t.name) for t in catalogue.tables.values())
            return self._schema(catalogue)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        with self._engine() as engine:
            for _ in range(ATTEMPTS):
                catalogue = read_catalogue(engine, self._tables, self._said)
                with engine.connect() as connection:
                    is_one = _sees_one_moment(connection)
                    state, gaps = self._look(connection, catalogue, store, like)
                # What failed ended the transaction, and with it the one moment.
                is_same = (is_one and not gaps) or self._again(engine, catalogue, state, store)
                if is_same and read_catalogue(engine, self._tables, self._said) == catalogue:
                    return scanned(self._name, as_of, state, gaps=gaps)
        raise SourceUnavailable("its tables kept changing while they were read; read it at rest")

    def _again(
        self, engine: sa.Engine, catalogue: Catalogue, seen: State, store: ChunkStore
    ) -> bool:
        """True if a second look, in a transaction of its own, shows the same.

        What it shows is put where the first look is: equal chunks take no room there.
        """
        with engine.connect() as connection:
            state, _ = self._look(connection, catalogue, store, seen)
        return state.digest() == seen.digest()

    def _schema(self, catalogue: Catalogue) -> Schema:
        schema = catalogue_schema(self._name, catalogue)
        return schema if self._refine is None else self._refine(schema)

    @contextlib.contextmanager
    def _engine(self) -> Iterator[sa.Engine]:
        """An engine whose connections end with it. Raises `SourceUnavailable`."""
        engine = sa.create_engine(self._url, poolclass=sa.pool.QueuePool, pool_size=1)
        try:
            yield engine
        except sa.exc.DBAPIError as error:
            raise SourceUnavailable(self._said(str(error.orig))) from error
        except (sa.exc.SQLAlchemyError, OSError, UnicodeDecodeError) as error:
            raise SourceUnavailable(self._said(str(error))) from error
        finally:
            engine.dispose()

    def _said(self, text: str) -> str:
        """The first line of what a driver says, without a password in it."""
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        secrets = [self._text]
        if self._url.password is not None:
            secrets.append(f"x://x:{self._url.password}@x")
        return printable(without_passwords(first, secrets)[:MAX_CAUSE])

    def _look(
        self, connection: sa.Connection, catalogue: Catalogue, store: ChunkStore, like: State | None
    ) -> tuple[State, list[str]]:
        if like is None or not like.schema.types:
            schema = self._schema(catalogue)
        else:
            found = catalogue_schema(self._name, catalogue)
            schema = continued(like.schema, found, OBJECT_NAMES, "here.")
        shelf = Shelf(store)
        tables = {
            t.name: self._table(
                connection, catalogue, t, None if like is None else like.tables.get(t.name), shelf
            )
            for t in schema.types
        }
        state = state_of(schema, tables)
        return state, shelf.failures

    def _table(
        self,
        connection: sa.Connection,
        catalogue: Catalogue,
        entity_type: EntityType,
        like: Table | None,
        shelf: Shelf,
    ) -> Table:
        if like is not None and like.type.key != entity_type.key:
            entity_type = replace(entity_type, key=like.type.key)
        listed = shelf.listed(entity_type, catalogue, like)
        if listed is not None:
            return listed
        entry = catalogue.tables.get(entity_type.source_table)
        if entry is None:
            is_embedded = connection.dialect.name in READ_ONLY
            return shelf.missing(entity_type, like, None if is_embedded else _HIDDEN)
        gone = [k for k in entity_type.key if not entry.has(entity_type.by_name[k].source_column)]
        cause = f"its key column {gone[0]} is gone" if gone else entry.unreadable
        if cause is not None:
            return shelf.fail(shelf.empty(entity_type, like), cause)
        met = Pass()
        rows = self._rows(connection, entity_type, entry, met)
        return shelf.of_pass(entity_type, rows, like, met)

    def _rows(
        self,
        connection: sa.Connection,
        entity_type: EntityType,
        entry: TableEntry,
        met: Pass,
    ) -> Iterator[Row]:
        """The rows, up to where the database refuses."""
        try:
            yield from _rows(connection, entity_type, entry, met)
        except sa.exc.DBAPIError as error:  # e.g. no right to read it
            if connection.invalidated:
                raise
            connection.rollback()
            met.cause = unread_because(self._said(str(error.orig)))


def _sees_one_moment(connection: sa.Connection) -> bool:
    """True if the transaction shows one state; it is set to, where the dialect can be."""
    try:
        driver: Any = connection.connection.dbapi_connection
        offered = connection.dialect.get_isolation_level_values(driver)
        level = next((each for each in ONE_MOMENT if each in offered), None)
        if level is None:
            return False
        connection.execution_options(isolation_level=level)
        return connection.get_isolation_level() == level
    except Exception:  # noqa: BLE001 - a dialect of a third party may raise anything
        connection.rollback()
        return False


def _rows(
    connection: sa.Connection,
    entity_type: EntityType,
    entry: TableEntry,
    met: Pass,
) -> Iterator[Row]:
    """The rows that have a key that can be kept, as the database delivers them."""
    # A name in lower case is one that the dialect folded: quoting it would name another.
    quoted = connection.dialect.identifier_preparer.quote
    stored = [f for f in entity_type.fields if entry.has(f.source_column)]
    absent = dict.fromkeys((f.name for f in entity_type.fields if f not in stored), ABSENT)
    columns = ", ".join(quoted(f.source_column) for f in stored) or "1"
    place = ("" if entry.schema is None else quoted(entry.schema) + ".") + quoted(entry.name)
    own = entity_type.key
    cells = [
        (
            f.name,
            None if f.name in own or f.reference is not None else converter(f),
            entity_type.kept_bytes(f, MAX_VALUE_BYTES),
        )
        for f in stored
    ]
    result = connection.exec_driver_sql(
        f"SELECT {columns} FROM {place}",  # noqa: S608 - quoted
        execution_options={"stream_results": True, "yield_per": ROWS_AT_ONCE},
    )
    for found in result:
        row: Row = dict(absent)
        for (name, change, most), raw in zip(cells, found, strict=False):
            cell = raw if type(raw) in _PLAIN else observed(raw, most)
            row[name] = change(cell) if change is not None and is_value(cell) else cell
        if all(is_key(row[name]) for name in own):
            yield row
        else:
            met.skipped_rows += 1


_PLAIN: Final = frozenset({type(None), bool, int, float, Decimal, datetime, date})
"""Types whose values are ours, whatever their size."""


def observed(raw: Any, most: int = MAX_VALUE_BYTES, depth: int = 0) -> Observed:
    """A driver's value as ours; what has no exact form is unobserved with its type's name."""
    match raw:
        case str() | bytes() | bytearray() | memoryview():
            content = raw if isinstance(raw, str) else bytes(raw)
            stored = content if isinstance(content, bytes) else content.encode(errors="replace")
            return Digested.of(content) if len(stored) > most else content
        case time() | UUID():
            return raw.isoformat() if isinstance(raw, time) else str(raw)
        case timedelta():
            return f"{raw.days} days {raw.seconds} seconds {raw.microseconds} microseconds"
        case list() | tuple() if depth < MAX_DEPTH:
            items = [observed(each, most, depth + 1) for each in raw]
            return _whole(items, tuple)
        case dict() if depth < MAX_DEPTH and all(isinstance(name, str) for name in raw):
            items = [observed(each, most, depth + 1) for each in raw.values()]
            return _whole(items, lambda known: Map.of(dict(zip(raw, known, strict=True))))
        case _ if type(raw) in _PLAIN:
            known: Value = raw
            return known
        case _:  # a subclass too: its meaning is its own
            return Unobserved(f"a value of the driver's type {printable(type(raw).__name__)}")


def _whole(items: list[Observed], make: Callable[[list[Any]], Value]) -> Observed:
    """The value made of the items; nothing is known of it where one is not known."""
    unknown = next((each for each in items if isinstance(each, Unobserved)), None)
    return make(items) if unknown is None else unknown
