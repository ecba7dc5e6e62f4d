"""Tables built from whole columns: what a capture reads in bulk, cut and stored chunk by chunk.

A source that delivers its rows in key order hands them over in blocks of some thousand. Here they
are cut into the chunks that `build_table` would have made of the same rows one by one (where values
are so wide that bytes end a chunk, the place is estimated by block), and each chunk is encoded by
itself, so that a column's form depends on the rows of its chunk alone. At most one chunk and one
block are held at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

import pyarrow as pa

from statediff.model.batches import encode_rows
from statediff.model.schema import EntityType
from statediff.model.state import CHUNK_BYTES, CHUNK_KEYS, ChunkRef, ChunkStore, Table
from statediff.model.values import Key, key_order
from statediff.uncollected import uncollected


class NotInBulk(ValueError):
    """The rows are not what bulk reading is for: read them one by one."""


class Block(Protocol):
    """Some rows of one table, in columns, as they were read."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """How many bytes its values take, more or less."""
        ...

    def key(self, at: int) -> Key:
        """The key of one row."""
        ...

    def is_ascending(self) -> bool:
        """True if every key comes after the one before it, in `key_order`."""
        ...

    def part(self, start: int, stop: int) -> Self:
        """Some of the rows."""
        ...


B = TypeVar("B", bound=Block)


def build_from_blocks(
    entity_type: EntityType,
    blocks: Iterable[B],
    encode: Callable[[Sequence[B]], pa.RecordBatch],
    store: ChunkStore,
    like: Table | None = None,
) -> Table:
    """The table of the rows of all blocks, cut like `like`, else by `CHUNK_KEYS` and `CHUNK_BYTES`.

    `encode` gives the batch in normal form of the rows of one chunk, in memory of its own: what is
    kept of a slice would keep all of the block alive. Raises `NotInBulk` where the keys do not
    ascend.
    """
    cuts = None if like is None else like.partition
    orders = None if cuts is None else [key_order(cut) for cut in cuts]
    chunks: list[ChunkRef] = []
    partition: list[Key] = []
    pending: list[B] = []
    held = 0
    room = float(CHUNK_BYTES)
    last: tuple[Any, ...] | None = None

    def flush() -> None:
        nonlocal held, room
        chunks.append(store.put(encode(pending) if held else encode_rows(entity_type, ())))
        pending.clear()
        held, room = 0, CHUNK_BYTES

    for block in _read(blocks):
        size = len(block)
        if not size:
            continue
        first = key_order(block.key(0))
        if (last is not None and first <= last) or not block.is_ascending():
            raise NotInBulk(f"a key of {entity_type.name} comes twice or out of order")
        last = key_order(block.key(size - 1))
        at = 0
        width = 0.0 if orders is not None else block.nbytes / size
        while at < size:
            if orders is None:
                if held == CHUNK_KEYS or (held and room <= 0):
                    partition.append(block.key(at))
                    flush()
                # As many rows as end the chunk, by keys or by bytes.
                end = min(size, at + CHUNK_KEYS - held, at + int(room / max(width, 1)) + 1)
                room -= width * (end - at)
            else:
                end = size if len(chunks) == len(orders) else _below(block, at, orders[len(chunks)])
            if end > at:
                pending.append(block.part(at, end))
                held += end - at
                at = end
            else:
                flush()
    flush()
    if cuts is not None:
        while len(chunks) <= len(cuts):
            flush()
        partition = list(cuts)
    return Table(entity_type, tuple(chunks), tuple(partition), store)


def _read(blocks: Iterable[B]) -> Iterator[B]:
    """The blocks; a block has an object a row, and none in a cycle."""
    waiting = iter(blocks)
    while True:
        with uncollected():
            block = next(waiting, None)
        if block is None:
            return
        yield block


def _below(block: Block, start: int, cut: tuple[Any, ...]) -> int:
    """The number of the first row, from `start` on, whose key is not below the cut."""

    def order(at: int) -> tuple[Any, ...]:
        return key_order(block.key(at))

    end = len(block)
    return end if order(end - 1) < cut else bisect_left(range(end), cut, start, key=order)
