"""SQLite as a source: every row, schema object and setting, in one consistent read.

1. The file is opened read-only; nothing the database defines is run (`sqlite_catalogue`).
2. One read transaction covers the catalogue and all rows (`sqlite_scan`), write-ahead log included.

A table that cannot be read to its end is incomplete or unobserved with the cause, and the others
stand; only a database that cannot be opened or has no readable catalogue is unavailable.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.readings import Reading, ReadingKind, SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import ChunkStore, State
from statediff.model.values import printable
from statediff.sources.relational import Refine, quoted, with_types
from statediff.sources.sqlite_catalogue import SEQUENCES, Catalogue, folded
from statediff.sources.sqlite_scan import (
    BUSY_SECONDS,
    Scanner,
    begin,
    cause_of,
)

if TYPE_CHECKING:
    from statediff.sources.sqlite_paged import SqlitePages

SIDE_FILES: Final = ("-wal", "-shm", "-journal")


class SqliteSource:
    """One SQLite database file as a source.

    `refine` maps the schema of the catalogue to the logical one: it may rename types and fields
    (`EntityType.table` and `Field.column` keep the database's names), change kinds, declare zones
    and keys, and leave types out.
    """

    def __init__(self, name: str, path: Path | str, refine: Refine | None = None) -> None:
        self.path = Path(path)
        self.scanner = Scanner(name, refine)

    @property
    def name(self) -> str:
        return self.scanner.name

    def by_pages(self) -> SqlitePages:
        """The same source, read again by the pages that changed."""
        from statediff.sources.sqlite_paged import SqlitePages  # noqa: PLC0415 - it builds upon this module

        return SqlitePages(self)

    def schema(self) -> Schema:
        with closing(open_database(self.path)) as connection:
            catalogue = begin(connection)
            schema = self.scanner.schema(catalogue)
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
        with closing(open_database(self.path)) as connection:
            found = self.scanner.scan(connection, begin(connection), store, like)
        reading = Reading(
            self.name,
            self.name,
            ReadingKind.SCAN,
            as_of,
            "trial",
            is_complete=not found.failures,
            digest=found.state.digest(),
            cause="; ".join(found.failures) or None,
        )
        return SourceCapture(reading, found.state)


def open_database(path: Path) -> sqlite3.Connection:
    """A connection that can only read. Raises `SourceUnavailable`."""
    cause = strange_side_file(path)
    if cause is not None:
        raise SourceUnavailable(cause)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - one call, one answer
            raise SourceUnavailable(f"{printable(path.name)} is not a file")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceUnavailable(f"{printable(path.name)} cannot be opened: {reason}") from error
    uri = "file:" + quote(os.fsencode(path.absolute())) + "?mode=ro"
    try:
        return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    except sqlite3.Error as error:
        raise SourceUnavailable(cause_of(error)) from error


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
