"""The frame: which changes are explained, by what, and what is open where that is not known."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.contract.language.context import FALSE, TRUE
from statediff.kernel.policy.frame import ExplainedDelta, ExplanationVote, explain
from statediff.kernel.policy.matching import JudgingContext
from statediff.model.verdict import Truth
from statediff.model.view import StateView
from tests.explaining import in_words
from tests.judging import (
    FAILS,
    HIDDEN,
    HOLDS,
    SILENT,
    UNKNOWN,
    finding,
    item,
    judged,
    state,
)  # fmt: skip

OPEN = TRUE | FALSE
BEFORE: Any = {"item": [item(1)]}
AFTER: Any = {"item": [item(1, 2)]}


@pytest.mark.parametrize(
    ("said", "by", "truth", "causes"),
    [
        ([], (), FAILS, set()),
        ([("a", FALSE, "x")], (), FAILS, set()),
        ([("a", TRUE, "")], ("a",), HOLDS, set()),
        ([("a", TRUE, ""), ("b", OPEN, "x"), ("c", TRUE, "")], ("a", "c"), HOLDS, set()),
        ([("a", FALSE, "x"), ("b", OPEN, "y"), ("c", OPEN, "z")], (), UNKNOWN, {"y", "z"}),
        ([("a", FALSE, "x"), ("b", OPEN, "")], (), UNKNOWN, {"whether b explains it"}),
    ],
)
def test_a_change_is_explained_by_whatever_surely_explains_it(
    said: list[tuple[str, int, str]], by: tuple[str, ...], truth: Truth, causes: set[str]
) -> None:
    (delta,) = judged("forbid: [{delete: user}]\n", BEFORE, AFTER).deltas
    context = JudgingContext(
        StateView(state(BEFORE)), StateView(state(AFTER)), (delta,), (), SILENT
    )
    more = [ExplanationVote(delta, name, mask, frozenset({why} - {""})) for name, mask, why in said]
    (found,) = explain((), context, more)
    told = found._replace(causes=frozenset(in_words(found.causes)))
    assert told == ExplainedDelta(delta, by, truth, frozenset(causes))


EACH = "update: item, fields: [n]"


@pytest.mark.parametrize(
    ("section", "clause", "truth"),
    [
        ("allow", EACH, HOLDS),
        ("allow", "update: item", HOLDS),
        ("allow", f"{EACH}, where: 'it.id == 1'", HOLDS),
        # What it would not explain, or not beyond a number, is open.
        ("allow", "update: item, fields: [t]", UNKNOWN),
        ("allow", f"{EACH}, where: 'it.id == 2'", UNKNOWN),
        ("allow", f"{EACH}, count: 1", UNKNOWN),
        ("allow", f"{EACH}, that: 'count(i for i in them) < 2'", UNKNOWN),
        ("allow", f"{EACH}, that: 'new.n > 0'", UNKNOWN),
        ("allow", "update: user", UNKNOWN),
        # What is required explains all that it matches: too many of them is its own finding.
        ("require", f"{EACH}, count: {{max: 1}}", HOLDS),
        ("require", f"{EACH}, count: {{min: 0}}, that: 'count(i for i in them) < 2'", HOLDS),
        ("require", "update: item, fields: [t], count: {max: 1}", UNKNOWN),
    ],
)
def test_a_change_that_may_exist_needs_a_clause_that_would_explain_any(
    section: str, clause: str, truth: Truth
) -> None:
    body = f"forbid: [{{delete: user}}]\n{section}:\n  - {{id: c, {clause}}}\n"
    found = finding(judged(body, {"item": [item(1, HIDDEN)]}, AFTER), "frame")
    assert found.truth is truth
    assert found.missing == (() if truth is HOLDS else ("item[1].n: hidden",))


def test_what_is_open_names_its_own_changes_beside_those_that_nothing_explains() -> None:
    body = "forbid: [{delete: user}]\nallow:\n  - {update: item, where: 'it.t == \"a\"'}\n"
    before = {"item": [item(1), item(2, t="b"), item(3, t=HIDDEN)]}
    after = {"item": [item(1, 2), item(2, 2, "b"), item(3, 2, HIDDEN)]}
    found = [f for f in judged(body, before, after).findings if f.clause == "frame"]
    assert [(f.truth, f.deltas) for f in found] == [
        (FAILS, ("item[2].n",)), (UNKNOWN, ("item[3].n",)),
    ]  # fmt: skip
    assert found[1].missing == (
        "item 3 n 1 → 2: item.t before: hidden", "item[3].t: hidden",
    )  # fmt: skip
