"""Λ: authorization by approvals, effects that a retry repeated, and what undid them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from statediff.errors import ContractError
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.trace import ActionClass, Trace
from statediff.model.values import Unobserved
from tests.judging import (
    CUT,
    DARK,
    FAILS,
    HIDDEN,
    HOLDS,
    UNKNOWN,
    at,
    doc,
    finding,
    item,
    state,
    truths,
    user,
)
from tests.traces import NOBODY_KNOWS, call, cut, judged, log, own

APPROVED = """effects:
  - on: create item
    reversibility: irreversible
    authorized_by: >
      any(a.role == "admin" and a.id == it.owner and not any(u.id == a.id for u in updated.user)
      and not any(d.id == a.id for d in deleted.user) for a in before.user)
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


def test_one_standing_approval_is_enough_whatever_happens_to_others() -> None:
    before = {"user": [user(1, "admin"), user(2, "admin")]}
    assert approved(before, {"user": [user(1, "admin")], "item": MADE}).truth is HOLDS


def test_where_no_approval_was_read_authorization_is_unknown() -> None:
    dark = state({}, {"user": DARK})
    assert approved(dark, state({"item": MADE}, {"user": DARK})).truth is UNKNOWN
    assert approved(dark, state({}, {"user": DARK})).truth is HOLDS


def test_a_mapping_of_an_approval_is_refused_with_what_to_write() -> None:
    body = "effects: [{on: create item, authorized_by: {approval: user, where: 'true'}}]\n"
    with pytest.raises(ContractError, match=r"expected an expression, as `any\(a\.order == it"):
        judged(body + "forbid: [{delete: item}]\n", Trace())


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


RETRIED = log(TIMEOUT, AGAIN)
NO_HISTORY = "attribution: no history says which call left which effect"


@pytest.mark.parametrize(
    ("effect", "before", "after", "truth", "missing"),
    [
        ("any item", {}, TWO, FAILS, ()),
        # Only what came into being is an effect twice, and only of the type that is named.
        ("any item", TWO, {}, HOLDS, ()),
        ("create doc", {}, TWO, HOLDS, ()),
        ("create doc", {}, {**TWO, "doc": [doc(1)]}, HOLDS, ()),
        # An effect may be one of two where a field of it, or how many there are, was not seen.
        ("create item", {}, {"item": [item(1), item(2, HIDDEN)]}, UNKNOWN,
         (NO_HISTORY, "item.n after: hidden")),
        ("create item", {}, {"item": [item(2, HIDDEN)]}, HOLDS, ()),
        ("create item", {}, state({}, {"item": CUT}), UNKNOWN, (NO_HISTORY, "item: cut short")),
        ("create item", {}, state({}, {"doc": CUT}), HOLDS, ()),
        ("create item", {"item": [item(1, HIDDEN)]}, {"item": [item(1), item(2)]}, HOLDS, ()),
    ],
)  # fmt: skip
def test_what_a_retried_call_may_have_done_twice(
    effect: str, before: Any, after: Any, truth: Any, missing: tuple[str, ...]
) -> None:
    body = (
        f"effects: [{{on: {effect}, retry_safe: false}}]\n"
        "forbid: [{create: log}]\nallow: [{any: [doc, item]}]\n"
    )
    judgement = judged(body, RETRIED, before, after).judgement
    found = finding(judgement, f"retried-{effect.replace(' ', '-')}")
    assert (found.truth, found.missing) == (truth, missing)


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


DARK_CALL = replace(call("refund"), arguments=Unobserved("cut"))
STOPPED = "calls: unrecorded: the recorder was stopped"
SILENT_CALLS = tuple(
    f"in call-{n}, the log does not say its arguments: it may repeat another call" for n in (1, 2)
)


@pytest.mark.parametrize(
    ("items", "trace", "missing"),
    [
        ([item(1, 5), item(2, 5)], log(DARK_CALL, DARK_CALL), SILENT_CALLS),
        ([item(1, 5)], log(DARK_CALL, DARK_CALL), ()),
        ([item(1, 5), item(2, 5)], log(DARK_CALL), ()),
        ([item(1, 5), item(2, 5)], log(DARK_CALL, AGAIN), SILENT_CALLS[:1]),
        ([item(1, 5), item(2, 5)], cut(log(TIMEOUT, AGAIN)), (NO_HISTORY, STOPPED)),
        ([item(1, 5), item(2, 5)], cut(log(TIMEOUT)), (STOPPED,)),
        ([item(1, 5), item(2, HIDDEN)], cut(log(TIMEOUT)), (STOPPED, "item.n after: hidden")),
        ([item(1, HIDDEN)], cut(log(TIMEOUT)), ()),
        ([item(1, 5), item(2, 5)], log(TIMEOUT, AGAIN, call("refund", line=2)), (NO_HISTORY,)),
    ],
)
def test_what_keeps_a_repetition_from_being_told_is_named(
    items: Any, trace: Trace, missing: tuple[str, ...]
) -> None:
    found = finding(judged(RETRIES, trace, {}, {"item": items}).judgement, "retried-create-item")
    assert found.missing == missing
    assert found.truth is (UNKNOWN if missing else HOLDS)


def test_items_that_may_have_come_unseen_may_be_a_repetition() -> None:
    after = state({"item": [item(1, 5)]}, {"item": DARK})
    for trace, truth in ((cut(log(TIMEOUT, AGAIN)), UNKNOWN), (log(TIMEOUT), HOLDS)):
        found = judged(RETRIES, trace, {}, after).judgement
        assert truths(found)["retried-create-item"] is truth


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_repetition_counts_its_effects_and_spares_as_many_as_were_different_calls(
    number: int,
) -> None:
    after = {"item": [item(key, 5) for key in range(1, number + 1)]}
    undone = log(TIMEOUT, AGAIN, AGAIN, call("void"), call("void"))
    found = finding(judged(RETRIES, undone, {}, after).judgement, "retried-create-item")
    named = " and ".join(str(key) for key in range(1, min(number, 3) + 1))
    assert found.sentence == (
        f'item {named} are one effect {number} times: call-2 repeats call-1 ("refund"); '
        "call-5 called void to undo it"
    )
    assert found.deltas == tuple(f"item[{key}]" for key in range(2, number + 1))
    assert found.evidence == ("after/db", "before/db", "call-1", "call-2", "call-5")


PAYMENT = EntityType(
    "payment", ("id",), (
        Field("id", Kind.INT, is_nullable=False), Field("cents", Kind.INT),
        Field("made_at", Kind.TIMESTAMP), Field("day", Kind.DATE),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("cents", "day", "truth"), [(5, 2, FAILS), (5, 1, FAILS), (6, 1, HOLDS), (6, 2, HOLDS)]
)
def test_effects_are_alike_where_only_key_and_time_tell_them_apart(
    cents: int, day: int, truth: Any
) -> None:
    rows = [
        {"id": 1, "cents": 5, "made_at": at(1), "day": date(2026, 1, 1)},
        {"id": 2, "cents": cents, "made_at": at(2), "day": date(2026, 1, day)},
    ]
    body = (
        "effects: [{on: create payment, retry_safe: false}]\n"
        "forbid: [{delete: payment}]\nallow: [{create: payment}]\n"
    )
    sides = (state({"payment": side}, types=[PAYMENT]) for side in ([], rows))
    found = judged(body, log(TIMEOUT, AGAIN), *sides).judgement
    assert truths(found)["retried-create-payment"] is truth


def test_what_a_call_undid_is_told_of_authorization_too_and_only_where_it_is_named() -> None:
    body = (
        "effects:\n  - {on: create item, authorized_by: 'it.n == 1', compensation: void}\n"
        "forbid: [{delete: item}]\nallow: [{create: item}]\n"
    )
    for other, end in ((call("void"), "call-1 called void to undo it"), (call("note"), "5 ≠ 1")):
        found = finding(judged(body, log(other), {}, {"item": [item(1, 5)]}).judgement, CLAUSE)
        assert found.truth is FAILS
        assert found.sentence.endswith(end)
        kept = finding(judged(body, log(other), {}, {"item": [item(1, 1)]}).judgement, CLAUSE)
        assert (kept.truth, kept.sentence) == (HOLDS, "every such effect is authorized")


@pytest.mark.parametrize(
    ("before", "after", "code", "missing"),
    [
        ({}, {"item": [item(1, 2)]}, "holds", ()),
        ({}, {"item": [item(1, 1)]}, "unauthorized-effect", ()),
        # Neither another entity nor another operation is the effect.
        ({}, {"user": [user(1)]}, "holds", ()),
        ({"item": [item(1, 5)]}, {"item": [item(1, 0)]}, "holds", ()),
        ({"item": [item(1, 0)]}, {}, "holds", ()),
        ({"item": [item(1, 5)]}, {"item": [item(1, HIDDEN)]}, "holds", ()),
        ({}, {"item": [item(1, None)]}, "unauthorized-effect", ()),
        ({}, {"item": [item(1, HIDDEN)]}, "unobserved", ("item.n after: hidden",)),
        ({}, {"item": [item(1, None), item(2, HIDDEN)]}, "unauthorized-effect", ()),
        ({}, state({"item": [item(1, 2)]}, {"item": DARK}), "unobserved", ("item: not read",)),
        ({}, state({}, {"user": DARK}), "holds", ()),
    ],
)  # fmt: skip
def test_an_authorization_is_asked_of_each_such_effect_and_of_no_other(
    before: Any, after: Any, code: str, missing: tuple[str, ...]
) -> None:
    body = (
        "effects:\n  - {on: create item, authorized_by: 'it.n > 1'}\n"
        "forbid: [{delete: user}]\nallow: [{any: item}, {any: user}]\n"
    )
    found = finding(judged(body, Trace(), before, after).judgement, CLAUSE)
    assert (found.code, found.missing) == (code, missing)
    truth = {"holds": HOLDS, "unauthorized-effect": FAILS}
    assert found.truth is truth.get(code, UNKNOWN)


ACTED = """effects:
  - on: create item
    actor: it.owner == 1
allow: [{create: item}, {any: user}]
forbid: [{delete: item}]
"""


@pytest.mark.parametrize(("owner", "truth"), [(1, HOLDS), (2, FAILS), (HIDDEN, UNKNOWN)])
def test_an_effect_is_done_in_the_right_name(owner: Any, truth: Any) -> None:
    done = judged(ACTED, Trace(), {}, {"item": [item(1, owner=owner)]}).judgement
    assert finding(done, CLAUSE).truth is truth


def test_the_right_name_does_not_stand_in_for_an_approval() -> None:
    both = APPROVED.replace("    authorized_by:", "    actor: it.owner == 1\n    authorized_by:")
    for before, owner, truth in (
        ([user(1, "admin")], 1, HOLDS),
        ([user(1, "user")], 1, FAILS),
        ([user(2, "admin")], 2, FAILS),
    ):
        sides = {"user": before}, {"user": before, "item": [item(1, owner=owner)]}
        done = judged(both, Trace(), *sides).judgement
        assert finding(done, CLAUSE).truth is truth


UNDONE = """effects:
  - on: create item
    authorized_by: 'it.n == 1'
    compensation: {tool: void, arguments: {id: {is: it.id}, why: [mistake]}}
allow: [{create: item}]
forbid: [{delete: item}]
"""


def test_only_the_call_that_the_contract_describes_undid_it() -> None:
    def said(**arguments: Any) -> str:
        calls = log(call("void", **arguments))
        found = finding(judged(UNDONE, calls, {}, {"item": [item(7, 2)]}).judgement, CLAUSE)
        return str(found.sentence)

    assert said(id=7, why=("mistake",)).endswith("called void to undo it")
    assert "to undo it" not in said(id=8, why=("mistake",))
    assert "to undo it" not in said(id=7)
