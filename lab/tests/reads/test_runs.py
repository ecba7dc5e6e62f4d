"""Recorded runs are read strictly, and judged from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.reads.gate import CallKind, ReadOutcome
from statediff_lab.reads.runs import UNRECORDED, run_of

from statediff.cli.main import run
from statediff.errors import InputError
from statediff.model.strictjson import read_json

NUMBERS = {"q001": 0}


def read(line: Any) -> Any:
    return run_of(read_json(json.dumps(line).encode(), "runs, line 1"), "runs, line 1", NUMBERS)


def test_a_line_is_a_run() -> None:
    case = read(
        {"question": "q001", "answer": {"exists": True},
         "calls": [{"tool": "search", "query": "x", "found": ["a"]},
                   {"tool": "fetch", "id": "a", "outcome": "blocked", "actor": "eve"},
                   {"tool": "send_email", "to": "anybody"}]}
    )  # fmt: skip
    assert [(call.kind, call.outcome) for call in case.trace.calls] == [
        (CallKind.SEARCH, ReadOutcome.DELIVERED),
        (CallKind.FETCH, ReadOutcome.BLOCKED),
        (CallKind.OTHER, ReadOutcome.DELIVERED),
    ]
    assert (case.answer, case.trace.gap) == ({"exists": True}, None)


def test_a_line_without_calls_is_an_unrecorded_run() -> None:
    assert read({"question": "q001", "answer": None}).trace.gap == UNRECORDED


@pytest.mark.parametrize(
    "line",
    [
        [], {}, {"question": "q999"}, {"question": 1}, {"question": "q001", "score": 1},
        {"question": "q001", "answer": "yes"}, {"question": "q001", "calls": {}},
        {"question": "q001", "calls": [1]}, {"question": "q001", "calls": [{}]},
        {"question": "q001", "calls": [{"tool": "fetch"}]},
        {"question": "q001", "calls": [{"tool": "fetch", "id": "a", "outcome": "fine"}]},
        {"question": "q001", "calls": [{"tool": "fetch", "id": "a", "allowed": True}]},
        {"question": "q001", "calls": [{"tool": "search", "found": "a"}]},
        {"question": "q001", "calls": [{"tool": "search", "as_of": "soon"}]},
        {"question": "q001", "gap": 1},
    ],
)  # fmt: skip
def test_what_is_no_run_is_refused_with_its_line(line: Any) -> None:
    with pytest.raises(InputError, match="line 1"):
        read(line)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reads", "check", "starter"]) == 0
    assert "starter: ok" in capsys.readouterr().out
    assert run(["reads", "world", "starter", "--out", str(tmp_path / "mine")]) == 0
    capsys.readouterr()
    assert run(["reads", "questions", str(tmp_path / "mine"), "--truth"]) == 0
    asked = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run(["reads", "questions", "starter"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [q["text"] for q in shown] == [q["text"] for q in asked]
    assert all("truth" not in question and "bucket" not in question for question in shown)
    [absent, *_] = [q for q in asked if q["bucket"] == "absent"]
    runs = [
        {"question": absent["id"], "answer": {"exists": False},
         "calls": [{"tool": "fetch", "id": name} for name in absent["truth"]["space"]]},
        {"question": absent["id"], "answer": {"exists": False}, "calls": []},
        {"question": absent["id"], "answer": {"exists": False}},
    ]  # fmt: skip
    for rows, code in ((runs[:1], 0), (runs, 1), (runs[2:], 3), ([], 3)):
        file = tmp_path / "runs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert run(["reads", "judge", "starter", str(file), "--json"]) == code
        *cards, total = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert total["runs"] == len(cards) == len(rows)
    file.write_text("".join(json.dumps(row) + "\n" for row in runs))
    assert run(["reads", "judge", "starter", str(file)]) == 1
    printed = capsys.readouterr().out
    assert "state-invalid-correct" in printed
    assert "unsearched-absence" in printed


def test_context_mode_holds_citations_against_the_window_and_zero_shot_is_the_floor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines() -> list[Any]:
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert run(["reads", "questions", "starter", "--truth"]) == 0
    asked = next(q for q in lines() if q["bucket"] == "present")
    assert run(["reads", "window", "starter", asked["id"]]) == 0
    offered = {artifact["id"] for artifact in lines()}
    told = set(asked["truth"]["evidence"]) & offered
    assert told
    answers = [
        {"exists": True, "evidence": sorted(told)},
        {"exists": True, "evidence": ["made-up"]},
    ]
    runs, floor = tmp_path / "runs.jsonl", tmp_path / "floor.jsonl"
    rows = [{"question": asked["id"], "answer": answer, "calls": []} for answer in answers]
    runs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    floor.write_text(json.dumps({"question": asked["id"], "answer": {"exists": False}}) + "\n")
    command = ["reads", "judge", "starter", str(runs), "--mode", "context", "--floor", str(floor)]
    assert run([*command, "--json"]) == 1
    good, bad, total = lines()
    assert (good["verdict"], bad["verdict"]) == ("INCONCLUSIVE", "DIVERGE")
    assert "hallucinated-citation" in [f["code"] for f in bad["findings"]]
    [silence] = total["tracks"]
    assert (silence["answer"], silence["floor"], silence["gap"]) == ("1", "0", "1")
    assert run(["reads", "window", "starter", "q999"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_mistakes_are_told_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["check", "nowhere"], ["judge", "starter", str(tmp_path / "gone")],
        ["judge", "starter", str(tmp_path), "--mode", "guess"], ["check", str(tmp_path)],
    ):  # fmt: skip
        assert run(["reads", *arguments]) == 2
        assert "Traceback" not in capsys.readouterr().err
