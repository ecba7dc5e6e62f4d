"""Laws of paths and of what differs inside two values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from statediff.model.json_values import canonical_json, canonical_number, read_json_value
from statediff.model.nested import Change, apply, differences
from statediff.model.paths import (
    Every,
    PathError,
    at,
    covers,
    leaves,
    parse,
    places,
    render,
    selects,
)
from statediff.model.values import ABSENT, Map, Value, encode, is_value, same, show_both

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(["", "a", "1", "true"]),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-2, max_value=2),
)
KEYS = st.sampled_from(["a", "b", "a.b", "", "[0]", "ü", '"', "0", "*"])
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple), st.dictionaries(KEYS, inner, max_size=4).map(Map.of)
    ),
    max_leaves=12,
)
STEPS = st.lists(st.one_of(KEYS, st.integers(0, 4)), max_size=4).map(tuple)
SELECTIONS = st.lists(st.one_of(KEYS, st.integers(0, 4), st.sampled_from(Every)), max_size=4).map(
    tuple
)
FIELDS = ("a", "a.b", "meta data", "x")


@given(VALUES, VALUES)
def test_what_differs_made_to_the_first_gives_the_second(one: Value, other: Value) -> None:
    found = differences(one, other)
    assert same(apply(one, found), other)
    assert same(apply(one, reversed(found)), other), "in whatever order"
    assert same(apply(other, [Change(c.steps, c.after, c.before) for c in found]), one)


@given(VALUES, VALUES)
def test_nothing_differs_exactly_where_the_values_are_the_same(one: Value, other: Value) -> None:
    assert differences(one, one) == ()
    assert (differences(one, other) == ()) is same(one, other)


@given(VALUES, VALUES)
def test_a_difference_is_at_its_place_on_both_sides_and_none_is_inside_another(
    one: Value, other: Value
) -> None:
    found = differences(one, other)
    for change in found:
        assert same(at(one, change.steps), change.before)
        assert same(at(other, change.steps), change.after)
        assert not same(change.before, change.after)
    for change in found:
        inside = [c for c in found if c.steps[: len(change.steps)] == change.steps]
        assert inside == [change]


@given(VALUES)
def test_the_leaves_of_a_value_are_all_of_it(value: Value) -> None:
    for steps, leaf in leaves(value):
        assert same(at(value, steps), leaf)
        assert not (isinstance(leaf, Map | tuple) and differences(leaf, type(leaf)(())))


@given(st.sampled_from(FIELDS), SELECTIONS)
def test_a_path_is_read_as_it_was_written(field: str, steps: Any) -> None:
    path = parse(render(field, steps), FIELDS)
    assert (path.field, path.steps) == (field, steps)
    assert str(path) == render(field, steps)


@given(st.text(max_size=12))
def test_any_text_is_a_path_or_a_path_error(text: str) -> None:
    try:
        path = parse(text, FIELDS)
    except PathError:
        return
    assert parse(str(path), FIELDS) == path


@pytest.mark.parametrize(
    ("text", "field", "steps"),
    [
        ("a.b", "a.b", ()), ("a.b.c", "a.b", ("c",)), ("a.c", "a", ("c",)),
        ('"a".b', "a", ("b",)), ('"a.b"[2].sku', "a.b", (2, "sku")),
        ('"meta data".x', "meta data", ("x",)), ("meta data", "meta data", ()),
        ("x[*].sku", "x", (Every.ITEM, "sku")), ("x.*", "x", (Every.MEMBER,)),
        ('x."[0]"', "x", ("[0]",)), ("other.key", "other", ("key",)),
    ],
)  # fmt: skip
def test_the_longest_field_wins(text: str, field: str, steps: Any) -> None:
    path = parse(text, FIELDS)
    assert (path.field, path.steps) == (field, steps)


@pytest.mark.parametrize(
    "text", ["", ".a", "x.", "x[", "x[-1]", "x[01]", "x[1", "x..a", 'x."a', "x[9999999999]",
             'x."\\ud800"', "x a"],
)  # fmt: skip
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(PathError):
        parse(text, FIELDS)


@given(VALUES, VALUES, st.lists(SELECTIONS, max_size=3))
def test_a_difference_is_covered_exactly_where_every_leaf_of_it_is_selected(
    one: Value, other: Value, selections: list[Any]
) -> None:
    for change in differences(one, other):
        sides = [side for side in (change.before, change.after) if is_value(side)]
        by_leaf = len(sides) == 1 and all(
            any(selects(s, (*change.steps, *inner)) for s in selections)
            for inner, _ in leaves(sides[0])
        )
        whole = any(selects(s, change.steps) for s in selections)
        assert covers(selections, change.steps, change.before, change.after) is (whole or by_leaf)


@given(VALUES, SELECTIONS)
def test_the_places_of_a_selection_are_those_that_it_selects(value: Value, wanted: Any) -> None:
    found = list(places(value, wanted))
    assert len(set(map(repr, found))) == len(found)
    for steps in found:
        assert len(steps) == len(wanted)
        assert selects(wanted, steps)
        assert at(value, steps) is not ABSENT


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False)


@given(NUMBERS, st.integers(0, 40))
def test_a_number_has_one_form_whatever_its_spelling(number: Decimal, zeros: int) -> None:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    spelled = Decimal((sign, (*digits, *(0,) * zeros), exponent - zeros))
    form = canonical_number(number)
    assert encode(canonical_number(spelled)) == encode(form)
    assert form == number, "and it is that number"


@given(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False),
)
def test_two_numbers_of_one_form_are_one(one: Decimal, other: Decimal) -> None:
    assume(one != other)
    assert encode(canonical_number(one)) != encode(canonical_number(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [1.0]}', ' {"b":[1e0],\n"a":1.00}'),
        ('{"é": "é"}', '{"\\u00e9":"\\u00E9"}'), ("1", " 1.0 "), ('"é"', '"\\u00e9"'),
        ("[0]", "[-0.0]"), ("[1e3]", "[1000]"), ("[1e-2]", "[0.010]"),
    ],
)  # fmt: skip
def test_spellings_of_one_json_value_are_one(one: str, other: str) -> None:
    assert read_json_value(one) is not None
    assert same(read_json_value(one), read_json_value(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("[1]", "[true]"), ("[1]", '["1"]'), ("[0]", "[false]"), ("[null]", "[]"), ("{}", "[]"),
     ('{"a": null}', "{}"), ("1", '"1"'), ("true", '"true"'), ("null", '"null"'),
     ("[1e400]", "[1e401]"), ('["a"]', '["A"]')],
)  # fmt: skip
def test_other_json_values_are_others(one: str, other: str) -> None:
    assert read_json_value(one) is not None
    assert not same(read_json_value(one), read_json_value(other))


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 1}', '["\\ud800"]', "[NaN]", "[1e99999]", "[" * 100 + "]" * 100, "{", "",
     "abc", "TRUE", "01", "[1,]", "{'a': 1}", "\ud800", "[" + "9" * 2000 + "]", "\ufeff[]"],
)  # fmt: skip
def test_what_is_no_json_stays_a_text(text: str) -> None:
    assert read_json_value(text) is None


@given(VALUES)
def test_a_canonical_value_is_canonical(value: Value) -> None:
    once = canonical_json(value)
    assert same(canonical_json(once), once)


@given(VALUES, VALUES, st.integers(10, 60))
def test_two_values_that_differ_are_never_shown_alike(one: Value, other: Value, limit: int) -> None:
    shown = show_both(one, other, limit)
    assert all(len(text) <= limit for text in shown)
    assert (shown[0] == shown[1]) is same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x" * 5000 + "a", "x" * 5000 + "b"), ("x" * 5000, "x" * 5001), (b"\x00" * 9, b"\x01" * 9),
        (tuple(range(40)), (*range(39), 77)), ("x" * 5000 + "a", "x" * 5000 + "a" + "y" * 5000),
    ],
)  # fmt: skip
def test_the_first_difference_is_shown_however_far_it_is(one: Value, other: Value) -> None:
    first, second = show_both(one, other)
    assert first != second
    assert max(len(first), len(second)) <= 60
