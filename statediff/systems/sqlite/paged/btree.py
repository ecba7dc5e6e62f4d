"""Pages of SQLite's b-trees, byte by byte (sqlite.org/fileformat2, §1.5, §1.6 and §2.1).

What SQLite would not have written is `Tangled`; the message says what.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
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
_FEW_CELLS: Final = 8
"""So many cells of a page are read one by one, and of more than that so large a part of all."""
_MOST_LENGTH: Final = 2**63

ReadPage = Callable[[int], bytes]


class Tangled(Exception):
    """The pages are not what SQLite would have written; the message says which."""


class Rest(NamedTuple):
    """The part of a payload that is not on the page."""

    length: int
    """Bytes of the whole payload."""
    page: int
    """The first page of the rest."""


@dataclass(eq=False)
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

    @property
    def new(self) -> list[int]:
        """The places of the cells that are not known to have been on the page."""
        return [*range(len(self.sizes))] if self.kinship is None else self.kinship.new

    def gone(self, before: Cells) -> list[int]:
        """The places before of the cells that are not known to be on the page."""
        return [*range(len(before.sizes))] if self.kinship is None else self.kinship.gone


@dataclass(kw_only=True, eq=False)
class Kinship:
    """Which cells of a page are bytes that were in the same place of the page as it was."""

    new: list[int]
    """Places of the others, ascending."""
    gone: list[int]
    """Places before of those that did not stay."""
    loose: list[int]
    """Places whose cell did not precede the next one on the page as it was."""
    holders: Any
    """The place before of the cell that each byte was of, -1 of others, as an array."""

    @cached_property
    def _not_staying(self) -> frozenset[int]:
        return frozenset((-1, *self.gone))

    def has_one_in(self, start: int, end: int) -> bool:
        """True if a cell that stayed has one of these bytes; none is shorter than the step."""
        held = self.holders[start:end:_LEAST_BLOCK].tolist()
        return not self._not_staying.issuperset((*held, int(self.holders[end - 1])))


@dataclass(eq=False)
class Node:
    """A page of a tree."""

    content: bytes
    at: int
    """The place of its header: page 1 begins with that of the file."""
    kind: int
    starts: tuple[int, ...]
    children: tuple[int, ...]
    """The children of an interior node, one more than it has cells."""
    usable: int

    @property
    def is_of_table(self) -> bool:
        return self.kind in OF_TABLES

    @cached_property
    def places(self) -> Any:
        """The places at which its cells begin, as an array."""
        list_of = self.at + (12 if self.kind in INTERIOR else 8)
        found = np.frombuffer(self.content, ">u2", len(self.starts), list_of)
        return found.astype(np.int64)

    def cells(self, before: tuple[Node, Cells] | None = None) -> Cells:
        """Its cells in order. Raises `Tangled`.

        `before` is the page as it was, which they are compared with.
        """
        try:
            if self.kind == INTERIOR_TABLE:
                told = [varint(self.content, start + 4) for start in self.starts]
                sizes = [end - start for start, (_, end) in zip(self.starts, told, strict=True)]
                return Cells(sizes, [signed(key) for key, _ in told], [], {})
            is_alike = before is not None and before[0].kind == self.kind
            found = self._over(*before) if before is not None and is_alike else None
            return found or self._with_payloads(self.places)
        except (struct.error, IndexError) as error:
            raise Tangled("a cell is beyond its page") from error

    def _over(self, before: Node, cells: Cells) -> Cells | None:
        """The cells, where most are bytes that were in the same place; None where they are not."""
        differing = np.frombuffer(self.content, np.uint8) != np.frombuffer(before.content, np.uint8)
        holders = before.holders(cells)
        changed = {*holders[differing].tolist(), *cells.rests} - {-1}
        if len(changed) > max(_FEW_CELLS, len(self.starts) // _FEW_CELLS):
            return None
        begins, began = {*self.starts}, before.begins
        rewritten = {before.starts[at] for at in changed}
        fresh = begins.difference(began - rewritten)
        if len(fresh) > max(_FEW_CELLS, len(begins) // _FEW_CELLS):
            return None
        new = sorted(map(self.starts.index, fresh))
        gone = sorted(changed.union(map(before.starts.index, began - begins)))
        starts = [*before.starts]
        for at in reversed(gone):
            del starts[at]
        for at in new:
            starts.insert(at, self.starts[at])
        if (*starts,) != self.starts:
            return None  # those that stayed are in another order
        sizes, row_ids, locals_ = [*cells.sizes], [*cells.row_ids], [*cells.locals]
        for at in reversed(gone):
            for each in (sizes, locals_, *([row_ids] if row_ids else ())):
                del each[at]
        rests: dict[int, Rest] = {}
        for at in new:
            size, row_id, local, rest = self._cell(self.starts[at])
            sizes.insert(at, size)
            locals_.insert(at, local)
            if self.kind == LEAF_TABLE:
                row_ids.insert(at, row_id)
            if rest is not None:
                rests[at] = rest
        near = {at for place in new for at in (place - 1, place)}
        loose = sorted(near.intersection(range(len(sizes) - 1)))
        kinship = Kinship(new=new, gone=gone, loose=loose, holders=holders)
        return Cells(sizes, row_ids, locals_, rests, kinship)

    def _cell(self, begin: int) -> tuple[int, int, bytes, Rest | None]:
        """Size on the page, row id, the payload's part on the page and its rest, of one cell."""
        content, row_id, is_table = self.content, 0, self.kind == LEAF_TABLE
        length, at = varint(content, begin + (4 if self.kind == INTERIOR_INDEX else 0))
        if is_table:
            row_id, at = varint(content, at)
        if length >= _MOST_LENGTH:
            raise Tangled("a cell is beyond its page")
        end, rest = at + local_bytes(length, self.usable, is_table=is_table), None
        size = end - begin
        if end < at + length:
            rest = Rest(length, *struct.unpack_from(">I", content, end))
            size += 4
        return max(size, _LEAST_BLOCK), signed(row_id), content[at:end], rest

    @cached_property
    def begins(self) -> frozenset[int]:
        """The places at which its cells begin."""
        return frozenset(self.starts)

    def holders(self, cells: Cells) -> Any:
        """The place of the cell that each byte is of, -1 of others, as an array."""
        known = vars(self).get("_holders")
        if known is None:
            known = np.full(len(self.content), -1, np.int16)
            for place, (start, size) in enumerate(zip(self.starts, cells.sizes, strict=True)):
                known[start : start + size] = place
            vars(self)["_holders"] = known
        return known

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
        spans: dict[int, int] = {}
        used = sum(cells.sizes)
        while free:
            following, size = (
                struct.unpack_from(">HH", content, free) if free < len(content) - 3 else (0, 0)
            )
            if size < _LEAST_BLOCK or (following and following <= free + size + 3):
                raise Tangled("a free block is of no use")
            spans[free] = size
            used += size
            free = following
        if at + (12 if self.children else 8) + 2 * count > begin:
            raise Tangled("cells begin in their own list")
        kinship = cells.kinship
        # Cells that stayed in their place share no byte with each other.
        placed = [(self.starts[at], cells.sizes[at]) for at in cells.new]
        number = len(spans) + len(placed)
        spans.update(placed)
        starts = sorted(spans)
        ends = [*map(operator.add, starts, map(spans.__getitem__, starts))]
        if max(ends, default=begin) > self.usable or lost != self.usable - begin - used:
            raise Tangled("bytes of a page are in no cell")
        if (
            len(spans) != number
            or any(map(operator.gt, ends, starts[1:]))
            or (kinship is not None and any(map(kinship.has_one_in, starts, ends)))
            or min((*self.starts, *starts[:1]), default=begin) < begin
        ):
            raise Tangled("two cells share a byte")


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


class Pages:
    """The pages of a file at one moment, of which each node is parsed once."""

    def __init__(self, read: ReadPage, usable: int) -> None:
        self.read, self.usable = read, usable
        self._nodes: dict[int, Node] = {}

    def node(self, page: int) -> Node:
        """The page as a node. Raises `Tangled`."""
        found = self._nodes.get(page)
        if found is None:
            found = self._nodes[page] = node_of(self.read(page), page, self.usable)
        return found


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
_RESERVED: Final = frozenset({10, 11})
"""Types of values that SQLite keeps for itself."""
_SIZES: Final = (*_WHOLE_BYTES, 8, 0, 0, 0, 0, *(size for size in range(58) for _ in range(2)))
"""Bytes of a value of each type below 128."""


def record(content: bytes) -> tuple[Value, ...]:
    """The values of a record that has no byte too many. Raises `Tangled`."""
    found: list[Value] = []
    serials = content[1 : content[0]] if content else b""
    place = len(serials) + 1
    if (  # as in most, each number is one byte
        content
        and serials.isascii()
        and content[0] == place < 128
        and place + sum(map(_SIZES.__getitem__, serials)) == len(content)
        and _RESERVED.isdisjoint(serials)
    ):
        for serial in serials:
            end = place + _SIZES[serial]
            found.append(_value(serial, content[place:end]))
            place = end
        return tuple(found)
    try:
        begin, at = varint(content, 0)
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
    if serial in _RESERVED:
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
