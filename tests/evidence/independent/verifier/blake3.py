"""Compute BLAKE3: the 32-byte hash of bytes, without a key."""

from __future__ import annotations

import struct

Words = tuple[int, ...]

IV = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
    0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
MASK = 0xFFFFFFFF
START, END, PARENT, ROOT = 1, 2, 4, 8
QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip


def _turn(value: int, by: int) -> int:
    return ((value >> by) | (value << (32 - by))) & MASK


def _mix(s: list[int], quarter: tuple[int, int, int, int], words: list[int]) -> None:
    a, b, c, d = quarter
    for word, first, second in ((words[0], 16, 12), (words[1], 8, 7)):
        s[a] = (s[a] + s[b] + word) & MASK
        s[d] = _turn(s[d] ^ s[a], first)
        s[c] = (s[c] + s[d]) & MASK
        s[b] = _turn(s[b] ^ s[c], second)


def _compress(chain: Words, block: bytes, size: int, counter: int, flags: int) -> Words:
    words = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    state = [*chain, *IV[:4], counter & MASK, counter >> 32, size, flags]
    for step in range(7):
        for number, quarter in enumerate(QUARTERS):
            _mix(state, quarter, words[2 * number : 2 * number + 2])
        if step < 6:
            words = [words[place] for place in ORDER]
    return tuple(state[i] ^ state[i + 8] for i in range(8))


def _chunk(data: bytes, counter: int, root: int) -> Words:
    blocks = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
    chain: Words = IV
    for number, block in enumerate(blocks):
        flags = START if number == 0 else 0
        if number == len(blocks) - 1:
            flags |= END | root
        chain = _compress(chain, block, len(block), counter, flags)
    return chain


def _tree(data: bytes, counter: int, root: int) -> Words:
    if len(data) <= 1024:
        return _chunk(data, counter, root)
    left = 1024
    while left * 2 < len(data):
        left *= 2
    one = _tree(data[:left], counter, 0)
    other = _tree(data[left:], counter + left // 1024, 0)
    return _compress(IV, struct.pack("<16I", *one, *other), 64, 0, PARENT | root)


def blake3(data: bytes) -> bytes:
    """Return the BLAKE3 hash of the bytes."""
    return struct.pack("<8I", *_tree(data, 0, ROOT))
