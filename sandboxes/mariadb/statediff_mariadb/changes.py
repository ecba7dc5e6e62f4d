"""Row changes of MariaDB's log: read as the types of a state have them, and put into a state.

A cell is read as the text that a query for it would give, and only where that text is known
exactly: from the type the log names, the type and the collation the catalogue declares. Anything
else is `Inexact`, and the table is in doubt; nothing is guessed. So a row of the log and a row of a
scan go through the same code from here on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from pymysqlreplication.constants import FIELD_TYPE

from statediff.capture.source import SourceUnavailable
from statediff.errors import StatediffError
from statediff.model.batches import Row
from statediff.model.patch import patched
from statediff.model.schema import EntityType
from statediff.model.state import Table
from statediff.model.values import key_order, printable, same
from statediff.systems.relational.schema import is_key
from statediff_mariadb.catalogue import Catalogue, Column, TableEntry
from statediff_mariadb.log import Kind, RowsChanged
from statediff_mariadb.source import Query

Cell = str | bytes | None
Image = dict[str, Cell]
"""One row as the log has it: column → its text, or its bytes where it is no text."""
_Read = Callable[["_Bytes"], Cell]

_ENCODINGS: Final = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    # Of these what is ASCII: elsewhere the server and Python do not map them alike.
    "ascii": "ascii",
    "latin1": "ascii",
    "latin2": "ascii",
    "cp1250": "ascii",
    "cp1251": "ascii",
}
_INTEGERS: Final = {
    FIELD_TYPE.TINY: (1, "tinyint"),
    FIELD_TYPE.SHORT: (2, "smallint"),
    FIELD_TYPE.INT24: (3, "mediumint"),
    FIELD_TYPE.LONG: (4, "int"),
    FIELD_TYPE.LONGLONG: (8, "bigint"),
}
_TEXTS: Final = frozenset(
    {
        "char",
        "varchar",
        "tinytext",
        "text",
        "mediumtext",
        "longtext",
        "json",
        "binary",
        "varbinary",
        "tinyblob",
        "blob",
        "mediumblob",
        "longblob",
    }
)
_FRACTION_BYTES: Final = (0, 1, 1, 2, 2, 3, 3)
_DECIMAL_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Inexact(StatediffError):
    """A cell or a row of the log whose value is not known exactly; the message says why."""


class _Bytes:
    """The bytes left of an event. Raises `Inexact` past its end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._content)

    def take(self, count: int) -> bytes:
        found = self._content[self._at : self._at + count]
        if len(found) < count:
            raise Inexact("a row in its log is cut off")
        self._at += count
        return found

    def little(self, count: int, *, is_signed: bool = False) -> int:
        return int.from_bytes(self.take(count), "little", signed=is_signed)

    def big(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")


class Layout:
    """How the rows of one table stand in the log, where its catalogue entry is known to hold.

    `columns` are those that the log says the table has. Raises `Inexact`.
    """

    def __init__(
        self, columns: list[Any], entry: TableEntry, collations: Mapping[str, str | None]
    ) -> None:
        self._readers: list[tuple[str, _Read]] = []
        known = {column.name: column for column in entry.columns}
        for column in columns:
            declared = known.pop(column.name, None)
            if declared is None:
                raise Inexact(
                    f"its log has a column of {printable(entry.name)} that is not its own"
                )
            self._readers.append(
                (declared.name, _reader(column, declared, collations.get(declared.name)))
            )
        missing = [column.name for column in known.values() if not column.is_virtual]
        if missing:
            raise Inexact(f"its log lacks the column {printable(missing[0])}")

    def images(self, content: bytes, bitmaps: tuple[bytes, ...]) -> Iterator[tuple[Image, ...]]:
        """The rows of an event, each as many images as there are bitmaps of present columns."""
        count = len(self._readers)
        for bitmap in bitmaps:
            if int.from_bytes(bitmap, "little") & ((1 << count) - 1) != (1 << count) - 1:
                raise Inexact("its log holds parts of rows only")
        rest = _Bytes(content)
        while not rest.is_at_end:
            yield tuple(self._image(rest, count) for _ in bitmaps)

    def _image(self, rest: _Bytes, count: int) -> Image:
        nulls = rest.little((count + 7) // 8)
        return {
            name: None if nulls >> at & 1 else read(rest)
            for at, (name, read) in enumerate(self._readers)
        }


def _reader(column: Any, declared: Column, collation: str | None) -> _Read:
    kind, declared_type = column.type, declared.data_type
    integer = _INTEGERS.get(kind)
    if integer is not None and integer[1] == declared_type:
        size, signed = integer[0], "unsigned" not in declared.declared
        return lambda rest: str(rest.little(size, is_signed=signed))
    if kind in (FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE) and "(" not in declared.declared:
        form, size = ("<f", 4) if kind == FIELD_TYPE.FLOAT else ("<d", 8)
        return lambda rest: repr(struct.unpack(form, rest.take(size))[0])
    if kind == FIELD_TYPE.NEWDECIMAL and declared_type == "decimal":
        return lambda rest: _decimal(rest, column.precision, column.decimals)
    if kind == FIELD_TYPE.BIT and declared_type == "bit":
        return lambda rest: rest.take(column.bytes)
    if kind in (FIELD_TYPE.ENUM, FIELD_TYPE.SET):
        return _choice(column, collation)
    if kind in (FIELD_TYPE.VARCHAR, FIELD_TYPE.STRING, FIELD_TYPE.VAR_STRING, FIELD_TYPE.BLOB):
        return _string(column, declared, collation)
    timed = _TIMES.get(kind)
    if timed is not None and timed[0] == declared_type:
        read = timed[1]
        return lambda rest: read(rest, getattr(column, "fsp", 0))
    raise Inexact(f"the log does not tell exactly what a {printable(declared_type)} holds")


def _string(column: Any, declared: Column, collation: str | None) -> _Read:
    if declared.data_type not in _TEXTS:
        raise Inexact(f"the log does not tell exactly what a {printable(declared.data_type)} holds")
    size = column.length_size if column.type == FIELD_TYPE.BLOB else 1 + (column.max_length > 255)
    if collation is None:
        # The log leaves out the zeros that fill up a BINARY.
        width = column.max_length if declared.data_type == "binary" else 0
        return lambda rest: rest.take(rest.little(size)).ljust(width, b"\0")
    encoding = _encoding(collation)

    def read(rest: _Bytes) -> str:
        try:
            return rest.take(rest.little(size)).decode(encoding)
        except UnicodeDecodeError as error:
            raise Inexact(f"a text in {collation} is not read from the log") from error

    return read


def _encoding(collation: str | None) -> str:
    name = str(collation).partition("_")[0]
    if name not in _ENCODINGS:
        raise Inexact(f"texts in {printable(name)} are not read from the log")
    return _ENCODINGS[name]


def _choice(column: Any, collation: str | None) -> _Read:
    _encoding(collation)  # the names of the choices are in the column's own encoding
    if column.type == FIELD_TYPE.ENUM:
        names = column.enum_values or []

        def read(rest: _Bytes) -> str:
            number = rest.little(column.size)
            if number >= len(names) or (number and not names[number]):
                raise Inexact("a choice in its log has no name")
            return str(names[number])

        return read
    members = column.set_values or []
    if not all(members):
        raise Inexact("a choice in its log has no name")

    def read_set(rest: _Bytes) -> str:
        mask = rest.little(column.size)
        if mask >> len(members):
            raise Inexact("a choice in its log has no name")
        return ",".join(name for at, name in enumerate(members) if mask >> at & 1)

    return read_set


def _decimal(rest: _Bytes, precision: int, scale: int) -> str:
    """Digits in groups of nine, the first and the last group shorter; a negative is inverted."""
    whole = precision - scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    sizes = [_DECIMAL_BYTES[digits] for digits in groups]
    content = bytearray(rest.take(sum(sizes)))
    is_negative = not content[0] & 0x80
    content[0] ^= 0x80
    if is_negative:
        content = bytearray(byte ^ 0xFF for byte in content)
    digits, at = "", 0
    for count, size in zip(groups, sizes, strict=True):
        number = int.from_bytes(content[at : at + size], "big")
        digits += f"{number:0{count}d}" if count else ""
        at += size
    if not digits.isdecimal() or len(digits) != precision:
        raise Inexact("a decimal in its log is none")
    return str(Decimal((int(is_negative), tuple(map(int, digits)), -scale)))


def _date(rest: _Bytes, _: int) -> str:
    packed = rest.little(3)
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}"


def _year(rest: _Bytes, _: int) -> str:
    number = rest.little(1)
    return str(number + 1900) if number else "0"


def _datetime(rest: _Bytes, digits: int) -> str:
    packed = rest.big(5) - 0x8000000000
    if packed < 0:
        raise Inexact("a point in time in its log is none")
    months = packed >> 22
    return (
        f"{months // 13:04d}-{months % 13:02d}-{packed >> 17 & 31:02d}"
        f" {packed >> 12 & 31:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"
        f"{_fraction(rest.big(_FRACTION_BYTES[digits]), digits)}"
    )


def _timestamp(rest: _Bytes, digits: int) -> str:
    seconds = rest.big(4)
    fraction = _fraction(rest.big(_FRACTION_BYTES[digits]), digits)
    if not seconds:
        return "0000-00-00 00:00:00" + fraction
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}{fraction}"


def _time(rest: _Bytes, digits: int) -> str:
    size = _FRACTION_BYTES[digits]
    packed = rest.big(3 + size) - (0x80 << 8 * (2 + size))
    whole, part = divmod(abs(packed), 1 << 8 * size)
    sign = "-" if packed < 0 else ""
    return (
        f"{sign}{whole >> 12 & 1023:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}"
        f"{_fraction(part, digits)}"
    )


def _fraction(number: int, digits: int) -> str:
    """Fractions of odd length are kept with one digit more, a zero."""
    if not digits:
        return ""
    return "." + f"{number:0{digits + digits % 2}d}"[:digits]


_TIMES: Final[dict[int, tuple[str, Callable[[_Bytes, int], str]]]] = {
    FIELD_TYPE.DATE: ("date", _date),
    FIELD_TYPE.YEAR: ("year", _year),
    FIELD_TYPE.DATETIME2: ("datetime", _datetime),
    FIELD_TYPE.TIMESTAMP2: ("timestamp", _timestamp),
    FIELD_TYPE.TIME2: ("time", _time),
}


MOVED: Final = "its log does not fit the state that was read"


class Cascade(NamedTuple):
    """A foreign key whose rows follow those they refer to, which the log of rows does not tell."""

    child: str
    child_columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    on_delete: bool
    on_update: bool


class Change(NamedTuple):
    """One row as it was and as it is then; None where there is none."""

    old: Row | None
    new: Row | None


def read_changes(
    database: str, rows: RowsChanged, entity_type: EntityType, catalogue: Catalogue
) -> list[Change]:
    """The rows of an event as a scan would have read them. Raises `Inexact`."""
    entry = catalogue.tables.get(rows.table)
    if entry is None or entry.unreadable is not None:
        raise Inexact("its table is not one whose rows can be read")
    if not entity_type.is_keyless and any(
        entry.column(entity_type.by_name[k].source_column) is None for k in entity_type.key
    ):
        raise Inexact("its key is another one")
    collations = {
        str(row["name"]): None if row["collation"] is None else str(row["collation"])
        for row in catalogue.objects["db.column"]
        if row["table"] == rows.table
    }
    kinds = {row["name"]: row["kind"] for row in catalogue.objects["db.table"]}
    if kinds.get(rows.table) != "table":
        raise Inexact("its old rows are kept beside the present ones")
    layout = Layout(rows.columns, entry, collations)
    query = Query(database, entity_type, entry)
    found: list[Change] = []
    for images in layout.images(rows.content, rows.bitmaps):
        made = [_row(query, entity_type, image) for image in images]
        match rows.kind:
            case Kind.WRITE:
                found.append(Change(None, made[0]))
            case Kind.DELETE:
                found.append(Change(made[0], None))
            case Kind.UPDATE:
                found.append(Change(made[0], made[1]))
    return found


def _row(query: Query, entity_type: EntityType, image: Image) -> Row:
    cells = [image[column.name] for column in query.columns]
    sizes: list[int | None] = []
    digests: list[str | None] = []
    for guarded in query.guarded:
        cell = image[guarded.column.name]
        content = cell.encode() if isinstance(cell, str) else cell
        sizes.append(None if content is None else len(content))
        digests.append(None if cell is None else guarded.digest_of(cell))
    row = query.row((*cells, *sizes, *digests))
    if not all(is_key(row[name]) for name in entity_type.key):
        raise Inexact("a row has a key beyond the capture limit")
    return row


def applied(table: Table, changes: Sequence[Change]) -> Table:
    """The table after the changes, in their order. Raises `SourceUnavailable`."""
    try:
        if table.type.is_keyless:
            gone = [c.old for c in changes if c.old is not None]
            come = [c.new for c in changes if c.new is not None]
        else:
            gone, come = _net(table.type, changes)
        return patched(table, gone, come)
    except ValueError as error:
        raise SourceUnavailable(f"{MOVED}: {printable(str(error))}") from error


def _net(entity_type: EntityType, changes: Iterable[Change]) -> tuple[list[Row], list[Row]]:
    """The changed rows as they were there before, and as they are there afterwards."""
    first: dict[Any, Row | None] = {}
    last: dict[Any, Row | None] = {}
    for change in changes:
        for row, is_new in ((change.old, False), (change.new, True)):
            if row is None:
                continue
            order = key_order(tuple(row[name] for name in entity_type.key))  # type: ignore[misc]  # keys are values
            there = last.get(order)
            if order not in first:
                first[order] = None if is_new else row
            elif (there is not None) if is_new else (there is None or not _equal(there, row)):
                raise ValueError(f"a row of {entity_type.name} changes into another one")
            last[order] = row if is_new else None
    gone = [row for row in first.values() if row is not None]
    return gone, [row for row in last.values() if row is not None]


def _equal(one: Row, other: Row) -> bool:
    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


def gone_of(parent: EntityType, key: Cascade, found: Iterable[Change]) -> list[tuple[Any, ...]]:
    """The values that rows may have referred to and that are no longer there after the changes."""
    fields = _fields(parent, key.parent_columns)
    gone = []
    for change in found:
        if change.old is None:
            continue
        old = tuple(change.old.get(name) for name in fields)
        new = None if change.new is None else tuple(change.new.get(name) for name in fields)
        is_whole = len(fields) == len(key.parent_columns)
        if new is None or not is_whole or not all(map(same, old, new)):
            gone.append(old)
    return gone


def may_follow(
    child: EntityType,
    key: Cascade,
    gone: Iterable[tuple[Any, ...]],
    known: Table,
    changes: Sequence[Change],
) -> bool:
    """True if a row of the child's may refer to one of what is gone."""
    fields = _fields(child, key.child_columns)
    wanted = list(gone)
    present = applied(known, changes) if changes else known
    return any(
        all(map(_may_be, (row[name] for name in fields), values))
        for _, row in present.rows(fields)
        for values in wanted
    )


def _may_be(one: Any, other: Any) -> bool:
    """True if the server may take two values for equal; of texts, nobody but itself can say."""
    if one is None or other is None:
        return False
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return True


def _fields(entity_type: EntityType, columns: Iterable[str]) -> tuple[str, ...]:
    by_column = {f.source_column: f.name for f in entity_type.fields}
    return tuple(by_column[c] for c in columns if c in by_column)
