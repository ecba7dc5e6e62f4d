"""The commit graph: what git looks up of commits in place of the commits, and verifies never.

It holds each commit's tree, parents and time, how far it is from the first ones, and which paths it
may have changed (a Bloom filter). A graph that somebody forged shows another history, ends a
walk early, or keeps a commit out of the log of a path. So every byte of it is compared with what
the commits say; a filter only has to hold all that the commit changed.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from statediff.model.batches import Row
from statediff.systems.files.tree import Folder, NotRead
from statediff_git.objects import Objects
from statediff_git.types import TreeEntry, commit_row, tree_entries

MAX_GRAPH_BYTES: Final = 64 * 1024 * 1024
ID: Final = 20
_NO_PARENT: Final = 0x70000000
_LAST: Final = 0x80000000
_MOST_STEPS: Final = 0x3FFFFFFF
_WORD: Final = 0xFFFFFFFF
_SEEDS: Final = (0x293AE76F, 0x7E646E2C)
_PARTS: Final = frozenset(
    {b"OIDF", b"OIDL", b"CDAT", b"GDA2", b"GDO2", b"EDGE", b"BIDX", b"BDAT", b"BASE"}
)
GRAPH: Final = b"info/commit-graph"
GRAPHS: Final = b"info/commit-graphs"
CHAIN: Final = GRAPHS + b"/commit-graph-chain"


def is_summed(stored: bytes) -> bool:
    """Whether a file of git's ends with its checksum."""
    return hashlib.sha1(stored[:-ID]).digest() == stored[-ID:]  # noqa: S324 - git's own checksum


def read_chunks(stored: bytes, magic: bytes, head: int) -> dict[bytes, bytes]:
    """The parts of a file of chunks, each with its whole bytes (gitformat-chunk).

    `NotRead` unless header, table, parts, ids and checksum are all there is, and are right.
    """
    if stored[:6] != magic + b"\x01\x01" or not is_summed(stored):
        raise NotRead("a file of chunks is damaged")
    count = stored[6]
    found: dict[bytes, bytes] = {}
    try:
        table = [struct.unpack_from(">4sQ", stored, head + 12 * n) for n in range(count + 1)]
    except struct.error as error:
        raise NotRead("a file of chunks is damaged") from error
    if table[0][1] != head + 12 * (count + 1) or table[-1] != (bytes(4), len(stored) - ID):
        raise NotRead("a file of chunks has bytes that belong to none")
    for (name, start), (_, end) in itertools.pairwise(table):
        if name in found or start > end:
            raise NotRead("a file of chunks is damaged")
        found[name] = stored[start:end]
    check_ids(found.get(b"OIDF", b""), found.get(b"OIDL", b""))
    return found


def check_ids(fan: bytes, listed: bytes) -> None:
    """Raises `NotRead` unless the ids are sorted and the fan-out counts them."""
    ids = [listed[at : at + ID] for at in range(0, len(listed), ID)]
    counts = [0] * 256
    for oid in ids:
        counts[oid[0]] += 1
    is_sorted = all(one < other for one, other in itertools.pairwise(ids))
    if not is_sorted or fan != struct.pack(">256I", *itertools.accumulate(counts)):
        raise NotRead("a list of ids is not sorted or is counted wrongly")


@dataclass
class Commits:
    """What commits and trees say, looked up by id; `rows` are the commits known already."""

    objects: Objects
    rows: Mapping[str, Row]
    _facts: dict[str, tuple[str, tuple[str, ...], int]] = field(default_factory=dict)
    _steps: dict[str, tuple[int, int]] = field(default_factory=dict)
    _trees: dict[str, dict[bytes, TreeEntry]] = field(default_factory=dict)

    def facts(self, oid: str) -> tuple[str, tuple[str, ...], int]:
        """A commit's tree, its parents, and when it was committed. Raises `NotRead`."""
        if oid not in self._facts:
            row = self.rows.get(oid)
            if row is None:
                found = self.objects.read(oid)
                if found.type != "commit":
                    raise NotRead(f"object {oid} is a {found.type}, not a commit")
                row = commit_row(oid, found.content)[0]
            at, parents = row["committed_at"], row["parents"]
            if not isinstance(at, datetime) or not isinstance(parents, tuple):
                raise NotRead(f"commit {oid} has no time")
            known = str(row["tree"]), tuple(str(parent) for parent in parents), int(at.timestamp())
            self._facts[oid] = known
        return self._facts[oid]

    def steps(self, oid: str) -> tuple[int, int]:
        """Commits on the longest way to a first one, and the corrected date."""
        pending = [oid]
        while pending:
            one = pending[-1]
            if one in self._steps:
                pending.pop()
                continue
            _, parents, time = self.facts(one)
            missing = [parent for parent in parents if parent not in self._steps]
            if missing:
                pending.extend(missing)
                continue
            known = [self._steps[parent] for parent in parents]
            level = 1 + max((level for level, _ in known), default=0)
            date = max([time, *(date + 1 for _, date in known)])
            self._steps[pending.pop()] = (min(level, _MOST_STEPS), date)
        return self._steps[oid]

    def tree(self, oid: str) -> dict[bytes, TreeEntry]:
        """The entries of a tree by name."""
        if oid not in self._trees:
            found = self.objects.read(oid)
            if found.type != "tree":
                raise NotRead(f"object {oid} is a {found.type}, not a tree")
            self._trees[oid] = {entry.name: entry for entry in tree_entries(oid, found.content)}
        return self._trees[oid]

    def changed(self, oid: str) -> Iterator[bytes]:
        """The paths that a commit changed against its first parent, and the folders above them."""
        tree, parents, _ = self.facts(oid)
        earlier = self.facts(parents[0])[0] if parents else None
        pending: list[tuple[bytes, str | None, str | None]] = [(b"", earlier, tree)]
        while pending:
            above, one, other = pending.pop()
            old = {} if one is None else self.tree(one)
            new = {} if other is None else self.tree(other)
            for name in old.keys() | new.keys():
                sides = (old.get(name), new.get(name))
                if sides[0] == sides[1]:
                    continue
                yield above + name
                below = [side.oid if side and side.is_tree else None for side in sides]
                if any(below):
                    pending.append((above + name + b"/", below[0], below[1]))


def sound_graphs(folder: Folder, commits: Commits) -> set[bytes]:
    """Which files of commit graphs below `objects` say just what the commits say."""
    sound: set[bytes] = set()
    single = content(folder, GRAPH)
    if single is not None and _is_true(single, [], b"", commits):
        sound.add(GRAPH)
    if folder.kind(GRAPHS) is None:
        return sound
    chain = content(folder, CHAIN) or b""
    names = chain.split(b"\n")[:-1]
    ids: list[str] = []
    bases = b""
    layers: set[bytes] = set()
    for name in names:
        path = GRAPHS + b"/graph-" + name + b".graph"
        stored = content(folder, path)
        if stored is None or stored[-ID:].hex().encode() != name:
            break
        if not _is_true(stored, ids, bases, commits):
            break
        layers.add(path)
        bases += stored[-ID:]
    if len(layers) == len(names) and chain == b"".join(name + b"\n" for name in names):
        sound.add(CHAIN)
    for name in folder_names(folder, GRAPHS):
        path = GRAPHS + b"/" + name
        is_old = name[6:-6] not in names and _is_of_its_name(content(folder, path), name)
        if path in layers or is_old:
            sound.add(path)
    return sound


def _is_of_its_name(stored: bytes | None, name: bytes) -> bool:
    """Whether it is a whole layer that a chain may once have had; nothing looks into it now."""
    if stored is None or name != b"graph-%s.graph" % stored[-ID:].hex().encode():
        return False
    try:
        read_chunks(stored, b"CGPH", 8)
    except NotRead:
        return False
    return True


def folder_names(folder: Folder, path: bytes) -> list[bytes]:
    """The names in a folder below; none where it is not there, or is no folder."""
    try:
        with folder.folder(path) as below:
            return below.names()
    except NotRead:
        return []


def content(folder: Folder, path: bytes) -> bytes | None:
    """The bytes of a file below; None where it is not there, is no file or is too large."""
    try:
        return folder.read(path, MAX_GRAPH_BYTES)
    except NotRead:
        return None


def _is_true(stored: bytes, below: list[str], bases: bytes, commits: Commits) -> bool:
    """Whether a layer says just what its commits say; then they are added to those `below`."""
    try:
        chunks = read_chunks(stored, b"CGPH", 8)
        if chunks.keys() - _PARTS or stored[7] * ID != len(bases):
            return False
        listed = chunks.get(b"OIDL", b"")
        ids = [listed[at : at + ID].hex() for at in range(0, len(listed), ID)]
        numbers = {oid: number for number, oid in enumerate([*below, *ids])}
        data, edges = _data(ids, numbers, commits)
        is_true = (
            chunks.get(b"CDAT", b"") == data
            and chunks.get(b"EDGE", b"") == edges
            and chunks.get(b"BASE", b"") == bases
            and _are_dates(chunks, ids, commits)
            and _are_filters(chunks, ids, commits)
        )
    except (NotRead, KeyError, struct.error):
        return False
    if is_true:
        below.extend(ids)
    return is_true


def _data(ids: list[str], numbers: Mapping[str, int], commits: Commits) -> tuple[bytes, bytes]:
    """Trees, parents, steps and times of the commits, and the list of further parents."""
    rows: list[bytes] = []
    edges: list[int] = []
    for oid in ids:
        tree, parents, time = commits.facts(oid)
        places = [numbers[parent] for parent in parents]
        one, two = [*places, _NO_PARENT, _NO_PARENT][:2]
        if len(places) > 2:
            two = _LAST | len(edges)
            edges += [*places[1:-1], places[-1] | _LAST]
        level = commits.steps(oid)[0]
        high = level << 2 | time >> 32 & 3
        rows.append(bytes.fromhex(tree) + struct.pack(">IIII", one, two, high, time & _WORD))
    return b"".join(rows), struct.pack(f">{len(edges)}I", *edges)


def _are_dates(chunks: Mapping[bytes, bytes], ids: list[str], commits: Commits) -> bool:
    offsets: list[int] = []
    large: list[int] = []
    for oid in ids:
        offset = commits.steps(oid)[1] - commits.facts(oid)[2]
        if offset >= _LAST:
            large.append(offset)
            offset = _LAST | len(large) - 1
        offsets.append(offset)
    if b"GDA2" not in chunks:
        return b"GDO2" not in chunks
    far = struct.pack(f">{len(large)}Q", *large)
    return (
        chunks[b"GDA2"] == struct.pack(f">{len(ids)}I", *offsets)
        and chunks.get(b"GDO2", b"") == far
    )


def _are_filters(chunks: Mapping[bytes, bytes], ids: list[str], commits: Commits) -> bool:
    """Whether each filter that is there holds all the paths that its commit changed."""
    if b"BIDX" not in chunks and b"BDAT" not in chunks:
        return True
    ends = struct.unpack(f">{len(ids)}I", chunks.get(b"BIDX", b""))
    stored = chunks.get(b"BDAT", b"")
    version, hashes, _ = struct.unpack_from(">III", stored, 0)
    if version not in (1, 2) or not 0 < hashes <= 64 or list(ends) != sorted(ends):
        return False
    if (ends[-1] if ends else 0) != len(stored) - 12:
        return False
    for number, oid in enumerate(ids):
        bits = stored[12 + (ends[number - 1] if number else 0) : 12 + ends[number]]
        if bits and bits != b"\xff" and not _holds(bits, commits.changed(oid), hashes, version):
            return False
    return True


def _holds(bits: bytes, paths: Iterator[bytes], hashes: int, version: int) -> bool:
    size = 8 * len(bits)
    for path in paths:
        one, two = (_murmur(path, seed, is_signed=version == 1) for seed in _SEEDS)
        for number in range(hashes):
            place = (one + number * two & _WORD) % size
            if not bits[place >> 3] >> (place & 7) & 1:
                return False
    return True


def _murmur(stored: bytes, seed: int, *, is_signed: bool) -> int:
    """MurmurHash3 of 32 bits; version 1 of git's filters takes bytes as signed."""
    value = seed
    whole = len(stored) // 4 * 4
    for at in range(0, whole, 4):
        value ^= _mixed(_little(stored[at : at + 4], is_signed=is_signed))
        value = (value << 13 | value >> 19) & _WORD
        value = value * 5 + 0xE6546B64 & _WORD
    if whole < len(stored):
        value ^= _mixed(_little(stored[whole:], is_signed=is_signed, is_tail=True))
    value ^= len(stored)
    value = (value ^ value >> 16) * 0x85EBCA6B & _WORD
    value = (value ^ value >> 13) * 0xC2B2AE35 & _WORD
    return value ^ value >> 16


def _mixed(word: int) -> int:
    word = word * 0xCC9E2D51 & _WORD
    word = (word << 15 | word >> 17) & _WORD
    return word * 0x1B873593 & _WORD


def _little(part: bytes, *, is_signed: bool, is_tail: bool = False) -> int:
    word = 0
    for number, byte in enumerate(part):
        value = byte - 256 if is_signed and byte > 127 else byte
        shifted = value << 8 * number
        word = word ^ shifted if is_tail else word | shifted
    return word & _WORD
