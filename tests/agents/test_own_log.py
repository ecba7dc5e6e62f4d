"""`Trial.tool`: each call of a function is in the trial's trace, and the function stays itself."""

import asyncio
import contextlib
import functools
import inspect
import json
import multiprocessing
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.agents import handover, own_log
from statediff.agents.function import FunctionAgent, NamedFunctionAgent
from statediff.agents.handover import LACKS, NOT_ENDED, SELF_RECORDED, TrustedAgent, read_trace
from statediff.agents.isolation import NONE, isolation
from statediff.agents.tracefile import read_trace_file
from statediff.agents.trial import Trial
from statediff.errors import UsageError
from statediff.model.explanation import by_run
from statediff.model.trace import Action, ActionClass
from statediff.model.values import Map, Unobserved, Value

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def clock() -> datetime:
    return NOON


def trial_in(folder: Path) -> Trial:
    return Trial("do it", {}, {}, folder, folder / "answer", folder / "trace.jsonl", clock=clock)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return trial_in(tmp_path)


def calls(trial: Trial) -> tuple[Action, ...]:
    trace = read_trace(trial.trace_path)
    assert (trace.cause, trace.is_complete, trace.is_agent_influenced) == (
        SELF_RECORDED,
        False,
        True,
    )
    return trace.actions


def named(**arguments: Value) -> Map:
    return Map.of(arguments)


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_call_is_recorded_with_arguments_by_signature_result_and_times(trial):
    @trial.tool
    def refund(order: int, /, cents: int = 100, *lines: int, note: str = "", **more: Any) -> Any:
        return {"order": order, "lines": lines, "other": [cents, note, more]}

    result = {"order": 7, "lines": (1, 2), "other": [50, "", {"why": "late"}]}
    assert refund(7, 50, 1, 2, why="late") == result
    [call] = calls(trial)
    assert call == Action(
        "call-1",
        "refund",
        arguments=named(order=7, cents=50, lines=(1, 2), note="", why="late"),
        result=named(order=7, lines=(1, 2), other=(50, "", named(why="late"))),
        principal="agent",
        started_at=NOON,
        finished_at=NOON,
    )


def test_the_function_is_the_same_to_whatever_reads_it(trial):
    def plain(order: "int", note: str | None = None) -> "str":
        """Refunds an order."""
        return f"{order} {note}"

    async def later(order: int) -> int:
        return order

    for function in (plain, later):
        wrapped = trial.tool(function)
        assert wrapped.__name__ == function.__name__
        assert wrapped.__doc__ == function.__doc__
        assert inspect.signature(wrapped) == inspect.signature(function)
        assert get_type_hints(wrapped) == get_type_hints(function)
        assert inspect.iscoroutinefunction(wrapped) is inspect.iscoroutinefunction(function)
    assert trial.tool(plain)(3, note="x") == "3 x"
    assert asyncio.run(trial.tool(later)(4)) == 4
    assert [(c.tool, c.result) for c in calls(trial)] == [("plain", "3 x"), ("later", 4)]


class Desk:
    def __init__(self, trial: Trial) -> None:
        self.close = trial.tool(self.close)  # type: ignore[method-assign]

    def close(self, ticket: int) -> str:
        return f"closed {ticket}"

    def __call__(self, ticket: int) -> str:
        return f"asked {ticket}"


def test_methods_partials_and_objects_are_tools_too(trial):
    class Late:
        @trial.tool
        def method(self, ticket: int) -> int:
            return ticket

        @trial.tool
        @staticmethod
        def static(ticket: int) -> int:
            return ticket

        @trial.tool
        @classmethod
        def of_class(cls, ticket: int) -> int:
            return ticket

    async def move(ticket: int, to: str) -> str:
        return f"{ticket} {to}"

    moved = trial.tool(functools.partial(move, to="done"))
    assert (moved.__name__, get_type_hints(moved)) == (
        "move",
        {"ticket": int, "to": str, "return": str},
    )
    desk = Desk(trial)
    assert desk.close(1) == "closed 1"
    assert asyncio.run(moved(2)) == "2 done"
    assert (Late().method(3), Late().static(4), Late.of_class(5)) == (3, 4, 5)
    assert trial.tool(name="ask", class_="read", without={"ticket"})(desk)(6) == "asked 6"
    assert asyncio.run(trial.tool(lambda ticket: move(ticket, "x"))(7)) == "7 x"
    assert [(c.tool, c.arguments) for c in calls(trial)] == [
        ("close", named(ticket=1)),
        ("move", named(ticket=2, to="done")),
        ("method", named(ticket=3)),
        ("static", named(ticket=4)),
        ("of_class", named(ticket=5)),
        ("ask", named()),
        ("<lambda>", named(ticket=7)),
    ]
    assert calls(trial)[5].action_class is ActionClass.READ
    for wrong in (7, "text"):
        with pytest.raises(UsageError, match="expected a function"):
            trial.tool(wrong)
    with pytest.raises(UsageError, match="no class of calls: 'delete'"):
        trial.tool(class_="delete")(desk)


@pytest.mark.parametrize("raised", [ValueError("no order"), KeyboardInterrupt(), Odd()])
def test_what_a_tool_raises_goes_on_unchanged_and_is_recorded(trial, raised):
    @trial.tool
    def fail() -> None:
        raise raised

    @trial.tool
    async def fail_later() -> None:
        raise raised

    async def both() -> None:
        with pytest.raises(type(raised)) as seen:
            await fail_later()
        assert seen.value is raised

    with pytest.raises(type(raised)) as seen:
        fail()
    assert seen.value is raised
    asyncio.run(both())
    shown = own_log.error_text(raised)
    assert [(c.tool, c.error, c.attempt) for c in calls(trial)] == [
        ("fail", shown, 1),
        ("fail_later", shown, 1),
    ]


def test_attempts_count_the_failed_calls_of_a_tool_with_the_same_arguments(trial):
    @trial.tool
    def pay(cents: int | bool) -> None:
        if cents == 1:
            raise ValueError

    for cents in (1, 1, True, 2, 1):
        with contextlib.suppress(ValueError):
            pay(cents)
    with pytest.raises(TypeError):
        pay()
    assert [c.attempt for c in calls(trial)] == [1, 2, 1, 1, 3, 1]
    assert calls(trial)[-1].error.startswith("TypeError: ")


def test_calls_at_once_are_told_apart(trial):
    @trial.tool
    async def wait(number: int) -> int:
        await asyncio.sleep(0.02 - number / 1000)
        return number

    @trial.tool
    def add(number: int) -> int:
        return number

    async def together() -> None:
        await asyncio.gather(*(wait(number) for number in range(8)))

    asyncio.run(together())
    threads = [threading.Thread(target=lambda n=n: [add(n) for _ in range(10)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = calls(trial)
    assert [c.arguments.get("number") for c in found[:8]] == list(range(8))  # as they began
    assert all(c.error is None and c.arguments.get("number") == c.result for c in found)
    assert len(found) == 88


def test_a_process_that_was_forked_writes_to_the_same_log(trial):
    child = multiprocessing.get_context("fork").Process(target=trial.tool(list))
    child.start()
    child.join()
    assert [c.tool for c in calls(trial)] == ["list"]


@dataclass
class Line:
    sku: str
    price: Decimal
    on: date


def test_structured_values_are_recorded_as_json_has_them(trial):
    @trial.tool
    def order(line: Line, tags: frozenset[str]) -> Any:
        return [line, Path("/x"), NOON, ActionClass.READ, len(tags)]

    order(Line("a", Decimal("1.50"), date(2026, 1, 5)), frozenset({"y", "x"}))
    [call] = calls(trial)
    line = named(sku="a", price="1.50", on="2026-01-05")
    assert call.arguments == named(line=line, tags=("x", "y"))
    assert call.result == (line, "/x", NOON.isoformat(), "read", 2)


class Trap(dict[str, int]):
    def items(self) -> Any:
        raise LookupError("gone")


class Neither(list[int]):
    def __bool__(self) -> bool:
        raise TypeError("neither true nor false")

    def __iter__(self) -> Any:
        raise TypeError("not to be read")


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


BAD: dict[str, Callable[[], object]] = {
    "large text": lambda: "x" * 10_000_000,
    "large": lambda: ["x" * 100] * 1_000_000,
    "object": object,
    "bytes": lambda: b"\x00",
    "nan": lambda: float("nan"),
    "half": lambda: "\ud800",
    "deep": lambda: json.loads("[" * 200 + "]" * 200),
    "endless": endless,
    "two keys": lambda: {1: "a", "1": "b"},
    "huge": lambda: 10**5000,
    "trap": lambda: Trap(a=1),
    "neither": lambda: Neither([1]),
    "generator": lambda: (n for n in range(3)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_value_that_cannot_be_kept_is_unobserved_and_stops_nothing(trial, name):
    value = BAD[name]()
    given_back = trial.tool(lambda value: value)(value)
    assert given_back is value
    trial.tool(name="after")(str)()
    odd, after = calls(trial)
    assert isinstance(odd.arguments, Unobserved)
    assert odd.arguments.cause
    assert isinstance(odd.result, Unobserved)
    assert odd.error is None
    assert (after.tool, after.result) == ("after", "")


def test_a_log_that_is_full_keeps_the_names(trial, monkeypatch):
    monkeypatch.setattr(own_log, "MAX_LOG_BYTES", 4000)
    note = trial.tool(lambda text: text)
    for _ in range(20):
        note("x" * 300)
    found = calls(trial)
    assert len(found) == 20
    assert found[0].result == "x" * 300
    assert isinstance(found[-1].result, Unobserved)
    assert "keeps no values" in found[-1].arguments.cause


def test_a_call_is_in_the_log_before_anything_of_it_is_done(trial):
    seen = []
    trial.tool(lambda: seen.extend(calls(trial)))()
    assert [c.error for c in seen] == [NOT_ENDED]
    assert [c.error for c in calls(trial)] == [None]


def test_a_call_that_cannot_be_recorded_is_not_made(trial):
    trial.trace_path.mkdir()
    made = []
    with pytest.raises(OSError, match="directory"):
        trial.tool(made.append)(1)
    assert made == []


def test_what_the_agent_writes_itself_keeps_its_place(trial):
    step = trial.tool(lambda number: number)
    step(1)
    with trial.trace_path.open("a") as log:
        log.write('{"user": "and then?"}\n{"tool": "own"}\n')
    step(2)
    trace = read_trace(trial.trace_path)
    assert [c.tool for c in trace.actions] == ["<lambda>", "own", "<lambda>"]
    assert [turn.calls_before for turn in trace.turns or ()] == [1]


FUNCTION = """
import os


def agent(trial):
    @trial.tool(class_="read")
    def look(order: int):
        return {"order": order, "pid": os.getpid()}

    @trial.tool
    def die():
        os._exit(3)

    look(7)
    if trial.prompt == "die":
        die()
    return 7
"""


@pytest.mark.parametrize("kind", [NONE, isolation()])
def test_a_function_in_a_process_of_its_own_is_recorded(tmp_path, monkeypatch, kind):
    (tmp_path / "recording_agent.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(str(tmp_path))
    agent = NamedFunctionAgent.named("recording_agent:agent", kind, 30.0)
    place = tmp_path / "trial"
    place.mkdir()
    run = agent.run(replace(trial_in(place), prompt="die"), lambda: datetime.now(UTC))
    look, die = run.trace.actions
    assert (look.tool, look.action_class, look.arguments) == (
        "look",
        ActionClass.READ,
        named(order=7),
    )
    assert (die.tool, die.error) == ("die", NOT_ENDED)
    assert run.trace.is_agent_influenced


def test_only_a_caller_who_answers_for_it_makes_the_log_complete(trial):
    def agent(given: Trial) -> int:
        return given.tool(lambda: 7)()

    def missing(given: Trial) -> int:
        given.log().miss("a search by the provider")
        return agent(given)

    run = TrustedAgent(FunctionAgent(agent, "mine")).run(trial, clock)
    assert (run.trace.is_complete, run.trace.is_agent_influenced) == (True, False)
    assert run.trace.actions[0].started_at == NOON
    assert read_trace_file(trial.trace_path, is_vouched=True).is_complete
    run = TrustedAgent(FunctionAgent(missing, "mine")).run(trial, clock)
    assert (run.trace.is_complete, run.trace.is_agent_influenced) == (False, True)
    assert run.trace.cause == LACKS + "a search by the provider"
    vouched = read_trace_file(trial.trace_path, is_vouched=True)
    assert (vouched.is_complete, len(vouched.actions)) == (False, 2)


BEGIN = {"begin": "1", "tool": "x"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (BEGIN, "a call begins that has not ended"),
        ({"end": "2"}, "a call ends that has not begun"),
        ({"end": 1}, "expected text under `end`"),
        ({"end": "1", "tool": "y"}, "unknown key 'tool'"),
        ({"begin": "2", "tool": "x", "result": 1}, "unknown key 'result'"),
        ({"missed": 1}, "expected text under `missed`"),
        ({"end": "1", "result": 1, "unobserved": {"result": "x"}}, "under `unobserved`"),
        ({"end": "1", "unobserved": ["result"]}, "under `unobserved`"),
        ({"end": "1", "unobserved": {"error": "x"}}, "under `unobserved`"),
    ],
)
def test_a_line_that_is_none_ends_the_reading(trial, line, why):
    trial.trace_path.write_text(f"{json.dumps(BEGIN)}\n{json.dumps(line)}\n")
    trace = read_trace(trial.trace_path)
    assert why in trace.cause
    assert [action.error for action in trace.actions] == [NOT_ENDED]


def test_of_a_log_that_is_too_long_its_beginning_is_read(trial, monkeypatch):
    monkeypatch.setattr(handover, "MAX_LOG_BYTES", 1000)
    trial.trace_path.write_text('{"tool": "delete"}\n' * 100)
    trace = read_trace(trial.trace_path)
    assert trace.cause == LACKS + by_run("trace.jsonl has more than the 1000 bytes that are read")
    assert [action.tool for action in trace.actions] == ["delete"] * (1000 // 19)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_whatever_a_tool_gets_and_gives_comes_back_whole_or_unobserved(tmp_path_factory, value):
    trial = trial_in(tmp_path_factory.mktemp("law"))
    assert trial.tool(lambda value: value)(value) is value
    [call] = calls(trial)
    assert call.error is None
    assert isinstance(call.arguments, Unobserved) or call.arguments.get("value") == call.result
    if not isinstance(call.result, Unobserved):
        assert call.result == own_log.read_json(json.dumps(value).encode(), "value")
