"""A trial turn by turn: calls, changes, gates, and what was right first or after a repair."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from statediff.kernel import Evaluated
from statediff.model.trace import Action, Mark, Trace, Turn
from statediff.reports.formats.turns import first_failed_turn, turn_lines
from statediff.reports.plain import dumps
from tests.histories import course
from tests.judging import at, item
from tests.traces import call, log

BODY = """\
forbid: [{delete: item}]
allow: [{update: item}]
turns:
  - {prompt: one, require: ["all(i.n == 1 for i in now.item)"]}
  - {prompt: two, require: ["all(i.n == 3 for i in now.item)"]}
"""


def rows(n: int) -> Any:
    return {"item": [item(1, n=n)]}


def made(second: float, *names: str, error: str | None = None) -> Action:
    marks = tuple(Mark("db", name) for name in names)
    times = {"started_at": at(second), "finished_at": at(second + 1)}
    return replace(call("set", error=error, to=7), transactions=marks, **times)


def judged(body: str = BODY, turns: tuple[Turn, ...] | None = None) -> Evaluated:
    trace: Trace = log(
        made(11, "t1"), made(13, error="timeout"), made(15, "t2"),
        replace(made(17), tool="look"), turns=turns,
    )  # fmt: skip
    return course(body, rows(0), [rows(5)], rows(3), trace=trace)


def test_each_turn_has_its_calls_changes_gate_and_repair() -> None:
    found = judged(turns=(Turn("one", 0, "done"), Turn("two", 1)))
    assert first_failed_turn(found.bundle) == 1
    first, second = turn_lines(found.bundle)
    assert [c["id"] for c in first["calls"]] == ["call-1"]
    assert (first["gate"], first["reply"], first["changes"]) == ("FAILS", "done", [])
    assert [c["id"] for c in second["calls"]] == ["call-2", "call-3", "call-4"]
    assert second["calls"][0]["arguments"] == {"to": 7}
    assert (second["gate"], second["reply"]) == ("HOLDS", None)
    assert second["changes"] == ["item[1].n"]
    assert second["repair"] == {
        "tools": 2, "first_attempt": 1, "after_repair": 2, "failed_calls": 1, "window": None,
    }  # fmt: skip
    assert all(json.loads(dumps(line)) for line in (first, second))


def test_a_log_without_turns_is_one_turn_without_a_gate() -> None:
    body = "forbid: [{delete: item}]\nallow: [{update: item}]\n"
    (only,) = turn_lines(judged(body).bundle)
    assert first_failed_turn(judged(body).bundle) is None
    assert (only["turn"], only["message"], only["gate"]) == (1, None, None)
    assert len(only["calls"]) == 4


def test_a_repair_counts_within_the_attempts_that_the_contract_grants() -> None:
    tried = [call("a", error="no"), call("a", error="no"), call("a"), call("b", error="no")]
    body = "forbid: [{delete: item}]\nallow: [{update: item}]\nactions: {count: %d}\n"
    found = {}
    for window in (1, 2, 3):
        told = course(body % window, rows(0), [], rows(0), trace=log(*tried))
        (line,) = turn_lines(told.bundle)
        assert line["repair"]["window"] == window
        found[window] = (line["repair"]["first_attempt"], line["repair"]["after_repair"])
    assert found == {1: (0, 0), 2: (0, 0), 3: (0, 1)}
