"""Rows whose key is missing or shared are left out of a table, and the table says so."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import COMPLETE, Coverage, Enumeration, MemoryChunks, Table
from statediff.model.values import ABSENT, Observed, Unobserved, key_order
from statediff.systems.base.rows import distinct_rows, keyed_table, named_rows

FIELDS = (Field("a", Kind.ANY), Field("b", Kind.ANY, column="B"), Field("c", Kind.ANY))
THING = EntityType("thing", ("a", "b"), FIELDS, table="things")
KEYLESS = EntityType("thing", (), FIELDS, table="things")

values = st.sampled_from([0, 1, 2, "0", "x", True, 1.0, b"x", "", (1, 2)])
cells: st.SearchStrategy[Observed] = st.one_of(
    values, values, st.sampled_from([None, ABSENT, Unobserved("gone")])
)
rows = st.lists(
    st.dictionaries(st.sampled_from(["a", "B", "c", "other"]), cells, max_size=4), max_size=8
)


def table(of: EntityType, given_rows: list[Row], known: Enumeration = COMPLETE) -> Table:
    return keyed_table(of, given_rows, known, MemoryChunks(), None)


@given(rows)
def test_the_rows_with_a_key_of_their_own_are_there_and_the_others_are_counted(
    given_rows: list[Row],
) -> None:
    keys = [(row.get("a", ABSENT), row.get("B", ABSENT)) for row in given_rows]
    unnamed = (None, ABSENT, Unobserved("gone"))
    orders: list[Any] = [
        None if any(part in unnamed for part in key) else key_order(key)  # type: ignore[arg-type]
        for key in keys
    ]
    counts = Counter(orders)
    expected = sorted(each for each in counts if each is not None and counts[each] == 1)
    found = table(THING, given_rows)
    assert [key_order(key) for key, _ in found.rows()] == expected
    lost = len(given_rows) - len(expected)
    known = found.enumeration
    assert known == COMPLETE if not lost else known.cause == f"{lost} rows have no key of their own"


@given(rows)
def test_rows_of_a_type_without_a_key_are_all_there(given_rows: list[Row]) -> None:
    found = table(KEYLESS, given_rows)
    assert (found.row_count, found.enumeration) == (len(given_rows), COMPLETE)


def test_numbers_of_other_kinds_are_other_keys() -> None:
    assert table(THING, [{"a": 1, "B": 1}, {"a": True, "B": 1}, {"a": 1.0, "B": 1}]).row_count == 3


def test_a_cause_that_was_known_before_stays() -> None:
    known = Enumeration(Coverage.INCOMPLETE, "some were lost")
    found = table(THING, [{"a": 1, "B": None}, {"a": 1, "B": 1}], known)
    assert (found.row_count, found.enumeration) == (1, known)


@pytest.mark.parametrize(("cause", "said"), [("nobody looked", "nobody looked"), ("", "unread")])
def test_of_what_nobody_looked_at_no_row_is_shown(cause: str, said: str) -> None:
    found = table(THING, [{"a": 1, "B": 1}], Enumeration(Coverage.UNOBSERVED, cause))
    assert found.row_count == 0
    assert found.enumeration == Enumeration(Coverage.UNOBSERVED, said)


def test_the_rows_of_a_shared_key_are_all_left_out_in_the_order_of_the_others() -> None:
    named = named_rows(THING, [{"a": n % 3, "B": 0, "x": n} for n in (2, 0, 1, 3)])
    assert [row["a"] for row in distinct_rows(THING, named)] == [2, 1]
    assert named[0] == {"a": 2, "b": 0, "c": ABSENT}
