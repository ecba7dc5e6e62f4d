"""SQLite as a source: every row, schema object and setting, in one consistent read.

1. The file is opened read-only; nothing the database defines is run (`sqlite.catalogue`).
2. One read transaction covers the catalogue and all rows (`sqlite.scan`), write-ahead log included.

A table that cannot be read to its end is incomplete or unobserved with the cause, and the others
stand; only a database that cannot be opened or has no readable catalogue is unavailable.

`SqlitePages` reads a database again by pages: only what lies on pages that changed is read.

Its `read` keeps the pages of the read transaction; `read_changed` compares them, byte by byte, with
those that SQLite shows now, write-ahead log included (`sqlite.paged`). It trusts nothing but the
file format: rows lie on the pages of their table, and equal pages hold equal rows. A page that a
vacuum moved is one more to read; none is ever left out. What an agent does to counters, times or
the log misleads nobody.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import quote

from statediff.capture.source import Clock, Source, SourceRuined, SourceUnavailable, scanned
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import ChunkStore, State
from statediff.model.values import printable
from statediff.systems.base.folders import is_of_the_path
from statediff.systems.relational.schema import Refine, quoted, with_types
from statediff.systems.sqlite.catalogue import Catalogue
from statediff.systems.sqlite.definitions import Uncertain, folded
from statediff.systems.sqlite.object_types import OWN_TABLES
from statediff.systems.sqlite.paged.kept import KeptPages, keep
from statediff.systems.sqlite.pages import FileConnection, has_log, rolled_back
from statediff.systems.sqlite.scan import (
    BUSY_SECONDS,
    Scanned,
    Scanner,
    begin,
    cause_of,
    is_of_the_file,
    prepare,
)


class SqliteSource:
    """One SQLite database file as a source.

    `refine` maps the schema of the catalogue to the logical one: it may rename types and fields
    (`EntityType.table` and `Field.column` keep the database's names), change kinds, declare zones
    and keys, and leave types out. With `in_place`, a link in the place of the file, or of the two
    folders above it, is not followed.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "mode, owner, attributes and times of the file, and other files beside it",
        "where a path leads that was a link before the run already, if it is the same content",
        "databases that the program attaches: each is a source of its own",
        "rows of virtual tables: those of the tables that they are kept in are read",
        "settings that a connection has for itself, and the size of the cache that a file suggests",
        "whether rows satisfy their table's `CHECK` constraints: the rows are read as they are",
        "values in an index by a function, and order by a collation, that only an application has",
        "bytes behind the last page, and bytes of the file's header that SQLite keeps for later",
        "the order in which schema objects were made, and so of two triggers of one event",
        "row ids that no column is, and no index over `content=`, view or trigger has",
        "quotes around names of tables in definitions, which a table gets when it is renamed",
        "what is left in a node of an R-tree behind its last cell",
        "how an FTS3, FTS4 or FTS5 index of up to 1 MiB that says the same is cut and merged",
    )

    def __init__(
        self,
        name: str,
        path: Path | str,
        refine: Refine | None = None,
        *,
        in_place: bool = False,
    ) -> None:
        self.path = path if isinstance(path, Path) else Path(path)
        self.scanner = Scanner(name, refine)
        self._in_place = in_place
        self._catalogue: Catalogue | None = None
        """As it was last read: what it said of a table, it says again for the same definition."""
        self.is_unplugged = False
        """The environment took the file away: that it cannot be read says nothing of the run."""

    @property
    def name(self) -> str:
        return self.scanner.name

    @property
    def places(self) -> tuple[Path, ...]:
        """The file, where a link leads from there, and the files that SQLite keeps beside it."""
        if self.is_unplugged:
            return ()
        real = Path(os.path.realpath(self.path))
        beside = tuple(Path(f"{real}{suffix}") for suffix in ("", *_SIDE_FILES))
        return beside if self.path.absolute() == real else (self.path, *beside)

    def by_pages(self) -> SqlitePages:
        """The same source, read again by the pages that changed."""
        return SqlitePages(self)

    def open(self) -> sqlite3.Connection:
        """A connection that can only read. Raises `SourceRuined`, `SourceUnavailable`."""
        try:
            if self._in_place and stands_on_link(self.path):
                raise SourceRuined("a link stands in the place of the database, or above it")
            return open_database(self.path)
        except SourceRuined as error:
            if self.is_unplugged:
                raise SourceUnavailable(str(error)) from error
            raise

    def begin(self, connection: sqlite3.Connection) -> Catalogue:
        """The catalogue, in a read transaction that stays open. Raises `SourceUnavailable`."""
        self._catalogue = begin(connection, self._catalogue)
        return self._catalogue

    def schema(self) -> Schema:
        with closing(self.open()) as connection:
            catalogue = self.begin(connection)
            schema = self.scanner.schema(connection, catalogue)
            return with_types(
                schema,
                {
                    t.name: replace(t, key=())
                    for t in schema.types
                    if _has_null_keys(connection, catalogue, t)
                },
            )

    def beside(self, kept: KeptPages, store: ChunkStore, most: int | None) -> Scanned:
        """The content of the file, of which these pages were kept; see `KeptPages.beside`."""
        with closing(self.open()) as connection:
            prepare(connection)
            connection.execute("PRAGMA schema_version").fetchall()
            return kept.beside(connection, store, most).scanned

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()  # before the snapshot is taken: the state shown is never older than this
        with closing(self.open()) as connection:
            found = self.scanner.scan(connection, self.begin(connection), store, like)
        return scanned(self.name, as_of, found.state, gaps=found.failures, spoiled=found.spoiled)


def _has_null_keys(
    connection: sqlite3.Connection, catalogue: Catalogue, entity_type: EntityType
) -> bool:
    nullable = [f for f in entity_type.fields if f.name in entity_type.key and f.is_nullable]
    entry = catalogue.tables.get(folded(entity_type.source_table))
    if not nullable or entry is None or entry.unreadable or entry.name in OWN_TABLES:
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


_SIDE_FILES: Final = ("-wal", "-shm", "-journal")
_READ_IN_A_COPY: Final = (
    sqlite3.SQLITE_READONLY_ROLLBACK,
    sqlite3.SQLITE_READONLY_DIRECTORY,
    sqlite3.SQLITE_READONLY_CANTINIT,
    sqlite3.SQLITE_READONLY_RECOVERY,
)
"""SQLite would have to write beside the file first, and may not."""


def open_database(path: Path) -> sqlite3.Connection:
    """A connection that can only read. Raises `SourceRuined`, `SourceUnavailable`.

    An interrupted write is taken back first, in a copy. So is a write-ahead log read whose index
    cannot be made, because the folder cannot be written.
    """
    cause = strange_side_file(path)
    if cause is not None:
        raise SourceRuined(cause)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - one call, one answer
            raise SourceRuined(f"{printable(path.name)} is not a file")
        if not os.access(path, os.R_OK):
            raise SourceRuined(f"{printable(path.name)} cannot be opened: Permission denied")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        refusal = SourceRuined if is_of_the_path(error) else SourceUnavailable
        raise refusal(f"{printable(path.name)} cannot be opened: {reason}") from error
    uri = "file:" + quote(os.fsencode(path.absolute())) + "?mode=ro"
    try:
        connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, factory=FileConnection
        )
    except sqlite3.Error as error:
        raise SourceUnavailable(cause_of(error)) from error
    try:
        connection.execute("PRAGMA schema_version").fetchall()
    except sqlite3.Error as error:
        connection.close()
        if error.sqlite_errorcode in _READ_IN_A_COPY or _has_log_without_index(path, error):
            return rolled_back(_followed(path))
        refusal = SourceRuined if is_of_the_file(error) else SourceUnavailable
        raise refusal(cause_of(error)) from error
    return connection


def _has_log_without_index(path: Path, error: sqlite3.Error) -> bool:
    """True if there is a log that cannot be read because nobody may write its index beside it."""
    real = _followed(path)
    is_refused = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN
    has_log = is_refused and real.with_name(f"{real.name}-wal").exists()
    return has_log and not os.access(real.parent, os.W_OK)


def _followed(path: Path) -> Path:
    """The file that a path leads to; SQLite's other files are beside it, not beside a link.

    Raises `OSError`, `ValueError`.
    """
    return Path(os.path.realpath(path))


def stands_on_link(path: Path) -> bool:
    """True if the file, or one of the two folders above it, is a link."""
    return any(each.is_symlink() for each in (path, *path.parents[:2]))


def strange_side_file(path: Path) -> str | None:
    """Why SQLite may not open the database: if its log is a pipe, SQLite would wait forever."""
    try:  # SQLite's other files are not beside a link
        real = os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114 - the hot path
    except (OSError, ValueError):
        return None  # opening says why
    for suffix in _SIDE_FILES:
        try:
            if not stat.S_ISREG(os.lstat(f"{real}{suffix}").st_mode):
                return f"{printable(path.name + suffix)} is not a file"
        except (OSError, ValueError):
            continue  # it is not there, or nothing is: opening says why
    return None


def write_in_progress(file: Path) -> str | None:
    """Why the database is not at rest; None where nobody writes. Raises `sqlite3.Error`.

    A write transaction is begun and rolled back, which changes no byte. Where a writer died in the
    midst of its own, SQLite takes that back, as for the next reader.
    """

    def connect(mode: str) -> sqlite3.Connection:
        uri = f"{file.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(
            uri, uri=True, timeout=0, isolation_level=None, factory=FileConnection
        )

    # A connection that is the last to close would fold the write-ahead log into the file. One
    # that can only read never does, so it is opened first and closed last.
    with ExitStack() as stack:
        if has_log(str(file)):
            reader = stack.enter_context(closing(connect("ro")))
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        writer = stack.enter_context(closing(connect("rw")))
        try:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            return "a write transaction is still open"
    return None


MAX_CHANGED_BYTES: Final = 64 * 1024 * 1024
"""Beyond it a scan is as good."""


class SqlitePages:
    """A `PageReader` of one database file."""

    def __init__(self, source: SqliteSource) -> None:
        self._source = source
        self.kept: KeptPages | None = None
        """The pages of a reading of the whole."""

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def places(self) -> tuple[Path, ...]:
        """The places of the source."""
        return self._source.places

    def schema(self) -> Schema:
        return self._source.schema()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        self.close()
        as_of = clock()
        with closing(self._source.open()) as connection:
            catalogue = self._source.begin(connection)
            found = self._source.scanner.scan(connection, catalogue, store, like)
            if not found.failures:
                self.kept = keep(connection, found.state, catalogue, self._source.scanner)
        return scanned(self.name, as_of, found.state, spoiled=found.spoiled)

    def read_changed(self, store: ChunkStore, clock: Clock, like: State) -> SourceCapture:
        image = self.kept
        if image is None or image.state.digest() != like.digest():
            raise SourceUnavailable("the pages of the state before were not kept")
        as_of, most = clock(), MAX_CHANGED_BYTES // image.page_size
        try:
            told = self._source.beside(image, store, most)
        except Uncertain as error:
            raise SourceUnavailable(str(error)) from error
        except sqlite3.Error as error:
            raise SourceUnavailable(cause_of(error)) from error
        except OSError as error:
            raise SourceUnavailable(f"its pages could not be read: {error.strerror}") from error
        state = told.state
        if not all(table.enumeration.is_complete for table in state.tables.values()):
            raise SourceUnavailable("something that changed can only be read in part")
        return scanned(self.name, as_of, state)

    def beside(self, source: Source) -> Source:
        """Another database, or the same, read by what differs from the kept pages."""
        if not isinstance(source, SqliteSource) or source.name != self.name:
            return source
        return _PagesBeside(source, self)

    def close(self) -> None:
        """Nothing is kept."""
        self.kept = None


class _PagesBeside:
    """A database whose pages are compared with kept ones; a scan tells what they do not tell."""

    def __init__(self, source: SqliteSource, reader: SqlitePages) -> None:
        self.name = source.name
        self._source, self._reader = source, reader

    def schema(self) -> Schema:
        return self._source.schema()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        kept = self._reader.kept
        if kept is None or like is not kept.state:
            return self._source.read(store, clock, like)
        as_of = clock()
        try:
            found = self._source.beside(kept, store, None)
        except (Uncertain, sqlite3.Error, OSError):
            return self._source.read(store, clock, like)
        return scanned(self.name, as_of, found.state, gaps=found.failures, spoiled=found.spoiled)
