"""Check proofs that a log has an entry, and that it goes on from another (R-PRF, R-CON)."""

from __future__ import annotations

import re
from typing import Any

from .basics import Refused, is_number, members, need, read_canonical, sha, unbase64
from .logs import entry_hash
from .notes import Checkpoint, read_checkpoint
from .trust import Key


def check_inclusion(leaf: bytes, index: int, size: int, path: list[bytes], root: bytes) -> None:
    """Refuse unless the path shows the leaf under the root (RFC 9162 2.1.3.2)."""
    need(0 <= index < size, "R-PRF-3 index")
    fn, sn, result = index, size - 1, leaf
    for item in path:
        need(sn != 0, "R-PRF-3 left over")
        if fn & 1 or fn == sn:
            result = sha(b"\1" + item + result)
            while not fn & 1 and fn != 0:
                fn >>= 1
                sn >>= 1
        else:
            result = sha(b"\1" + result + item)
        fn >>= 1
        sn >>= 1
    need(sn == 0 and result == root, "R-PRF-3")


def check_consistency(old: Checkpoint, new: Checkpoint, path: list[bytes]) -> None:
    """Refuse unless the path shows that the new log goes on from the old (RFC 9162 2.1.4.2)."""
    need(len(path) > 0, "R-CON-3 empty")
    if old.size & (old.size - 1) == 0:
        path = [old.root, *path]
    fn, sn = old.size - 1, new.size - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    first = second = path[0]
    for item in path[1:]:
        need(sn != 0, "R-CON-3 left over")
        if fn & 1 or fn == sn:
            first = sha(b"\1" + item + first)
            second = sha(b"\1" + item + second)
            while not fn & 1 and fn != 0:
                fn >>= 1
                sn >>= 1
        else:
            second = sha(b"\1" + second + item)
        fn >>= 1
        sn >>= 1
    need(sn == 0 and first == old.root and second == new.root, "R-CON-3")


def _newline_off(data: bytes) -> bytes:
    return data[:-1] if data.endswith(b"\n") else data


def _shown(
    data: bytes, keys: list[Key], origin: str | None, own: Checkpoint | None
) -> tuple[Any, Checkpoint]:
    head, gap, note = data.partition(b"\n\n")
    need(gap != b"" and head.isascii(), "R-PRF-1")
    lines = head.decode("ascii").split("\n")
    need(len(lines) >= 3 and lines[0] == "c2sp.org/tlog-proof@v1", "R-PRF-1")
    need(lines[1].startswith("extra ") and len(lines) <= 66, "R-PRF-1")
    found = re.fullmatch("index (0|[1-9][0-9]{0,17})", lines[2])
    if found is None:
        raise Refused("R-PRF-1 index")
    content = unbase64(lines[1][6:], "R-PRF-1 extra")
    path = [unbase64(line, "R-PRF-1 path") for line in lines[3:]]
    need(all(len(item) == 32 for item in path), "R-PRF-1 path")
    checkpoint = read_checkpoint(note, keys, origin)
    if own is not None:
        need((own.size, own.root) == (checkpoint.size, checkpoint.root), "R-PRF-2")
    check_inclusion(entry_hash(content), int(found[1]), checkpoint.size, path, checkpoint.root)
    entry = read_canonical(content)
    need(isinstance(entry, dict), "R-PRF-4")
    return entry, checkpoint


def verify_proof(
    data: bytes, own_data: bytes | None, keys: list[Key], origin: str | None
) -> dict[str, Any]:
    """Return the entry that a proof shows, with its checkpoint, or refuse it."""
    own = None if own_data is None else read_checkpoint(own_data, keys, origin)
    entry, checkpoint = _shown(data, keys, origin, own)
    return {"entry": entry, **checkpoint.answer()}


def verify_consistency(
    old_data: bytes, new_data: bytes, proof: bytes | None, keys: list[Key]
) -> dict[str, Any]:
    """Return how many entries a newer checkpoint has more, or refuse the two (R-CON)."""
    old = read_checkpoint(old_data, keys, None)
    new = read_checkpoint(new_data, keys, None)
    need(old.origin == new.origin and old.size <= new.size, "R-CON-1")
    if old.size == 0:
        need(old.root == sha(b""), "R-CON-1 root of nothing")
    if old.size == new.size:
        need(old.root == new.root, "R-CON-1 roots")
    if old.size in (0, new.size):
        return {"later": new.size - old.size}
    if proof is None:
        raise Refused("R-CON-1 no proof")
    document = members(read_canonical(_newline_off(proof)), "format old new path", "R-CON-2")
    need(document["format"] == "statediff/consistency/1", "R-CON-2")
    for name, size in (("old", old.size), ("new", new.size)):
        need(is_number(document[name]) and document[name] == size, "R-CON-2 sizes")
    path = document["path"]
    need(isinstance(path, list) and len(path) <= 63, "R-CON-2 path")
    hashes = [unbase64(item, "R-CON-2 path") for item in path]
    need(all(len(item) == 32 for item in hashes), "R-CON-2 path")
    check_consistency(old, new, hashes)
    return {"later": new.size - old.size}
