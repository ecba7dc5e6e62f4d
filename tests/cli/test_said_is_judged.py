"""A trace that others recorded, an import and an answer are judged as they are."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from statediff.agents.recorder import Recorder
from statediff.agents.tracefile import read_trace_file
from statediff.capture.source import clock
from tests.agents.test_otel import spans, tool
from tests.cli.conftest import Call
from tests.test_said_is_judged import CONTRACT, SAID, files_with

STATES = {
    "before.json": {"item": [{"id": 1, "n": 1}]},
    "after.json": {"item": [{"id": 1, "n": 1}]},
    "contract.yaml": CONTRACT.replace("TOOL", "sql").replace("WHERE", "sql"),
}


@pytest.fixture
def states(tmp_path: Path) -> Path:
    for name, content in STATES.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return tmp_path


def lines(said: str, path: Path) -> None:
    path.write_text(json.dumps({"tool": "sql", "arguments": {"sql": said}}) + "\n")


def recorder(said: str, path: Path) -> None:
    with Recorder(path, clock) as log:
        log.end(log.begin("sql", {"sql": said}))


def otel(said: str, path: Path) -> None:
    told = {"gen_ai.tool.call.arguments": json.dumps({"sql": said})}
    path.write_text(json.dumps(spans(tool(1, "sql", "a", told=told))))


@pytest.mark.parametrize("write", [lines, recorder, otel])
@pytest.mark.parametrize("said", SAID)
def test_a_trace_in_a_file_is_judged_as_it_is(
    statediff: Call, states: Path, said: str, write: Callable[[str, Path], None]
) -> None:
    write(said, states / "given")
    given = ("--before", "before.json", "--after", "after.json", "--trace", "given")
    done = statediff("judge", "contract.yaml", *given, "--out", "kept")
    assert done.code == 1, done.err
    assert done.out.startswith("DIVERGE")
    assert said not in done.out
    found = files_with(said, states)
    found.pop("given", None)  # what was given to be judged
    assert found == {"kept.undisclosed.json": 0o600}
    assert statediff("replay", "kept").out.startswith("DIVERGE")
    # The same trial is the same, byte for byte.
    assert statediff("judge", "contract.yaml", *given, "--out", "again").code == 1
    for name in ("kept/manifest.json", "kept.undisclosed.json"):
        again = states / name.replace("kept", "again")
        assert again.read_bytes() == (states / name).read_bytes()


def test_an_imported_trace_says_what_the_spans_said(statediff: Call, states: Path) -> None:
    otel(SAID[0], states / "spans.json")
    assert statediff("lab", "import", "otel", "spans.json", "--out", "imported.jsonl").code == 0
    (call,) = read_trace_file(states / "imported.jsonl").actions
    assert call.arguments.get("sql") == SAID[0]  # type: ignore[union-attr]
    assert stat.S_IMODE((states / "imported.jsonl").stat().st_mode) == 0o600


def test_an_answer_is_judged_as_it_was_given(statediff: Call, states: Path) -> None:
    (states / "contract.yaml").write_text(
        "contract: test/quiet\nversion: 1.0.0\nowner: tests\nintent: Say nothing.\nnoop: true\n"
        'answer:\n  schema: {note: text}\n  claims:\n    - not contains(answer.note, "rm -rf")\n'
    )
    said = "token= rm -rf DIR; password=DIR-7-of-all"
    (states / "answer.json").write_text(json.dumps({"note": said}))
    given = ("--before", "before.json", "--after", "after.json", "--answer", "answer.json")
    done = statediff("judge", "contract.yaml", *given, "--out", "kept")
    assert (done.code, "DIR-7" in done.out) == (1, False), done
    (states / "answer.json").unlink()
    assert files_with(said, states) == {"kept.undisclosed.json": 0o600}
    assert statediff("replay", "kept").code == 1
