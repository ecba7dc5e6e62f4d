"""Which b-tree each page of a SQLite database belongs to (sqlite.org/fileformat2, §1.5 and §1.6).

A commit names the pages it wrote, not the tables. Every page in use is reached from exactly one
root, as a node or in an overflow chain, so a table whose pages a commit left alone has not changed.
That holds only for files that SQLite made: where a page is reached twice or leads nowhere the file
is `Tangled`, and whoever asks has to read everything.
"""

from __future__ import annotations

import operator
import struct
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

_INTERIOR_INDEX: Final = 2
_INTERIOR_TABLE: Final = 5
_LEAF_INDEX: Final = 10
_LEAF_TABLE: Final = 13
_INTERIOR: Final = (_INTERIOR_INDEX, _INTERIOR_TABLE)
_FILE_HEADER_BYTES: Final = 100
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
            ids = _row_ids(self._read(page))
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


def _row_ids(content: bytes) -> list[int] | None:
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
