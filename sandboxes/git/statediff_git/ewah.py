"""Bitmaps as git compresses them: runs of equal words, and words as they are (EWAH)."""

from __future__ import annotations

import struct
from typing import Final

from statediff.systems.files.tree import NotRead

_RUN: Final = 0xFFFFFFFF


def read_ewah(stored: bytes, at: int, most: int) -> tuple[int, int]:
    """The bits as a number, the first being its lowest, and where the bitmap ends.

    `most` bounds how many bits there may be. `NotRead` where it is not such a bitmap.
    """
    try:
        size, count = struct.unpack_from(">II", stored, at)
        words = struct.unpack_from(f">{count}Q", stored, at + 8)
        struct.unpack_from(">I", stored, at + 8 + 8 * count)
    except struct.error as error:
        raise NotRead("a bitmap is cut short") from error
    if size > most:
        raise NotRead("a bitmap has more bits than there are things")
    found = bytearray()
    limit = (size + 63) // 64 * 8
    number = 0
    while number < count:
        marker = words[number]
        run, literal = marker >> 1 & _RUN, marker >> 33
        if number + 1 + literal > count or len(found) + 8 * (run + literal) > limit:
            raise NotRead("a bitmap is damaged")
        found += (b"\xff" if marker & 1 else b"\0") * (8 * run)
        found += struct.pack(f"<{literal}Q", *words[number + 1 : number + 1 + literal])
        number += 1 + literal
    return int.from_bytes(found, "little"), at + 12 + 8 * count
