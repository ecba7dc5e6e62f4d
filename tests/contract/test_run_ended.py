"""How the run ended, as clauses ask for it, through every door that knows it."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import statediff
from statediff.agents.command import CommandAgent, program_ending
from statediff.agents.function import FunctionAgent
from statediff.agents.trial import Trial
from statediff.capture.source import clock
from statediff.contract.file import parse_contract
from statediff.errors import BundleError, ContractError, UsageError
from statediff.evidence.canonical import write
from statediff.evidence.package import Bundle
from statediff.kernel import (
    TrialFacts,
    compile_contract,
    evaluate,
    judgement_of,
    lint,
    replay,
    schema_of,
)
from statediff.model.trace import ENDINGS, RunEnding
from statediff.model.verdict import Verdict
from statediff.workspace.inputs import capture_pair, unrefined

HEAD = "contract: t/case\nversion: 1.0.0\nowner: desk\nintent: Close it and nothing else.\n"
CLOSED = HEAD + "require:\n  - {id: closed, update: t, where: it.id == 1, set: {s: closed}}\n"
ASKED = CLOSED + '  - {id: ended, that: run.ended == "by-itself"}\n'
BEFORE, AFTER = {"t": [{"id": 1, "s": "open"}]}, {"t": [{"id": 1, "s": "closed"}]}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_run_matches_only_if_it_ended_as_is_asked(how: str) -> None:
    expected = Verdict.MATCH if how == "by-itself" else Verdict.DIVERGE
    assert statediff.judge(ASKED, BEFORE, AFTER, ended=how).verdict is expected
    judge = statediff.Judge(ASKED, BEFORE)
    assert judge.score(AFTER, ended=how).verdict is expected
    assert judge.judge(AFTER, ended=how).verdict is expected


def test_where_nobody_knows_it_is_unknown_and_named() -> None:
    done = statediff.judge(ASKED, BEFORE, AFTER)
    assert done.verdict is Verdict.INCONCLUSIVE
    assert "nobody recorded how the run ended" in done.line
    judge = statediff.Judge(ASKED, BEFORE)
    for ended, expected in (("by-itself", "MATCH"), (None, "INCONCLUSIVE"), ("killed", "DIVERGE")):
        assert judge.score(AFTER, ended=ended).verdict.value == expected, "no end is remembered"


def test_without_a_run_nobody_knows_when_it_was() -> None:
    for condition in ("run.start < run.end", "run.end - run.start < 60"):
        done = statediff.judge(CLOSED + f"  - {{id: soon, that: '{condition}'}}\n", BEFORE, AFTER)
        assert done.verdict is Verdict.INCONCLUSIVE
        assert "nobody recorded when the run began and ended" in done.line


def test_a_word_that_no_run_ends_by_is_refused() -> None:
    with pytest.raises(UsageError, match="no run ends 'well'; expected one of by-itself, crashed"):
        statediff.judge(ASKED, BEFORE, AFTER, ended="well")
    for text in ('run.ended == "by itself"', 'run.ended in ["killed", "hanged"]'):
        with pytest.raises(ContractError, match="no run ends"):
            statediff.judge(CLOSED + f"  - {{id: e, that: '{text}'}}\n", BEFORE, AFTER)
    with pytest.raises(ContractError, match="of the run nothing is known as `stop`"):
        statediff.judge(CLOSED + "  - {id: e, that: run.stop == null}\n", BEFORE, AFTER)


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ('run.ended == "timed-out"', "The run timed out."),
        ("run.exit_code in [0, 3]", "The exit code of the run is 0 or 3."),
        ('run.ended != "killed"', 'How the run ended is not "killed".'),
    ],
)
def test_it_is_said_in_english(condition: str, sentence: str) -> None:
    text = CLOSED + f"  - {{id: e, that: '{condition}'}}\n"
    [before, after] = capture_pair([_file(BEFORE)], [_file(AFTER)], unrefined, ())
    file = parse_contract(text.encode(), "c.yaml")
    bound = compile_contract(file, schema_of(before, after)).contract
    assert [each.sentence for each in bound.require if each.id == "e"] == [sentence]


def _evaluate(text: str, ending: RunEnding | None) -> Bundle:
    states = capture_pair([_file(BEFORE)], [_file(AFTER)], unrefined, ())
    facts = TrialFacts("t", ending=ending)
    return evaluate(parse_contract(text.encode(), "c.yaml"), *states, facts=facts).bundle


def _file(tables: object) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(tables, file)
    return f"t={file.name}"


def test_a_bundle_holds_it_where_a_clause_asks_and_replays() -> None:
    bundle = _evaluate(ASKED, RunEnding("crashed", 3))
    assert bundle.document("trial.json")["ending"] == {"how": "crashed", "exit_code": 3}
    assert replay(bundle).verdict is Verdict.DIVERGE
    trial = {**bundle.document("trial.json"), "ending": {"how": "by-itself", "exit_code": 0}}
    forged = replace(bundle, files={**bundle.files, "trial.json": write(trial)})
    with pytest.raises(BundleError):
        replay(forged)


def test_a_bundle_of_a_contract_that_does_not_ask_is_byte_for_byte_the_same() -> None:
    known, unknown = _evaluate(CLOSED, RunEnding("killed")), _evaluate(CLOSED, None)
    assert known.files["trial.json"] == unknown.files["trial.json"]
    assert b"ending" not in known.files["trial.json"]


def test_a_null_run_ended_by_itself() -> None:
    alone = HEAD + 'require:\n  - {id: ended, that: run.ended == "by-itself"}\n'
    with pytest.raises(ContractError, match="a run in which nothing happens would MATCH"):
        statediff.judge(alone, BEFORE, AFTER, ended="by-itself")


def test_a_turn_is_judged_before_the_run_ends() -> None:
    text = CLOSED + 'turns:\n  - {prompt: Close it., require: ["run.exit_code == 0"]}\n'
    with pytest.raises(ContractError, match="a turn is judged before the run ends"):
        statediff.judge(text, BEFORE, AFTER)


def test_lint_says_where_nothing_asks() -> None:
    [before, _] = capture_pair([_file(BEFORE)], [_file(AFTER)], unrefined, ())

    def codes(text: str) -> set[str]:
        return {p.code for p in lint(parse_contract(text.encode(), "c.yaml"), None, before)}

    run = CLOSED + "sandbox: ./s.sandbox.yaml\n"
    answered = run + "answer:\n  schema: {done: bool}\n"
    assert "end-unasked" in codes(run)
    asked = run.replace("require:\n", 'require:\n  - {id: ended, that: run.ended == "by-itself"}\n')
    assert "end-unasked" not in codes(CLOSED) | codes(asked) | codes(answered)


@pytest.mark.parametrize(
    ("program", "how", "code"),
    [
        ("pass", "by-itself", 0),
        ("import sys; sys.exit(3)", "crashed", 3),
        ("import os; os.kill(os.getpid(), 9)", "killed", None),
        ("import time; time.sleep(60)", "timed-out", None),
    ],
)
def test_a_program_is_known_to_end_so(
    program: str, how: str, code: int | None, tmp_path: Path
) -> None:
    agent = CommandAgent((sys.executable, "-c", program), 3.0 if how == "timed-out" else 60.0)
    assert agent.run(_trial(tmp_path), clock).ending == RunEnding(how, code)


def test_one_that_ends_its_watcher_is_killed() -> None:
    assert program_ending(None, True) == RunEnding("killed")


@pytest.mark.parametrize(
    ("function", "how"),
    [(lambda _trial: {"a": 1}, "by-itself"), (lambda _trial: 1 // 0, "crashed")],
)
def test_a_function_is_known_to_end_so(
    function: Callable[[Trial], object], how: str, tmp_path: Path
) -> None:
    assert FunctionAgent(function, "f").run(_trial(tmp_path), clock).ending == RunEnding(how)


def _trial(folder: Path) -> Trial:
    return Trial("task", {}, {}, folder, folder / "answer.json", folder / "trace.jsonl")


def test_judgement_of_takes_it_from_the_facts() -> None:
    states = capture_pair([_file(BEFORE)], [_file(AFTER)], unrefined, ())
    file = parse_contract(ASKED.encode(), "c.yaml")
    facts = TrialFacts("t", ending=RunEnding("by-itself", 0))
    assert judgement_of(file, *states, facts=facts).verdict is Verdict.MATCH
