from datetime import UTC, datetime
from pathlib import Path

import pytest

from statediff.agents.function import FunctionAgent
from statediff.agents.trial import Trial
from statediff.errors import UsageError
from statediff.model.trace import NoAnswer
from statediff.model.values import Map


def clock() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial("do it", {"order": 1}, {}, tmp_path, tmp_path / "answer.json", tmp_path / "trace")


def test_a_function_gets_the_trial_and_returns_its_answer(trial):
    def agent(given: Trial) -> object:
        given.trace_path.write_text('{"tool": "think"}\n')
        return {"task": given.prompt, "order": given.inputs["order"]}

    run = FunctionAgent(agent, "mine").run(trial, clock)
    assert run.answer == Map.of({"task": "do it", "order": 1})
    assert [action.tool for action in run.trace.actions] == ["think"]
    assert (run.error, run.exit_code) == (None, None)


def test_a_function_may_write_the_answer_file_instead(trial):
    def agent(given: Trial) -> None:
        given.answer_path.write_text("7")

    assert FunctionAgent(agent, "mine").run(trial, clock).answer == 7


@pytest.mark.parametrize("raised", [ValueError("no order 1"), SystemExit("no order 1")])
def test_what_a_function_raises_is_the_agents_error(trial, raised):
    def agent(_: Trial) -> object:
        raise raised

    run = FunctionAgent(agent, "mine").run(trial, clock)
    assert run.error == f"the agent raised {type(raised).__name__}: no order 1"
    assert run.answer == NoAnswer(run.error)


def test_ctrl_c_is_not_the_agents_error(trial):
    def agent(_: Trial) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FunctionAgent(agent, "mine").run(trial, clock)


@pytest.mark.parametrize("answer", [{"a": object()}, float("nan"), {1, 2}, "\ud800"])
def test_an_answer_that_is_not_json_is_no_answer(trial, answer):
    assert isinstance(FunctionAgent(lambda _: answer, "mine").run(trial, clock).answer, NoAnswer)


def test_a_list_within_itself_is_no_answer(trial):
    endless: list[object] = []
    endless.append(endless)
    assert isinstance(FunctionAgent(lambda _: endless, "mine").run(trial, clock).answer, NoAnswer)


def test_a_function_is_found_by_module_and_name():
    assert FunctionAgent.load("os.path:join").name == "os.path:join"


@pytest.mark.parametrize(
    "path", ["os.path", ":f", "os:", "no_such_module_x:f", "os:no_such", "os:sep"]
)
def test_a_path_that_names_no_function_is_a_usage_error(path):
    with pytest.raises(UsageError):
        FunctionAgent.load(path)
