"""Which types compare, what they are called, and what a literal has."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest

from statediff.contract.language.kinds import (
    ExpressionError,
    comparable,
    compile_regex,
    suggest,
    type_of,
)
from statediff.contract.language.syntax import (
    ANY,
    BOOL,
    NULL,
    NUMBER,
    TEXT,
    CollectionT,
    EntityT,
    ListT,
    ScalarT,
    Type,
)
from statediff.model.schema import Kind
from statediff.model.values import Map, Value

FLOAT, INT, DATE = ScalarT(Kind.FLOAT), ScalarT(Kind.INT), ScalarT(Kind.DATE)
INSTANT, LOCAL = ScalarT(Kind.TIMESTAMP), ScalarT(Kind.LOCAL_TIMESTAMP)
USER_KEY, ITEM_KEY = ScalarT(Kind.DECIMAL, "user"), ScalarT(Kind.DECIMAL, "item")
USER, ITEM, USERS = EntityT("user"), EntityT("item"), CollectionT("user")
NUMBERS, LISTS = (INT, NUMBER, FLOAT), (ListT(NUMBER), ListT(TEXT))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        *((a, b, True) for a, b in product(NUMBERS, NUMBERS)),
        *((a, b, False) for a, b in product(NUMBERS, (TEXT, BOOL, DATE, INSTANT))),
        *((a, b, a == b) for a, b in product((INSTANT, LOCAL, DATE), (INSTANT, LOCAL, DATE))),
        *((a, TEXT, False) for a in (INSTANT, LOCAL, DATE, BOOL)),
        *((NULL, b, True) for b in (NULL, NUMBER, TEXT, BOOL, DATE, ANY, *LISTS)),
        *((ANY, b, True) for b in (NUMBER, TEXT, BOOL, DATE, *LISTS, USER)),
        *((a, b, True) for a, b in product(LISTS, LISTS)),
        *((a, b, False) for a, b in product(LISTS, (NUMBER, TEXT, USER))),
        (TEXT, TEXT, True), (BOOL, BOOL, True),
        (USER_KEY, USER_KEY, True), (USER_KEY, ITEM_KEY, False), (USER_KEY, NUMBER, True),
        (USER, USER, True), (USER, ITEM, False), (USER, USER_KEY, True), (USER, ITEM_KEY, False),
        (USER, NUMBER, True), (USER, NULL, False),
        (USERS, NUMBER, False), (USERS, USER, False), (USERS, USERS, False),
    ],
)  # fmt: skip
def test_values_of_two_types_compare_or_never_can(a: Type, b: Type, expected: bool) -> None:
    assert comparable(a, b) is expected
    assert comparable(b, a) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, NULL), (True, BOOL), (1, NUMBER), (Decimal("1.5"), NUMBER), ("a", TEXT),
        ((), ListT(ANY)), (("a", 1), ListT(TEXT)), ((None,), ListT(NULL)), (((1,),), ListT(ANY)),
        ((Map.of({}),), ListT(ANY)), (Map.of({}), ANY),
    ],
)  # fmt: skip
def test_a_literal_has_the_type_of_its_value(value: Value, expected: Type) -> None:
    assert type_of(value) == expected


def test_a_pattern_is_one_of_re2_and_small(capfd: pytest.CaptureFixture[str]) -> None:
    assert compile_regex("a+b").fullmatch("aab")
    for pattern in ("(", r"(a)\1", "(?=a)", "((((a{99}){9}){9}){9})"):
        with pytest.raises(ExpressionError) as caught:
            compile_regex(pattern, 7)
        assert caught.value.offset == 7
    assert capfd.readouterr().err == ""
    with pytest.raises(ExpressionError) as caught:
        compile_regex("(")
    assert (caught.value.offset, caught.value.hint, caught.value.code) == (0, "", "expression")
    assert str(ExpressionError("not this", 3, "but that")) == "not this"


def test_the_nearest_known_name_is_suggested_and_a_far_one_is_not() -> None:
    assert suggest("itm", ["user", "item", "items"]) == "did you mean `item`?"
    assert suggest("itm", iter(["item"])) == "did you mean `item`?"
    assert suggest("abcde", ["abcxy"]) == "did you mean `abcxy`?"
    assert suggest("abcde", ["abxyz", "zzz"]) == ""
