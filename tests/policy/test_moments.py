"""Steps and turns where a history delivers the states between the two ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from statediff.model.trace import Trace, Turn
from statediff.model.view import StateView
from statediff.policy.matching import Judge
from statediff.policy.moments import Moments
from statediff.policy.run import Run
from statediff.policy.steps import step
from statediff.policy.turns import turn
from tests.histories import course
from tests.judging import (
    CUT,
    FAILS,
    HIDDEN,
    HOLDS,
    SILENT,
    UNKNOWN,
    Rows,
    doc,
    finding,
    item,
    state,
    user,
)
from tests.judging import run as evaluated
from tests.traces import call, cut, log

GOOD, BAD = {"item": [item(1, 1)]}, {"item": [item(1, -1)]}
DARK = {"item": [item(1, HIDDEN)]}


def view(rows: Any) -> StateView:
    return StateView(state(rows))


def over(
    body: str,
    before: Any,
    between: Iterable[Any],
    after: Any,
    *,
    gap: str | None = None,
    trace: Trace = Trace((), True, ""),  # noqa: B008 — frozen
) -> Any:
    """The first step or turn of the contract over these states, in order."""
    return finding(course(body, before, between, after, gap=gap, trace=trace).judgement, "c")


def left(body: str, before: Any, states: Mapping[str, Rows], after: Any, trace: Trace) -> Any:
    """The same where it is known which state each of these calls or turns left."""
    contract = evaluated(body, {}, {}).contract
    moments = Moments(after={name: view(rows) for name, rows in states.items()})
    room = Run(Judge(view(before), view(after), (), (), SILENT), trace, moments)
    if contract.turns:
        return turn(contract.turns[0], room, True)
    return step(contract.steps[0], room)


def test_where_nothing_was_followed_there_are_no_moments() -> None:
    alone = Moments().alone()
    assert (list(alone), len(alone), "moment 1 of db" in alone) == ([], 0, False)


ALWAYS = "steps:\n  - {id: c, always: 'all(i.n >= 0 for i in now.item)'}\n"


@pytest.mark.parametrize(
    ("between", "gap", "truth"),
    [
        ([], None, HOLDS),
        ([GOOD, GOOD], None, HOLDS),
        ([GOOD, BAD, GOOD], None, FAILS),
        ([GOOD, DARK], None, UNKNOWN),
        ([DARK, BAD], None, FAILS),
        ([GOOD], "the feed broke off", UNKNOWN),
        ([BAD], "the feed broke off", FAILS),
    ],
)
def test_an_invariant_holds_over_a_complete_history_only(
    between: list[Any], gap: str | None, truth: Any
) -> None:
    found = over(ALWAYS, GOOD, between, GOOD, gap=gap)
    assert found.truth is truth
    if truth is FAILS:
        assert found.sentence.startswith("moment 2" if gap is None else "moment 1")
        assert found.witness.rows[0].side.startswith("moment")


def test_an_invariant_may_compare_a_moment_with_the_ends() -> None:
    body = "steps:\n  - {id: c, always: 'now.item[1].n >= before.item[1].n'}\n"
    more = {"item": [item(1, 2)]}
    assert over(body, GOOD, [more], GOOD).truth is HOLDS
    assert over(body, more, [GOOD], more).truth is FAILS
    assert over(body, GOOD, [{}], GOOD).code == "undefined"


AFTER = "steps:\n  - {id: c, after_every_call: 'all(i.n >= 0 for i in now.item)'}\n"


def test_the_state_that_a_call_left_comes_from_the_history() -> None:
    two = log(call("a"), call("b"))
    known = {"call-1": GOOD}
    assert left(AFTER, GOOD, known, GOOD, two).truth is HOLDS
    assert left(AFTER, GOOD, {"call-1": BAD}, GOOD, two).truth is FAILS
    assert left(AFTER, GOOD, known, GOOD, cut(two)).truth is UNKNOWN
    assert over(AFTER, GOOD, [BAD], GOOD, trace=two).truth is UNKNOWN
    assert over(AFTER, GOOD, [], GOOD, trace=two).truth is HOLDS  # nothing ever changed


TURN = """turns:
  - {id: c, user: Go., then: ['exists(now.item[1])']}
  - {user: On., then: ['now.item[1].n == 1']}
"""


def test_the_state_that_a_turn_left_comes_from_the_history() -> None:
    trace = log(call("a"), turns=(Turn("Go.", 0), Turn("On.", 1)))
    assert left(TURN, {}, {"turn-1": GOOD}, {}, trace).truth is HOLDS
    assert left(TURN, {}, {"turn-1": {}}, {}, trace).truth is FAILS
    assert over(TURN, {}, [GOOD], {}, trace=trace).truth is UNKNOWN


ORDER = "steps:\n  - {id: c, effect: create item, before: create user}\n"
ITEM: Any = {"item": [item(1)]}
BOTH: Any = {"item": [item(1)], "user": [user(1)]}
USER: Any = {"user": [user(1)]}


@pytest.mark.parametrize(
    ("between", "after", "truth"),
    [
        ([ITEM], BOTH, HOLDS),
        ([], BOTH, HOLDS),  # in one commit
        ([USER], BOTH, FAILS),
        ([USER], {}, FAILS),  # and undone
        ([USER], USER, FAILS),
        ([ITEM, {}], USER, HOLDS),
        ([ITEM], ITEM, HOLDS),
        ([], {}, HOLDS),
        ([state({}, {"item": CUT}), USER], USER, UNKNOWN),
        ([state(USER, {"item": CUT})], BOTH, UNKNOWN),
    ],
)
def test_one_effect_comes_before_the_other(between: list[Any], after: Any, truth: Any) -> None:
    assert over(ORDER, {}, between, after).truth is truth
    assert over(ORDER, {}, between, after, gap="the feed broke off").truth is UNKNOWN


@pytest.mark.parametrize(
    ("effect", "before", "after", "happens"),
    [
        ("update item", ITEM, {"item": [item(1, 2)]}, True),
        ("update item", ITEM, ITEM, False),
        ("update item", {}, ITEM, False),
        ("delete item", ITEM, {}, True),
        ("delete item", {}, ITEM, False),
        ("any item", {}, ITEM, True),
        ("delete doc", {"doc": [doc(1)]}, {"doc": [doc(1, deleted_at="now")]}, True),
        ("update doc", {"doc": [doc(1)]}, {"doc": [doc(1, deleted_at="now")]}, False),
        ("create doc", {"doc": [doc(1, deleted_at="now")]}, {"doc": [doc(1)]}, True),
        ("link grant", {}, {"grant": [{"user": 1, "item": 1}]}, True),
        ("unlink grant", {"grant": [{"user": 1, "item": 1}]}, {}, True),
    ],
)
def test_what_counts_as_an_effect(effect: str, before: Any, after: Any, happens: bool) -> None:
    body = f"steps:\n  - {{id: c, effect: create user, before: {effect}}}\n"
    assert over(body, before, [], after).truth is (FAILS if happens else HOLDS)
