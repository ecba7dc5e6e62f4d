"""`any_of` and `disputed`: branches judged whole, each with its own frame."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.errors import ContractError
from statediff.kernel import replay
from tests.judging import (
    DARK,
    DIVERGE,
    FAILS,
    HIDDEN,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    document,
    finding,
    item,
    run,
    state,
    truths,
    user,
)

NOTHING: dict[str, Any] = {}
ANY_OF = """
any_of:
  refunded:
    require: [{id: money, create: item, where: 'it.t == "refund"'}]
    allow: [{update: user, fields: [name]}]
  exchanged:
    require: [{id: goods, create: item, where: 'it.t == "goods"'}]
    forbid: [{id: no-money, create: item, where: 'it.t == "refund"'}]
"""
DISPUTED = """
disputed: billing and care read the rule differently
any_of:
  billing:
    require: [{id: stated, create: item, where: 'it.t == "refund"'}]
    allow: [{update: user, fields: [name]}]
  care:
    require: [{id: stated, create: item, where: 'it.n == 1'}]
"""
REFUND, GOODS = item(1, 1, "refund"), item(2, 2, "goods")
BEFORE = {"user": [user(1)]}
RENAMED = {"user": [user(1, name="Bea")]}


def trial(body: str, after: Any, before: Any = BEFORE, **more: Any) -> Any:
    found = run(body, before, after, **more)
    assert document(replay(found.bundle)) == document(found.judgement)
    return found.judgement


@pytest.mark.parametrize(
    ("after", "verdict", "truth"),
    [
        ({**BEFORE, "item": [REFUND]}, MATCH, HOLDS),
        ({**RENAMED, "item": [REFUND]}, MATCH, HOLDS),
        ({**BEFORE, "item": [GOODS]}, MATCH, HOLDS),
        ({**RENAMED, "item": [GOODS]}, DIVERGE, FAILS),
        ({**BEFORE, "item": [REFUND, GOODS]}, DIVERGE, FAILS),
        (BEFORE, DIVERGE, FAILS),
        ({**BEFORE, "item": [item(1, 1, HIDDEN)]}, INCONCLUSIVE, UNKNOWN),
        (state(BEFORE, {"item": DARK}), INCONCLUSIVE, UNKNOWN),
    ],
)  # fmt: skip
def test_one_branch_must_hold_whole_with_its_own_frame(
    after: Any, verdict: Any, truth: Any
) -> None:
    judgement = trial(ANY_OF, after)
    assert judgement.verdict is verdict
    assert truths(judgement)["any_of"] is truth


def test_a_branch_that_holds_shows_only_its_own_findings_and_explanations() -> None:
    judgement = trial(ANY_OF, {**BEFORE, "item": [GOODS]})
    assert {f.clause for f in judgement.findings if "/" in f.clause} == {
        "exchanged/goods", "exchanged/no-money", "exchanged/frame",
    }  # fmt: skip
    assert all(f.truth is HOLDS for f in judgement.findings)
    assert judgement.explained_by == (("item[2]", ("exchanged/goods",)),)


def test_when_none_holds_each_says_why_and_the_nearest_comes_first() -> None:
    judgement = trial(ANY_OF, {**RENAMED, "item": [GOODS]})
    whole = finding(judgement, "any_of")
    assert whole.code == "no-branch-holds"
    assert "exchanged/frame" in whole.sentence
    assert "refunded/money" in whole.sentence
    assert whole.sentence.startswith("not exchanged/frame")
    assert finding(judgement, "exchanged/frame").code == "unexplained-change"
    assert finding(judgement, "refunded/money").code == "missing-change"
    assert finding(judgement, "refunded/money").witness.comparisons


def test_when_none_holds_each_change_is_explained_by_whatever_branch_explains_it() -> None:
    judgement = trial(ANY_OF, {**RENAMED, "item": [GOODS]})
    assert judgement.explained_by == (
        ("item[2]", ("exchanged/goods",)), ("user[1].name", ("refunded/allow-1",)),
    )  # fmt: skip
    assert truths(judgement) == {"frame": HOLDS, "any_of": FAILS}


def test_what_no_branch_explains_is_the_frames_own_finding() -> None:
    judgement = trial(ANY_OF, {"item": [REFUND]})
    assert judgement.findings[0].clause == "frame"
    assert judgement.findings[0].deltas == ("user[1]",)


def test_a_forbidden_change_outside_the_branches_is_a_violation_in_any() -> None:
    body = "forbid: [{id: no-new, create: user}]\n" + ANY_OF
    judgement = trial(body, {"user": [user(1), user(2)], "item": [GOODS]})
    assert truths(judgement)["no-new"] is FAILS
    assert judgement.verdict is DIVERGE


def test_the_numbers_are_those_of_the_branch_that_holds_or_comes_nearest() -> None:
    held = trial(ANY_OF, {**BEFORE, "item": [GOODS]}).metrics
    assert (held.precision, held.recall, held.forbidden_effect_rate) == (1, 1, 0)
    both = trial(ANY_OF, {**BEFORE, "item": [REFUND, GOODS]}).metrics
    assert (both.precision, both.recall) == (0.5, 1)


@pytest.mark.parametrize(
    ("rows", "verdict", "code"),
    [
        ([REFUND], MATCH, "holds"),
        ([], DIVERGE, "no-branch-holds"),
        ([item(1, 5, "refund")], INCONCLUSIVE, "contract-ambiguity"),
        ([item(1, HIDDEN, "refund")], INCONCLUSIVE, "unobserved"),
        ([item(1, HIDDEN, "other")], INCONCLUSIVE, "unobserved"),
    ],
)
def test_readings_must_agree(rows: Any, verdict: Any, code: str) -> None:
    judgement = trial(DISPUTED, {**BEFORE, "item": rows})
    assert judgement.verdict is verdict
    assert finding(judgement, "disputed").code == code


def test_an_ambiguity_names_the_readings_the_reason_and_a_witness() -> None:
    found = finding(trial(DISPUTED, {**BEFORE, "item": [item(1, 5, "refund")]}), "disputed")
    assert "right by billing" in found.sentence
    assert "care/stated" in found.sentence
    assert "read the rule differently" in found.sentence
    assert found.missing == ("which reading is meant: billing, care",)
    assert found.witness.rows


THREE = """
disputed: nobody knows
any_of:
    care: {require: [{id: a, create: item, where: 'it.n == 1'}]}
    shop: {require: [{id: b, create: item, where: 'it.n > 0'}]}
    bank: {require: [{id: c, create: item, where: 'it.t == "x"'}]}
"""


def test_an_ambiguity_lists_the_readings_that_hold_and_why_the_first_other_does_not() -> None:
    found = finding(trial(THREE, {**BEFORE, "item": [item(1)]}), "disputed")
    assert found.sentence == (
        "right by care, shop, but not bank/c: no item matches, 1 required; item 1 does not: "
        '"a" ≠ "x"; nobody knows'
    )
    assert (found.component, found.missing) == (
        "policy", ("which reading is meant: care, shop, bank",),
    )  # fmt: skip


EITHER = """
any_of:
  one: {require: [{id: a, create: item, where: 'it.n == 1'}]}
  two: {require: [{id: b, create: item, where: 'it.t == "a"'}, {id: d, create: user}]}
"""


def test_of_branches_that_hold_the_first_is_told_and_of_those_that_fail_each_once() -> None:
    both = EITHER.replace(", {id: d, create: user}", "")
    held = trial(both, {**BEFORE, "item": [item(1)]})
    assert finding(held, "any_of").sentence == "all of one holds"
    assert {f.clause for f in held.findings if "/" in f.clause} == {"one/a", "one/frame"}
    failed = trial(EITHER, {**BEFORE, "item": [item(1, 2)]})
    assert finding(failed, "any_of").sentence == (
        "not two/d: no user matches, 1 required; "
        "not one/a: no item matches, 1 required; item 1 does not: 2 ≠ 1"
    )
    parts = [f.clause for f in failed.findings if "/" in f.clause]
    assert len(parts) == len(set(parts))


def test_a_branch_that_fails_leaves_open_what_another_waits_for_and_nothing_else() -> None:
    after = {**BEFORE, "item": [item(1, HIDDEN, HIDDEN)]}
    judgement = trial(EITHER, after)
    whole = finding(judgement, "any_of")
    # The second has failed, whatever the text was: nobody waits for it.
    assert (whole.truth, whole.missing) == (
        UNKNOWN, ("item 1 created: item.n after: hidden", "item.n after: hidden"),
    )  # fmt: skip
    assert {f.clause for f in judgement.findings if "/" in f.clause} == {"one/a", "one/frame"}


def test_doing_nothing_must_not_satisfy_a_branch() -> None:
    body = "any_of:\n  a: {require: [{create: item}]}\n  b: {forbid: [{create: item}]}\n"
    with pytest.raises(ContractError) as caught:
        run(body, BEFORE, BEFORE, noop=False)
    assert caught.value.problems[0].code == "null-run"
    assert trial(body, BEFORE).verdict is MATCH


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("any_of: {a: {allow: [{create: item}]}, b: {require: [{create: item}]}}", "a branch with"),
        ("any_of: {a: {}, b: {require: [{create: item}]}}", "a branch with"),
        ("any_of: {a: {require: [{create: item}]}}", "at least two"),
        ("disputed: nobody knows", "which branch of `any_of` is meant"),
        ("any_of: {a: {require: [{create: itm}]}, b: {require: [{create: item}]}}", "item"),
        ("any_of: {a b: {require: [{create: item}]}, b: {require: [{create: item}]}}", "key"),
        (("any_of: {a: {require: [{id: x, create: item}, {id: x, create: user}]},"
         " b: {require: [{create: item}]}}"), "two clauses are called `x`"),
        ("any_of: {a: {require: [{id: frame, create: item}]}, b: {require: [{create: item}]}}",
         "`frame`"),
    ],
)  # fmt: skip
def test_what_is_no_alternative_is_refused_with_its_place(body: str, said: str) -> None:
    with pytest.raises(ContractError) as caught:
        run(body, BEFORE, BEFORE)
    problem = caught.value.problems[0]
    assert said in f"{problem.message} {problem.hint}", problem
    assert problem.line > 1 or "which" in said


@pytest.mark.parametrize(
    ("second", "truth"),
    [
        ("require: [{create: log}, {delete: log}]", UNKNOWN),
        ("require: [{create: user}]", UNKNOWN),
    ],
)
def test_an_identity_nobody_can_tell_leaves_the_branches_open(second: str, truth: Any) -> None:
    body = (
        "identify: [{type: log, match_on: {what: null}, version: 1, because: it has no key}]\n"
        f"any_of:\n  a: {{require: [{{update: log, count: {{min: 1}}}}]}}\n  b: {{{second}}}\n"
    )
    before, after = {"log": [{"what": "a", "n": 1}]}, {"log": [{"what": "\u0430", "n": 1}]}
    judgement = trial(body, before, after)
    assert truths(judgement)["any_of"] is truth
    assert finding(judgement, "any_of").code == "identity-ambiguous"
    assert not [f for f in judgement.findings if "/" in f.clause]


def test_what_fails_by_every_identity_fails() -> None:
    body = (
        "identify: [{type: log, match_on: {what: null}, version: 1, because: it has no key}]\n"
        "any_of:\n  a: {require: [{create: doc}]}\n  b: {require: [{create: user}]}\n"
    )
    before, after = {"log": [{"what": "a", "n": 1}]}, {"log": [{"what": "\u0430", "n": 1}]}
    assert truths(trial(body, before, after))["any_of"] is FAILS
