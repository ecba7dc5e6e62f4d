"""The order of the keys of a b-tree where a commit wrote to it.

A search goes down by the keys it compares with: a key in a wrong place is in the tree and in no
answer. What a commit left alone is in order, if it was, between the bounds that it had. So only
these are compared: keys beside each other in written nodes that were not there before in the same
order, the first and the last of each written node with its bounds, and the ends of each part that
was not written, where its bounds are others than before.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Any, Protocol

from statediff.systems.sqlite.paged.btree import Cells, Node, Pages, Tangled, payload

OtherPages = tuple["Tree", Collection[int], Collection[int]]
"""A tree as it was, the pages that were written since, and its nodes among them."""
_Bounds = tuple[Any, Any]
"""The keys below and above; None where there are none."""


class Keys(Protocol):
    """How the keys of one tree are ordered."""

    @property
    def are_row_ids(self) -> bool:
        """True if the tree is a table whose key is the row id."""
        ...

    def precedes(self, one: Any, other: Any) -> bool:
        """True if one comes before the other, and may stand beside it. Raises `Tangled`."""
        ...


class RowIds:
    """The row ids of a table: a separator in an interior node may equal the last one below it."""

    are_row_ids = True

    def precedes(self, one: int, other: int) -> bool:
        return one < other


class Tree:
    """One tree at one moment, of which each node is parsed once."""

    def __init__(self, pages: Pages, *, are_row_ids: bool, over: OtherPages | None = None) -> None:
        """`over` is the tree as it was, with the pages that were written since."""
        self.pages = pages
        self._are_row_ids = are_row_ids
        self._over = over
        self._nodes: dict[int, tuple[Node, Cells]] = {}
        self._keys: dict[int, list[Any]] = {}

    def node(self, page: int) -> tuple[Node, Cells]:
        """The node and its cells. Raises `Tangled`."""
        if self._over is not None and page not in self._over[1]:
            return self._over[0].node(page)
        found = self._nodes.get(page)
        if found is None:
            node = self.pages.node(page)
            if node.is_of_table is not self._are_row_ids:
                raise Tangled(f"page {page} is of another kind of tree")
            found = self._nodes[page] = node, node.cells(self._former(page))
        return found

    def _former(self, page: int) -> tuple[Node, Cells] | None:
        """The node that the page was; None where it was none of this tree."""
        if self._over is None or page not in self._over[2]:
            return None
        return self._over[0].node(page)

    def keys(self, page: int) -> list[Any]:
        """The keys of its cells: row ids, or whole entries. Raises `Tangled`."""
        found = self._keys.get(page)
        if found is None:
            cells = self.node(page)[1]
            if self._over is not None and page not in self._over[1] and not cells.rests:
                return self._over[0].keys(page)
            if self._are_row_ids:
                found = cells.row_ids
            else:
                found = list[Any](cells.locals)
                for at, rest in cells.rests.items():
                    found[at] = payload(found[at], rest, self.pages.read, self.pages.usable)
            self._keys[page] = found
        return found

    def parts(self, page: int, bounds: _Bounds) -> Iterator[tuple[int, _Bounds]]:
        """Each child with its bounds."""
        node, _ = self.node(page)
        if not node.children:
            return
        keys = [bounds[0], *self.keys(page), bounds[1]]
        yield from zip(node.children, itertools.pairwise(keys), strict=True)

    def some_parts(
        self, page: int, bounds: _Bounds, of: Collection[int]
    ) -> Iterator[tuple[int, _Bounds]]:
        """Each child that is one of these, with its bounds."""
        children = self.node(page)[0].children
        if not children:
            return
        keys = self.keys(page)
        for child in {*children}.intersection(of):
            at = children.index(child)
            low = keys[at - 1] if at else bounds[0]
            yield child, (low, keys[at] if at < len(keys) else bounds[1])

    def end(self, page: int, at: int) -> Any:
        """The first (0) or last (-1) key below the page; None where there is none."""
        while (node := self.node(page)[0]).children:
            page = node.children[at]
        keys = self.keys(page)
        return keys[at] if keys else None


def check_order(
    tree: Tree,
    root: int,
    keys: Keys,
    touched: Collection[int],
    above: Collection[int],
    before: tuple[Tree, Collection[int]],
) -> None:
    """The keys are in order. Raises `Tangled`.

    `touched` are the nodes that were written or taken in, `above` these and all above them.
    `before` is the tree as it was, with the nodes that were written and all above them.
    """
    former = _bounds(*before, root)
    known: frozenset[Hashable] | None = None
    waiting: list[tuple[int, _Bounds]] = [(root, (None, None))] if root in above else []
    while waiting:
        page, bounds = waiting.pop()
        if page in touched:
            keys_before = None
            if page in before[1]:
                keys_before = before[0].keys(page)
            _check_node(tree, page, keys, bounds, keys_before)
        elif former.get(page) == bounds:  # so that its children have the bounds that they had
            waiting.extend(tree.some_parts(page, bounds, above))
            continue
        for child, between in tree.parts(page, bounds):
            if child in above:
                waiting.append((child, between))
                continue
            if known is None:
                known = _known(before[0], former)
            if (child, between) not in known:
                _check_ends(tree, child, keys, between)


def _bounds(tree: Tree, above: Collection[int], root: int) -> dict[int, _Bounds]:
    """The bounds of each of these nodes, which are all that are above any of them."""
    found: dict[int, _Bounds] = {}
    waiting: list[tuple[int, _Bounds]] = [(root, (None, None))] if root in above else []
    while waiting:
        page, bounds = waiting.pop()
        found[page] = bounds
        waiting.extend(tree.some_parts(page, bounds, above))
    return found


def _known(tree: Tree, former: Mapping[int, _Bounds]) -> frozenset[Hashable]:
    """The other children of these nodes, with their bounds."""
    return frozenset(
        part
        for page, bounds in former.items()
        for part in tree.parts(page, bounds)
        if part[0] not in former
    )


def _check_node(
    tree: Tree, page: int, keys: Keys, bounds: _Bounds, former: list[Any] | None
) -> None:
    found, kinship = tree.keys(page), tree.node(page)[1].kinship
    if kinship is not None:
        loose = kinship.loose
    else:
        place = {} if former is None else {key: at for at, key in enumerate(former)}
        places = [place.get(key, -1) for key in found]
        loose = [
            at for at, (one, two) in enumerate(itertools.pairwise(places)) if one < 0 or two <= one
        ]
    for at in loose:
        if not keys.precedes(found[at], found[at + 1]):
            raise Tangled(f"the keys of page {page} are out of order")
    if found:
        _check_between(keys, bounds, found[0], found[-1], page)
    elif tree.node(page)[0].children:
        raise Tangled(f"page {page} separates nothing")


def _check_ends(tree: Tree, page: int, keys: Keys, bounds: _Bounds) -> None:
    first, last = tree.end(page, 0), tree.end(page, -1)
    if first is None or last is None:
        raise Tangled(f"a leaf below page {page} has no keys")
    _check_between(keys, bounds, first, last, page)


def _check_between(keys: Keys, bounds: _Bounds, first: Any, last: Any, page: int) -> None:
    low, high = bounds
    is_fine = (low is None or keys.precedes(low, first)) and (
        high is None or keys.precedes(last, high) or (keys.are_row_ids and last == high)
    )
    if not is_fine:
        raise Tangled(f"the keys of page {page} are out of order with those beside it")
