"""The state after each committed transaction, read from a copy of the database.

Each follows from the pages that differ from those of an earlier state (`sqlite.paged`), so that
types, schema objects and canonical forms are those of a scan. Now and then a later state takes the
place of the earlier one, so that a commit costs by what it wrote.

`before`, whose chunks stand for those that nobody touched, is checked where that matters: a table
is read from the copy before the first commit that touches it, and must be what `before` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import Final

from statediff.capture.source import SourceUnavailable, SourceUnfollowed
from statediff.model.state import ChunkStore, State
from statediff.systems.relational.structure import STRUCTURE
from statediff.systems.sqlite.catalogue import Catalogue
from statediff.systems.sqlite.copy import DatabaseCopy, without_log
from statediff.systems.sqlite.paged.kept import KeptPages
from statediff.systems.sqlite.scan import Scan, Scanner, prepare
from statediff.systems.sqlite.wal import Commit

MAX_READ_BYTES: Final = 512 * 1024 * 1024
"""Bytes of pages that are read for all commits together: half a minute's work."""
ROW_BYTES: Final = 64
"""A row that is read counts as so many bytes at least: short rows take as long."""
MAX_READ_TABLES: Final = 100_000
"""Tables looked at for all commits that changed the catalogue: some seconds' work."""
_MOST_PAGES: Final = 64
"""So many pages differ from those of the earlier state, before a later one takes its place."""
_MOVED: Final = "the capture before does not show the state in which the feed was attached"


class Replay:
    """The states of one run, in order. `copy` holds the database as it was at the start."""

    def __init__(
        self, copy: DatabaseCopy, scanner: Scanner, store: ChunkStore, before: State
    ) -> None:
        if not before.schema.types:  # even an empty database has those of schema objects
            raise SourceUnavailable(_MOVED)
        self._copy, self._store, self._before, self._state = copy, store, before, before
        with closing(copy.connect()) as connection:
            self._catalogue = copy.begin(connection)
        image = copy.image()
        self._kept = KeptPages(image, before, self._catalogue, scanner, before, copy.describe)
        self._commit = Commit(0, (0, 0), self._kept.page_count, {})
        """All since the kept pages, as one."""
        self._unchecked = {each.name for each in before.schema.types} - {STRUCTURE}
        self._bytes_read = 0
        self._tables_read = 0

    def apply(self, commit: Commit) -> State:
        """The state after the commit. Raises `SourceUnavailable` if it cannot be known."""
        together = _joined(self._commit, commit)
        touched = self._kept.touched(together)
        if touched is None and self._commit.pages:  # all but what this one wrote is known
            self._keep_on()
            together = _joined(self._commit, commit)
        self._commit = together
        self._check(self._unchecked if touched is None else touched & self._unchecked)
        self._copy.write(commit)
        with closing(self._copy.connect()) as connection:
            prepare(connection)
            told = self._kept.after(self._commit, connection, self._store)
        self._spend(len(commit.pages) * self._copy.page_size, told.rows, is_whole=told.is_checked)
        is_described = told.catalogue is not self._catalogue
        self._state, self._catalogue = told.scanned.state, told.catalogue
        if is_described:
            self._count(told.catalogue)
        if is_described or len(self._commit.pages) > _MOST_PAGES:
            self._keep_on()
        return self._state

    def _keep_on(self) -> None:
        """The present state takes the place of the earlier one."""
        self._kept = self._kept.later(self._commit, self._state, self._catalogue)
        self._commit = replace(self._commit, pages={})

    def _check(self, names: Iterable[str]) -> None:
        """`before` is right about these, which nobody touched so far; raises if it is not."""
        asked = sorted(names)
        if not asked:
            return
        self._unchecked.difference_update(asked)
        with closing(self._copy.connect()) as connection:
            prepare(connection)
            scan = Scan(connection, self._catalogue, self._store)
            for name in asked:
                expected = self._before.tables[name]
                table = scan.table(expected.type, expected)
                if (table.enumeration, table.chunks) != (expected.enumeration, expected.chunks):
                    raise SourceUnavailable(_MOVED)

    def _spend(self, size: int, rows: int, *, is_whole: bool) -> None:
        self._bytes_read += self._copy.size if is_whole else size
        self._bytes_read += ROW_BYTES * rows
        if self._bytes_read > MAX_READ_BYTES:
            raise SourceUnfollowed(
                f"following its commits takes more than {MAX_READ_BYTES >> 20} MiB of reading"
            )

    def _count(self, catalogue: Catalogue) -> None:
        self._tables_read += len(catalogue.tables)
        if self._tables_read > MAX_READ_TABLES:
            raise SourceUnfollowed(
                f"its commits change the catalogue of more than {MAX_READ_TABLES} tables in all"
            )


def _joined(one: Commit, other: Commit) -> Commit:
    """Both commits as one."""
    pages = {**one.pages, **other.pages}
    if 1 in other.pages:
        pages[1] = without_log(other.pages[1])
    known = {at: content for at, content in pages.items() if at <= other.page_count}
    return replace(other, pages=known)
