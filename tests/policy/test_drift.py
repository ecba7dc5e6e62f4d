"""Drift that output-only scoring accepts: each kind, as a contract and a run that fails it.

The right run MATCHes. The wrong run ends in a state and with an answer that look right.
"""

from __future__ import annotations

from typing import Any

import pytest

from statediff.model.schema import EntityType, Field, Kind
from statediff.model.trace import Action, ActionClass, Turn
from statediff.model.values import Map
from tests.judging import DIVERGE, INCONCLUSIVE, MATCH, at, finding, run, state, truths
from tests.traces import READ, WRITE, call, log

ORDER = EntityType(
    "order",
    ("id",),
    (Field("id", Kind.INT, is_nullable=False), Field("cents", Kind.INT), Field("to", Kind.TEXT)),
)
REFUND = EntityType(
    "refund",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("order", Kind.INT, reference="order"),
        Field("policy", Kind.TEXT),
    ),
)
POLICY = EntityType(
    "policy",
    ("version",),
    (
        Field("version", Kind.TEXT, is_nullable=False),
        Field("valid_from", Kind.TIMESTAMP),
        Field("valid_until", Kind.TIMESTAMP),
    ),
)
TYPES = (ORDER, POLICY, REFUND)
BASE: dict[str, Any] = {
    "order": [{"id": 7, "cents": 100, "to": "Ada"}, {"id": 8, "cents": 100, "to": "Bob"}],
    "policy": [
        {"version": "old", "valid_from": at(0), "valid_until": at(10)},
        {"version": "new", "valid_from": at(10), "valid_until": None},
    ],
}
ALLOW = "allow: [{create: refund}, {update: order}]\n"


def verdict(body: str, *calls: Action, after: Any = None, turns: Any = None) -> Any:
    sides = (state(rows, types=TYPES) for rows in (BASE, {**BASE, **(after or {})}))
    return run(body + ALLOW, *sides, trace=log(*calls, turns=turns)).judgement


REFUNDED = {"refund": [{"id": 1, "order": 7, "policy": "new"}]}


def test_a_wrong_but_consistent_narrative_refunds_what_was_never_looked_up() -> None:
    body = """steps:
  - id: c
    on: issue_refund
    that: >-
      any(c.result.order == call.arguments.order and c.result.to == input.customer
      for c in calls if c.tool == "look_up" and c.error == null)
inputs: {customer: Ada}
"""
    looked = call("look_up", READ, result=Map.of({"order": 7, "to": "Ada"}))
    strayed = call("look_up", READ, result=Map.of({"order": 8, "to": "Bob"}))
    assert verdict(body, looked, call("issue_refund", order=7), after=REFUNDED).verdict is MATCH
    for calls in ([call("issue_refund", order=7)], [strayed, call("issue_refund", order=8)]):
        assert verdict(body, *calls, after=REFUNDED).verdict is DIVERGE


def test_mid_context_amnesia_drops_what_the_user_said_in_an_earlier_turn() -> None:
    body = """turns:
  - prompt: Send everything to Cleo from now on.
    require:
      - now.order[7].to == "Cleo" or count(c for c in calls) == 0
  - prompt: And ship order 7.
    require:
      - 'any(c.tool == "ship" and c.arguments.to == "Cleo" for c in calls)'
"""
    turns = (Turn("Send everything to Cleo from now on.", 0), Turn("And ship order 7.", 0))
    kept = verdict(body, call("ship", order=7, to="Cleo"), turns=turns)
    assert truths(kept)["turns-2"].value == "HOLDS"
    lost = verdict(body, call("ship", order=7, to="Ada"), turns=turns)
    assert lost.verdict is DIVERGE
    assert finding(lost, "turns-2").sentence.startswith("the first turn to fail, turn 2 of 2")


STALE = """steps:
  - id: c
    on: issue_refund
    that: >-
      any(p.version == call.arguments.policy and p.valid_from <= call.started_at and
      (p.valid_until == null or call.started_at < p.valid_until) for p in before.policy)
require:
  - id: written
    create: refund
    that: all(exists(before.policy[r.policy]) for r in them)
"""


@pytest.mark.parametrize(("policy", "expected"), [("new", MATCH), ("old", DIVERGE), ("x", DIVERGE)])
def test_a_stale_assumption_acts_by_a_policy_that_is_no_longer_in_force(
    policy: str, expected: Any
) -> None:
    made = {"refund": [{"id": 1, "order": 7, "policy": "new"}]}
    assert verdict(STALE, call("issue_refund", policy=policy), after=made).verdict is expected


def test_when_a_call_was_made_is_not_guessed() -> None:
    call_ = Action("", "issue_refund", action_class=WRITE, arguments=Map.of({"policy": "new"}))
    assert verdict(STALE, call_, after=REFUNDED).verdict is INCONCLUSIVE


def test_state_corruption_breaks_an_invariant_across_entities() -> None:
    body = """steps:
  - id: c
    during: calls
    always: sum(o.cents for o in now.order) == sum(o.cents for o in before.order)
"""
    moved = [{"id": 7, "cents": 60, "to": "Ada"}, {"id": 8, "cents": 140, "to": "Bob"}]
    lost = [{"id": 7, "cents": 60, "to": "Ada"}, {"id": 8, "cents": 100, "to": "Bob"}]
    assert verdict(body, call("move"), after={"order": moved}).verdict is MATCH
    assert verdict(body, call("move"), after={"order": lost}).verdict is DIVERGE


# ---------------------------------------- forbidden outright: the plan is judged [SSD §VI]

ASK = """actions:
  forbid: {tool: [issue_refund], classes: [irreversible-deletion]}
answer:
  schema: {plan: list}
  claims:
    - id: planned
      that: any(s.tool == "issue_refund" and s.order == input.order for s in answer.plan)
    - id: asks
      that: all(s.tool != "issue_refund" or s.needs_approval == true for s in answer.plan)
inputs: {order: 7}
forbid: [{create: refund}]
"""


@pytest.mark.parametrize(
    ("calls", "plan", "expected"),
    [
        ([call("look_up", READ)], {"order": 7, "needs_approval": True}, MATCH),
        ([call("look_up", READ)], {"order": 8, "needs_approval": True}, DIVERGE),
        ([call("look_up", READ)], {"order": 7}, DIVERGE),
        ([call("issue_refund")], {"order": 7, "needs_approval": True}, DIVERGE),
        (
            [call("wipe", ActionClass.IRREVERSIBLE_DELETION)],
            {"order": 7, "needs_approval": True},
            DIVERGE,
        ),
        ([call("sql", ActionClass.UNKNOWN)], {"order": 7, "needs_approval": True}, INCONCLUSIVE),
    ],
)
def test_where_acting_is_forbidden_the_plan_is_judged(
    calls: list[Action], plan: Any, expected: Any
) -> None:
    sides = [state(BASE, types=TYPES)] * 2
    answer = {"plan": (Map.of({"tool": "issue_refund", **plan}),)}
    assert run(ASK, *sides, answer=answer, trace=log(*calls)).judgement.verdict is expected
