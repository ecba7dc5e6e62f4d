"""Rows that were put once are not encoded again, and only those."""

import pytest

from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import MemoryChunks, build_table
from statediff.systems.relational.schema import Shelf

TYPE = EntityType("t", ("id",), (Field("id", Kind.INT), Field("value", Kind.ANY)))
ROWS = [{"id": 1, "value": True}, {"id": 2, "value": "2"}, {"id": 3, "value": 0.0}]


class Counting(MemoryChunks):
    """A store that counts what is put."""

    def __init__(self):
        super().__init__()
        self.puts = 0

    def put(self, batch):
        self.puts += 1
        return super().put(batch)


def _with(value, at=0):
    return [{**row, "value": value} if n == at else dict(row) for n, row in enumerate(ROWS)]


def test_the_same_rows_are_the_chunks_of_the_table_before():
    store = Counting()
    before = Shelf(store).distinct(TYPE, ROWS, None)
    after = Shelf(store).distinct(TYPE, [dict(row) for row in ROWS], before)
    assert after == before
    assert store.puts == len(before.chunks)


@pytest.mark.parametrize(
    "rows",
    [
        _with(1),
        _with("True"),
        _with(2, 1),
        _with(-0.0, 2),
        ROWS[:2],
        [],
        [*ROWS, _with(1)[0] | {"id": 4}],
    ],
)
def test_any_other_rows_are_what_they_are(rows):
    store = MemoryChunks()
    before = Shelf(store).distinct(TYPE, ROWS, None)
    found = Shelf(store).distinct(TYPE, rows, before)
    assert found == build_table(TYPE, rows, MemoryChunks(), like=before)
    assert found.chunks != before.chunks


def test_rows_are_not_known_by_another_type_store_or_state():
    store = Counting()
    before = Shelf(store).distinct(TYPE, ROWS, None)
    empty = Shelf(store).distinct(TYPE, [], before)
    other = EntityType("t", (), TYPE.fields)
    for like, type_, shelf in (
        (empty, TYPE, Shelf(store)),
        (before, other, Shelf(store)),
        (before, TYPE, Shelf(Counting())),
    ):
        shelf.distinct(TYPE, ROWS, None)
        puts = shelf.store.puts
        found = shelf.distinct(type_, ROWS, like)
        assert shelf.store.puts > puts
        assert found == build_table(type_, ROWS, MemoryChunks(), like=like)


def test_rows_that_share_a_key_are_refused_each_time():
    store = MemoryChunks()
    rows = [*ROWS, {"id": 1, "value": None}]
    before = Shelf(store).distinct(TYPE, ROWS, None)
    for _ in range(2):
        found = Shelf(store).distinct(TYPE, rows, before)
        assert found.row_count == len(ROWS) - 1
        assert "share keys" in found.enumeration.cause
        before = found
