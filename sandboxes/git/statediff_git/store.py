"""The object store file by file: which files say no more than the objects in them.

An object under its own id is storage. So is what git derives of objects, where git, asked in a
clean copy, makes the same bytes again (the index of a pack, the order of its entries, commit
graphs) or gives the same answers without it (bitmaps). The index of all packs is compared with the
indexes of these. Any other file below `objects` is state, by its digest: git may obey it
(`alternates`, `.keep`), believe it, or die of it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import resource
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from statediff.systems.files.tree import Entry, EntryKind, Folder, NotRead
from statediff_git.clean import MAX_SECONDS, Clean
from statediff_git.objects import MAX_OBJECT_BYTES, Objects, Pack

MAX_CACHE_BYTES: Final = 64 * 1024 * 1024
_ID: Final = 20
_PACKS: Final = b"pack"
_ALL_PACKS: Final = b"pack/multi-pack-index"
_LIST: Final = b"info/packs"
_PACK_LIST: Final = re.compile(rb"(?:P pack-[0-9a-f]{40,64}\.pack\n)*\n?")
"""For clients without a server; git leaves it out of date when it repacks behind a list of all."""
_LOOSE: Final = re.compile(rb"[0-9a-f]{2}")
_REST: Final = re.compile(rb"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_TEMPORARY: Final = (b"tmp_", b".tmp-")
_LAST: Final = 0x80000000
_ALL_PARTS: Final = frozenset({b"PNAM", b"OIDF", b"OIDL", b"OOFF", b"LOFF", b"RIDX"})
_GRAPH: Final = b"info/commit-graph"
_GRAPHS: Final = b"info/commit-graphs"
_CHAIN: Final = _GRAPHS + b"/commit-graph-chain"


@dataclass(frozen=True)
class Store:
    """Entries below the git folder that are state, and why there may be others."""

    entries: tuple[Entry, ...] = ()
    causes: tuple[str, ...] = ()


def read_store(
    git: Folder, objects: Objects, private: Path, incoming: bytes, *, is_partial: bool
) -> Store:
    """The files below `objects`, but of `incoming`, that say something of their own.

    `is_partial`: the settings promise objects, and a pack may say of itself that it is of those.
    """
    try:
        if git.kind(b"objects") is not EntryKind.DIRECTORY:
            return Store()
        with git.folder(b"objects") as folder:
            sound = _Sound(folder, objects, Clean(private / "clean")).files()
            if is_partial:
                sound |= {
                    _PACKS + b"/" + name
                    for name in _names(folder, _PACKS)
                    if name.endswith(b".promisor")
                }
            if _PACK_LIST.fullmatch(_content(folder, _LIST) or b""):
                sound.add(_LIST)
            tree = folder.tree(leave_out=frozenset((*_regular(folder, sound), incoming)))
    except NotRead as error:
        return Store((), (str(error),))
    entries = (
        replace(entry, path=b"objects/" + entry.path)
        for entry in tree.entries
        if entry.kind is not EntryKind.DIRECTORY and not _is_too_large(entry)
    )
    return Store(tuple(entries), tree.causes)


def _is_too_large(entry: Entry) -> bool:
    """A pack beyond the limits: that its objects are unobserved is said where they are read."""
    return entry.cause is not None and entry.path.endswith((b".pack", b".idx"))


def _regular(folder: Folder, paths: set[bytes]) -> set[bytes]:
    return {path for path in paths if folder.kind(path) is EntryKind.FILE}


def _names(folder: Folder, path: bytes) -> list[bytes]:
    """The names in a folder below; none where it is not there, or is no folder."""
    try:
        with folder.folder(path) as below:
            return below.names()
    except NotRead:
        return []


def _content(folder: Folder, path: bytes) -> bytes | None:
    """The bytes of a file below; None where it is not there, is no file or is too large."""
    try:
        return folder.read(path, MAX_CACHE_BYTES)
    except NotRead:
        return None


@dataclass
class _Sound:
    """The files of a folder of objects that say no more than the objects."""

    folder: Folder
    objects: Objects
    clean: Clean
    _seconds_left: float = MAX_SECONDS
    _reached: dict[str, list[bytes] | None] = field(default_factory=dict)

    def files(self) -> set[bytes]:
        packs = self._of_packs()
        return {*self._loose, *packs, *self._of_all_packs(), *self._graphs()}

    @cached_property
    def _loose(self) -> set[bytes]:
        """The loose objects whose content has their id, and what a killed git left of others."""
        sound: set[bytes] = set()
        for fan in self.folder.names():
            if not _LOOSE.fullmatch(fan) or self.folder.kind(fan) is not EntryKind.DIRECTORY:
                continue
            for rest in _names(self.folder, fan):
                is_object = _REST.fullmatch(rest) and self.objects.is_sound((fan + rest).decode())
                if is_object or rest.startswith(_TEMPORARY):
                    sound.add(fan + b"/" + rest)
        return sound

    @cached_property
    def _packs(self) -> dict[bytes, Pack]:
        return {pack.name: pack for pack in self.objects.packs() if self._is_index_of(pack)}

    def _made(self, pack: Pack, ending: str) -> Path:
        return self.clean.place / f"made-{pack.path.parent.parent.name}.{ending}"

    def _is_index_of(self, pack: Pack) -> bool:
        """True if git reads the pack to its end and makes the same index of it."""
        try:
            self.objects.weigh(pack)
        except NotRead:
            return False
        made = self._made(pack, "idx")
        asked = ("index-pack", "--threads=1", "--rev-index", "-o", str(made), str(pack.path))
        is_read = self.clean.ask(*asked) is not None
        return is_read and made.read_bytes() == pack.path.with_suffix(".idx").read_bytes()

    def _of_packs(self) -> set[bytes]:
        """The files of sound packs that say no more than these."""
        sound: set[bytes] = set()
        for name in _names(self.folder, _PACKS):
            stem, _, ending = name.partition(b".")
            pack, path = self._packs.get(stem), _PACKS + b"/" + name
            is_own = pack is not None and (
                ending in (b"pack", b"idx") or self._is_derived(path, ending, pack)
            )
            if is_own or name.startswith(_TEMPORARY):
                sound.add(path)
        return sound

    def _is_derived(self, path: bytes, ending: bytes, pack: Pack) -> bool:
        """True if a file beside a sound pack says no more than the pack."""
        stored = _content(self.folder, path)
        if stored is None or not _is_summed(stored):
            return False
        checksum, ids = pack.checksum(), sorted(pack.places)
        match ending:
            case b"rev":
                return stored == self._made(pack, "rev").read_bytes()
            case b"mtimes":  # when objects that nothing leads to were last wanted
                start, size = b"MTME" + struct.pack(">II", 1, 1), 12 + 4 * len(ids) + 2 * _ID
                is_own = stored.startswith(start) and stored[-40:-20] == checksum
                return len(stored) == size and is_own
            case b"bitmap":
                return self._is_bitmap(stored, {path: stored}, checksum, [*map(bytes.hex, ids)])
            case _:
                return False

    # Bitmaps

    def _is_bitmap(
        self, stored: bytes, files: Mapping[bytes, bytes], checksum: bytes, ids: Sequence[str]
    ) -> bool:
        """True if git says the same with a bitmap, which comes with other files, and without it.

        It is asked what each commit leads to that has one: those who fetch get this, and a repack
        may leave out the rest. `checksum` is that of what the bitmap belongs to, and `ids` are all
        objects in it, sorted.
        """
        try:
            commits = [ids[number] for number in _of_commits(stored)]
        except (struct.error, IndexError):
            return False
        if stored[12:32] != checksum or not self._is_filled:
            return False
        places = {self.clean.place / "objects" / os.fsdecode(path): p for path, p in files.items()}
        started = _spent()
        try:
            without = {oid: self._leading_from(oid) for oid in commits}
            for place, content in places.items():
                place.write_bytes(content)
            return all(
                known is not None and self._asked(oid, "--use-bitmap-index") == known
                for oid, known in without.items()
            )
        finally:
            self._seconds_left -= _spent() - started
            for place in places:
                place.unlink(missing_ok=True)

    def _leading_from(self, oid: str) -> list[bytes] | None:
        if oid not in self._reached:
            self._reached[oid] = self._asked(oid)
        return self._reached[oid]

    def _asked(self, oid: str, *how: str) -> list[bytes] | None:
        """The objects that a commit leads to, sorted; None where git does not say."""
        if self._seconds_left < 0:
            return None
        said = self.clean.ask("rev-list", "--objects", *how, f"{oid}^{{commit}}")
        return None if said is None else sorted(line[: 2 * _ID] for line in said.split(b"\n"))

    @cached_property
    def _is_filled(self) -> bool:
        """True once all sound objects are in the clean copy."""
        for path in self._loose:
            if not path.rpartition(b"/")[2].startswith(_TEMPORARY):
                at = self.clean.place / "objects" / os.fsdecode(path)
                at.parent.mkdir(exist_ok=True)
                try:
                    self.folder.copy(path, at, MAX_OBJECT_BYTES)
                except (NotRead, OSError):
                    return False
        for name, pack in self._packs.items():
            at = self.clean.place / "objects/pack" / os.fsdecode(name)
            at.with_name(f"{at.name}.pack").hardlink_to(pack.path)
            at.with_name(f"{at.name}.idx").hardlink_to(self._made(pack, "idx"))
        return True

    # The index of all packs

    def _of_all_packs(self) -> set[bytes]:
        """The index of all packs, and what belongs to it, if they say just where objects are."""
        stored = _content(self.folder, _ALL_PACKS)
        if stored is None:
            return set()
        try:
            ids, order = _all_packs(stored, self._packs)
        except (NotRead, struct.error, IndexError, KeyError):
            return set()
        sound, files = {_ALL_PACKS}, {_ALL_PACKS: stored}
        name = _ALL_PACKS + b"-" + stored[-_ID:].hex().encode()
        rows = struct.pack(f">{len(ids)}I", *order)
        made = b"RIDX" + struct.pack(">II", 1, 1) + rows + stored[-_ID:]
        reverse = _content(self.folder, name + b".rev")
        if reverse == made + _sum(made):
            sound.add(name + b".rev")
            files[name + b".rev"] = reverse
        bitmap = _content(self.folder, name + b".bitmap")
        if bitmap is not None and _is_summed(bitmap):
            files[name + b".bitmap"] = bitmap
            if self._is_bitmap(bitmap, files, stored[-_ID:], ids):
                sound.add(name + b".bitmap")
        return sound

    # Commit graphs

    def _graphs(self) -> set[bytes]:
        """The files of commit graphs that git makes again of the same commits.

        A graph is what git looks up of commits in place of the commits, and never verifies: trees,
        parents, times, how far it is to the first ones, and which paths a commit may have changed.
        """
        sound: set[bytes] = set()
        single = _content(self.folder, _GRAPH)
        if single is not None and self._is_made_again(_GRAPH, single):
            sound.add(_GRAPH)
        self._removed(_GRAPH)  # git takes it for the lowest layer
        names = _names(self.folder, _GRAPHS)
        chain = _content(self.folder, _CHAIN) or b""
        layers = chain.split(b"\n")[:-1]
        for layer in layers:
            path = _GRAPHS + b"/graph-" + layer + b".graph"
            stored = _content(self.folder, path)
            if stored is None or not self._is_made_again(path, stored, "--split=no-merge"):
                break
            sound.add(path)
        if layers and chain == self.clean.made(f"objects/{_CHAIN.decode()}"):
            sound.add(_CHAIN)
        for name in names:  # a whole layer that a chain may once have had: nothing looks into it
            stored = b"" if name[6:-6] in layers else _content(self.folder, _GRAPHS + b"/" + name)
            is_named = name == b"graph-%s.graph" % (stored or b"")[-_ID:].hex().encode()
            if stored and is_named and stored.startswith(b"CGPH") and _is_summed(stored):
                sound.add(_GRAPHS + b"/" + name)
        return sound

    def _removed(self, path: bytes) -> None:
        (self.clean.place / "objects" / os.fsdecode(path)).unlink(missing_ok=True)

    def _is_made_again(self, path: bytes, stored: bytes, *how: str) -> bool:
        try:
            chunks = _chunks(stored, b"CGPH", 8)
        except NotRead:
            return False
        listed = chunks.get(b"OIDL", b"")
        ids = "".join(f"{listed[at : at + _ID].hex()}\n" for at in range(0, len(listed), _ID))
        version = f"commitGraph.generationVersion={2 if b'GDA2' in chunks else 1}"
        filters = "--changed-paths" if b"BDAT" in chunks else "--no-changed-paths"
        asked = ("commit-graph", "write", "--stdin-commits", "--no-progress", filters, *how)
        is_asked = self._is_filled and self.clean.ask("-c", version, *asked, given=ids.encode())
        return is_asked is not None and self.clean.made(f"objects/{os.fsdecode(path)}") == stored


def _spent() -> float:
    """Seconds of the processor that programs of this process took, those that ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _of_commits(stored: bytes) -> list[int]:
    """The numbers of the objects that a file of bitmaps has one of. Raises `struct.error`."""
    if stored[:6] != b"BITM\0\1":
        raise IndexError("it does not begin like one")
    at, found = 32, []
    (count,) = struct.unpack_from(">I", stored, 8)
    for number in range(4 + count):  # four of kinds, and one of each of these commits
        if number > 3:
            found.append(struct.unpack_from(">I", stored, at)[0])
            at += 6
        at += 12 + 8 * int(struct.unpack_from(">I", stored, at + 4)[0])
    return found


def _sum(stored: bytes) -> bytes:
    return hashlib.sha1(stored).digest()  # noqa: S324 - git's own checksum


def _is_summed(stored: bytes) -> bool:
    """True if a file of git's ends with its checksum."""
    return _sum(stored[:-_ID]) == stored[-_ID:]


def _chunks(stored: bytes, magic: bytes, head: int) -> dict[bytes, bytes]:
    """The parts of a file of chunks, each with its whole bytes (gitformat-chunk).

    `NotRead` unless header, table, parts, ids and checksum are all there is, and are right.
    """
    if stored[:6] != magic + b"\x01\x01" or not _is_summed(stored):
        raise NotRead("a file of chunks is damaged")
    count = stored[6]
    found: dict[bytes, bytes] = {}
    try:
        table = [struct.unpack_from(">4sQ", stored, head + 12 * n) for n in range(count + 1)]
    except struct.error as error:
        raise NotRead("a file of chunks is damaged") from error
    if table[0][1] != head + 12 * (count + 1) or table[-1] != (bytes(4), len(stored) - _ID):
        raise NotRead("a file of chunks has bytes that belong to none")
    for (name, start), (_, end) in itertools.pairwise(table):
        if name in found or start > end:
            raise NotRead("a file of chunks is damaged")
        found[name] = stored[start:end]
    _check_ids(found.get(b"OIDF", b""), found.get(b"OIDL", b""))
    return found


def _check_ids(fan: bytes, listed: bytes) -> None:
    """Raises `NotRead` unless the ids are sorted and the fan-out counts them."""
    ids = [listed[at : at + _ID] for at in range(0, len(listed), _ID)]
    counts = [0] * 256
    for oid in ids:
        counts[oid[0]] += 1
    is_sorted = all(one < other for one, other in itertools.pairwise(ids))
    if not is_sorted or fan != struct.pack(">256I", *itertools.accumulate(counts)):
        raise NotRead("a list of ids is not sorted or is counted wrongly")


def _all_packs(stored: bytes, packs: Mapping[bytes, Pack]) -> tuple[list[str], list[int]]:
    """The ids in the index of all packs, and their numbers in the order of its bitmap.

    Raises `NotRead`, `KeyError`, `IndexError` or `struct.error` unless every byte is as it should.
    """
    chunks = _chunks(stored, b"MIDX", 12)
    listed, offsets = chunks[b"OIDL"], chunks[b"OOFF"]
    count = len(listed) // _ID
    if chunks.keys() - _ALL_PARTS or stored[7] or len(offsets) != 8 * count:
        raise NotRead("the index of all packs has parts that are not read")
    names = chunks[b"PNAM"].rstrip(b"\0").split(b"\0") if chunks[b"PNAM"].rstrip(b"\0") else []
    padded = b"".join(name + b"\0" for name in names)
    padded += bytes(-len(padded) % 4)
    if chunks[b"PNAM"] != padded or names != sorted(set(names)):
        raise NotRead("the index of all packs names packs wrongly")
    if struct.unpack_from(">I", stored, 8)[0] != len(names):
        raise NotRead("the index of all packs counts packs wrongly")
    used = [packs[name.removesuffix(b".idx")] for name in names]
    ids = [listed[at : at + _ID] for at in range(0, len(listed), _ID)]
    if set(ids) != {oid for pack in used for oid in pack.places}:
        raise NotRead("the index of all packs holds other objects")
    places: list[tuple[int, int]] = []
    for number, oid in enumerate(ids):
        pack, place = struct.unpack_from(">II", offsets, 8 * number)
        if place & _LAST and b"LOFF" in chunks:
            (place,) = struct.unpack_from(">Q", chunks[b"LOFF"], 8 * (place & ~_LAST))
        if place not in used[pack].places.get(oid, ()):
            raise NotRead("the index of all packs gives another place")
        places.append((pack, place))
    order = list(struct.unpack(f">{len(ids)}I", chunks[b"RIDX"])) if b"RIDX" in chunks else []
    first = places[order[0]][0] if order else 0
    wanted = sorted(range(len(ids)), key=lambda n: (places[n][0] != first, *places[n]))
    if order and order != wanted:
        raise NotRead("the index of all packs has another order")
    return [oid.hex() for oid in ids], wanted
