"""Reachability bitmaps: which objects a commit leads to, as git believes it when somebody fetches.

A forged one gives those who fetch other objects than their commits need, and a repack may leave out
what is still needed. So each is compared with what its commit leads to.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from statediff.systems.files.tree import NotRead
from statediff_git.ewah import read_ewah
from statediff_git.graphs import Commits

_HEAD: Final = 32
_FULL: Final = 1
_NAME_HASHES: Final = 4
_TABLE: Final = 16
_KINDS: Final = ("commit", "tree", "blob", "tag")
_MOST_BACK: Final = 160
"""Bitmaps between one and the one that it is a difference to."""


def check_bitmap(
    stored: bytes, checksum: bytes, ids: Sequence[str], order: Sequence[int], commits: Commits
) -> None:
    """Raises `NotRead` unless the file says what the objects say.

    `ids` are all objects, sorted; `order` has their numbers in the order of the bits. `checksum` is
    that of what the file belongs to. The hashes of names, which only guide compression, may be any.
    """
    if len(stored) < _HEAD + 20 or stored[:6] != b"BITM\0\1" or stored[12:32] != checksum:
        raise NotRead("a bitmap belongs to something else")
    flags, count = struct.unpack_from(">HI", stored, 6)
    if not flags & _FULL or flags & ~(_FULL | _NAME_HASHES | _TABLE):
        raise NotRead("a bitmap has flags that are not read")
    bits = {ids[number]: bit for bit, number in enumerate(order)}
    at = _HEAD
    for kind in _KINDS:
        found, at = read_ewah(stored, at, _rounded(len(ids)))
        if found != sum(1 << bits[oid] for oid in ids if commits.objects.kind(oid) == kind):
            raise NotRead("a bitmap names other objects of a kind")
    known: list[int] = []
    table: dict[int, tuple[int, int]] = {}
    said: dict[str, int] = {}
    for row in range(count):
        start = at
        number, back, _ = _unpack(">IBB", stored, at)
        found, at = read_ewah(stored, at + 6, _rounded(len(ids)))
        if back > min(row, _MOST_BACK) or number >= len(ids) or number in table:
            raise NotRead("a bitmap is damaged")
        known.append(found ^ known[row - back] if back else found)
        said[ids[number]] = known[row]
        table[number] = (start, row - back if back else -1)
    at = _skip_tables(stored, at, flags, list(table.items()), len(ids))
    if at != len(stored) - 20:
        raise NotRead("a bitmap has bytes that belong to nothing")
    _check_reached(said, bits, commits)


def _rounded(count: int) -> int:
    return (count + 63) // 64 * 64


def _unpack(form: str, stored: bytes, at: int) -> tuple[int, ...]:
    try:
        return struct.unpack_from(form, stored, at)
    except struct.error as error:
        raise NotRead("a bitmap is cut short") from error


def _skip_tables(
    stored: bytes, at: int, flags: int, table: list[tuple[int, tuple[int, int]]], count: int
) -> int:
    """Where the tables behind the bitmaps end. Raises `NotRead` for a wrong list of places."""
    if flags & _TABLE:
        rows = sorted(range(len(table)), key=lambda row: table[row][0])
        places = {row: place for place, row in enumerate(rows)}
        made = b""
        for row in rows:
            number, (start, base) = table[row]
            made += struct.pack(">IQI", number, start, places[base] if base >= 0 else 0xFFFFFFFF)
        if stored[at : at + len(made)] != made:
            raise NotRead("a bitmap gives other places")
        at += len(made)
    return at + 4 * count if flags & _NAME_HASHES else at


def _check_reached(said: dict[str, int], bits: dict[str, int], commits: Commits) -> None:
    """Raises `NotRead` unless each commit leads to just what is said."""
    order = _oldest_first(list(said), commits)
    waiting: dict[str, int] = {}
    for oid in order:
        for parent in commits.facts(oid)[1]:
            waiting[parent] = waiting.get(parent, 0) + 1
    reached: dict[str, int] = {}
    for oid in order:
        tree, parents, _ = commits.facts(oid)
        found = 1 << _bit(bits, oid)
        for parent in parents:
            found |= reached[parent]
            waiting[parent] -= 1
            if not waiting[parent]:
                del reached[parent]
        reached[oid] = found = _with_tree(found, tree, bits, commits)
        if oid in said and said[oid] != found:
            raise NotRead("a bitmap says that a commit leads elsewhere")
        if not waiting.get(oid):
            del reached[oid]


def _oldest_first(tips: list[str], commits: Commits) -> list[str]:
    """The commits and all before them, each after its parents."""
    order: dict[str, None] = {}
    pending = tips
    while pending:
        oid = pending[-1]
        missing = [parent for parent in commits.facts(oid)[1] if parent not in order]
        if missing and oid not in order:
            pending.extend(missing)
            continue
        order.setdefault(pending.pop())
    return list(order)


def _with_tree(found: int, tree: str, bits: dict[str, int], commits: Commits) -> int:
    """The bits with those of a tree and of all that is in it."""
    pending = [tree]
    while pending:
        oid = pending.pop()
        bit = _bit(bits, oid)
        if found >> bit & 1:
            continue
        found |= 1 << bit
        for entry in commits.tree(oid).values():
            if entry.is_tree:
                pending.append(entry.oid)
            elif not entry.is_submodule:
                found |= 1 << _bit(bits, entry.oid)
    return found


def _bit(bits: dict[str, int], oid: str) -> int:
    if oid not in bits:
        raise NotRead(f"a bitmap has no place for {oid}")
    return bits[oid]
