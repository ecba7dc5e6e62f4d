"""What an agent is given, what it hands back, and what an agent is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any, Protocol, runtime_checkable

from statediff.agents.spending import Usage
from statediff.capture.source import Clock
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value
from statediff.reads.library import Library


@dataclass(frozen=True)
class Trial:
    """One task as an agent sees it: nothing of the evaluator is in it.

    `urls` maps each source to where the agent reaches it, e.g. `{"shop-db": "sqlite:////…"}`.
    `answer_path` and `trace_path` are files in `folder` that the agent may write.
    """

    prompt: str
    inputs: Mapping[str, Value]
    urls: Mapping[str, str]
    folder: Path
    answer_path: Path
    trace_path: Path
    seed: int = 0
    """For whatever the agent draws at random: another trial of the task has another one."""
    library: Library | None = None
    """What may be read, where the contract says so; offered as the tools `search` and `fetch`."""
    call: Callable[[str, Mapping[str, Any]], Any] | None = None
    """For a function, where there is a library: calls a tool by its name, and is recorded."""


@dataclass(frozen=True)
class Output:
    """What a program printed on one stream: the first `bytes_kept` of `bytes_seen`."""

    text: str
    bytes_seen: int
    bytes_kept: int

    @property
    def is_truncated(self) -> bool:
        return self.bytes_seen > self.bytes_kept


NOTHING_PRINTED = Output("", 0, 0)


@dataclass(frozen=True)
class AgentRun:
    """One finished run of an agent. Its failure is a fact about the run, not a harness fault."""

    answer: Value | NoAnswer
    trace: Trace
    started_at: datetime
    finished_at: datetime
    exit_code: int | None = None
    """What a program returned; negative: the signal that ended it; None: not a program."""
    error: str | None = None
    """Why the agent did not end well (exit code, timeout, exception); None when it did."""
    stdout: Output = NOTHING_PRINTED
    stderr: Output = NOTHING_PRINTED
    usage: Usage | None = None
    """What was asked of a model; None where nobody counted."""


@runtime_checkable
class Haltable(Protocol):
    """An agent that another thread can end."""

    @property
    def halted(self) -> Event:
        """Once set, nothing of it runs or is begun any more: `run` raises `KeyboardInterrupt`."""


@runtime_checkable
class Isolated(Protocol):
    """An agent that is kept from the evaluator."""

    @property
    def isolation(self) -> str:
        """By what, e.g. `container`."""


class Agent(Protocol):
    """Whatever can be given a trial. `run` raises `AdapterError` only if it could not start."""

    @property
    def name(self) -> str: ...

    def run(self, trial: Trial, clock: Clock) -> AgentRun: ...
