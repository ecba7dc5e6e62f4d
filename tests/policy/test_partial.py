"""Cases that partial knowledge leaves open: each has a completion either way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judging import CUT, DARK, FAILS, HIDDEN, HOLDS, UNKNOWN, doc, item, judged, state, truths

NOTHING: dict[str, Any] = {}


def truth(body: str, before: Any, after: Any, clause: str = "c") -> Any:
    return truths(judged(body, before, after))[clause]


def test_an_entity_that_may_have_been_replaced_may_count_twice() -> None:
    body = "forbid: [{id: c, any: doc, count: 2}]\nallow: [{any: doc}]\n"
    before = {"doc": [doc(1)]}
    assert truth(body, before, {"doc": [doc(1, kind=HIDDEN)]}) is UNKNOWN
    assert truth(body, before, {"doc": [doc(1, kind="bill")]}) is FAILS
    assert truth(body, before, {"doc": [doc(1, title=HIDDEN)]}) is HOLDS


@pytest.mark.parametrize("that", ["sum(i.n for i in them) == 3", "it.n == 3"])
def test_that_waits_for_the_entities_that_may_belong(that: str) -> None:
    body = (
        'require:\n  - id: c\n    create: item\n    where: it.t == "a"\n    count: {min: 1}\n'
        f"    that: {that}\n"
    )
    assert truth(body, NOTHING, {"item": [item(1, 3), item(2, 5, "b")]}) is HOLDS
    assert truth(body, NOTHING, {"item": [item(1, 3), item(2, 5, "a")]}) is FAILS
    assert truth(body, NOTHING, {"item": [item(1, 3), item(2, 5, HIDDEN)]}) is UNKNOWN
    assert truth(body, NOTHING, {"item": [item(1, HIDDEN)]}) is UNKNOWN


def test_one_match_that_may_be_undefined_may_fail_the_clause() -> None:
    body = "require:\n  - {id: c, update: item, where: 'it.n > 0', count: {min: 1}}\n"

    def of(other: Any) -> Any:
        before, after = [item(1), item(2, other)], [item(1, t="b"), item(2, other, "b")]
        return truth(body, {"item": before}, {"item": after})

    assert of(0) is HOLDS
    assert of(None) is FAILS
    assert of(HIDDEN) is UNKNOWN


def test_what_the_run_left_undefined_is_no_match() -> None:
    body = "require:\n  - {id: c, create: item, where: 'it.n > 0', count: {min: 1}}\n"
    assert truth(body, NOTHING, {"item": [item(1), item(2, None)]}) is HOLDS
    assert truth(body, NOTHING, {"item": [item(2, None)]}) is FAILS


def test_a_doubted_change_that_would_be_undefined_may_fail_the_clause() -> None:
    body = "require:\n  - {id: c, update: item, where: 'it.n > 0', fields: [t], count: {min: 1}}\n"
    before = [item(1), item(2, None, "x")]
    assert truth(body, {"item": before}, {"item": [item(1, t="b"), item(2, None, "x")]}) is HOLDS
    assert truth(body, {"item": before}, {"item": [item(1, t="b"), item(2, None, "y")]}) is FAILS
    hidden = {"item": [item(1, t="b"), item(2, None, HIDDEN)]}
    assert truth(body, {"item": before}, hidden) is UNKNOWN


def test_every_waits_for_what_may_have_changed_and_for_what_may_have_been_there() -> None:
    body = "require: [{id: c, update: item, set: {n: 9}, count: every}]\n"
    assert truth(body, {"item": [item(1)]}, {"item": [item(1, HIDDEN)]}) is UNKNOWN
    assert truth(body, state({}, {"item": CUT}), NOTHING) is UNKNOWN
    assert truth(body, state({}, {"item": DARK}), NOTHING) is UNKNOWN
    some = "require:\n  - {id: c, update: item, where: 'it.t == \"a\"', count: every}\n"
    assert truth(some, {"item": [item(1, t=HIDDEN)]}, {"item": [item(1, t="a")]}) is UNKNOWN
    assert truth(some, {"item": [item(1, 1, HIDDEN)]}, {"item": [item(1, 2, HIDDEN)]}) is UNKNOWN


@pytest.mark.parametrize("bound", ["count: 1", "that: 'count(i for i in them) < 2'"])
def test_a_bound_on_what_is_allowed_waits_for_what_another_clause_would_explain(bound: str) -> None:
    body = (
        "forbid: [{delete: user}]\nallow:\n"
        f"  - {{update: item, fields: [n, t], {bound}}}\n"
        "  - {update: item, where: 'it.id == 2', fields: [t]}\n"
    )
    before = {"item": [item(1), item(2)]}
    for value, expected in (("a", HOLDS), ("b", FAILS), (HIDDEN, UNKNOWN)):
        after = {"item": [item(1, 5), item(2, t=value)]}
        assert truth(body, before, after, "frame") is expected, value


def test_rows_without_a_key_and_with_a_gap_may_be_other_rows() -> None:
    rows = {"log": [{"what": "a", "n": HIDDEN}]}
    for operation in ("delete", "create", "any"):
        body = f"forbid: [{{id: c, {operation}: log}}]\n"
        assert truth(body, rows, rows) is UNKNOWN, operation


@pytest.mark.parametrize(
    "condition",
    ["any(i == 9 for i in after.item)", "not all(i != 9 for i in after.item)",
     "exists(after.item[9])", "9 in after.item", "count(i for i in after.item) == 2",
     "any(i == 9 for i in created.item)"],
)  # fmt: skip
def test_an_entity_nobody_saw_may_be_any_entity(condition: str) -> None:
    body = f"require:\n  - {{id: c, that: '{condition}'}}\n"
    seen = {"item": [item(1)]}
    assert truth(body, seen, {"item": [item(1), item(9)]}) is HOLDS
    assert truth(body, seen, seen) is FAILS
    assert truth(body, seen, state(seen, {"item": CUT})) is UNKNOWN


def test_a_pattern_that_names_an_entity_waits_for_those_nobody_saw() -> None:
    body = "forbid:\n  - {id: c, create: item, where: 'it == 9'}\n"
    assert truth(body, NOTHING, state({}, {"item": CUT})) is UNKNOWN
    never = "forbid:\n  - {id: c, create: item, where: '1 == 2'}\n"
    assert truth(never, NOTHING, state({}, {"item": CUT})) is HOLDS
