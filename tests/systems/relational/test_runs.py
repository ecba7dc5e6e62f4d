"""A law: a table that is never held whole is the one that is made of all of its rows at once."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.store import DiskChunks
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import MemoryChunks, Table
from statediff.model.values import ABSENT, Unobserved
from statediff.systems.relational import runs, schema
from statediff.systems.relational.schema import Shelf

FIELDS = (Field("id", Kind.INT), Field("code", Kind.TEXT), Field("what", Kind.ANY))
KEYS = st.one_of(st.integers(-3, 12), st.sampled_from(["", "a", "b", "é", "𝄞", "�"]))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": KEYS,
            "code": st.sampled_from(["", "A", "a", "Z"]),
            "what": st.sampled_from(
                [None, 1, Decimal("1.0"), "x", ABSENT, Unobserved("why"), -0.0]
            ),
        }
    ),
    max_size=14,
)


def made(rows: list[Any], key: tuple[str, ...], like: Table | None, way: str) -> Any:
    shelf = Shelf(MemoryChunks())
    table = getattr(shelf, way)(EntityType("thing", key, FIELDS), rows, like)
    return table, list(table.rows()), shelf.failures


@given(
    before=ROWS,
    rows=ROWS,
    key=st.sampled_from([("id",), ("code", "id"), ()]),
    size=st.integers(1, 4),
    is_sorted=st.booleans(),
)
def test_it_is_the_same_table(
    before: list[Any], rows: list[Any], key: tuple[str, ...], size: int, is_sorted: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("statediff.model.state.CHUNK_KEYS", 3)
        patch.setattr(runs, "CHUNK_KEYS", 2)
        patch.setattr(runs, "_DECODED_ROWS", 1)
        earlier = made(before, key, None, "distinct")[0]
        if is_sorted:
            rows = [row for _, row in made(rows, key, None, "distinct")[1]]
        for like in (None, earlier):
            wanted = made(list(rows), key, like, "distinct")
            patch.setattr(runs, "HELD_ROWS", size)
            assert made(list(rows), key, like, "streamed") == wanted
            patch.setattr(runs, "HELD_ROWS", 50_000)


def test_wide_rows_are_not_held_either(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 48 MB in any order: neither their order nor their number makes us hold a half."""
    monkeypatch.setattr(runs, "HELD_BYTES", 1024 * 1024)
    monkeypatch.setattr(schema, "_tables", schema.Encoded())
    rows = ({"id": at * 7919 % 3001, "code": "x" * 16_000, "what": at} for at in range(3001))
    shelf = Shelf(DiskChunks(tmp_path, 1024))
    monkeypatch.setattr("statediff.model.state.CHUNK_BYTES", 1024 * 1024)
    tracemalloc.start()
    try:
        table = shelf.streamed(EntityType("thing", ("id",), FIELDS), rows, None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table.row_count == 3001
    assert not shelf.failures
    assert peak < 24 * 1024 * 1024
