"""Which b-tree each page of a SQLite file belongs to.

A commit names the pages it wrote, not the tables. Every page in use is reached from exactly one
root, as a node or in an overflow chain, so a table whose pages a commit left alone has not changed.
That holds only for files that SQLite made: where a page is reached twice or leads nowhere the file
is `Tangled`, and everything is read.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import numpy as np

from statediff.systems.sqlite.paged.btree import (
    INTERIOR_TABLE,
    LEAF_TABLE,
    Node,
    ReadPage,
    Tangled,
    local_bytes,
    most_local,
    node_of,
    varint,
)

Links = tuple[tuple[int, bool], ...]
"""The pages a page leads to; True for the next page of an overflow chain."""
_ONE_BYTE: Final = 127
"""The greatest number of one byte."""


class Rewritten(NamedTuple):
    """The nodes of one tree that a commit wrote, took in or gave up, as they were and as they are.

    A node counts as written where a page of one of its overflow chains was. Outside them nothing
    of the tree changed. `above_before` and `above_after` are these nodes and all above them; of
    nodes that were given up without having been written, nothing is above in `above_before`.
    """

    before: frozenset[int]
    after: frozenset[int]
    above_before: frozenset[int]
    above_after: frozenset[int]


class PageOwners:
    """The pages of each root.

    `read` gives a page as it is now; `usable` is the page size without its reserved end.
    """

    def __init__(self, read: ReadPage, usable: int, page_count: int) -> None:
        self._read = read
        self.usable: Final = usable
        self.page_count = page_count
        self._owner: dict[int, int] = {}
        self._parent: dict[int, int] = {}
        self._pages: dict[int, dict[int, bool]] = {}
        self._links: dict[tuple[int, bool], Links] = {}

    def learn(self, other: PageOwners, written: Collection[int]) -> None:
        """Learn from the other what it knows of pages that were not written since."""
        if other.usable == self.usable:
            self._links = {at: to for at, to in other._links.items() if at[0] not in written}

    def grow(self, root: int) -> None:
        """The pages reached from `root` are its own, its leaves equally deep. Raises `Tangled`."""
        pages: dict[int, bool] = {}
        waiting: list[tuple[int, bool, int, int]] = [(root, False, 0, 0)]
        leaves: int | None = None
        while waiting:
            page, is_overflow, parent, depth = waiting.pop()
            if not 1 <= page <= self.page_count or page in self._owner:
                raise Tangled(f"page {page} is reached twice or does not exist")
            self._owner[page] = root
            self._parent[page] = parent
            pages[page] = is_overflow
            links = self._links.get((page, is_overflow))
            if links is None:
                content = self._read(page)
                links = self._links[page, is_overflow] = (
                    chained(content, page)
                    if is_overflow
                    else links_of(node_of(content, page, self.usable), page)
                )
            waiting.extend((link, follows, page, depth + 1) for link, follows in links)
            if not is_overflow and (not links or all(follows for _, follows in links)):
                leaves = depth if leaves is None else leaves
                if leaves != depth:
                    raise Tangled(f"page {page} is a leaf at another depth than others")
        self._pages[root] = pages

    def __contains__(self, page: object) -> bool:
        return page in self._owner

    def __len__(self) -> int:
        return len(self._owner)

    @property
    def roots(self) -> Collection[int]:
        """The roots that were grown."""
        return self._pages.keys()

    def root(self, page: int) -> int:
        """The root of the tree that the page is in."""
        return self._owner[page]

    def parent(self, page: int) -> int:
        """The page that leads there; 0 of a root."""
        return self._parent[page]

    def is_overflow(self, page: int) -> bool:
        """True if the page is in an overflow chain."""
        return self._pages[self._owner[page]][page]

    def links(self, page: int) -> Links:
        """The pages that the page leads to."""
        return self._links[page, self.is_overflow(page)]

    def depth(self, page: int) -> int:
        """How many pages lead there from the root, one by one."""
        depth = 0
        while page := self._parent[page]:
            depth += 1
        return depth

    def leaf_depth(self, root: int) -> int:
        """The depth of every leaf of the tree."""
        page, depth = root, 0
        while below := [child for child, is_overflow in self.links(page) if not is_overflow]:
            page, depth = below[0], depth + 1
        return depth

    def account_for_all(self, others: Collection[int]) -> bool:
        """True if each page of the file is in one tree or one of the others, and none is both."""
        known = len(self._owner) + len(others)
        return known == self.page_count and self._owner.keys().isdisjoint(others)

    def touched(self, pages: Collection[int], page_count: int) -> set[int]:
        """The roots that owned one of the pages, or one beyond the new end, before the commit."""
        gone = range(page_count + 1, self.page_count + 1)
        return {
            self._owner[page] for group in (pages, gone) for page in group if page in self._owner
        }


def chained(content: bytes, page: int) -> Links:
    """The page that one of an overflow chain leads to. Raises `Tangled`."""
    if len(content) < 4:
        raise Tangled(f"page {page} is damaged")
    following = int.from_bytes(content[:4], "big")
    return ((following, True),) if following else ()


def links_of(node: Node, page: int) -> Links:
    """The pages that a node leads to. Raises `Tangled`."""
    try:
        return (*[(child, False) for child in node.children], *_chains(node))
    except (struct.error, IndexError) as error:
        raise Tangled(f"page {page} is damaged") from error


def _chains(node: Node) -> Iterator[tuple[int, bool]]:
    if node.kind == INTERIOR_TABLE:
        return
    is_table = node.kind == LEAF_TABLE
    skip = 4 if node.children else 0
    most = most_local(node.usable, is_table=is_table)
    for start in _large(node, skip, most):
        length, at = varint(node.content, start)
        if length > most:
            if is_table:
                _, at = varint(node.content, at)
            at += local_bytes(length, node.usable, is_table=is_table)
            yield struct.unpack_from(">I", node.content, at)[0], True


def _large(node: Node, skip: int, most: int) -> list[int]:
    """The cells whose payload may be larger than `most`, by the first two bytes of its size."""
    firsts = () if skip else map(node.content.__getitem__, node.starts)
    if not skip and most >= _ONE_BYTE >= max(firsts, default=0):
        return []  # as most are
    stored, at = np.frombuffer(node.content, np.uint8), node.places + skip
    first = stored[at]
    first, second = first.astype(np.int64), stored[at + 1].astype(np.int64)
    is_long = (second >= 128) | ((first & 127) * 128 + second > most)
    is_large = np.where(first < 128, first > most, is_long)
    return [int(start) for start in at[is_large]]
