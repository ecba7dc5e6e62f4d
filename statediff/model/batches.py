"""Rows as Arrow record batches in *normal form*, and what names one: the digest of its content.

Columns whose values all have the declared kind are stored natively; any other column (mixed
kinds, lists, maps, markers, integers beyond 64 bits) is *tagged*: each cell holds the JSON of
`values.encode`. Decimals are stored as text, so that scale survives.
"""

from __future__ import annotations

import bisect
import json
import weakref
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import blake3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statediff.model.schema import EntityType, Kind
from statediff.model.values import ABSENT, Key, Observed, decode, encode, key_order

Row = dict[str, Observed]
"""One entity: field name → what is observed of it."""

_ARROW: Final[dict[Kind, pa.DataType]] = {
    Kind.BOOL: pa.bool_(),
    Kind.INT: pa.int64(),
    Kind.DECIMAL: pa.string(),
    Kind.FLOAT: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.JSON: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.LOCAL_TIMESTAMP: pa.timestamp("us"),
    Kind.DATE: pa.date32(),
}
NATIVE: Final[dict[Kind, type]] = {
    Kind.BOOL: bool,
    Kind.INT: int,
    Kind.DECIMAL: Decimal,
    Kind.FLOAT: float,
    Kind.TEXT: str,
    Kind.JSON: str,
    Kind.BYTES: bytes,
    Kind.TIMESTAMP: datetime,
    Kind.LOCAL_TIMESTAMP: datetime,
    Kind.DATE: date,
}
TAGGED: Final = "tagged"
"""The form of a column that cannot be stored natively."""
_UNOBSERVED_PREFIX: Final = b'["unobserved",'
_FORM: Final = b"statediff.form"
_DECIMAL, _TIMESTAMP = Kind.DECIMAL.value, Kind.TIMESTAMP.value
_KEYLESS: Final = "keyless"
_DECODED: Final = {TAGGED, _KEYLESS}
"""The forms whose cells stand for more than one value."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_JOINED_BYTES: Final = 4 * 1024 * 1024
"""A chunk of no more than this is hashed in one piece."""

_INTEGERS: Final = 2**63
KEYLESS_KEY: Final = "#"
"""Name of the internal key column of a keyless type: (content digest, occurrence)."""


def encode_rows(
    entity_type: EntityType,
    rows: Iterable[tuple[Key, Mapping[str, Observed]]],
    without: Container[str] = (),
) -> pa.RecordBatch:
    """The rows, already sorted, as one record batch in normal form, without some of the fields."""
    pairs = list(rows)
    specs = [spec for spec in entity_type.fields if spec.name not in without]
    if not pairs:
        return _empty(tuple((spec.name, spec.kind) for spec in specs), entity_type.is_keyless)
    columns = [
        (spec.name, *encode_column(spec.kind, [row[spec.name] for _, row in pairs]))
        for spec in specs
    ]
    if entity_type.is_keyless:
        columns.insert(0, _keys([f"{k[0]!s}#{k[1]!s}" for k, _ in pairs]))
    return batch_of(columns)


def _keys(keys: list[str]) -> tuple[str, pa.Array, str]:
    return KEYLESS_KEY, pa.array(keys, pa.string()), _KEYLESS


@lru_cache(maxsize=1024)  # most databases have many empty tables
def _empty(fields: tuple[tuple[str, Kind], ...], is_keyless: bool) -> pa.RecordBatch:
    columns = [(name, *encode_column(kind, ())) for name, kind in fields]
    return batch_of([_keys([]), *columns] if is_keyless else columns)


def batch_of(columns: Sequence[tuple[str, pa.Array, str]]) -> pa.RecordBatch:
    """A batch in normal form of columns, each with its name and the name of its form."""
    fields = [pa.field(name, array.type, metadata={_FORM: form}) for name, array, form in columns]
    return pa.RecordBatch.from_arrays([array for _, array, _ in columns], schema=pa.schema(fields))


def encode_column(kind: Kind, values: Sequence[Observed]) -> tuple[pa.Array, str]:
    """One column of a chunk and the name of its form: native where every value has the kind."""
    wanted = NATIVE.get(kind)
    if wanted is not None and set(map(type, values)) <= {wanted, type(None)}:
        if kind is Kind.DECIMAL:
            return pa.array(
                [None if v is None else str(v) for v in values], pa.string()
            ), kind.value
        zoned = kind is Kind.TIMESTAMP
        if kind not in (Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP) or all(
            v is None or (v.tzinfo is not None) == zoned  # type: ignore[union-attr]  # datetimes here
            for v in values
        ):
            try:
                return pa.array(values, _ARROW[kind]), kind.value
            except (OverflowError, pa.ArrowInvalid, UnicodeEncodeError):
                pass  # beyond the native range: tagged below
    return tagged_column(values), TAGGED


_written: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_NULL: Final = _written(encode(None)).encode()


def tagged_column(values: Iterable[Observed]) -> pa.Array:
    """The observations in tagged form: the JSON of `values.encode`, one cell each."""
    cells = [_NULL if v is None else _written(encode(v)).encode() for v in values]
    return pa.array(cells, pa.binary())


def decode_column(array: pa.Array, form: str) -> list[Any]:
    """The observations of a column that is stored in a form, in their order."""
    values: list[Any] = array.to_pylist()
    if form == TAGGED:
        return [decode(json.loads(v)) for v in values]
    if form == _DECIMAL:
        return [None if v is None else Decimal(v) for v in values]
    if form == _TIMESTAMP:
        return [None if v is None else v.astimezone(UTC) for v in values]
    if form == _KEYLESS:
        return [(d, int(n)) for d, _, n in (v.partition("#") for v in values)]
    return values


def decode_cell(array: pa.Array, index: int, form: str) -> Any:
    """The observation in one cell of a column that is stored in a form."""
    return decode_cells(array, (index,), form)[0]


def decode_cells(array: pa.Array, indexes: Iterable[int], form: str) -> list[Any]:
    """The observations in a few cells of a column, without decoding the others."""
    if form in _DECODED:
        return decode_column(array.take(pa.array(indexes, pa.int64())), form)
    found: list[Any] = []
    for index in indexes:
        cell = array[index]
        if form == _TIMESTAMP:
            passed = cell.value  # the library looks a zone up for every one
            found.append(None if passed is None else _EPOCH + passed * _MICROSECOND)
        else:
            known = cell.as_py()
            found.append(Decimal(known) if form == _DECIMAL and known is not None else known)
    return found


def form_of(batch: pa.RecordBatch, index: int) -> str:
    """How a column's cells are stored: a kind's name, `tagged` or `keyless`."""
    return layout_of(batch.schema).heads[index].form


def batch_columns(batch: pa.RecordBatch, names: tuple[str, ...]) -> list[list[Any]]:
    """The named columns, decoded to observations, in the order of `names`.

    A column the batch lacks is absent throughout: a migration may have added the field later.
    """
    indexes = [batch.schema.get_field_index(name) for name in names]
    return [
        [ABSENT] * batch.num_rows if i < 0 else decode_column(batch.column(i), form_of(batch, i))
        for i in indexes
    ]


def batch_keys(entity_type: EntityType, batch: pa.RecordBatch) -> list[Key]:
    """The keys of a batch, in its (sorted) order."""
    if entity_type.is_keyless:
        return list(batch_columns(batch, (KEYLESS_KEY,))[0])
    return list(zip(*batch_columns(batch, entity_type.key), strict=True))


class BatchKeys(Sequence[Key]):
    """The keys of a batch in their order, each decoded only when it is asked for."""

    def __init__(self, entity_type: EntityType, batch: pa.RecordBatch) -> None:
        self._is_keyless = entity_type.is_keyless
        self._count = batch.num_rows
        self._columns: list[tuple[pa.Array | None, str]] = []
        heads = layout_of(batch.schema).heads
        for name in entity_type.key or (KEYLESS_KEY,):
            index = batch.schema.get_field_index(name)
            column = None if index < 0 else batch.column(index)
            self._columns.append((column, "" if column is None else heads[index].form))
        (first, form), *others = self._columns
        self._numbers: Any = None
        if first is not None and form == Kind.INT.value and not others and not first.null_count:
            self._numbers = first.to_numpy()

    def __len__(self) -> int:
        return int(self._count)

    def __getitem__(self, index: Any) -> Any:
        if self._numbers is not None:
            return (int(self._numbers[index]),)
        cells = tuple(
            ABSENT if column is None else decode_cell(column, index, form)
            for column, form in self._columns
        )
        return cells[0] if self._is_keyless else cells

    def place(self, key: Key) -> int:
        """The number of keys that come before it."""
        if self._numbers is not None and type(key[0]) is int and abs(key[0]) < _INTEGERS:
            return int(self._numbers.searchsorted(key[0]))
        return bisect.bisect_left(self, key_order(key), key=key_order)

    def find(self, key: Key) -> int | None:
        """The position of the key; None where it is not there."""
        at = self.place(key)
        return at if at < self._count and key_order(self[at]) == key_order(key) else None


def batch_rows(
    entity_type: EntityType, batch: pa.RecordBatch, fields: tuple[str, ...] | None
) -> Iterator[tuple[Key, Row]]:
    """The rows of a batch with their keys; only the named fields when given."""
    names = tuple(f.name for f in entity_type.fields) if fields is None else fields
    columns = dict(zip(names, batch_columns(batch, names), strict=True))
    if entity_type.key and columns.keys() >= set(entity_type.key):
        keys: Iterable[Key] = zip(*(columns[name] for name in entity_type.key), strict=True)
    else:
        keys = batch_keys(entity_type, batch)
    for at, key in enumerate(keys):
        yield key, {name: column[at] for name, column in columns.items()}


def unobserved_cells(batch: pa.RecordBatch, index: int) -> pa.Array:
    """Which cells of a tagged column are `Unobserved`, as booleans."""
    return pc.starts_with(batch.column(index), pattern=_UNOBSERVED_PREFIX)


@dataclass(frozen=True)
class BatchFacts:
    """The facts that a chunk store states of a batch."""

    digest: str
    is_fully_observed: bool
    """True if no cell of the batch is `Unobserved`."""


_facts: dict[int, tuple[weakref.ref[pa.RecordBatch], BatchFacts]] = {}
"""By the identity of a batch, as long as there is one: nothing ever changes it."""


def facts_of(batch: pa.RecordBatch) -> BatchFacts:
    """The facts of the batch; of the same object they are worked out once."""
    at = id(batch)
    found = _facts.get(at)
    if found is None or found[0]() is not batch:
        facts = BatchFacts(batch_digest(batch), is_fully_observed(batch))
        found = _facts[at] = weakref.ref(batch, lambda _: _facts.pop(at, None)), facts
    return found[1]


def is_fully_observed(batch: pa.RecordBatch) -> bool:
    """True if no cell of the batch is `Unobserved`."""
    tagged = layout_of(batch.schema).tagged
    return not any(pc.any(unobserved_cells(batch, index)).as_py() for index in tagged)


def batch_digest(batch: pa.RecordBatch) -> str:
    """BLAKE3 over names, forms and normalised buffers: the same rows give the same digest."""
    rows = batch.num_rows
    parts: list[bytes | memoryview] = []
    for index, head in enumerate(layout_of(batch.schema).heads):
        array = batch.column(index)
        parts.append(b"%b, %d, %d]" % (head.start, rows, array.null_count))
        for buffer in _normal_buffers(array, head):
            parts.append(buffer.nbytes.to_bytes(8, "little"))
            parts.append(buffer)
    hasher = blake3.blake3()
    # In one piece: the hash goes through that twice as fast as through many.
    for piece in [b"".join(parts)] if batch.nbytes <= _JOINED_BYTES else parts:
        hasher.update(piece)
    return hasher.hexdigest()


@dataclass(frozen=True)
class Head:
    """The head of a column, before its cells."""

    name: str
    form: str
    start: bytes
    """How the JSON of its name, form and type begins."""
    width: int
    """Bytes of a value, or of where one lies; 0 of a bit."""
    is_number: bool
    """True where its cells have eight bytes each."""


@dataclass(frozen=True)
class Layout:
    """The layout of a batch: its columns in order, and by index those of floats and tagged ones."""

    heads: tuple[Head, ...]
    floats: tuple[int, ...]
    tagged: tuple[int, ...]


_LAYOUTS_KEPT: Final = 16
_layouts_seen: tuple[tuple[pa.Schema, Layout], ...] = ()
"""The last schemas asked about: mostly the next chunk is one of the same few tables."""


def layout_of(schema: pa.Schema) -> Layout:
    """The name, form and type of each column."""
    global _layouts_seen  # noqa: PLW0603 - replaced as a whole
    for seen, layout in _layouts_seen:
        if schema is seen or schema.equals(seen, check_metadata=True):
            return layout
    heads = tuple([_head(each.name, each.metadata[_FORM], each.type) for each in schema])
    floats = tuple([at for at, each in enumerate(schema) if each.type == _FLOAT])
    tagged = tuple([at for at, head in enumerate(heads) if head.form == TAGGED])
    layout = Layout(heads, floats, tagged)
    _layouts_seen = ((schema, layout), *_layouts_seen[: _LAYOUTS_KEPT - 1])
    return layout


@lru_cache(maxsize=4096)
def _head(name: str, form: bytes, kind: pa.DataType) -> Head:
    start = json.dumps([name, form.decode(), str(kind)])[:-1].encode()
    has_places = pa.types.is_string(kind) or pa.types.is_binary(kind)
    width = _OFFSET_BYTES if has_places else int(kind.bit_width) // 8
    return Head(name, form.decode(), start, width, kind in _NUMBERS)


def _normal_buffers(array: pa.Array, head: Head) -> list[memoryview]:
    """The buffers that carry the content: validity (if any null), then values or offsets and data.

    Of a slice only its own part, and zero wherever a slot is null or a bit belongs to no value.
    """
    length, start = len(array), array.offset
    views: list[memoryview] = []
    if array.null_count:
        flags = array.is_valid().to_numpy(zero_copy_only=False)
        views.append(_bitmap(flags))
        if head.is_number:
            # As whole numbers, so that whatever stood in a null slot, NaN too, becomes zero.
            numbers = np.frombuffer(array.buffers()[1], np.int64)
            filled = numbers[start : start + length] * flags
            return [*views, filled.view(np.uint8).data]
        array = pc.fill_null(array, _nothing(array.type))
        start = array.offset
    if not head.width:
        return [*views, _bitmap(array.to_numpy(zero_copy_only=False))]
    buffers = array.buffers()
    content = memoryview(b"") if buffers[-1] is None else memoryview(buffers[-1])
    if len(buffers) == _FIXED:
        return [*views, content[start * head.width : (start + length) * head.width]]
    if not length:
        return [*views, memoryview(bytes(4)), memoryview(b"")]
    offsets = np.frombuffer(buffers[1], np.int32, length + 1, _OFFSET_BYTES * start)
    first, end = int(offsets[0]), int(offsets[-1])
    own = offsets if first == 0 else offsets - first
    return [*views, own.view(np.uint8).data, content[first:end]]


_FLOAT: Final = pa.float64()
_NUMBERS: Final = (pa.int64(), _FLOAT)
"""Kinds whose cells have eight bytes each."""
_FIXED: Final = 2
"""Buffers of a column whose values are of one width."""
_OFFSET_BYTES: Final = 4


def _bitmap(flags: Any) -> memoryview:
    return memoryview(np.packbits(flags, bitorder="little").tobytes())


@lru_cache(maxsize=16)
def _nothing(kind: pa.DataType) -> pa.Scalar:
    """The content of a null slot; with its first scalar pyarrow imports pandas if there is one."""
    if pa.types.is_boolean(kind):
        return pa.scalar(False, kind)
    return pa.scalar(b"" if pa.types.is_string(kind) or pa.types.is_binary(kind) else 0, kind)
