"""Clauses that are an expression: their truth by section, over a run, and the answer they read."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.contract.clauses.patterns import Condition
from statediff.kernel.policy.clauses import ClauseRunner
from statediff.kernel.policy.history import IntermediateStates
from statediff.kernel.policy.matching import JudgingContext
from statediff.model.timelines import SourceTimeline, Step, Timelines
from statediff.model.trace import NoAnswer
from statediff.model.verdict import Finding, Truth
from statediff.model.view import StateView
from tests.judging import (
    FAILS,
    HIDDEN,
    HOLDS,
    SILENT,
    UNKNOWN,
    finding,
    item,
    judged,
    run,
    state,
)  # fmt: skip

WRITTEN = {"item": [item(1)], "log": [{"what": "a", "n": 1}]}


def over(body: str, *lines: SourceTimeline) -> Finding:
    """The forbidden condition of a run whose ends are alike, with this course."""
    text = f"forbid:\n  - {{id: c, that: '{body}', during: run}}\n"
    (clause,) = run(text, {}, {}).contract.forbid
    assert isinstance(clause, Condition)
    view = StateView(state(WRITTEN))
    context = JudgingContext(view, view, (), (), SILENT)
    moments = IntermediateStates(Timelines(lines), {"before": view, "after": view})
    context.moments = moments.alone()
    return ClauseRunner(context, context.changes, moments, print, {}).finding(clause)


def line(source: str, *types: str, steps: int = 1) -> SourceTimeline:
    touched = frozenset(types)
    return SourceTimeline(
        source, touched, tuple(Step(f"t{n}", "", None, touched) for n in range(steps))
    )


APART = ("no history: the order of the commits of several sources is not known",)
TWO = "any(l.n == 9 for l in after.log) and exists(after.item[1])"


@pytest.mark.parametrize(
    ("body", "lines", "truth", "missing"),
    [
        ("any(l.n == 9 for l in after.log)", [line("db", "log")], HOLDS, ()),
        # What is read before the run alone has no moments of its own.
        ("any(l.n == before.item[1].n + 8 for l in after.log)", [line("db", "log")], HOLDS, ()),
        (TWO, [line("db", "log", "item")], HOLDS, ()),
        (TWO, [line("a", "log"), line("b", "item", steps=0)], HOLDS, ()),
        (TWO, [line("a", "log"), line("b", "item")], UNKNOWN, APART),
        (TWO, [line("a", "log")], UNKNOWN, ("no history: no change feed was attached",)),
    ],
)
def test_over_a_run_a_condition_waits_for_the_history_of_what_it_reads_after(
    body: str, lines: list[SourceTimeline], truth: Truth, missing: tuple[str, ...]
) -> None:
    found = over(body, *lines)
    assert (found.truth, found.missing) == (truth, missing)


@pytest.mark.parametrize(
    ("that", "truth", "told"),
    [
        ("after.item[1].n == 1", HOLDS, None),
        ('after.item[1].t == "b"', FAILS, '"a" ≠ "b"'),
        # What is either false or undefined is not required to be told apart: it holds in neither.
        ('after.item[2].n > 0 and after.item[1].t == "b"', FAILS, '"a" ≠ "b"'),
        ("after.item[2].n == 1", UNKNOWN, "item.n after: hidden; needed by c"),
    ],
)
def test_a_condition_that_cannot_hold_fails(that: str, truth: Truth, told: str | None) -> None:
    body = f"require:\n  - {{id: c, that: '{that}'}}\n"
    there = {"item": [item(1), item(2, HIDDEN)]}
    found = finding(judged(body, there, there), "c")
    assert found.truth is truth
    assert told is None or found.sentence == told


CLAIM = "forbid: [{delete: item}]\nanswer: {schema: {x: KIND}, claims: [{id: c, that: 'THAT'}]}\n"


@pytest.mark.parametrize(
    ("kind", "answer", "code", "said"),
    [
        ("int", {"x": 1}, "holds", "the answer has the form asked for"),
        ("int", {"x": True}, "answer-invalid", "`x` of the answer is not int"),
        ("int", {}, "answer-invalid", "the answer lacks `x`"),
        ("bool", {"x": True}, "holds", "the answer has the form asked for"),
        ("any", {"x": True}, "holds", "the answer has the form asked for"),
        ("any", {"x": "y"}, "holds", "the answer has the form asked for"),
        ("int", NoAnswer("it was cut off"), "answer-missing", "there is no answer: it was cut off"),
    ],
)
def test_the_form_of_an_answer_is_a_clause_of_its_own(
    kind: str, answer: Any, code: str, said: str
) -> None:
    body = CLAIM.replace("KIND", kind).replace("THAT", "exists(after.item[1])")
    there = {"item": [item(1)]}
    judgement = judged(body, there, there, answer=answer)
    found = finding(judgement, "answer")
    assert (found.code, found.sentence) == (code, said)
    # A claim that does not read the answer is judged without one.
    assert finding(judgement, "c").truth is HOLDS


def test_a_claim_about_an_answer_that_is_missing_says_so() -> None:
    body = CLAIM.replace("KIND", "int").replace("THAT", "answer.x == after.item[1].n")
    there = {"item": [item(1)]}
    found = finding(judged(body, there, there, answer=NoAnswer("it was cut off")), "c")
    assert (found.truth, found.code) == (FAILS, "answer-missing")
    assert found.sentence == "there is no answer: it was cut off"
