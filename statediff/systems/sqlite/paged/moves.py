"""Whose each page is after some pages were written, read from these and from what was before.

A page that was not written leads where it led. So only written pages, those above them and those
that they took in or gave up are looked at: no tree is walked through. What would need more than
that is `Tangled`, and everything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from statediff.systems.sqlite.paged.btree import Pages, Tangled
from statediff.systems.sqlite.paged.owners import PageOwners, Rewritten, chained, links_of


class Moves(NamedTuple):
    """The fate of the trees."""

    rewritten: Mapping[int, Rewritten]
    """By root; of trees in which something was written."""
    lost: frozenset[int]
    """Pages that were in a tree and are in none."""
    gained: frozenset[int]
    """Pages that were in no tree and are in one."""
    are_places_kept: bool
    """True if each page of a tree is where it was."""


def follow_moves(
    owners: PageOwners, written: Collection[int], page_count: int, pages: Pages
) -> Moves:
    """The trees after `written`, which are no roots of the catalogue. Raises `Tangled`.

    `owners` has the trees as they were, each page in one place; it is not changed. `pages` are
    those that there are now.
    """
    return _Walk(owners, frozenset(written), page_count, pages).moves()


@dataclass
class _Walk:
    owners: PageOwners
    written: frozenset[int]
    page_count: int
    pages: Pages
    dirty: dict[int, set[int]] = field(default_factory=dict)
    """Parent → the children at or below which something was written."""
    parents: dict[int, int] = field(default_factory=dict)
    """The pages reached so far, and from where."""
    looked_at: dict[int, dict[int, bool]] = field(default_factory=dict)
    """Root → the pages of it that are new in their place or content; whether in a chain."""
    left: set[int] = field(default_factory=set)
    """Pages that were not written and must be in no tree, as their children have another parent."""
    are_places_kept: bool = True

    def moves(self) -> Moves:
        beyond = range(self.page_count + 1, self.owners.page_count + 1)
        known = [page for page in (*self.written, *beyond) if page in self.owners]
        for page in known:
            self._mark(page)
        roots = sorted({self.owners.root(page) for page in known})
        for root in roots:
            self.looked_at[root] = {}
            self._walk(root)
        lost = frozenset(self._lost(known))
        if not self.left <= lost:
            raise Tangled("a page is reached twice")
        gained = frozenset(
            page for pages in self.looked_at.values() for page in pages if page not in self.owners
        )
        return Moves(
            rewritten={root: self._rewritten(root, known, lost) for root in roots},
            lost=lost,
            gained=gained,
            are_places_kept=self.are_places_kept and not lost and not gained,
        )

    def _mark(self, page: int) -> None:
        while parent := self.owners.parent(page):
            below = self.dirty.setdefault(parent, set())
            if page in below:
                return
            below.add(page)
            page = parent

    def _walk(self, root: int) -> None:
        owners = self.owners
        height, leaves = owners.leaf_depth(root), -1
        self._reach(root, 0)
        waiting = [(root, False, 0)]
        while waiting:
            page, is_overflow, depth = waiting.pop()
            is_known = page in owners and page not in self.written
            if is_known:
                found = -1 if is_overflow else depth + height - owners.depth(page)
                for child in self.dirty[page]:
                    self._reach(child, page)
                    waiting.append((child, owners.is_overflow(child), depth + 1))
            else:
                self.looked_at[root][page] = is_overflow
                if is_overflow:
                    links = chained(self.pages.read(page), page)
                else:
                    links = links_of(self.pages.node(page), page)
                found = depth if all(follows for _, follows in links) else -1
                for child, follows in links:
                    self._reach(child, page)
                    if self._is_taken(child, page, root, follows):
                        if not follows and leaves < 0:
                            leaves = depth + 1 + height - owners.depth(child)
                        if not follows and leaves != depth + 1 + height - owners.depth(child):
                            raise Tangled(f"page {child} is not as deep as those beside it")
                        if child not in self.dirty:
                            continue
                    waiting.append((child, follows, depth + 1))
            if not is_overflow and found >= 0:
                leaves = found if leaves < 0 else leaves
                if leaves != found:
                    raise Tangled(f"page {page} is not as deep as those beside it")

    def _reach(self, page: int, parent: int) -> None:
        is_root = page in self.owners.roots
        if not 1 <= page <= self.page_count or page in self.parents or is_root is (parent != 0):
            raise Tangled(f"page {page} is reached twice or does not exist")
        self.parents[page] = parent
        if page not in self.owners or self.owners.parent(page) != parent:
            self.are_places_kept = False

    def _is_taken(self, page: int, parent: int, root: int, is_overflow: bool) -> bool:
        """True if the page is as it was, with all below it that was not written."""
        owners = self.owners
        if page in self.written or page not in owners:
            return False
        if owners.root(page) != root or owners.is_overflow(page) is not is_overflow:
            raise Tangled(f"page {page} moved to another tree")
        former = owners.parent(page)
        if former != parent and former not in self.written:
            self.left.add(former)
        return True

    def _lost(self, known: Collection[int]) -> set[int]:
        lost: set[int] = set()
        waiting = [child for page in known for child, _ in self.owners.links(page)]
        while waiting:
            page = waiting.pop()
            if page not in self.parents and page not in lost:
                lost.add(page)
                waiting.extend(child for child, _ in self.owners.links(page))
        return lost

    def _rewritten(self, root: int, known: Collection[int], lost: Collection[int]) -> Rewritten:
        owners, new = self.owners, self.looked_at[root]
        written = [p for p in known if p in self.written and owners.root(p) == root]
        given_up = [page for page in lost if owners.root(page) == root]
        before = _nodes({*written, *given_up}, owners.parent, owners.is_overflow)
        above = _above(written, owners.parent, owners.is_overflow)
        if (
            self.are_places_kept
            and not lost
            and new == {page: owners.is_overflow(page) for page in written}
        ):
            return Rewritten(before, before, above, above)

        def parent(page: int) -> int:
            return self.parents[page] if page in self.parents else owners.parent(page)

        def is_overflow(page: int) -> bool:
            return new[page] if page in new else owners.is_overflow(page)

        return Rewritten(
            before, _nodes(new, parent, is_overflow), above, _above(new, parent, is_overflow)
        )


def _nodes(
    pages: Iterable[int], parent: Callable[[int], int], is_overflow: Callable[[int], bool]
) -> frozenset[int]:
    """The nodes among the pages, and those whose overflow chains the others are of."""
    found: set[int] = set()
    passed: set[int] = set()
    for each in pages:
        page = each
        while page not in passed and is_overflow(page):
            passed.add(page)
            page = parent(page)
        found.add(page)
    return frozenset(found - passed)


def _above(
    pages: Iterable[int], parent: Callable[[int], int], is_overflow: Callable[[int], bool]
) -> frozenset[int]:
    """The nodes among the pages, and all nodes above any of them."""
    found: set[int] = set()
    for each in pages:
        page = each
        while page and page not in found:
            found.add(page)
            page = parent(page)
    return frozenset(page for page in found if not is_overflow(page))
