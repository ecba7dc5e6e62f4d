"""`record`: a person is the agent. Whoever asks for it waits until the person is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from statediff.agents.handover import read_answer, read_trace
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock


@dataclass(frozen=True)
class Person:
    """Someone who works on the systems by hand; `wait` returns when they say that they are done."""

    wait: Callable[[Trial], None]
    name: str = "person"

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        self.wait(trial)
        answer, trace = read_answer(trial.answer_path), read_trace(trial.trace_path)
        return AgentRun(answer, trace, started_at, clock())
