"""Entity types are looked up by their hash, and cross processes; schemas are merged."""

import pickle
from dataclasses import replace

import pytest

from statediff.kernel import schema_of
from statediff.model.schema import EntityType, Field, Kind, Schema, marks_deletion, merge_schemas
from statediff.model.values import ABSENT, Observed
from tests.judging import ITEM, USER, capture, part, state


def test_a_type_that_was_looked_up_crosses_processes_without_its_hash() -> None:
    # Another process hashes texts in another way.
    one = EntityType("order", ("id",), (Field("id", Kind.INT), Field("state", Kind.TEXT)))
    known = {one: 1}
    other = pickle.loads(pickle.dumps(one))
    assert not [name for name in vars(other) if "hash" in name]
    assert known[other] == 1
    assert replace(one, outside="no work") not in known


def test_schemas_that_are_the_same_are_that_one_where_it_is_in_order() -> None:
    one, two = (state({}, types=(ITEM, USER)).schema for _ in range(2))
    assert one is not two
    assert merge_schemas((one, two, one)) is one
    upside_down = replace(one, types=one.types[::-1])
    assert merge_schemas((upside_down, upside_down)) == one
    nameless = Schema("", "", ())
    assert merge_schemas((nameless,)) == merge_schemas(()) == Schema("empty", "0", ())


def test_a_type_is_late_though_the_schema_after_has_all_of_the_one_before() -> None:
    before = capture("before", part("before", state({}, types=(ITEM,))))
    after = capture("after", part("after", state({}, types=(ITEM, USER))))
    assert merge_schemas((before.parts[0].state.schema, after.parts[0].state.schema)) == (
        after.parts[0].state.schema
    )
    found = schema_of(before, after)
    assert [(t.name, t.is_late) for t in found.types] == [("item", False), ("user", True)]
    assert schema_of(after, before) == after.parts[0].state.schema


@pytest.mark.parametrize("cell", [None, ABSENT, "", " 0", "False", 0, 0.0, False])
def test_a_stamp_that_says_nothing_deletes_nothing(cell: Observed) -> None:
    assert not marks_deletion(cell)
    assert all(map(marks_deletion, ("2026-01-01", 1, True, b"x")))
