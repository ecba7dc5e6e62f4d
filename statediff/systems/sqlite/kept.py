"""A SQLite database as it was, with which any number of later ones are compared by pages.

Equal pages hold equal rows. Of pages that differ only the rows that differ are decoded, and put in
place of those of the state before, whose other chunks are shared. The same pages say where the
trees were changed (`sqlite.moves`), and whether the file is as sound as it was
(`sqlite.preserved`). What they do not say is `Uncertain` or `Tangled`, and a scan reads it.

Nothing here changes once it is made, but for what is found out and kept: threads may share it, and
processes that are forked.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from statediff.model.patch import patched
from statediff.model.schema import EntityType
from statediff.model.state import ChunkStore, LayeredChunks, State, Table
from statediff.systems.relational.structure import STRUCTURE, is_established
from statediff.systems.sqlite.btree import FILE_HEADER_BYTES, Tangled
from statediff.systems.sqlite.catalogue import (
    OBJECT_NAMES,
    OBJECT_TYPES,
    Catalogue,
    folded,
    read_catalogue,
)
from statediff.systems.sqlite.copy import without_log
from statediff.systems.sqlite.entries import (
    CATALOGUE,
    TableIndexes,
    Uncertain,
    read_indexes,
)
from statediff.systems.sqlite.moves import Moves, follow_moves
from statediff.systems.sqlite.order import Tree
from statediff.systems.sqlite.owners import PageOwners
from statediff.systems.sqlite.pages import FileConnection, page_size, shown_blocks
from statediff.systems.sqlite.preserved import (
    LOCK_BYTE,
    Difference,
    Preservation,
    check_head,
    free_pages,
    has_maps,
    map_pages,
)
from statediff.systems.sqlite.records import MANY, RowReader, are_few, row_reader
from statediff.systems.sqlite.scan import Scan, prepare
from statediff.systems.sqlite.searches import search_index
from statediff.systems.sqlite.wal import Commit

MAX_KEPT_BYTES: Final = 512 * 1024 * 1024
"""A larger database is scanned."""
_MOST_PAGES: Final = 64
_NODES_KEPT: Final = 2000
_SCHEMA_ROOT: Final = 1
_NOT_TABLES: Final = OBJECT_NAMES - {each.name for each in OBJECT_TYPES if each.table}


@dataclass(frozen=True)
class _Layout:
    """Whose each page is."""

    owners: PageOwners
    free: frozenset[int]
    types: Mapping[int, tuple[str, ...]]
    """Root → the types that show the rows of that table."""
    indexes: Mapping[int, TableIndexes]
    """Root → the table that it belongs to."""


class KeptPages:
    """The pages of one state; `image` is all of them."""

    def __init__(self, image: bytes, state: State, catalogue: Catalogue) -> None:
        self.content = image
        self.page_size = page_size(image)
        self.catalogue = catalogue
        self.state = state
        self._own = threading.local()
        self._trees: dict[tuple[int, bool], Tree] = {}
        self._nodes = 0
        self._readers: dict[str, RowReader | None] = {}

    def after(self, connection: sqlite3.Connection, store: ChunkStore) -> State:
        """The state that the connection's read transaction shows, as a scan would tell it.

        Raises `Uncertain`, `Tangled`, `sqlite3.Error`, `OSError`.
        """
        most = max(_MOST_PAGES, len(self.content) // self.page_size // MANY)
        commit = self.difference(connection, most)
        if commit is None:
            return self.state
        return _After(self, self._layout, commit, connection, store).state()

    def reader(self, each: EntityType, table: TableIndexes) -> RowReader | None:
        """What tells the rows of a type from their records; None where a scan has to."""
        if each.name not in self._readers:
            self._readers[each.name] = row_reader(each, self.catalogue, table)
        return self._readers[each.name]

    def page(self, number: int) -> bytes:
        """A page as it was."""
        return self.content[(number - 1) * self.page_size : number * self.page_size]

    def tree(self, root: int, are_row_ids: bool) -> Tree:
        """A tree as it was, whose nodes stay parsed."""
        if self._nodes > _NODES_KEPT:
            self._trees, self._nodes = {}, 0
        self._nodes += 1
        found = self._trees.get((root, are_row_ids))
        if found is None:
            found = Tree(self.page, self._layout.owners.usable, are_row_ids=are_row_ids)
            self._trees[root, are_row_ids] = found
        return found

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """To the database as it was: one of each thread of each process."""
        kept = getattr(self._own, "kept", None)
        if kept is None or kept[0] != os.getpid():
            connection = sqlite3.connect(":memory:", isolation_level=None, factory=FileConnection)
            connection.deserialize(without_log(self.content))
            prepare(connection)
            self._own.kept = kept = os.getpid(), connection
        yield kept[1]

    @cached_property
    def _layout(self) -> _Layout:
        if not is_established(self.state.tables.get(STRUCTURE)):
            raise Uncertain("the structure before was not sound")
        count, head = len(self.content) // self.page_size, self.page(1)
        usable = self.page_size - head[20]
        owners = PageOwners(self.page, usable, count)
        with self.connection() as connection:
            listed = connection.execute(
                "SELECT type, name, rootpage FROM main.sqlite_schema WHERE rootpage <> 0"
            ).fetchall()
            roots = {name: root for _, name, root in listed if isinstance(name, str)}
            if CATALOGUE.name in roots:
                raise Uncertain("a table has the name of the catalogue")
            indexes = read_indexes(connection, head, roots)
        for root in (_SCHEMA_ROOT, *(root for _, _, root in listed)):
            owners.grow(root)
        parts = {_SCHEMA_ROOT: CATALOGUE}
        for table in indexes.values():
            for root in (roots[table.name], *(index.root for index in table.indexes)):
                parts[root] = table
        free = free_pages(self.page, count, usable)
        maps = [*map_pages(count, usable)] if has_maps(head) else []
        if not owners.account_for_all({*free, *maps}):
            raise Uncertain("a page is nobody's")
        names = {root: folded(name) for kind, name, root in listed if kind == "table"}
        types = {
            root: tuple(
                each.name
                for each in self.state.schema.types
                if folded(each.source_table) == name and each.name not in _NOT_TABLES
            )
            for root, name in names.items()
        }
        return _Layout(owners, frozenset(free), types, parts)

    def difference(self, connection: sqlite3.Connection, most: int) -> Commit | None:
        """All pages that are others than before, as one commit; None where none is.

        Raises `Uncertain` where they cannot be compared or are more than `most`, `sqlite3.Error`,
        `OSError`.
        """
        pages: dict[int, bytes] = {}
        size, offset, image = self.page_size, 0, self.content
        for block in shown_blocks(connection):
            if len(block) % size or (not offset and block[16:20] != image[16:20]):
                raise Uncertain("its journal mode or its page size changed")
            both = max(min(len(block), len(image) - offset), 0) // size
            one = np.frombuffer(image, np.int64, both * size // 8, min(offset, len(image)))
            other = np.frombuffer(block, np.int64, both * size // 8)
            differing = ((one != other).nonzero()[0] // (size // 8)).tolist()
            for at in (*dict.fromkeys(differing), *range(both, len(block) // size)):
                pages[offset // size + at + 1] = bytes(block[at * size : (at + 1) * size])
            if len(pages) > most:
                raise Uncertain("most of its pages changed")
            offset += len(block)
        if not pages and offset == len(image):
            return None
        return Commit(0, (0, 0), offset // size, pages)


def keep(connection: sqlite3.Connection, state: State, catalogue: Catalogue) -> KeptPages | None:
    """The pages that the connection's read transaction shows; None where there are too many."""
    (count,), (size,) = (
        connection.execute(f"PRAGMA main.{each}").fetchone() for each in ("page_count", "page_size")
    )
    if not 0 < count * size <= MAX_KEPT_BYTES:
        return None
    return KeptPages(connection.serialize(), state, catalogue)


class _After:
    """One database that is compared."""

    def __init__(
        self,
        kept: KeptPages,
        layout: _Layout,
        commit: Commit,
        connection: sqlite3.Connection,
        store: ChunkStore,
    ) -> None:
        self._kept, self._layout, self._commit = kept, layout, commit
        self._connection, self._store = connection, store

    def state(self) -> State:
        """Raises as `KeptPages.after`."""
        moves, preservation = self._checked()
        before = self._kept.state
        tables = dict(before.tables)
        if CATALOGUE.name in preservation.differences:
            tables |= self._objects()
        for root in moves.rewritten:
            table = self._layout.indexes[root]
            if search_index(self._kept.catalogue, folded(table.name)) is not None:
                raise Uncertain("the parts of a search index are read together")
            for name in self._layout.types.get(root, ()):
                difference = preservation.differences[table.name]
                if difference.gone or difference.new:
                    tables[name] = self._table(before.tables[name], difference)
        return State(before.schema, tables)

    def _checked(self) -> tuple[Moves, Preservation]:
        """What became of the pages; the file is as sound as it was."""
        owners, commit, kept = self._layout.owners, self._commit, self._kept
        head, former = self._page(1), kept.page(1)
        if _settings(head) != _settings(former):
            raise Uncertain("its settings changed")
        check_head(head, commit.page_count)
        if commit.page_count * len(head) > LOCK_BYTE:
            raise Uncertain("it has a page for locks")
        is_tree_kept = head[FILE_HEADER_BYTES:] == former[FILE_HEADER_BYTES:]
        written = commit.pages.keys() - ({_SCHEMA_ROOT} if is_tree_kept else ())
        moves = follow_moves(owners, written, commit.page_count, self._page)
        self._check_places(moves, head, former)
        found = Preservation(
            commit,
            owners.usable,
            moves.rewritten,
            self._layout.indexes,
            kept.page,
            self._page,
            kept.tree,
        )
        found.subtract(kept.connection, -1)
        found.subtract(self._prepared, 1)
        if not found.holds():
            raise Uncertain("an index is not what its table is")
        return moves, found

    def _objects(self) -> dict[str, Table]:
        """What the catalogue says, where it says nothing else of any table or index."""
        known, before = self._kept.catalogue, self._kept.state
        catalogue = read_catalogue(self._connection, known)
        if _rooted(catalogue) != _rooted(known):
            raise Uncertain("a table or an index is another")
        scan = Scan(self._connection, catalogue, self._store)
        found = {
            each.name: scan.table(each, before.tables[each.name])
            for each in before.schema.types
            # Written out, as 1, 1.0 and True are equal.
            if repr(catalogue.objects.get(each.name)) != repr(known.objects.get(each.name))
        }
        if scan.failures or scan.spoiled:
            raise Uncertain("the catalogue cannot be read whole")
        return found

    def _page(self, number: int) -> bytes:
        return self._commit.pages.get(number) or self._kept.page(number)

    @contextmanager
    def _prepared(self) -> Iterator[sqlite3.Connection]:
        yield self._connection

    def _check_places(self, moves: Moves, head: bytes, former: bytes) -> None:
        """Every page is in one place."""
        layout, commit, owners = self._layout, self._commit, self._layout.owners
        is_listed = head[32:40] != former[32:40] or not layout.free.isdisjoint(commit.pages)
        if (
            moves.are_places_kept
            and not is_listed
            and commit.page_count == owners.page_count
            and not has_maps(head)
        ):
            return
        if has_maps(head):
            maps = map_pages(commit.page_count, owners.usable)
            are_maps_kept = commit.pages.keys().isdisjoint(maps)
            if not (moves.are_places_kept and are_maps_kept and not is_listed):
                raise Uncertain("its maps of pages changed")
            return
        free = free_pages(self._page, commit.page_count, owners.usable)
        used = len(owners) - len(moves.lost) + len(moves.gained)
        if used + len(free) != commit.page_count or any(
            page in moves.gained or (page in owners and page not in moves.lost) for page in free
        ):
            raise Tangled("a page is nobody's, or has two places")

    # Rows

    def _table(self, before: Table, difference: Difference) -> Table:
        if are_few(difference, before):
            found = self._patched(before, difference)
            if found is not None:
                return found
        scan = Scan(self._connection, self._kept.catalogue, self._store)
        table = scan.table(before.type, before)
        if scan.failures or scan.spoiled:
            raise Uncertain("a table cannot be read whole")
        return table

    def _patched(self, before: Table, difference: Difference) -> Table | None:
        reader = self._kept.reader(before.type, difference.table)
        if reader is None or not before.enumeration.is_complete:
            return None
        usable = self._layout.owners.usable
        try:
            gone = reader.rows(difference.gone, self._kept.page, usable)
            new = reader.rows(difference.new, self._page, usable)
            return patched(before, gone, new, self._store_over(before))
        except (Uncertain, ValueError):
            return None

    def _store_over(self, before: Table) -> ChunkStore:
        is_its_own = self._store is before.store
        return self._store if is_its_own else LayeredChunks(before.store)


def _settings(head: bytes) -> bytes:
    """All of the header but counters, the free list, how many pages there are and the cookie."""
    return head[:24] + head[44:92]


_ROOTLESS: Final = re.compile(r"CREATE\s+(TRIGGER|VIEW)\s", re.IGNORECASE)


def _rooted(catalogue: Catalogue) -> list[str]:
    """The lines of the catalogue, written out, but for those that are triggers and views alone."""
    return sorted(
        repr(line)
        for lines in catalogue.lines.values()
        for line in lines
        if line[3] or not isinstance(line[4], str) or not _is_rootless(line[0], line[4])
    )


def _is_rootless(kind: Any, definition: str) -> bool:
    """Whether the kind is what SQLite takes the line for, which looks at the definition alone."""
    found = _ROOTLESS.match(definition)
    return found is not None and kind == found[1].lower()
