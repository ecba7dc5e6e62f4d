"""The index of a work tree, read as strictly as git reads it: entries, and every part behind them.

Git keeps beside the entries what it would otherwise work out again, and believes it: the trees that
a commit would make (`TREE`), where entries lie for several threads (`EOIE`, `IEOT`), which files
are untracked (`UNTR`). A part that says just what the entries and the work tree say is left out.
Any other is odd, by its digest: the next commit may hold what no entry names. The order of entries
is odd where git would not find them.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from statediff.model.batches import Row
from statediff.systems.files.tree import NotRead, shown, text_or_bytes
from statediff_git.ewah import read_ewah

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
_FOLDER: Final = 0o040000
_OPTIONAL: Final = range(ord("A"), ord("Z") + 1)
_CACHED: Final = re.compile(rb"([^\0]*)\0(-?[0-9]{1,9}) ([0-9]{1,9})\n", re.DOTALL)


@dataclass(frozen=True)
class IndexEntry:
    """One entry: `start` is where it begins in the file; flags as they are stored.

    `shared` is how many bytes of its name are those of the entry before it (version 4).
    """

    name: bytes
    mode: int
    blob: bytes
    flags: int
    extended: int
    start: int
    shared: int = 0

    @property
    def stage(self) -> int:
        return self.flags >> 12 & 3

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
    """What an index holds. `parts` are what stands behind the entries, by name, in their order."""

    entries: tuple[IndexEntry, ...]
    parts: tuple[tuple[bytes, bytes], ...] = ()
    oddities: tuple[str, ...] = ()


Look = Callable[[bytes], bytes | None]
"""The content of a file of the git folder by its name."""


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


def parse_index(stored: bytes, look: Look) -> Index:
    """What an index file says. `NotRead` where any of it is not understood.

    `look` finds the file that a split index shares.
    """
    width = _id_bytes(stored)
    reader = _Reader(stored[:-width], 0)
    if reader.take(4) != b"DIRC":
        raise NotRead("the index is damaged: it does not begin like one")
    version, count = reader.number(4), reader.number(4)
    if version not in (2, 3, 4):
        raise NotRead(f"the index has version {version}; 2 to 4 are read")
    entries = _entries(reader, version, count, width)
    end = reader.at
    parts = _parts(reader)
    link = next((part for name, part in parts if name == b"link"), None)
    whole = entries if link is None else _joined(entries, link, width, look)
    odd = [*_disorder(whole), *_odd_parts(whole, entries, parts, end)]
    return Index(tuple(whole), tuple(parts), tuple(odd))


def _entries(reader: _Reader, version: int, count: int, width: int) -> list[IndexEntry]:
    entries: list[IndexEntry] = []
    name = b""
    names_left = MAX_NAMES_BYTES
    for _ in range(count):
        start, shared = reader.at, 0
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
            shared = len(name) - strip
            name = name[:shared] + reader.until_nul()
        else:
            name = reader.until_nul()
            reader.at = start + (reader.at - 1 - start) // 8 * 8 + 8
        names_left -= len(name)
        if names_left < 0 or len(name) > MAX_NAME_BYTES:
            raise NotRead("the names in the index are beyond the capture limit")
        if flags & _NAME_LENGTH != min(len(name), _NAME_LENGTH):
            raise NotRead("the index is damaged: a name has another length than is said")
        mode = int.from_bytes(status[24:28], "big")
        entries.append(IndexEntry(name, mode, blob, flags, extended, start, shared))
    return entries


def _id_bytes(stored: bytes) -> int:
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


def _joined(own: list[IndexEntry], link: bytes, width: int, look: Look) -> list[IndexEntry]:
    """The entries of a split index: those that it shares, less the deleted, with its own."""
    name = b"sharedindex." + link[:width].hex().encode()
    shared = look(name) if any(link[:width]) else None
    if shared is None:
        raise NotRead(f"{shown(name)}, which the index needs, is not there")
    if shared[-width:] != link[:width] or _id_bytes(shared) != width:
        raise NotRead(f"{shown(name)} is not the one that the index needs")
    base = list(parse_index(shared, _look_nowhere).entries)
    deleted = replaced = 0
    if len(link) > width:
        deleted, at = read_ewah(link, width, len(base))
        replaced, at = read_ewah(link, at, len(base))
        if at != len(link):
            raise NotRead("the index is damaged: its list of changes has no end")
    changed = [n for n in range(len(base)) if replaced >> n & 1]
    if any(entry.name for entry in own[: len(changed)]) or len(changed) > len(own):
        raise NotRead("the index is damaged: it replaces other entries than it says")
    for number, entry in zip(changed, own, strict=False):
        base[number] = IndexEntry(
            base[number].name, entry.mode, entry.blob, entry.flags, entry.extended, entry.start
        )
    kept = [entry for number, entry in enumerate(base) if not deleted >> number & 1]
    added = own[len(changed) :]
    if any(not entry.name for entry in added):
        raise NotRead("the index is damaged: an entry has no name")
    names = {(entry.name, entry.stage) for entry in added}
    kept = [entry for entry in kept if (entry.name, entry.stage) not in names]
    return sorted([*kept, *added], key=lambda entry: (entry.name, entry.stage))


def _look_nowhere(name: bytes) -> bytes | None:
    raise NotRead(f"{shown(name)} is needed by an index that is shared itself")


def _disorder(entries: Sequence[IndexEntry]) -> list[str]:
    """What keeps git from finding an entry."""
    for one, other in itertools.pairwise(entries):
        is_merged = one.name == other.name and not one.stage
        if (one.name, one.stage) >= (other.name, other.stage) or is_merged:
            return [f"the index has {shown(other.name)} out of order"]
    return []


def _odd_parts(
    whole: Sequence[IndexEntry],
    own: Sequence[IndexEntry],
    parts: Sequence[tuple[bytes, bytes]],
    end: int,
) -> list[str]:
    """The parts that say something of their own, or otherwise than the entries."""
    found: list[str] = []
    seen: set[bytes] = set()
    for number, (name, part) in enumerate(parts):
        match name:
            case b"TREE":
                is_derived = _is_cache_of(part, whole)
            case b"EOIE":
                before = b"".join(n + struct.pack(">I", len(p)) for n, p in parts[:number])
                is_derived = part == struct.pack(">I", end) + _digest(before, len(part) - 4)
            case b"IEOT":
                is_derived = _are_blocks_of(part, own)
            case b"sdir":
                is_derived = not part
            case b"link" | b"UNTR" | b"FSMN":  # looked at elsewhere
                is_derived = True
            case _:
                is_derived = False
        if not is_derived or name in seen:
            found.append(own_part(name, part))
        seen.add(name)
    return found


def own_part(name: bytes, part: bytes) -> str:
    """That a part of the index says something of its own."""
    return f"the index has a part {shown(name)} of its own, {hashlib.sha256(part).hexdigest()}"


def _are_blocks_of(part: bytes, entries: Sequence[IndexEntry]) -> bool:
    """Whether the blocks of entries are where they are said to be, and are all."""
    if len(part) % 8 != 4 or part[:4] != b"\0\0\0\1":
        return False
    number = 0
    for start, count in struct.iter_unpack(">II", part[4:]):
        if not count or number >= len(entries):
            return False
        if entries[number].start != start or entries[number].shared:
            return False
        number += count
    return number == len(entries)


def _is_cache_of(part: bytes, entries: Sequence[IndexEntry]) -> bool:
    """Whether each tree of the cache is the one that a commit of the entries would make."""
    width = len(entries[0].blob) if entries else 20
    made: dict[bytes, tuple[bytes, int]] | None = None
    pending: list[tuple[bytes, int]] = []
    at = 0
    is_first = True
    while is_first or pending:
        match = _CACHED.match(part, at)
        if match is None:
            return False
        name, count, below = match[1], int(match[2]), int(match[3])
        if bool(name) is is_first or b"/" in name:
            return False
        above = pending.pop() if pending else (b"", 0)
        if above[1] > 1:
            pending.append((above[0], above[1] - 1))
        path = b"" if is_first else above[0] + name + b"/"
        is_first = False
        at = match.end()
        if count >= 0:
            made = _trees(entries) if made is None else made
            if made.get(path) != (part[at : at + width], count):
                return False
            at += width
        if below:
            pending.append((path, below))
    return at == len(part)


@dataclass
class _Tree:
    """A folder whose entries come one after the other."""

    path: bytes
    content: bytearray = field(default_factory=bytearray)
    count: int = 0
    is_sound: bool = True


def _trees(entries: Sequence[IndexEntry]) -> dict[bytes, tuple[bytes, int]]:
    """Each folder, with a slash at its end, → the id of its tree and how many entries it has.

    A folder with an entry that no tree can hold yet is not there.
    """
    found: dict[bytes, tuple[bytes, int]] = {}
    inside = [_Tree(b"")]
    width = len(entries[0].blob) if entries else 20
    for entry in entries:
        while not entry.name.startswith(inside[-1].path):
            _close(inside, found, width)
        *above, last = entry.name[len(inside[-1].path) :].split(b"/")
        if entry.mode == _FOLDER and not last and above:  # all of a folder in one entry
            last = above.pop()
            found[entry.name] = (entry.blob, 1)
        for part in above:
            inside.append(_Tree(inside[-1].path + part + b"/"))
        tree = inside[-1]
        tree.content += b"%o %s\0%s" % (entry.mode, last, entry.blob)
        tree.count += 1
        tree.is_sound &= not entry.stage and not entry.extended & _INTENT_TO_ADD
    while inside:
        _close(inside, found, width)
    return found


def _close(inside: list[_Tree], found: dict[bytes, tuple[bytes, int]], width: int) -> None:
    """The innermost folder has all its entries: its tree is one of the folder around it."""
    tree = inside.pop()
    oid = _digest(b"tree %d\0" % len(tree.content) + tree.content, width)
    if tree.is_sound:
        found[tree.path] = (oid, tree.count)
    if inside:
        above = inside[-1]
        above.content += b"40000 %s\0%s" % (tree.path[len(above.path) : -1], oid)
        above.count += tree.count
        above.is_sound &= tree.is_sound


def _digest(stored: bytes, width: int) -> bytes:
    """As git sums up, with ids of so many bytes."""
    hasher = hashlib.sha256 if width == 32 else hashlib.sha1
    return hasher(stored).digest()
