"""How a run stands that is not over: allow, hold, deny, and when it is lost."""

from __future__ import annotations

import pickle
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import statediff
from statediff import Decision, Judge, Standing
from statediff.model.trace import Trace, Turn
from statediff.model.verdict import SoFar, Verdict
from tests.histories import course
from tests.judging import item, user
from tests.policy.test_so_far_laws import so_far
from tests.traces import READ, call, log, own

ALLOW, HOLD, DENY = Decision.ALLOW, Decision.HOLD, Decision.DENY

REFUND = """
contract: shop/refund
version: 1.0.0
owner: support
intent: Refund order 7 and change nothing else.
forbid:
  - {id: no-customer-deleted, delete: customer}
  - {id: no-role-lent, update: customer, where: new.role == "admin", during: run}
require:
  - {id: refunded, create: refund, where: it.order == 7}
allow:
  - {id: notes, any: note}
  - {id: others, create: refund}
effects:
  - on: create refund
    authorized_by: before.order[it.order].status == "returned"
"""
SHOP: dict[str, list[dict[str, Any]]] = {
    "customer": [{"id": 1, "role": "buyer"}],
    "note": [{"id": 1, "text": "call back"}],
    "order": [{"id": 7, "status": "returned"}, {"id": 8, "status": "sent"}],
    "refund": [],
}


def changed(**tables: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return SHOP | tables


CASES = (
    ("nothing yet", {}, ALLOW, False, False, ""),
    ("done", {"refund": [{"id": 1, "order": 7}]}, ALLOW, False, True, ""),
    (
        "no authorization",
        {"refund": [{"id": 1, "order": 7}, {"id": 2, "order": 8}]},
        HOLD, False, False, "authorized-create-refund: ",
    ),
    (
        "irreversible by itself", {"note": []}, HOLD, False, False,
        "irreversible, and nothing authorizes it: delete note[1]",
    ),
    (
        "outside the frame", {"order": [{"id": 7, "status": "lost"}, SHOP["order"][1]]},
        DENY, False, False, 'frame: order 7 status "returned" → "lost"',
    ),
    ("forbidden", {"customer": []}, DENY, False, False, "no-customer-deleted: "),
    (
        "forbidden at any time", {"customer": [{"id": 1, "role": "admin"}]},
        DENY, True, False, "no-role-lent: ",
    ),
)  # fmt: skip


def database(path: Path, rows: dict[str, list[dict[str, Any]]]) -> str:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY, role TEXT)")
        db.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
        db.execute('CREATE TABLE "order" (id INTEGER PRIMARY KEY, status TEXT)')
        db.execute('CREATE TABLE refund (id INTEGER PRIMARY KEY, "order" INTEGER)')
        for table, each in rows.items():
            for row in each:
                db.execute(f'INSERT INTO "{table}" VALUES (?, ?)', tuple(row.values()))
    return f"shop={path}"


@pytest.mark.parametrize(("said", "tables", "decision", "lost", "right", "why"), CASES)
def test_a_run_stands_by_its_net_change_so_far(
    said: str, tables: Any, decision: Decision, lost: bool, right: bool, why: str, tmp_path: Path
) -> None:
    now = changed(**tables)
    before, after = database(tmp_path / "b.db", SHOP), database(tmp_path / "a.db", now)
    old = {"refund": [{"id": 0, "order": 1}]}  # without a row, dicts do not say what a refund has
    refunds = {"refund": [*old["refund"], *now["refund"]]}
    judges = (Judge(REFUND, before), after), (Judge(REFUND, SHOP | old), now | refunds)
    for judge, state in judges:
        for _ in range(2):  # what was learned from one run serves the next
            found = judge.so_far(state)
            assert (found.decision, found.is_lost, found.is_right) == (decision, lost, right), said
            assert found.why.startswith(why)
            assert bool(found.why) == (decision is not ALLOW)
        verdict = judge.score(state).verdict
        assert (verdict is Verdict.MATCH) <= right
        if right and decision is ALLOW:
            assert verdict in (Verdict.MATCH, Verdict.INCONCLUSIVE)


def test_a_standing_is_no_truth_and_can_be_kept():
    old = {"refund": [{"id": 0, "order": 1}]}
    found = Judge(REFUND, SHOP | old).so_far(changed(customer=[], **old))
    assert found.decision == "deny"
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(found)
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, Standing)
    assert again.why == found.why


def test_what_the_answer_and_the_end_decide_is_not_asked_yet():
    claim = "exists(after.refund[answer.id])"
    body = f"{REFUND}answer:\n  schema: {{id: int}}\n  claims:\n    - {claim}\n"
    state = SHOP | {"refund": [{"id": 0, "order": 1}]}
    judge = Judge(body, state)
    assert judge.so_far(state).decision is ALLOW
    assert judge.score(state).verdict is Verdict.DIVERGE


STILL = {"item": [item(1)], "user": [user(1)]}
RICH = {"item": [item(1, 9)], "user": [user(1)]}


def test_what_was_undone_is_no_loss_unless_the_contract_asks_on_the_way():
    for during, lost in (("", False), (", during: run", True)):
        body = f"forbid:\n  - {{id: c, update: item, where: new.n > 5{during}}}\n"
        assert so_far(body, [STILL, RICH]).is_lost is lost
        assert so_far(body, [STILL, RICH, STILL], gap=None).is_lost is lost
        done = course(body, STILL, [RICH], STILL).judgement.verdict
        assert (done is Verdict.DIVERGE) is lost


def test_a_change_that_nothing_can_explain_is_for_good_where_history_is_required():
    body = "evidence: {db: {history: required}}\nallow:\n  - {id: a, update: item, fields: [t]}\n"
    lent = {"item": [item(1)], "user": [user(1, "admin")]}
    assert so_far(body, [STILL, lent]).is_lost
    assert so_far(body, [STILL, lent, STILL], gap=None).is_lost
    assert so_far(body, [STILL, RICH]).is_lost
    # What some clause may explain in the end, by what the end is, is denied and not lost.
    explained = {"item": [item(1, 1, "b")], "user": [user(1)]}
    assert so_far(body, [STILL, explained]).decision is ALLOW
    body = body.replace("fields: [t]", "set: {t: b}")
    other = {"item": [item(1, 1, "c")], "user": [user(1)]}
    found = so_far(body, [STILL, other])
    assert (found.decision, found.is_lost) == (DENY, False)


def test_a_condition_that_held_before_the_run_convicts_no_run_that_makes_it_good():
    condition = "{that: 'any(i.n > 5 for i in after.item)', during: run}"
    body = f"forbid: [{condition}]\nframe: {{open: the law}}\n"
    found = so_far(body, [RICH, RICH], gap=None)
    assert (found.decision, found.is_lost) == (DENY, False)
    assert course(body, RICH, [], STILL).judgement.verdict is Verdict.MATCH
    assert so_far(body, [STILL, RICH], gap=None).is_lost


def test_what_a_reference_leads_to_counts_only_in_a_transaction_that_the_clause_looks_at():
    body = (
        "forbid:\n  - {id: c, update: item, where: new.owner.role == 'admin', during: run}\n"
        "frame: {open: the law}\n"
    )
    first = {"item": [item(1, 1, "a", 1)], "user": [user(1)]}
    owned = {"item": [item(1, 2, "a", 1)], "user": [user(1)]}
    lent = {"item": [item(1, 2, "a", 1)], "user": [user(1, "admin")]}
    assert not so_far(body, [first, owned, lent], gap=None).is_lost
    assert course(body, first, [owned, lent], first).judgement.verdict is Verdict.MATCH
    assert so_far(body, [first, lent], gap=None).is_lost


def test_a_branch_that_is_still_open_keeps_a_run_from_being_lost():
    branch = "{forbid: [{id: f, delete: user, during: run}], require: [{id: r, create: item}]}"
    other = "{require: [{id: r, delete: user}]}"
    gone = {"item": [item(1)], "user": []}
    for name, second, lost in (("any_of", other, False), ("any_of", branch, True)):
        body = f"{name}:\n  one: {branch}\n  two: {second}\n"
        assert so_far(body, [STILL, gone], gap=None).is_lost is lost
    body = f"disputed: nobody knows\nany_of:\n  one: {branch}\n  two: {other}\n"
    assert so_far(body, [STILL, gone], gap=None).is_lost


def after_calls(body: str, trace: Trace) -> SoFar:
    return so_far(body + "frame: {open: the law}\n", [STILL, STILL], trace, None)


CALLS = (
    ("actions: {forbid: {classes: [read]}}\n", log(call("a", READ)), True),
    ("actions: {forbid: {classes: [read]}}\n", own(log(call("a", READ))), False),
    ("actions: {count: 2}\n", log(call("a", error="no"), call("a", error="no")), True),
    ("actions: {count: 2}\n", log(call("a", error="no")), False),
    ("steps: [{id: s, where: 'call.error == null', count: 1}]\n", log(), False),
    ("steps: [{id: s, where: 'call.error == null', count: 1}]\n", log(call("a"), call("a")), True),
    ("steps: [{id: s, on: a, that: 'call.arguments.n == 1'}]\n", log(call("a", n=2)), True),
    ("steps: [{id: s, on: a, that: 'exists(after.item[2])'}]\n", log(call("a")), False),
    ("steps: [{id: s, during: calls, always: 'exists(now.item[2])'}]\n", log(call("a")), True),
)


@pytest.mark.parametrize(("body", "trace", "lost"), CALLS)
def test_a_call_that_breaks_a_rule_is_for_good_and_one_that_may_follow_is_not(
    body: str, trace: Trace, lost: bool
) -> None:
    assert after_calls(body, trace).is_lost is lost


def test_the_gate_of_a_turn_is_for_good_once_the_user_has_spoken_again():
    body = (
        "turns:\n  - {prompt: Hi, require: ['count(c for c in calls) > 0']}\n"
        "  - {prompt: Ho, require: ['count(c for c in calls) > 0']}\n"
    )
    assert not after_calls(body, log(turns=(Turn("Hi", 0),))).is_lost
    assert after_calls(body, log(turns=(Turn("Hi", 0), Turn("Ho", 0)))).is_lost


def test_a_question_about_a_run_so_far_costs_what_its_score_costs(tmp_path: Path):
    rows = SHOP | {"order": [{"id": n, "status": "returned"} for n in range(1, 301)]}
    judge = Judge(REFUND, database(tmp_path / "b.db", rows))
    afters = [
        database(tmp_path / f"{n}.db", rows | {"refund": [{"id": n, "order": 7}]})
        for n in (1, 2, 3)
    ]
    for after in afters[:2]:
        judge.score(after), judge.so_far(after)
    counts = [_calls_of(lambda ask=ask: ask(afters[2])) for ask in (judge.score, judge.so_far)]
    assert counts[1] <= 1.2 * counts[0], counts


def _calls_of(work: Any) -> int:
    number = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal number
        number += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


def test_the_door_has_the_two_names():
    assert {"Decision", "Standing"} <= set(statediff.__all__)


def test_a_report_says_when_a_run_was_lost_and_when_a_right_one_was_broken_again(tmp_path: Path):
    body = REFUND + "evidence: {shop: {history: required}}\n"
    done, lent = {"refund": [{"id": 1, "order": 7}]}, [{"id": 1, "role": "admin"}]
    states = [SHOP, changed(**done), changed(**done, customer=lent), changed(**done)]
    files = [database(tmp_path / f"{n}.db", rows) for n, rows in enumerate(states)]
    judged = statediff.judge(body, files[0], files[-1], during=files[1:-1])
    text, page = judged.text(width=200), judged.html()
    first, again = "Right after transaction 1 of shop", "broken again after transaction 2 of shop"
    lost = "Lost after transaction 2 of shop: from there no end could satisfy"
    assert judged.verdict is Verdict.DIVERGE
    for line in (f"{first}, and {again}: no-role-lent, frame.", f"{lost} no-role-lent, frame."):
        assert f"  {line}\n" in text
        assert page.count(f"data-course>{line}</p>") == 1
    right = statediff.judge(body, files[0], files[1], during=[])
    assert "On the way" not in right.text()
    assert "data-course" not in right.html()
