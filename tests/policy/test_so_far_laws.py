"""The laws of a run that is not over, on generated contracts, runs and ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from statediff.contract.file import parse_contract
from statediff.kernel import course_of, prepare
from statediff.model.trace import NO_REPLY, NO_TRACE, Trace
from statediff.model.verdict import Decision, SoFar
from tests.histories import course, seen, told
from tests.judging import FACTS, MATCH, capture, contract, part, state
from tests.policy.test_during_laws import CONDITIONS, INVARIANTS, PATTERNS, STATES, quoted
from tests.policy.test_run_laws import bodies as conduct
from tests.policy.test_run_laws import logs

WANTED = (
    "create: item, count: {max: 1}", "create: user, count: {max: 1}", "any: grant, count: {max: 1}",
    "update: item, count: {max: 1}", "create: item, set: {n: 1}, count: {max: 0}",
    "update: item, where: 'it.owner.role == \"admin\"', count: {max: 1}",
    "create: item, that: 'sum(i.n for i in them) < 2', count: {max: 2}",
    "delete: item, count: {max: 1}",
    "update: item, set: {n: 2}, count: every, where: 'it.n == 1'",
)  # fmt: skip
ALLOWED = (
    "any: [item, user, grant]", "create: item", "update: item, fields: [n]", "any: grant",
    "update: item, fields: [t], set: {t: b}", "update: user", "delete: item", "create: user",
    "create: item, count: {max: 1}", "update: item, where: 'it.n == 1', fields: [n, owner]",
)  # fmt: skip
PRESENT = (
    *CONDITIONS, "any(i.n == 2 for i in created.item)", "count(u for u in updated.user) > 0",
    "any(i.owner.role == 'admin' for i in after.item)",
    "any(i.n != before.item[i.id].n for i in after.item)",
)  # fmt: skip
DURING = st.sampled_from([", during: run", ", during: run", ""])


@st.composite
def clauses(draw: st.DrawFn, name: str) -> dict[str, list[str]]:
    """Some clauses by their section, each with an id of its own; the first one can fail."""
    found: dict[str, list[str]] = {}
    for number in range(draw(st.integers(1, 3))):
        section, form = draw(st.sampled_from([
            ("forbid", "pattern"), ("forbid", "condition"), ("require", "pattern"),
            ("require", "condition"), ("allow", "pattern"), ("allow", "pattern"),
        ][: None if number else 4]))  # fmt: skip
        known = {"forbid": PATTERNS, "require": WANTED, "allow": ALLOWED}[section]
        if form == "condition":
            negated = "not " if section == "require" else ""
            body = f"that: {quoted(f'{negated}({draw(st.sampled_from(PRESENT))})')}"
        else:
            body = draw(st.sampled_from(known))
        during = "" if section == "allow" else draw(DURING)
        found.setdefault(section, []).append(f"{{id: {name}{number}, {body}{during}}}")
    return found


def written(found: dict[str, list[str]], indent: str = "") -> str:
    return "".join(
        f"{indent}{section}:\n" + "".join(f"{indent}  - {each}\n" for each in each_of)
        for section, each_of in found.items()
    )


@st.composite
def worlds(draw: st.DrawFn) -> str:
    """A contract about states: closed or open, with alternatives or without, history or not."""
    body = written(draw(clauses("c")))
    if draw(st.booleans()):
        body += "evidence: {db: {history: required}}\n"
    if draw(st.integers(0, 3)) == 0:
        branches = "".join(
            f"  {name}:\n" + written(draw(clauses("b")), "    ") for name in ("one", "two")
        )
        body += f"any_of:\n{branches}"
    if draw(st.integers(0, 3)) == 0:
        body += f"steps: [{{id: s0, always: {quoted(draw(st.sampled_from(INVARIANTS)))}}}]\n"
    if draw(st.integers(0, 3)) == 0:
        body += "steps: [{id: s0, on: create item, before: create user}]\n" * ("steps:" not in body)
    return body + ("frame: {open: the law}\n" if draw(st.booleans()) else "")


RUNS = st.lists(STATES, min_size=2, max_size=4)


def so_far(
    body: str, states: list[Any], trace: Trace = NO_TRACE, gap: str | None = "nobody looked"
) -> SoFar:
    """How the run stands in the last of these states; without a gap with all of its history."""
    first, now = state(states[0]), state(states[-1])
    within = [state(each) for each in states[1:]] if gap is None else []
    here = told(capture("after", part("after", now)), ("db", seen("db", within, gap)))
    file = parse_contract(contract(body).encode(), "c.yaml")
    prepared = prepare(file, capture("before", part("before", first)), facts=FACTS)
    found = prepared.so_far(here, trace=trace)
    assert prepared.so_far(here, trace=trace).decision is found.decision
    assert not found.is_lost or found.decision is Decision.DENY
    assert found.finding is not None or found.held or found.decision is Decision.ALLOW
    return found


@st.composite
def ends(draw: st.DrawFn, states: list[Any]) -> list[Any]:
    """The states that the run goes on to; often it undoes what it did."""
    known = st.sampled_from(states)
    return draw(st.lists(st.one_of(known, known, STATES), min_size=1, max_size=3))


@given(worlds(), RUNS, st.data())
def test_a_run_that_is_lost_never_ends_in_a_match(
    body: str, states: list[Any], data: st.DataObject
) -> None:
    gap = data.draw(st.sampled_from([None, None, "nobody looked"]))
    found = so_far(body, states, gap=gap)
    event(f"lost: {found.is_lost}, history: {gap is None}")
    if not found.is_lost:
        return
    whole = [*states, *data.draw(ends(states))]
    assert course(body, whole[0], whole[1:-1], whole[-1]).judgement.verdict is not MATCH
    assert so_far(body, whole, gap=None).is_lost


@given(conduct(), RUNS, logs(), st.data())
def test_calls_that_lose_a_run_lose_it_for_good(
    body: str, states: list[Any], trace: Trace, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(trace.actions)))
    prefix = replace(trace, actions=trace.actions[:number], turns=heard(trace, number, data))
    whole = [*states, *data.draw(ends(states))]
    gap = data.draw(st.sampled_from([None, "nobody looked"]))
    found = so_far(body, states, prefix, gap)
    event(f"lost: {found.is_lost}")
    if found.is_lost:
        done = course(body, whole[0], whole[1:-1], whole[-1], trace=trace)
        assert done.judgement.verdict is not MATCH


def heard(trace: Trace, number: int, data: st.DataObject) -> Any:
    """The turns that were begun by then; nobody has heard a reply to the last message yet."""
    if trace.turns is None:
        return None
    last = data.draw(st.booleans())
    begun = [
        t for t in trace.turns if t.calls_before < number or (last and t.calls_before == number)
    ]
    if begun and (len(begun) == len(trace.turns) or data.draw(st.booleans())):
        begun[-1] = replace(begun[-1], reply=NO_REPLY)
    return tuple(begun)


@given(worlds(), RUNS)
def test_a_run_that_ends_in_a_match_was_lost_at_no_time(body: str, states: list[Any]) -> None:
    if course(body, states[0], states[1:-1], states[-1]).judgement.verdict is not MATCH:
        return
    for number in range(1, len(states) + 1):
        assert not so_far(body, states[:number], gap=None).is_lost
    assert so_far(body, states, gap=None).is_right


@given(worlds(), RUNS)
def test_a_bundle_says_of_each_moment_what_the_run_so_far_said_then(
    body: str, states: list[Any]
) -> None:
    """The bundle may lack what a moment is judged by; then it says nothing at all."""
    body = "".join(line for line in body.splitlines(True) if not line.startswith("steps:"))
    moments = course_of(course(body, states[0], states[1:-1], states[-1]).bundle)
    event(f"moments: {len(moments)}")
    assert len(moments) in (0, len(states) - 1, len(states) - 2)
    for moment in moments:
        then = so_far(body, states[: moment.number + 1], gap=None)
        assert (bool(moment.lost), moment.is_right) == (then.is_lost, then.is_right)
        assert moment.broken == then.broken
