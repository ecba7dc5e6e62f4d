"""A run writes beyond any memory: what is certain stands, and nothing else is concluded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statediff.kernel.trial as trial_stage
from statediff.capture.bounds import Bounds, bound_captures
from statediff.capture.feed import Seen, history_of, with_history
from statediff.capture.take import take
from statediff.contract.file import parse_contract
from statediff.kernel import Evaluated, evaluate, replay
from statediff.model.readings import Capture, Transaction
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.reports.line import trial_line
from statediff.reports.wording.worded import worded_judgement
from statediff.systems.tables.source import TablesSource
from statediff.workspace.inputs import offline_clock

HEAD = """\
contract: notes/tidy
version: 1.0.0
owner: notes
intent: Whatever the clauses below say, and nothing else.
"""
KEPT = "forbid:\n  - {id: kept, delete: user}\n"
RENAME = "require:\n  - {id: renamed, update: user, where: 'it.id == 2', set: {name: B}}\n"
LOGGED = "allow:\n  - {id: logged, create: log}\n"
TIGHT = Bounds(rows=3, bytes=60, key_bytes=40, most=(3, 40))


def captured(before: Any, after: Any) -> tuple[Capture, Capture]:
    one, two = json.dumps(before).encode(), json.dumps(after).encode()
    store = MemoryChunks()
    first = take([TablesSource("t", one, None, two)], store, offline_clock, None, "before")
    source = TablesSource("t", two, None, one, is_after=True)
    return first, take([source], store, offline_clock, first, "after")


def judged(body: str, before: Any, after: Any, bounds: Bounds | None = None) -> Evaluated:
    captures = captured(before, after)
    file = parse_contract((HEAD + body).encode(), "contract.yaml")
    with pytest.MonkeyPatch.context() as patch:
        if bounds is not None:
            cut = lambda one, two: bound_captures(one, two, bounds)  # noqa: E731
            patch.setattr(trial_stage, "bound_captures", cut)
        done = evaluate(file, *captures)
    assert replay(done.bundle) == done.judgement
    return done


BEFORE = {"user": [{"id": n, "name": f"u{n}"} for n in (1, 2, 3)], "log": [{"id": 0, "t": ""}]}


def after(users: int = 3, rows: int = 0, text: str = "x") -> dict[str, Any]:
    people = [{"id": n, "name": "B" if n == 2 else f"u{n}"} for n in range(1, users + 1)]
    return {"user": people, "log": [{"id": n, "t": text if n else ""} for n in range(rows + 1)]}


def test_within_the_bounds_nothing_is_another() -> None:
    captures = captured(BEFORE, after(rows=3))
    assert bound_captures(*captures) == captures
    assert all(a is b for a, b in zip(bound_captures(*captures), captures, strict=True))


@pytest.mark.parametrize("rows", [4, 50])
def test_a_forbidden_deletion_stands_whatever_else_is_written(rows: int) -> None:
    done = judged(KEPT + RENAME + LOGGED, BEFORE, after(users=2, rows=rows), TIGHT)
    assert done.judgement.verdict is Verdict.DIVERGE
    assert done.judgement.findings[0].clause == "kept"


def test_what_nobody_allowed_is_a_violation_and_its_count_is_in_the_cause() -> None:
    done = judged(KEPT + RENAME, BEFORE, after(rows=50), TIGHT)
    assert done.judgement.verdict is Verdict.DIVERGE
    assert len(done.judgement.deltas) == 4
    texts = str(done.bundle.document("judgement.json"))
    assert "50 created, 0 updated, 0 deleted), of which 3 are judged" in texts


def test_more_than_is_judged_of_what_is_allowed_is_no_match() -> None:
    allowed = KEPT + RENAME + LOGGED
    assert judged(allowed, BEFORE, after(rows=3), TIGHT).judgement.verdict is Verdict.MATCH
    assert judged(allowed, BEFORE, after(rows=4), TIGHT).judgement.verdict is Verdict.INCONCLUSIVE
    assert judged(allowed, BEFORE, after(rows=4)).judgement.verdict is Verdict.MATCH


def test_what_is_beyond_the_bounds_is_for_the_environment_to_answer() -> None:
    done = judged(KEPT + RENAME + LOGGED, BEFORE, after(rows=4), TIGHT)
    loose = [f for f in worded_judgement(done.bundle)["findings"] if f["truth"] == "UNKNOWN"]
    assert {finding["origin"] for finding in loose} == {"environment"}
    assert trial_line(done.bundle).endswith("(cause: environment)")


def test_a_table_that_the_run_made_has_bounds_too() -> None:
    made = {**after(), "spam": [{"id": n} for n in range(50)]}
    done = judged(KEPT + RENAME, BEFORE, made, TIGHT)
    assert done.judgement.verdict is Verdict.DIVERGE
    assert sum(delta.type == "spam" for delta in done.judgement.deltas) == 3


def test_texts_and_long_keys_count_for_the_bounds() -> None:
    names = [f"{n}{'k' * 300}" for n in range(9)]
    before = {"user": [{"id": "a"}], "log": []}
    kept = "noop: true\nforbid: [{id: kept, delete: user}]\n"
    wide = Bounds(rows=3, bytes=10_000, key_bytes=100, most=(3, 100))
    for logs, bounds, count in (
        ([{"id": name} for name in names], wide, 2),
        ([{"id": n, "t": "x" * 25} for n in range(9)], TIGHT, 2),
        ([{"id": f"{n}{'k' * 200}"} for n in range(3)], wide, 3),
    ):
        now = {"user": [{"id": "a"}], "log": logs}
        done = judged(kept, before, now, bounds)
        assert done.judgement.verdict is Verdict.DIVERGE
        assert len(done.judgement.deltas) == count


ROWS = st.dictionaries(st.integers(1, 9), st.sampled_from(["a", "b", "c" * 20]), max_size=9)


@pytest.mark.slow
@given(ROWS, ROWS, ROWS, ROWS, st.sampled_from([KEPT + RENAME, KEPT + LOGGED + RENAME]))
def test_no_bound_makes_a_match_or_changes_what_is_decided(
    users: dict[int, str], logs: dict[int, str], then: dict[int, str], after_logs: dict[int, str],
    body: str,
) -> None:  # fmt: skip
    def world(people: dict[int, str], lines: dict[int, str]) -> dict[str, Any]:
        return {
            "user": [{"id": 0, "name": ""}, *({"id": n, "name": t} for n, t in people.items())],
            "log": [{"id": 0, "t": ""}, *({"id": n, "t": t} for n, t in lines.items())],
        }

    one, two = world(users, logs), world(then, after_logs)
    full = judged(body, one, two).judgement.verdict
    cut = judged(body, one, two, TIGHT).judgement.verdict
    assert cut in (full, Verdict.INCONCLUSIVE)


def test_types_share_what_is_judged_of_all() -> None:
    bounds = Bounds(rows=3, most=(12, 10 * 2**20))
    body = (
        "noop: true\n" + KEPT + "allow: [{id: logged, create: log}, {id: filled, create: spam}]\n"
    )
    found = {}
    for spam in (0, 2, 50):
        made = {**after(rows=12), "spam": [{"id": n} for n in range(spam)]}
        done = judged(body, {**BEFORE, "spam": []}, made, bounds).judgement
        found[spam] = [sum(d.type == name for d in done.deltas) for name in ("log", "spam")]
    assert found == {0: [12, 0], 2: [12, 2], 50: [6, 6]}


def test_a_history_ends_in_the_state_that_is_judged() -> None:
    before, last = captured(BEFORE, after(rows=9))
    [part] = last.parts
    seen = Seen((Transaction("t/1", "t", "1", None, part.state),))
    whole = with_history(last, [history_of("t", seen, last, offline_clock)])
    _, cut = bound_captures(before, whole, TIGHT)
    [state] = [each.state for each in cut.parts]
    assert state is not part.state
    assert cut.history.transactions[-1].state is state
