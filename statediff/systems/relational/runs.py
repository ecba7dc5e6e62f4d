"""Tables of any size from rows in any order: of a large one only a part is ever held.

Rows that come in the order of their keys go straight to their chunks. From the first one that does
not, they are sorted in runs on disk, and the runs are merged; so a database is never asked to sort.
The table is the one that `Shelf.distinct` makes of the same rows at once.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Final

import pyarrow as pa

from statediff.capture.store import DiskChunks
from statediff.model.batches import Row, batch_rows, encode_rows
from statediff.model.schema import EntityType
from statediff.model.state import (
    CHUNK_KEYS,
    ChunkRef,
    ChunkStore,
    KeyedRow,
    Table,
    cut_table,
    row_digest,
)
from statediff.model.values import Key, key_order

HELD_ROWS: Final = 50_000
HELD_BYTES: Final = 64 * 1024 * 1024
"""The most rows and bytes held at once, whichever is reached first; bytes of text and binary
values.
"""
_DECODED_ROWS: Final = 256
_DECODED_BYTES: Final = 64 * 1024
"""The most bytes decoded at once of each run: of a long table there are hundreds."""
_CACHE_BYTES: Final = 1024 * 1024


def part(rows: Iterator[Row]) -> list[Row]:
    """As many of the next rows as are held at once."""
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str | bytes))
        if len(held) >= HELD_ROWS or size >= HELD_BYTES:
            break
    return held


def merged_table(
    entity_type: EntityType,
    pending: Iterator[Row],
    store: ChunkStore,
    like: Table | None,
) -> tuple[Table, int]:
    """All rows but those that share a key, as a table, and how many are left out so."""
    runs: list[Iterator[KeyedRow]] = []
    if not entity_type.is_keyless:
        ordered = _Ordered(entity_type, pending)
        table = cut_table(entity_type, ordered, store, like=like)
        if ordered.next is None:
            return table, 0
        runs.append(_in_order(entity_type, table.batches()))
        pending = chain([ordered.next], pending)
    with tempfile.TemporaryDirectory(prefix="statediff-runs-") as folder:
        spilled = DiskChunks(folder, _CACHE_BYTES)
        while held := part(pending):
            runs.append(
                _in_order(entity_type, map(spilled.get, _sorted(entity_type, held, spilled)))
            )
            held.clear()
        merged = _Merged(entity_type, heapq.merge(*runs, key=itemgetter(0)))
        return cut_table(entity_type, merged, store, like=like), merged.left_out


def _sorted(entity_type: EntityType, rows: list[Row], store: ChunkStore) -> list[ChunkRef]:
    """The rows in the order of their keys, those that share one side by side."""
    keyed = sorted(
        ((key_order(key), key, row) for key, row in _with_keys(entity_type, rows)),
        key=itemgetter(0),
    )
    return [
        store.put(
            encode_rows(entity_type, [(key, row) for _, key, row in keyed[at : at + CHUNK_KEYS]])
        )
        for at in range(0, len(keyed), CHUNK_KEYS)
    ]


def _with_keys(entity_type: EntityType, rows: Iterable[Row]) -> Iterator[tuple[Key, Row]]:
    for row in rows:
        if entity_type.is_keyless:
            yield (row_digest(row), 1), row
        else:
            yield tuple(row[name] for name in entity_type.key), row  # type: ignore[misc]  # keys are values


def _in_order(entity_type: EntityType, batches: Iterable[pa.RecordBatch]) -> Iterator[KeyedRow]:
    """The rows of sorted batches; only a few are ever decoded at once."""
    for batch in batches:
        width = batch.nbytes // max(batch.num_rows, 1) + 1
        step = max(1, min(_DECODED_ROWS, _DECODED_BYTES // width))
        for at in range(0, batch.num_rows, step):
            for key, row in batch_rows(entity_type, batch.slice(at, step), None):
                yield key_order(key), key, row


class _Ordered:
    """Rows up to the first whose key does not come after the one before it: `next`."""

    def __init__(self, entity_type: EntityType, rows: Iterator[Row]) -> None:
        self._type = entity_type
        self._rows = rows
        self.next: Row | None = None

    def __iter__(self) -> Iterator[KeyedRow]:
        previous = None
        for key, row in _with_keys(self._type, self._rows):
            order = key_order(key)
            if previous is not None and order <= previous:
                self.next = row
                return
            previous = order
            yield order, key, row


class _Merged:
    """Sorted rows without those that share a key; equal rows of a keyless type are counted."""

    def __init__(self, entity_type: EntityType, rows: Iterable[KeyedRow]) -> None:
        self._is_keyless = entity_type.is_keyless
        self._rows = rows
        self.left_out = 0

    def __iter__(self) -> Iterator[KeyedRow]:
        return self._counted() if self._is_keyless else self._alone()

    def _counted(self) -> Iterator[KeyedRow]:
        digest, occurrence = None, 0
        for _, key, row in self._rows:
            occurrence = occurrence + 1 if key[0] == digest else 1
            digest = key[0]
            own: Key = (digest, occurrence)
            yield key_order(own), own, row

    def _alone(self) -> Iterator[KeyedRow]:
        last: KeyedRow | None = None
        times = 0
        for each in self._rows:
            if last is not None and each[0] == last[0]:
                times += 1
                continue
            if last is not None:
                yield from self._kept(last, times)
            last, times = each, 1
        if last is not None:
            yield from self._kept(last, times)

    def _kept(self, row: KeyedRow, times: int) -> Iterator[KeyedRow]:
        if times == 1:
            yield row
        else:
            self.left_out += times
