"""The standing laws for clauses about the run, on generated logs and contracts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from statediff.model.trace import Action, ActionClass, Trace, Turn
from statediff.model.values import Map
from tests.judging import DIVERGE, FAILS, HOLDS, INCONCLUSIVE, UNKNOWN, item, truths, user
from tests.traces import cut, judged, log, own

CONDITIONS = (
    "call.arguments.n == 1", "call.arguments.n > 0", 'call.class == "read"',
    "call.error == null",
    'call.principal == "agent"', 'call.tool == "a" or call.attempt > 1', "call.result == null",
    'any(c.tool == "a" for c in calls)', "all(c.arguments.n == call.arguments.n for c in calls)",
    "count(c for c in calls) < 2", "unique(c.tool for c in calls)", "call.position < 3",
    "sum(c.arguments.n for c in calls if c.arguments.n == 1) <= 1",
    "exists(after.item[1])",
    "call.arguments.n == before.item[1].n", 'not any(c.class != "read" for c in calls)',
    "call.turn == 1", "all(c.turn == call.turn for c in calls)",
    "max(c.attempt for c in calls) == 1", "count(i for i in created.user) == 0",
    'any(t.said == "Ho" for t in turns)', 'not any(t.said == "Ho" for t in turns)',
    'turns[call.turn].said == "Ho"', 'turns[2].said == "Ho" or turns[1].said == "Hi"',
    "count(t for t in turns) < 3", "all(t.number <= call.turn for t in turns)",
)  # fmt: skip
STATES = (
    "all(i.n > 0 for i in now.item)", "exists(now.user[1])",
    "count(u for u in now.user) >= count(u for u in before.user)", "now.item[1].n > 0",
)  # fmt: skip
GATES = (
    *STATES, 'any(c.tool == "a" for c in calls)', "count(c for c in calls) <= 2",
    "all(c.error == null for c in calls)", 'contains(reply, "x")', "reply == null",
    'any(t.said == "Ho" for t in turns)', 'turns[1].said == "Hi"', "count(t for t in turns) <= 2",
)  # fmt: skip
COUNTS = ("1", "0", "{min: 1}", "{max: 1}", "{min: 1, max: 2}")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@st.composite
def steps(draw: st.DrawFn, index: int) -> str:
    form = draw(st.sampled_from(["tool", "class", "calls", "after", "always", "order"]))
    said = quoted(draw(st.sampled_from(CONDITIONS)))
    state = quoted(draw(st.sampled_from(STATES)))
    text = {
        "tool": f"on: a, that: {said}",
        "class": f"on: {{classes: [conditional-update]}}, that: {said}",
        "calls": f"where: {said}, count: {draw(st.sampled_from(COUNTS))}",
        "after": f"during: calls, always: {draw(st.sampled_from([said, state]))}",
        "always": f"always: {state}",
        "order": "on: create item, before: create user",
    }[form]
    return f"  - {{id: s{index}, {text}}}\n"


@st.composite
def bodies(draw: st.DrawFn) -> str:
    body = "steps:\n" + "".join(draw(steps(n)) for n in range(draw(st.integers(1, 3))))
    if draw(st.booleans()):
        rules = draw(st.sampled_from([
            "allow: {classes: [read], tool: [a]}", "forbid: {classes: [read]}, count: 2",
            "forbid: {tool: [b], classes: [permission-change]}", "count: 1", "count: 3",
        ]))  # fmt: skip
        body += f"actions: {{{rules}}}\n"
    if draw(st.booleans()):
        gates = [quoted(draw(st.sampled_from(GATES))) for _ in range(2)]
        body += "".join(
            f"{lead}  - {{prompt: {said}, require: [{gate}]}}\n"
            for lead, said, gate in zip(("turns:\n", ""), ("Hi", "Hi"), gates, strict=True)
        )
    if draw(st.integers(0, 3)) == 0:
        body += "effects: [{on: create user, retry_safe: false}]\n"
    return body + "frame: {open: the law is about the run}\n"


ACTIONS = st.builds(
    Action,
    st.just(""),
    st.sampled_from(["a", "b"]),
    action_class=st.sampled_from(
        [ActionClass.READ, ActionClass.CONDITIONAL_UPDATE, ActionClass.UNKNOWN]
    ),
    arguments=st.sampled_from([Map(()), Map.of({"n": 1}), Map.of({"n": 2}), Map.of({"n": "x"})]),
    result=st.sampled_from([None, 1]),
    error=st.sampled_from([None, None, "no"]),
    principal=st.sampled_from(["agent", "root", None]),
    attempt=st.integers(1, 2),
)


@st.composite
def logs(draw: st.DrawFn) -> Trace:
    calls = draw(st.lists(ACTIONS, max_size=5))
    places = sorted(draw(st.lists(st.integers(0, len(calls)), max_size=3)))
    turns = tuple(
        Turn(draw(st.sampled_from(["Hi", "Ho"])), at, draw(st.sampled_from([None, "x", "y"])))
        for at in places
    )
    return log(*calls, turns=draw(st.sampled_from([turns, None])))


SIDES = st.fixed_dictionaries({
    "item": st.sampled_from([[], [item(1, 1)], [item(1, 0)], [item(1, None)]]),
    "user": st.sampled_from([[], [user(1)], [user(1), user(2)]]),
})  # fmt: skip


def some_of(draw: Any, trace: Trace) -> Trace:
    """The log with less in it, turns too, and the word that it may lack calls."""
    kept = [draw(st.booleans()) for _ in trace.actions]
    turns = None
    if trace.turns is not None and draw(st.booleans()):
        turns = tuple(
            replace(entry, calls_before=sum(kept[: entry.calls_before]))
            for entry in trace.turns
            if draw(st.integers(0, 3))
        )
    actions = tuple(a for a, is_kept in zip(trace.actions, kept, strict=True) if is_kept)
    return cut(replace(trace, actions=actions, turns=turns))


def outcome(body: str, trace: Trace, pair: tuple[Any, Any]) -> Any:
    return judged(body, trace, *pair).judgement


@given(bodies(), logs(), st.tuples(SIDES, SIDES), st.data())
def test_what_part_of_a_log_decides_the_whole_log_decides_too(
    body: str, trace: Trace, pair: tuple[Any, Any], data: st.DataObject
) -> None:
    whole = outcome(body, trace, pair)
    real = truths(whole)
    for _ in range(3):
        partly = outcome(body, some_of(data.draw, trace), pair)
        for clause, truth in truths(partly).items():
            assert truth in (UNKNOWN, real[clause]), (clause, truth, real[clause])
        assert partly.verdict in (whole.verdict, INCONCLUSIVE)


@given(bodies(), logs(), st.tuples(SIDES, SIDES))
def test_the_agents_own_word_admits_and_never_clears(
    body: str, trace: Trace, pair: tuple[Any, Any]
) -> None:
    real = truths(outcome(body, trace, pair))
    for clause, truth in truths(outcome(body, own(trace), pair)).items():
        if clause.startswith(("actions", "turns")):
            assert truth is not HOLDS, clause
        assert truth in (UNKNOWN, real[clause]), clause


@given(bodies(), logs(), st.tuples(SIDES, SIDES), st.data())
def test_a_call_of_unknown_class_decides_nothing_that_its_class_would_not(
    body: str, trace: Trace, pair: tuple[Any, Any], data: st.DataObject
) -> None:
    real = truths(outcome(body, trace, pair))
    vague = tuple(
        replace(a, action_class=ActionClass.UNKNOWN) if data.draw(st.booleans()) else a
        for a in trace.actions
    )
    for clause, truth in truths(outcome(body, replace(trace, actions=vague), pair)).items():
        # What is allowed is listed: no call of unknown class is among it.
        assert truth in (UNKNOWN, real[clause]) or (clause == "actions-allow" and truth is FAILS)


@given(bodies(), logs(), st.tuples(SIDES, SIDES), st.data())
def test_one_more_forbidden_call_never_removes_a_violation(
    body: str, trace: Trace, pair: tuple[Any, Any], data: st.DataObject
) -> None:
    body = body.split("actions:", maxsplit=1)[0] + "actions: {forbid: {tool: [drop]}}\n"
    drop = Action("", "drop", action_class=ActionClass.IRREVERSIBLE_DELETION)
    first = log(drop, *trace.actions)
    assert outcome(body, first, pair).verdict is DIVERGE
    at = data.draw(st.integers(0, len(first.actions)))
    more = log(*first.actions[:at], drop, *first.actions[at:])
    judgement = outcome(body, more, pair)
    assert judgement.verdict is DIVERGE
    assert truths(judgement)["actions-forbid"] is FAILS
    assert len([f for f in judgement.findings if f.clause == "actions-forbid"]) == 2


@given(bodies(), logs(), st.tuples(SIDES, SIDES))
def test_no_log_at_all_never_lets_a_run_match(
    body: str, trace: Trace, pair: tuple[Any, Any]
) -> None:
    body += "" if "actions:" in body else "actions: {count: 1}\n"
    assert outcome(body, Trace(), pair).verdict in (
        INCONCLUSIVE,
        outcome(body, trace, pair).verdict,
    )
