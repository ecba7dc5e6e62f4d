import os
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from statediff.agents.handover import MAX_ANSWER_BYTES, read_answer, read_trace
from statediff.model.trace import ActionClass, NoAnswer
from statediff.model.values import Map


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answer.json"


def refusal(path: Path) -> str:
    answer = read_answer(path)
    assert isinstance(answer, NoAnswer)
    return answer.cause


def test_an_answer_keeps_its_types(path):
    path.write_text('{"cents": 3900, "rate": 1.50, "done": true, "note": null, "ids": [1, "1"]}')
    assert read_answer(path) == Map.of(
        {
            "cents": 3900,
            "rate": Decimal("1.50"),
            "done": True,
            "note": None,
            "ids": (1, "1"),
        }
    )


def test_no_file_is_no_answer(path):
    assert refusal(path) == "the agent wrote no answer file"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": 1, "a": 2}', "stands twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b'"\\ud800"', "half of a surrogate pair"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b"", "not JSON"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b"\xef\xbb\xbf1", "not JSON"),
        (b"1e999999999", "out of range"),
        (b"9" * 5000, "more than 1000 digits"),
        (b"[" * 33 + b"]" * 33, "nested deeper than 32"),
        (b"[" * 200_000, "nested deeper than 32"),
        (b'"' + b"x" * MAX_ANSWER_BYTES + b'"', "more than the"),
    ],
)
def test_an_answer_that_is_ambiguous_or_absurd_is_no_answer(path, content, reason):
    path.write_bytes(content)
    assert reason in refusal(path)


def test_a_link_is_not_followed(path, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('"the evaluator\'s"')
    path.symlink_to(secret)
    assert refusal(path) == "answer.json is a symbolic link; expected a regular file"


def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    began = time.monotonic()
    assert refusal(path) == "answer.json is a pipe; expected a regular file"
    assert time.monotonic() - began < 1


def test_a_directory_is_not_an_answer(path):
    path.mkdir()
    assert refusal(path) == "answer.json is a directory; expected a regular file"


def test_a_device_is_not_read(path):
    try:
        os.mknod(path, 0o20600, os.makedev(1, 5))  # /dev/zero never ends
    except PermissionError:
        pytest.skip("making a device needs root")
    assert "expected a regular file" in refusal(path)


def test_a_trace_is_read_line_by_line(path):
    path.write_text(
        '{"tool": "refund", "class": "conditional-update", "arguments": {"cents": 3900},'
        ' "attempt": 2, "principal": "billing", "error": "timeout",'
        ' "started_at": "2026-03-16T11:30:00+01:00", "finished_at": "2026-03-16T10:30:01Z"}\n'
        "\n"
        '{"tool": "send", "result": {"queued": true}}\n'
    )
    trace = read_trace(path)
    assert trace.cause == "recorded by the agent itself"
    first, second = trace.actions
    assert (first.id, second.id) == ("call-1", "call-2")
    assert first.action_class is ActionClass.CONDITIONAL_UPDATE
    assert first.started_at == datetime(2026, 3, 16, 10, 30, tzinfo=UTC)
    assert (first.attempt, first.principal, first.error) == (2, "billing", "timeout")
    assert second.result == Map.of({"queued": True})
    assert second.action_class is ActionClass.UNKNOWN


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "trace line 2: not JSON"),
        ("[1]", "trace line 2: expected an object"),
        ('{"arguments": {}}', "trace line 2: expected the tool's name"),
        ('{"tool": "x", "arguments": []}', "trace line 2: expected an object under `arguments`"),
        ('{"tool": "x", "attempt": 0}', "trace line 2: expected a number from 1"),
        ('{"tool": "x", "attempt": true}', "trace line 2: expected a number from 1"),
        ('{"tool": "x", "class": "harmless"}', "trace line 2: `class` is one of"),
        ('{"tool": "x", "started_at": "2026-03-16T10:00:00"}', "has no zone"),
        ('{"tool": "x", "started_at": "soon"}', "not an ISO 8601 instant"),
        ('{"tool": "x", "verdict": "MATCH"}', "unknown key 'verdict'"),
        ('{"tool": "x", "tool": "y"}', "stands twice"),
    ],
)
def test_a_bad_line_ends_the_trace_and_is_named(path, line, reason):
    path.write_text('{"tool": "first"}\n' + line + '\n{"tool": "third"}\n')
    trace = read_trace(path)
    assert [action.tool for action in trace.actions] == ["first"]
    assert not trace.is_complete
    assert reason in trace.cause


def test_a_trace_tells_the_turns_of_a_conversation_apart(path):
    path.write_text(
        '{"tool": "warm_up"}\n{"user": "Close 7."}\n{"tool": "close"}\n{"reply": {"done": true}}\n'
        '{"user": "Thanks."}\n'
    )
    trace = read_trace(path)
    assert [a.tool for a in trace.actions] == ["warm_up", "close"]
    first, second = trace.turns
    assert (first.message, first.calls_before) == ("Close 7.", 1)
    assert first.reply == Map.of({"done": True})
    assert (second.message, second.calls_before) == ("Thanks.", 2)
    assert isinstance(second.reply, NoAnswer)
    assert trace.is_agent_influenced


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"user": 1}', "trace line 1: expected text under `user`"),
        ('{"reply": 1}', "trace line 1: a reply before the first message"),
        ('{"user": "a", "tool": "b"}', "trace line 1: unknown key 'user'"),
        ('{"user": "a", "reply": "b"}', "trace line 1: unknown key 'reply'"),
    ],
)
def test_a_line_is_a_call_or_a_message_or_a_reply(path, line, reason):
    path.write_text(line + "\n")
    assert reason in read_trace(path).cause


def test_no_trace_says_that_nothing_was_recorded(path):
    trace = read_trace(path)
    assert (trace.actions, trace.is_complete) == ((), False)
    assert trace.cause == "the agent's calls were not recorded"


def test_a_link_for_a_trace_is_refused(path):
    path.symlink_to("/etc/hostname")
    assert "symbolic link" in read_trace(path).cause
