"""A SQLite database as it was, with which any number of later ones are compared by pages.

Equal pages hold equal rows. Of pages that differ only the rows that differ are decoded, and put in
place of those of the state before, whose other chunks are shared. The same pages say where the
trees were changed (`moves`), and whether the file is as sound as it was (`preserved`). Where they
say that of the rows and not of the structure, SQLite checks the file; what they do not say of the
rows is read: all tables but those of which no page changed.

Nothing here changes once it is made, but for what is found out and kept: threads may share it, and
processes that are forked.
"""

from __future__ import annotations

import mmap
import os
import re
import sqlite3
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

import numpy as np

from statediff.model.batches import Row
from statediff.model.patch import patched
from statediff.model.schema import EntityType
from statediff.model.state import CHUNK_KEYS, ChunkStore, LayeredChunks, State, Table
from statediff.systems.relational.structure import STRUCTURE, is_established
from statediff.systems.sqlite.catalogue import (
    STORED_COLUMN,
    Catalogue,
    kind_of,
    read_catalogue,
)
from statediff.systems.sqlite.copy import without_log
from statediff.systems.sqlite.definitions import Uncertain, folded
from statediff.systems.sqlite.object_types import CATALOGUED, OBJECT_NAMES, OBJECT_TYPES
from statediff.systems.sqlite.paged.btree import FILE_HEADER_BYTES, Pages, Tangled
from statediff.systems.sqlite.paged.entries import (
    CATALOGUE,
    TableIndexes,
    read_indexes,
)
from statediff.systems.sqlite.paged.moves import Moves, follow_moves
from statediff.systems.sqlite.paged.order import Tree
from statediff.systems.sqlite.paged.owners import PageOwners
from statediff.systems.sqlite.paged.preserved import (
    LOCK_BYTE,
    Difference,
    Preservation,
    check_head,
    free_pages,
    has_maps,
    map_pages,
)
from statediff.systems.sqlite.paged.records import MANY, RowReader, are_few, row_reader
from statediff.systems.sqlite.pages import FileConnection, page_size, shown_blocks
from statediff.systems.sqlite.scan import Scan, Scanned, Scanner, prepare
from statediff.systems.sqlite.searches import search_index
from statediff.systems.sqlite.stored import as_before
from statediff.systems.sqlite.wal import Commit

MAX_KEPT_BYTES: Final = 512 * 1024 * 1024
"""A larger database is scanned."""
_MOST_PAGES: Final = 64
_NODES_KEPT: Final = 2000
_SCHEMA_ROOT: Final = 1
_NOT_TABLES: Final = OBJECT_NAMES - {each.name for each in OBJECT_TYPES if each.table}
_UNTOLD: Final = (Uncertain, Tangled, sqlite3.Error, IndexError, struct.error)
"""Pages do not tell what they hold."""

Describe = Callable[[sqlite3.Connection, Catalogue], Catalogue]
"""Describes the catalogue again, where an earlier one is known."""


@dataclass(frozen=True)
class _Layout:
    """Whose each page is."""

    owners: PageOwners
    free: frozenset[int]
    types: Mapping[int, tuple[str, ...]]
    """Root → the types that show the rows of that table."""
    indexes: Mapping[int, TableIndexes]
    """Root → the table that it belongs to."""
    roots: Mapping[str, int]
    """Folded name of a table → its root."""
    searched: frozenset[int]
    """Roots of the tables that are parts of a search index: these are read together."""
    computed: frozenset[int]
    """Roots of what belongs to a table that keeps values which SQLite computes."""


@dataclass(frozen=True)
class Told:
    """A later state; `rows` of tables were read whole for it, `is_checked` the file was as well."""

    scanned: Scanned
    catalogue: Catalogue
    rows: int = 0
    is_checked: bool = False


class KeptPages:
    """The pages of one state; `image` is all of them, but for those that were written `over` it.

    `like` is the state as which later ones are cut.
    """

    def __init__(
        self,
        image: bytes | mmap.mmap,
        state: State,
        catalogue: Catalogue,
        scanner: Scanner,
        like: State | None = None,
        describe: Describe = read_catalogue,
    ) -> None:
        self.content = image
        self.page_size = page_size(image[:FILE_HEADER_BYTES])
        self.catalogue = catalogue
        self.state = state
        self.like = state if like is None else like
        self.scanner = scanner
        self.describe = describe
        self._over: Mapping[int, bytes] = {}
        self.page_count = len(image) // self.page_size
        self._earlier: tuple[PageOwners, Mapping[int, bytes]] | None = None
        self._own = threading.local()
        self._trees: dict[tuple[int, bool], Tree] = {}
        self._nodes = 0
        self._readers: dict[str, RowReader | None] = {}

    def later(self, commit: Commit, state: State, catalogue: Catalogue) -> KeptPages:
        """The pages after the commit, of which these are the state and the catalogue."""
        found = KeptPages(self.content, state, catalogue, self.scanner, self.like, self.describe)
        found._over = {**self._over, **commit.pages}
        found.page_count = commit.page_count
        if "_layout" in vars(self):
            found._earlier = self._layout.owners, commit.pages
        return found

    def beside(self, connection: sqlite3.Connection, store: ChunkStore, most: int | None) -> Told:
        """The state that the connection's read transaction shows; see `after`.

        Raises `Uncertain` where more than `most` pages changed, or pages cannot be compared.
        """
        if most is None:
            most = max(_MOST_PAGES, self.page_count // MANY)
        commit = self.difference(connection, most)
        if commit is None:
            return Told(Scanned(self.state, ()), self.catalogue)
        return self.after(commit, connection, store)

    def after(self, commit: Commit, connection: sqlite3.Connection, store: ChunkStore) -> Told:
        """The state after the commit, which the connection shows, as a scan would tell it.

        Raises `sqlite3.Error`, `SourceUnavailable`.
        """
        known: list[Catalogue] = []

        def described() -> Catalogue:
            if not known:
                known.append(self.describe(connection, self.catalogue))
            return known[0]

        try:
            return _After(self, self._layout, commit, connection, store, described).told()
        except _UNTOLD:
            return self._scanned(commit, connection, store, described())

    def touched(self, commit: Commit) -> frozenset[str] | None:
        """The types that have a page which the commit wrote or gave up; None: that may be all."""
        try:
            roots = self._layout.owners.touched(commit.pages, commit.page_count)
        except _UNTOLD:
            return None
        owners, further = self._layout.owners, commit.pages.keys() - {_SCHEMA_ROOT}
        is_listed = any(p in owners and owners.root(p) == _SCHEMA_ROOT for p in further)
        if is_listed or not _is_written_beside(commit, self.page(1)):
            return None
        found = {name for root in roots for name in self._layout.types.get(root, ())}
        for each in self.state.schema.types:
            index = search_index(self.catalogue, folded(each.source_table))
            if index is not None and not found.isdisjoint(self._types_of(index.parts)):
                found.add(each.name)
        return frozenset(found)

    def _types_of(self, names: Collection[str]) -> Iterator[str]:
        for each in self.state.schema.types:
            if folded(each.source_table) in names:
                yield each.name

    def _scanned(
        self,
        commit: Commit,
        connection: sqlite3.Connection,
        store: ChunkStore,
        catalogue: Catalogue,
    ) -> Told:
        """All that the connection shows; tables of which the commit left all pages are taken."""
        known = {**self._left_alone(commit, catalogue), **self._objects(catalogue)}
        found = self.scanner.scan(connection, catalogue, store, self.like, known)
        taken = {id(table) for table in known.values()}
        tables = found.state.tables.values()
        rows = sum(table.row_count for table in tables if id(table) not in taken)
        return Told(found, catalogue, rows, is_checked=True)

    def _left_alone(self, commit: Commit, catalogue: Catalogue) -> dict[str, Table]:
        """By their folded names, the tables that are where they were, on pages as they were."""
        head = commit.pages.get(1)
        try:
            layout = self._layout
            if head is not None and _settings(head) != _settings(self.page(1)):
                return {}
            written = layout.owners.touched(commit.pages, commit.page_count)
        except _UNTOLD:
            return {}
        now = {
            folded(line[1]): line[3]
            for lines in catalogue.lines.values()
            for line in lines
            if kind_of(line[0]) == "table" and isinstance(line[1], str)
        }
        one, two = _definitions(self.catalogue), _definitions(catalogue)
        same = {
            name
            for name, root in layout.roots.items()
            if root not in written
            and now.get(name) == root
            and name in one
            and one[name] == two.get(name)
            and search_index(catalogue, name) is None  # its parts are read together
        }
        return {
            name: table
            for table in self.state.tables.values()
            if (name := folded(table.type.source_table)) in same and table.enumeration.is_complete
        }

    def _objects(self, catalogue: Catalogue) -> dict[str, Table]:
        """The tables of schema objects: only what became of their lines is encoded."""
        found: dict[str, Table] = {}
        known = self.catalogue
        changed = sorted(
            name
            for name in known.lines.keys() | catalogue.lines.keys()
            if known.lines.get(name) != catalogue.lines.get(name)
        )
        for name in CATALOGUED:
            table = self.state.tables.get(name)
            if table is None or not table.enumeration.is_complete:
                continue
            names, like = [f.name for f in table.type.fields], self.like.tables.get(name)
            gone, come = (
                [
                    {each: row[each] for each in names}
                    for row in as_before(_described(each_of, changed, name), like)
                ]
                for each_of in (known, catalogue)
            )
            key = itemgetter(*table.type.key)
            if any(len({key(row) for row in rows}) < len(rows) for rows in (gone, come)):
                continue  # some share a key: nobody can say which one it is
            try:
                found[folded(table.type.source_table)] = patched(table, gone, come)
            except ValueError:
                continue
        return found

    def reader(self, each: EntityType, table: TableIndexes) -> RowReader | None:
        """The reader of a type's rows from their records; None where a scan has to tell."""
        if each.name not in self._readers:
            self._readers[each.name] = row_reader(each, self.catalogue, table)
        return self._readers[each.name]

    def page(self, number: int) -> bytes:
        """A page as it was."""
        written = self._over.get(number)
        if written is not None:
            return written
        return self.content[(number - 1) * self.page_size : number * self.page_size]

    def tree(self, root: int, are_row_ids: bool) -> Tree:
        """A tree as it was, whose nodes stay parsed."""
        if self._nodes > _NODES_KEPT:
            self._trees, self._nodes = {}, 0
        self._nodes += 1
        found = self._trees.get((root, are_row_ids))
        if found is None:
            pages = Pages(self.page, self._layout.owners.usable)
            found = Tree(pages, are_row_ids=are_row_ids)
            self._trees[root, are_row_ids] = found
        return found

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """To the database as it was: one of each thread of each process."""
        kept = getattr(self._own, "kept", None)
        if kept is None or kept[0] != os.getpid():
            connection = sqlite3.connect(":memory:", isolation_level=None, factory=FileConnection)
            size = self.page_count * self.page_size
            if size > MAX_KEPT_BYTES:
                raise Uncertain("it is too large to be opened as it was")
            image = self.content[:]
            if self._over:
                image = b"".join(map(self.page, range(1, self.page_count + 1)))
            connection.deserialize(without_log(image))
            prepare(connection)
            self._own.kept = kept = os.getpid(), connection
        yield kept[1]

    @cached_property
    def _layout(self) -> _Layout:
        if not is_established(self.state.tables.get(STRUCTURE)):
            raise Uncertain("the structure before was not sound")
        count, head = self.page_count, self.page(1)
        usable = self.page_size - head[20]
        owners = PageOwners(self.page, usable, count)
        earlier, self._earlier = self._earlier, None
        if earlier is not None:
            owners.learn(*earlier)
        with self.connection() as connection:
            listed = connection.execute(
                "SELECT type, name, rootpage FROM main.sqlite_schema WHERE rootpage <> 0"
            ).fetchall()
            if not all(isinstance(name, str) and isinstance(root, int) for _, name, root in listed):
                raise Uncertain("a name or a root is none")
            roots = {name: root for _, name, root in listed}
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
        names = {root: folded(name) for kind, name, root in listed if kind_of(kind) == "table"}
        types = {
            root: tuple(
                each.name
                for each in self.state.schema.types
                if folded(each.source_table) == name and each.name not in _NOT_TABLES
            )
            for root, name in names.items()
        }
        named = {name: root for root, name in names.items()}
        own = {root: folded(table.name) for root, table in parts.items()}
        searched = (root for root, name in own.items() if search_index(self.catalogue, name))
        computed = (root for root, name in own.items() if self._is_computed(name))
        return _Layout(
            owners, frozenset(free), types, parts, named, frozenset(searched), frozenset(computed)
        )

    def _is_computed(self, name: str) -> bool:
        """True for a table that keeps what SQLite computes."""
        entry = self.catalogue.tables.get(name)
        return entry is not None and any(c.hidden == STORED_COLUMN for c in entry.columns)

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


def keep(
    connection: sqlite3.Connection, state: State, catalogue: Catalogue, scanner: Scanner
) -> KeptPages | None:
    """The pages that the connection's read transaction shows; None where there are too many."""
    (count,), (size,) = (
        connection.execute(f"PRAGMA main.{each}").fetchone() for each in ("page_count", "page_size")
    )
    if not 0 < count * size <= MAX_KEPT_BYTES:
        return None
    return KeptPages(connection.serialize(), state, catalogue, scanner)


class _After:
    """One database that is compared."""

    def __init__(
        self,
        kept: KeptPages,
        layout: _Layout,
        commit: Commit,
        connection: sqlite3.Connection,
        store: ChunkStore,
        described: Callable[[], Catalogue],
    ) -> None:
        self._kept, self._layout, self._commit = kept, layout, commit
        self._connection, self._store, self._described = connection, store, described
        self._rows = 0
        """The number of rows of tables that were read whole."""

    def told(self) -> Told:
        """Raises `Uncertain`, `Tangled`, `sqlite3.Error`, where only a scan can tell."""
        moves, preservation, is_sound = self._checked()
        before = self._kept.state
        tables = dict(before.tables)
        catalogue = self._kept.catalogue
        if CATALOGUE.name in preservation.differences:
            catalogue = self._described()
            tables |= self._objects(catalogue)
        for root in moves.rewritten:
            table = self._layout.indexes[root]
            if root in self._layout.searched:
                raise Uncertain("the parts of a search index are read together")
            for name in self._layout.types.get(root, ()):
                difference = preservation.differences[table.name]
                if difference.gone or difference.new:
                    tables[name] = self._table(before.tables[name], difference)
        found = Scanned(State(before.schema, tables), ())
        return Told(found, catalogue, self._rows, is_checked=not is_sound)

    def _checked(self) -> tuple[Moves, Preservation, bool]:
        """The moves of pages in a file that is as sound as it was, and whether they say so.

        Else SQLite does: its check costs less than reading the rows again.
        """
        owners, commit, kept = self._layout.owners, self._commit, self._kept
        head, former = self._page(1), kept.page(1)
        if _settings(head) != _settings(former):
            raise Uncertain("its settings changed")
        check_head(head, commit.page_count)
        if commit.page_count * len(head) > LOCK_BYTE:
            raise Uncertain("it has a page for locks")
        is_tree_kept = head[FILE_HEADER_BYTES:] == former[FILE_HEADER_BYTES:]
        written = commit.pages.keys() - ({_SCHEMA_ROOT} if is_tree_kept else ())
        pages = Pages(self._page, owners.usable)
        moves = follow_moves(owners, written, commit.page_count, pages)
        found = Preservation(
            commit,
            owners.usable,
            moves.rewritten,
            self._layout.indexes,
            kept.page,
            pages,
            kept.tree,
        )
        try:
            self._check_places(moves, head, former)
            found.subtract(kept.connection, -1)
            found.subtract(lambda: nullcontext(self._connection), 1)
            # Whether SQLite computed a value that it keeps, pages do not say.
            if found.holds() and self._layout.computed.isdisjoint(moves.rewritten):
                return moves, found, True
        except Uncertain:
            pass
        scan = Scan(self._connection, kept.catalogue, self._store)
        structure = kept.state.tables[STRUCTURE]
        if scan.table(structure.type, structure).chunks != structure.chunks or scan.failures:
            raise Uncertain("an index is not what its table is")
        return moves, found, False

    def _objects(self, catalogue: Catalogue) -> dict[str, Table]:
        """The tables of the catalogue, where it says nothing else of any table or index."""
        known, before = self._kept.catalogue, self._kept.state
        if _rooted(catalogue) != _rooted(known):
            raise Uncertain("a table or an index is another")
        scan = Scan(self._connection, catalogue, self._store)
        found = {
            each.name: scan.table(each, self._kept.like.tables.get(each.name))
            for each in before.schema.types
            # Written out, as 1, 1.0 and True are equal.
            if repr(catalogue.objects.get(each.name)) != repr(known.objects.get(each.name))
        }
        if scan.failures or scan.spoiled:
            raise Uncertain("the catalogue cannot be read whole")
        return found

    def _page(self, number: int) -> bytes:
        return self._commit.pages.get(number) or self._kept.page(number)

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
        like = self._kept.like.tables.get(before.type.name)
        # One that is new since would be cut anew.
        is_cut_alike = like is not None or before.row_count + len(difference.new) <= CHUNK_KEYS
        if are_few(difference, before) and is_cut_alike:
            found = self._patched(before, difference)
            if found is not None:
                return found
        scan = Scan(self._connection, self._kept.catalogue, self._store)
        table = scan.table(before.type, like)
        if scan.failures or scan.spoiled:
            raise Uncertain("a table cannot be read whole")
        self._rows += table.row_count
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


def _is_written_beside(commit: Commit, former: bytes) -> bool:
    """True if of the first page only the header was written, and there nothing but counters."""
    head = commit.pages.get(1, former)
    is_tree_kept = head[FILE_HEADER_BYTES:] == former[FILE_HEADER_BYTES:]
    return is_tree_kept and _settings(head) + head[40:44] == _settings(former) + former[40:44]


def _described(catalogue: Catalogue, names: Iterable[str], of: str) -> Iterator[Row]:
    """The rows of one type of schema objects that the lines about these names describe."""
    for name in names:
        yield from (row for kind, row in catalogue.rows.get(name, ()) if kind == of)


def _definitions(catalogue: Catalogue) -> dict[str, tuple[object, ...]]:
    """How each table is read, by its folded name."""
    texts = {folded(str(row["name"])): row for row in catalogue.objects.get("db.table", ())}
    return {name: (entry, texts.get(name)) for name, entry in catalogue.tables.items()}


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
    """True if the kind is what SQLite takes the line for, which looks at the definition alone."""
    found = _ROOTLESS.match(definition)
    return found is not None and kind == found[1].lower()
