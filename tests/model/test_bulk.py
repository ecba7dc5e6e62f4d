"""Chunks end after so many bytes, too: wide values make short chunks, read by rows or in bulk."""

from random import Random

import pytest

from statediff.kernel.diff import diff
from statediff.model import bulk, state
from statediff.model.bulk import build_from_blocks
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import MemoryChunks, State, Table, build_table
from statediff.systems.sqlite.blocks import BulkReader

PAGE = EntityType("page", ("id",), (Field("id", Kind.INT), Field("body", Kind.BYTES)))
MOST = 10_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "CHUNK_BYTES", MOST)
    monkeypatch.setattr(bulk, "CHUNK_BYTES", MOST)


def by_rows(rows: list[tuple[int, bytes | None]], like: Table | None = None) -> Table:
    told = ({"id": key, "body": body} for key, body in rows)
    return build_table(PAGE, told, MemoryChunks(), like=like, is_sorted=True)


def in_bulk(rows: list[tuple[int, bytes | None]], like: Table | None = None) -> Table:
    reader = BulkReader(PAGE, ("id", "body"), {}, ("INTEGER", "BLOB"))
    blocks = reader.blocks(rows[at : at + 7] for at in range(0, len(rows), 7))
    return build_from_blocks(PAGE, blocks, reader.encode, MemoryChunks(), like)


def whole(table: Table) -> State:
    return State(Schema("s", "1", (PAGE,)), {"page": table})


@pytest.mark.parametrize("read", [by_rows, in_bulk])
@pytest.mark.parametrize("width", [0, 1, 3_000, 12_000])
def test_a_chunk_holds_no_more_bytes_than_it_may_and_one_block(read, width: int) -> None:
    random = Random(width)
    rows = [(at, random.randbytes(random.randrange(width + 1))) for at in range(300)]
    table = read(rows)
    assert [(row["id"], row["body"]) for _, row in table.rows()] == rows
    assert all(chunk.rows for chunk in table.chunks)
    assert len(table.chunks) == len(table.partition) + 1
    sizes = [batch.column("body").nbytes for batch in table.batches()]
    assert max(sizes) <= MOST + 8 * width + 4 * 300  # offsets, and what one block may exceed it by
    assert len(sizes) <= 2 + 2 * sum(sizes) // MOST


def test_states_cut_by_bytes_are_compared_like_others() -> None:
    rows: list[tuple[int, bytes | None]] = [(at, bytes([at % 251]) * 2_000) for at in range(200)]
    base = by_rows(rows)
    rows[100] = (100, bytes(2_000))
    rows[150] = (150, None)
    del rows[3]
    for after in (by_rows(rows, base), in_bulk(rows, base), by_rows(rows), in_bulk(rows)):
        found = diff(whole(base), whole(after)).deltas
        assert [(d.op.value, d.key) for d in found] == [
            ("delete", (3,)), ("update", (100,)), ("update", (150,)),
        ]  # fmt: skip
    kept = {chunk.digest for chunk in base.chunks}
    assert sum(chunk.digest not in kept for chunk in by_rows(rows, base).chunks) == 3
