"""The state after each committed transaction, told from a copy of the database.

States are read with the code that scans the database itself, so that types, schema objects and
canonical forms are the same. Only the tables that own a page the commit wrote are read again; all
are, if it touched the catalogue or if the pages do not form trees.

`before`, whose tables stand for those that nobody touched, is checked where that matters: a table
is read from the copy before the first commit that touches it, and must be what `before` says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from statediff.capture.source import SourceUnavailable
from statediff.model.schema import EntityType
from statediff.model.state import ChunkStore, State, Table
from statediff.sources.sqlite_catalogue import Catalogue, folded
from statediff.sources.sqlite_copy import DatabaseCopy, without_log
from statediff.sources.sqlite_pages import PageOwners, Tangled
from statediff.sources.sqlite_scan import Scan, Scanner, prepare, with_types
from statediff.sources.sqlite_wal import Commit

MAX_READ_BYTES: Final = 1024 * 1024 * 1024
"""Bytes of tables that are read for all commits together: about a minute's work."""
_SCHEMA_ROOT: Final = 1
_MOVED: Final = "the capture before does not show the state in which the feed was attached"


@dataclass
class _Layout:
    """The catalogue at some moment, and whose each page is; `owners` is None if nobody can say."""

    catalogue: Catalogue
    owners: PageOwners | None
    tables: Mapping[int, str]
    """Root page → folded name, tables only: what an index holds is no state of its own."""


class Replay:
    """The states of one run, in order. `copy` holds the database as it was at the start."""

    def __init__(
        self, copy: DatabaseCopy, scanner: Scanner, store: ChunkStore, before: State
    ) -> None:
        self._copy = copy
        self._scanner = scanner
        self._store = store
        self._before = before
        self._state = before
        self._layout: _Layout | None = None
        self._checked: set[str] = set()
        self._is_all_checked = False
        self._bytes_read = 0

    def apply(self, commit: Commit) -> State:
        """The state after the commit. Raises `SourceUnavailable` if it cannot be told."""
        if self._layout is None:
            with closing(self._copy.connect()) as connection:
                self._layout = self._layout_of(connection, self._copy.begin(connection))
        roots = self._roots_touched(commit, self._layout)
        types = None if roots is None else self._types_of(self._layout, roots)
        self._check(types)
        self._copy.write(commit)
        if roots is not None and types is not None and self._follow(commit, roots):
            self._read(types)
        else:
            self._read_all()
        return self._state

    # What a commit touched

    def _roots_touched(self, commit: Commit, layout: _Layout) -> set[int] | None:
        """The trees the commit may have changed; None if that may be all, or the catalogue."""
        first = commit.pages.get(1)
        if layout.owners is None:
            return None
        if first is not None and _meaning(without_log(first)) != _meaning(self._copy.page(1)):
            return None
        written = [page for page in commit.pages if page != 1]
        roots = layout.owners.touched(written, commit.page_count)
        return None if _SCHEMA_ROOT in roots else roots

    def _types_of(self, layout: _Layout, roots: set[int]) -> tuple[EntityType, ...]:
        tables = {layout.tables[root] for root in roots if root in layout.tables}
        return tuple(t for t in self._state.schema.types if folded(t.source_table) in tables)

    def _follow(self, commit: Commit, roots: set[int]) -> bool:
        """Whether the pages still form trees."""
        layout = self._layout
        if layout is None or layout.owners is None:
            return False
        try:
            layout.owners.update(roots, commit.pages, commit.page_count)
        except Tangled:
            return False
        self._spend(sum(layout.owners.size(root) for root in roots) * self._copy.page_size)
        return True

    def _layout_of(self, connection: sqlite3.Connection, catalogue: Catalogue) -> _Layout:
        tables: dict[int, str] = {}
        size = self._copy.page_size
        try:
            usable = size - self._copy.page(1)[20]
            owners = PageOwners(self._copy.page, usable, self._copy.size // size)
            owners.grow(_SCHEMA_ROOT)
            listed = connection.execute(
                "SELECT type, name, rootpage FROM main.sqlite_schema WHERE rootpage <> 0"
            )
            for kind, name, root in listed.fetchall():
                owners.grow(root)
                if kind == "table":
                    tables[root] = folded(name)
        except (Tangled, TypeError, AttributeError, IndexError):
            return _Layout(catalogue, None, {})  # not as SQLite would have written it
        return _Layout(catalogue, owners, tables)

    # Reading

    def _check(self, types: tuple[EntityType, ...] | None) -> None:
        """`before` is right about these types (None: about all); raises if it is not."""
        if self._is_all_checked:
            return
        if types is None:
            types = self._before.schema.types
            self._is_all_checked = True
        unchecked = tuple(t for t in types if t.name not in self._checked)
        for name, table in self._tables(unchecked).items():
            expected = self._before.tables[name]
            if (expected.chunks, expected.enumeration) != (table.chunks, table.enumeration):
                raise SourceUnavailable(_MOVED)
            self._checked.add(name)

    def _read_all(self) -> None:
        self._spend(self._copy.size)
        with closing(self._copy.connect()) as connection:
            catalogue = self._copy.begin(connection)
            self._state = self._scanner.scan(connection, catalogue, self._store, self._before).state
            self._layout = self._layout_of(connection, catalogue)

    def _read(self, types: tuple[EntityType, ...]) -> None:
        tables = self._tables(types)
        if tables:
            schema = with_types(self._state.schema, {n: t.type for n, t in tables.items()})
            self._state = State(schema, {**self._state.tables, **tables})

    def _tables(self, types: tuple[EntityType, ...]) -> dict[str, Table]:
        if not types or self._layout is None:
            return {}
        with closing(self._copy.connect()) as connection:
            prepare(connection)
            scan = Scan(connection, self._layout.catalogue, self._store)
            return {t.name: scan.table(t, self._before.tables.get(t.name)) for t in types}

    def _spend(self, size: int) -> None:
        self._bytes_read += size
        if self._bytes_read > MAX_READ_BYTES:
            raise SourceUnavailable(
                f"following its commits takes more than {MAX_READ_BYTES >> 20} MiB of reading"
            )


def _meaning(first_page: bytes) -> bytes:
    """What of the first page says anything of the schema: not the counters, nor the free list."""
    return first_page[:24] + first_page[40:92] + first_page[100:]
