"""State as columnar, chunked, content-addressed tables handled as iterators.

Each entity type is one `Table`: rows sorted by key (`values.key_order`), cut into chunks by key
range. The cut points (`partition`) are chosen once, from the base, and reused by every later
capture of the same source, so that a change touches only its own chunk. A chunk is an Arrow
record batch in *normal form* (`batches`) and is named by the BLAKE3 digest of its content; equal
digests mean equal rows. Chunks live in a `ChunkStore`; a `Table` holds only their references.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

import blake3
import pyarrow as pa

from statediff.later import Later, later
from statediff.model.batches import (
    BatchKeys,
    Row,
    batch_columns,
    batch_keys,
    batch_rows,
    encode_rows,
    facts_of,
)
from statediff.model.explanation import Explanation
from statediff.model.graph import MAX_NODES, Graph, state_graph
from statediff.model.schema import EntityType, Schema
from statediff.model.values import Key, Observed, encode, key_order

CHUNK_KEYS: Final = 4096
"""Keys per chunk when a partition is first chosen."""

CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Bytes of text and binary after which a chunk ends all the same: wide values make short chunks."""

CHUNKS_KEPT: Final = 8
"""Chunks of a table whose keys stay decoded between look-ups of single entities."""

FEW_ASKED: Final = 64
"""Look-ups in a chunk until all its keys are decoded."""

ROWS_KEPT: Final = 256
"""Entities of a table that stay decoded: many clauses look the same ones up."""


DECODED_AT: Final = 64
"""Look-ups of entities in a part of a chunk after which all of its cells are decoded."""

DECODED_KEPT: Final = 2
"""Parts of chunks whose cells stay decoded: changes are looked up in the order of their keys."""


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
    explanation: Explanation | None = None
    """Why a view shows none of it, where the judgement itself says so; never stored."""
    below: tuple[str, ...] = ()
    """Beginnings of the keys of all entities that may be missing; empty where any may be.

    Sorted, and none begins with another.
    """

    @property
    def is_complete(self) -> bool:
        return self.coverage is Coverage.COMPLETE

    def may_miss(self, key: Key) -> bool:
        """True if an entity of this key may be there without having been enumerated."""
        if self.is_complete or not self.below:
            return not self.is_complete
        first = key[0] if key else None
        if not isinstance(first, str):
            return True
        at = bisect_right(self.below, first)
        return at > 0 and first.startswith(self.below[at - 1])


def beginnings(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts as `Enumeration.below` has them: sorted, without those that begin with another."""
    found: list[str] = []
    for text in sorted(texts):
        if not found or not text.startswith(found[-1]):
            found.append(text)
    return tuple(found)


COMPLETE: Final = Enumeration(Coverage.COMPLETE)
NOT_DELIVERED: Final = Enumeration(Coverage.UNOBSERVED, "no source delivered it")


@dataclass(frozen=True)
class ChunkRef:
    """A chunk by content: `digest` (BLAKE3, hex) and how many rows it holds.

    `is_fully_observed` says that no cell is `Unobserved`: two equal chunks then hold no doubt, and
    a comparison need not load them. False is always safe; `facts_of` tells.
    """

    digest: str
    rows: int
    is_fully_observed: bool = field(default=False, compare=False)


class ChunkStore(Protocol):
    """A store of chunks. `get` raises `StorageError` when a chunk is missing or damaged."""

    def put(self, batch: pa.RecordBatch) -> ChunkRef: ...

    def get(self, ref: ChunkRef) -> pa.RecordBatch: ...


class MemoryChunks:
    """A chunk store in memory."""

    def __init__(self) -> None:
        self._batches: dict[str, pa.RecordBatch] = {}

    def put(self, batch: pa.RecordBatch) -> ChunkRef:
        facts = facts_of(batch)
        if facts.digest not in self._batches:
            held = batch
            if batch.num_rows and batch.get_total_buffer_size() > _SPARE * batch.nbytes:
                # A slice would hold all it was cut from.
                held = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
            self._batches[facts.digest] = held
        return ChunkRef(facts.digest, batch.num_rows, facts.is_fully_observed)

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        return self._batches[ref.digest]


class LayeredChunks(MemoryChunks):
    """Chunks in memory over those of another store, which are not copied."""

    def __init__(self, under: ChunkStore) -> None:
        super().__init__()
        self._under = under

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        return super().get(ref) if ref.digest in self._batches else self._under.get(ref)


_SPARE: Final = 1.25
"""How much more memory than its own a batch may hold while it lies in a store."""


_PLAIN: Final = frozenset({int, str, bytes, bool, date, Decimal, type(None)})


def _comes_back(value: Observed) -> bool:
    """True if a chunk is known to give back just the value that was put into it."""
    if type(value) is float:
        return value == value  # noqa: PLR0124 - a NaN comes back as another one
    return type(value) in _PLAIN or (isinstance(value, datetime) and value.tzinfo in (None, UTC))


KeyedRow = tuple[tuple[Any, ...], Key, Mapping[str, Observed]]
"""The order of a key, the key, and its row."""


class RowChange(NamedTuple):
    """An entity whose rows may differ: None on a side where no row is stored."""

    key: Key
    before: Row | None
    after: Row | None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a table was made of another: by these changes alone, in key order."""

    before: tuple[ChunkRef, ...]
    after: Callable[[], tuple[ChunkRef, ...]]
    """Works out the chunks of the table, once."""
    changes: tuple[RowChange, ...]
    touched: tuple[int, ...]
    """The chunks that the changes lie in."""
    is_fully_observed: bool
    """True if every cell of both tables was observed."""

    def leads(self, before: Table, after: Table) -> bool:
        """True if it is said of these two tables, and every cell of both was observed."""
        return (
            self.is_fully_observed
            and (self.before is before.chunks or self.before == before.chunks)
            and (after.is_later("chunks") or self.after() == after.chunks)
            and (before.type is after.type or before.type == after.type)
        )

    def change_of(self, key: Key) -> RowChange | None:
        """The change of the entity; None where there is none."""
        at = bisect_left(self.changes, key_order(key), key=lambda c: key_order(c.key))
        found = self.changes[at] if at < len(self.changes) else None
        return found if found is not None and found.key == key else None


@dataclass
class _Seen:
    """The look-ups in a table, as far as they are kept."""

    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    orders: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    cells_asked: dict[tuple[str, int], int] = field(default_factory=dict)
    columns: dict[tuple[str, int], tuple[dict[tuple[Any, ...], int], dict[str, list[Any]]]] = field(
        default_factory=dict
    )
    """By the digest of a chunk and a part of it: where each key is in that, and its cells."""


@dataclass(frozen=True)
class Table(Later):
    """All captured entities of one type.

    `chunks[i]` holds the keys below `partition[i]` (in `key_order`) and not below
    `partition[i - 1]`; there is one chunk more than cut points.
    """

    type: EntityType
    chunks: tuple[ChunkRef, ...]
    partition: tuple[Key, ...]
    store: ChunkStore = field(repr=False, compare=False)
    enumeration: Enumeration = COMPLETE
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """The table it was made of, where that is known: comparing the two then costs nothing."""

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
        known = self._seen.rows.get(order)
        if known is not None:
            return dict(known)
        if self.is_later("chunks"):
            if (change := self._own_change(key)) is not None:
                return self._row_of(change)
        else:
            for places, columns in self._seen.columns.values():
                if (at := places.get(order)) is not None:
                    return {name: column[at] for name, column in columns.items()}
        ref = self._chunks_with(key)[bisect_right(self.cuts, order)]
        batch = self.store.get(ref)
        if ref.rows > 2 * CHUNK_KEYS or self._seen.asked.get(ref.digest, 0) < FEW_ASKED:
            self._seen.asked[ref.digest] = self._seen.asked.get(ref.digest, 0) + 1
            at = BatchKeys(self.type, batch).find(key)
        else:
            orders = self._orders(ref, batch)
            place = bisect_left(orders, order)
            at = place if place < len(orders) and orders[place] == order else None
        if at is None:
            return None
        found = self._row_at(ref, batch, at)
        self.keep(order, found)
        return dict(found)

    def keep(self, order: tuple[Any, ...], row: Row) -> None:
        """The row, for when it is asked for: it was read of this table, whose key has the order."""
        if len(self._seen.rows) >= ROWS_KEPT:
            self._seen.rows.clear()
        self._seen.rows[order] = row

    def _row_at(self, ref: ChunkRef, batch: pa.RecordBatch, at: int) -> Row:
        """A row of a chunk. Where many are asked for, all of one part are decoded at once."""
        number, within = divmod(at, CHUNK_KEYS)
        part = ref.digest, number
        known = self._seen.columns.get(part)
        if known is None:
            asked = self._seen.cells_asked.get(part, 0) + 1
            self._seen.cells_asked[part] = asked % DECODED_AT
            if asked < DECODED_AT:
                return next(batch_rows(self.type, batch.slice(at, 1), None))[1]
            near = batch.slice(at - within, CHUNK_KEYS)
            names = tuple(field.name for field in self.type.fields)
            columns = dict(zip(names, batch_columns(near, names), strict=True))
            places = {key_order(key): n for n, key in enumerate(batch_keys(self.type, near))}
            if len(self._seen.columns) >= DECODED_KEPT:
                self._seen.columns.clear()
            known = self._seen.columns[part] = places, columns
        columns = known[1]
        return {name: column[within] for name, column in columns.items()}

    def lone_row(self, key: Key) -> Row | None:
        """The same, without keeping the order of a chunk's keys: for one state of many."""
        change = self._own_change(key)
        if change is not None:
            return self._row_of(change)
        chunks = self._chunks_with(key)
        batch = self.store.get(chunks[bisect_right(self.cuts, key_order(key))])
        at = BatchKeys(self.type, batch).find(key)
        return None if at is None else next(batch_rows(self.type, batch.slice(at, 1), None))[1]

    def _own_change(self, key: Key) -> RowChange | None:
        """The change of the entity by the table's origin, where its chunk would give no other."""
        origin = self.origin
        if origin is None or not (self.is_later("chunks") or origin.after() == self.chunks):
            return None
        change = origin.change_of(key)
        if change is None or change.after is None:
            return change
        row = change.after
        is_as_stored = row.keys() == self.type.by_name.keys() and all(
            map(_comes_back, row.values())
        )
        return change if is_as_stored else None

    def _row_of(self, change: RowChange) -> Row | None:
        return change.after and {name: change.after[name] for name in self.type.by_name}

    def _chunks_with(self, key: Key) -> tuple[ChunkRef, ...]:
        """The chunks that hold the entity: those of before, where it is the same there."""
        if self.origin is not None and self.is_later("chunks") and not self.origin.change_of(key):
            return self.origin.before
        return self.chunks

    def with_chunks(self, chunks: tuple[ChunkRef, ...]) -> Table:
        """Other chunks, cut at the same points."""
        table = replace(self, chunks=chunks)
        vars(table)["cuts"] = self.cuts
        return table

    def changed_by(self, origin: Origin, store: ChunkStore) -> Table:
        """The table with the changes, its chunks worked out when they are asked for."""
        table = Table(self.type, (), self.partition, store, self.enumeration, origin)
        vars(table)["cuts"] = self.cuts
        return later(table, "chunks", origin.after)

    @cached_property
    def is_whole(self) -> bool:
        """True if each entity was enumerated, and each of its cells observed."""
        return self.enumeration.is_complete and self.is_fully_observed

    @cached_property
    def is_fully_observed(self) -> bool:
        """True if no cell of it is `Unobserved`."""
        return all(ref.is_fully_observed for ref in self.chunks)

    @cached_property
    def cuts(self) -> list[tuple[Any, ...]]:
        """The order of each cut point."""
        return [key_order(cut) for cut in self.partition]

    @cached_property
    def _seen(self) -> _Seen:
        return _Seen()

    def _orders(self, ref: ChunkRef, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """The order of every key of a chunk; kept for the last few chunks that were asked."""
        seen = self._seen.orders
        found = seen.pop(ref.digest, None)
        if found is None:
            found = [key_order(key) for key in batch_keys(self.type, batch)]
        seen[ref.digest] = found
        if len(seen) > CHUNKS_KEPT:
            del seen[next(iter(seen))]
        return found

    @cached_property
    def digested(self) -> bytes:
        """The part of a state's digest that is about the table, after its name."""
        chunks = [chunk.digest for chunk in self.chunks if chunk.rows]
        return json.dumps([self.enumeration.coverage.value, chunks]).encode()[1:]

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
            hasher.update(b"[%b, %b" % (json.dumps(name).encode(), self.tables[name].digested))
        return hasher.hexdigest()

    @property
    def entity_count(self) -> int:
        return sum(t.row_count for t in self.tables.values())

    def graph(self, limit: int = MAX_NODES) -> Graph:
        """All of it as a `networkx.MultiDiGraph`; see `statediff.model.graph`."""
        seen = [
            t for t in self.tables.values() if t.enumeration.coverage is not Coverage.UNOBSERVED
        ]
        return state_graph(self.schema, seen, self.gaps(), limit)

    def gaps(self) -> dict[str, str]:
        """Types of which there may be more than is known, and why."""
        gaps = {
            name: t.enumeration for name, t in self.tables.items() if not t.enumeration.is_complete
        }
        return {name: why.cause or why.coverage.value for name, why in gaps.items()}


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
    pairs: Iterable[tuple[Key, Mapping[str, Observed]]]
    if entity_type.is_keyless:
        pairs = _count_keyless(rows)
    else:
        pairs = ((_key_of(entity_type, row), row) for row in rows)
    keyed: Iterable[KeyedRow] = ((key_order(key), key, row) for key, row in pairs)
    if not (is_sorted or entity_type.is_keyless):
        keyed = sorted(keyed, key=itemgetter(0))
    return cut_table(entity_type, keyed, store, like=like, enumeration=enumeration)


def cut_table(
    entity_type: EntityType,
    keyed: Iterable[KeyedRow],
    store: ChunkStore,
    *,
    like: Table | None = None,
    enumeration: Enumeration = COMPLETE,
) -> Table:
    """The same of rows with their keys, in order; at most one chunk of them is held.

    Raises `ValueError` on a duplicate key or one out of order.
    """
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

    for order, key, row in keyed:
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
