"""One reading of a SQLite database, over whatever connection the caller opened.

1. Nothing the database defines is run (`sqlite.catalogue`).
2. Rows come from the table itself, never from an index (a damaged or doctored index could leave
   some out), in key order, as a stream.
3. SQLite types values, not columns: a value that does not fit its column's kind is kept as it is.
   Text that is not UTF-8 is an object with its bytes, since a blob of these bytes is another value.

A table that cannot be read to its end is incomplete or unobserved with the cause, and the others
stand.

Most tables are read in whole columns, some thousand rows at a time (`BulkReader`). Whether a column
has one type is looked at per block and chunk; a key that is null, too long, out of order or of a
mixed type is left to reading by rows. Large values stay in the file: `Digests` reads them in pieces
and keeps their size and SHA-256.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from statediff.capture.source import SourceRuined, SourceUnavailable
from statediff.model.batches import Row
from statediff.model.bulk import NotInBulk
from statediff.model.explanation import unread_because
from statediff.model.schema import EntityType, Field, Schema
from statediff.model.state import ChunkStore, State, Table
from statediff.model.values import ABSENT, Digested, Map, Unobserved, printable
from statediff.systems.base.rows import Convert
from statediff.systems.relational.schema import (
    Refine,
    Shelf,
    continued,
    is_key,
    quoted,
    state_of,
)
from statediff.systems.relational.structure import STRUCTURE, structure_table
from statediff.systems.sqlite.blocks import BulkReader
from statediff.systems.sqlite.catalogue import (
    Catalogue,
    Column,
    TableEntry,
    catalogue_schema,
    read_catalogue,
)
from statediff.systems.sqlite.definitions import folded
from statediff.systems.sqlite.object_types import OBJECT_NAMES, OWN_TABLES
from statediff.systems.sqlite.pages import schema_trust, stand_in
from statediff.systems.sqlite.searches import SearchIndex, rows_said, search_index
from statediff.systems.sqlite.stored import as_before, column_reader, tree_node, with_forms
from statediff.systems.sqlite.structure import check

BLOCK_ROWS: Final = 4096
WIDE_BLOCK_ROWS: Final = 256
WIDE_FILE_BYTES: Final = 256 * 1024 * 1024
"""A file from this size on could hold rows so wide that a whole block of them does not fit."""


_PIECE_BYTES: Final = 1024 * 1024


def size_of(column: str) -> str:
    """SQL: how many bytes a text or blob has; null for any other value."""
    return (
        f"CASE typeof({column}) WHEN 'blob' THEN length({column}) "
        f"WHEN 'text' THEN length(CAST({column} AS BLOB)) END"
    )


def kept(column: str, most: int, shown: str = "") -> str:
    """SQL: the value, or what is shown of it, unless it has more than `most` bytes."""
    return f"CASE WHEN coalesce({size_of(column)}, 0) > {most} THEN NULL ELSE {shown or column} END"


_WIDE: Final = {"UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}


def stored_bytes(column: str) -> str:
    """SQL for the stored value of a column: a text becomes its bytes."""
    return f"CASE typeof({column}) WHEN 'text' THEN CAST({column} AS BLOB) ELSE {column} END"


class Digests:
    """Over one connection, in its read transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._has_function = False

    @cached_property
    def wide(self) -> str | None:
        """The codec of the texts; None for UTF-8."""
        (encoding,) = self._connection.execute("PRAGMA main.encoding").fetchone()
        return _WIDE.get(encoding)

    def row_id(self, entry: TableEntry) -> str | None:
        """A name by which the table tells its row ids; None where it has none, or all are taken."""
        if entry.row_id is not None:
            try:
                self._connection.execute(
                    f"SELECT t.{entry.row_id} FROM main.{quoted(entry.name)} AS t LIMIT 0"  # noqa: S608 - quoted
                )
            except sqlite3.Error:
                return None
        return entry.row_id

    def of(
        self, table: str, column: str, row_id: int | str | None, stored_as: str, size: int
    ) -> Unobserved:
        """The digest of a text or blob of `size` bytes, wherever it can be read.

        `row_id` is the number of its row, or the digest of the value.
        """
        is_text = stored_as == "text"
        if isinstance(row_id, str):
            return Digested("text" if is_text else "bytes", size, row_id)
        if row_id is not None and (self.wide is None or not is_text):
            try:
                return self._read(table, column, row_id, is_text, size)
            except sqlite3.Error:
                pass  # of a column that is not opened so, e.g. one that is computed
        return Unobserved(f"value of {size} bytes exceeds the capture limit")

    def sql(self, column: str, most: int) -> str:
        """SQL: the digest of a value of more than `most` bytes, of a table without row ids."""
        if not self._has_function:
            self._connection.create_function("statediff_sha256", 1, _sha256, deterministic=True)
            self._has_function = True
        whole = f"coalesce({size_of(column)}, 0) BETWEEN {most + 1} AND {MAX_DIGESTED_BYTES}"
        return f"CASE WHEN {whole} THEN statediff_sha256(CAST({column} AS BLOB)) END"

    def _read(self, table: str, column: str, row_id: int, is_text: bool, size: int) -> Digested:
        hasher = hashlib.sha256()
        with closing(
            self._connection.blobopen(table, column, row_id, readonly=True, name="main")
        ) as stored:
            while piece := stored.read(_PIECE_BYTES):
                hasher.update(piece)
        return Digested("text" if is_text else "bytes", size, hasher.hexdigest())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


MAX_VALUE_BYTES: Final = 1024 * 1024
MAX_DIGESTED_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of a value in a table without row ids that is digested: SQLite reads it whole."""
BUSY_SECONDS: Final = 2.0


def begin(connection: sqlite3.Connection, known: Catalogue | None = None) -> Catalogue:
    """The catalogue, in a read transaction that stays open: all that follows shows one state.

    `known` is as for `read_catalogue`.

    Raises `SourceUnavailable`; `SourceRuined` where the bytes of the file are the reason.
    """
    try:
        prepare(connection)
        return read_catalogue(connection, known)
    except sqlite3.Error as error:
        refusal = SourceRuined if is_of_the_file(error) else SourceUnavailable
        raise refusal(cause_of(error)) from error


def prepare(connection: sqlite3.Connection) -> None:
    """A read transaction in which nothing of the database's own is run. Raises `sqlite3.Error`."""
    connection.text_factory = stored_text
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    # mmap: a file that the agent truncates while it is mapped would kill this process.
    connection.executescript(
        f"PRAGMA query_only=ON; {schema_trust()}; PRAGMA cell_size_check=ON;"
        "PRAGMA mmap_size=0; BEGIN"
    )


@dataclass(frozen=True)
class Scanned:
    """A state, and what could not be read of it, in type order."""

    state: State
    failures: tuple[str, ...]
    spoiled: tuple[str, ...] = ()
    """Those of types that could be read before the run, and now cannot for what is in them."""


@dataclass(frozen=True)
class Scanner:
    """Reads states of one database, all in the same way: one name and one refinement."""

    name: str
    refine: Refine | None = None

    def schema(self, connection: sqlite3.Connection, catalogue: Catalogue) -> Schema:
        """The logical schema of a database nothing is known of yet."""
        schema = catalogue_schema(self.name, catalogue)
        refined = schema if self.refine is None else self.refine(schema)
        return with_forms(refined, catalogue, connection)

    def scan(
        self,
        connection: sqlite3.Connection,
        catalogue: Catalogue,
        store: ChunkStore,
        like: State | None,
        kept: Mapping[str, Table] | None = None,
    ) -> Scanned:
        """Everything, cut and keyed like the state before; `begin` gave the catalogue.

        `kept` are tables, by their folded names, that are known to hold what they held.
        """
        if like is None or not like.schema.types:
            schema = self.schema(connection, catalogue)
        else:
            found = catalogue_schema(self.name, catalogue, is_continued=True)
            schema = continued(like.schema, found, OBJECT_NAMES, "main.", folded)
            schema = with_forms(schema, catalogue, None)
        scan = Scan(connection, catalogue, store)
        tables: dict[str, Table] = {}
        for t in schema.types:
            known = None if kept is None else kept.get(folded(t.source_table))
            tables[t.name] = (
                known
                if known is not None and known.type == t
                else scan.table(t, None if like is None else like.tables.get(t.name))
            )
        state = state_of(schema, tables)
        return Scanned(state, tuple(scan.failures), tuple(scan.spoiled))


def stored_text(stored: bytes) -> str | bytes:
    """Text as it is; text that is not UTF-8 as its bytes."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def text_value(stored: bytes, codec: str = "utf-8") -> str | Map:
    """The value of a text: a blob of the same bytes is equal to none.

    >>> text_value(b"abc"), text_value(bytes([65, 8, 255])).get("text").hex()
    ('abc', '4108ff')
    """
    try:
        return stored.decode(codec)
    except UnicodeDecodeError:
        return Map.of({"text": stored})


def is_of_the_file(error: sqlite3.Error) -> bool:
    """True if SQLite refuses what is in the file, rather than meeting a lock or a full disk."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code == sqlite3.SQLITE_IOERR_SHORT_READ:  # the log is shorter than its index says
        return True
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB)


def cause_of(error: sqlite3.Error) -> str:
    """Why something could not be read, in the words given to its values."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    match code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"the database was locked for more than {BUSY_SECONDS:g} s"
        case sqlite3.SQLITE_NOTADB:
            return "the file is not a SQLite database"
        case sqlite3.SQLITE_CORRUPT:
            return f"the database is damaged ({printable(str(error)[:120])})"
        case _:
            return f"SQLite could not read it ({printable(str(error)[:120])})"


@dataclass
class _Pass:
    """The findings of one pass over a table, beside its rows."""

    has_null_key: bool = False
    skipped_rows: int = 0
    too_big: bool = False
    cause: str | None = None
    is_of_the_file: bool = True
    """True if the content of the file is the cause, rather than a lock or a disk."""


class Scan:
    """One reading under way; `failures` and `spoiled` as of `Scanned`."""

    def __init__(
        self, connection: sqlite3.Connection, catalogue: Catalogue, store: ChunkStore
    ) -> None:
        self._connection = connection
        self._catalogue = catalogue
        self._store = store
        self._shelf = Shelf(store)
        self.spoiled: list[str] = []
        self._row_limit: int | None = None
        self._told = Digests(connection)
        self._indexes: dict[SearchIndex, dict[str, list[Row]] | None] = {}

    @property
    def failures(self) -> list[str]:
        return self._shelf.failures

    def table(self, entity_type: EntityType, like: Table | None) -> Table:
        """The rows of one type, keyed as in `like` so that before and after can be compared."""
        if like is not None and like.type.key != entity_type.key:
            entity_type = replace(entity_type, key=like.type.key)
        if entity_type.name == STRUCTURE:
            return structure_table(check(self._connection), self._shelf, entity_type, like)
        rows = self._catalogue.objects.get(entity_type.name)
        if rows is not None:
            return self._shelf.distinct(entity_type, as_before(rows, like), like)
        entry = self._catalogue.tables.get(folded(entity_type.source_table))
        if entry is None:
            if entity_type.source_table in OWN_TABLES:
                return self._shelf.empty(entity_type, like)
            return self._shelf.missing(entity_type, like)
        if entry.unreadable is not None:
            return self._shelf.empty(entity_type, like).unobserved(entry.unreadable)
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
            return self._shelf.fail(
                self._shelf.empty(entity_type, like), f"its key column {', '.join(lost)} is gone"
            )
        said = self._said_by_index(entity_type, entry)
        if said is not None:
            return self._shelf.build(entity_type, said, like, is_sorted=False)
        return self._rows_of(entity_type, entry, like)

    def _said_by_index(self, entity_type: EntityType, entry: TableEntry) -> list[Row] | None:
        """Rows for a part of a search index that say what it says; None where it is stored rows."""
        name = folded(entry.name)
        index = search_index(self._catalogue, name)
        if index is None or name not in index.parts:
            return None
        if index not in self._indexes:
            self._indexes[index] = rows_said(index, self._connection, self._catalogue)
        said = self._indexes[index]
        if said is None:
            return None
        query = Query(entity_type, entry, False, None)
        columns = [folded(entity_type.by_name[field].source_column) for field in query.names]
        return [query.row([row.get(column) for column in columns], None) for row in said[name]]

    def _query(self, entity_type: EntityType, entry: TableEntry, is_guarded: bool = False) -> Query:
        is_guarded |= any(f.digest_above_bytes is not None for f in entity_type.fields)
        row_id = self._told.row_id(entry) if is_guarded else None
        sql = self._told.sql if row_id is None and self._told.wide is None else None
        return Query(entity_type, entry, is_guarded, row_id, self._told.wide, sql)

    def _rows_of(self, entity_type: EntityType, entry: TableEntry, like: Table | None) -> Table:
        table = self._in_bulk(self._query(entity_type, entry), like)
        if table is not None:
            return table
        is_decided = like is not None or entry.name in OWN_TABLES
        is_guarded = False
        while True:
            met = _Pass()
            query = self._query(entity_type, entry, is_guarded)
            try:
                table = self._shelf.build(
                    entity_type,
                    self._stream(query, met),
                    like,
                    is_sorted=not entity_type.is_keyless,
                )
            except ValueError:
                # Out of order (text that is not UTF-8 sorts after all other text) or a key twice.
                met = _Pass()
                table = self._shelf.distinct(
                    entity_type, list(self._stream(query, met)), like, may_be_keyless=not is_decided
                )
            if met.too_big and not query.is_guarded:
                is_guarded = True
                continue
            is_keyless = met.has_null_key or met.skipped_rows > 0 or not table.type.key
            if is_keyless and entity_type.key and not is_decided:
                entity_type, like = replace(entity_type, key=()), None
                continue
            break
        if met.skipped_rows and met.cause is None:
            met.cause = f"{met.skipped_rows} rows have a key beyond the capture limit"
        was_whole = like is not None and like.enumeration.is_complete
        if met.cause is None:
            if was_whole and not table.enumeration.is_complete:  # keys that the run made twice
                self.spoiled.append(f"{entity_type.name}: {table.enumeration.cause}")
            return table
        if met.is_of_the_file and was_whole:
            self.spoiled.append(f"{entity_type.name}: {met.cause}")
        return self._shelf.fail(table, met.cause)

    def _in_bulk(self, query: Query, like: Table | None) -> Table | None:
        """The table, whole and read in columns; None where only reading by rows can tell more."""
        if query.is_guarded or not query.bulk.is_possible:
            return None
        # The driver decodes faster by itself, and raises for text that is not UTF-8.
        for decode in (str, text_value):
            self._connection.text_factory = decode
            try:
                return self._shelf.in_bulk(query.bulk, self._fetch(query), like)
            except NotInBulk:
                return None
            except sqlite3.Error as error:
                stand_in(self._connection, error)  # rows are read past every order but bytes
            finally:
                self._connection.text_factory = stored_text
        return None

    def _fetch(self, query: Query) -> Iterator[list[tuple[Any, ...]]]:
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        rows, most = self._connection.execute(query.text), self._most_rows()
        at_once = BLOCK_ROWS if most * 4 < WIDE_FILE_BYTES else WIDE_BLOCK_ROWS
        while found := rows.fetchmany(at_once):
            yield found
            most -= len(found)
            if most < 0:
                raise NotInBulk("the table shows more rows than the file can hold")

    def _stream(self, query: Query, met: _Pass) -> Iterator[Row]:
        self._connection.text_factory = text_value
        try:
            limit = 1_000_000_000 if query.is_guarded else MAX_VALUE_BYTES
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)
            most = self._most_rows()
            for count, stored in enumerate(self._connection.execute(query.text)):
                row = query.row(stored, self._told)
                for name in query.key:
                    part = row[name]
                    if part is None:
                        met.has_null_key = True
                    elif not is_key(part):
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
            met.is_of_the_file = is_of_the_file(error)
            cause = cause_of(error)
            met.cause = cause if met.is_of_the_file or met.too_big else unread_because(cause)
        finally:
            self._connection.text_factory = stored_text

    def _most_rows(self) -> int:
        if self._row_limit is None:
            sizes = [
                self._connection.execute(f"PRAGMA main.{name}").fetchone()[0]
                for name in ("page_count", "page_size")
            ]
            self._row_limit = sizes[0] * sizes[1] // 4  # no row takes less than four bytes
        return self._row_limit


def _reader(field: Field, column: Column, entry: TableEntry) -> Convert | None:
    """How a stored value of the column is read, or None where it is taken as it is."""
    cell_bytes = entry.node_cell_bytes
    if cell_bytes is not None and folded(column.name) == "data":
        return lambda stored: tree_node(stored, cell_bytes)
    return column_reader(field, column.declared)


class Query:
    """How one table is read: the statement, and how a stored row becomes a `Row`.

    A guarded query asks for the size of each value first, and leaves the large ones in the file:
    there they are digested, where `row_id` says by what name a row's number is asked for. Texts
    under the codec `wide` are read as their bytes: SQLite makes UTF-8 also of what is no UTF-16.
    `digest` is SQL for the digest of a value, of a table without row ids.
    """

    def __init__(
        self,
        entity_type: EntityType,
        entry: TableEntry,
        is_guarded: bool,
        row_id: str | None,
        wide: str | None = None,
        digest: Callable[[str, int], str] | None = None,
    ) -> None:
        self.key = entity_type.key
        self.is_guarded = is_guarded or wide is not None
        self._wide = wide
        found = [
            (f, column)
            for f in entity_type.fields
            if (column := entry.column(f.source_column)) is not None and column.is_stored
        ]
        stored = [(f, f"t.{quoted(column.name)}") for f, column in found]
        self._table = entry.name
        self._kept = [
            (f.name, column.name, entity_type.kept_bytes(f, MAX_VALUE_BYTES)) for f, column in found
        ]
        self._stored = stored
        self.names = tuple(f.name for f, _ in stored)
        self._absent = dict.fromkeys(
            (f.name for f in entity_type.fields if f.name not in self.names), ABSENT
        )
        self._converters: list[tuple[str, Convert]] = [
            (f.name, convert)
            for f, column in found
            if f.name not in self.key
            and f.reference is None
            and (convert := _reader(f, column, entry)) is not None
        ]
        declared = (*(column.declared for _, column in found), str(entry.node_cell_bytes))
        self.bulk = BulkReader(entity_type, self.names, dict(self._converters), declared)
        columns = [expression for _, expression in stored]
        if self.is_guarded:
            limits = [(c, most) for c, (_, _, most) in zip(columns, self._kept, strict=True)]
            by_row = "NULL" if row_id is None else f"t.{row_id}"
            columns = [
                *(kept(c, most, stored_bytes(c) if wide else "") for c, most in limits),
                *map(size_of, columns),
                *(f"typeof({c})" for c in columns),
                *(by_row if digest is None else digest(c, most) for c, most in limits),
            ]
        order = [
            f"{expression} COLLATE BINARY"
            for name in self.key
            for f, expression in stored
            if f.name == name
        ]
        self._rows = (
            f"SELECT {', '.join(columns) or '1'} FROM main.{quoted(entry.name)} AS t NOT INDEXED"  # noqa: S608 - names are quoted
        )
        self.text = self._rows + (f" ORDER BY {', '.join(order)}" if order else "")

    def row(self, stored: Sequence[Any], told: Digests | None) -> Row:
        row: Row = dict(zip(self.names, stored, strict=False))
        if self._wide is not None:
            kinds = stored[2 * len(self.names) :]
            for name, value, kind in zip(self.names, stored, kinds, strict=False):
                if kind == "text" and value is not None:
                    row[name] = text_value(value, self._wide)
        for name, convert in self._converters:
            row[name] = convert(row[name])
        if self.is_guarded and told is not None:
            count = len(self.names)
            parts = (stored[count * at : count * (at + 1)] for at in (1, 2, 3))
            for (name, column, most), size, kind, row_id in zip(self._kept, *parts, strict=True):
                if size is not None and size > most:
                    row[name] = told.of(self._table, column, row_id, kind, size)
        if self._absent:
            row.update(self._absent)
        return row
