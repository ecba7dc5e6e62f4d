"""Objects of a repository, read by id and verified against it.

1. A loose object is inflated by us up to a bound, and hashed.
2. Packs are copied into a folder of ours and read there by libgit2. It never sees the repository:
   no alternates, links, pipes or settings of it, and no file that shrinks while it is mapped.
3. Before libgit2 inflates a packed object, the sizes of its whole delta chain are added up from
   the headers, for every place that a pack's index gives for its id.

Whatever an id names is one content or unobserved: a file put in place of an object reads as
damage, and so does an object of which a pack holds something else, for git asks its packs first
and verifies nothing. Alternates and promised objects are never fetched.

What git derives of objects, and looks things up in without verifying it, is read by none of this
and compared with the objects (`git.store`).
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pygit2

from statediff.systems.files.tree import Folder, NotRead, shown

MAX_OBJECT_BYTES: Final = 64 * 1024 * 1024
MAX_CHAIN_BYTES: Final = 512 * 1024 * 1024
MAX_CHAIN_LENGTH: Final = 4096
MAX_WORK_BYTES: Final = 16 * 1024 * 1024 * 1024
"""Bytes inflated in one reading, delta chains included."""
MAX_PACK_BYTES: Final = 512 * 1024 * 1024
"""All packs together."""
MAX_INDEX_BYTES: Final = 64 * 1024 * 1024
"""All indexes of packs together."""
MAX_PACKS: Final = 200
"""Each is one open descriptor."""
_BLOCK_BYTES: Final = 64 * 1024
_TYPES: Final = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_OFFSET_DELTA: Final = 6
_ID_DELTA: Final = 7
IDX: Final = b"\xfftOc\x00\x00\x00\x02"


@dataclass(frozen=True)
class GitObject:
    """A verified object: its type (`commit`, `tree`, `blob`, `tag`) and content."""

    type: str
    content: bytes


@dataclass(frozen=True)
class Pack:
    """A pack copied to `path`, with its index beside it, and every place this gives for an id.

    `name` is that of its file in the repository, without the ending.
    """

    name: bytes
    path: Path
    descriptor: int
    odb: pygit2.Odb
    size: int
    places: dict[bytes, tuple[int, ...]]
    chains: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Sizes already added up: place → (bytes, length) of its chain."""
    faults: dict[int, str] = field(default_factory=dict)
    """Why a chain has no such sum, so that a long one is not walked for each object on it."""

    def checksum(self) -> bytes:
        """The checksum at the pack's end: files that are derived of it name it."""
        return os.pread(self.descriptor, 20, self.size - 20)


class Objects:
    """The objects below a git folder, and in its `objects/INCOMING`. `read` raises `NotRead`."""

    def __init__(self, git: Folder, private: Path, incoming: bytes = b"") -> None:
        self._git = git
        self._private = private
        self._incoming = b"objects/" + incoming if incoming else b""
        self._opened = ExitStack()
        self._folder: Folder | None = None
        self._packs: list[Pack] | None = None
        self._work_left = MAX_WORK_BYTES
        self._failed: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._sound: set[str] = set()
        self._missing: set[str] = set()
        self.causes: list[str] = []
        """Why objects may be missing: packs that could not be read."""

    def close(self) -> None:
        """Nothing of the repository or of the copies is open any more."""
        self._opened.close()

    def read(self, oid: str) -> GitObject:
        """The object whose content hashes to `oid`."""
        if oid in self._failed:
            raise NotRead(self._failed[oid])
        try:
            # In the order in which git looks: what a pack holds counts, not what lies beside it.
            found = self._read_packed(oid)
            if found is None:
                found = self._sound_loose(oid)
        except NotRead as error:
            self._failed[oid] = str(error)
            raise
        self._kinds[oid] = found.type
        return found

    def kind(self, oid: str) -> str:
        """The type of the object that an id names. Raises `NotRead`."""
        return self._kinds.get(oid) or self.read(oid).type

    def is_sound(self, oid: str) -> bool:
        """True if the loose object under an id has it, whatever else does."""
        try:
            return oid in self._sound or self._sound_loose(oid) is not None
        except NotRead:
            return False

    def missing(self) -> list[str]:
        """The objects that were looked for and are nowhere, sorted; none while that is not sure."""
        try:
            return [] if self._why() else sorted(self._missing)
        except NotRead:
            return []

    def is_there(self, oid: str) -> bool:
        """True if anything stands under an id, in a pack or loose."""
        if any(bytes.fromhex(oid) in pack.places for pack in self.packs()):
            return True
        try:
            return self._git.kind(f"objects/{oid[:2]}/{oid[2:]}".encode()) is not None
        except NotRead:
            return False

    def packs(self) -> list[Pack]:
        """The packs that could be copied."""
        if self._packs is None:
            self._packs = self._copy_packs()
        return self._packs

    def weigh(self, pack: Pack) -> None:
        """Raises `NotRead` unless each object of a pack has one place and is within the limits."""
        for raw, places in pack.places.items():
            for place in places:
                _chain_bytes(pack, place, raw.hex())
            if len(places) > 1:
                raise NotRead(f"object {raw.hex()} lies in two places of its pack")

    def _why(self) -> list[str]:
        has_alternates = self._git.kind(b"objects/info/alternates") is not None
        return [*self.causes, *(["alternates are not followed"] if has_alternates else [])]

    def _spend(self, oid: str, size: int) -> None:
        self._work_left -= size
        if self._work_left < 0:
            raise NotRead(f"object {oid} is not read: the limit of this reading is reached")

    def _sound_loose(self, oid: str) -> GitObject:
        found = self._loose(oid)
        if found is None:
            self._missing.add(oid)
            raise NotRead("; ".join([f"object {oid} is missing", *self._why()]))
        _verify(found, oid)
        self._sound.add(oid)
        return found

    def _loose(self, oid: str) -> GitObject | None:
        if self._folder is None:
            self._folder = self._opened.enter_context(self._git.folder(b"objects"))
        path = f"/{oid[:2]}/{oid[2:]}".encode()
        stored = self._folder.read(path[1:], MAX_OBJECT_BYTES)
        if stored is None and self._incoming:
            stored = self._git.read(self._incoming + path, MAX_OBJECT_BYTES)
        if stored is None:
            return None
        self._spend(oid, len(stored))
        inflater = zlib.decompressobj()
        try:
            start = inflater.decompress(stored, 64)
            header, mark, rest = start.partition(b"\0")
            kind, _, digits = header.partition(b" ")
            if not mark or kind.decode("ascii", "replace") not in _TYPES.values():
                raise NotRead(f"object {oid} is damaged: it has no header")
            is_number = digits.isdigit() and (digits == b"0" or not digits.startswith(b"0"))
            size = int(digits) if is_number else -1
            _check_size(oid, size)
            self._spend(oid, size)
            content = rest + inflater.decompress(inflater.unconsumed_tail, size + 1)
            content += inflater.decompress(inflater.unconsumed_tail, 1)
        except zlib.error as error:
            raise NotRead(f"object {oid} is damaged: {error}") from error
        if len(content) != size:
            raise NotRead(f"object {oid} is damaged: its size is not the one it states")
        if not inflater.eof or inflater.unused_data:
            raise NotRead(f"object {oid} is damaged: it does not end where it should")
        return GitObject(kind.decode(), content)

    def _read_packed(self, oid: str) -> GitObject | None:
        """The object in the packs under the id, the same in each, for git may ask any of them."""
        packs, raw = self.packs(), bytes.fromhex(oid)
        if self.causes:
            raise NotRead(f"object {oid} may be another one in a pack: {'; '.join(self.causes)}")
        found: GitObject | None = None
        for pack in packs:
            places = pack.places.get(raw, ())
            if len(places) > 1:
                raise NotRead(f"object {oid} is damaged in its pack: it lies in two places")
            for place in places:
                self._spend(oid, _chain_bytes(pack, place, oid))
                found = _verify(_read_stored(pack, oid), oid)
        return found

    def _copy_packs(self) -> list[Pack]:
        """The packs, copied; those that cannot be read are in `causes`."""
        packs: list[Pack] = []
        pack_left, index_left = MAX_PACK_BYTES, MAX_INDEX_BYTES
        for place in dict.fromkeys((b"objects/pack", (self._incoming or b"objects") + b"/pack")):
            try:
                if self._git.kind(place) is None:
                    continue
                with self._git.folder(place) as folder:
                    for name in folder.names():
                        if not name.endswith(b".idx") or folder.kind(name[:-4] + b".pack") is None:
                            continue
                        if len(packs) == MAX_PACKS:
                            raise NotRead(f"there are more than {MAX_PACKS} packs")
                        own = self._private / str(len(packs)) / "pack" / f"pack-{0:040x}.pack"
                        try:
                            own.parent.mkdir(parents=True, exist_ok=True)
                            pack = _copy(folder, name, own, (pack_left, index_left))
                        except NotRead as error:
                            self.causes.append(str(error))
                            continue
                        self._opened.callback(os.close, pack.descriptor)
                        pack_left -= pack.size
                        index_left -= own.with_suffix(".idx").stat().st_size
                        packs.append(pack)
            except NotRead as error:
                self.causes.append(str(error))
        return packs


def _verify(found: GitObject, oid: str) -> GitObject:
    header = f"{found.type} {len(found.content)}\0".encode()
    hasher = hashlib.sha1 if len(oid) == 40 else hashlib.sha256
    if hasher(header + found.content).hexdigest() != oid:
        raise NotRead(f"object {oid} is damaged: its content has another id")
    return found


def _read_stored(pack: Pack, oid: str) -> GitObject:
    """The object that libgit2 reads from the pack; the sizes were added up before."""
    try:
        _check_size(oid, pack.odb.read_header(oid)[1])
        kind, content = pack.odb.read(oid)
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise NotRead(f"object {oid} is damaged in its pack") from error
    return GitObject(_TYPES.get(kind, ""), content)


def _check_size(oid: str, size: int) -> None:
    if not 0 <= size <= MAX_OBJECT_BYTES:
        raise NotRead(f"object {oid} states a size of {size} bytes, beyond the capture limit")


def _copy(folder: Folder, index: bytes, own: Path, limits: tuple[int, int]) -> Pack:
    """The pack and its index, copied to `own`; `limits` are the most bytes of either."""
    stored = folder.read(index, limits[1])
    if stored is None:
        raise NotRead(f"{shown(index)} is not there")
    places = _places(stored, index)
    try:
        size = folder.copy(index[:-4] + b".pack", own, limits[0])
        own.with_suffix(".idx").write_bytes(stored)
        odb = pygit2.Odb(str(own.parent.parent))
        descriptor = os.open(own, os.O_RDONLY | os.O_CLOEXEC)
        return Pack(index[:-4], own, descriptor, odb, size, places)
    except (NotRead, OSError, pygit2.GitError) as error:
        own.unlink(missing_ok=True)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotRead(f"{shown(index)}: its pack is not read: {reason}") from error


def _places(stored: bytes, name: bytes) -> dict[bytes, tuple[int, ...]]:
    """Every place the index gives for each id; it need not be sorted or free of repeats."""
    if not stored.startswith(IDX) or len(stored) < 1072:
        raise NotRead(f"pack index {shown(name)} is not one that is read (version 2, SHA-1)")
    count = int.from_bytes(stored[1028:1032], "big")
    ids_end = 1032 + 20 * count
    offsets_at = ids_end + 4 * count
    large_at = offsets_at + 4 * count
    if len(stored) < large_at + 40 or (len(stored) - large_at - 40) % 8:
        raise NotRead(f"pack index {shown(name)} is damaged")
    offsets = struct.unpack_from(f">{count}I", stored, offsets_at)
    large_count = (len(stored) - large_at - 40) // 8
    large = struct.unpack_from(f">{large_count}Q", stored, large_at)
    places: dict[bytes, tuple[int, ...]] = {}
    for number, offset in enumerate(offsets):
        place = offset
        if offset >> 31:
            if offset & 0x7FFFFFFF >= large_count:
                raise NotRead(f"pack index {shown(name)} is damaged")
            place = large[offset & 0x7FFFFFFF]
        oid = stored[1032 + 20 * number : 1052 + 20 * number]
        places[oid] = (*places.get(oid, ()), place)
    return places


def _chain_bytes(pack: Pack, place: int, oid: str) -> int:
    """Bytes that reading the entry at `place` inflates, its bases included, if not too many."""
    pending: list[tuple[int, int]] = []
    try:
        total, length = _rest_of_chain(pack, place, oid, pending)
        for position, size in reversed(pending):
            total, length = total + size, length + 1
            if total > MAX_CHAIN_BYTES or length > MAX_CHAIN_LENGTH:
                raise NotRead(f"object {oid} needs more than the capture limit to be put together")
            pack.chains[position] = (total, length)
    except NotRead as error:
        pack.faults.update((at, str(error)) for at, _ in pending if at not in pack.chains)
        raise
    return total


def _rest_of_chain(
    pack: Pack, place: int, oid: str, pending: list[tuple[int, int]]
) -> tuple[int, int]:
    """The sum already known where the chain goes on, with the entries before that in `pending`."""
    waiting: set[int] = set()
    while True:
        if place in pack.faults:
            raise NotRead(pack.faults[place])
        if place in pack.chains:
            return pack.chains[place]
        size, bases = _entry(pack, place, oid)
        pending.append((place, size))
        waiting.add(place)
        if bases is None:
            return 0, 0
        if len(bases) != 1 or bases[0] in waiting or len(pending) > MAX_CHAIN_LENGTH:
            raise NotRead(f"object {oid} is damaged in its pack: its delta chain has no end")
        (place,) = bases


def _entry(pack: Pack, place: int, oid: str) -> tuple[int, tuple[int, ...] | None]:
    """The sizes an entry of a pack states, and the places its base may have (None: no delta)."""
    if not 0 < place < pack.size:
        raise NotRead(f"object {oid} is damaged in its pack: it lies outside")
    stored = os.pread(pack.descriptor, 4096, place)
    try:
        kind, size, at = _entry_header(stored)
        _check_size(oid, size)
        if kind == _OFFSET_DELTA:
            back, at = _offset(stored, at)
            bases: tuple[int, ...] = (place - back,)
        elif kind == _ID_DELTA:
            bases = pack.places.get(stored[at : at + 20], ())
            at += 20
        else:
            return size, None
        start = zlib.decompressobj().decompress(stored[at:], 32)
        _, used = _size(start, 0)
        result, _ = _size(start, used)
    except (IndexError, zlib.error) as error:
        raise NotRead(f"object {oid} is damaged in its pack") from error
    _check_size(oid, result)
    return size + result, bases


def _entry_header(stored: bytes | memoryview) -> tuple[int, int, int]:
    byte = stored[0]
    kind, size, shift, at = (byte >> 4) & 7, byte & 15, 4, 1
    while byte & 0x80:
        byte = stored[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return kind, size, at


def _offset(stored: bytes | memoryview, at: int) -> tuple[int, int]:
    byte = stored[at]
    back = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = stored[at]
        back = ((back + 1) << 7) | (byte & 0x7F)
    return back, at + 1


def _size(stored: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = stored[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if not byte & 0x80:
            return size, at
