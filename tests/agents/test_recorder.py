"""The recorder: what a harness writes down of a run's calls, and what of it survives."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from statediff.agents.recorder import MAX_VALUE_BYTES, Recorder, read_calls, recording
from statediff.errors import InputError, StorageError
from statediff.evidence.canonical import write
from statediff.evidence.documents import trace_document, trace_from
from statediff.model.trace import MAX_EXCERPT, Action, ActionClass, Excerpt, Mark, NoAnswer, Trace
from statediff.model.values import Map, Unobserved

START = datetime(2026, 3, 2, 10, tzinfo=UTC)


def ticking() -> Callable[[], datetime]:
    seconds = itertools.count()
    return lambda: START + timedelta(seconds=next(seconds))


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "calls.jsonl", ticking())


def test_a_call_is_told_with_all_that_was_known_of_it(recorder: Recorder) -> None:
    outer = recorder.begin("plan", {})
    call = recorder.begin(
        "refund", {"order": 1009}, parent=outer, context="the tools", messages="I refund it."
    )
    recorder.end(
        call,
        result={"refund": 7},
        class_=ActionClass.CONDITIONAL_UPDATE,
        transactions=[Mark("shop-db", "41"), Mark("outbox")],
    )
    recorder.end(outer, transactions=[])
    recorder.close()
    trace = recorder.trace()
    assert trace.gap is None
    first, second = trace.actions
    assert second == Action(
        "call-2",
        "refund",
        action_class=ActionClass.CONDITIONAL_UPDATE,
        arguments=Map.of({"order": 1009}),
        result=Map.of({"refund": 7}),
        error=None,
        principal="agent",
        attempt=1,
        started_at=START + timedelta(seconds=1),
        finished_at=START + timedelta(seconds=2),
        effects=None,
        parent="call-1",
        transactions=(Mark("shop-db", "41"), Mark("outbox")),
        context=Excerpt.of("the tools"),
        messages=Excerpt.of("I refund it."),
    )
    assert first.transactions == ()
    assert trace_from(trace_document(trace)) == trace


def test_a_trace_without_what_is_new_is_written_as_ever() -> None:
    document = trace_document(Trace((Action("call-1", "t"),)))
    assert set(document["actions"][0]) == {
        "id",
        "tool",
        "class",
        "arguments",
        "result",
        "error",
        "principal",
        "attempt",
        "started_at",
        "finished_at",
    }


def test_the_same_calls_leave_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Recorder(tmp_path / name, ticking()) as recorder:
            recorder.end(recorder.begin("t", {"b": 1, "a": 2}), result=[1])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_attempts_are_counted_until_one_succeeds(recorder: Recorder) -> None:
    for error in ("timeout", "timeout", None, None):
        recorder.end(recorder.begin("refund", {"order": 1}), error=error)
    recorder.end(recorder.begin("refund", {"order": 2}))
    recorder.close()
    assert [a.attempt for a in recorder.trace().actions] == [1, 2, 3, 1, 1]


def test_turns_and_replies_stand_between_the_calls(recorder: Recorder) -> None:
    recorder.user("refund it")
    recorder.end(recorder.begin("refund", {}))
    recorder.reply({"done": True})
    recorder.user("thanks")
    recorder.close()
    turns = recorder.trace().turns
    assert turns is not None
    assert [(t.message, t.calls_before) for t in turns] == [("refund it", 0), ("thanks", 1)]
    assert turns[0].reply == Map.of({"done": True})
    assert isinstance(turns[1].reply, NoAnswer)


@pytest.mark.parametrize(
    "value", ["x" * MAX_VALUE_BYTES, float("nan"), {"a": {1, 2}}, "\ud800", {1: object()}]
)
def test_what_cannot_be_kept_is_unobserved_and_never_cut(recorder: Recorder, value: object) -> None:
    recorder.end(recorder.begin("t", {"v": value}), result=value)
    recorder.close()
    (action,) = recorder.trace().actions
    assert isinstance(action.arguments, Unobserved)
    assert isinstance(action.result, Unobserved)


def test_arguments_that_are_no_object_are_kept_as_they_came(recorder: Recorder) -> None:
    recorder.end(recorder.begin("t", "{broken"), error="not JSON")
    recorder.close()
    assert recorder.trace().actions[0].arguments == Map.of({"unparsed": "{broken"})


def test_hostile_names_and_errors_are_bounded_and_spelled_out(recorder: Recorder) -> None:
    recorder.end(recorder.begin("\x1b[2J\u202e\ud800" * 500), error="\udfff" * 9000)
    recorder.end(recorder.begin(""), error="")
    recorder.close()
    first, second = recorder.trace().actions
    assert "\x1b" not in first.tool
    assert len(first.error or "") == 2000
    assert second.tool == "(no name)"


def test_a_text_offered_is_kept_by_its_digest_and_beginning() -> None:
    excerpt = Excerpt.of("ä" * 10_000 + "\ud800")
    assert (excerpt.characters, len(excerpt.beginning)) == (10_001, MAX_EXCERPT)
    assert excerpt.digest != Excerpt.of("ä" * 10_000).digest


def test_a_log_that_was_not_closed_is_incomplete(recorder: Recorder) -> None:
    recorder.end(recorder.begin("a"))
    recorder.begin("b")
    assert "stopped" in (recorder.trace().gap or "")
    recorder.close()
    trace = recorder.trace()
    assert "call-2: the call had not ended" in (trace.gap or "")
    assert trace.actions[1].error is not None


def test_what_went_past_the_recorder_makes_the_log_incomplete(recorder: Recorder) -> None:
    recorder.miss("the database was written past the tools")
    recorder.close()
    assert "past the tools" in (recorder.trace().gap or "")


def test_a_call_after_the_end_is_not_hidden(recorder: Recorder) -> None:
    recorder.close()
    call = recorder.begin("late")
    recorder.end(call)
    assert "after the recorder was closed" in (recorder.trace().gap or "")


def test_ending_a_call_twice_is_an_error(recorder: Recorder) -> None:
    call = recorder.begin("t")
    recorder.end(call)
    with pytest.raises(KeyError):
        recorder.end(call)


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("evidence")
    with pytest.raises(StorageError, match="never written over"):
        Recorder(tmp_path / "calls", ticking())


def test_threads_share_a_recorder(recorder: Recorder) -> None:
    def work(number: int) -> None:
        for step in range(50):
            call = recorder.begin("t", {"thread": number, "step": step})
            recorder.end(call, result=step)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    trace = recorder.trace()
    assert trace.gap is None
    assert [a.id for a in trace.actions] == [f"call-{n}" for n in range(1, 201)]
    assert all(
        isinstance(a.arguments, Map) and a.arguments.get("step") == a.result for a in trace.actions
    )


def test_a_killed_process_loses_nothing_that_had_begun(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, time\n"
        "from datetime import UTC, datetime\n"
        "from statediff.agents.recorder import Recorder\n"
        "r = Recorder(pathlib.Path(sys.argv[1]), lambda: datetime.now(UTC))\n"
        "[r.end(r.begin('t', {'n': n})) for n in range(20)]\n"
        "r.begin('last')\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    log = tmp_path / "calls"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(log)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGKILL)
    trace = read_calls(log)
    assert len(trace.actions) == 21
    assert trace.actions[-1].tool == "last"
    assert "stopped" in (trace.gap or "")


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_damaged_line_ends_the_log(recorder: Recorder, tmp_path: Path, cut: int) -> None:
    for number in range(3):
        recorder.end(recorder.begin("t", {"n": number}))
    recorder.close()
    log = tmp_path / "calls.jsonl"
    log.write_bytes(log.read_bytes()[:-cut])
    trace = read_calls(log)
    assert trace.gap is not None
    assert [a.tool for a in trace.actions] == ["t"] * (2 if cut == 200 else 3)


def _replace(log: Path) -> None:
    log.unlink()
    log.write_bytes(write({"form": "statediff.calls/1"}) + b"\n")


@pytest.mark.parametrize(
    "harm",
    [
        lambda log: os.truncate(log, 0),
        lambda log: os.truncate(log, 30),
        lambda log: log.write_bytes(log.read_bytes().replace(b"refund", b"search")),
        lambda log: log.unlink(),
        _replace,
    ],
    ids=["emptied", "cut", "edited", "removed", "replaced"],
)
def test_what_a_program_does_to_the_file_removes_no_call(
    recorder: Recorder, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    log = tmp_path / "calls.jsonl"
    recorder.end(recorder.begin("refund", {"order": 7}))
    harm(log)
    recorder.end(recorder.begin("late"))
    recorder.close()
    for trace in (recorder.trace(), read_calls(log)):
        assert [action.tool for action in trace.actions] == ["refund", "late"]
        assert "by a program that can write it" in (trace.gap or "")


def test_a_recorder_without_a_file_has_nothing_to_change_and_tells_the_same(tmp_path: Path) -> None:
    traces = []
    for path in (None, tmp_path / "calls"):
        with Recorder(path, ticking()) as recorder:
            recorder.end(recorder.begin("t", {"a": 1}), result=[2])
        traces.append(recorder.trace())
    assert traces[0] == traces[1]
    assert traces[0].gap is None


def test_a_flood_of_values_hides_no_later_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statediff.agents.recorder.MAX_LOG_BYTES", 10_000)
    with recording(ticking()) as recorder:
        for _ in range(20):
            recorder.end(recorder.begin("noise", {"x": "y" * 1000}))
        recorder.end(recorder.begin("delete", {"order": 7}))
    *_, last = recorder.trace().actions
    assert last.tool == "delete"
    assert isinstance(last.arguments, Unobserved)
    assert sum(len(line) for line in recorder._lines) < 20_000  # the rest is what names take


def test_lines_out_of_nowhere_are_damage(recorder: Recorder, tmp_path: Path) -> None:
    recorder.close()
    log = tmp_path / "calls.jsonl"
    log.write_bytes(log.read_bytes() + write({"end": "call-9"}) + b"\n")
    assert "damaged" in (read_calls(log).gap or "")


def test_another_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"form":"other"}\n')
    with pytest.raises(InputError, match="no log of calls"):
        read_calls(tmp_path / "x")
    with pytest.raises(InputError, match="cannot be read"):
        read_calls(tmp_path / "y")
