"""Required changes: every entity that is meant, and a change for each clause that wants one."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.model.verdict import Truth
from tests.judging import (
    CUT,
    FAILS,
    HIDDEN,
    HOLDS,
    UNKNOWN,
    doc,
    finding,
    item,
    judged,
    state,
    user,
)

NINE = "update: item, set: {n: 9}"
ONE: Any = {"item": [item(1)]}
TWO: Any = {"item": [item(1), item(2)]}


@pytest.mark.parametrize(
    ("clause", "before", "after", "truth", "missing"),
    [
        (NINE, ONE, {"item": [item(1, 9)]}, HOLDS, ()),
        (NINE, ONE, ONE, FAILS, ()),
        # An entity waits for what nobody saw of itself, in a field that counts, and no other.
        (NINE, TWO, {"item": [item(1), item(2, HIDDEN)]}, FAILS, ()),
        (NINE, TWO, {"item": [item(1, 9), item(2, HIDDEN)]}, UNKNOWN,
         ("item[2].n: hidden",)),
        (NINE, {**ONE, "user": [user(1)]}, {**ONE, "user": [user(1, HIDDEN)]}, FAILS, ()),
        (NINE, ONE, {"item": [item(1, t=HIDDEN)]}, FAILS, ()),
        (NINE, ONE, state(ONE, {"item": CUT}), UNKNOWN, ("item: cut short",)),
        (NINE, ONE, state({"item": [item(1, 9)]}, {"item": CUT}), HOLDS, ()),
        # Whether it is one that has to change is asked of what it was.
        (f"{NINE}, where: 'it.t == \"a\"'", {"item": [item(1, t=HIDDEN)]}, {"item": [item(1)]},
         UNKNOWN, ("item.t before: hidden",)),
        (f"{NINE}, where: 'it.t == \"a\" or exists(new)'", {"item": [item(1, t=HIDDEN)]},
         {"item": [item(1, 9, HIDDEN)]}, HOLDS, ()),
        # What went and came again under its key was deleted.
        ("delete: doc", {"doc": [doc(1)]}, {"doc": [doc(1, kind="bill")]}, HOLDS, ()),
    ],
)  # fmt: skip
def test_every_entity_that_is_meant_must_change(
    clause: str, before: Any, after: Any, truth: Truth, missing: tuple[str, ...]
) -> None:
    body = f"require:\n  - {{id: c, {clause}, count: every}}\nallow: [{{any: doc}}]\n"
    found = finding(judged(body, before, after), "c")
    assert (found.truth, found.missing) == (truth, missing)
    assert found.code == {HOLDS: "holds", FAILS: "missing-change"}.get(truth, "unobserved")


HALF = [item(1), item(2, HIDDEN)]
TWICE = "2 item entities match, at most 1 may: item 1, item 2"


@pytest.mark.parametrize(
    ("count", "where", "items", "code", "sentence", "deltas"),
    [
        # What may match counts as neither: it is no change of the clause, and may be one too many.
        ("{min: 1}", "it.n == 1", HALF, "holds", "item 1", ["item[1]"]),
        ("1", "it.n == 1", HALF, "unobserved", "item.n after: hidden; needed by c", ["item[1]"]),
        ("{min: 1, max: 2}", "it.n == 1", HALF, "holds", "item 1", ["item[1]"]),
        ("1", "it.n == 1", [item(1), item(2)], "too-many-changes", TWICE, ["item[1]", "item[2]"]),
        # Nor does what can only be false or undefined keep it from being known that one is missing.
        ("1", "it.n > 5 and it.t == \"z\"", [item(1, HIDDEN)], "missing-change",
         "no item matches, 1 required", []),
        ("{max: 4}", "it.n == 1", [item(n) for n in range(5)], "too-many-changes",
         "5 item entities match, at most 4 may: item 0, item 1, item 2, item 3 and 1 more",
         [f"item[{n}]" for n in range(5)]),
    ],
)  # fmt: skip
def test_as_many_entities_must_match_as_the_clause_says(
    count: str, where: str, items: list[Any], code: str, sentence: str, deltas: list[str]
) -> None:
    body = (
        f"require:\n  - {{id: c, create: item, where: '{where}', count: {count}}}\n"
        "allow: [{create: item}]\n"
    )
    found = finding(judged(body, {}, {"item": items}), "c")
    assert (found.code, found.sentence) == (code, sentence)
    assert code == "unobserved" or list(found.deltas) == deltas


def test_a_change_that_comes_near_without_a_comparison_is_named_alone() -> None:
    body = "require:\n  - {id: c, create: item, where: 'it.t == \"a\" and false'}\n"
    found = finding(judged(body, {}, {"item": [item(1)]}), "c")
    assert found.sentence == "no item matches, 1 required; item 1 does not"


SET_NINE = "require:\n  - {id: c, update: item, where: it.id > 1, set: {n: 9}}\n"


def test_the_nearest_change_is_the_one_that_is_meant_and_its_wrong_value_is_named() -> None:
    before: Any = {"item": [item(1), item(2)]}
    found = finding(judged(SET_NINE, before, {"item": [item(1, 9), item(2, 8)]}), "c")
    assert found.sentence == "no item matches, 1 required; item 2 does not: n 8 ≠ 9"
    first = found.witness.comparisons[0]
    assert (first.text, first.operator) == ("set n", "==")


def test_a_value_that_was_another_before_is_named_too() -> None:
    body = "require:\n  - {id: c, update: item, from: {n: 3}, set: {n: 9}}\n"
    found = finding(judged(body, ONE, {"item": [item(1, 9)]}), "c")
    assert found.sentence == "no item matches, 1 required; item 1 does not: n 1 ≠ 3"
    assert found.witness.comparisons[0].text == "from n"
