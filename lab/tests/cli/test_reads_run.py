"""`reads run`: a model, and a function, answer the questions of a pack through the gate."""

import json
from pathlib import Path

import pytest
from statediff_lab.reads.generate import generate
from statediff_lab.reads.questions import SilenceTruth
from statediff_lab.reads.world import load_pack

from tests.agents.chat_server import Step, speaking
from tests.cli.conftest import Call

STARTER = load_pack("starter")
QUESTIONS = generate(STARTER.corpus, STARTER.config.content).questions
ABSENT = next(q for q in QUESTIONS if isinstance(q.truth, SilenceTruth) and not q.truth.exists)
NOT_THERE = json.dumps({"exists": False, "evidence": []})


def searched() -> list[Step]:
    """A model that looks everywhere it must, then denies."""
    assert isinstance(ABSENT.truth, SilenceTruth)
    calls = [("fetch", json.dumps({"id": name})) for name in sorted(ABSENT.truth.space)]
    return [Step(calls=[("search", '{"query": "report"}'), *calls]), Step(text=NOT_THERE)]


def judged(statediff: Call, *more: str) -> tuple[int, dict]:
    said = statediff("lab", "reads", "judge", "starter", "runs.jsonl", *more, "--json")
    return said.code, json.loads(said.out.splitlines()[0])


def test_a_model_that_looked_everywhere_may_deny(statediff: Call) -> None:
    with speaking(*searched()) as server:
        said = statediff(
            "lab", "reads", "run", "starter", "--base-url", server.url, "--model", "small", "--out",
            "runs.jsonl", "--question", ABSENT.asked.id,
        )  # fmt: skip
    assert said.code == 0, said.out + said.err
    assert said.out == "1 runs, 0 without an answer: runs.jsonl\n"
    offered = {tool["function"]["name"] for tool in server.requests[0]["tools"]}
    assert offered == {"search", "fetch"}
    code, card = judged(statediff)
    assert (code, card["verdict"], card["question"]) == (0, "MATCH", ABSENT.asked.id)
    assert card["counted"]["fetched"] == card["counted"]["needed"] > 0


def test_a_model_that_denies_at_once_was_right_by_chance(statediff: Call) -> None:
    with speaking(Step(text=NOT_THERE)) as server:
        statediff(
            "lab", "reads", "run", "starter", "--base-url", server.url, "--model", "small", "--out",
            "runs.jsonl", "--question", ABSENT.asked.id,
        )  # fmt: skip
    code, card = judged(statediff)
    assert (code, card["verdict"], card["state_invalid_correct"]) == (1, "DIVERGE", True)


@pytest.mark.parametrize(("mode", "holds_all"), [("context", True), ("zero-shot", False)])
def test_without_tools_a_model_gets_the_window_or_nothing(
    statediff: Call, mode: str, holds_all: bool
) -> None:
    with speaking(Step(text=NOT_THERE)) as server:
        statediff(
            "lab", "reads", "run", "starter", "--base-url", server.url, "--model", "small", "--out",
            "runs.jsonl", "--question", ABSENT.asked.id, "--mode", mode,
        )  # fmt: skip
    [asked] = server.requests
    assert "tools" not in asked
    assert ('"subsystem"' in asked["messages"][1]["content"]) is holds_all
    code, card = judged(statediff, "--mode", mode)
    assert (code, card["verdict"], card["trajectory"]) == (3, "INCONCLUSIVE", None) or holds_all


def test_a_function_reads_by_its_tools_and_is_inconclusive_until_somebody_answers_for_it(
    statediff: Call, tmp_path: Path
) -> None:
    assert isinstance(ABSENT.truth, SilenceTruth)
    (tmp_path / "looks.py").write_text(
        "def answer(trial):\n"
        "    trial.call('search', {'query': 'report'})\n"
        f"    for name in {sorted(ABSENT.truth.space)!r}:\n"
        "        trial.call('fetch', {'id': name})\n"
        "    return {'exists': False, 'evidence': []}\n"
    )
    command = ("reads", "run", "starter", "--agent", "looks:answer", "--question", ABSENT.asked.id)
    assert statediff(*command, "--out", "runs.jsonl").code == 0
    line = json.loads((tmp_path / "runs.jsonl").read_text())
    assert "past the gate" in line["gap"]
    assert judged(statediff)[1]["verdict"] in ("INCONCLUSIVE", "MATCH")
    (tmp_path / "runs.jsonl").unlink()
    assert statediff(*command, "--out", "runs.jsonl", "--trust-trace").code == 0
    assert judged(statediff)[:1] == (0,)


def test_what_cannot_be_asked_is_said(statediff: Call, tmp_path: Path) -> None:
    ask = ("reads", "run", "starter", "--out", "runs.jsonl")
    endpoint = ("--base-url", "http://127.0.0.1:9/v1", "--model", "small")
    assert statediff(*ask).code == 2
    unknown = statediff(*ask, *endpoint, "--question", "q999")
    assert (unknown.code, "no question 'q999'" in unknown.err) == (2, True)
    assert statediff(*ask, *endpoint, "--mode", "guess").code == 2
    (tmp_path / "runs.jsonl").write_text("")
    exists = statediff(*ask, *endpoint, "--question", ABSENT.asked.id)
    assert (exists.code, "File exists" in exists.err) == (4, True)
