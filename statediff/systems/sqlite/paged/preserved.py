"""The soundness of a SQLite file after a commit, read from the pages that it wrote.

What was sound and was not written stays sound; the rest is compared before and after:

1. every page is in one tree, on the free list or a map of pages, and the maps of an auto-vacuum
   file say so;
2. each written node is filled as SQLite fills it, its overflow chains are as long as its values;
3. the keys of each written tree are in order (`order`);
4. what the entries of each index became is what the rows of its table became. Rows and entries on
   written pages are compared; of rows that differ, SQLite computes the entries (`entries`).

It says yes or that it does not know: `Uncertain`, `Tangled`. Then the whole file is checked.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from statediff.systems.sqlite.definitions import Uncertain
from statediff.systems.sqlite.paged.btree import (
    Cells,
    Pages,
    ReadPage,
    Rest,
    Tangled,
    chain_pages,
    check_shape,
    payload,
    record,
)
from statediff.systems.sqlite.paged.entries import Entry, TableIndexes, all_trees
from statediff.systems.sqlite.paged.order import Keys, RowIds, Tree, check_order
from statediff.systems.sqlite.paged.owners import Rewritten
from statediff.systems.sqlite.structure import limits
from statediff.systems.sqlite.wal import Commit

LOCK_BYTE: Final = 2**30
"""The page that holds this byte of the file is left empty."""
_FEW_PAGES: Final = 1000
_PART: Final = 8
"""The part of a file beyond which, and beyond a few pages, a whole check is as quick."""
_MAP_ENTRY_BYTES: Final = 5


@dataclass(frozen=True)
class Stored:
    """A row as it is stored."""

    local: bytes
    rest: Rest | None

    @property
    def length(self) -> int:
        return len(self.local) if self.rest is None else self.rest.length

    def content(self, read: ReadPage, usable: int) -> bytes:
        """All of its record."""
        return self.local if self.rest is None else payload(self.local, self.rest, read, usable)

    def values(self, read: ReadPage, usable: int) -> Entry:
        """The values of its record, read once: pages as they were, or as they are. `Tangled`."""
        found: Entry | None = vars(self).get("_values")
        if found is None:
            found = vars(self)["_values"] = record(self.content(read, usable))
        return found


@dataclass
class Difference:
    """How the rows and entries of one table differ on the pages that a commit wrote."""

    table: TableIndexes
    gone: dict[Any, Stored | None] = field(default_factory=dict)
    new: dict[Any, Stored | None] = field(default_factory=dict)
    """Row ids with what is stored under them, or whole entries of a table without them."""
    entries: dict[int, Counter[Entry]] = field(default_factory=dict)
    """Root of an index → how many more of each entry there are; less than none where it is gone."""


class Preservation:
    """One commit. Raises `Uncertain`, `Tangled`, `sqlite3.Error`.

    `differences` has the tables whose rows or entries are others than before. `before` gives a page
    as it was for as long as it was so, `after` as it is.
    """

    def __init__(
        self,
        commit: Commit,
        usable: int,
        rewritten: Mapping[int, Rewritten],
        tables: Mapping[int, TableIndexes],
        before: ReadPage,
        after: Pages,
        former: Callable[[int, bool], Tree],
    ) -> None:
        """`tables` has the table that each root belongs to; `former` gives the trees before."""
        if len(commit.pages) > max(_FEW_PAGES, commit.page_count // _PART):
            raise Uncertain("it wrote too much of the file")
        self._commit, self._usable = commit, usable
        self._before, self._after, self._former = before, after.read, former
        self._pages = after
        self.differences: dict[str, Difference] = {}
        for root, nodes in rewritten.items():
            table = tables.get(root)
            if table is None:
                raise Uncertain("a tree belongs to no table")
            found = self.differences.setdefault(table.name, Difference(table))
            self._compare(root, nodes, found)

    def holds(self) -> bool:
        """True if the file is sound, when what the rows make of entries was taken off."""
        return not any(
            any(counts.values())
            for each in self.differences.values()
            for counts in each.entries.values()
        )

    def subtract(
        self, connect: Callable[[], AbstractContextManager[sqlite3.Connection]], sign: int
    ) -> None:
        """Take off the entries of the rows that are gone (-1) or new (1).

        `connect` gives a connection to the database as it was or is, for rows that only SQLite
        can tell the entries of; it is not closed here.
        """
        read = self._after if sign > 0 else self._before
        for each in self.differences.values():
            if each.table.hidden_by is not None:
                raise Uncertain(each.table.hidden_by)
            rows = each.new if sign > 0 else each.gone
            if not rows or (sign < 0 and not each.table.indexes):
                continue  # of rows that are gone, only their entries matter
            try:
                found = each.table.plain_entries(
                    (row_id, stored.values(read, self._usable))
                    for row_id, stored in rows.items()
                    if stored is not None
                )
            except Uncertain:  # ask SQLite
                with connect() as connection, limits(connection):
                    found = each.table.entries(connection, rows)
            for root, entries in found.items():
                counts = each.entries.setdefault(root, Counter())
                for entry, count in entries.items():
                    counts[entry] -= sign * count

    # What became of rows and entries

    def _compare(self, root: int, nodes: Rewritten, found: Difference) -> None:
        index = next((each for each in all_trees(found.table) if each.root == root), None)
        are_row_ids = index is None
        before = self._former(root, are_row_ids)
        over = before, self._commit.pages, nodes.before
        after = Tree(self._pages, are_row_ids=are_row_ids, over=over)
        for page in sorted(nodes.after):
            node, cells = after.node(page)
            node.check_space(cells)
            for at, rest in cells.rests.items():
                ends = [end for _, end in _chain(self._after, cells.locals[at], rest, self._usable)]
                if ends[-1]:
                    raise Tangled("an overflow chain is too long")
        keys: Keys = RowIds() if index is None else index
        try:
            check_order(
                after, root, keys, nodes.after, nodes.above_after, (before, nodes.above_before)
            )
        finally:
            if index is not None:
                index.forget()
        if index is None:
            self._compare_rows(before, after, nodes, found)
            return
        # Where keys ascend, none is twice.
        old = {entry for page in nodes.before for entry in _gone(before, after, page, nodes)}
        new = {entry for page in nodes.after for entry in _new(after, page)}
        old, new = old - new, new - old
        if index is found.table.primary:
            found.gone.update(dict.fromkeys(sorted(old)))
            found.new.update(dict.fromkeys(sorted(new)))
            return
        counts = found.entries.setdefault(root, Counter())
        counts.update(map(record, new))
        counts.subtract(map(record, old))

    def _compare_rows(self, before: Tree, after: Tree, nodes: Rewritten, found: Difference) -> None:
        old: dict[int, _Row] = {}
        new: dict[int, _Row] = {}
        for page in nodes.before:
            old.update(self._rows(before, page, _places_gone(before, after, page, nodes)))
        for page in nodes.after:
            new.update(self._rows(after, page, after.node(page)[1].new))
        found.gone.update(
            (row_id, _stored(row)) for row_id, row in old.items() if new.get(row_id) != row
        )
        for row_id, row in new.items():
            if old.get(row_id) != row:
                stored = found.new[row_id] = _stored(row)
                most = len(found.table.columns)
                if stored.rest is not None:
                    check_shape(stored.local, stored.length, most)
                elif len(stored.values(self._after, self._usable)) > most:
                    raise Tangled("a record has more values than its table has columns")

    def _rows(self, tree: Tree, page: int, places: list[int]) -> Iterable[tuple[int, _Row]]:
        """Row id → the row on its page; where there is a rest, with what is equal where that is."""
        node, cells = tree.node(page)
        if node.children:
            return ()
        if cells.rests:
            return [(cells.row_ids[at], self._row(tree, cells, at)) for at in places]
        if len(places) == len(cells.row_ids):
            return zip(cells.row_ids, cells.locals, strict=True)
        return [(cells.row_ids[at], cells.locals[at]) for at in places]

    def _row(self, tree: Tree, cells: Cells, at: int) -> _Row:
        rest = cells.rests.get(at)
        if rest is None:
            return cells.locals[at]
        chain = _chain(tree.pages.read, cells.locals[at], rest, self._usable)
        is_written = any(page in self._commit.pages for page, _ in chain)
        return cells.locals[at], rest, object() if is_written else None


def _places_gone(before: Tree, after: Tree, page: int, nodes: Rewritten) -> list[int]:
    cells = before.node(page)[1]
    if page in nodes.after:
        return after.node(page)[1].gone(cells)
    return [*range(len(cells.sizes))]


def _gone(before: Tree, after: Tree, page: int, nodes: Rewritten) -> list[bytes]:
    keys = before.keys(page)
    return [keys[at] for at in _places_gone(before, after, page, nodes)]


def _new(after: Tree, page: int) -> list[bytes]:
    keys = after.keys(page)
    return [keys[at] for at in after.node(page)[1].new]


_Row = bytes | tuple[bytes, Rest, object]


def _stored(row: _Row) -> Stored:
    return Stored(row, None) if isinstance(row, bytes) else Stored(row[0], row[1])


def check_head(head: bytes, page_count: int) -> None:
    """The first page says how many pages there are. Raises `Uncertain`."""
    if head[24:28] != head[92:96] or int.from_bytes(head[28:32], "big") != page_count:
        raise Uncertain("its header does not say how many pages it has")


def has_maps(head: bytes) -> bool:
    """True if the file says in maps of pages what leads to each."""
    return any(head[52:56])


def map_pages(page_count: int, usable: int) -> range:
    """The maps of pages, in a file that has them."""
    return range(2, page_count + 1, usable // _MAP_ENTRY_BYTES + 1)


def _chain(read: ReadPage, local: bytes, rest: Rest, usable: int) -> Iterator[tuple[int, int]]:
    """(page, the one after it) of the chain, as long as it has to be. Raises `Tangled`."""
    page = rest.page
    for _ in range(chain_pages(local, rest, usable)):
        if not page:
            raise Tangled("an overflow chain is too short")
        (following,) = struct.unpack_from(">I", read(page))
        yield page, following
        page = following


def free_pages(read: ReadPage, page_count: int, usable: int) -> list[int]:
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
