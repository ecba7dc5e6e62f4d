"""Steps and turns where a history delivers the states between the two ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from statediff.kernel.policy.history import Commit, IntermediateStates, unseen
from statediff.kernel.policy.matching import JudgingContext
from statediff.kernel.policy.run import CallContext
from statediff.kernel.policy.steps import step, turn
from statediff.model.delta import Diff
from statediff.model.explanation import Reason
from statediff.model.sentences import sentence
from statediff.model.timelines import SourceTimeline, Step, Timelines
from statediff.model.trace import Trace, Turn
from statediff.model.view import StateView, View
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
    moments = IntermediateStates(after={name: view(rows) for name, rows in states.items()})
    room = CallContext(JudgingContext(view(before), view(after), (), (), SILENT), trace, moments)
    if contract.turns:
        return turn(contract.turns[0], room, True)
    return step(contract.steps[0], room)


def transactions(source: str, *touched: str, gap: str | None = None) -> SourceTimeline:
    """A line of the types that its steps touch, each step one of them; `-` touches none."""
    steps = tuple(Step(f"t{n}", "", None, frozenset({t} - {"-"})) for n, t in enumerate(touched, 1))
    return SourceTimeline(source, frozenset(touched) - {"-"}, steps, gap)


def moments(*lines: SourceTimeline) -> IntermediateStates:
    sides = {line.side(n) for line in lines for n in range(len(line.steps) + 1)}
    views = {side: view({"item": [item(n)]}) for n, side in enumerate(sorted(sides))}
    return IntermediateStates(Timelines(lines), {"before": view({}), "after": view({}), **views})


def test_a_type_moved_where_a_transaction_touched_it_and_where_nobody_can_say() -> None:
    known = moments(
        SourceTimeline("db", frozenset({"item", "user"}), transactions("", "item", "-").steps)
    )
    assert known.is_still({"user"}) is known.is_still(()) is True
    assert known.is_still({"item"}) is known.is_still({"item", "user"}) is False
    assert known.is_still({"doc"}) is False  # nobody tells of it
    assert moments(transactions("db", "item", gap="cut")).is_still({"item"}) is False
    assert known.moving({"user"}) == ()
    assert known.moving({"user", "item"}) == known.course.lines
    three = moments(transactions("db", "item", "user", "item"))
    assert (three.sides({"item"}), three.sides({"doc"})) == (("moment 1 of db",), ())


def test_each_moment_is_there_by_its_side_and_the_ends_are_none() -> None:
    alone = moments(transactions("db", "item", "item", "item")).alone()
    assert list(alone) == ["moment 1 of db", "moment 2 of db"]
    assert [side in alone for side in ("moment 1 of db", "after", "before")] == [True, False, False]
    cut_off = moments(transactions("db", "item", gap="cut")).alone()
    assert (list(cut_off), len(cut_off)) == (["moment 1 of db"], 1)


def test_states_of_two_sources_are_tried_with_each_other_up_to_a_number() -> None:
    known = moments(transactions("a", "item", "doc", "item"), transactions("b", "user"))
    tried = known.together({"item", "user"})
    assert tried is not None
    assert [(cut.side, cut.is_certain) for cut in tried if cut.is_certain] == [
        ("before, before", True), ("after, after", True),
    ]  # fmt: skip
    assert [cut.side for cut in known.together({"item", "user"}) or ()] == [
        "before, before", "before, after", "moment 1 of a, before", "moment 1 of a, after",
        "after, before", "after, after",
    ]  # fmt: skip
    many = transactions("a", *["item"] * 31)
    most = moments(many, transactions("b", *["user"] * 15)).together({"item", "user"})
    assert most is not None
    assert next(most)[0] == "before, before"
    over_it = moments(many, transactions("b", *["user"] * 16))
    assert over_it.together({"item", "user"}) is None


def why(there: View, name: str) -> str:
    told = there.enumeration(name).explanation
    return "" if told is None else sentence(told)


def test_what_no_state_shows_says_why() -> None:
    known = moments(transactions("b", "item"), transactions("a", "user", gap="cut"),
                    transactions("c", "grant"))  # fmt: skip
    there = known.where({"b": 1})
    assert why(there, "item") == ""
    causes = {name: why(there, name) for name in ("user", "grant", "doc")}
    assert causes == {
        "user": "no history: a: cut",
        "grant": "no history: the order of the commits of b and c is not known",
        "doc": "no history: nobody tells of it",
    }


def test_transactions_are_told_where_they_touched_a_type_and_what_they_changed_is_known() -> None:
    timeline = SourceTimeline(
        "db", frozenset({"item", "user"}), transactions("", "user", "item").steps
    )
    nothing = Diff(())
    context = JudgingContext(view({}), view({}), (), (), SILENT)
    known = replace(moments(timeline), commits={"db": (Commit(nothing, nothing),) * 2})
    assert [(sentence(s.where), s.is_own) for s in known.stretches({"item"}, context)] == [
        ("in transaction 2 of db", True), ("after transaction 2 of db", False),
    ]  # fmt: skip
    assert list(moments(timeline).stretches({"item"}, context)) == []


def test_a_state_that_nobody_read_has_the_types_of_the_others_and_no_rows() -> None:
    dark = unseen(state(GOOD).schema, Reason.STATES_AFTER_CALLS())
    assert "item" in dark.schema.by_name
    assert dark.enumeration("item").explanation == Reason.STATES_AFTER_CALLS()
    assert dark.row("item", (1,)) is None
    assert list(dark.rows("item", ("id",))) == []


def test_where_nothing_was_followed_there_are_no_moments() -> None:
    alone = IntermediateStates().alone()
    assert (list(alone), len(alone), "moment 1 of db" in alone) == ([], 0, False)


ALWAYS = "steps:\n  - {id: c, always: 'all(i.n >= 0 for i in now.item)'}\n"


@pytest.mark.parametrize(
    ("between", "gap", "truth"),
    [
        ([], None, HOLDS),
        ([GOOD, GOOD], None, HOLDS),
        ([{"item": [item(1, 2)]}], None, HOLDS),
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
    if truth is HOLDS:
        assert (
            found.sentence == f"in all {2 + sum(s is not GOOD for s in between)} states of the run"
        )
    if truth is FAILS:
        assert found.sentence.startswith("moment 2" if gap is None else "moment 1")
        assert found.witness.rows[0].side.startswith("moment")


def test_an_invariant_may_compare_a_moment_with_the_ends() -> None:
    body = "steps:\n  - {id: c, always: 'now.item[1].n >= before.item[1].n'}\n"
    more = {"item": [item(1, 2)]}
    assert over(body, GOOD, [more], GOOD).truth is HOLDS
    assert over(body, more, [GOOD], more).truth is FAILS
    assert over(body, GOOD, [{}], GOOD).code == "undefined"


AFTER = "steps:\n  - {id: c, during: calls, always: 'all(i.n >= 0 for i in now.item)'}\n"


def test_the_state_that_a_call_left_comes_from_the_history() -> None:
    two = log(call("a"), call("b"))
    known = {"call-1": GOOD}
    assert left(AFTER, GOOD, known, GOOD, two).truth is HOLDS
    assert left(AFTER, GOOD, {"call-1": BAD}, GOOD, two).truth is FAILS
    assert left(AFTER, GOOD, known, GOOD, cut(two)).truth is UNKNOWN
    untold = over(AFTER, GOOD, [BAD], GOOD, trace=two)
    cause = "item after call-1: no history: it does not tell what each call left"
    assert untold.missing == (cause,)
    assert over(AFTER, GOOD, [], GOOD, trace=two).truth is HOLDS  # nothing ever changed


TURN = """turns:
  - {id: c, prompt: Go., require: ['exists(now.item[1])']}
  - {prompt: On., require: ['now.item[1].n == 1']}
"""


def test_the_state_that_a_turn_left_comes_from_the_history() -> None:
    trace = log(call("a"), turns=(Turn("Go.", 0), Turn("On.", 1)))
    assert left(TURN, {}, {"turn-1": GOOD}, {}, trace).truth is HOLDS
    assert left(TURN, {}, {"turn-1": {}}, {}, trace).truth is FAILS
    assert over(TURN, {}, [GOOD], {}, trace=trace).truth is UNKNOWN


ORDER = "steps:\n  - {id: c, on: create item, before: create user}\n"
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
    found = over(ORDER, {}, between, after)
    assert found.truth is truth
    if truth is FAILS:
        assert found.code == "effects-out-of-order"
        assert found.sentence == "in transaction 1 of db: user came first"
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
    body = f"steps:\n  - {{id: c, on: create user, before: {effect}}}\n"
    assert over(body, before, [], after).truth is (FAILS if happens else HOLDS)
