"""A quantifier that fails says what it looked at; arithmetic says which field is no number."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.model.trace import Trace
from tests.judging import FAILS, finding, item, user
from tests.traces import judged


def found(condition: str, before: Any, after: Any) -> Any:
    asked = f"require:\n  - id: asked\n    that: >-\n      {condition}\n"
    body = asked + "allow: [{any: [item, user]}]\n"
    done = finding(judged(body, Trace(), before, after).judgement, "asked")
    assert done.truth is FAILS
    return done


BEFORE = {"item": [item(9)]}


def test_an_any_that_fails_names_how_many_it_looked_at_and_the_nearest_first() -> None:
    after = {"item": [item(1, 5, "a"), item(2, 7, "b"), item(3, 8, "b"), item(9)]}
    done = found('any(i.t == "b" and i.n == 9 for i in after.item)', BEFORE, after)
    assert done.sentence == (
        "none of 4 item entities meets the condition; item 2: 7 \u2260 9; item 3: 8 \u2260 9; "
        'item 1: "a" \u2260 "b"'
    )
    assert {row.key for row in done.witness.rows} == {(1,), (2,), (3,)}
    assert any(each.text == "i.n == 9" for each in done.witness.comparisons)


def test_an_any_over_nothing_says_that_there_is_nothing() -> None:
    done = found("any(u.id == 1 for u in after.user)", BEFORE, BEFORE)
    assert done.sentence == "there is no user to look at"


def test_an_any_looks_at_a_bounded_number_again() -> None:
    after = {"item": [item(n) for n in range(1, 1200)]}
    done = found("any(i.n == 9 for i in after.item)", BEFORE, after)
    assert done.sentence.startswith(
        "none of more than 1000 item entities meets the condition; item 1: 1 "
    )


def test_an_all_that_fails_names_the_entity_that_breaks_it() -> None:
    after = {"item": [item(1, 1), item(2, 3), item(9, 1)]}
    done = found("all(i.n == 1 for i in after.item)", BEFORE, after)
    assert done.sentence == "item 2: 3 \u2260 1"


def test_in_quantifiers_of_quantifiers_each_says_its_own() -> None:
    after = {"item": [item(1, 1, owner=4)], "user": [user(3), user(4, "admin")]}
    done = found(
        'all(any(u.id == i.owner and u.role == "user" for u in after.user) for i in after.item)',
        {}, after,
    )  # fmt: skip
    assert done.sentence == (
        "item 1: none of 2 user entities meets the condition; "
        'user 4: "admin" \u2260 "user"; user 3: 3 \u2260 4'
    )


def test_a_quantifier_over_a_list_has_no_entity() -> None:
    done = found("any(n == 3 for n in [1, 2]) and count(after.item) > 0", BEFORE, BEFORE)
    assert done.sentence.startswith("none of 2 values meets the condition; 1 \u2260 3")


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("all(i.n * 2 > 0 for i in after.item)", "item 2's n after the run is null"),
        ("all(1 + i.n > 0 for i in after.item)", "item 2's n after the run is null"),
        ("all(before.item[i.id].n - 1 >= 0 for i in after.item)", "item 2's n before the run is "),
    ],
)
def test_arithmetic_names_the_row_and_the_field(condition: str, said: str) -> None:
    rows = {"item": [item(1, 1), item(2, None)]}
    done = found(condition, rows, rows)
    assert done.sentence.startswith(said)
    assert done.sentence.endswith("which is not a number")
