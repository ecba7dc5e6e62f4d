"""Which types compare, what they are called, and what a literal has."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest

from statediff.contract.language.kinds import (
    ExpressionError,
    comparable,
    compile_regex,
    describe,
    is_boolean,
    suggest,
    type_of,
    type_of_field,
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
    ("kind", "words"),
    [
        (NULL, "null"), (NUMBER, "a number"), (INT, "a number"), (USER_KEY, "a reference to user"),
        (ScalarT(Kind.TEXT, "user"), "a reference to user"), (TEXT, "a text value"),
        (EntityT("@call"), "a call"), (CollectionT("@call"), "the calls"),
        (USER, "an entity (user)"), (USERS, "a collection of user"), (ListT(TEXT), "a list"),
    ],
)  # fmt: skip
def test_a_type_has_words_that_an_author_knows(kind: Type, words: str) -> None:
    assert describe(kind) == words


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


def test_a_field_of_any_exact_number_is_a_number_and_keeps_what_it_refers_to() -> None:
    assert type_of_field(Kind.INT, "user") == USER_KEY
    assert type_of_field(Kind.DECIMAL, None) == NUMBER
    assert type_of_field(Kind.FLOAT, None) == FLOAT
    assert type_of_field(Kind.TEXT, "user") == ScalarT(Kind.TEXT, "user")
    assert type_of_field(Kind.LIST, None) == ListT(ANY)


def test_only_truths_and_what_may_be_one_are_conditions() -> None:
    assert is_boolean(BOOL)
    assert is_boolean(ANY)
    for kind in (NULL, NUMBER, TEXT, USER, USERS, ListT(BOOL)):
        assert not is_boolean(kind)


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
