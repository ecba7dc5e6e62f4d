"""The object store file by file: which files say no more than the objects in them.

An object under its own id is storage. So is what git derives of objects: the index of a pack, the
order of its entries, bitmaps, the index of all packs, commit graphs. Each is made again, or
compared with the objects in every byte. Any other file below `objects` is state, by its digest: git
may obey it (`alternates`, `.keep`), believe it, or die of it.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import re
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Final

from statediff.systems.files.tree import Entry, EntryKind, Folder, NotRead
from statediff_git.bitmaps import check_bitmap
from statediff_git.graphs import (
    ID,
    Commits,
    content,
    folder_names,
    is_summed,
    read_chunks,
    sound_graphs,
)
from statediff_git.objects import IDX, Pack

PACKS: Final = b"pack"
_ALL_PACKS: Final = b"pack/multi-pack-index"
_LIST: Final = b"info/packs"
_PACK_LIST: Final = re.compile(rb"(?:P pack-[0-9a-f]{40,64}\.pack\n)*\n?")
"""For clients without a server; git leaves it out of date when it repacks behind a list of all."""
_LOOSE: Final = re.compile(rb"[0-9a-f]{2}")
_REST: Final = re.compile(rb"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_TEMPORARY: Final = (b"tmp_", b".tmp-")
_LAST: Final = 0x80000000
_ALL_PARTS: Final = frozenset({b"PNAM", b"OIDF", b"OIDL", b"OOFF", b"LOFF", b"RIDX"})


@dataclass(frozen=True)
class Store:
    """Entries below the git folder that are state, and why there may be others."""

    entries: tuple[Entry, ...] = ()
    causes: tuple[str, ...] = ()


def read_store(git: Folder, commits: Commits, *, is_partial: bool) -> Store:
    """The files below `objects` that say something of their own.

    `is_partial` where the settings promise objects that are not there: then a pack may say of
    itself that it came from there.
    """
    try:
        if git.kind(b"objects") is not EntryKind.DIRECTORY:
            return Store()
        with git.folder(b"objects") as folder:
            sound = {*_sound_loose(folder, commits), *_sound_packs(folder, commits)}
            sound |= sound_graphs(folder, commits)
            if is_partial:
                sound |= {
                    PACKS + b"/" + name
                    for name in folder_names(folder, PACKS)
                    if name.endswith(b".promisor")
                }
            if _PACK_LIST.fullmatch(content(folder, _LIST) or b""):
                sound.add(_LIST)
            tree = folder.tree(leave_out=frozenset(_regular(folder, sound)))
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


def _sound_loose(folder: Folder, commits: Commits) -> set[bytes]:
    """The loose objects whose content has their id, and what a killed git left of others."""
    sound: set[bytes] = set()
    for fan in folder.names():
        if not _LOOSE.fullmatch(fan) or folder.kind(fan) is not EntryKind.DIRECTORY:
            continue
        for rest in folder_names(folder, fan):
            is_object = _REST.fullmatch(rest) and commits.objects.is_sound((fan + rest).decode())
            if is_object or rest.startswith(_TEMPORARY):
                sound.add(fan + b"/" + rest)
    return sound


def _sound_packs(folder: Folder, commits: Commits) -> set[bytes]:
    """The files of sound packs that say no more than these, and of what is derived of all."""
    sound: set[bytes] = set()
    names = folder_names(folder, PACKS)
    packs = {pack.name: pack for pack in commits.objects.packs() if _is_sound(pack, commits)}
    for name in names:
        stem, _, ending = name.partition(b".")
        pack = packs.get(stem)
        path = PACKS + b"/" + name
        is_own = pack is not None and (
            ending in (b"pack", b"idx") or _is_derived(content(folder, path), ending, pack, commits)
        )
        if is_own or name.startswith(_TEMPORARY):
            sound.add(path)
    return sound | _sound_all_packs(folder, packs, commits)


def _is_sound(pack: Pack, commits: Commits) -> bool:
    """Whether a pack is whole, each object has its id, and its index says just where they are."""
    if pack.size < 12 + ID:
        return False
    with mmap.mmap(pack.descriptor, 0, access=mmap.ACCESS_READ) as stored:
        whole = memoryview(stored)
        try:
            checksum = bytes(whole[-ID:])
            sums = _sums(pack, whole[:-ID], commits)
            is_summed_up = hashlib.sha1(whole[:-ID]).digest() == checksum  # noqa: S324 - git's own
        except NotRead:
            return False
        finally:
            whole.release()
    return is_summed_up and pack.path.with_suffix(".idx").read_bytes() == _index_of(pack, sums)


def _sums(pack: Pack, body: memoryview, commits: Commits) -> dict[bytes, int]:
    """The check sum of each entry by id. Raises `NotRead` where the pack is anything but these."""
    count = len(pack.places)
    order = sorted((places[0], oid) for oid, places in pack.places.items())
    starts = [start for start, _ in order] or [len(body)]
    if bytes(body[:4]) != b"PACK" or struct.unpack_from(">II", body, 4) not in (
        (2, count),
        (3, count),
    ):
        raise NotRead("a pack does not begin like one")
    if starts[0] != 12:
        raise NotRead("a pack has bytes that belong to no object")
    sums: dict[bytes, int] = {}
    for (start, oid), (end, _) in itertools.pairwise([*order, (len(body), b"")]):
        entry = body[start:end]
        if not commits.objects.kind(oid.hex()) or not pack.is_whole(entry):
            raise NotRead("a pack has bytes that belong to no object")
        sums[oid] = zlib.crc32(entry)
    return sums


def _index_of(pack: Pack, sums: dict[bytes, int]) -> bytes:
    """The index that git makes of a pack."""
    ids = sorted(pack.places)
    counts = [0] * 256
    for oid in ids:
        counts[oid[0]] += 1
    near: list[int] = []
    far: list[int] = []
    for oid in ids:
        place = pack.places[oid][0]
        near.append(place if place < _LAST else _LAST | len(far))
        far += [place] if place >= _LAST else []
    made = IDX + struct.pack(">256I", *itertools.accumulate(counts)) + b"".join(ids)
    made += struct.pack(f">{len(ids)}I", *(sums[oid] for oid in ids))
    made += struct.pack(f">{len(ids)}I", *near) + struct.pack(f">{len(far)}Q", *far)
    made += pack.checksum()
    return made + hashlib.sha1(made).digest()  # noqa: S324 - git's own checksum


def _is_derived(stored: bytes | None, ending: bytes, pack: Pack, commits: Commits) -> bool:
    """Whether a file beside a sound pack says no more than the pack."""
    if stored is None or not is_summed(stored):
        return False
    ids = sorted(pack.places)
    order = sorted(range(len(ids)), key=lambda number: pack.places[ids[number]])
    checksum = pack.checksum()
    match ending:
        case b"rev":
            rows = struct.pack(f">{len(ids)}I", *order)
            return stored[:-ID] == b"RIDX" + struct.pack(">II", 1, 1) + rows + checksum
        case b"mtimes":  # when objects that nothing leads to were last wanted
            start, size = b"MTME" + struct.pack(">II", 1, 1), 12 + 4 * len(ids) + 2 * ID
            return len(stored) == size and stored.startswith(start) and stored[-40:-20] == checksum
        case b"bitmap":
            return _is_bitmap(stored, checksum, [oid.hex() for oid in ids], order, commits)
        case _:
            return False


def _is_bitmap(
    stored: bytes, checksum: bytes, ids: list[str], order: list[int], commits: Commits
) -> bool:
    try:
        check_bitmap(stored, checksum, ids, order, commits)
    except NotRead:
        return False
    return is_summed(stored)


def _sound_all_packs(folder: Folder, packs: dict[bytes, Pack], commits: Commits) -> set[bytes]:
    """The index of all packs, and what belongs to it, if they say just where objects are."""
    stored = content(folder, _ALL_PACKS)
    if stored is None:
        return set()
    try:
        ids, order = _all_packs(stored, packs)
    except (NotRead, struct.error, IndexError, KeyError):
        return set()
    sound = {_ALL_PACKS}
    name = _ALL_PACKS + b"-" + stored[-ID:].hex().encode()
    bitmap = content(folder, name + b".bitmap")
    if bitmap is not None and _is_bitmap(bitmap, stored[-ID:], ids, order, commits):
        sound.add(name + b".bitmap")
    reverse = content(folder, name + b".rev")
    rows = struct.pack(f">{len(ids)}I", *order)
    made = b"RIDX" + struct.pack(">II", 1, 1) + rows + stored[-ID:]
    if reverse == made + hashlib.sha1(made).digest():  # noqa: S324 - git's own checksum
        sound.add(name + b".rev")
    return sound


def _all_packs(stored: bytes, packs: dict[bytes, Pack]) -> tuple[list[str], list[int]]:
    """The ids in the index of all packs, and their numbers in the order of its bitmap.

    Raises `NotRead`, `KeyError`, `IndexError` or `struct.error` unless every byte is as it should.
    """
    chunks = read_chunks(stored, b"MIDX", 12)
    listed, offsets = chunks[b"OIDL"], chunks[b"OOFF"]
    count = len(listed) // ID
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
    ids = [listed[at : at + ID] for at in range(0, len(listed), ID)]
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
