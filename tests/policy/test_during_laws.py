"""The standing laws for clauses over the moments of a run, on generated runs and contracts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from statediff.kernel import replay
from statediff.model.codes import FindingCode
from statediff.model.explanation import BY_AGENT, by_run
from statediff.reports.wording.worded import worded_judgement
from tests.histories import course
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
    truths,
    user,
)
from tests.judging import run as ended

few = settings(max_examples=settings.default.max_examples // 3)
"""Each example judges several runs."""

STATES = st.fixed_dictionaries({
    "item": st.lists(
        st.builds(item, st.integers(1, 3), st.sampled_from([-1, 1, 2]), st.sampled_from("ab"),
                  st.sampled_from([None, 1, 2])),
        unique_by=lambda row: row["id"], max_size=3,
    ),
    "user": st.lists(
        st.builds(user, st.integers(1, 2), st.sampled_from(["user", "admin"])),
        unique_by=lambda row: row["id"], max_size=2,
    ),
    "grant": st.sampled_from([[], [{"user": 1, "item": 1}], [{"user": 1, "item": 2}]]),
})  # fmt: skip
RUNS = st.lists(STATES, min_size=2, max_size=5)

INVARIANTS = (
    "all(i.n > 0 for i in now.item)", "exists(now.user[1])", "count(i for i in now.item) <= 2",
    'not any(u.role == "admin" for u in now.user)', "unique(i.n for i in now.item)",
    "all(i.owner == null or i.owner != 2 for i in now.item)",
    "sum(i.n for i in now.item) >= 0 and count(u for u in now.user) <= count(g for g in now.grant)",
)  # fmt: skip
LASTING = (
    "create: item", "link: grant", "any: user", "any: [item, grant]", "create: item, set: {n: 1}",
    "create: user, where: 'it.role == \"admin\"'", "create: item, where: 'it.n == 2'",
    "unlink: grant", "delete: user", "create: item, count: {min: 2}",
    "create: item, that: 'sum(i.n for i in them) > 2'",
)  # fmt: skip
"""Patterns that one more moment between two others cannot make miss what they saw."""
PATTERNS = (
    *LASTING, "update: item", "update: item, fields: [n]", "update: user, set: {role: admin}",
    "delete: item, where: 'it.n == 2'", "update: item, from: {n: 1}",
    "update: item, where: 'it.owner.role == \"admin\"'", "link: item.owner",
)  # fmt: skip
CONDITIONS = (
    "any(i.n < 0 for i in after.item)", 'any(u.role == "admin" for u in after.user)',
    "exists(after.item[1]) and not exists(before.item[1])", "count(i for i in after.item) > 2",
)  # fmt: skip


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def always(expression: str) -> str:
    return f"steps:\n  - {{id: c, always: {quoted(expression)}}}\nframe: {{open: the law}}\n"


def forbid(clause: str) -> str:
    return f"forbid:\n  - {{id: c, {clause}, during: run}}\nframe: {{open: the law}}\n"


def expression(text: str) -> str:
    return forbid(f"that: {quoted(text)}")


ANY = st.one_of(
    st.sampled_from(INVARIANTS).map(always), st.sampled_from(PATTERNS).map(forbid),
    st.sampled_from(CONDITIONS).map(expression),
)  # fmt: skip
MONOTONE = st.one_of(
    st.sampled_from(INVARIANTS).map(always), st.sampled_from(LASTING).map(forbid),
    st.sampled_from(CONDITIONS).map(expression),
)  # fmt: skip


def over(body: str, states: list[Any], gap: str | None = None) -> Any:
    return truths(course(body, states[0], states[1:-1], states[-1], gap=gap).judgement)["c"]


@few
@given(ANY, RUNS)
def test_a_judged_run_replays_from_its_bundle(body: str, states: list[Any]) -> None:
    done = course(body, states[0], states[1:-1], states[-1])
    assert replay(done.bundle) == done.judgement


@few
@given(st.sampled_from(INVARIANTS), RUNS)
def test_an_invariant_over_a_run_is_its_conjunction_over_the_states(
    text: str, states: list[Any]
) -> None:
    each = {over(always(text), [state, state]) for state in states}
    whole = over(always(text), states)
    assert whole is (FAILS if FAILS in each else UNKNOWN if UNKNOWN in each else HOLDS)


@few
@given(MONOTONE, RUNS, STATES, st.data())
def test_one_more_moment_never_removes_a_violation(
    body: str, states: list[Any], more: Any, data: st.DataObject
) -> None:
    if over(body, states) is not FAILS:
        return
    place = data.draw(st.integers(1, len(states) - 1))
    assert over(body, [*states[:place], more, *states[place:]]) is FAILS


@few
@given(ANY, RUNS, st.data())
def test_what_a_partial_history_decides_every_completion_of_it_decides(
    body: str, states: list[Any], data: st.DataObject
) -> None:
    kept = [state for state in states[1:-1] if data.draw(st.booleans())]
    partial = over(body, [states[0], *kept, states[-1]], gap="the feed broke off")
    assert partial in (FAILS, UNKNOWN)
    if partial is FAILS:
        assert over(body, states) is FAILS


@few
@given(ANY, RUNS, st.data())
def test_what_is_decided_with_hidden_values_is_decided_so_with_all_of_them(
    body: str, states: list[Any], data: st.DataObject
) -> None:
    hidden = [
        {
            **state,
            "item": [
                {**row, "n": HIDDEN} if data.draw(st.booleans()) else row for row in state["item"]
            ],
        }
        for state in states
    ]
    partial = over(body, hidden)
    assert partial is UNKNOWN or partial is over(body, states)


ALLOWED = "allow:\n  - {any: [item, grant, user]}\n"
FREE = "allow:\n  - {any: [item, user]}\n  - {unlink: grant}\n"
CLAUSES = (
    "forbid:\n  - {id: c, any: user, during: run}\n",
    "forbid:\n  - {id: c, delete: item, during: run}\n",
    "steps:\n  - {id: c, always: 'all(i.n > 0 for i in now.item)'}\n",
    "steps:\n  - {id: c, on: create item, before: link grant}\n",
    "require:\n  - {id: c, create: item, count: {max: 2}, during: run}\n",
)
OPEN = "frame: {open: the law}\n"
REQUIRED = "evidence: {db: {history: required}}\nforbid: [{id: c, link: grant}]\n"
BODIES = (*(clause + ALLOWED for clause in CLAUSES), REQUIRED + FREE)


@few
@given(st.sampled_from(BODIES), RUNS)
def test_without_its_history_no_verdict_becomes_a_match(body: str, states: list[Any]) -> None:
    whole = course(body, states[0], states[1:-1], states[-1]).judgement.verdict
    without = ended(body, states[0], states[-1]).judgement.verdict
    assert without is not MATCH
    assert whole is not MATCH or judged(body, states[0], states[-1]).verdict is not whole
    cut = course(body, states[0], states[1:-1], states[-1], gap="cut").judgement.verdict
    assert cut is not MATCH


BROKEN = {
    "cut": False,
    by_run("its log was cut off"): True,
    f"the feed could not be read: {by_run('its file was exchanged')}": True,
    f"{BY_AGENT}: its transactions change more than 50000 rows in all": True,
}
"""Why a history ends → whether the run ended it."""


@few
@given(st.sampled_from([FREE, OPEN]), RUNS, st.sampled_from(sorted(BROKEN)), st.data())
def test_a_required_history_that_the_run_broke_is_a_violation(
    body: str, states: list[Any], gap: str, data: st.DataObject
) -> None:
    """Nothing that comes and goes can be hidden by it; the environment's gap stays a question."""
    kept = [state for state in states[1:-1] if data.draw(st.booleans())]
    done = course(REQUIRED + body, states[0], kept, states[-1], gap=gap)
    found = {each.code for each in done.judgement.findings if each.clause == "frame"}
    assert BROKEN[gap] == (FindingCode.HISTORY_BROKEN in found)
    assert done.judgement.verdict in ((DIVERGE,) if BROKEN[gap] else (DIVERGE, INCONCLUSIVE))
    if done.judgement.verdict is INCONCLUSIVE:
        worded = worded_judgement(done.bundle)["findings"]
        assert {each["origin"] for each in worded} <= {None, "environment"}
    assert replay(done.bundle) == done.judgement
