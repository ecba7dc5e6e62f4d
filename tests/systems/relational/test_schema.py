"""Rows that were put once are not encoded again, and only those."""

import pytest

from statediff.model import state
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import MemoryChunks, build_table
from statediff.systems.relational import schema
from statediff.systems.relational.schema import Shelf

TYPE = EntityType("t", ("id",), (Field("id", Kind.INT), Field("value", Kind.ANY)))
ROWS = [{"id": 1, "value": True}, {"id": 2, "value": "2"}, {"id": 3, "value": 0.0}]


@pytest.fixture
def built(monkeypatch):
    """How many tables were built of rows; nothing is known from other tests."""
    made = []
    monkeypatch.setattr(schema, "_tables", schema.Encoded())

    def build(*given, **options):
        made.append(given)
        return build_table(*given, **options)

    monkeypatch.setattr(schema, "build_table", build)
    return made


def _with(value, at=0):
    return [{**row, "value": value} if n == at else dict(row) for n, row in enumerate(ROWS)]


def test_the_same_rows_are_encoded_once_for_every_store(built):
    store = MemoryChunks()
    before = Shelf(store).distinct(TYPE, ROWS, None)
    again = Shelf(MemoryChunks()).distinct(TYPE, [dict(row) for row in ROWS], None)
    assert len(built) == 1
    assert again == before
    assert list(again.rows()) == list(before.rows())


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


def test_rows_are_not_known_by_another_type_or_cut(built, monkeypatch):
    store = MemoryChunks()
    before = Shelf(store).distinct(TYPE, ROWS, None)
    monkeypatch.setattr(state, "CHUNK_KEYS", 2)
    cut = build_table(TYPE, ROWS, store)
    assert cut.partition
    other = EntityType("t", (), TYPE.fields)
    for like, type_ in ((cut, TYPE), (before, other)):
        found = Shelf(store).distinct(type_, ROWS, like)
        assert found == build_table(type_, ROWS, MemoryChunks(), like=like)
    assert len(built) == 3


def test_no_more_is_kept_than_a_bound():
    known = schema.Encoded()
    for n in range(40):
        known.keep(n, b"x" * schema.MAX_KNOWN_BYTES, None, n)
    assert [known.of(n, b"x" * schema.MAX_KNOWN_BYTES, None) for n in (0, 39)] == [None, 39]


def test_rows_that_share_a_key_are_refused_each_time():
    store = MemoryChunks()
    rows = [*ROWS, {"id": 1, "value": None}]
    before = Shelf(store).distinct(TYPE, ROWS, None)
    for _ in range(2):
        found = Shelf(store).distinct(TYPE, rows, before)
        assert found.row_count == len(ROWS) - 1
        assert "share keys" in found.enumeration.cause
        before = found
