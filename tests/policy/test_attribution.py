"""`by`: whose calls left a change, where the log says what every call left; never a guess."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statediff.model.trace import Action, Trace
from statediff.model.verdict import Truth
from tests.judging import FAILS, HOLDS, UNKNOWN, finding, item, truths
from tests.traces import call, cut, judged, log, own

BEFORE = {"item": [item(1), item(2)]}
AFTER = {"item": [item(1, n=5), item(2)]}
ALLOW = "forbid: [{delete: user}]\nallow: [{update: item, by: user}]\n"


def made(by: str | None, *effects: str, is_known: bool = True) -> Action:
    return replace(call("set"), principal=by, effects=effects if is_known else None)


def frame(trace: Trace, after: Any = AFTER, body: str = ALLOW) -> Truth:
    return truths(judged(body, trace, BEFORE, after).judgement)["frame"]


@pytest.mark.parametrize(
    ("calls", "truth"),
    [
        ([made("user", "item[1].n")], HOLDS),
        ([made("agent", "item[1].n")], FAILS),
        ([made("agent"), made("user", "item[1].n"), made("user", "item[1].n")], HOLDS),
        # Both touched it: which of them made what is left, nobody says.
        ([made("agent", "item[1].n"), made("user", "item[1].n")], UNKNOWN),
        ([made("user", "item[2].n")], UNKNOWN),
        ([made("user", "item[1].t")], UNKNOWN),
        ([made(None, "item[1].n")], UNKNOWN),
        ([made("user", "item[1].n"), made("agent", is_known=False)], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_a_change_is_whose_calls_left_it(calls: list[Action], truth: Truth) -> None:
    assert frame(log(*calls)) is truth


def test_a_log_that_may_lack_calls_or_be_forged_attributes_nothing() -> None:
    whole = log(made("user", "item[1].n"))
    assert frame(whole) is HOLDS
    assert frame(cut(whole)) is UNKNOWN
    assert frame(own(whole)) is UNKNOWN


def test_each_field_is_its_own_change() -> None:
    trace = log(made("user", "item[1].n"), made("agent", "item[1].t"))
    after = {"item": [item(1, n=5, t="b"), item(2)]}
    evaluated = judged(ALLOW, trace, BEFORE, after).judgement
    assert truths(evaluated)["frame"] is FAILS
    assert finding(evaluated, "frame").deltas == ("item[1].t",)


@pytest.mark.parametrize(("by", "truth"), [("user", HOLDS), ("agent", FAILS)])
def test_who_creates_and_deletes_is_told_by_the_entity(by: str, truth: Truth) -> None:
    after = {"item": [item(1), item(3)]}
    trace = log(made(by, "item[3]", "item[2]"))
    assert (
        frame(trace, after, "forbid: [{delete: user}]\nallow: [{any: item, by: user}]\n") is truth
    )


@pytest.mark.parametrize(("by", "truth"), [("agent", FAILS), ("user", HOLDS), (None, UNKNOWN)])
def test_what_only_one_is_forbidden_the_other_may(by: str | None, truth: Truth) -> None:
    body = "forbid: [{id: c, update: item, by: agent}]\nallow: [{update: item}]\n"
    evaluated = judged(body, log(made(by, "item[1].n")), BEFORE, AFTER)
    assert truths(evaluated.judgement)["c"] is truth


BOTH = {"item": [item(1, n=5, t="b"), item(2)]}
UNSAID = "attribution: item[1].t was changed by somebody unknown"


@pytest.mark.parametrize(
    ("n", "t", "truth", "missing"),
    [
        ("user", "agent", FAILS, ()),  # one of its fields is enough
        ("agent", "agent", HOLDS, ()),
        ("agent", None, UNKNOWN, (UNSAID,)),
        ("user", None, FAILS, ()),
    ],
)
def test_an_entity_was_changed_by_whoever_changed_one_of_its_fields(
    n: str, t: str | None, truth: Truth, missing: tuple[str, ...]
) -> None:
    body = "forbid: [{id: c, update: item, by: user}]\nallow: [{update: item}]\n"
    trace = log(made(n, "item[1].n"), made(t, "item[1].t"))
    found = finding(judged(body, trace, BEFORE, BOTH).judgement, "c")
    assert (found.truth, found.missing) == (truth, missing)


@pytest.mark.parametrize(("by", "truth"), [("user", HOLDS), ("agent", FAILS)])
def test_what_is_required_of_one_is_not_done_by_the_other(by: str, truth: Truth) -> None:
    body = "require: [{id: c, update: item, where: 'it.id == 1', set: {n: 5}, by: user}]\n"
    evaluated = judged(body, log(made(by, "item[1].n")), BEFORE, AFTER)
    assert truths(evaluated.judgement)["c"] is truth
    (index,) = evaluated.bundle.document("index.json")
    assert {"trace:call[*].effects", "trace:call[*].principal"} <= set(index["read_sets"]["c"])
