"""The state after each committed transaction, told from a copy of the database.

States are read with the code that scans the database itself, so that types, schema objects and
canonical forms are the same. Only the tables that own a page the commit wrote are read again, and
of those whose key is the row id only the chunks with rows on these pages. All are read if the
commit touched the catalogue, or if the pages do not form trees.

`before`, whose chunks stand for those that nobody touched, is checked where that matters: a chunk
is read from the copy before the first commit that touches it, and must be what `before` says.
"""

from __future__ import annotations

import bisect
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from statediff.capture.source import SourceUnavailable
from statediff.model.schema import EntityType
from statediff.model.state import ChunkStore, State, Table
from statediff.systems.relational.schema import quoted, with_types
from statediff.systems.sqlite.catalogue import OBJECT_NAMES, Catalogue, folded, kind_of
from statediff.systems.sqlite.copy import DatabaseCopy, without_log
from statediff.systems.sqlite.pages import PageOwners, Rewritten, Tangled, row_range
from statediff.systems.sqlite.scan import Scan, Scanner, prepare
from statediff.systems.sqlite.wal import Commit

MAX_READ_BYTES: Final = 512 * 1024 * 1024
"""Bytes of tables that are read for all commits together: a minute's work, or two."""
_SCHEMA_ROOT: Final = 1
_MOVED: Final = "the capture before does not show the state in which the feed was attached"


@dataclass
class _Layout:
    """The catalogue at some moment, and whose each page is; `owners` is None if nobody can say."""

    catalogue: Catalogue
    owners: PageOwners | None
    tables: Mapping[int, str]
    """Root page → folded name, tables only: what an index holds is no state of its own."""
    row_ids: Mapping[str, str] = field(default_factory=dict)
    """Folded name → the column that is the row id, so that a leaf's rows are a range of keys."""


_Chunks = frozenset[int] | None
"""Which chunks of a table a commit may have changed; None if that may be all."""


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
        self._next: Mapping[int, bytes] = {}
        self._unchecked: set[int] = set()
        """Pages written since somebody could say whose each page is."""
        self._checked: dict[str, set[int]] = {}
        self._is_all_checked = False
        self._bytes_read = 0

    def apply(self, commit: Commit) -> State:
        """The state after the commit. Raises `SourceUnavailable` if it cannot be told."""
        if not self._before.schema.types:  # even an empty database has those of schema objects
            raise SourceUnavailable(_MOVED)
        if self._layout is None:
            with closing(self._copy.connect()) as connection:
                self._layout = self._layout_of(connection, self._copy.begin(connection))
        touched = self._touched(commit, self._layout)
        if touched is None:
            self._check_all()
            self._copy.write(commit)
            self._unchecked.update(commit.pages)
            self._read_all()
        else:
            self._check(touched)
            self._copy.write(commit)
            tables = self._tables(touched, self._state)
            schema = with_types(self._state.schema, {n: t.type for n, t in tables.items()})
            self._state = State(schema, {**self._state.tables, **tables})
        return self._state

    # What a commit touched

    def _touched(self, commit: Commit, layout: _Layout) -> dict[EntityType, _Chunks] | None:
        """The types whose rows the commit may have changed, and where; None if that may be all."""
        first = commit.pages.get(1)
        if layout.owners is None:
            return None
        if first is not None and _meaning(without_log(first)) != _meaning(self._copy.page(1)):
            return None
        written = [page for page in commit.pages if page != 1]
        roots = layout.owners.touched(written, commit.page_count)
        if _SCHEMA_ROOT in roots:
            return None
        self._next = commit.pages
        try:
            rewritten = layout.owners.update(roots, commit.pages, commit.page_count)
        except Tangled:
            return None
        finally:
            self._next = {}
        found: dict[EntityType, _Chunks] = {}
        for root in roots & layout.tables.keys():
            for each in self._state.schema.types:
                if folded(each.source_table) == layout.tables[root]:
                    chunks = self._chunks(each, layout, rewritten[root], commit)
                    found[each] = chunks
                    self._spend(layout.owners.size(root), each, chunks)
        return found

    def _chunks(
        self, each: EntityType, layout: _Layout, rewritten: Rewritten, commit: Commit
    ) -> _Chunks:
        table, earlier = self._state.tables[each.name], self._before.tables.get(each.name)
        if (
            not _is_by_row_id(each, layout)
            or rewritten.before is None
            or rewritten.after is None
            or earlier is None
            or not (table.enumeration.is_complete and earlier.enumeration.is_complete)
        ):
            return None
        cuts = list(table.partition)
        found: set[int] = set()
        contents = [self._copy.page(page) for page in rewritten.before]
        contents += [commit.pages.get(p) or self._copy.page(p) for p in rewritten.after]
        try:
            for keys in map(row_range, contents):
                if keys is not None:
                    first, last = (bisect.bisect_right(cuts, (key,)) for key in keys)
                    found.update(range(first, last + 1))
        except Tangled:
            return None
        return frozenset(found)

    def _page(self, number: int) -> bytes:
        return self._next.get(number) or self._copy.page(number)

    def _layout_of(self, connection: sqlite3.Connection, catalogue: Catalogue) -> _Layout:
        tables: dict[int, str] = {}
        size = self._copy.page_size
        try:
            usable = size - self._copy.page(1)[20]
            owners = PageOwners(self._page, usable, self._copy.size // size)
            owners.grow(_SCHEMA_ROOT)
            listed = connection.execute(
                "SELECT type, name, rootpage FROM main.sqlite_schema WHERE rootpage <> 0"
            )
            for kind, name, root in listed.fetchall():
                owners.grow(root)
                if self._unchecked:
                    owners.check_order(root, self._unchecked, is_new=True)
                if kind_of(kind) == "table":
                    tables[root] = folded(name)
        except (Tangled, TypeError, AttributeError, IndexError):
            return _Layout(catalogue, None, {})  # not as SQLite would have written it
        self._unchecked.clear()
        return _Layout(catalogue, owners, tables, _row_ids(connection, catalogue))

    # Reading

    def _check_all(self) -> None:
        """`before` is right about all that nobody touched so far; raises if it is not."""
        if not self._is_all_checked:
            self._is_all_checked = True
            unknown = {t: None for t in self._before.schema.types if t.name not in self._checked}
            known = {
                t: frozenset(range(len(self._before.tables[t.name].chunks))) - done
                for t in self._before.schema.types
                if (done := self._checked.get(t.name)) is not None
            }
            self._compare({**unknown, **known})

    def _check(self, touched: Mapping[EntityType, _Chunks]) -> None:
        """`before` is right about what is about to change for the first time; raises if not."""
        if self._is_all_checked:
            return
        new: dict[EntityType, _Chunks] = {}
        for each, chunks in touched.items():
            table = self._before.tables.get(each.name)
            if table is None:
                raise SourceUnavailable(_MOVED)
            every = frozenset(range(len(table.chunks)))
            done = self._checked.setdefault(each.name, set())
            left = (every if chunks is None else chunks) - done
            if left:
                new[each] = None if chunks is None and not done else left
            done |= left
        self._compare(new)

    def _compare(self, touched: Mapping[EntityType, _Chunks]) -> None:
        tables = self._tables(touched, self._before)
        for each, chunks in touched.items():
            table, expected = tables[each.name], self._before.tables[each.name]
            at = range(len(expected.chunks)) if chunks is None else chunks
            if table.enumeration != expected.enumeration or any(
                table.chunks[i] != expected.chunks[i] for i in at
            ):
                raise SourceUnavailable(_MOVED)

    def _read_all(self) -> None:
        self._bytes_read += self._copy.size
        self._limit()
        with closing(self._copy.connect()) as connection:
            catalogue = self._copy.begin(connection)
            found = self._scanner.scan(connection, catalogue, self._store, self._before)
            self._state = found.state
            self._layout = self._layout_of(connection, catalogue)

    def _tables(self, touched: Mapping[EntityType, _Chunks], base: State) -> dict[str, Table]:
        """The tables as the copy has them; where chunks are named, the others are as in `base`."""
        if not touched or self._layout is None:
            return {}
        with closing(self._copy.connect()) as connection:
            prepare(connection)
            scan = Scan(connection, self._layout.catalogue, self._store)
            return {
                each.name: self._table(scan, each, chunks, base.tables.get(each.name))
                for each, chunks in touched.items()
            }

    def _table(self, scan: Scan, each: EntityType, chunks: _Chunks, base: Table | None) -> Table:
        if chunks is not None and base is not None:
            refs = list(base.chunks)
            cuts: list[Any] = [None, *(cut[0] for cut in base.partition), None]  # row ids
            for at in chunks:
                ref = scan.between(each, cuts[at], cuts[at + 1])
                if ref is None:
                    break
                refs[at] = ref
            else:
                return replace(base, chunks=tuple(refs))
        return scan.table(each, self._before.tables.get(each.name))

    def _spend(self, pages: int, each: EntityType, chunks: _Chunks) -> None:
        count = len(self._state.tables[each.name].chunks)
        read = count if chunks is None else len(chunks)
        self._bytes_read += pages * self._copy.page_size * read // count
        self._limit()

    def _limit(self) -> None:
        if self._bytes_read > MAX_READ_BYTES:
            raise SourceUnavailable(
                f"following its commits takes more than {MAX_READ_BYTES >> 20} MiB of reading"
            )


def _row_ids(connection: sqlite3.Connection, catalogue: Catalogue) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, entry in catalogue.tables.items():
        if len(entry.key) == 1 and entry.key[0].declared.upper() == "INTEGER":
            # Where the key is not the row id itself there is an index for it, or the table is one.
            listed = connection.execute(f"PRAGMA main.index_list({quoted(entry.name)})").fetchall()
            if not any(origin == "pk" for _, _, _, origin, _ in listed):
                found[name] = folded(entry.key[0].name)
    return found


def _is_by_row_id(each: EntityType, layout: _Layout) -> bool:
    column = layout.row_ids.get(folded(each.source_table))
    if column is None or each.name in OBJECT_NAMES or len(each.key) != 1:
        return False
    return folded(each.by_name[each.key[0]].source_column) == column


def _meaning(first_page: bytes) -> bytes:
    """What of the first page says anything of the schema: not the counters, nor the free list."""
    return first_page[:24] + first_page[40:92] + first_page[100:]
