"""Exports of OpenTelemetry's own SDK from an instrumented agent (fixtures/build_otel.py)."""

from dataclasses import replace
from pathlib import Path

import pytest

from statediff.agents.otel import read_otel
from statediff.model.trace import Trace
from statediff.model.values import Map, Unobserved
from statediff.model.verdict import Truth
from tests.histories import course
from tests.judging import item

FOLDER = Path(__file__).parents[2] / "fixtures" / "otel"
BODY = """\
allow: [{update: item}]
steps:
  - id: right-sum
    on: refund
    that: call.arguments.cents == 3900
"""


def exported(name: str) -> Trace:
    return read_otel(FOLDER / name)


@pytest.mark.parametrize("encoding", ["jsonl", "binpb"])
def test_an_exported_trace_tells_each_call_once_with_what_was_exported(encoding: str) -> None:
    trace = exported(f"told.{encoding}")
    refund, send = trace.actions
    assert (refund.tool, refund.arguments) == ("refund", Map.of({"order": 1009, "cents": 3900}))
    assert (refund.result, refund.error) == (Map.of({"refund": 807}), None)
    assert (send.tool, send.error) == ("send", "no route to the mail server")
    assert refund.started_at is not None
    assert refund.started_at <= refund.finished_at <= send.started_at
    assert trace.is_agent_influenced
    assert not trace.is_complete


def test_both_encodings_of_one_export_are_the_same_trace() -> None:
    assert exported("told.jsonl") == exported("told.binpb")


@pytest.mark.parametrize("encoding", ["jsonl", "binpb"])
def test_what_an_instrumentation_leaves_out_makes_a_clause_unknown(encoding: str) -> None:
    for name, expected in (("told", Truth.HOLDS), ("untold", Truth.UNKNOWN)):
        trace = replace(exported(f"{name}.{encoding}"), is_complete=True, is_agent_influenced=False)
        rows = {"item": [item(1)]}
        found = {f.clause: f for f in course(BODY, rows, [], rows, trace=trace).judgement.findings}
        assert found["right-sum"].truth is expected
    arguments = trace.actions[0].arguments
    assert isinstance(arguments, Unobserved)
    assert "the spans do not say the arguments" in " ".join(found["right-sum"].missing)
