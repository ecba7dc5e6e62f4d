"""Equality, order and the tests on texts, value by value; how outcomes are negated and combined."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from statediff.contract.evaluation.operations import (
    ALL,
    ALL_ITEMS,
    ANY,
    ANY_ITEM,
    combine,
    comparison_key,
    equal,
    negate,
    order,
    relate,
)
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EvalContext,
    Result,
    Undefined,
    Unknown,
)
from statediff.model.values import ABSENT, Digested, Map
from tests.contract.test_evaluation import world_of
from tests.explaining import in_words

NAN, INFINITY = float("nan"), float("inf")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EAST = NOON.astimezone(timezone(timedelta(hours=3)))
LOCAL, DAY = NOON.replace(tzinfo=None), date(2026, 1, 1)


def entity_ref(*key: Any) -> EntityRef:
    return EntityRef("before", "item", key, None)


# Of each line all are equal to each other, and to nothing on another line.
CLASSES: tuple[tuple[Result, ...], ...] = (
    (1, Decimal("1.00"), Fraction(1), 1.0, entity_ref(1)),
    (Decimal("0.5"), Fraction(1, 2), 0.5),
    (Fraction(1, 3),),
    (0, -0.0, Decimal("-0")),
    (INFINITY,), (-INFINITY,),
    (Decimal("NaN"), Decimal("NaN")), (Decimal("Infinity"),),
    (True,), (False,), (None,), (ABSENT,),
    ("1",), ("a", entity_ref("a")), ("A",), (b"a",),
    (NOON, EAST), (LOCAL,), (DAY,),
    ((), ()), ((1, 2), (Decimal(1), 2.0), entity_ref(1, 2)), ((1,),), ((1, True),), ((2, 1),),
    ((1, 2, 3),),
    (Map.of({"a": 1}), Map.of({"a": Decimal("1.0")})), (Map.of({"a": True}),), (Map.of({"b": 1}),),
    (Map.of({"a": 1, "b": 1}),), (Map.of({}),),
)  # fmt: skip
VALUES = [(at, value) for at, line in enumerate(CLASSES) for value in line]


def test_equality_is_of_numbers_by_value_of_entities_by_key_of_all_else_exactly() -> None:
    world = world_of([])
    for (line, a), (other, b) in product(VALUES, VALUES):
        expected = line == other
        assert equal(a, b) is expected, (a, b)
        assert (comparison_key(a) == comparison_key(b)) is expected, (a, b)
        assert relate("==", a, b, world) == (TRUE if expected else FALSE), (a, b)


def test_a_float_that_is_no_number_equals_nothing() -> None:
    for other in (NAN, 1, 1.0, None, "nan", Decimal("NaN")):
        assert not equal(NAN, other)
        assert not equal(other, NAN)
        assert comparison_key(NAN) != comparison_key(other)
        assert order(NAN, other) is order(other, NAN) is None


RISING: tuple[tuple[Result, ...], ...] = (
    (-INFINITY, -2, Decimal("-1.5"), 0.0, Fraction(1, 3), 0.5, 1, Decimal(10), 2**70, INFINITY),
    ("", "A", "Z", "a", "ab", "b", "\uffee", "\U0001f600"),
    (NOON - timedelta(days=1), NOON, EAST + timedelta(minutes=1), NOON + timedelta(hours=1)),
    (LOCAL, LOCAL + timedelta(hours=1)),
    (DAY, DAY + timedelta(days=1)),
)


def test_what_has_an_order_is_ordered_and_nothing_else_is() -> None:
    ranked = [(line, at, v) for line, values in enumerate(RISING) for at, v in enumerate(values)]
    for (line, at, a), (other, place, b) in product(ranked, ranked):
        sign = None if line != other else (at > place) - (at < place)
        assert order(a, b) == sign, (a, b)
    for odd in (None, ABSENT, True, (1,), Map.of({}), b"a", Decimal("NaN"), NAN):
        for other in (odd, 1, "a", NOON, DAY):
            assert order(odd, other) is order(other, odd) is None
    assert order(NOON, EAST) == order(entity_ref(1), Decimal("1.0")) == order(2, entity_ref(2)) == 0


@pytest.mark.parametrize(
    ("op", "signs"), [("<", (-1,)), ("<=", (-1, 0)), (">", (1,)), (">=", (1, 0))]
)
def test_every_comparison_follows_the_order(op: str, signs: tuple[int, ...]) -> None:
    for a, b in ((1, 2), (2, 2), (3, 2)):
        holds = (a > b) - (a < b) in signs
        assert relate(op, a, b, world_of([])) == (TRUE if holds else FALSE)
    for a, b in ((None, 1), (1, ABSENT), (True, True), ("a", 1)):
        world = world_of([])
        assert relate(op, a, b, world) == UNDEFINED
        told = in_words(world.undefined)
        assert told == ["null, absent or values of different kinds have no order"]


OPEN, FIRM = Unknown(frozenset({"hidden"})), Unknown(frozenset({"lost"}), maybe_null=False)
TORN = Unknown(frozenset({"torn"}), maybe_null=False, maybe_undefined=True)
EITHER, ANYTHING = TRUE | FALSE, TRUE | FALSE | UNDEFINED


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("==", OPEN, 1, EITHER), ("==", None, OPEN, EITHER), ("==", FIRM, OPEN, EITHER),
        ("==", TORN, 1, ANYTHING), ("==", 1, TORN, ANYTHING), ("==", entity_ref(), 1, EITHER),
        ("<", FIRM, 1, EITHER), ("<", 1, FIRM, EITHER), ("<", OPEN, 1, ANYTHING),
        ("<", FIRM, OPEN, ANYTHING),
        (">=", 1, OPEN, ANYTHING), ("<", TORN, 1, ANYTHING), ("<", entity_ref(), 1, EITHER),
        ("<", OPEN, None, UNDEFINED), ("<", ABSENT, FIRM, UNDEFINED),
        ("in", OPEN, (1, 2), EITHER), ("in", OPEN, (), FALSE), ("in", TORN, (1,), ANYTHING),
        ("in", TORN, (), FALSE | UNDEFINED),
        ("in", 1, (OPEN, 1), TRUE), ("in", 1, (2, OPEN), EITHER),
        ("in", 1, (TORN, 1), TRUE | UNDEFINED),
        ("in", 1, (2, 3), FALSE), ("in", 1, (3, 1.0), TRUE), ("in", None, (None,), TRUE),
        ("in", 1, OPEN, ANYTHING), ("in", 1, FIRM, EITHER), ("in", OPEN, FIRM, EITHER),
        ("in", 1, None, UNDEFINED), ("in", OPEN, "abc", UNDEFINED), ("in", "a", "abc", UNDEFINED),
        ("==", (OPEN, 1), (1, 1), EITHER), ("==", (OPEN, 1), (1, 2), FALSE),
        ("==", (1, 2), (1, FIRM), EITHER), ("==", (OPEN,), (1, 2), FALSE),
        ("==", (OPEN,), (), FALSE),
        ("==", (TORN,), (1,), ANYTHING), ("==", (TORN,), (), FALSE | UNDEFINED),
        ("==", (TORN, 1), (1, 2), FALSE | UNDEFINED),
    ],
)  # fmt: skip
def test_what_nobody_saw_leaves_every_outcome_that_it_could_have(
    op: str, left: Result, right: Result, expected: int
) -> None:
    assert relate(op, left, right, world_of([])) == expected


def wide(content: str | bytes) -> Unknown:
    """A value of which only the digest was captured."""
    return Unknown(frozenset({"wide"}), False, True, Digested.of(content))


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("==", wide("long"), wide("long"), TRUE), ("==", wide("long"), wide("other"), FALSE),
        ("==", wide("long"), "long", TRUE), ("==", "other", wide("long"), FALSE),
        ("==", wide("long"), b"long", FALSE), ("==", wide(b"long"), b"long", TRUE),
        ("==", wide("long"), None, FALSE), ("==", 4, wide("long"), FALSE),
        ("==", wide("4"), entity_ref("4"), TRUE), ("==", wide("4"), entity_ref(4), FALSE),
        ("==", wide("long"), OPEN, ANYTHING), ("==", FIRM, wide("long"), ANYTHING),
        ("<", wide("long"), "zz", ANYTHING), (">=", wide("long"), wide("long"), ANYTHING),
    ],
)  # fmt: skip
def test_of_a_wide_value_only_whether_it_is_another_one_is_known(
    op: str, left: Result, right: Result, expected: int
) -> None:
    world = world_of([])
    assert relate(op, left, right, world) == expected
    assert ("wide" in world.causes) == (expected == ANYTHING)


def test_an_outcome_says_why_it_is_open_or_undefined() -> None:
    def told(op: str, left: Result, right: Result) -> tuple[set[str], list[str]]:
        world: EvalContext = world_of([])
        assert (relate(op, left, right, world) == UNDEFINED) is bool(world.undefined)
        return set(in_words(world.causes)), in_words(world.undefined)

    assert told("==", OPEN, FIRM) == ({"hidden", "lost"}, [])
    assert told("in", 1, (2, OPEN)) == ({"hidden"}, [])
    some = EntityRef("before", "item", (), None, "cut short")
    assert told("==", some, 1) == ({"cut short"}, [])
    assert told("==", Undefined("no value"), OPEN) == (set(), ["no value"])
    assert told("==", OPEN, Undefined("no value")) == (set(), ["no value"])
    assert told("<", OPEN, None)[1] == ["null or absent has no order"]
    assert told("in", 1, None)[1] == ["`in` on something that is not a list"]


def test_negation_swaps_truth_and_falsehood_and_leaves_the_undefined() -> None:
    assert (negate(TRUE), negate(FALSE), negate(UNDEFINED)) == (FALSE, TRUE, UNDEFINED)
    for a, b in product(range(1, 8), range(1, 8)):
        assert negate(a | b) == negate(a) | negate(b)


@pytest.mark.parametrize("ranks", [ANY, ALL, ANY_ITEM, ALL_ITEMS])
def test_of_two_elements_the_outcome_that_ranks_first_is_that_of_both(
    ranks: tuple[int, int, int],
) -> None:
    for a, b in product(ranks, repeat=2):
        assert combine(ranks, a, b) == min(a, b, key=ranks.index)
    for a, b, c in product(range(1, 8), repeat=3):
        assert combine(ranks, a | b, c) == combine(ranks, a, c) | combine(ranks, b, c)
        assert combine(ranks, a, c) == combine(ranks, c, a)
