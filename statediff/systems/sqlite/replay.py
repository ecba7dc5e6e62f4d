"""The state after each committed transaction, told from a copy of the database.

States are read with the code that scans the database itself, so that types, schema objects and
canonical forms are the same. Only the tables that own a page the commit wrote are read again, and
of those whose key is the row id only the chunks with rows on these pages. All are read if the
commit touched the catalogue, or if the pages do not form trees.

`before`, whose chunks stand for those that nobody touched, is checked where that matters: a chunk
is read from the copy before the first commit that touches it, and must be what `before` says.

`PageOwners` knows which b-tree each page belongs to (sqlite.org/fileformat2, §1.5 and §1.6). A
commit names the pages it wrote, not the tables. Every page in use is reached from exactly one root,
as a node or in an overflow chain, so a table whose pages a commit left alone has not changed. That
holds only for files that SQLite made: where a page is reached twice or leads nowhere the file is
`Tangled`, and everything is read.
"""

from __future__ import annotations

import bisect
import operator
import sqlite3
import struct
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from statediff.capture.source import SourceUnavailable
from statediff.model.schema import EntityType
from statediff.model.state import ChunkStore, State, Table
from statediff.systems.relational.schema import quoted, with_types
from statediff.systems.sqlite.catalogue import OBJECT_NAMES, Catalogue, folded, kind_of
from statediff.systems.sqlite.copy import DatabaseCopy, without_log
from statediff.systems.sqlite.scan import Scan, Scanner, prepare
from statediff.systems.sqlite.structure import STRUCTURE, are_sound, free_pages, is_established
from statediff.systems.sqlite.wal import Commit

_INTERIOR_INDEX: Final = 2
_INTERIOR_TABLE: Final = 5
_LEAF_INDEX: Final = 10
_LEAF_TABLE: Final = 13
_INTERIOR: Final = (_INTERIOR_INDEX, _INTERIOR_TABLE)
_FILE_HEADER_BYTES: Final = 100
_LOCK_BYTE: Final = 2**30
"""The page that holds this byte of the file is left empty."""
_LEAST: Final = -(2**63) - 1
_MOST: Final = 2**63 - 1

ReadPage = Callable[[int], bytes]
_Links = tuple[tuple[int, bool], ...]
"""The pages a page leads to; True for the next page of an overflow chain."""


class Tangled(Exception):
    """The pages do not form trees; the message says which page."""


@dataclass(frozen=True)
class Rewritten:
    """The nodes of one tree that a commit wrote, took in or gave up, as they were and as they are.

    No row outside them changed. None where a part of some large value was overwritten in place, so
    that the node that leads to it was not.
    """

    before: frozenset[int] | None
    after: frozenset[int] | None


class PageOwners:
    """The pages of each root, kept up to date from commit to commit.

    `read` gives a page as it is now; `usable` is the page size without its reserved end.
    """

    def __init__(self, read: ReadPage, usable: int, page_count: int) -> None:
        self._read = read
        self._usable = usable
        self._page_count = page_count
        self._owner: dict[int, int] = {}
        self._pages: dict[int, dict[int, bool]] = {}
        self._links: dict[tuple[int, bool], _Links] = {}

    def grow(self, root: int) -> None:
        """The pages reached from `root` are its own. Raises `Tangled`."""
        pages: dict[int, bool] = {}
        waiting: list[tuple[int, bool]] = [(root, False)]
        while waiting:
            page, is_overflow = waiting.pop()
            if not 1 <= page <= self._page_count or page in self._owner:
                raise Tangled(f"page {page} is reached twice or does not exist")
            self._owner[page] = root
            pages[page] = is_overflow
            links = self._links.get((page, is_overflow))
            if links is None:
                links = self._links[page, is_overflow] = self._follow(page, is_overflow)
            waiting.extend(links)
        self._pages[root] = pages

    def check_order(self, root: int, written: Collection[int], *, is_new: bool = False) -> None:
        """The row ids of a table stand in their order. Raises `Tangled`.

        Whoever asks for a range of row ids is shown what a search finds: a row in a wrong place is
        in the table and in no range. That is asked of the `written` nodes and of what they lead
        to, and of the root where another page may have become it (`is_new`); the others are taken
        to be as they were.
        """
        waiting: list[tuple[int, int, int, bool]] = [(root, _LEAST, _MOST, is_new)]
        while waiting:
            page, above, most, is_doubted = waiting.pop()
            is_doubted |= page in written
            below = [link for link, is_overflow in self._links[page, False] if not is_overflow]
            if not (below or is_doubted):
                continue
            ids = _leaf_row_ids(self._read(page))
            if ids is None and page == root:
                return  # an index, or a table that is one
            bounds = [above, *(ids or ()), most]
            if ids is None or (is_doubted and not _ascends(bounds)):
                raise Tangled(f"the rows of page {page} are out of order")
            waiting.extend(
                (child, bounds[at], bounds[at + 1], page in written)
                for at, child in enumerate(below)
            )

    def size(self, root: int) -> int:
        """How many pages the tree has."""
        return len(self._pages[root])

    def account_for_all(self, free: frozenset[int], but: int) -> bool:
        """Whether each page of the file is in one tree or free, and none is both.

        `but` is the page that SQLite leaves empty for its locks, in a file that is so long.
        """
        known = len(self._owner) + len(free) + (but <= self._page_count)
        return known == self._page_count and not {*free, but} & self._owner.keys()

    def touched(self, pages: Collection[int], page_count: int) -> set[int]:
        """The roots that owned one of the pages, or one beyond the new end, before the commit."""
        gone = range(page_count + 1, self._page_count + 1)
        return {
            self._owner[page] for group in (pages, gone) for page in group if page in self._owner
        }

    def update(
        self, roots: Collection[int], pages: Collection[int], page_count: int
    ) -> dict[int, Rewritten]:
        """The trees of `roots` (see `touched`) are as after the commit. Raises `Tangled`."""
        self._page_count = page_count
        former = {root: self._pages.pop(root) for root in roots}
        stale = {
            key: links
            for page in pages
            for key in ((page, False), (page, True))
            if (links := self._links.pop(key, None)) is not None
        }
        for owned in former.values():
            for page in owned:
                del self._owner[page]
        written = frozenset(pages)
        for root in sorted(roots):
            self.grow(root)
            self.check_order(root, written)
        links_before = ChainMap(stale, self._links)
        found: dict[int, Rewritten] = {}
        for root, before in former.items():
            after = self._pages[root]
            old = _touched_nodes(before, after, written, links_before)
            new = _touched_nodes(after, before, written, self._links)
            found[root] = Rewritten(old, new)
        return found

    def _follow(self, page: int, is_overflow: bool) -> _Links:
        content = self._read(page)
        try:
            if is_overflow:
                (following,) = struct.unpack_from(">I", content)
                return ((following, True),) if following else ()
            return self._node_links(content, _FILE_HEADER_BYTES if page == 1 else 0)
        except (struct.error, IndexError) as error:
            raise Tangled(f"page {page} is damaged") from error

    def _node_links(self, content: bytes, at: int) -> _Links:
        kind = content[at]
        (cells,) = struct.unpack_from(">H", content, at + 3)
        if kind not in (*_INTERIOR, _LEAF_INDEX, _LEAF_TABLE):
            raise Tangled(f"a page is of unknown kind {kind}")
        is_interior = kind in _INTERIOR
        first = at + (12 if is_interior else 8)
        starts = struct.unpack_from(f">{cells}H", content, first)
        links: list[tuple[int, bool]] = []
        if is_interior:
            links.extend((struct.unpack_from(">I", content, s)[0], False) for s in starts)
            links.append((struct.unpack_from(">I", content, at + 8)[0], False))
        if kind != _INTERIOR_TABLE:
            skip = 4 if is_interior else 0
            most = (
                self._usable - 35 if kind == _LEAF_TABLE else (self._usable - 12) * 64 // 255 - 23
            )
            for start in _large(content, [s + skip for s in starts], most):
                chain = self._overflow(content, start, most, has_rowid=kind == _LEAF_TABLE)
                if chain is not None:
                    links.append((chain, True))
        return tuple(links)

    def _overflow(self, content: bytes, at: int, most: int, *, has_rowid: bool) -> int | None:
        payload, at = _varint(content, at)
        if payload <= most:
            return None
        if has_rowid:
            _, at = _varint(content, at)
        least = (self._usable - 12) * 32 // 255 - 23
        local = least + (payload - least) % (self._usable - 4)
        (chain,) = struct.unpack_from(">I", content, at + (local if local <= most else least))
        return int(chain)


def _touched_nodes(
    pages: Mapping[int, bool],
    others: Mapping[int, bool],
    written: frozenset[int],
    links: Mapping[tuple[int, bool], _Links],
) -> frozenset[int] | None:
    touched = (pages.keys() & written) | (pages.keys() - others.keys())
    nodes = frozenset(page for page in touched if not pages[page])
    chained: set[int] = set()
    waiting = [link for node in nodes for link in links[node, False] if link[1]]
    while waiting:
        link = waiting.pop()
        chained.add(link[0])
        waiting.extend(links[link])
    return nodes if touched - nodes <= chained else None


def row_range(content: bytes) -> tuple[int, int] | None:
    """The least and the greatest row id of a node of a table; None if it holds no rows.

    Raises `Tangled` for a node of an index or of a table that is one.
    """
    try:
        (cells,) = struct.unpack_from(">H", content, 3)
        if content[0] not in (_INTERIOR_TABLE, _LEAF_TABLE):
            raise Tangled("a node of an index holds no row ids")
        if content[0] == _INTERIOR_TABLE or not cells:
            return None
        starts = struct.unpack_from(f">{cells}H", content, 8)
        first, last = (_varint(content, _varint(content, s)[1])[0] for s in (starts[0], starts[-1]))
    except (struct.error, IndexError) as error:
        raise Tangled("a node is damaged") from error
    return _signed(first), _signed(last)


def _leaf_row_ids(content: bytes) -> list[int] | None:
    """The row ids in a node of a table, as they stand there; None for other nodes."""
    if content[0] not in (_INTERIOR_TABLE, _LEAF_TABLE):
        return None
    is_leaf = content[0] == _LEAF_TABLE
    try:
        (cells,) = struct.unpack_from(">H", content, 3)
        starts = struct.unpack_from(f">{cells}H", content, 8 if is_leaf else 12)
        places = (_varint(content, s)[1] if is_leaf else s + 4 for s in starts)
        return [_signed(_varint(content, place)[0]) for place in places]
    except (struct.error, IndexError) as error:
        raise Tangled("a node is damaged") from error


def _ascends(bounds: list[int]) -> bool:
    """Whether each is greater than the one before it; the last may also be equal to that."""
    *ids, most = bounds
    return all(map(operator.lt, ids, ids[1:])) and ids[-1] <= most


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _large(content: bytes, starts: list[int], most: int) -> list[int]:
    """The cells whose payload may be larger than `most`, by the first two bytes of its size."""
    if not starts:
        return []
    at = np.array(starts)
    stored = np.frombuffer(content, np.uint8).astype(np.int64)
    first, second = stored[at], stored[at + 1]
    is_long = (second >= 128) | ((first & 127) * 128 + second > most)
    is_large = np.where(first < 128, first > most, is_long)
    return [int(start) for start in at[is_large]]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for length in range(8):
        byte = content[at + length]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at + length + 1
    return value << 8 | content[at + 8], at + 9


MAX_READ_BYTES: Final = 512 * 1024 * 1024
"""Bytes of tables that are read for all commits together: a minute's work, or two."""
MAX_READ_TABLES: Final = 25_000
"""Tables looked at for all commits that changed the catalogue: some seconds' work."""
_SCHEMA_ROOT: Final = 1
_MOVED: Final = "the capture before does not show the state in which the feed was attached"


@dataclass
class _Layout:
    """The catalogue at some moment, and whose each page is; `owners` is None if nobody can say."""

    catalogue: Catalogue
    owners: PageOwners | None
    tables: Mapping[int, str]
    """Root page → folded name, tables only: what an index holds is no state of its own."""
    parts: Mapping[int, str] = field(default_factory=dict)
    """Root page → name of the table that it is, or is an index of."""
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
        self._tables_read = 0
        self._bytes_checked = 0
        self._left_alone: dict[str, int] = {}
        """The tables, with their roots, that a commit to the catalogue wrote no page of."""
        self._touched: frozenset[int] = frozenset()
        """The roots of the trees that the present commit wrote to."""

    def apply(self, commit: Commit, *, is_last: bool = True) -> State:
        """The state after the commit. Raises `SourceUnavailable` if it cannot be told.

        Where checking the structure of every state would take too long, only the last is known.
        """
        if not self._before.schema.types:  # even an empty database has those of schema objects
            raise SourceUnavailable(_MOVED)
        if self._layout is None:
            with closing(self._copy.connect()) as connection:
                self._layout = self._layout_of(connection, self._copy.begin(connection))
        touched = self._changed_types(commit, self._layout)
        if touched is None:
            self._check_all()
            self._copy.write(commit)
            self._unchecked.update(commit.pages)
            self._read_all()
        else:
            self._check(touched)
            self._copy.write(commit)
            tables = self._tables(touched, self._state) | self._structure(self._layout, is_last)
            schema = with_types(self._state.schema, {n: t.type for n, t in tables.items()})
            self._state = State(schema, {**self._state.tables, **tables})
        return self._state

    def _structure(self, layout: _Layout, is_last: bool) -> dict[str, Table]:
        """What is new about the structure: nothing, where a sound file was changed soundly."""
        each = self._state.schema.by_name.get(STRUCTURE)
        if each is None:
            return {}
        if is_established(self._state.tables.get(STRUCTURE)) and self._is_sound_still(layout):
            return {}
        self._bytes_checked += self._copy.size
        if is_last or self._bytes_checked <= MAX_READ_BYTES:
            return self._tables({each: None}, self._before)
        cause = f"checking every commit takes more than {MAX_READ_BYTES >> 20} MiB of reading"
        return {STRUCTURE: self._state.tables[STRUCTURE].unobserved(cause)}

    def _is_sound_still(self, layout: _Layout) -> bool:
        """Whether the trees that a commit touched agree, and every page has one place."""
        owners, size = layout.owners, self._copy.page_size
        if owners is None:
            return False
        free = free_pages(self._copy.page, self._copy.size // size)
        if free is None or not owners.account_for_all(free, _LOCK_BYTE // size + 1):
            return False
        self._bytes_checked += sum(map(owners.size, self._touched)) * size
        if self._bytes_checked > MAX_READ_BYTES:
            return False
        with closing(self._copy.connect()) as connection:
            prepare(connection)
            return are_sound(connection, {layout.parts[root] for root in self._touched})

    # What a commit touched

    def _changed_types(self, commit: Commit, layout: _Layout) -> dict[EntityType, _Chunks] | None:
        """The types whose rows the commit may have changed, and where; None if that may be all."""
        first = commit.pages.get(1)
        self._left_alone = {}
        if layout.owners is None:
            return None
        written = [page for page in commit.pages if page != 1]
        roots = layout.owners.touched(written, commit.page_count)
        one, two = self._copy.page(1), None if first is None else without_log(first)
        is_meant = two is not None and _meaning(two) != _meaning(one)
        if is_meant or _SCHEMA_ROOT in roots:
            if two is None or _header(two) == _header(one):
                named = layout.tables.items()
                self._left_alone = {n: r for r, n in named if r not in roots}
            return None
        self._next = commit.pages
        try:
            rewritten = layout.owners.update(roots, commit.pages, commit.page_count)
        except Tangled:
            return None
        finally:
            self._next = {}
        self._touched = frozenset(roots)
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
        parts: dict[int, str] = {}
        size = self._copy.page_size
        try:
            usable = size - self._copy.page(1)[20]
            owners = PageOwners(self._page, usable, self._copy.size // size)
            owners.grow(_SCHEMA_ROOT)
            listed = connection.execute(
                "SELECT type, name, tbl_name, rootpage FROM main.sqlite_schema WHERE rootpage <> 0"
            )
            for kind, name, table, root in listed.fetchall():
                owners.grow(root)
                parts[root] = str(table)
                if self._unchecked:
                    owners.check_order(root, self._unchecked, is_new=True)
                if kind_of(kind) == "table":
                    tables[root] = folded(name)
        except (Tangled, TypeError, AttributeError, IndexError):
            return _Layout(catalogue, None, {})  # not as SQLite would have written it
        self._unchecked.clear()
        return _Layout(catalogue, owners, tables, parts, _row_ids(connection, catalogue))

    # Reading

    def _check_all(self) -> None:
        """`before` is right about all that nobody touched so far; raises if it is not."""
        if not self._is_all_checked:
            self._is_all_checked = True
            unknown = {
                t: None
                for t in self._before.schema.types
                if t.name not in self._checked and t.name != STRUCTURE
            }
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
            self._tables_read += len(catalogue.tables)
            if self._tables_read > MAX_READ_TABLES:
                raise SourceUnavailable(
                    f"its commits change the catalogue of more than {MAX_READ_TABLES} tables in all"
                )
            earlier, self._layout = self._layout, self._layout_of(connection, catalogue)
            kept = self._kept(earlier, self._layout)
            found = self._scanner.scan(connection, catalogue, self._store, self._before, kept)
            self._state = found.state

    def _kept(self, earlier: _Layout | None, layout: _Layout) -> dict[str, Table]:
        """By their folded names, the tables that a commit to the catalogue left as they were."""
        if earlier is None or layout.owners is None:
            return {}
        one, two = (_definitions(each.catalogue) for each in (earlier, layout))
        same = {
            name
            for name, root in self._left_alone.items()
            if layout.tables.get(root) == name and name in one and one[name] == two.get(name)
        }
        return {
            name: table
            for table in self._state.tables.values()
            if (name := folded(table.type.source_table)) in same and table.enumeration.is_complete
        }

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


def _definitions(catalogue: Catalogue) -> dict[str, tuple[object, ...]]:
    """How each table is read, by its folded name."""
    texts = {folded(str(row["name"])): row for row in catalogue.objects.get("db.table", ())}
    return {name: (entry, texts.get(name)) for name, entry in catalogue.tables.items()}


def _header(first_page: bytes) -> bytes:
    """What of the first page says how every other is read: not the number of the schema."""
    return first_page[:24] + first_page[44:92]


def _meaning(first_page: bytes) -> bytes:
    """What of the first page says anything of the schema: not the counters, nor the free list."""
    return first_page[:24] + first_page[40:92] + first_page[100:]
