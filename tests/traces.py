"""Traces to judge runs by: calls, and logs that a harness or the agent itself kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from statediff.kernel import Evaluated, replay
from statediff.model.trace import Action, ActionClass, Trace, Turn
from statediff.model.values import Map, Value
from tests.judging import at, document, run

READ = ActionClass.READ
WRITE = ActionClass.CONDITIONAL_UPDATE
NOBODY_KNOWS = ActionClass.UNKNOWN


def call(
    tool: str, kind: ActionClass = WRITE, error: str | None = None, attempt: int = 1,
    result: Value = None, **arguments: Value,
) -> Action:  # fmt: skip
    return Action(
        "",
        tool,
        action_class=kind,
        arguments=Map.of(arguments),
        result=result,
        error=error,
        principal="agent",
        attempt=attempt,
        started_at=at(11),
    )


def log(*calls: Action, turns: tuple[Turn, ...] | None = None) -> Trace:
    """A complete log of a harness."""
    named = tuple(replace(c, id=f"call-{n}") for n, c in enumerate(calls, start=1))
    return Trace(named, True, "", turns=turns)


def cut(trace: Trace) -> Trace:
    return replace(trace, is_complete=False, cause="the recorder was stopped")


def own(trace: Trace) -> Trace:
    """The same log, written by the agent itself."""
    return replace(trace, is_complete=False, cause="written by it", is_agent_influenced=True)


def judged(body: str, trace: Trace, before: Any = None, after: Any = None, **rest: Any) -> Any:
    """The evaluation, which its bundle reproduces."""
    sides = before or {}, after if after is not None else before or {}
    evaluated: Evaluated = run(body, *sides, trace=trace, **rest)
    assert document(replay(evaluated.bundle)) == document(evaluated.judgement)
    return evaluated
