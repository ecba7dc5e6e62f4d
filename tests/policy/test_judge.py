"""The whole of a judgement: what each clause read, what the frame says of itself, and the folds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from statediff.kernel.policy.findings import fold, report_order
from statediff.model.codes import FindingCode
from statediff.model.delta import Label
from statediff.model.explanation import Reason
from statediff.model.trace import Action, Mark, Turn
from statediff.model.verdict import ClauseTruth, Finding, Stage, Truth
from statediff.reports.wording.worded import clause_sentences
from tests.judging import (
    DIVERGE,
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    finding,
    item,
    judged,
    run,
    truths,
    user,
)
from tests.traces import call, log

EVERYTHING = """
effects:
  - {on: create item, authorized_by: 'before.user[1].role == "admin"', retry_safe: false}
derive:
  - {id: kept, field: item.n, is: 'count(u for u in after.user)', because: the system counts}
forbid:
  - {id: no-doc, delete: doc}
  - {id: no-log, that: 'any(l.n == 1 for l in after.log)'}
require:
  - {id: made, create: item, where: 'it.t == "a"', by: agent}
  - {id: there, that: 'exists(after.item[1])'}
any_of:
  one:
    require: [{id: named, create: item, where: 'it.owner == 1'}]
    allow: [{id: other, update: user, by: user}]
  two:
    forbid: [{id: none, delete: user, by: user}]
    require: [{id: told, that: 'exists(after.doc[1])'}]
steps:
  - {id: step, on: refund, that: 'call.arguments.order == 7'}
turns:
  - {id: turn, prompt: Go., require: ['any(x.error == null for x in calls)']}
actions: {allow: {tool: [refund]}, count: 2}
answer:
  schema: {paid_cents: int, why: text}
  claims: [{id: claim, that: 'answer.paid_cents == after.item[1].n'}]
"""
START: Any = {"user": [user(1, "admin")]}
MADE: Any = {**START, "item": [item(1, owner=1)]}
WHO = ["trace:call[*].effects", "trace:call[*].principal"]
REFUND = call("refund", order=7)


def everything(refund: Action) -> Any:
    trace = log(refund, turns=(Turn("Go.", 0, "ok"),))
    return run(EVERYTHING, START, MADE, trace=trace, answer={"paid_cents": 1, "why": "x"})


@pytest.mark.parametrize(
    ("refund", "who"),
    [
        (REFUND, WHO),
        (replace(REFUND, transactions=(Mark("db", "t1"),)), [*WHO, "trace:call[*].transactions"]),
    ],
    ids=["unmarked", "marked"],
)
def test_what_each_clause_read_is_told_clause_by_clause(refund: Action, who: list[str]) -> None:
    """Copies of a bundle withhold fragments by these sets: one too few would break a replay."""
    (index,) = everything(refund).bundle.document("index.json")
    made = "after:item[1]"
    assert index["read_sets"] == {
        "": [made],
        "actions-allow": ["trace:call[*]"],
        "actions-attempts": ["trace:call[*]"],
        "authorized-create-item": [made, "before:user[1]"],
        "claim": [made, "answer:paid_cents"],
        "frame": [made],
        "kept": ["after:item[*].(id,n)", "after:user[*].(id)"],
        "made": [made, *who],
        "no-log": ["after:log[*].(n)"],
        "one/frame": [made],
        "one/named": [made],
        "one/other": who,
        "retried-create-item": [made, "trace:call[*]"],
        "step": ["trace:call[*]", "trace:call[*].arguments"],
        "there": [made],
        "turn": ["trace:call[*]", "trace:call[*].error", "trace:turn[*]"],
        "two/frame": [made],
        "two/none": who,
        "two/told": ["after:doc[1]"],
    }


def test_the_clauses_stand_in_the_order_they_are_judged_in_with_their_sentences() -> None:
    evaluated = everything(REFUND)
    clauses = evaluated.judgement.clauses
    assert [c.clause for c in clauses] == [
        "no-doc", "no-log", "authorized-create-item", "retried-create-item", "kept", "frame",
        "made", "there", "step", "turn", "actions-allow", "actions-attempts", "answer", "claim",
        "any_of",
    ]  # fmt: skip
    said = clause_sentences(evaluated.contract)
    assert {c.clause for c in clauses} <= said.keys()
    assert said["answer"] == "The answer states “paid_cents” and “why”."
    assert said["retried-create-item"] == "No retried call brings about the same item twice."
    assert [c.clause for c in clauses if c.is_about_calls] == ["step"]


OPEN = "frame: {open: others work here}\n"
OUTBOX, HISTORY = "outbox: {max_age: 5s}", "db: {history: required}"
MISSING = [("evidence-missing", ("outbox before",)), ("evidence-missing", ("outbox after",))]
NO_FEED = ("history-unobserved", ("no history: db: no change feed was attached",))


@pytest.mark.parametrize(
    ("head", "after", "verdict", "found", "sentence"),
    [
        ("", [], MATCH, [("holds", ())], "Nothing else changes."),
        ("", [item(1)], DIVERGE, [("unexplained-change", ())], "Nothing else changes."),
        (f"evidence: {{{OUTBOX}}}\n", [], INCONCLUSIVE, MISSING, "Nothing else changes."),
        (f"evidence: {{{OUTBOX}}}\n", [item(1)], DIVERGE, [("unexplained-change", ()), *MISSING],
         "Nothing else changes."),
        (f"evidence: {{{HISTORY}}}\n", [], INCONCLUSIVE, [NO_FEED],
         "Nothing else changes, not for a moment in db either."),
        (OPEN, [item(1)], MATCH, [], None),
        (f"{OPEN}evidence: {{{OUTBOX}}}\n", [item(1)], INCONCLUSIVE, MISSING,
         "Every source that must report has reported."),
        (f"{OPEN}evidence: {{{HISTORY}}}\n", [item(1)], INCONCLUSIVE, [NO_FEED],
         "Every source that must report has reported."),
    ],
)  # fmt: skip
def test_the_frame_waits_for_every_source_that_must_report_open_or_closed(
    head: str, after: list[Any], verdict: Any, found: list[Any], sentence: str | None
) -> None:
    body = f"{head}forbid: [{{id: f, delete: doc}}]\n"
    evaluated = run(body, {}, {"item": after})
    judgement = evaluated.judgement
    frame = [f for f in judgement.findings if f.clause == "frame"]
    assert judgement.verdict is verdict
    assert sorted((f.code, f.missing) for f in frame) == sorted(found)
    sentences = clause_sentences(evaluated.contract)
    shown = [sentences[c.clause] for c in judgement.clauses if c.clause == "frame"]
    assert shown == ([] if sentence is None else [sentence])
    assert all(f.component == "capture" for f in frame if f.code == "evidence-missing")


@pytest.mark.parametrize("order", [1, -1])
def test_what_canonicalization_hides_is_weighed_by_its_label_where_it_is_forbidden(
    order: int,
) -> None:
    declared = ["{on: any item, reversibility: reversible}",
                "{on: update item, reversibility: irreversible}", "{on: any doc}"]  # fmt: skip
    body = (
        "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
        f"effects: [{', '.join(declared[::order])}]\n"
        "forbid: [{id: f, update: item}]\nallow: [{create: [item, user]}]\n"
    )
    found = judged(
        body, {"item": [item(1)]}, {"item": [item(1, t="A"), item(2)], "user": [user(1)]}
    )
    assert [h.delta.label for h in found.hidden] == [Label.IRREVERSIBLE]
    assert [d.label for d in found.deltas] == [Label.REVERSIBLE, Label.CONDITIONAL]
    assert finding(found, "f").rank == 0
    assert found.metrics.forbidden_effect_rate == Fraction(10, 14)


def clause(truth: Truth, stage: Stage = Stage.FORBID) -> ClauseTruth:
    return ClauseTruth("c", stage, truth)


@pytest.mark.parametrize(
    ("present", "verdict"),
    [
        ((), INCONCLUSIVE),  # nothing was asked, so nothing is right
        ((HOLDS,), MATCH), ((UNKNOWN,), INCONCLUSIVE), ((FAILS,), DIVERGE),
        ((HOLDS, UNKNOWN), INCONCLUSIVE), ((UNKNOWN, FAILS), DIVERGE), ((HOLDS, FAILS), DIVERGE),
    ],
)  # fmt: skip
def test_a_violation_beats_the_unknown_and_no_clause_is_no_match(
    present: tuple[Truth, ...], verdict: Any
) -> None:
    assert fold(map(clause, present)) is fold(map(clause, present[::-1])) is verdict


def some_code(stage: Stage, truth: Truth) -> FindingCode:
    """A code that may have this truth at this stage."""
    return next(code for code in FindingCode if stage in code.stages.get(truth, ()))


def test_findings_stand_by_truth_then_what_is_whole_then_stage_then_risk() -> None:
    places = [
        ("a", FAILS, Stage.FORBID, 0), ("b", FAILS, Stage.FORBID, 1), ("c", FAILS, Stage.FRAME, 0),
        ("x/a", FAILS, Stage.FORBID, 0), ("d", UNKNOWN, Stage.FORBID, 0),
        ("e", HOLDS, Stage.FORBID, 0), ("f", HOLDS, Stage.ACCESS, 0),
    ]  # fmt: skip
    findings = [
        Finding(c, some_code(stage, truth), stage, truth, Reason.ENOUGH(), rank=rank)
        for c, truth, stage, rank in places
    ]
    assert report_order(findings[::-1]) == tuple(findings)
    # What is alike stays as it was judged.
    alike = [replace(findings[0], clause=name) for name in "qp"]
    assert report_order(alike) == tuple(alike)


def test_each_result_is_none_where_the_contract_asks_nothing_of_it() -> None:
    only = judged("actions: {count: 2}\nframe: {open: others work here}\n", {}, {}, trace=log())
    assert (only.tool, only.task, only.outcome) == (MATCH, None, None)
    assert truths(only) == {"actions-attempts": HOLDS}


def test_steps_are_about_calls_where_they_say_nothing_of_the_state_between_them() -> None:
    body = """steps:
  - {id: at, on: refund, that: 'call.arguments.order == 7'}
  - {id: often, where: 'call.tool == "refund"', count: {max: 1}}
  - {id: after, during: calls, always: 'call.error == null'}
  - {id: always, always: 'all(i.n > 0 for i in now.item)'}
  - {id: order, on: create item, before: create user}
"""
    clauses = judged(body, {}, {}, trace=log(REFUND)).clauses
    assert [c.clause for c in clauses if c.is_about_calls] == ["at", "often"]


def test_a_reading_that_is_too_old_is_not_one_that_is_missing() -> None:
    body = (
        "frame: {open: others work here}\nevidence: {db: {max_age: 5s}}\nforbid: [{delete: doc}]\n"
    )
    judgement = judged(body, {}, {"item": [item(1)]})
    assert judgement.verdict is INCONCLUSIVE
    assert "frame" not in truths(judgement)
    assert {f.code for f in judgement.findings} == {"evidence-stale"}


def test_what_the_numbers_read_is_no_clauses() -> None:
    body = (
        "require: [{id: made, create: item, where: 'it.n == 1'}]\n"
        "answer: {schema: {x: int}, claims: [{id: told, that: 'exists(after.user[1])'}]}\n"
    )
    trial = run(body, START, MADE, answer={"x": 1})
    (index,) = trial.bundle.document("index.json")
    assert index["read_sets"]["told"] == ["after:user[1]"]
    assert "after:item[1]" in index["read_sets"][""]
