"""The index of a work tree, read as strictly as git reads it: entries, and every part behind them.

Git keeps beside the entries what it would otherwise work out again, and believes it: the trees that
a commit would make (`TREE`), where entries lie for several threads (`EOIE`, `IEOT`), which files
are untracked (`UNTR`), and entries in a file that indexes share (`link`). Git is asked in a clean
copy what it says with each of these and without (`index_caches`). A part that changes no answer is
left out. Any other is odd, by its digest: the next commit may hold what no entry names. The order
of entries is odd where git would not find them.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.model.batches import Row
from statediff.systems.files.tree import NotRead, shown, text_or_bytes

MAX_INDEX_BYTES: Final = 128 * 1024 * 1024
MAX_NAME_BYTES: Final = 4096
MAX_NAMES_BYTES: Final = 256 * 1024 * 1024
"""All names together: version 4 spells each by what it shares with the one before."""
_STAT_BYTES: Final = 40
_ASSUMED_UNCHANGED: Final = 0x8000
_EXTENDED: Final = 0x4000
_NAME_LENGTH: Final = 0xFFF
_SKIPPED: Final = 0x4000
_INTENT_TO_ADD: Final = 0x2000
_EXTENDED_BITS: Final = _SKIPPED | _INTENT_TO_ADD
_OPTIONAL: Final = range(ord("A"), ord("Z") + 1)
_DERIVED: Final = frozenset((b"EOIE", b"FSMN", b"IEOT", b"TREE", b"UNTR", b"link", b"sdir"))


@dataclass(frozen=True)
class IndexEntry:
    """One entry, with its flags as they are stored."""

    name: bytes
    mode: int
    blob: bytes
    flags: int
    extended: int

    @property
    def stage(self) -> int:
        return self.flags >> 12 & 3

    @property
    def is_in_trees(self) -> bool:
        """True if a commit of the index would hold it."""
        return not self.stage and not self.extended & _INTENT_TO_ADD

    def row(self) -> Row:
        """The entry as an entity."""
        return {
            "path": text_or_bytes(self.name),
            "stage": self.stage,
            "mode": f"{self.mode:06o}",
            "blob": self.blob.hex(),
            "is_assumed_unchanged": bool(self.flags & _ASSUMED_UNCHANGED),
            "is_skipped_in_worktree": bool(self.extended & _SKIPPED),
            "is_intent_to_add": bool(self.extended & _INTENT_TO_ADD),
        }


@dataclass(frozen=True)
class Index:
    """An index's content. `parts` are what stands behind the entries, by name, in their order."""

    entries: tuple[IndexEntry, ...]
    parts: tuple[tuple[bytes, bytes], ...] = ()
    oddities: tuple[str, ...] = ()


@dataclass
class _Reader:
    stored: bytes
    at: int

    def take(self, count: int) -> bytes:
        part = self.stored[self.at : self.at + count]
        if len(part) < count:
            raise NotRead("the index is damaged: it ends in the middle of an entry")
        self.at += count
        return part

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def until_nul(self) -> bytes:
        end = self.stored.find(b"\0", self.at, self.at + MAX_NAME_BYTES + 1)
        if end < 0:
            raise NotRead("the index is damaged: a name has no end")
        name = self.stored[self.at : end]
        self.at = end + 1
        return name


def parse_index(stored: bytes) -> Index:
    """The content of an index file, but for what it shares. `NotRead` if it is not understood."""
    width = id_bytes(stored)
    reader = _Reader(stored[:-width], 0)
    if reader.take(4) != b"DIRC":
        raise NotRead("the index is damaged: it does not begin like one")
    version, count = reader.number(4), reader.number(4)
    if version not in (2, 3, 4):
        raise NotRead(f"the index has version {version}; 2 to 4 are read")
    entries = _entries(reader, version, count, width)
    parts = _parts(reader)
    return Index(tuple(entries), tuple(parts), (*_disorder(entries), *_own_parts(parts)))


def _entries(reader: _Reader, version: int, count: int, width: int) -> list[IndexEntry]:
    entries: list[IndexEntry] = []
    name = b""
    names_left = MAX_NAMES_BYTES
    for _ in range(count):
        start = reader.at
        status = reader.take(_STAT_BYTES)
        blob = reader.take(width)
        flags = reader.number(2)
        extended = reader.number(2) if flags & _EXTENDED else 0
        if extended & ~_EXTENDED_BITS or (flags & _EXTENDED and version < 3):
            raise NotRead("the index is damaged: an entry has flags that git does not know")
        if version == 4:
            strip = _offset(reader)
            if strip > len(name):
                raise NotRead("the index is damaged: a name is shorter than nothing")
            name = name[: len(name) - strip] + reader.until_nul()
        else:
            name = reader.until_nul()
            reader.at = start + (reader.at - 1 - start) // 8 * 8 + 8
        names_left -= len(name)
        if names_left < 0 or len(name) > MAX_NAME_BYTES:
            raise NotRead("the names in the index are beyond the capture limit")
        if flags & _NAME_LENGTH != min(len(name), _NAME_LENGTH):
            raise NotRead("the index is damaged: a name has another length than is said")
        mode = int.from_bytes(status[24:28], "big")
        entries.append(IndexEntry(name, mode, blob, flags, extended))
    return entries


def id_bytes(stored: bytes) -> int:
    """How long ids are, by the checksum at the end: nothing else in the file says it."""
    if hashlib.sha1(stored[:-20]).digest() == stored[-20:]:  # noqa: S324 - git's own checksum
        return 20
    if hashlib.sha256(stored[:-32]).digest() == stored[-32:]:
        return 32
    if len(stored) > 32 and not any(stored[-20:]):  # index.skipHash
        return 20 if any(stored[-32:-20]) else 32
    raise NotRead("the index is damaged: its checksum is wrong")


def _offset(reader: _Reader) -> int:
    byte = reader.number(1)
    value = byte & 0x7F
    while byte & 0x80:
        byte = reader.number(1)
        value = ((value + 1) << 7) | (byte & 0x7F)
        if value > MAX_NAME_BYTES:
            raise NotRead("the index is damaged: a name is longer than allowed")
    return value


def _parts(reader: _Reader) -> list[tuple[bytes, bytes]]:
    parts: list[tuple[bytes, bytes]] = []
    while reader.at < len(reader.stored):
        name = reader.take(4)
        if name[0] not in _OPTIONAL and name not in (b"sdir", b"link"):
            raise NotRead(
                f"the index needs its part {name.decode('ascii', 'backslashreplace')!r}, "
                "which is not read"
            )
        parts.append((name, reader.take(reader.number(4))))
    return parts


def _disorder(entries: Sequence[IndexEntry]) -> list[str]:
    """The disorder that keeps git from finding an entry."""
    for one, other in itertools.pairwise(entries):
        is_merged = one.name == other.name and not one.stage
        if (one.name, one.stage) >= (other.name, other.stage) or is_merged:
            return [f"the index has {shown(other.name)} out of order"]
    return []


def _own_parts(parts: Sequence[tuple[bytes, bytes]]) -> Iterator[str]:
    """The parts that say something of their own: all but those that git derives of the entries."""
    seen: set[bytes] = set()
    for name, part in parts:
        if name in seen or name not in _DERIVED or (name == b"sdir" and part):
            yield own_part(name, part)
        seen.add(name)


def own_part(name: bytes, part: bytes) -> str:
    """That a part of the index says something of its own."""
    return f"the index has a part {shown(name)} of its own, {hashlib.sha256(part).hexdigest()}"
