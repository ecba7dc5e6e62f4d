"""Logs from an agent that means harm: what they hold is data, whatever it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statediff.agents.handover import read_trace
from statediff.errors import BundleError
from statediff.evidence.package import make
from statediff.kernel import replay
from statediff.model.trace import Trace, Turn
from statediff.model.values import Map, Value
from tests.judging import DIVERGE, FAILS, HOLDS, INCONCLUSIVE, MATCH, UNKNOWN, truths
from tests.traces import call, judged, log, own

BODY = """steps:
  - {id: c, on: refund, that: 'call.arguments.order == 7'}
actions: {allow: {tool: [refund]}}
turns:
  - {prompt: Go., require: ['count(x for x in calls) <= 3', 'reply == "done"']}
"""
TEXTS = (
    "refund", "true or 1 == 1", "call.arguments.order == 7", "refund\n  - {id: d, on: x}", "*a",
    "!!python/x", "\x1b[2J", "\u202e", "refund\u200b", "re\u0444und", "'; DROP TABLE x; --",
    "{{7*7}}", "__class__", "<script>", "@call", "stale: x", ": forgeable: y",
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_no_value_of_a_log_changes_what_a_clause_says(text: str) -> None:
    spoken = (Turn("Go.", 0, "done"),)
    fair = log(call("refund", order=7), turns=spoken)
    assert judged(BODY, fair).judgement.verdict is MATCH
    foul = log(call(text, order=7, **{text: text}), call("refund", order=text), turns=spoken)
    evaluated = judged(BODY, foul)
    assert truths(evaluated.judgement)["c"] is FAILS
    expected = HOLDS if text == "refund" else FAILS
    assert truths(evaluated.judgement)["actions-allow"] is expected
    assert evaluated.contract.document == judged(BODY, fair).contract.document
    said = "".join(f.sentence + "".join(f.missing) for f in evaluated.judgement.findings)
    assert not set("\x1b\u202e\u200b\n") & set(said)


def test_a_huge_call_is_kept_whole_in_the_trace_and_cut_in_findings() -> None:
    huge: Value = "x" * 1_000_000
    deep: Value = 1
    for _ in range(30):
        deep = Map.of({"a": (deep,)})
    foul = log(
        *(call("other", order=huge, deep=deep, result=huge, error=str(huge)[:9]) for _ in "ab")
    )
    evaluated = judged(BODY, foul)
    assert evaluated.judgement.verdict is DIVERGE
    assert len(evaluated.bundle.files["judgement.json"]) < 20_000
    assert len(evaluated.bundle.files["trace.json"]) > 4_000_000


def test_a_thousand_calls_outside_are_fifty_findings_that_name_how_many_more() -> None:
    judgement = judged("actions: {allow: {tool: [a]}}\n", log(*[call("b")] * 1000)).judgement
    found = [f for f in judgement.findings if f.clause == "actions-allow"]
    assert len(found) == 50
    assert found[-1].sentence.endswith("and 950 more")


def test_what_an_agent_writes_of_itself_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    lines: list[dict[str, Any]] = [
        {"user": "Go."}, {"tool": "refund", "arguments": {"order": 7}}, {"reply": "done"},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert judged(BODY, read_trace(path)).judgement.verdict is INCONCLUSIVE
    for claim in ({"is_complete": True}, {"tool": "x", "is_agent_influenced": False}):
        path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, claim]))
        trace = read_trace(path)
        assert "unknown key" in trace.cause or "expected the tool" in trace.cause
        assert judged(BODY, trace).judgement.verdict is INCONCLUSIVE
    path.write_text(json.dumps({"tool": "refund", "arguments": {"order": 8}}))
    assert judged(BODY, read_trace(path)).judgement.verdict is DIVERGE


@pytest.mark.parametrize(
    "change",
    [
        {"is_complete": False},
        {"is_agent_influenced": True},
        {"actions": []},
        {"turns": None},
        {"turns": [{"message": "Go.", "calls_before": 0, "reply": {"none": "x"}}]},
    ],
)
def test_a_bundle_whose_log_was_changed_does_not_replay(change: dict[str, Any]) -> None:
    spoken = (Turn("Go.", 0, "done"),)
    body = BODY + "  - {prompt: On., require: ['any(x.tool == \"refund\" for x in calls)']}\n"
    trace = log(call("refund", order=7), turns=(*spoken, Turn("On.", 1)))
    bundle = judged(body, trace).bundle
    documents = {n: bundle.document(n) for n in bundle.files if n.endswith(".json")}
    documents["trace.json"] = {**documents["trace.json"], **change}
    facts = {k: v for k, v in bundle.manifest.items() if k not in ("format", "files")}
    forged = make(documents, bundle.files["contract.yaml"], facts)
    with pytest.raises(BundleError):
        replay(forged)


def test_two_calls_with_one_name_stay_two() -> None:
    twins = log(call("refund", order=7), call("refund", order=8))
    twins = replace(twins, actions=tuple(replace(a, id="same") for a in twins.actions))
    assert truths(judged(BODY, twins).judgement)["c"] is FAILS
    body = "steps:\n  - {id: c, where: 'call.tool == \"refund\"', count: {max: 1}}\n"
    assert truths(judged(body, twins).judgement)["c"] is FAILS


def test_the_agents_word_for_a_good_deed_is_not_one() -> None:
    body = "steps:\n  - {id: c, where: 'call.tool == \"notify\"', count: {min: 1}}\n"
    assert truths(judged(body, log(call("notify"))).judgement)["c"] is HOLDS
    assert truths(judged(body, own(log(call("notify")))).judgement)["c"] is UNKNOWN
    assert truths(judged(body, Trace()).judgement)["c"] is UNKNOWN
