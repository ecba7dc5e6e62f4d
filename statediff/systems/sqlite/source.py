"""SQLite as a source: every row, schema object and setting, in one consistent read.

1. The file is opened read-only; nothing the database defines is run (`sqlite_catalogue`).
2. One read transaction covers the catalogue and all rows (`sqlite_scan`), write-ahead log included.

A table that cannot be read to its end is incomplete or unobserved with the cause, and the others
stand; only a database that cannot be opened or has no readable catalogue is unavailable.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from statediff.capture.source import Clock, scanned
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import ChunkStore, State
from statediff.systems.relational.schema import Refine, quoted, with_types
from statediff.systems.sqlite.catalogue import SEQUENCES, Catalogue, folded
from statediff.systems.sqlite.file import open_database
from statediff.systems.sqlite.paged import SqlitePages
from statediff.systems.sqlite.scan import Scanner, begin


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
        return SqlitePages(self.path, self.scanner, self.schema)

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
        return scanned(self.name, as_of, found.state, gaps=found.failures)


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
