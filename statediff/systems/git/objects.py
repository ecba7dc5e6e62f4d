"""Objects of a repository, read by id and verified against it.

1. A loose object is inflated by us up to a bound, and hashed.
2. Packs are copied into a folder of ours and read there by libgit2. It never sees the repository:
   no alternates, links, pipes or settings of it, and no file that shrinks while it is mapped.
3. Before libgit2 inflates a packed object, the sizes of its whole delta chain are added up from
   the headers, for every place that a pack's index gives for its id.

Whatever an id names is one content or unobserved: a file put in place of an object reads as
damage, and so does an object of which a pack holds something else, for git asks its packs first
and verifies nothing. Alternates and promised objects are never fetched.

git looks things up in caches that somebody may forge: it believes the commit graph about a commit's
tree and parents, and the index of several packs about where an object lies, and verifies neither.
Whoever may write a repository's files may so have git show another history, or another content
under an id, than the objects say. So what these files say is compared with what they were made of
(`is_another_history`, `check_packs`).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pygit2

from statediff.model.batches import Row
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
_TYPES: Final = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_OFFSET_DELTA: Final = 6
_ID_DELTA: Final = 7
_ALL_PACKS: Final = b"multi-pack-index"
_IDX: Final = b"\xfftOc\x00\x00\x00\x02"


@dataclass(frozen=True)
class GitObject:
    """A verified object: its type (`commit`, `tree`, `blob`, `tag`) and content."""

    type: str
    content: bytes


@dataclass(frozen=True)
class _Pack:
    """A pack copied into our folder, and every place its index gives for an id."""

    descriptor: int
    odb: pygit2.Odb
    size: int
    places: dict[bytes, tuple[int, ...]]
    chains: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Sizes already added up: place → (bytes, length) of its chain."""
    faults: dict[int, str] = field(default_factory=dict)
    """Why a chain has no such sum, so that a long one is not walked for each object on it."""


class Objects:
    """The objects below a git folder. `read` raises `NotRead` with the cause."""

    def __init__(self, git: Folder, private: Path) -> None:
        self._git = git
        self._private = private
        self._opened = ExitStack()
        self._folder: Folder | None = None
        self._packs: list[_Pack] | None = None
        self._work_left = MAX_WORK_BYTES
        self._failed: dict[str, str] = {}
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
            found = self._read_packed(oid) or self._loose(oid)
            if found is None:
                raise NotRead("; ".join([f"object {oid} is missing", *self._why()]))
            return _verify(found, oid)
        except NotRead as error:
            self._failed[oid] = str(error)
            raise

    def _why(self) -> list[str]:
        has_alternates = self._git.kind(b"objects/info/alternates") is not None
        return [*self.causes, *(["alternates are not followed"] if has_alternates else [])]

    def _spend(self, oid: str, size: int) -> None:
        self._work_left -= size
        if self._work_left < 0:
            raise NotRead(f"object {oid} is not read: the limit of this reading is reached")

    def _loose(self, oid: str) -> GitObject | None:
        if self._folder is None:
            self._folder = self._opened.enter_context(self._git.folder(b"objects"))
        stored = self._folder.read(f"{oid[:2]}/{oid[2:]}".encode(), MAX_OBJECT_BYTES)
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
            size = int(digits) if digits.isdigit() else -1
            _check_size(oid, size)
            self._spend(oid, size)
            content = rest + inflater.decompress(inflater.unconsumed_tail, size + 1)
        except zlib.error as error:
            raise NotRead(f"object {oid} is damaged: {error}") from error
        if len(content) != size:
            raise NotRead(f"object {oid} is damaged: its size is not the one it states")
        return GitObject(kind.decode(), content)

    def _read_packed(self, oid: str) -> GitObject | None:
        """What the packs hold under the id, each of them the same, for git may ask any of them."""
        if self._packs is None:
            self._packs = self._copy_packs()
        raw = bytes.fromhex(oid)
        if self.causes:
            raise NotRead(f"object {oid} may be another one in a pack: {'; '.join(self.causes)}")
        found: GitObject | None = None
        for pack in self._packs:
            places = pack.places.get(raw, ())
            if len(places) > 1:
                raise NotRead(f"object {oid} is damaged in its pack: it lies in two places")
            for place in places:
                self._spend(oid, _chain_bytes(pack, place, oid))
                found = _verify(_read_stored(pack, oid), oid)
        return found

    def _copy_packs(self) -> list[_Pack]:
        """The packs, copied; those that cannot be read are in `causes`."""
        packs: list[_Pack] = []
        pack_left, index_left = MAX_PACK_BYTES, MAX_INDEX_BYTES
        places: dict[bytes, dict[bytes, tuple[int, ...]]] = {}
        try:
            if self._git.kind(b"objects/pack") is None:
                return packs
            with self._git.folder(b"objects/pack") as folder:
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
                    places[name] = pack.places
                if (listed := folder.read(_ALL_PACKS, MAX_INDEX_BYTES)) is not None:
                    check_packs(listed, places)
                if folder.kind(_ALL_PACKS + b".d") is not None:
                    raise NotRead("the index of all packs is one of several, which are not read")
        except NotRead as error:
            self.causes.append(str(error))
        return packs


def _verify(found: GitObject, oid: str) -> GitObject:
    header = f"{found.type} {len(found.content)}\0".encode()
    hasher = hashlib.sha1 if len(oid) == 40 else hashlib.sha256
    if hasher(header + found.content).hexdigest() != oid:
        raise NotRead(f"object {oid} is damaged: its content has another id")
    return found


def _read_stored(pack: _Pack, oid: str) -> GitObject:
    """What libgit2 reads from the pack; the sizes were added up before."""
    try:
        _check_size(oid, pack.odb.read_header(oid)[1])
        kind, content = pack.odb.read(oid)
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise NotRead(f"object {oid} is damaged in its pack") from error
    return GitObject(_TYPES.get(kind, ""), content)


def _check_size(oid: str, size: int) -> None:
    if not 0 <= size <= MAX_OBJECT_BYTES:
        raise NotRead(f"object {oid} states a size of {size} bytes, beyond the capture limit")


def _copy(folder: Folder, index: bytes, own: Path, limits: tuple[int, int]) -> _Pack:
    """The pack and its index, copied to `own`; `limits` are the most bytes of either."""
    stored = folder.read(index, limits[1])
    if stored is None:
        raise NotRead(f"{shown(index)} is not there")
    places = _places(stored, index)
    try:
        size = folder.copy(index[:-4] + b".pack", own, limits[0])
        own.with_suffix(".idx").write_bytes(stored)
        odb = pygit2.Odb(str(own.parent.parent))
        return _Pack(os.open(own, os.O_RDONLY | os.O_CLOEXEC), odb, size, places)
    except (NotRead, OSError, pygit2.GitError) as error:
        own.unlink(missing_ok=True)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotRead(f"{shown(index)}: its pack is not read: {reason}") from error


def _places(stored: bytes, name: bytes) -> dict[bytes, tuple[int, ...]]:
    """Every place the index gives for each id; it need not be sorted or free of repeats."""
    if not stored.startswith(_IDX) or len(stored) < 1072:
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


def _chain_bytes(pack: _Pack, place: int, oid: str) -> int:
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
    pack: _Pack, place: int, oid: str, pending: list[tuple[int, int]]
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


def _entry(pack: _Pack, place: int, oid: str) -> tuple[int, tuple[int, ...] | None]:
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


def _entry_header(stored: bytes) -> tuple[int, int, int]:
    byte = stored[0]
    kind, size, shift, at = (byte >> 4) & 7, byte & 15, 4, 1
    while byte & 0x80:
        byte = stored[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return kind, size, at


def _offset(stored: bytes, at: int) -> tuple[int, int]:
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


MAX_GRAPH_BYTES: Final = 64 * 1024 * 1024
_ID: Final = 20
_NO_PARENT: Final = 0x70000000
_LAST: Final = 0x80000000
_GRAPHS: Final = b"objects/info/commit-graphs"

Graph = dict[str, tuple[str, tuple[str, ...]]]
"""Id of a commit → the ids of its tree and of its parents."""


def read_graph(git: Folder) -> Graph:
    """What the commit graphs of a repository say. Raises `NotRead`."""
    found: Graph = {}
    single = git.read(b"objects/info/commit-graph", MAX_GRAPH_BYTES)
    if single is not None:
        _add(found, [], single)
    if git.kind(_GRAPHS) is None:
        return found
    chain = git.read(_GRAPHS + b"/commit-graph-chain", MAX_GRAPH_BYTES)
    ids: list[str] = []
    left = MAX_GRAPH_BYTES
    for line in (chain or b"").split():
        stored = git.read(_GRAPHS + b"/graph-" + line + b".graph", left)
        if stored is None:
            raise NotRead(f"the commit graph {shown(line)} is not there")
        left -= len(stored)
        _add(found, ids, stored)
    return found


def is_another_history(git: Folder, commits: Iterable[Row]) -> bool:
    """Whether a commit graph says otherwise of a commit than the commit. Raises `NotRead`."""
    graph = read_graph(git)
    return bool(graph) and any(
        graph.get(str(row["id"]), said) != said
        for row in commits
        for said in [(row["tree"], row["parents"])]
    )


def _add(found: Graph, below: list[str], stored: bytes) -> None:
    """The commits of one file, whose numbers follow those of the files below it."""
    chunks = _chunks(stored, b"CGPH", 8, "a commit graph")
    listed, commits = chunks.get(b"OIDL", b""), chunks.get(b"CDAT", b"")
    edges = chunks.get(b"EDGE", b"")
    count = len(listed) // _ID
    if count * 36 != len(commits):
        raise NotRead("a commit graph is damaged")
    below.extend(listed[at : at + _ID].hex() for at in range(0, len(listed), _ID))
    try:
        for number in range(count):
            tree, one, two = struct.unpack_from(">20sII", commits, 36 * number)
            numbers = [one]
            if two & _LAST:
                at = two & ~_LAST
                while True:
                    (edge,) = struct.unpack_from(">I", edges, 4 * at)
                    numbers.append(edge & ~_LAST)
                    if edge & _LAST:
                        break
                    at += 1
            else:
                numbers.append(two)
            parents = tuple(below[n] for n in numbers if n != _NO_PARENT)
            said = tree.hex(), parents
            if found.setdefault(below[number - count], said) != said:
                raise NotRead("two commit graphs say different things of a commit")
    except (struct.error, IndexError) as error:
        raise NotRead("a commit graph is damaged") from error


def check_packs(stored: bytes, places: Mapping[bytes, Mapping[bytes, tuple[int, ...]]]) -> None:
    """Raises `NotRead` where the index of several packs says otherwise than those of the packs.

    `places` maps the name of each pack's index to the places it gives for each id.
    """
    chunks = _chunks(stored, b"MIDX", 12, "the index of all packs")
    names = chunks.get(b"PNAM", b"").rstrip(b"\0").split(b"\0")
    listed, offsets = chunks.get(b"OIDL", b""), chunks.get(b"OOFF", b"")
    large = chunks.get(b"LOFF", b"")
    if len(listed) // _ID * 8 != len(offsets):
        raise NotRead("the index of all packs is damaged")
    try:
        for at in range(len(listed) // _ID):
            oid = listed[_ID * at : _ID * (at + 1)]
            pack, place = struct.unpack_from(">II", offsets, 8 * at)
            if place & _LAST and large:
                (place,) = struct.unpack_from(">Q", large, 8 * (place & ~_LAST))
            if place not in places.get(names[pack], {}).get(oid, ()):
                raise NotRead(
                    f"the index of all packs gives another place for {oid.hex()} than its pack's"
                )
    except (struct.error, IndexError) as error:
        raise NotRead("the index of all packs is damaged") from error


def _chunks(stored: bytes, magic: bytes, head: int, what: str) -> dict[bytes, bytes]:
    """The parts of a file of chunks, each with its whole bytes (gitformat-chunk)."""
    if stored[:6] != magic + b"\x01\x01" or len(stored) < head:
        raise NotRead(f"{what} is not one that is read (version 1, SHA-1)")
    count = stored[6]
    found: dict[bytes, bytes] = {}
    try:
        table = [struct.unpack_from(">4sQ", stored, head + 12 * n) for n in range(count + 1)]
    except struct.error as error:
        raise NotRead(f"{what} is damaged") from error
    for (name, start), (_, end) in itertools.pairwise(table):
        if name in found or not head <= start <= end <= len(stored):
            raise NotRead(f"{what} is damaged")
        found[name] = stored[start:end]
    if len(found.get(b"OIDL", b"")) % _ID or len(found.get(b"OIDF", b"")) != 1024:
        raise NotRead(f"{what} is damaged")
    if int.from_bytes(found[b"OIDF"][-4:], "big") * _ID != len(found.get(b"OIDL", b"")):
        raise NotRead(f"{what} is damaged")
    return found
