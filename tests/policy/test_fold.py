"""One judgement over every admissible matching: whoever uses the ambiguous identity is open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statediff.kernel import replay
from statediff.kernel.policy.findings import combine
from statediff.model.trace import Turn
from statediff.model.verdict import ClauseTruth, Judgement, Stage, Truth
from tests.judging import (
    DIVERGE,
    FAILS,
    HIDDEN,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    item,
    judged,
    run,
    truths,
)
from tests.traces import call, log

IDENTIFIED = (
    "identify: [{type: log, match_on: {what: null}, version: 1, because: it has no key}]\n"
    "frame: {open: it is not asked}\n"
)
# The second only looks like the first: nobody can tell whether it is the same entity.
BEFORE: Any = {"log": [{"what": "a", "n": 1}], "item": [item(1)]}
AFTER: Any = {"log": [{"what": "\u0430", "n": 1}], "item": [item(1)]}
CAUSE = 'log: ambiguous identity: [["text", "\u0430"]] only looks like another entity'
TRACE = log(call("a"), turns=(Turn("Go.", 0, "ok"),))
CLAIMS = "forbid: [{delete: item}]\nanswer: {schema: {x: int}, claims: [{id: c, that: '%s'}]}"
KEPT = "forbid: [{delete: item}]\nderive: [{id: c, field: item.n, is: '%s', because: it is kept}]"
EFFECT = "forbid: [{delete: item}]\neffects: [{on: any %s, authorized_by: '%s'}]"
RETRY = "forbid: [{delete: item}]\neffects: [{on: create %s, retry_safe: false}]"


def combined(body: str, before: Any = BEFORE, after: Any = AFTER) -> Any:
    return judged(IDENTIFIED + body + "\n", before, after, trace=TRACE, answer={"x": 1})


@pytest.mark.parametrize(
    ("clause", "name", "is_used"),
    [
        ("forbid: [{id: c, delete: log}]", "c", True),
        ("forbid: [{id: c, delete: item}]", "c", False),
        ("require: [{id: c, update: log, count: {min: 1}}]", "c", True),
        ("require:\n  - {id: c, that: 'count(l for l in after.log) == 1'}", "c", True),
        ("require:\n  - {id: c, that: 'exists(after.item[1])'}", "c", False),
        (CLAIMS % "count(l for l in after.log) == answer.x", "c", True),
        (CLAIMS % "count(i for i in after.item) == answer.x", "c", False),
        (KEPT % "count(l for l in after.log)", "c", True),
        (KEPT % "count(i for i in after.item)", "c", False),
        ("steps: [{id: c, during: calls, always: 'count(l for l in now.log) == 1'}]", "c", True),
        ("steps: [{id: c, during: calls, always: 'count(i for i in now.item) == 1'}]", "c", False),
        ("turns: [{id: c, prompt: Go., require: ['count(l for l in now.log) == 1']}]", "c", True),
        (EFFECT % ("log", "before.item[1].n == 1"), "authorized-any-log", True),
        (EFFECT % ("item", "any(l.n == 1 for l in before.log)"), "authorized-any-item", True),
        (EFFECT % ("item", "before.item[1].n == 1"), "authorized-any-item", False),
        (RETRY % "log", "retried-create-log", True),
        (RETRY % "item", "retried-create-item", False),
    ],
)
def test_what_reads_an_identity_that_nobody_can_tell_is_open_and_nothing_else(
    clause: str, name: str, is_used: bool
) -> None:
    judgement = combined(clause)
    (found,) = [f for f in judgement.findings if f.clause == name]
    if is_used:
        assert (found.truth, found.code, found.component) == (
            UNKNOWN, "identity-ambiguous", "resolve",
        )  # fmt: skip
        assert found.missing == (CAUSE,)
        assert found.sentence == f"{CAUSE}; needed by {name}"
    else:
        assert found.truth is HOLDS
    assert truths(judgement)[name] is (UNKNOWN if is_used else HOLDS)
    assert judgement.verdict is (INCONCLUSIVE if is_used else MATCH)


def test_each_result_is_folded_from_its_own_clauses_as_they_were_combined() -> None:
    body = "actions: {allow: {tool: [a]}}\n" + CLAIMS % "count(l for l in after.log) == answer.x"
    found = combined(body)
    assert (found.tool, found.task, found.outcome) == (MATCH, INCONCLUSIVE, MATCH)
    wrong = combined("actions: {allow: {tool: [b]}}\nrequire: [{create: item}]")
    assert (wrong.tool, wrong.task, wrong.outcome) == (DIVERGE, None, DIVERGE)
    only = combined("actions: {allow: {tool: [a]}}")
    assert (only.tool, only.task, only.outcome) == (MATCH, None, None)


def test_what_fails_by_every_matching_fails_even_where_it_uses_the_identity() -> None:
    judgement = combined("require: [{id: c, create: log, where: 'it.n == 7'}]")
    assert truths(judgement)["c"] is FAILS
    assert judgement.verdict is DIVERGE


def test_the_closed_frame_uses_every_identity() -> None:
    closed = IDENTIFIED.replace("frame: {open: it is not asked}\n", "")
    body = closed + "forbid: [{id: c, delete: item}]\nallow: [{any: log}]\n"
    judgement = judged(body, BEFORE, AFTER)
    assert truths(judgement) == {"c": HOLDS, "frame": UNKNOWN}
    (found,) = [f for f in judgement.findings if f.clause == "frame"]
    assert found.code == "identity-ambiguous"


def test_findings_of_several_clauses_keep_the_order_of_the_report() -> None:
    body = (
        "forbid: [{id: open, delete: log}, {id: held, delete: item}]\n"
        "require: [{id: failed, create: item}]"
    )
    assert [f.clause for f in combined(body).findings] == ["failed", "open", "held"]


WHOLE = """frame: {open: it is not asked}
forbid: [{id: gone, delete: item}, {id: lost, delete: log}]
any_of:
  one: {require: [{id: made, create: item}]}
  two: {require: [{id: told, create: log}]}
"""


def by_matchings(
    body: str, *others: dict[str, Truth], of: tuple[str, ...] = ("item", "log"), opaque: bool = True
) -> Judgement:
    """A trial in which nothing happened, by itself and by matchings with some other truths."""
    evaluated = run(body, {}, {})
    judgements = [
        replace(
            evaluated.judgement,
            clauses=tuple(
                replace(c, truth=other.get(c.clause, c.truth)) for c in evaluated.judgement.clauses
            ),
        )
        for other in ({}, *others)
    ]
    ambiguous = [(name, f"two of {name}") for name in of]
    return combine(evaluated.contract, judgements, ambiguous, opaque)


def test_what_is_open_names_the_identity_that_its_clause_uses() -> None:
    found = by_matchings(WHOLE, {"any_of": FAILS}, opaque=False)
    missing = {f.clause: f.missing for f in found.findings if f.truth is UNKNOWN}
    assert missing == {"gone": ("item: two of item",), "lost": ("log: two of log",)}
    # Where the clause uses none of them and still has two truths, it is the first of them.
    found = by_matchings(WHOLE, {"gone": FAILS}, of=("user", "doc"))
    assert {f.clause: f.missing for f in found.findings if f.truth is UNKNOWN} == {
        "gone": ("user: two of user",)
    }


def test_findings_of_branches_stay_as_long_as_the_whole_of_them_is_decided() -> None:
    told = ["any_of", "gone", "lost", "one/made", "two/told"]
    assert sorted(f.clause for f in by_matchings(WHOLE, {}).findings) == told
    one = by_matchings(WHOLE, {"gone": FAILS})
    assert sorted(f.clause for f in one.findings) == told
    whole = by_matchings(WHOLE, {"any_of": HOLDS})
    assert sorted(f.clause for f in whole.findings) == told[:3]
    assert truths(whole)["any_of"] is UNKNOWN


def test_a_clause_of_which_nobody_knows_what_it_reads_uses_every_identity() -> None:
    evaluated = run(WHOLE, {}, {})
    unheard = ClauseTruth("unheard-of", Stage.ACCESS, HOLDS)
    told = replace(evaluated.judgement, clauses=(unheard,))
    found = combine(evaluated.contract, [told, told], [("log", "two of log")], False)
    assert truths(found) == {"unheard-of": UNKNOWN}


ALIKE: Any = {"log": [{"what": "a", "n": 1}, {"what": "a", "n": 1}]}
NAMED: Any = {"log": [{"what": "a", "n": 1}, {"what": "a", "n": 2}]}
HALF: Any = {"log": [{"what": "a", "n": 1}, {"what": "a", "n": None}]}
DARK: Any = {"log": [{"what": "a", "n": HIDDEN}, {"what": "a", "n": HIDDEN}]}
ONE: Any = {"log": [{"what": "a", "n": 7}]}
OPAQUE = "canonicalize: [{use: opaque@1, on: [log.n], because: it is drawn at random}]\n"


@pytest.mark.parametrize(
    ("before", "head", "truth"),
    [
        (ALIKE, "", HOLDS),
        (NAMED, "", UNKNOWN),
        (NAMED, OPAQUE, HOLDS),
        (HALF, OPAQUE, UNKNOWN),
        (DARK, OPAQUE, UNKNOWN),
        ({"log": [*NAMED["log"], {"what": "A", "n": 3}]}, OPAQUE, UNKNOWN),
    ],
)
def test_what_holds_in_all_matchings_holds_where_they_differ_in_opaque_ids_only(
    before: Any, head: str, truth: Truth
) -> None:
    body = head + IDENTIFIED + "require: [{id: c, delete: log, count: {min: 1}}]\n"
    found = run(body, before, ONE)
    assert truths(found.judgement)["c"] is truth
    assert replay(found.bundle) == found.judgement


def test_what_fails_in_all_matchings_of_opaque_ids_fails() -> None:
    never = IDENTIFIED + "forbid: [{id: c, delete: log}]\n"
    assert truths(run(never, ALIKE, ONE).judgement)["c"] is FAILS
