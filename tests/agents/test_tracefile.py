"""A trace in a file: known by how it begins, and nobody's word until somebody vouches for it."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from statediff.agents.handover import SELF_RECORDED
from statediff.agents.otel import IMPORTED
from statediff.agents.recorder import Recorder
from statediff.agents.tracefile import read_trace_file
from statediff.errors import InputError
from statediff.evidence.documents import trace_lines
from statediff.model.trace import Action, Trace
from statediff.model.values import Map, Unobserved
from tests.agents.test_otel import SESSION, protobuf

WHOLE = Trace((Action("call-1", "close", arguments=Map.of({"ticket": 7})),), True, "")


def recorded(path: Path, *, missed: bool = False) -> None:
    with Recorder(path, lambda: datetime(2026, 1, 1, tzinfo=UTC)) as recorder:
        recorder.end(recorder.begin("close", {"ticket": 7}), result=1)
        if missed:
            recorder.miss("the disk was full")


@pytest.mark.parametrize("form", ["lines", "recorder", "trial", "otlp", "indented", "protobuf"])
def test_every_form_is_read_and_only_a_voucher_makes_it_evidence(form: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    match form:
        case "lines":
            path.write_text('{"tool": "look", "arguments": {}}\n')
        case "recorder":
            recorded(path)
        case "trial":
            path.write_bytes(trace_lines(WHOLE))
        case "otlp":
            path.write_text(json.dumps(SESSION))
        case "indented":
            path.write_text(json.dumps(SESSION, indent=2))
        case _:
            path.write_bytes(protobuf(SESSION))
    own = read_trace_file(path)
    assert own.actions
    assert own.gap.startswith("forgeable: ")
    vouched = read_trace_file(path, is_vouched=True)
    assert vouched.gap is None
    assert vouched.actions == own.actions


def test_a_log_that_says_itself_that_it_lacks_calls_lacks_them_whoever_vouches(
    tmp_path: Path,
) -> None:
    recorded(tmp_path / "missed", missed=True)
    vouched = read_trace_file(tmp_path / "missed", is_vouched=True)
    assert vouched.gap == "unrecorded: the disk was full"
    (tmp_path / "trial").write_bytes(trace_lines(Trace(cause="nobody recorded it")))
    assert read_trace_file(tmp_path / "trial", is_vouched=True).gap is not None


@pytest.mark.parametrize("cause", [SELF_RECORDED, IMPORTED])
def test_an_agents_own_word_can_be_vouched_for_in_a_trials_form(cause: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(trace_lines(Trace(WHOLE.actions, False, cause, is_agent_influenced=True)))
    assert read_trace_file(path, is_vouched=True).gap is None


def test_a_line_that_does_not_say_the_arguments_is_no_call_without_any(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"tool": "close"}\n{"tool": "close", "arguments": {}}\n')
    untold, told = read_trace_file(path).actions
    assert isinstance(untold.arguments, Unobserved)
    assert told.arguments == Map(())


@pytest.mark.parametrize(
    "raw",
    [
        b'{"form": "statediff.calls/1"}x\n',
        b'{"tool": 1}\n',
        b"\xff\xfe",
        b"[1]",
        b'{"cause":"","is_agent_influenced":false,"is_complete":true,"turns":null}\n{"id":1}\n',
        b'{"cause":"","is_agent_influenced":false,"is_complete":true,"turns":null}\nnot json\n',
        b'{"cause":1,"is_agent_influenced":"x","is_complete":7,"turns":3}\n',
        b'{"cause":"","is_agent_influenced":"x","is_complete":7,"turns":null}\n',
        trace_lines(WHOLE).replace(b'"attempt":1', b'"attempt":"x"'),
        trace_lines(WHOLE).replace(b'"tool":"close"', b'"tool":[]'),
        trace_lines(replace(WHOLE, actions=WHOLE.actions * 2)),
        b'{"form":"statediff.calls/1"}\n{"begin":{"id":"a"}}\n',
    ],
)
def test_what_is_no_trace_is_refused_with_its_name(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "the-trace"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"the-trace|trace line"):
        read_trace_file(path)
    with pytest.raises(InputError, match="found nothing"):
        read_trace_file(tmp_path / "nowhere")
