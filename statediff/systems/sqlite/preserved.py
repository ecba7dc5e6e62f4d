"""Whether a commit left a SQLite file as sound as it was, told from the pages that it wrote.

What was sound and was not written stays sound; the rest is compared before and after:

1. every page is in one tree, on the free list or a map of pages, and the maps of an auto-vacuum
   file say so;
2. each written node is filled as SQLite fills it, its overflow chains are as long as its values;
3. the keys of each written tree are in order (`sqlite.order`);
4. what the entries of each index became is what the rows of its table became. Rows and entries on
   written pages are compared; of rows that differ, SQLite computes the entries (`sqlite.entries`).

It says yes or that it does not know: `Uncertain`, `Tangled`. Then the whole file is checked.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from statediff.systems.sqlite.btree import (
    ReadPage,
    Rest,
    Tangled,
    chain_pages,
    check_shape,
    record,
)
from statediff.systems.sqlite.copy import DatabaseCopy
from statediff.systems.sqlite.entries import Entry, TableIndexes, Uncertain, all_trees
from statediff.systems.sqlite.order import Tree, check_order
from statediff.systems.sqlite.owners import PageOwners, Rewritten
from statediff.systems.sqlite.scan import prepare
from statediff.systems.sqlite.structure import limits
from statediff.systems.sqlite.wal import Commit

LOCK_BYTE: Final = 2**30
"""The page that holds this byte of the file is left empty."""
_FEW_PAGES: Final = 1000
_PART: Final = 8
"""Where a commit wrote more than a few pages, and than this part, a whole check is as quick."""
_MAP_ENTRY_BYTES: Final = 5


@dataclass
class _Difference:
    """How the rows and entries of one table differ on the pages that a commit wrote."""

    table: TableIndexes
    gone: list[Any] = field(default_factory=list)
    new: list[Any] = field(default_factory=list)
    """Row ids, or whole entries of a table without them."""
    entries: dict[int, Counter[Entry]] = field(default_factory=dict)
    """Root of an index → how many more of each entry there are; less than none where it is gone."""


class Preservation:
    """One commit. Made while `copy` is as it was; `holds` is asked when it is as it became.

    Raises `Uncertain`, `Tangled`, `sqlite3.Error`.
    """

    def __init__(
        self,
        copy: DatabaseCopy,
        commit: Commit,
        owners: PageOwners,
        rewritten: Mapping[int, Rewritten],
        tables: Mapping[int, TableIndexes],
    ) -> None:
        """`tables` has the table that each root belongs to."""
        if len(commit.pages) > max(_FEW_PAGES, commit.page_count // _PART):
            raise Uncertain("it wrote too much of the file")
        self._copy, self._commit, self._owners = copy, commit, owners
        self._usable = owners.usable
        self._check_places(rewritten)
        self._found: dict[str, _Difference] = {}
        for root, nodes in rewritten.items():
            table = tables.get(root)
            if table is None:
                raise Uncertain("a tree belongs to no table")
            self._compare(root, nodes, self._found.setdefault(table.name, _Difference(table)))
        with closing(copy.connect()) as connection:
            self._subtract(connection, -1)

    def holds(self) -> bool:
        """Whether the file is sound. Raises as the class does."""
        with closing(self._copy.connect()) as connection:
            self._subtract(connection, 1)
        return not any(
            any(counts.values())
            for each in self._found.values()
            for counts in each.entries.values()
        )

    def _after(self, page: int) -> bytes:
        return self._commit.pages.get(page) or self._copy.page(page)

    # Whose each page is

    def _check_places(self, rewritten: Mapping[int, Rewritten]) -> None:
        size, count = self._copy.page_size, self._commit.page_count
        head = self._after(1)
        if head[24:28] != head[92:96] or int.from_bytes(head[28:32], "big") != count:
            raise Uncertain("its header does not say how many pages it has")
        free = _free_pages(self._after, count, self._usable)
        locks = LOCK_BYTE // size + 1
        has_locks = locks <= count
        others = {*free, locks} if has_locks else set(free)
        maps: dict[int, bytes] = {}
        if any(head[52:56]):
            if has_locks:
                raise Uncertain("its maps of pages are moved by its page for locks")
            step = self._usable // _MAP_ENTRY_BYTES + 1
            maps = {page + 1: self._after(page) for page in range(2, count + 1, step)}
            others.update(page - 1 for page in maps)
        is_apart = len(others) == len(free) + len(maps) + has_locks
        if not is_apart or not self._owners.account_for_all(others):
            raise Tangled("a page is nobody's, or has two places")
        if maps:
            asked = set(free).union(*(self._owners.of_tree(root) for root in rewritten))
            step = self._usable // _MAP_ENTRY_BYTES
            for first in maps:
                if first - 1 in self._commit.pages:
                    asked.update(range(first, min(first + step, count + 1)))
            if not self._owners.are_mapped(maps, frozenset(free), asked - {1}):
                raise Tangled("a map of pages is wrong")

    # What became of rows and entries

    def _compare(self, root: int, nodes: Rewritten, found: _Difference) -> None:
        index = next((each for each in all_trees(found.table) if each.root == root), None)
        before, after = (
            Tree(read, self._usable, are_row_ids=index is None)
            for read in (self._copy.page, self._after)
        )
        for page in sorted(nodes.after):
            node, cells = after.node(page)
            node.check_space(cells)
            for at, rest in cells.rests.items():
                ends = [end for _, end in _chain(self._after, cells.locals[at], rest, self._usable)]
                if ends[-1]:
                    raise Tangled("an overflow chain is too long")
        if index is None:  # the order of row ids is checked before any row is read
            self._compare_rows(before, after, nodes, found)
            return
        try:
            check_order(
                after, root, index, nodes.after, nodes.above_after, (before, nodes.above_before)
            )
        finally:
            index.forget()
        old, new = (
            {
                entry for page in pages for entry in tree.keys(page)
            }  # where keys ascend, none is twice
            for tree, pages in ((before, nodes.before), (after, nodes.after))
        )
        if index is found.table.primary:
            found.gone += sorted(old - new)
            found.new += sorted(new - old)
            return
        counts = found.entries.setdefault(root, Counter())
        counts.update(map(record, new - old))
        counts.subtract(map(record, old - new))

    def _compare_rows(
        self, before: Tree, after: Tree, nodes: Rewritten, found: _Difference
    ) -> None:
        old, new = (
            dict(self._rows(tree, pages))
            for tree, pages in ((before, nodes.before), (after, nodes.after))
        )
        found.gone += [row_id for row_id, told in old.items() if new.get(row_id) != told]
        for row_id, told in new.items():
            if old.get(row_id) != told:
                check_shape(*told[:2], len(found.table.columns))
                found.new.append(row_id)

    def _rows(
        self, tree: Tree, pages: Collection[int]
    ) -> Iterator[tuple[int, tuple[bytes, int, Any]]]:
        """Row id → the row on its page, its length, and what is equal where the rest is."""
        for page in pages:
            node, cells = tree.node(page)
            if node.children:
                continue
            for at, (row_id, local) in enumerate(zip(cells.row_ids, cells.locals, strict=True)):
                rest = cells.rests.get(at)
                if rest is None:
                    yield row_id, (local, len(local), None)
                else:
                    chain = _chain(tree.read, local, rest, self._usable)
                    is_written = any(page in self._commit.pages for page, _ in chain)
                    yield row_id, (local, rest.length, object() if is_written else rest.page)

    def _subtract(self, connection: sqlite3.Connection, sign: int) -> None:
        """What the rows that are gone (-1) or new (1) make of the entries is taken off."""
        prepare(connection)
        with limits(connection):
            for each in self._found.values():
                rows = each.new if sign > 0 else each.gone
                for root, entries in each.table.entries(connection, rows).items():
                    counts = each.entries.setdefault(root, Counter())
                    for entry, count in entries.items():
                        counts[entry] -= sign * count


def _chain(read: ReadPage, local: bytes, rest: Rest, usable: int) -> Iterator[tuple[int, int]]:
    """(page, the one after it) of the chain, as long as it has to be. Raises `Tangled`."""
    page = rest.page
    for _ in range(chain_pages(local, rest, usable)):
        if not page:
            raise Tangled("an overflow chain is too short")
        (following,) = struct.unpack_from(">I", read(page))
        yield page, following
        page = following


def _free_pages(read: ReadPage, page_count: int, usable: int) -> list[int]:
    """The pages on the free list. Raises `Tangled`."""
    trunk, count = struct.unpack_from(">2I", read(1), 32)
    found: list[int] = []
    while trunk:
        if not 1 < trunk <= page_count or len(found) > count:
            raise Tangled("the free list leads nowhere")
        content = read(trunk)
        following, leaves = struct.unpack_from(">2I", content)
        if leaves > usable // 4 - 2:
            raise Tangled("a page of the free list names too many")
        found += (trunk, *struct.unpack_from(f">{leaves}I", content, 8))
        trunk = following
    if len(set(found)) != len(found) or len(found) != count:
        raise Tangled("the free list is not as long as the header says")
    if not all(1 < page <= page_count for page in found):
        raise Tangled("the free list names a page that does not exist")
    return found
