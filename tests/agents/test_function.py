import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from statediff.agents.function import FunctionAgent, NamedFunctionAgent
from statediff.agents.isolation import NONE, isolation
from statediff.agents.trial import Trial
from statediff.capture.source import clock
from statediff.errors import UsageError
from statediff.model.trace import NoAnswer
from statediff.model.values import Map
from statediff.systems.base.tool import ToolError


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


FUNCTIONS = """
import datetime, json, os, sys, time
STATE = []


def task(trial):
    print("printed")
    STATE.append(os.getpid())
    trial.trace_path.write_text('{"tool": "think"}\\n')
    return {"order": trial.inputs["order"], "pid": os.getpid(), "keys": sorted(
        set(os.environ) & {"MODEL_KEY", "PGPASSWORD"}), "urls": dict(trial.urls)}


def file(trial):
    trial.answer_path.write_text("7")


def raising(trial):
    raise SystemExit("no order 1")


def odd(trial):
    return {1, 2}


def deep(trial):
    found = []
    for _ in range(500):
        found = [found]
    return found


def gone(trial):
    os._exit(3)


def slow(trial):
    time.sleep(60)


def tools(trial):
    found = trial.call("double", {"n": 21})
    try:
        trial.call("fail", {})
    except Exception as error:
        return [found, type(error).__name__, str(error)]
"""


@pytest.fixture
def module(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("modules")
    (folder / "named_agents.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(folder))
    return "named_agents"


def named(module: str, function: str, kind: str = NONE, seconds: float = 30.0):
    return NamedFunctionAgent.named(f"{module}:{function}", kind, seconds)


@pytest.mark.parametrize("kind", [NONE, isolation()])
def test_a_named_function_is_called_in_a_process_of_its_own(trial, module, monkeypatch, kind):
    monkeypatch.setenv("MODEL_KEY", "kept")
    monkeypatch.setenv("PGPASSWORD", "the evaluator's")
    run = named(module, "task", kind).run(trial, clock)
    answer = dict(run.answer.items)
    assert (answer["order"], answer["keys"], run.error) == (1, ("MODEL_KEY",), None)
    assert answer["pid"] != os.getpid()
    assert [action.tool for action in run.trace.actions] == ["think"]
    assert module not in sys.modules  # the evaluator does not run it
    assert "printed" in run.stdout.text


def test_what_a_named_function_does_is_told_as_of_one_in_this_process(trial, module):
    assert named(module, "file").run(trial, clock).answer == 7
    raised = named(module, "raising").run(trial, clock)
    assert raised.error == "the agent raised SystemExit: no order 1"
    assert raised.answer == NoAnswer(raised.error)
    for name in ("odd", "deep"):
        assert isinstance(named(module, name).run(trial, clock).answer, NoAnswer)
    assert named(module, "gone").run(trial, clock).error == "the agent ended with exit code 3"
    late = named(module, "slow", seconds=1.0).run(trial, clock)
    assert late.error == "the agent did not end within 1 s and was stopped"


def test_a_named_function_calls_tools_that_are_here(trial, module):
    def call(name, arguments):
        if name == "fail":
            raise ToolError("no such thing")
        return 2 * arguments["n"]

    run = named(module, "tools").run(replace(trial, call=call), clock)
    assert run.answer == (42, "ToolError", "no such thing")


def test_a_name_that_leads_nowhere_is_a_usage_error(trial, module):
    for path in ("no_such_module_x:f", "named_agents", ":f"):
        with pytest.raises(UsageError):
            NamedFunctionAgent.named(path, NONE, 1.0)
    with pytest.raises(UsageError, match="has no function 'nothing'"):
        named(module, "nothing").run(trial, clock)
