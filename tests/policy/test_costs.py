"""A clause that would take too long is UNKNOWN, of whatever kind it is: never decided or passed."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.model.trace import Turn
from tests.judging import (
    CUT,
    DIVERGE,
    HIDDEN,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    doc,
    finding,
    item,
    judged,
    state,
    user,
)
from tests.traces import call, log

ITEMS = [item(key) for key in range(12)]
BEFORE: Any = {"item": ITEMS, "user": [user(1, name="a")]}
AFTER: Any = {**BEFORE, "doc": [doc(1, "a")]}
TRACE = log(call("a"), turns=(Turn("Go.", 0, "ok"),))
REST = "forbid: [{id: f, delete: doc}]\nallow: [{create: doc}]\n"


def slow(side: str) -> str:
    """What holds, once every item was compared with every other."""
    return f"all(all(a.n == b.n for a in {side}.item) for b in {side}.item)"


LONGEST = "max(max(a.t for a in after.item if a.n == b.n) for b in after.item)"
MADE = "\nallow: [{any: doc}]\n"
ONLY = "forbid: [{id: f, delete: doc}]\nallow:\n  - "
WHERE = "where: 'approval.id == 1 and ~'"
APPROVED = f"effects:\n  - on: create doc\n    authorized_by: {{approval: user, {WHERE}}}\n"
CLAIM = "answer:\n  schema: {x: int}\n  claims: [{id: c, that: 'answer.x == 1 and ~'}]\n"


@pytest.mark.parametrize(
    ("body", "side", "clause", "verdict"),
    [
        (f"forbid:\n  - {{id: c, create: doc, where: '~'}}{MADE}", "before", "c", DIVERGE),
        (f"forbid:\n  - {{id: c, create: doc, that: '~'}}{MADE}", "after", "c", DIVERGE),
        (f"forbid:\n  - {{id: c, create: doc, that: 'it.id == 1 and ~'}}{MADE}", "after", "c",
         DIVERGE),
        (f"forbid:\n  - {{id: c, that: '~'}}{MADE}", "after", "c", DIVERGE),
        (f"require:\n  - {{id: c, create: doc, where: '~'}}{MADE}", "before", "c", MATCH),
        (f"require:\n  - {{id: c, create: doc, that: '~'}}{MADE}", "after", "c", MATCH),
        (f"require:\n  - {{id: c, create: doc, that: 'it.id == 1 and ~'}}{MADE}", "after", "c",
         MATCH),
        (f"require:\n  - {{id: c, that: '~'}}{MADE}", "after", "c", MATCH),
        (f"require:\n  - {{id: c, update: user, where: 'not ~', count: every}}{MADE}", "before",
         "c", MATCH),
        (f"{ONLY}{{create: doc, where: '~'}}\n", "before", "frame", MATCH),
        (f"{ONLY}{{create: doc, that: '~'}}\n", "after", "frame", MATCH),
        (f"{ONLY}{{create: doc, that: 'it.id == 1 and ~'}}\n", "after", "frame", MATCH),
        (f"{REST}effects:\n  - {{on: create doc, authorized_by: '~'}}\n", "before",
         "authorized-create-doc", MATCH),
        (REST + APPROVED, "before", "authorized-create-doc", MATCH),
        (f"{REST}derive:\n  - {{id: c, field: doc.title, is: '{LONGEST}', because: it is}}\n", "",
         "c", MATCH),
        (REST + CLAIM, "after", "c", MATCH),
        (f"{REST}steps:\n  - {{id: c, after_every_call: '~'}}\n", "now", "c", MATCH),
        (f"{REST}steps:\n  - {{id: c, on: a, that: 'call.tool == \"a\" and ~'}}\n", "before", "c",
         MATCH),
        (f"{REST}turns:\n  - {{id: c, user: Go., then: ['~']}}\n", "now", "c", MATCH),
    ],
)  # fmt: skip
def test_a_clause_that_takes_too_long_decides_nothing(
    body: str, side: str, clause: str, verdict: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, sides = body.replace("~", slow(side)), {"trace": TRACE, "answer": {"x": 1}}
    assert judged(body, BEFORE, AFTER, **sides).verdict is verdict
    monkeypatch.setattr("statediff.contract.language.context.MAX_STEPS", 100)
    judgement = judged(body, BEFORE, AFTER, **sides)
    assert judgement.verdict is INCONCLUSIVE
    open_ = {f.clause: (f.code, f.component) for f in judgement.findings if f.truth is not HOLDS}
    assert open_.pop(clause) == ("cost-limit", "policy")
    assert open_.keys() <= {"frame"}  # which may wait for the same


def test_each_clause_has_steps_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    step = "steps:\n" + "".join(
        f"  - {{id: s{n}, after_every_call: 'all(i.n == 1 for i in now.item)'}}\n" for n in range(6)
    )
    monkeypatch.setattr("statediff.contract.language.context.MAX_STEPS", 100)
    assert judged(REST + step, BEFORE, AFTER, trace=TRACE).verdict is MATCH
    twice = log(*[call("a")] * 20)
    assert judged(REST + step, BEFORE, AFTER, trace=twice).verdict is INCONCLUSIVE


def test_what_may_match_and_takes_too_long_may_be_forbidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = (
        "forbid:\n  - {id: c, create: doc, where: 'it.title == \"a\"',"
        f" that: 'it.id == 1 and {slow('after')}'}}\n"
    )
    monkeypatch.setattr("statediff.contract.language.context.MAX_STEPS", 100)
    found = finding(judged(body, BEFORE, {**BEFORE, "doc": [doc(1, HIDDEN)]}), "c")
    assert found.truth is UNKNOWN
    assert "too costly: the clause needs too many steps" in found.missing


def test_nor_does_an_authorization_of_what_nobody_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    body = REST + f"effects:\n  - {{on: create doc, authorized_by: '{slow('before')}'}}\n"
    dark = state(BEFORE, {"doc": CUT})
    assert finding(judged(body, BEFORE, dark), "authorized-create-doc").truth is HOLDS
    monkeypatch.setattr("statediff.contract.language.context.MAX_STEPS", 100)
    found = finding(judged(body, BEFORE, dark), "authorized-create-doc")
    assert (found.truth, found.missing) == (UNKNOWN, ("doc: cut short",))
