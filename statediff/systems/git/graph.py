"""What git looks things up in instead of the objects themselves: caches that somebody may forge.

git believes the commit graph about a commit's tree and parents, and the index of several packs
about where an object lies, and verifies neither. Whoever may write a repository's files may so have
git show another history, or another content under an id, than the objects say. So what these files
say is held against what they were made of.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from statediff.model.batches import Row
from statediff.systems.files.tree import Folder, NotRead, shown

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
