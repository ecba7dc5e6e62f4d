"""SQLite as a source: every row, schema object and setting, in one consistent read.

1. The file is opened read-only; nothing the database defines is run (`sqlite_catalogue`).
2. One read transaction covers the catalogue and all rows, write-ahead log included.
3. Rows come from the table itself, never from an index (a damaged or doctored index could leave
   some out), in key order, as a stream.
4. SQLite types values, not columns: a value that does not fit its column's kind is kept as it is.
   Text that is not UTF-8 is kept as its bytes.

A table that cannot be read to its end is incomplete or unobserved with the cause, and the others
stand; only a database that cannot be opened or has no readable catalogue is unavailable.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.readings import Reading, ReadingKind, SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import (
    ChunkStore,
    Row,
    State,
    Table,
)
from statediff.model.values import ABSENT, Unobserved, is_value, printable
from statediff.sources.relational import (
    MAX_KEY_LENGTH,
    Refine,
    Shelf,
    continued,
    quoted,
    with_types,
)
from statediff.sources.sqlite_catalogue import (
    OBJECT_NAMES,
    SEQUENCES,
    Catalogue,
    TableEntry,
    catalogue_schema,
    folded,
    read_catalogue,
)
from statediff.sources.typed import Convert, converter

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
BUSY_SECONDS: Final = 2.0
SIDE_FILES: Final = ("-wal", "-shm", "-journal")


class SqliteSource:
    """One SQLite database file as a source.

    `refine` maps the schema of the catalogue to the logical one: it may rename types and fields
    (`EntityType.table` and `Field.column` keep the database's names), change kinds, declare zones
    and keys, and leave types out.
    """

    def __init__(self, name: str, path: Path | str, refine: Refine | None = None) -> None:
        self._name = name
        self._path = Path(path)
        self._refine = refine

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        with closing(self._open()) as connection:
            catalogue = self._catalogue(connection)
            schema = self._schema(catalogue)
            return with_types(
                schema,
                {
                    t.name: replace(t, key=())
                    for t in schema.types
                    if _has_null_keys(connection, catalogue, t)
                },
            )

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()  # before the snapshot is taken: the state shown is never older than this
        with closing(self._open()) as connection:
            catalogue = self._catalogue(connection)
            if like is None or not like.schema.types:
                schema = self._schema(catalogue)
            else:
                schema = continued(
                    like.schema,
                    catalogue_schema(self._name, catalogue),
                    OBJECT_NAMES,
                    "main.",
                    folded,
                )
            scan = _Scan(connection, catalogue, Shelf(store))
            tables = {
                t.name: scan.table(t, None if like is None else like.tables.get(t.name))
                for t in schema.types
            }
        state = State(with_types(schema, {n: t.type for n, t in tables.items()}), tables)
        reading = Reading(
            self._name,
            self._name,
            ReadingKind.SCAN,
            as_of,
            "trial",
            is_complete=not scan.shelf.failures,
            digest=state.digest(),
            cause="; ".join(scan.shelf.failures) or None,
        )
        return SourceCapture(reading, state)

    def _schema(self, catalogue: Catalogue) -> Schema:
        schema = catalogue_schema(self._name, catalogue)
        return schema if self._refine is None else self._refine(schema)

    def _open(self) -> sqlite3.Connection:
        cause = strange_side_file(self._path)
        if cause is not None:
            raise SourceUnavailable(cause)
        try:
            if not stat.S_ISREG(os.stat(self._path).st_mode):  # noqa: PTH116 - one call, one answer
                raise SourceUnavailable(f"{printable(self._path.name)} is not a file")
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SourceUnavailable(
                f"{printable(self._path.name)} cannot be opened: {reason}"
            ) from error
        uri = "file:" + quote(os.fsencode(self._path.absolute())) + "?mode=ro"
        try:
            connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise SourceUnavailable(_cause(error)) from error
        connection.text_factory = _text
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        return connection

    def _catalogue(self, connection: sqlite3.Connection) -> Catalogue:
        try:
            # mmap: a file that the agent truncates while it is mapped would kill this process.
            for pragma in (
                "query_only=ON",
                "trusted_schema=OFF",
                "cell_size_check=ON",
                "mmap_size=0",
            ):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN")
            return read_catalogue(connection)
        except sqlite3.Error as error:
            raise SourceUnavailable(_cause(error)) from error
        except UnicodeDecodeError as error:  # a catalogue that was written by hand
            raise SourceUnavailable("a name in its catalogue is not UTF-8") from error


def strange_side_file(path: Path) -> str | None:
    """Why SQLite may not open the database: on a pipe in place of its log it would wait forever."""
    for suffix in SIDE_FILES:
        beside = path.with_name(path.name + suffix)
        try:
            if not stat.S_ISREG(beside.lstat().st_mode):
                return f"{printable(beside.name)} is not a file"
        except (OSError, ValueError):
            continue  # it is not there, or nothing is: opening says why
    return None


def _text(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _cause(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code == sqlite3.SQLITE_READONLY_ROLLBACK:
        return "an interrupted write waits to be rolled back"
    match code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"the database was locked for more than {BUSY_SECONDS:g} s"
        case sqlite3.SQLITE_NOTADB:
            return "the file is not a SQLite database"
        case sqlite3.SQLITE_CORRUPT:
            return f"the database is damaged ({printable(str(error)[:120])})"
        case _:
            return f"SQLite could not read it ({printable(str(error)[:120])})"


def _has_null_keys(
    connection: sqlite3.Connection, catalogue: Catalogue, entity_type: EntityType
) -> bool:
    nullable = [f for f in entity_type.fields if f.name in entity_type.key and f.is_nullable]
    entry = catalogue.tables.get(folded(entity_type.source_table))
    if not nullable or entry is None or entry.unreadable or entry.name == SEQUENCES:
        return False
    where = " OR ".join(f"t.{quoted(f.source_column)} IS NULL" for f in nullable)
    table = quoted(entity_type.source_table)
    try:
        found = connection.execute(
            f"SELECT 1 FROM main.{table} AS t NOT INDEXED WHERE {where} LIMIT 1"  # noqa: S608 - quoted
        ).fetchone()
    except sqlite3.Error:
        return False  # reading will meet the same error and give it as the cause
    return found is not None


@dataclass
class _Pass:
    """What one pass over a table met, beside its rows."""

    has_null_key: bool = False
    skipped_rows: int = 0
    too_big: bool = False
    cause: str | None = None


class _Scan:
    """One reading under way."""

    def __init__(self, connection: sqlite3.Connection, catalogue: Catalogue, shelf: Shelf) -> None:
        self._connection = connection
        self._catalogue = catalogue
        self.shelf = shelf
        self._row_limit: int | None = None

    def table(self, entity_type: EntityType, like: Table | None) -> Table:
        """The rows of one type, keyed as in `like` so that before and after can be compared."""
        if like is not None and like.type.key != entity_type.key:
            entity_type = replace(entity_type, key=like.type.key)
        rows = self._catalogue.objects.get(entity_type.name)
        if rows is not None:
            return self.shelf.distinct(entity_type, rows, like)
        entry = self._catalogue.tables.get(folded(entity_type.source_table))
        if entry is None:
            empty = self.shelf.empty(entity_type, like)
            if entity_type.source_table == SEQUENCES or (like and like.enumeration.is_complete):
                return empty  # dropped since, with all its rows
            return self.shelf.fail(
                empty, f"there is no table {printable(entity_type.source_table)}"
            )
        if entry.unreadable is not None:
            return self.shelf.empty(entity_type, like).unobserved(entry.unreadable)
        lost = (
            [
                k
                for k in entity_type.key
                if entry.column(entity_type.by_name[k].source_column) is None
            ]
            if set(entity_type.key) <= set(entity_type.by_name)
            else list(entity_type.key)
        )
        if lost:
            return self.shelf.fail(
                self.shelf.empty(entity_type, like), f"its key column {', '.join(lost)} is gone"
            )
        return self._rows_of(entity_type, entry, like)

    def _rows_of(self, entity_type: EntityType, entry: TableEntry, like: Table | None) -> Table:
        is_decided = like is not None or entry.name == SEQUENCES
        is_guarded = False
        while True:
            met = _Pass()
            query = _Query(entity_type, entry, is_guarded)
            try:
                table = self.shelf.build(
                    entity_type,
                    self._stream(query, met),
                    like,
                    is_sorted=not entity_type.is_keyless,
                )
            except ValueError:
                # Out of order (text that is not UTF-8 sorts after all other text) or a key twice.
                met = _Pass()
                table = self.shelf.distinct(
                    entity_type, list(self._stream(query, met)), like, may_be_keyless=not is_decided
                )
            if met.too_big and not is_guarded:
                is_guarded = True
                continue
            if (met.has_null_key or not table.type.key) and entity_type.key and not is_decided:
                entity_type, like = replace(entity_type, key=()), None
                continue
            break
        if met.skipped_rows and met.cause is None:
            met.cause = f"{met.skipped_rows} rows have a key beyond the capture limit"
        return table if met.cause is None else self.shelf.fail(table, met.cause)

    def _stream(self, query: _Query, met: _Pass) -> Iterator[Row]:
        try:
            limit = 1_000_000_000 if query.is_guarded else MAX_VALUE_BYTES
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)
            most = self._most_rows()
            for count, stored in enumerate(self._connection.execute(query.text)):
                row = query.row(stored)
                for name in query.key:
                    part = row[name]
                    if part is None:
                        met.has_null_key = True
                    elif not is_value(part) or (
                        isinstance(part, str | bytes) and len(part) > MAX_KEY_LENGTH
                    ):
                        met.skipped_rows += 1
                        break
                else:
                    yield row
                if count > most:
                    # Damaged pages that point at each other would be walked without an end.
                    met.cause = "the table shows more rows than the file can hold"
                    return
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            met.too_big = code & 0xFF == sqlite3.SQLITE_TOOBIG
            met.cause = _cause(error)

    def _most_rows(self) -> int:
        if self._row_limit is None:
            sizes = [
                self._connection.execute(f"PRAGMA main.{name}").fetchone()[0]
                for name in ("page_count", "page_size")
            ]
            self._row_limit = sizes[0] * sizes[1] // 4  # no row takes less than four bytes
        return self._row_limit


class _Query:
    """How one table is read: the statement, and how a stored row becomes a `Row`.

    A guarded query asks for the size of each value first, and leaves the large ones in the file.
    """

    def __init__(self, entity_type: EntityType, entry: TableEntry, is_guarded: bool) -> None:
        self.key = entity_type.key
        self.is_guarded = is_guarded
        stored = [
            (f, f"t.{quoted(column.name)}")
            for f in entity_type.fields
            if (column := entry.column(f.source_column)) is not None and column.is_stored
        ]
        self._names = tuple(f.name for f, _ in stored)
        self._absent = dict.fromkeys(
            (f.name for f in entity_type.fields if f.name not in self._names), ABSENT
        )
        self._converters: list[tuple[str, Convert]] = [
            (f.name, convert)
            for f, _ in stored
            if f.name not in self.key
            and f.reference is None
            and (convert := converter(f)) is not None
        ]
        columns = [expression for _, expression in stored]
        if is_guarded:
            columns = [_guarded(c) for c in columns] + [_size(c) for c in columns]
        order = [
            f"{expression} COLLATE BINARY"
            for name in self.key
            for f, expression in stored
            if f.name == name
        ]
        self.text = (
            f"SELECT {', '.join(columns) or '1'} FROM main.{quoted(entry.name)} AS t NOT INDEXED"  # noqa: S608 - names are quoted
            + (f" ORDER BY {', '.join(order)}" if order else "")
        )

    def row(self, stored: tuple[Any, ...]) -> Row:
        row: Row = dict(zip(self._names, stored, strict=False))
        for name, convert in self._converters:
            row[name] = convert(row[name])
        if self.is_guarded:
            for name, size in zip(self._names, stored[len(self._names) :], strict=True):
                if size is not None and size > MAX_VALUE_BYTES:
                    row[name] = Unobserved(f"value of {size} bytes exceeds the capture limit")
        if self._absent:
            row.update(self._absent)
        return row


def _size(column: str) -> str:
    return (
        f"CASE typeof({column}) WHEN 'blob' THEN length({column}) "
        f"WHEN 'text' THEN length(CAST({column} AS BLOB)) END"
    )


def _guarded(column: str) -> str:
    return f"CASE WHEN coalesce({_size(column)}, 0) > {MAX_VALUE_BYTES} THEN NULL ELSE {column} END"
