"""The state that each call left, from the history and the transactions that calls made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statediff.evidence.documents import judgement_document
from statediff.kernel import Evaluated, replay
from statediff.kernel.policy.attribution import Claim
from statediff.kernel.policy.history import IntermediateStates, WhenAsked, states_left
from statediff.model.sentences import sentence
from statediff.model.state import COMPLETE
from statediff.model.timelines import SourceTimeline, Step, Timelines
from statediff.model.trace import Action, Mark, Trace, Turn
from statediff.model.verdict import Verdict
from statediff.model.view import StateView
from tests.histories import course
from tests.judging import FAILS, HOLDS, UNKNOWN, at, finding, item, state, truths
from tests.traces import call, cut, log, own

BODY = """\
forbid: [{delete: item}]
allow: [{update: item}]
steps:
  - id: small
    during: calls
    always: all(i.n < 9 for i in now.item)
"""


def rows(n: int) -> Any:
    return {"item": [item(1, n=n)]}


def made(second: float, *names: str, **more: Any) -> Action:
    """A call of one second that made these transactions."""
    marks = tuple(Mark("db", name) for name in names)
    times = {"started_at": at(second), "finished_at": at(second + 1)}
    return replace(call("set"), **{"transactions": marks, **times, **more})


def judged(trace: Trace, *ns: int, body: str = BODY) -> Evaluated:
    states = [rows(n) for n in ns]
    found = course(body, rows(0), states[:-1], states[-1], trace=trace)
    assert judgement_document(replay(found.bundle)) == judgement_document(found.judgement)
    return found


def small(trace: Trace, *ns: int) -> Any:
    return truths(judged(trace, *ns).judgement)["small"]


def test_each_call_is_held_to_the_state_it_left() -> None:
    trace = log(made(11, "t1"), made(13, "t2"), made(15, "t3"))
    assert small(trace, 1, 2, 3) is HOLDS
    found = judged(trace, 1, 20, 3).judgement
    assert truths(found)["small"] is FAILS
    assert "after call-2" in finding(found, "small").sentence


def test_a_call_before_all_transactions_left_what_it_found() -> None:
    assert small(log(made(11), made(13, "t1")), 1) is HOLDS
    assert small(log(made(11), made(12, "t1")), 1) is HOLDS  # one began as the other ended


def test_what_came_and_went_within_one_call_no_call_left() -> None:
    assert small(log(made(11, "t1", "t2"), made(13, "t3")), 20, 2, 3) is HOLDS


def test_a_call_that_changed_nothing_left_what_it_found() -> None:
    assert small(log(made(11), made(13, "t1"), made(15), made(17, "t2")), 20, 3) is FAILS


@pytest.mark.parametrize(
    "trace",
    [
        log(made(11, "t1"), made(11.5, "t2"), made(15, "t3")),
        log(made(11, "t1"), made(13), made(15, "t3")),
        log(made(11, "t2"), made(13, "t1"), made(15, "t3")),
        log(made(11, "t1"), made(13, "t2", started_at=None), made(15, "t3")),
        cut(log(made(11, "t1"), made(13, "t2"), made(15, "t3"))),
        own(log(made(11, "t1"), made(13, "t2"), made(15, "t3"))),
    ],
    ids=["overlap", "unclaimed", "crossed", "untimed", "incomplete", "own-word"],
)
def test_a_state_that_is_not_known_to_be_a_calls_clears_nobody(trace: Trace) -> None:
    assert small(trace, 1, 2, 3) is UNKNOWN


def test_an_incomplete_log_convicts_by_what_it_holds() -> None:
    assert small(cut(log(made(11, "t1"), made(13, "t2"))), 20, 3) is FAILS


def test_a_call_ends_with_what_was_called_within_it() -> None:
    outer = made(11, finished_at=at(19))
    trace = log(outer, made(12, "t1", parent="call-1"), made(14, "t2", parent="call-1"))
    found = judged(trace, 20, 3).judgement
    assert "after call-2" in finding(found, "small").sentence
    assert small(trace, 2, 3) is HOLDS
    late = judged(trace, 2, 20).judgement
    assert "after call-1" in finding(late, "small").sentence


def test_a_turn_is_held_to_the_state_it_left_and_the_run_goes_on() -> None:
    body = """\
forbid: [{delete: item}]
allow: [{update: item}]
turns:
  - {prompt: one, require: ["all(i.n == 1 for i in now.item)"]}
  - {prompt: two, require: ["all(i.n == 2 for i in now.item)"]}
  - {prompt: three, require: ["all(i.n == 3 for i in now.item)"]}
"""
    turns = (Turn("one", 0, "ok"), Turn("two", 1, "ok"), Turn("three", 2, "ok"))
    calls = (made(11, "t1"), made(13, "t2"), made(15, "t3"))
    right = judged(log(*calls, turns=turns), 1, 2, 3, body=body).judgement
    assert right.verdict is Verdict.MATCH
    wrong = judged(log(*calls, turns=turns), 1, 7, 3, body=body).judgement
    assert [c.truth for c in wrong.clauses if "turn" in c.clause] == [HOLDS, FAILS, HOLDS]


VIEW = StateView(state({}))
CLAIMS = {("db", 1): Claim("call-1"), ("other", 1): Claim("call-2")}
STEP = Step("t1", "", None, frozenset({"item"}))
KINDS = frozenset({"item"})


def lefts(
    trace: Trace, *lines: SourceTimeline, claims: dict[tuple[str, int], Claim] = CLAIMS
) -> WhenAsked:
    views = {"before": VIEW, "after": VIEW, "moment 1 of db": VIEW}
    return states_left(trace, IntermediateStates(Timelines(lines), views), claims)


def test_what_calls_and_turns_left_is_there_by_name_where_anything_is_known() -> None:
    turns = (Turn("one", 0, "ok"), Turn("two", 1, "ok"))
    trace = log(made(11), made(13), turns=turns)
    timeline = SourceTimeline("db", KINDS, (STEP,))
    known = lefts(trace, timeline)
    assert (list(known), len(known)) == (["call-1", "call-2", "turn-1"], 3)
    overlapping = log(made(11), made(11.5))
    for nothing in (lefts(trace, timeline, claims={}), lefts(own(trace), timeline),
                    lefts(overlapping, timeline)):  # fmt: skip
        assert (list(nothing), len(nothing)) == ([], 0)
        assert nothing.get("call-1") is None


def test_a_history_with_a_gap_tells_of_no_call_what_it_left() -> None:
    trace = log(made(11), made(13))
    whole = lefts(trace, SourceTimeline("db", KINDS, (STEP,)))["call-1"]
    assert whole.enumeration("item") == COMPLETE
    gapped = lefts(trace, SourceTimeline("db", KINDS, (STEP,), "it broke off"))["call-1"]
    told = gapped.enumeration("item").explanation
    assert told is not None
    assert sentence(told) == "no history: db: it broke off"
