"""Which readings may be used, by its own clock (docs/design.md §3, Freshness, Contradiction)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statediff.kernel import TrialFacts
from statediff.model.readings import Timeline
from tests.judging import (
    INCONCLUSIVE,
    MATCH,
    TIMELINE,
    UNKNOWN,
    at,
    capture,
    finding,
    judged,
    part,
    state,
    truths,
    user,
)

ROWS = {"user": [user(1)]}
BODY = "forbid: [{id: f, delete: user}]\n"


def judge_with(
    evidence: str = "",
    timeline: Timeline | None = TIMELINE,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> Any:
    known = state(ROWS)
    return judged(
        BODY + (f"evidence: {{db: {evidence}}}\n" if evidence else ""),
        capture("before", part("before", known, **(before or {}))),
        capture("after", part("after", known, **(after or {}))),
        timeline=timeline,
    )


def test_readings_in_their_windows_are_admissible() -> None:
    assert judge_with().verdict is MATCH
    assert judge_with("{max_age: 5s}").verdict is MATCH
    for moment in (at(0), at(11)):
        assert judge_with(before={"as_of": moment}).verdict is MATCH
    assert judge_with(after={"as_of": at(30)}).verdict is MATCH
    at_once = replace(TIMELINE, agent_finished_at=TIMELINE.settled_at)
    assert judge_with(timeline=at_once).verdict is MATCH


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"before": {"as_of": at(-0.001)}}, "evidence-stale"),
        ({"before": {"as_of": at(11.001)}}, "evidence-stale"),
        ({"after": {"as_of": at(29.999)}}, "evidence-stale"),
        ({"evidence": "{max_age: 4s}"}, "evidence-stale"),
        ({"evidence": "{max_age: 5s}", "after": {"as_of": at(35.001)}}, "evidence-stale"),
        ({"evidence": "{max_age: 5s}", "after": {"as_of": at(35.000001)}}, "evidence-stale"),
        ({"evidence": "{max_age: 5s}", "timeline": None}, "evidence-stale"),
        ({"before": {"clock": "database"}}, "evidence-stale"),
        ({"timeline": replace(TIMELINE, unsettled=(("db", "queue not empty"),))},
         "evidence-unsettled"),
        ({"timeline": replace(TIMELINE, settled_at=None)}, "evidence-unsettled"),
        ({"timeline": replace(TIMELINE, reset_verified_at=None)}, "evidence-stale"),
        ({"timeline": replace(TIMELINE, agent_finished_at=at(31))}, "evidence-stale"),
        ({"timeline": replace(TIMELINE, agent_started_at=at(-1))}, "evidence-stale"),
        ({"timeline": replace(TIMELINE, first_action_at=at(9))}, "evidence-stale"),
        ({"after": {"is_agent_influenced": True}}, "evidence-forgeable"),
        ({"after": {"acknowledgement": True}}, "evidence-acknowledgement-only"),
        ({"after": {"digest": None, "cause": "connection refused"}}, "source-unread"),
    ],
)  # fmt: skip
def test_any_other_reading_leaves_its_values_unobserved(how: dict[str, Any], code: str) -> None:
    found = judge_with(**how)
    assert found.verdict is INCONCLUSIVE
    assert finding(found, "f").code == code
    assert set(truths(found).values()) == {UNKNOWN}


def test_a_refused_reading_finds_no_violation_either() -> None:
    known = state(ROWS)
    gone = judged(BODY, known, capture("after", part("after", state({}), digest=None)))
    assert truths(gone)["f"] is UNKNOWN


def test_an_acknowledgement_counts_where_the_contract_says_that_it_suffices() -> None:
    assert judge_with("{over: acknowledged}", after={"acknowledgement": True}).verdict is (MATCH)


def test_offline_there_are_no_windows() -> None:
    assert judge_with(timeline=None, before={"as_of": at(99)}).verdict is MATCH


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_source_that_must_report_and_did_not_leaves_the_verdict_open(side: str) -> None:
    found = judged(BODY + "evidence: {db: {}, mail: {}}\n", ROWS, ROWS)
    assert finding(found, "frame").code == "evidence-missing"
    sides = {name: capture(name, part(name, state(ROWS))) for name in ("before", "after")}
    other = part(side, state({}, types=()), source="mail")
    sides[side] = capture(side, *sides[side].parts, other)
    assert judged(BODY, sides["before"], sides["after"]).verdict is INCONCLUSIVE
    assert judged(BODY + "evidence: {db: {}}\n", sides["before"], sides["after"]).verdict is MATCH


def test_by_default_every_source_of_the_sandbox_must_report() -> None:
    facts = TrialFacts("trial", sources=("db", "mail"))
    found = judged(BODY, ROWS, ROWS, facts=facts)
    assert found.verdict is INCONCLUSIVE
    assert {f.missing for f in found.findings if f.clause == "frame"} == {
        ("mail before",), ("mail after",)
    }  # fmt: skip
