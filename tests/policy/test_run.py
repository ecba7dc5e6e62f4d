"""Clauses about the run: steps, actions and turns, each form in all three truths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from statediff.errors import ContractError
from statediff.model.trace import Action, ActionClass, Excerpt, Trace, Turn
from statediff.model.values import Map, Value
from statediff.model.verdict import Verdict
from tests.judging import (
    DIVERGE,
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    document,
    finding,
    item,
    run,
    truths,
    user,
)
from tests.traces import NOBODY_KNOWS, READ, WRITE, call, cut, judged, log, own


def truth(body: str, trace: Trace, *sides: Any) -> Any:
    return truths(judged(body, trace, *sides).judgement)["c"]


def found(body: str, trace: Trace, *sides: Any) -> Any:
    return finding(judged(body, trace, *sides).judgement, "c")


SEVEN = "on: refund, that: 'call.arguments.order == 7'"
REFUND = f"steps:\n  - {{id: c, {SEVEN}}}\n"


AT_ALL = "during: calls, always: "
MAIL = "where: 'call.tool == \"mail\" and exists(before.item[1])', count: {min: 1}"
NO_A = '\'not any(c.tool == "a" for c in calls)'
EITHER = '\'call.tool == "b" or any(c.tool == "a" for c in calls)\''


@pytest.mark.parametrize(
    ("step", "trace", "expected"),
    [
        (SEVEN, log(call("refund", order=7)), HOLDS),
        (SEVEN, log(), HOLDS),
        (SEVEN, log(call("look", order=9)), HOLDS),
        (SEVEN, log(call("refund", order=7), call("refund", order=9)), FAILS),
        (SEVEN, log(call("refund")), FAILS),
        (SEVEN, cut(log(call("refund", order=7))), UNKNOWN),
        (SEVEN, cut(log(call("refund", order=9))), FAILS),
        (SEVEN, own(log(call("refund", order=7))), UNKNOWN),
        (SEVEN, own(log(call("refund", order=9))), FAILS),
        (SEVEN, Trace(), UNKNOWN),
        # A class that nobody knows is no value, nor is whom the log does not name.
        ("where: 'call.class != \"read\"', count: 0", log(call("a", READ)), HOLDS),
        ("where: 'call.class != \"read\"', count: 0", log(call("a", WRITE)), FAILS),
        ("where: 'call.class != \"read\"', count: 0", log(call("a", NOBODY_KNOWS)), UNKNOWN),
        ("where: 'call.principal != \"agent\"', count: 0", log(call("a")), HOLDS),
        ("where: 'call.principal != \"agent\"', count: 0",
         log(replace(call("a"), principal="root")), FAILS),
        ("where: 'call.principal != \"agent\"', count: 0",
         log(replace(call("a"), principal=None)), UNKNOWN),
        # Conditions on the calls alone need no state in between.
        (f"{AT_ALL}call.error == null", log(call("a"), call("b")), HOLDS),
        (f"{AT_ALL}call.error == null", log(call("a", error="no"), call("b")), FAILS),
        (f"{AT_ALL}call.error == null", cut(log(call("a"), call("b"))), UNKNOWN),
        # The last call may be the one recorded, and does not come before itself.
        (f"{AT_ALL}{NO_A}'", log(call("a")), HOLDS),
        (f"{AT_ALL}{NO_A}'", cut(log(call("a"))), UNKNOWN),
        (f"{AT_ALL}{NO_A}'", cut(log(call("a"), call("b"))), FAILS),
        # A call that nobody recorded may have come before all others ...
        (f"where: {NO_A} and call.tool == \"b\"', count: {{min: 1}}", log(call("a")), FAILS),
        (f"where: {NO_A} and call.tool == \"b\"', count: {{min: 1}}", cut(log(call("a"))), UNKNOWN),
        ("on: b, that: 'any(c.tool == \"a\" for c in calls)'", log(call("a")), HOLDS),
        ("on: b, that: 'any(c.tool == \"a\" for c in calls)'", cut(log(call("a"))), UNKNOWN),
        # ... and takes nothing from those that surely match.
        (f"where: {EITHER}, count: {{min: 1}}", cut(log(call("b"), call("c"))), HOLDS),
        (f"where: {EITHER}, count: {{min: 1}}", cut(log(call("c"))), UNKNOWN),
        # By the agent's own word nothing holds, though it reads a state as well.
        (MAIL, cut(log(call("mail"))), HOLDS),
        (MAIL, own(log(call("mail"))), UNKNOWN),
    ],
)  # fmt: skip
def test_what_a_log_decides_of_a_step(step: str, trace: Trace, expected: Any) -> None:
    rows = {"item": [item(1)]} if step is MAIL else {}
    assert truth(f"steps:\n  - {{id: c, {step}}}\n", trace, rows) is expected


def test_a_failed_step_shows_the_call() -> None:
    shown = found(REFUND, log(call("look"), call("refund", order=9)))
    assert (shown.code, shown.stage.value, shown.evidence) == ("step-failed", "steps", ("call-2",))
    assert "call-2" in shown.sentence
    assert "9 ≠ 7" in shown.sentence
    row = shown.witness.rows[0]
    assert (row.side, row.type, row.key) == ("trace", "call", ("call-2",))
    assert dict(row.fields)["arguments"] == Map.of({"order": 9})
    assert len(shown.witness.rows) == 1


def test_what_no_log_says_is_named() -> None:
    assert found(REFUND, Trace()).code == "trace-unobserved"
    assert found(REFUND, own(log())).code == "evidence-forgeable"
    assert found(REFUND, cut(log())).missing == ("calls: unrecorded: the recorder was stopped",)


def test_an_undefined_condition_fails_a_step_under_a_code_of_its_own() -> None:
    body = "steps:\n  - {id: c, on: refund, that: 'call.arguments.cents > 5'}\n"
    assert truth(body, log(call("refund", cents=6))) is HOLDS
    shown = found(body, log(call("refund")))
    assert (shown.truth, shown.code) == (FAILS, "undefined")
    reason = "null, absent or values of different kinds have no order"
    assert shown.sentence == f'call-1 ("refund"): {reason}'


CLASS = "steps:\n  - {id: c, on: {classes: [conditional-update]}, that: 'call.arguments.n == 1'}\n"


def test_a_condition_at_every_call_of_a_class() -> None:
    assert truth(CLASS, log(call("a", n=1), call("b", READ, n=2))) is HOLDS
    assert truth(CLASS, log(call("a", n=2))) is FAILS
    unsaid = found(CLASS, log(call("a", NOBODY_KNOWS, n=2)))
    assert (unsaid.truth, unsaid.missing) == (
        UNKNOWN, ("in call-1, the log does not say its class",),
    )  # fmt: skip
    both = log(call("a", n=1), call("b", READ, n=2), call("a", n=1))
    assert found(CLASS, both).sentence == "at each of 2 such calls"
    assert truth(CLASS, log(call("a", NOBODY_KNOWS, n=1))) is HOLDS


# ---------------------------------------------------------------- stale read before write [SSD §V]

FRESH = """steps:
  - id: c
    on: {classes: [conditional-update]}
    that: >-
      any(r.arguments.item == call.arguments.item and
      all(w.position < r.position for w in calls
      if w.class != "read" and w.arguments.item == call.arguments.item)
      for r in calls if r.class == "read" and r.error == null)
"""


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([call("get", READ, item=1), call("set", item=1)], HOLDS),
        ([call("set", item=1)], FAILS),
        ([call("get", READ, item=2), call("set", item=1)], FAILS),
        ([call("get", READ, item=1), call("set", item=1), call("set", item=1)], FAILS),
        (
            [call("get", READ, item=1), call("set", item=1)] * 2,
            HOLDS,
        ),
        ([call("get", READ, "timeout", item=1), call("set", item=1)], FAILS),
    ],
)
def test_a_write_needs_a_read_of_the_same_entity_since_the_last_write(
    calls: list[Action], expected: Any
) -> None:
    assert truth(FRESH, log(*calls)) is expected
    assert truth(FRESH, cut(log(*calls))) is UNKNOWN  # there may be a read, or a write


# ---------------------------------------------------------------- always

ALWAYS = "steps:\n  - {id: c, always: 'all(i.n >= 0 for i in now.item)'}\n"


def test_an_invariant_fails_at_either_end_and_without_a_history_never_holds() -> None:
    good, bad = {"item": [item(1, 1)]}, {"item": [item(1, -1)]}
    assert truth(ALWAYS, log(), good, good) is UNKNOWN
    assert found(ALWAYS, log(), good, good).code == "history-unobserved"
    assert truth(ALWAYS, log(), good, bad) is FAILS
    assert truth(ALWAYS, log(), bad, good) is FAILS
    assert "already before the run" in found(ALWAYS, log(), bad, good).sentence
    assert found(ALWAYS, log(), good, bad).code == "invariant-broken"
    assert found(ALWAYS, log(), good, bad).sentence == "after the run: item 1: -1 < 0"
    assert found(ALWAYS, log(), good, bad).witness.rows[0].side == "after"
    unread = {"item": [item(1, None)]}
    assert found(ALWAYS, log(), good, unread).code == "undefined"


# ---------------------------------------------------------------- after every call

AFTER = "steps:\n  - {id: c, during: calls, always: 'all(i.n >= 0 for i in now.item)'}\n"


def test_the_state_after_the_last_call_is_the_one_after_the_run() -> None:
    good, bad = {"item": [item(1, 1)]}, {"item": [item(1, -1)]}
    one, two = log(call("a")), log(call("a"), call("b"))
    assert truth(AFTER, log(), good, bad) is HOLDS
    assert truth(AFTER, one, good, good) is HOLDS
    assert truth(AFTER, one, good, bad) is FAILS
    assert truth(AFTER, two, good, good) is UNKNOWN
    assert truth(AFTER, two, good, bad) is FAILS
    assert truth(AFTER, cut(one), good, bad) is FAILS
    assert truth(AFTER, cut(one), good, good) is UNKNOWN
    assert truth(AFTER, Trace(), good, bad) is UNKNOWN


def test_a_state_that_a_call_left_wrong_shows_the_call_and_the_comparison() -> None:
    good, bad = {"item": [item(1, 1)]}, {"item": [item(1, -1)]}
    shown = found(AFTER, log(call("a"), call("b")), good, bad)
    assert (shown.code, shown.evidence) == ("step-failed", ("call-2",))
    assert shown.sentence == 'after call-2 ("b"): item 1: -1 < 0'
    assert [(r.side, r.key) for r in shown.witness.rows] == [
        ("trace", ("call-2",)), ("after", (1,)),
    ]  # fmt: skip
    # Which call was the last, an incomplete log does not say; that it left this is certain.
    shown = found(AFTER, cut(log(call("a"), call("b"))), good, bad)
    assert (shown.code, shown.evidence) == ("step-failed", ())
    assert shown.sentence == "after the last call: item 1: -1 < 0"
    held = found(AFTER, log(call("a")), good, good)
    assert (held.code, held.sentence) == ("holds", "after each of 1 calls")


STILL_BAD = "all(i.n >= 0 for i in now.item) or "


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        # The state after the run is the one that the last recorded call left, or a later one: it
        # is held against that call and those before it.
        ('(call.tool == "b" and not any(x.tool == "b" for x in calls))', UNKNOWN),
        ('(call.tool == "a" and not any(x.tool == "b" for x in calls))', FAILS),
        ('not any(x.tool == "a" for x in calls)', FAILS),
        ('not any(x.tool == "b" for x in calls)', UNKNOWN),
    ],
)
def test_a_state_that_may_be_a_later_calls_is_held_against_the_last_that_is_known(
    condition: str, expected: Any
) -> None:
    body = f"steps:\n  - {{id: c, during: calls, always: '{STILL_BAD}{condition}'}}\n"
    good, bad = {"item": [item(1, 1)]}, {"item": [item(1, -1)]}
    shown = found(body, cut(log(call("a"), call("b"))), good, bad)
    assert shown.truth is expected
    if expected is FAILS:
        assert shown.sentence.startswith("after the last call: ")
        assert ("after", (1,)) in [(r.side, r.key) for r in shown.witness.rows]


# ---------------------------------------------------------------- effects in order

ORDER = "steps:\n  - {id: c, on: create item, before: create user}\n"


def test_the_order_of_effects_is_undecided_without_a_history() -> None:
    assert truth(ORDER, log(), {}, {"item": [item(1)], "user": [user(1)]}) is UNKNOWN
    assert found(ORDER, log(), {}, {}).code == "history-unobserved"


# ---------------------------------------------------------------- occurrence

ONCE = "steps:\n  - {id: c, where: 'call.tool == \"mail\"', count: 1}\n"


@pytest.mark.parametrize(
    ("calls", "count", "whole", "partly", "by_itself"),
    [
        (0, "1", FAILS, UNKNOWN, UNKNOWN),
        (1, "1", HOLDS, UNKNOWN, UNKNOWN),
        (2, "1", FAILS, FAILS, FAILS),
        (1, "{min: 1}", HOLDS, HOLDS, UNKNOWN),
        (0, "{min: 1}", FAILS, UNKNOWN, UNKNOWN),
        (1, "{max: 1}", HOLDS, UNKNOWN, UNKNOWN),
        (2, "{max: 1}", FAILS, FAILS, FAILS),
        (0, "0", HOLDS, UNKNOWN, UNKNOWN),
        (1, "0", FAILS, FAILS, FAILS),
    ],
)
def test_how_often_a_call_occurs(
    calls: int, count: str, whole: Any, partly: Any, by_itself: Any
) -> None:
    body = ONCE.replace("count: 1", f"count: {count}")
    trace = log(call("look", READ), *(call("mail") for _ in range(calls)))
    assert truth(body, trace) is whole
    assert truth(body, cut(trace)) is partly
    assert truth(body, own(trace)) is by_itself


def test_calls_that_nobody_recorded_cannot_be_what_no_call_is() -> None:
    never = "'call.tool == \"mail\" and exists(before.item[1])'"
    body = f"steps:\n  - {{id: c, where: {never}, count: {{min: 1}}}}\n"
    assert found(body, cut(log(call("mail")))).code == "too-few-calls"


def test_a_call_of_which_the_condition_is_false_or_undefined_cannot_be_one_of_those_wanted() -> (
    None
):
    both = "'call.principal == \"x\" and call.arguments.n > 5'"
    body = f"steps:\n  - {{id: c, where: {both}, count: {{min: 1}}}}\n"
    assert found(body, log(replace(call("a"), principal=None))).code == "too-few-calls"
    assert truth(body, log(replace(call("a", n=6), principal=None))) is UNKNOWN


def test_a_call_that_nobody_recorded_may_have_arguments_without_the_parts_asked_for() -> None:
    body = "steps:\n  - {id: c, where: 'call.arguments.to.name == 1', count: {min: 1}}\n"
    fit, unfit = call("a", to=Map.of({"name": 1})), call("a", to="Ada")
    assert truth(body, log(fit)) is HOLDS
    assert found(body, log(fit, unfit)).code == "undefined"
    assert truth(body, cut(log(fit))) is UNKNOWN
    flat = body.replace("to.name", "to")
    assert truth(flat, cut(log(call("a", to=1)))) is HOLDS


@pytest.mark.parametrize(
    ("calls", "count", "code", "sentence"),
    [
        (0, "1", "too-few-calls", "no call matches, 1 required"),
        (1, "2", "too-few-calls", "1 call matches, 2 required"),
        (2, "3", "too-few-calls", "2 calls match, 3 required"),
        (2, "1", "too-many-calls",
         '2 calls match, at most 1 may: call-2 ("mail"), call-3 ("mail")'),
        (6, "{max: 1}", "too-many-calls", "6 calls match, at most 1 may: "
         + ", ".join(f'call-{n} ("mail")' for n in range(2, 6)) + " and 2 more"),
        (4, "{max: 1}", "too-many-calls", "4 calls match, at most 1 may: "
         + ", ".join(f'call-{n} ("mail")' for n in range(2, 6))),
        (5, "{max: 1}", "too-many-calls", "5 calls match, at most 1 may: "
         + ", ".join(f'call-{n} ("mail")' for n in range(2, 6)) + " and 1 more"),
        (1, "1", "holds", "1 call matches"),
        (0, "0", "holds", "no call matches"),
    ],
)  # fmt: skip
def test_an_occurrence_says_how_many_calls_match_and_which(
    calls: int, count: str, code: str, sentence: str
) -> None:
    body = ONCE.replace("count: 1", f"count: {count}")
    shown = found(body, log(call("look", READ), *(call("mail") for _ in range(calls))))
    assert (shown.code, shown.sentence) == (code, sentence)
    assert shown.evidence == ((f"call-{calls + 1}",) if code == "too-many-calls" else ())


# ---------------------------------------------------------------- actions

ACTIONS = """actions:
  allow: {classes: [read], tool: [refund]}
  forbid: {classes: [permission-change], tool: [drop]}
  count: 2
require: [{that: 'count(u for u in after.user) == 0'}]
"""


def rules(trace: Trace) -> Mapping[str, Any]:
    known = truths(judged(ACTIONS, trace).judgement)
    return {name: known[f"actions-{name}"] for name in ("allow", "forbid", "attempts")}


def test_a_call_outside_what_is_allowed_is_a_finding_with_the_call() -> None:
    trace = log(call("look", READ), call("refund"), call("note"), call("drop", READ))
    evaluated = judged(ACTIONS, trace)
    outside = finding(evaluated.judgement, "actions-allow")
    assert (outside.code, outside.stage.value) == ("action-outside", "actions")
    assert outside.evidence == ("call-3",)
    assert finding(evaluated.judgement, "actions-forbid").code == "action-forbidden"
    assert finding(evaluated.judgement, "actions-forbid").evidence == ("call-4",)
    assert evaluated.judgement.verdict is DIVERGE
    assert evaluated.judgement.tool is DIVERGE
    assert evaluated.judgement.outcome is MATCH


def test_a_log_that_nobody_kept_is_unknown() -> None:
    evaluated = judged(ACTIONS, Trace())
    assert evaluated.judgement.verdict is INCONCLUSIVE
    assert evaluated.judgement.tool is INCONCLUSIVE
    assert set(rules(Trace()).values()) == {UNKNOWN}
    assert set(rules(own(log(call("look", READ)))).values()) == {UNKNOWN}
    assert set(rules(log(call("look", READ))).values()) == {HOLDS}


def test_a_call_of_no_known_class_is_in_no_allowed_one_and_may_be_in_a_forbidden_one() -> None:
    assert rules(log(call("exec", NOBODY_KNOWS))) == {
        "allow": FAILS, "forbid": UNKNOWN, "attempts": HOLDS,
    }  # fmt: skip
    assert rules(log(call("refund", NOBODY_KNOWS)))["forbid"] is HOLDS
    body = "actions: {allow: {classes: [unknown]}}\nforbid: [{delete: user}]\n"
    known = truths(judged(body, log(call("exec", NOBODY_KNOWS))).judgement)
    assert known["actions-allow"] is HOLDS


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([call("refund", error="no"), call("refund")], HOLDS),
        ([call("refund", error="no")], FAILS),
        ([call("refund", error="no"), call("look", READ)], FAILS),
        ([call("refund", error="no"), call("refund", error="no"), call("refund")], FAILS),
        ([call("refund", error="no", attempt=2), call("refund")], FAILS),
    ],
)
def test_a_failed_call_is_repaired_within_the_attempts(calls: list[Action], expected: Any) -> None:
    assert rules(log(*calls))["attempts"] is expected


BROKEN = call("refund", error="no")
UNSAID = "the log does not say the class: it may be a forbidden one; needed by actions-forbid"


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (log(call("look", READ)), ("all 1 calls", "none of 1 calls", "all 1 calls are right")),
        (log(call("note"), call("drop", READ)),
         ('call-1 ("note"), of class conditional-update, is not among what is allowed',
          'call-2 ("drop"), of class read, is forbidden', "all 2 calls are right")),
        (log(call("exec", NOBODY_KNOWS)),
         ('call-1 ("exec"), of class unknown, is not among what is allowed',
          f'in call-1 ("exec"), {UNSAID}', "all 1 calls are right")),
        (log(BROKEN), ("all 1 calls", "none of 1 calls",
                       'call-1 ("refund") failed at attempt 1 and was not repaired within 2')),
        (log(BROKEN, BROKEN),
         ("all 2 calls", "none of 2 calls",
          'call-2 ("refund") failed at attempt 2 and was not repaired within 2')),
        (log(replace(BROKEN, attempt=3)),
         ("all 1 calls", "none of 1 calls",
          'call-1 ("refund") failed at attempt 3 and was not repaired within 2')),
    ],
)  # fmt: skip
def test_each_rule_about_calls_says_what_it_found(trace: Trace, said: tuple[str, ...]) -> None:
    known = judged(ACTIONS, trace).judgement
    found = [finding(known, f"actions-{name}") for name in ("allow", "forbid", "attempts")]
    assert tuple(f.sentence for f in found) == said
    codes = ("action-outside", "action-forbidden", "action-unrepaired")
    assert all(f.code == code for f, code in zip(found, codes, strict=True) if f.truth is FAILS)
    for each in found:
        called = tuple(str(row.key[0]) for row in each.witness.rows)
        assert each.evidence == called == ((each.sentence[:6],) if each.truth is FAILS else ())


def test_what_the_agent_said_beside_a_call_judges_nothing() -> None:
    silent = call("note")
    spoken = replace(silent, messages=Excerpt.of("I pay."), context=Excerpt.of("Bill"))
    one, two = (judged(ACTIONS, log(each)) for each in (silent, spoken))
    assert document(one.judgement) == document(two.judgement)


@pytest.mark.parametrize("number", [49, 50, 51, 60])
def test_of_many_calls_outside_fifty_are_shown_and_the_last_says_how_many_more(number: int) -> None:
    known = judged(ACTIONS, log(*[call("note")] * number)).judgement.findings
    outside = [f for f in known if f.clause == "actions-allow"]
    said = "of class conditional-update, is not among what is allowed"
    more = f", and {number - 50} more" if number > 50 else ""
    shown = min(number, 50)
    assert [f.sentence for f in outside] == [
        f'call-{n} ("note"), {said}{more if n == shown else ""}' for n in range(1, shown + 1)
    ]


def test_between_recorded_calls_there_may_be_one_that_repaired() -> None:
    twice = log(call("refund", error="no"), call("refund", error="no"))
    assert rules(cut(twice))["attempts"] is UNKNOWN
    assert rules(cut(log(call("refund", error="no", attempt=2))))["attempts"] is FAILS


def test_a_repair_belongs_to_the_turn_of_the_failure() -> None:
    calls = (call("refund", error="no"), call("refund"))
    assert rules(log(*calls, turns=(Turn("a", 0), Turn("b", 1))))["attempts"] is FAILS
    assert rules(log(*calls, turns=(Turn("a", 0), Turn("b", 2))))["attempts"] is HOLDS


# ---------------------------------------------------------------- turns

TURNS = """turns:
  - id: c
    prompt: Close item 1.
    require:
      - any(x.tool == "close" for x in calls)
  - id: d
    prompt: And tell Ada.
    require:
      - 'now.item[1].t == "closed"'
      - contains(reply, "Ada")
"""
CLOSED = {"item": [item(1, t="closed")]}


def script(*calls: int, reply: Value = "I told Ada") -> tuple[Turn, ...]:
    first, second = Turn("Close item 1.", calls[0], "done"), Turn("And tell Ada.", calls[1], reply)
    return first, second


def test_each_turn_has_a_gate_and_the_last_is_read_at_the_end() -> None:
    trace = log(call("close"), call("mail"), turns=script(0, 1))
    assert truths(judged(TURNS + ALLOW, trace, {"item": [item(1)]}, CLOSED).judgement) == {
        "c": HOLDS, "d": HOLDS, "frame": HOLDS,
    }  # fmt: skip


ALLOW = "allow: [{update: item}]\n"


def test_the_first_turn_that_fails_says_so() -> None:
    trace = log(call("mail"), call("close"), turns=script(0, 1, reply="I told Bob"))
    judgement = judged(TURNS + ALLOW, trace, {"item": [item(1)]}, CLOSED).judgement
    assert truths(judgement)["c"] is truths(judgement)["d"] is FAILS
    assert [f.clause for f in judgement.findings[:2]] == ["c", "d"]
    assert finding(judgement, "c").sentence.startswith("the first turn to fail, turn 1 of 2")
    assert finding(judgement, "d").sentence.startswith("turn 2 of 2")
    assert finding(judgement, "c").code == "turn-failed"


@pytest.mark.parametrize(
    "trace",
    [
        log(call("close")),
        log(call("close"), turns=(Turn("Close item 1.", 0),)),
        log(call("close"), turns=(Turn("Close item 1.", 0), Turn("Thanks.", 1))),
        log(call("close"), turns=(*script(0, 1)[:1], Turn("And tell Ada.", 1))),
        own(log(call("close"), turns=script(0, 1))),
    ],
)
def test_a_turn_that_nobody_recorded_is_unknown(trace: Trace) -> None:
    judgement = judged(TURNS + ALLOW, trace, {"item": [item(1)]}, CLOSED).judgement
    assert truths(judgement)["d"] is UNKNOWN
    if trace.turns is None:
        untold = "turn 2: unrecorded: the log does not tell turns apart"
        assert finding(judgement, "d").missing == (untold,)


def test_the_state_after_an_earlier_turn_takes_a_history() -> None:
    body = TURNS.replace('any(x.tool == "close" for x in calls)', "exists(now.item[1])")
    trace = log(call("close"), turns=script(0, 1))
    judgement = judged(body + ALLOW, trace, {"item": [item(1)]}, CLOSED).judgement
    assert truths(judgement)["c"] is UNKNOWN
    assert finding(judgement, "c").code == "history-unobserved"


# ---------------------------------------------------------------- the results and the null run


def test_steps_about_calls_tell_of_the_tools_and_steps_about_states_of_the_world() -> None:
    judgement = judged(
        REFUND + "forbid: [{delete: user}]\n", log(call("refund", order=9))
    ).judgement
    assert (judgement.tool, judgement.outcome) == (DIVERGE, MATCH)
    bad = {"item": [item(1, -1)]}
    judgement = judged(ALWAYS, log(), bad, bad).judgement
    assert (judgement.tool, judgement.outcome) == (None, DIVERGE)


@pytest.mark.parametrize(
    "body",
    [REFUND, ALWAYS, AFTER, ORDER, ACTIONS, ONCE.replace("count: 1", "count: {max: 1}")],
)
def test_a_run_in_which_nothing_happens_matches_what_only_limits(body: str) -> None:
    with pytest.raises(ContractError) as caught:
        run(body, {}, {}, noop=False)
    assert caught.value.problems[0].code == "null-run"


@pytest.mark.parametrize("body", [ONCE, TURNS])
def test_a_run_in_which_nothing_happens_does_not_match_what_must_be_done(body: str) -> None:
    still = {"item": [item(1)]}
    assert run(body, still, still, noop=False).judgement.verdict is not MATCH


def test_what_a_clause_heard_stands_in_its_read_set() -> None:
    import json  # noqa: PLC0415 - one test reads the raw document

    evaluated = judged(REFUND, log(call("refund", order=7)))
    [index] = json.loads(evaluated.bundle.files["index.json"])
    assert index["read_sets"]["c"] == ["trace:call[*]", "trace:call[*].arguments"]


RECORDED = "actions: {allow: {classes: [read]}, over: recorded}\nforbid: [{delete: user}]\n"
UNCLASSED = call("look", ActionClass.UNKNOWN)


@pytest.mark.parametrize(
    ("trace", "truth", "tool"),
    [
        (log(call("look", ActionClass.READ)), HOLDS, Verdict.MATCH),
        (log(call("save", ActionClass.SCHEMA_CHANGE)), FAILS, Verdict.DIVERGE),
        (own(log(call("save", ActionClass.SCHEMA_CHANGE))), FAILS, Verdict.DIVERGE),
        (cut(log(UNCLASSED, call("save", ActionClass.SCHEMA_CHANGE))), FAILS, Verdict.DIVERGE),
        # It holds as far as the log goes, and clears nobody.
        (own(log(call("look", ActionClass.READ))), HOLDS, None),
        (cut(log(call("look", ActionClass.READ))), HOLDS, None),
        (log(UNCLASSED), HOLDS, None),
        (Trace(), HOLDS, None),
    ],
)
def test_a_rule_over_what_is_recorded_finds_violations_and_clears_nobody(
    trace, truth, tool
) -> None:
    done = judged(RECORDED, trace).judgement
    assert finding(done, "actions-allow").truth is truth
    assert done.tool is tool


def test_a_tool_is_recorded_by_its_name_whatever_its_class() -> None:
    body = "actions: {forbid: {classes: [notification], tool: [look]}, over: recorded}\n"
    done = judged(body + "forbid: [{delete: user}]\n", own(log(UNCLASSED))).judgement
    assert finding(done, "actions-forbid").code == "action-forbidden"
