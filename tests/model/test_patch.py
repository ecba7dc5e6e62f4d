"""A table patched row by row is the table that a scan of the changed rows would be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.model.batches import encode_rows
from statediff.model.patch import patched
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import DECODED_AT, MemoryChunks, build_table
from statediff.model.values import ABSENT, Unobserved

KEYED = EntityType(
    "item",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("flag", Kind.BOOL),
        Field("name", Kind.TEXT),
        Field("price", Kind.DECIMAL),
        Field("any", Kind.ANY),
        Field("size", Kind.FLOAT),
    ),
)
KEYLESS = replace(KEYED, name="note", key=())
CELLS = st.fixed_dictionaries(
    {
        "flag": st.sampled_from([None, True, False]),
        "name": st.one_of(st.none(), st.text(max_size=3), st.just(Unobserved("too large"))),
        "price": st.sampled_from([None, Decimal("1.0"), Decimal("1.00"), "NaN"]),
        "any": st.sampled_from([None, 1, "x", (1, 2), ABSENT]),
        "size": st.sampled_from([0.0, -0.0, 1.5, None]),
    }
)


def cut_in_pieces(entity_type, rows, store):
    """A table of a few rows in several chunks."""
    whole = build_table(entity_type, rows, store)
    keys = [key for key, _ in whole.rows()]
    cuts = tuple(keys[3::4])
    like = replace(whole, chunks=whole.chunks * (len(cuts) + 1), partition=cuts)
    return build_table(entity_type, rows, store, like=like)


@given(
    st.dictionaries(st.integers(0, 30), CELLS, max_size=14),
    st.dictionaries(st.integers(0, 30), st.one_of(st.none(), CELLS), max_size=8),
)
def test_rows_with_a_key(base, changes):
    store = MemoryChunks()
    rows = {key: {"id": key, **cells} for key, cells in base.items()}
    after = dict(rows)
    for key, cells in changes.items():
        after.pop(key, None)
        if cells is not None:
            after[key] = {"id": key, **cells}
    table = cut_in_pieces(KEYED, rows.values(), store)
    found = patched(
        table,
        [rows[key] for key in changes if key in rows],
        [after[key] for key in changes if key in after],
    )
    whole = build_table(KEYED, after.values(), store, like=table)
    # Before the chunks are worked out: what the changes say of a row is what they hold.
    alone = [repr(found.lone_row((key,))) for key in range(31)]
    assert alone == [repr(whole.lone_row((key,))) for key in range(31)]
    assert found.chunks == whole.chunks
    assert alone == [repr(found.lone_row((key,))) for key in range(31)]


@given(st.lists(CELLS, max_size=12), st.data())
def test_rows_without_a_key_are_counted(cells, data):
    store = MemoryChunks()
    rows = [{"id": at % 3, **each} for at, each in enumerate([*cells, *cells[:3]])]
    gone = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True)) if rows else []
    come = [{"id": 1, **each} for each in data.draw(st.lists(CELLS, max_size=3))] + rows[:2]
    table = cut_in_pieces(KEYLESS, rows, store)
    left = [row for at, row in enumerate(rows) if at not in gone] + come
    found = patched(table, [rows[at] for at in gone], come)
    assert found.chunks == build_table(KEYLESS, left, store, like=table).chunks


ROW = {"id": 1, "flag": True, "name": "a", "price": None, "any": 1, "size": 0.0}


@pytest.mark.parametrize("entity_type", [KEYED, KEYLESS])
def test_a_delta_of_another_state_is_refused(entity_type):
    table = build_table(entity_type, [ROW], MemoryChunks())
    with pytest.raises(ValueError, match=r"no row|another row"):
        patched(table, [{**ROW, "size": -0.0}], [])
    with pytest.raises(ValueError, match="no row"):
        patched(table, [{**ROW, "id": 2}], [])


def test_a_row_may_not_come_where_one_stays():
    table = build_table(KEYED, [ROW], MemoryChunks())
    with pytest.raises(ValueError, match="duplicate"):
        patched(table, [], [{**ROW, "name": "b"}])


@pytest.mark.parametrize("zone", [None, UTC, timezone(timedelta(hours=2)), ZoneInfo("Europe/Rome")])
def test_an_instant_of_a_changed_row_is_shown_as_its_chunk_shows_it(zone):
    kind = Kind.LOCAL_TIMESTAMP if zone is None else Kind.TIMESTAMP
    dated = EntityType("dated", ("id",), (KEYED.fields[0], Field("at", kind)))
    rows = [{"id": 1, "at": datetime(2026, 7, 1, 9, tzinfo=zone)}, {"id": 1, "at": None}]
    for gone, come in (rows, rows[::-1]):
        table = build_table(dated, [gone], MemoryChunks())
        found = patched(table, [gone], [come]).lone_row((1,))
        assert repr(found) == repr(build_table(dated, [come], MemoryChunks()).lone_row((1,)))


def test_a_table_that_was_cut_otherwise_since_is_asked_itself():
    table = build_table(KEYED, [ROW], MemoryChunks())
    found = patched(table, [ROW], [{**ROW, "name": "b"}])
    assert found.lone_row((1,))["name"] == "b"
    assert replace(found, chunks=table.chunks).lone_row((1,))["name"] == "a"


def test_what_an_update_leaves_alone_is_not_copied():
    rows = [
        {"id": n, "flag": None, "name": str(n), "price": None, "any": None, "size": n / 2}
        for n in range(100)
    ]
    table = build_table(KEYED, rows, MemoryChunks())
    (old,) = table.batches()
    (new,) = patched(table, [rows[50]], [{**rows[50], "name": "other"}]).batches()
    kept = {
        name
        for name in ("id", "name", "size")
        if old.column(name).buffers()[1].address == new.column(name).buffers()[1].address
    }
    assert kept == {"id", "size"}


def test_a_slice_in_memory_does_not_keep_what_it_was_cut_from():
    numbers = EntityType("number", ("id",), (KEYED.fields[0],))
    whole = encode_rows(numbers, [((n,), {"id": n}) for n in range(50_000)])
    store, part, size = MemoryChunks(), whole.slice(500, 10), whole.nbytes
    held = pa.total_allocated_bytes()
    ref = store.put(part)
    assert store.get(ref).equals(part)
    del whole, part
    assert pa.total_allocated_bytes() < held - size // 2


@given(st.lists(CELLS, min_size=1, max_size=9))
def test_a_row_is_the_same_however_many_are_asked_for(cells):
    many = 3 * DECODED_AT
    rows = {(at,): {"id": at, **cells[at % len(cells)]} for at in range(many)}
    table = build_table(KEYED, rows.values(), MemoryChunks())
    assert len(table.chunks) == 1
    assert {key: table.row(key) for key in rows} == rows
    assert table.row((many,)) is None
