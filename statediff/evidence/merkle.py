"""The tree of an append-only log, its proofs and how to check them [RFC 6962 §2.1, RFC 9162 §2.1].

A log of n entries has one root. An inclusion proof shows that an entry stands at a place of it; a
consistency proof, that a longer log begins with a shorter one. Checking either takes no entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from statediff.evidence.verify import row_node

EMPTY: Final = hashlib.sha256(b"").digest()
"""The root of a log without entries."""


def entry_hash(entry: bytes) -> bytes:
    """The hash of an entry's bytes."""
    return hashlib.sha256(b"\x00" + entry).digest()


def log_root(hashes: Sequence[bytes]) -> bytes:
    """The root over the hashes of all entries, in their order."""
    if not hashes:
        return EMPTY
    level = list(hashes)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        above = [row_node(left, right) for left, right in pairs]
        level = above + level[len(above) * 2 :]  # a node without a sibling moves up as it is
    return level[0]


def inclusion_proof(hashes: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The proof that the entry at `index` is in this log. `ValueError` if there is none."""
    if not 0 <= index < len(hashes):
        raise ValueError(f"there is no entry {index} in a log of {len(hashes)}")
    proof: list[bytes] = []
    low, high = 0, len(hashes)
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            proof.append(log_root(hashes[middle:high]))
            high = middle
        else:
            proof.append(log_root(hashes[low:middle]))
            low = middle
    return tuple(reversed(proof))


def consistency_proof(hashes: Sequence[bytes], size: int) -> tuple[bytes, ...]:
    """The proof that this log begins with its first `size` entries. `ValueError`."""
    if not 0 <= size <= len(hashes):
        raise ValueError(f"a log of {len(hashes)} entries has no beginning of {size}")
    if size in (0, len(hashes)):
        return ()
    proof: list[bytes] = []
    low, high, is_known = 0, len(hashes), True
    while size != high:
        middle = low + _split(high - low)
        if size <= middle:
            proof.append(log_root(hashes[middle:high]))
            high = middle
        else:
            proof.append(log_root(hashes[low:middle]))
            low, is_known = middle, False
    if not is_known:
        proof.append(log_root(hashes[low:high]))
    return tuple(reversed(proof))


def extends(
    size: int, root: bytes, longer: int, longer_root: bytes, proof: Sequence[bytes]
) -> bool:
    """True if the proof shows that the log of `longer` entries begins with that of `size`."""
    if not 0 <= size <= longer:
        return False
    if size == longer:
        return not proof and root == longer_root
    if size == 0:
        return not proof and root == EMPTY
    steps = list(proof)
    if size & (size - 1) == 0:
        steps.insert(0, root)  # a whole subtree is its own beginning
    if not steps:
        return False
    at, last = size - 1, longer - 1
    while at % 2:
        at, last = at // 2, last // 2
    shorter_found = longer_found = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if at % 2 or at == last:
            shorter_found = row_node(step, shorter_found)
            longer_found = row_node(step, longer_found)
            while at % 2 == 0 and at:
                at, last = at // 2, last // 2
        else:
            longer_found = row_node(longer_found, step)
        at, last = at // 2, last // 2
    return last == 0 and shorter_found == root and longer_found == longer_root


def _split(size: int) -> int:
    """The largest power of two below `size`, which is at least 2."""
    return 1 << (size - 1).bit_length() - 1
