"""Λ: authorization by approvals, effects that a retry repeated, and what undid them."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.errors import ContractError
from statediff.model.trace import ActionClass, Trace
from tests.judging import DARK, FAILS, HIDDEN, HOLDS, UNKNOWN, finding, item, state, truths, user
from tests.traces import NOBODY_KNOWS, call, cut, judged, log, own

APPROVED = """effects:
  - on: create item
    reversibility: irreversible
    authorized_by:
      approval: user
      where: approval.role == "admin" and approval.id == it.owner
forbid: [{delete: item}]
allow: [{create: item}, {any: user}]
"""
CLAUSE = "authorized-create-item"


def approved(before: Any, after: Any) -> Any:
    return finding(judged(APPROVED, Trace(), before, after).judgement, CLAUSE)


MADE = [item(1, owner=1)]


@pytest.mark.parametrize(
    ("before", "after", "truth"),
    [
        ([user(1, "admin")], [user(1, "admin")], HOLDS),
        ([user(1, "user")], [user(1, "user")], FAILS),
        ([], [], FAILS),
        ([], [user(1, "admin")], FAILS),  # made during the run
        ([user(1, "user")], [user(1, "admin")], FAILS),  # changed so that it authorizes
        ([user(1, "admin")], [user(1, "admin", "Eve")], FAILS),  # changed in anything
        ([user(1, "admin")], [], FAILS),  # withdrawn
        ([user(1, HIDDEN)], [user(1, HIDDEN)], UNKNOWN),
        ([user(1, "admin")], [user(1, "admin", HIDDEN)], UNKNOWN),
    ],
)
def test_an_approval_comes_from_before_the_run_and_is_left_alone(
    before: Any, after: Any, truth: Any
) -> None:
    found = approved({"user": before}, {"user": after, "item": MADE})
    assert found.truth is truth
    if truth is FAILS:
        assert found.code == "unauthorized-effect"
        assert found.rank == 0


def test_an_approval_that_was_changed_in_a_way_that_canonicalization_hides_was_touched() -> None:
    body = "canonicalize: [{use: casefold@1, on: [user.name], because: case is noise}]\n" + APPROVED
    before, after = {"user": [user(1, "admin")]}, {"user": [user(1, "admin", "ADA")], "item": MADE}
    found = finding(judged(body, Trace(), before, after).judgement, CLAUSE)
    assert (found.truth, found.deltas) == (FAILS, ("item[1]",))
    assert found.sentence == "item 1 created without authorization"


def test_one_standing_approval_is_enough_whatever_happens_to_others() -> None:
    before = {"user": [user(1, "admin"), user(2, "admin")]}
    assert approved(before, {"user": [user(1, "admin")], "item": MADE}).truth is HOLDS


def test_where_no_approval_was_read_authorization_is_unknown() -> None:
    dark = state({}, {"user": DARK})
    assert approved(dark, state({"item": MADE}, {"user": DARK})).truth is UNKNOWN
    assert approved(dark, state({}, {"user": DARK})).truth is HOLDS


def test_an_approval_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(ContractError, match="unknown entity type `usr`"):
        judged(APPROVED.replace("approval: user", "approval: usr"), Trace())


# ---------------------------------------------------------------- retries

RETRIES = """effects:
  - {on: create item, retry_safe: false, tool: refund, compensation: void}
forbid: [{delete: item}]
allow: [{create: item}]
"""
TWO = {"item": [item(1, 5), item(2, 5)]}
OTHER = {"item": [item(1, 5), item(2, 6)]}
TIMEOUT = call("refund", error="timeout", line=1)
AGAIN = call("refund", attempt=2, line=1)


@pytest.mark.parametrize(
    ("after", "trace", "truth"),
    [
        (TWO, log(TIMEOUT, AGAIN), FAILS),
        (TWO, log(TIMEOUT, call("note", x=1), AGAIN), FAILS),
        (OTHER, log(TIMEOUT, AGAIN), HOLDS),
        (TWO, log(call("refund", line=1), call("refund", line=2)), HOLDS),
        (TWO, log(TIMEOUT, AGAIN, call("refund", line=2)), UNKNOWN),  # either may have left it
        (TWO, log(call("refund", line=1)), HOLDS),  # one call left both, not a retry
        (TWO, cut(log(TIMEOUT, AGAIN)), UNKNOWN),
        (TWO, own(log(TIMEOUT, AGAIN)), UNKNOWN),
        (TWO, Trace(), UNKNOWN),
        (OTHER, Trace(), HOLDS),
        ({"item": [item(1, 5), item(2, HIDDEN)]}, Trace(), UNKNOWN),
        ({"item": [item(1, 5), item(2, HIDDEN)]}, log(call("refund", line=1)), HOLDS),
    ],
)
def test_what_a_retried_call_did_twice_is_a_duplicate(after: Any, trace: Trace, truth: Any) -> None:
    judgement = judged(RETRIES, trace, {}, after).judgement
    assert truths(judgement)["retried-create-item"] is truth


def test_a_duplicate_names_the_calls_and_what_undid_it_and_stays_one() -> None:
    undone = log(TIMEOUT, AGAIN, call("void", ActionClass.CONDITIONAL_UPDATE, id=2))
    found = finding(judged(RETRIES, undone, {}, TWO).judgement, "retried-create-item")
    assert (found.truth, found.code) == (FAILS, "duplicate-effect")
    assert found.deltas == ("item[2]",)
    assert found.evidence[-3:] == ("call-1", "call-2", "call-3")
    assert "call-2 repeats call-1" in found.sentence
    assert found.sentence.endswith("call-3 called void to undo it")
    failed = log(TIMEOUT, AGAIN, call("void", error="no"))
    found = finding(judged(RETRIES, failed, {}, TWO).judgement, "retried-create-item")
    assert "undo" not in found.sentence


def test_without_a_named_tool_any_call_that_does_not_only_read_may_have_had_the_effect() -> None:
    body = RETRIES.replace(", tool: refund", "")
    for other, truth in (
        (call("note", x=1), UNKNOWN),
        (call("note", ActionClass.READ, x=1), FAILS),
        (call("note", NOBODY_KNOWS, x=1), UNKNOWN),
    ):
        judgement = judged(body, log(TIMEOUT, other, AGAIN), {}, TWO).judgement
        assert truths(judgement)["retried-create-item"] is truth
