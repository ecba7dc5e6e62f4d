"""A law: JSON tables that are read column by column are those that are read record by record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statediff.errors import InputError
from statediff.model.state import MemoryChunks
from statediff.systems.tables import columns, shape, source
from statediff.systems.tables.source import TablesSource
from statediff.workspace.inputs import offline_clock

VALUES = st.sampled_from(
    ["null", "1", "-0", "1.50", "1e3", '"a"', '""', '"é"', '"\\ud83d\\ude00"', '"\\ud800"', "true",
     "[]", '[1, "\\udc00"]', '{"a": 1}', '{"a": 1, "a": 2}', "NaN", "[" * 70 + "]" * 70,
     "1" * 1001, '"2026-01-05T12:00:00Z"', '"xxxxxxxx"']
)  # fmt: skip
NAMES = st.sampled_from(["id", "n", "t", "item", "", "#", "\\ud800", "é"])
RECORDS = st.lists(
    st.one_of(
        st.builds(
            lambda of, pairs: "{" + ", ".join([f'"id": {of}', *(f'"{n}": {v}' for n, v in pairs)])
            + "}",
            st.sampled_from(["1", "2", "3", "4", "5", '"a"', '"b"', "1.0", "null", "[]", "true"]),
            st.lists(st.tuples(NAMES, VALUES), max_size=2),
        ),
        st.sampled_from(["{}", "1", '{"n": 1}', '{"id": 9, "id": 8}']),
    ),
    max_size=7,
)  # fmt: skip


def outcome(before: bytes, after: bytes) -> Any:
    """The states of both sides, and what is said of them; the words of what is refused."""
    try:
        store = MemoryChunks()
        one = TablesSource("t", before, companion=after).read(store, offline_clock, None)
        two = TablesSource("t", after, companion=before, is_after=True)
        seen = two.read(store, offline_clock, one.state)
    except InputError as error:
        return str(error)
    parts = (one, seen)
    return [(p.state.digest(), p.state.schema, p.state.gaps(), p.spoiled, p.reading) for p in parts]


def by_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source, "_in_columns", lambda *_: None)
    patch.setattr(shape._Plain, "__call__", lambda *_: False)


@given(before=RECORDS, after=RECORDS)
@example(before=['{"id": 1}', '{"id": 2}'], after=['{"id": 2}', '{"id": 1, "t": "\\ud800"}'])
@example(before=['{"id": 1, "n": 1}'], after=['{"id": 1, "n": 1.0}', '{"id": 1, "n": 2}'])
def test_it_is_the_same_state_with_the_same_words(before: list[str], after: list[str]) -> None:
    texts = [f'{{"item": [{", ".join(side)}]}}'.encode() for side in (before, after)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("statediff.model.state.CHUNK_KEYS", 2)
        patch.setattr(columns, "CHUNK_KEYS", 2)
        patch.setattr("statediff.model.state.CHUNK_BYTES", 9)
        patch.setattr(columns, "CHUNK_BYTES", 9)
        patch.setattr(columns, "_WIDE", 4)
        found = outcome(texts[0], texts[1])
        by_record(patch)
        assert found == outcome(texts[0], texts[1])


def test_plain_records_are_never_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"id": at, "name": f"row {at}", "tags": [at]} for at in range(50)]
    raw = json.dumps({"thing": records}).encode()
    monkeypatch.setattr(source, "row_reader", None)
    state = TablesSource("t", raw).read(MemoryChunks(), offline_clock, None).state
    assert state.tables["thing"].row_count == 50
