"""The index of a work tree, parsed by us: entries and the flags that hide changes from git."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from statediff.model.batches import Row
from statediff.systems.files.tree import NotRead, text_or_bytes

MAX_INDEX_BYTES: Final = 128 * 1024 * 1024
MAX_NAME_BYTES: Final = 4096
MAX_NAMES_BYTES: Final = 256 * 1024 * 1024
"""All names together: version 4 spells each by what it shares with the one before."""
_STAT_BYTES: Final = 40
_ASSUMED_UNCHANGED: Final = 0x8000
_EXTENDED: Final = 0x4000
_SKIPPED: Final = 0x4000
_INTENT_TO_ADD: Final = 0x2000
_OPTIONAL: Final = range(ord("A"), ord("Z") + 1)


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


def index_rows(stored: bytes) -> list[Row]:
    """The entries of an index file. `NotRead` where any of it is not understood."""
    width = _id_bytes(stored)
    reader = _Reader(stored[:-width], 0)
    if reader.take(4) != b"DIRC":
        raise NotRead("the index is damaged: it does not begin like one")
    version, count = reader.number(4), reader.number(4)
    if version not in (2, 3, 4):
        raise NotRead(f"the index has version {version}; 2 to 4 are read")
    rows: list[Row] = []
    name = b""
    names_left = MAX_NAMES_BYTES
    for _ in range(count):
        start = reader.at
        status = reader.take(_STAT_BYTES)
        oid = reader.take(width).hex()
        flags = reader.number(2)
        extended = reader.number(2) if flags & _EXTENDED and version > 2 else 0
        if version == 4:
            strip = _offset(reader)
            if strip > len(name):
                raise NotRead("the index is damaged: a name is shorter than nothing")
            name = name[: len(name) - strip] + reader.until_nul()
        else:
            name = reader.until_nul()
            reader.at = start + (reader.at - 1 - start) // 8 * 8 + 8
        names_left -= len(name)
        if names_left < 0 or len(name) > MAX_NAME_BYTES:
            raise NotRead("the names in the index are beyond the capture limit")
        rows.append(
            {
                "path": text_or_bytes(name),
                "stage": (flags >> 12) & 3,
                "mode": f"{int.from_bytes(status[24:28], 'big'):06o}",
                "blob": oid,
                "is_assumed_unchanged": bool(flags & _ASSUMED_UNCHANGED),
                "is_skipped_in_worktree": bool(extended & _SKIPPED),
                "is_intent_to_add": bool(extended & _INTENT_TO_ADD),
            }
        )
    _check_extensions(reader)
    return rows


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


def _check_extensions(reader: _Reader) -> None:
    while reader.at < len(reader.stored):
        name = reader.take(4)
        if name[0] not in _OPTIONAL and name != b"sdir":
            known = " (a split index)" if name == b"link" else ""
            shown = name.decode("ascii", "backslashreplace")
            raise NotRead(f"the index needs its part {shown!r}, which is not read{known}")
        reader.take(reader.number(4))
