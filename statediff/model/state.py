"""State as columnar, chunked, content-addressed tables handled as iterators.

Each entity type is one `Table`: rows sorted by key (`values.key_order`), cut into chunks by key
range. The cut points (`partition`) are chosen once, from the base, and reused by every later
capture of the same source, so that a change touches only its own chunk. A chunk is an Arrow
record batch in *normal form* and is named by the BLAKE3 digest of its content; equal digests mean
equal rows. Chunks live in a `ChunkStore`; a `Table` holds only their references.

Columns whose values all have the declared kind are stored natively; any other column (mixed
kinds, lists, maps, markers, integers beyond 64 bits) is *tagged*: each cell holds the JSON of
`values.encode`. Decimals are stored as text, so that scale survives.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any, Final, Protocol

import blake3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.values import ABSENT, Key, Observed, decode, encode, key_order

CHUNK_KEYS: Final = 4096
"""Keys per chunk when a partition is first chosen."""

CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Bytes of text and binary after which a chunk ends all the same: wide values make short chunks."""

CHUNKS_KEPT: Final = 32
"""Chunks of a table whose keys stay decoded between look-ups of single entities."""

ROWS_KEPT: Final = 256
"""Entities of a table that stay decoded: many clauses look the same ones up."""

Row = dict[str, Observed]
"""One entity: field name → what is observed of it."""

_ARROW: Final[dict[Kind, pa.DataType]] = {
    Kind.BOOL: pa.bool_(),
    Kind.INT: pa.int64(),
    Kind.DECIMAL: pa.string(),
    Kind.FLOAT: pa.float64(),
    Kind.TEXT: pa.string(),
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
    Kind.BYTES: bytes,
    Kind.TIMESTAMP: datetime,
    Kind.LOCAL_TIMESTAMP: datetime,
    Kind.DATE: date,
}
TAGGED: Final = "tagged"
"""The form of a column that cannot be stored natively."""
_UNOBSERVED_PREFIX: Final = b'["unobserved",'
_FORM: Final = b"statediff.form"


class Coverage(Enum):
    """How much of a type was enumerated."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNOBSERVED = "unobserved"


@dataclass(frozen=True)
class Enumeration:
    """How completely the entities of a type were enumerated; only COMPLETE makes absence known."""

    coverage: Coverage
    cause: str = ""

    @property
    def is_complete(self) -> bool:
        return self.coverage is Coverage.COMPLETE


COMPLETE: Final = Enumeration(Coverage.COMPLETE)


@dataclass(frozen=True)
class ChunkRef:
    """A chunk by content: `digest` (BLAKE3, hex) and how many rows it holds.

    `is_fully_observed` says that no cell is `Unobserved`: two equal chunks then hold no doubt, and
    a comparison need not load them. False is always safe; `is_fully_observed(batch)` tells.
    """

    digest: str
    rows: int
    is_fully_observed: bool = field(default=False, compare=False)


class ChunkStore(Protocol):
    """Where chunks live. `get` raises `StorageError` when a chunk is missing or damaged."""

    def put(self, batch: pa.RecordBatch) -> ChunkRef: ...

    def get(self, ref: ChunkRef) -> pa.RecordBatch: ...


class MemoryChunks:
    """A chunk store in memory. `piece` gives a chunk in one piece: comparing two is one memcmp."""

    def __init__(self) -> None:
        self._batches: dict[str, pa.RecordBatch] = {}
        self._pieces: dict[str, tuple[pa.Buffer, pa.Schema]] = {}
        self._schemas: dict[bytes, pa.Schema] = {}

    def put(self, batch: pa.RecordBatch) -> ChunkRef:
        digest = batch_digest(batch)
        if digest not in self._batches:
            self._batches[digest] = batch
            if batch.get_total_buffer_size() > _SPARE * batch.nbytes:
                self._in_one_piece(digest)  # a slice would hold all it was cut from
        return ChunkRef(digest, batch.num_rows, is_fully_observed(batch))

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        return self._batches[ref.digest]

    def piece(self, ref: ChunkRef) -> tuple[pa.Buffer, pa.Schema]:
        """The chunk's message in one piece; equal pieces under one schema are equal chunks."""
        if ref.digest not in self._pieces:
            self._in_one_piece(ref.digest)
        return self._pieces[ref.digest]

    def _in_one_piece(self, digest: str) -> None:
        batch = self._batches[digest]
        piece, schema = batch.serialize(), batch.schema
        # One object for equal schemas: telling them apart is then free for most chunks.
        schema = self._schemas.setdefault(schema.serialize().to_pybytes(), schema)
        self._pieces[digest] = piece, schema
        self._batches[digest] = pa.ipc.read_record_batch(piece, schema)


_JOINED_BYTES: Final = 4 * 1024 * 1024
"""A chunk of no more than this is hashed in one piece."""
_SPARE: Final = 1.25
"""How much more memory than its own a batch may hold while it lies in a store."""


@dataclass(frozen=True)
class Table:
    """All captured entities of one type.

    `chunks[i]` holds the keys below `partition[i]` (in `key_order`) and not below
    `partition[i - 1]`; there is one chunk more than cut points.
    """

    type: EntityType
    chunks: tuple[ChunkRef, ...]
    partition: tuple[Key, ...]
    store: ChunkStore = field(repr=False, compare=False)
    enumeration: Enumeration = COMPLETE

    @property
    def row_count(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return (self.store.get(ref) for ref in self.chunks)

    def rows(self, fields: tuple[str, ...] | None = None) -> Iterator[tuple[Key, Row]]:
        """Every entity in key order, with all fields or only the named ones."""
        for batch in self.batches():
            yield from batch_rows(self.type, batch, fields)

    def row(self, key: Key) -> Row | None:
        """The entity under `key`, or None when no row is stored (see `enumeration`)."""
        order = key_order(key)
        known = self._rows_seen.get(order)
        if known is not None:
            return dict(known)
        ref = self.chunks[bisect.bisect_right(self.cuts, order)]
        batch = self.store.get(ref)
        orders = self._orders(ref, batch)
        at = bisect.bisect_left(orders, order)
        if at == len(orders) or orders[at] != order:
            return None
        found = next(batch_rows(self.type, batch.slice(at, 1), None))[1]
        if len(self._rows_seen) >= ROWS_KEPT:
            self._rows_seen.clear()
        self._rows_seen[order] = found
        return dict(found)

    def lone_row(self, key: Key) -> Row | None:
        """The same, without keeping the order of a chunk's keys: for one state of many."""
        order = key_order(key)
        batch = self.store.get(self.chunks[bisect.bisect_right(self.cuts, order)])

        def order_at(at: int) -> tuple[Any, ...]:
            return key_order(batch_keys(self.type, batch.slice(at, 1))[0])

        at = bisect.bisect_left(range(batch.num_rows), order, key=order_at)
        if at < batch.num_rows and order_at(at) == order:
            return next(batch_rows(self.type, batch.slice(at, 1), None))[1]
        return None

    @cached_property
    def cuts(self) -> list[tuple[Any, ...]]:
        """The order of each cut point."""
        return [key_order(cut) for cut in self.partition]

    @cached_property
    def _rows_seen(self) -> dict[tuple[Any, ...], Row]:
        return {}

    @cached_property
    def _orders_seen(self) -> dict[str, list[tuple[Any, ...]]]:
        return {}

    def _orders(self, ref: ChunkRef, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """The order of every key of a chunk; kept for the last few chunks that were asked."""
        seen = self._orders_seen
        found = seen.pop(ref.digest, None)
        if found is None:
            found = [key_order(key) for key in batch_keys(self.type, batch)]
        seen[ref.digest] = found
        if len(seen) > CHUNKS_KEPT:
            del seen[next(iter(seen))]
        return found

    def unobserved(self, cause: str) -> Table:
        """The same type with nothing known of it."""
        return replace(self, enumeration=Enumeration(Coverage.UNOBSERVED, cause))


@dataclass(frozen=True)
class State:
    """A typed graph [SSD eq. 1] in columnar form: one table per entity type of the schema."""

    schema: Schema
    tables: Mapping[str, Table]

    def digest(self) -> str:
        """One BLAKE3 digest of everything in the state, independent of where chunks are stored."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        hasher = blake3.blake3()
        for name in sorted(self.tables):
            table = self.tables[name]
            part = [
                name,
                table.enumeration.coverage.value,
                [c.digest for c in table.chunks if c.rows],
            ]
            hasher.update(json.dumps(part).encode())
        return hasher.hexdigest()

    @property
    def entity_count(self) -> int:
        return sum(t.row_count for t in self.tables.values())


KEYLESS_KEY: Final = "#"
"""Name of the internal key column of a keyless type: (content digest, occurrence)."""


def build_table(
    entity_type: EntityType,
    rows: Iterable[Mapping[str, Observed]],
    store: ChunkStore,
    *,
    like: Table | None = None,
    enumeration: Enumeration = COMPLETE,
    is_sorted: bool = False,
) -> Table:
    """The rows as a table, cut like `like`, else every `CHUNK_KEYS` keys or `CHUNK_BYTES` bytes.

    Rows of a keyless type get the key (digest of the row, occurrence), so that equal rows are
    counted. Unless `is_sorted`, all rows are held in memory once, to be sorted by key; sorted rows
    are consumed as a stream. Raises `ValueError` on a duplicate key or, with `is_sorted`, on a key
    out of order.
    """
    keyed: Iterable[tuple[Key, Mapping[str, Observed]]]
    if entity_type.is_keyless:
        keyed = _count_keyless(rows)
    else:
        keyed = ((_key_of(entity_type, row), row) for row in rows)
        if not is_sorted:
            keyed = sorted(keyed, key=lambda pair: key_order(pair[0]))
    cuts = None if like is None else [key_order(cut) for cut in like.partition]
    chunks: list[ChunkRef] = []
    partition: list[Key] = []
    pending: list[tuple[Key, Mapping[str, Observed]]] = []
    previous: tuple[Any, ...] | None = None
    size = 0

    def flush() -> None:
        nonlocal size
        chunks.append(store.put(encode_rows(entity_type, pending)))
        pending.clear()
        size = 0

    for key, row in keyed:
        order = key_order(key)
        if previous is not None and order <= previous:
            reason = "duplicate key" if order == previous else "key out of order"
            raise ValueError(f"{reason} {key!r} in {entity_type.name}")
        previous = order
        if cuts is None:
            if len(pending) == CHUNK_KEYS or size >= CHUNK_BYTES:
                partition.append(key)
                flush()
            size += sum(len(v) for v in row.values() if isinstance(v, str | bytes))
        else:
            while len(chunks) < len(cuts) and order >= cuts[len(chunks)]:
                flush()
        pending.append((key, row))
    flush()
    if cuts is not None and like is not None:
        while len(chunks) <= len(cuts):
            flush()
        partition = list(like.partition)
    return Table(entity_type, tuple(chunks), tuple(partition), store, enumeration)


def _key_of(entity_type: EntityType, row: Mapping[str, Observed]) -> Key:
    return tuple(row[name] for name in entity_type.key)  # type: ignore[misc]  # keys are values


def row_digest(row: Mapping[str, Observed]) -> str:
    """The content of a row of a keyless type, which is the first part of its key."""
    content = json.dumps([[n, encode(row[n])] for n in sorted(row)], ensure_ascii=True)
    return blake3.blake3(content.encode()).hexdigest(16)


def _count_keyless(
    rows: Iterable[Mapping[str, Observed]],
) -> list[tuple[Key, Mapping[str, Observed]]]:
    seen: dict[str, int] = {}
    keyed: list[tuple[Key, Mapping[str, Observed]]] = []
    for row in rows:
        digest = row_digest(row)
        occurrence = seen[digest] = seen.get(digest, 0) + 1
        keyed.append(((digest, occurrence), row))
    return sorted(keyed, key=lambda pair: key_order(pair[0]))


def encode_rows(
    entity_type: EntityType, rows: Iterable[tuple[Key, Mapping[str, Observed]]]
) -> pa.RecordBatch:
    """The rows, already sorted, as one record batch in normal form."""
    pairs = list(rows)
    columns = [
        (spec.name, *encode_column(spec.kind, [row[spec.name] for _, row in pairs]))
        for spec in entity_type.fields
    ]
    if entity_type.is_keyless:
        keys = pa.array([f"{k[0]!s}#{k[1]!s}" for k, _ in pairs], pa.string())
        columns.insert(0, (KEYLESS_KEY, keys, "keyless"))
    return batch_of(columns)


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


def tagged_column(values: Iterable[Observed]) -> pa.Array:
    """The observations in tagged form: the JSON of `values.encode`, one cell each."""
    texts = (json.dumps(encode(v), ensure_ascii=True, separators=(",", ":")) for v in values)
    return pa.array([text.encode() for text in texts], pa.binary())


def decode_column(array: pa.Array, form: str) -> list[Any]:
    """The observations of a column that is stored in a form, in their order."""
    values: list[Any] = array.to_pylist()
    if form == TAGGED:
        return [decode(json.loads(v)) for v in values]
    if form == Kind.DECIMAL.value:
        return [None if v is None else Decimal(v) for v in values]
    if form == Kind.TIMESTAMP.value:
        return [None if v is None else v.astimezone(UTC) for v in values]
    if form == "keyless":
        return [(d, int(n)) for d, _, n in (v.partition("#") for v in values)]
    return values


def form_of(batch: pa.RecordBatch, index: int) -> str:
    """How a column's cells are stored: a kind's name, `tagged` or `keyless`."""
    return heads_of(batch.schema)[index].form


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


def unobserved_cells(batch: pa.RecordBatch, index: int) -> pa.Array | None:
    """Which cells of a column are `Unobserved`, as booleans; None when none can be."""
    if form_of(batch, index) != TAGGED:
        return None
    return pc.starts_with(batch.column(index), pattern=_UNOBSERVED_PREFIX)


def is_fully_observed(batch: pa.RecordBatch) -> bool:
    """Whether no cell of the batch is `Unobserved`."""
    tagged = (at for at, head in enumerate(heads_of(batch.schema)) if head.form == TAGGED)
    columns = (unobserved_cells(batch, index) for index in tagged)
    return not any(cells is not None and pc.any(cells).as_py() for cells in columns)


def batch_digest(batch: pa.RecordBatch) -> str:
    """BLAKE3 over names, forms and normalised buffers: the same rows give the same digest."""
    rows = batch.num_rows
    parts: list[bytes | memoryview] = []
    for index, head in enumerate(heads_of(batch.schema)):
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
    """What is said of a column before its cells."""

    name: str
    form: str
    start: bytes
    """How the JSON of its name, form and type begins."""
    width: int
    """Bytes of a value, or of where one lies; 0 of a bit."""
    is_number: bool
    """Of eight bytes."""


_heads_seen: tuple[pa.Schema, tuple[Head, ...]] = pa.schema([]), ()
"""The last schema asked about: mostly the next chunk is one of the same table."""


def heads_of(schema: pa.Schema) -> tuple[Head, ...]:
    """The name, form and type of each column."""
    global _heads_seen  # noqa: PLW0603 - replaced as a whole
    seen, heads = _heads_seen
    if not schema.equals(seen, check_metadata=True):
        heads = tuple(_head(field) for field in schema)
        _heads_seen = schema, heads
    return heads


def _head(spec: pa.Field) -> Head:
    form = bytes(spec.metadata[_FORM]).decode()
    start = json.dumps([spec.name, form, str(spec.type)])[:-1].encode()
    has_places = pa.types.is_string(spec.type) or pa.types.is_binary(spec.type)
    width = _OFFSET_BYTES if has_places else int(spec.type.bit_width) // 8
    return Head(spec.name, form, start, width, spec.type in _NUMBERS)


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
        array = pc.fill_null(array, _NOTHING[array.type])
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


_NUMBERS: Final = (pa.int64(), pa.float64())
"""Of eight bytes each."""
_FIXED: Final = 2
"""Buffers of a column whose values are of one width."""
_OFFSET_BYTES: Final = 4
_NOTHING: Final = {
    kind: pa.array([nothing], kind)[0]
    for kind, nothing in (
        (pa.bool_(), False), (pa.string(), ""),
        (pa.binary(), b""), (pa.timestamp("us", tz="UTC"), 0), (pa.timestamp("us"), 0),
        (pa.date32(), 0),
    )
}  # fmt: skip
"""What stands in a null slot."""


def _bitmap(flags: Any) -> memoryview:
    return memoryview(np.packbits(flags, bitorder="little").tobytes())
