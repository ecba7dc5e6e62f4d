"""Pages of SQLite's b-trees, byte by byte (sqlite.org/fileformat2, §1.5, §1.6 and §2.1).

What SQLite would not have written is `Tangled`; the message says what.
"""

from __future__ import annotations

import bisect
import math
import operator
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

INTERIOR_INDEX: Final = 2
INTERIOR_TABLE: Final = 5
LEAF_INDEX: Final = 10
LEAF_TABLE: Final = 13
INTERIOR: Final = (INTERIOR_INDEX, INTERIOR_TABLE)
OF_TABLES: Final = (INTERIOR_TABLE, LEAF_TABLE)
FILE_HEADER_BYTES: Final = 100
_LEAST_BLOCK: Final = 4
"""Bytes of the smallest cell, and of the smallest free block."""
_BLOCK_BYTES: Final = 256
"""Of a page that is compared at once."""
_FEW_CELLS: Final = 16
"""Read one by one."""
_MOST_LENGTH: Final = 2**63

ReadPage = Callable[[int], bytes]


class Tangled(Exception):
    """The pages are not what SQLite would have written; the message says which."""


class Rest(NamedTuple):
    """What is not on the page of a payload."""

    length: int
    """Bytes of the whole payload."""
    page: int
    """The first page of the rest."""


@dataclass(frozen=True)
class Cells:
    """The cells of a node, in lists beside each other: there are many, and most are just passed."""

    sizes: list[int]
    """Bytes on the page, at least four."""
    row_ids: list[int]
    """Empty in an index."""
    locals: list[bytes]
    """The part of each payload that is on the page; empty in an interior node of a table."""
    rests: dict[int, Rest]
    """Place → the rest, of the cells whose payload is longer than that."""
    kinship: Kinship | None = None
    """How they are those of the page as it was; None where nobody knows."""

    @cached_property
    def new(self) -> list[int]:
        """The places of the cells that are not known to have been on the page."""
        return [*range(len(self.sizes))] if self.kinship is None else self.kinship.new

    def gone(self, before: Cells) -> list[int]:
        """The places before of the cells that are not known to be on the page."""
        return [*range(len(before.sizes))] if self.kinship is None else self.kinship.gone


@dataclass(frozen=True, kw_only=True)
class Kinship:
    """Which cells of a page are those of the page as it was."""

    new: list[int]
    """Places of those that are not known to have been there, ascending."""
    gone: list[int]
    """Places before of those that are not known to be there."""
    loose: list[int]
    """Places whose cell did not precede the next one on the page as it was."""


@dataclass(frozen=True)
class Node:
    """A page of a tree."""

    content: bytes
    at: int
    """Where its header begins: page 1 begins with that of the file."""
    kind: int
    starts: tuple[int, ...]
    children: tuple[int, ...]
    """Of an interior node, one more than it has cells."""
    usable: int

    @property
    def is_of_table(self) -> bool:
        return self.kind in OF_TABLES

    @cached_property
    def places(self) -> Any:
        """Where its cells begin, as an array."""
        list_of = self.at + (12 if self.kind in INTERIOR else 8)
        found = np.frombuffer(self.content, ">u2", len(self.starts), list_of)
        return found.astype(np.int64)

    def cells(self, before: tuple[Node, Cells] | None = None) -> Cells:
        """Its cells in order. Raises `Tangled`.

        `before` is the page as it was: cells in the same place, of the same bytes, are taken over.
        """
        try:
            if self.kind == INTERIOR_TABLE:
                told = [varint(self.content, start + 4) for start in self.starts]
                sizes = [end - start for start, (_, end) in zip(self.starts, told, strict=True)]
                return Cells(sizes, [signed(row_id) for row_id, _ in told], [], {})
            if before is not None and before[0].kind == self.kind and not before[1].rests:
                return self._taken_over(*before)
            return self._with_payloads(self.places)
        except (struct.error, IndexError) as error:
            raise Tangled("a cell is beyond its page") from error

    def _taken_over(self, before: Node, known: Cells) -> Cells:
        """Its cells, of which only those are read that are not as they were."""
        former, starts = before.starts, self.starts
        shift = len(starts) - len(former)
        first, last = _common_ends(former, starts)
        after_middle = len(starts) - last
        changed = {before.place_of[start] for start in before.differing(known.sizes, self.content)}
        middle = [before.place_of.get(start, -1) for start in starts[first:after_middle]]
        middle = [-1 if place in changed else place for place in middle]
        new = sorted(
            [first + at for at, place in enumerate(middle) if place < 0]
            + [place for place in changed if place < first]
            + [place + shift for place in changed if place + shift >= after_middle]
        )
        added = self._read_at(new)
        stayed = {*middle}
        gone = changed.union(p for p in range(first, after_middle - shift) if p not in stayed)
        known_places = {**dict(enumerate(middle, first)), **dict.fromkeys(new, -1)}

        def place_before(at: int) -> int:
            found = known_places.get(at)
            return (at if at < first else at - shift) if found is None else found

        near = {*range(max(first - 1, 0), after_middle), *new, *(at - 1 for at in new if at)}
        loose = [
            at
            for at in sorted(near)
            if at + 1 < len(starts)
            and (place_before(at) < 0 or place_before(at + 1) <= place_before(at))
        ]

        def spliced(old: list[Any], come: list[Any]) -> list[Any]:
            made = old[:first]
            made += [None if place < 0 else old[place] for place in middle]
            made += old[after_middle - shift :]
            for at, each in zip(new, come, strict=True):
                made[at] = each
            return made

        return Cells(
            spliced(known.sizes, added.sizes),
            spliced(known.row_ids, added.row_ids) if self.kind == LEAF_TABLE else [],
            spliced(known.locals, added.locals),
            {new[number]: rest for number, rest in added.rests.items()},
            Kinship(new=new, gone=sorted(gone), loose=loose),
        )

    @cached_property
    def place_of(self) -> Mapping[int, int]:
        """Where a cell begins → its place."""
        return {start: at for at, start in enumerate(self.starts)}

    @cached_property
    def _in_file_order(self) -> list[int]:
        return sorted(self.starts)

    def differing(self, sizes: list[int], content: bytes) -> list[int]:
        """Where the cells begin whose bytes are others on this page; they have these sizes."""
        own, ordered, found = self.content, self._in_file_order, []
        for begin in range(0, len(own), _BLOCK_BYTES):
            if own[begin : begin + _BLOCK_BYTES] == content[begin : begin + _BLOCK_BYTES]:
                continue
            end = begin + _BLOCK_BYTES
            # The cell that begins before the block may reach into it.
            at = max(bisect.bisect_left(ordered, begin) - 1, 0)
            while at < len(ordered) and (start := ordered[at]) < end:
                past = start + sizes[self.place_of[start]]
                if own[start:past] != content[start:past]:
                    found.append(start)
                at += 1
        return found

    def _read_at(self, places: list[int]) -> Cells:
        """The cells in these places."""
        if len(places) > _FEW_CELLS:
            return self._with_payloads(self.places[places])
        is_table = self.kind == LEAF_TABLE
        most = most_local(self.usable, is_table=is_table)
        sizes, row_ids, locals_ = [], [], []
        rests: dict[int, Rest] = {}
        for number, place in enumerate(places):
            start = self.starts[place]
            length, at = varint(self.content, start + (4 if self.kind == INTERIOR_INDEX else 0))
            if is_table:
                row_id, at = varint(self.content, at)
                row_ids.append(signed(row_id))
            end = at + length
            past = end
            if length > most:
                if length >= _MOST_LENGTH:
                    raise Tangled("a cell is beyond its page")
                end = at + local_bytes(length, self.usable, is_table=is_table)
                rests[number] = Rest(length, *struct.unpack_from(">I", self.content, end))
                past = end + 4
            sizes.append(max(past - start, _LEAST_BLOCK))
            locals_.append(self.content[at:end])
        return Cells(sizes, row_ids, locals_, rests)

    def _with_payloads(self, begins: Any) -> Cells:
        """The cells that begin there, read all at once: byte by byte of their numbers."""
        is_table = self.kind == LEAF_TABLE
        most = most_local(self.usable, is_table=is_table)
        at = begins + (4 if self.kind == INTERIOR_INDEX else 0)
        stored = np.frombuffer(self.content + _NO_BYTES, np.uint8)
        lengths, at = _varints(stored, at)
        row_ids = np.empty(0, int)
        if is_table:
            row_ids, at = _varints(stored, at)
        ends = at + lengths
        rests: dict[int, Rest] = {}
        sizes = ends - begins
        if len(lengths) and (lengths < 0).any():
            raise Tangled("a cell is beyond its page")
        for place in (lengths > most).nonzero()[0].tolist():
            length = int(lengths[place])
            end = int(at[place]) + local_bytes(length, self.usable, is_table=is_table)
            (page,) = struct.unpack_from(">I", self.content, end)
            rests[place] = Rest(length, page)
            ends[place], sizes[place] = end, end - int(begins[place]) + 4
        content = self.content
        locals_ = [content[one:two] for one, two in zip(at.tolist(), ends.tolist(), strict=True)]
        return Cells(np.maximum(sizes, _LEAST_BLOCK).tolist(), row_ids.tolist(), locals_, rests)

    def check_space(self, cells: Cells) -> None:
        """Each byte is in one cell or free, and the header counts those that are lost."""
        content, at = self.content, self.at
        free, count, begin, lost = struct.unpack_from(">HHHB", content, at + 1)
        begin = begin or 65536
        blocks: list[tuple[int, int]] = []
        while free:
            following, size = (
                struct.unpack_from(">HH", content, free) if free < len(content) - 3 else (0, 0)
            )
            if size < _LEAST_BLOCK or (following and following <= free + size + 3):
                raise Tangled("a free block is of no use")
            blocks.append((free, size))
            free = following
        if at + (12 if self.children else 8) + 2 * count > begin:
            raise Tangled("cells begin in their own list")
        spans = dict(zip(self.starts, cells.sizes, strict=True))
        spans.update(blocks)
        if len(spans) != len(self.starts) + len(blocks):
            raise Tangled("two cells share a byte")
        starts = sorted(spans)
        ends = [*map(operator.add, starts, map(spans.__getitem__, starts))]
        end = begin
        if starts:
            if starts[0] < begin or any(map(operator.gt, ends, starts[1:])):
                raise Tangled("two cells share a byte")
            end = ends[-1]
        if end > self.usable or lost != self.usable - begin - sum(spans.values()):
            raise Tangled("bytes of a page are in no cell")


def _common_ends(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, int]:
    """How many are equal at the beginning, and of the others at the end."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most, 0
    first = next(at for at in range(most) if one[at] != other[at])
    last = 0
    while last < most - first and one[-1 - last] == other[-1 - last]:
        last += 1
    return first, last


def node_of(content: bytes, page: int, usable: int) -> Node:
    """The page as a node. Raises `Tangled`."""
    at = FILE_HEADER_BYTES if page == 1 else 0
    try:
        kind = content[at]
        (count,) = struct.unpack_from(">H", content, at + 3)
        if kind not in (*INTERIOR, LEAF_INDEX, LEAF_TABLE):
            raise Tangled(f"page {page} is of unknown kind {kind}")
        is_interior = kind in INTERIOR
        starts = struct.unpack_from(f">{count}H", content, at + (12 if is_interior else 8))
        children: tuple[int, ...] = ()
        if is_interior:
            last = struct.unpack_from(">I", content, at + 8)
            children = (*(struct.unpack_from(">I", content, s)[0] for s in starts), *last)
    except (struct.error, IndexError) as error:
        raise Tangled(f"page {page} is damaged") from error
    return Node(content, at, kind, starts, children, usable)


def local_bytes(length: int, usable: int, *, is_table: bool) -> int:
    """How much of a payload is on the page of its cell."""
    most = most_local(usable, is_table=is_table)
    if length <= most:
        return length
    least = (usable - 12) * 32 // 255 - 23
    here = least + (length - least) % (usable - 4)
    return here if here <= most else least


def most_local(usable: int, *, is_table: bool) -> int:
    """The longest payload that is on the page of its cell as a whole."""
    return usable - 35 if is_table else (usable - 12) * 64 // 255 - 23


def chain_pages(local: bytes, rest: Rest, usable: int) -> int:
    """How many pages the rest of the payload takes."""
    return math.ceil((rest.length - len(local)) / (usable - 4))


def payload(local: bytes, rest: Rest, read: ReadPage, usable: int) -> bytes:
    """All of it; the chain is known to be as long as it has to be."""
    parts, left, page = [local], rest.length - len(local), rest.page
    while left > 0:
        content = read(page)
        parts.append(content[4 : min(usable, 4 + left)])
        left -= usable - 4
        (page,) = struct.unpack_from(">I", content)
    return b"".join(parts)


def varint(content: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and where the next thing begins."""
    value = 0
    for length in range(8):
        byte = content[at + length]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at + length + 1
    return value << 8 | content[at + 8], at + 9


def _varints(stored: Any, at: Any) -> tuple[Any, Any]:
    """The numbers that begin at these places, signed, and where the next things begin."""
    found = stored[at].astype(np.int64)
    values, more, at = found & 127, found >= 128, at + 1
    for length in range(2, 10):
        if not more.any():
            break
        found = stored[np.where(more, at, 0)].astype(np.int64)
        longer = values << 7 | found & 127 if length < 9 else values << 8 | found
        values, at = np.where(more, longer, values), at + more
        more = more & (found >= 128)
    return values, at


_NO_BYTES: Final = bytes(16)
"""After the page, so that a number at its very end can be read."""


def signed(value: int) -> int:
    """A number of 64 bits as SQLite understands row ids."""
    return value - 2**64 if value >= 2**63 else value


Value = tuple[int, int | float | bytes]
"""A stored value, in SQLite's order between the kinds: (0, 0) null, 1 numbers, 2 texts, 3 blobs."""
NULL: Final[Value] = (0, 0)
_WHOLE_BYTES: Final = (0, 1, 2, 3, 4, 6, 8)
_FLOAT: Final = 7
_CONSTANTS: Final = {0: NULL, 8: (1, 0), 9: (1, 1)}


def record(content: bytes) -> tuple[Value, ...]:
    """The values of a record that has no byte too many. Raises `Tangled`."""
    try:
        begin, at = varint(content, 0)
        found: list[Value] = []
        place = begin
        while at < begin:
            serial, at = varint(content, at)
            size = serial_bytes(serial)
            part = content[place : place + size]
            place += size
            if len(part) != size:
                raise Tangled("a record ends early")
            found.append(_value(serial, part))
    except IndexError as error:
        raise Tangled("a record ends early") from error
    if at != begin or place != len(content):
        raise Tangled("a record has bytes that are no value")
    return tuple(found)


def check_shape(local: bytes, length: int, most: int) -> None:
    """The record has at most so many values, and no byte too many. Raises `Tangled`."""
    try:
        begin, at = varint(local, 0)
        size, count = begin, 0
        while at < begin:
            serial, at = varint(local, at)
            size += serial_bytes(serial)
            count += 1
    except IndexError as error:
        raise Tangled("a record ends early") from error
    if at != begin or size != length or count > most:
        raise Tangled("a record has bytes that are no value")


def serial_bytes(serial: int) -> int:
    """The size of a value of that type. Raises `Tangled`."""
    if serial >= 12:
        return (serial - 12) // 2
    if serial in (10, 11):
        raise Tangled("a value is of a type that SQLite keeps for itself")
    return 8 if serial == _FLOAT else 0 if serial > _FLOAT else _WHOLE_BYTES[serial]


def _value(serial: int, part: bytes) -> Value:
    if serial >= 12:
        return (2 if serial % 2 else 3, part)
    if serial == _FLOAT:
        (number,) = struct.unpack(">d", part)
        if math.isnan(number):
            raise Tangled("a number is none")
        return (1, number)
    if serial in _CONSTANTS:
        return _CONSTANTS[serial]
    return (1, int.from_bytes(part, "big", signed=True))
