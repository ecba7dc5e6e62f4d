"""Agents: their input, their output and their cost.

A price is what one million tokens cost. Nothing is guessed: where a price or a server's count is
missing, so is the cost, and a limit on the cost cannot be asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload, runtime_checkable
from urllib.parse import unquote, urlsplit

from statediff.errors import AdapterError, UsageError
from statediff.model.trace import NoAnswer, RunEnding, Trace
from statediff.model.values import Value

if TYPE_CHECKING:  # they load more than a function in a process of its own needs
    from statediff.agents.own_log import OwnLog
    from statediff.capture.looks import Looks
    from statediff.capture.source import Clock
    from statediff.reads.library import Readable
    from statediff.systems.base.protocol import Offered

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MILLION: Final = 1_000_000
_UNDONE: Final = "this trial was not carried through, and its agent is not to blame"


@dataclass(frozen=True)
class Prices:
    """The price of one million tokens, in whatever currency; None where nobody says."""

    tokens_in: Decimal | None = None
    tokens_out: Decimal | None = None

    def cost(self, used: Usage) -> Decimal | None:
        """The cost of the tokens; None where a price or a count is not known."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        if used.tokens_in is None or used.tokens_out is None:
            return None
        return (self.tokens_in * used.tokens_in + self.tokens_out * used.tokens_out) / _MILLION


@dataclass(frozen=True)
class Usage:
    """The usage of a model. Tokens are None once one answer came without a count."""

    requests: int = 0
    retries: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    cost: Decimal | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.retries + other.retries,
            _sum(self.tokens_in, other.tokens_in),
            _sum(self.tokens_out, other.tokens_out),
        )

    def as_json(self) -> dict[str, object]:
        """Exact: the cost is text."""
        return {
            "requests": self.requests,
            "retries": self.retries,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": None if self.cost is None else f"{self.cost:f}",
        }


class Budget:
    """The budget of all trials of a run; safe to use from several threads."""

    def __init__(
        self, prices: Prices, most: Decimal | None = None, left_undone: str = _UNDONE
    ) -> None:
        """`left_undone` says what reaching the limit costs."""
        if most is not None and (prices.tokens_in is None or prices.tokens_out is None):
            raise UsageError(
                "--max-cost needs to know what tokens cost; give both prices, in and out, each for "
                "one million tokens"
            )
        self.prices = prices
        self._most = most
        self._left_undone = left_undone
        self._spent = Decimal(0)
        self._lock = threading.Lock()

    def require_open(self) -> None:
        """There is something left to spend; else `AdapterError`: the trial has no verdict."""
        if self._most is not None and self._spent >= self._most:
            raise AdapterError(
                f"the run has cost {self._spent:f} and --max-cost is {self._most:f}; "
                f"{self._left_undone}"
            )

    def spend(self, used: Usage) -> None:
        """The tokens are paid for; `AdapterError` where a limit is asked for and no count came."""
        cost = self.prices.cost(used)
        if cost is None:
            if self._most is not None:
                raise AdapterError(
                    "the model's server does not say how many tokens it used, so --max-cost cannot "
                    "be kept; leave it out, or use a server that reports `usage`"
                )
            return
        with self._lock:
            self._spent += cost


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


class User(Protocol):
    """Who the agent speaks with."""

    def answer(self, reply: Value, so_far: Callable[[], Trace]) -> str | None:
        """The next message after the reply; None where there is nothing more to say.

        `so_far` gives the calls that were made until now.
        """


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
    library: Readable | None = None
    """The readable artifacts, where the contract limits them; offered as `search` and `fetch`."""
    answer_form: str = "json"
    """`json`, or `text`: an answer in prose, which is never read as JSON."""
    tools: Offered | None = field(default=None, repr=False)
    """The offered tools; None: all those of the systems."""
    call: Callable[[str, Mapping[str, Any]], Any] | None = None
    """For a function, where there is a library: calls a tool by its name, and is recorded."""
    say: Callable[[Any], str | None] = field(default=lambda _reply: None, repr=False, compare=False)
    """Hands the user a reply, any JSON; the user's next message, or None where there is none."""
    user: User | None = field(default=None, repr=False, compare=False)
    """Whom an adapter lets the agent speak with; None where the task is one message."""
    place: Path | None = None
    """The folder below which all of the sandbox's files are, `folder` too; None: nobody knows."""
    secrets: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    """Files that no program in namespaces reads: the observer's key, and its passphrase."""

    looks: Looks | None = field(default=None, repr=False, compare=False)
    """The reading after each call of a tool; an adapter hands it to its tools."""
    clock: Clock | None = field(default=None, repr=False, compare=False)
    """By which `log` says when a call was made; None: this machine's."""

    def log(self, classes: Mapping[str, str] | None = None) -> OwnLog:
        """The agent's own log of its calls, in the file at `trace_path`.

        `classes` has the class of calls of a tool, e.g. `read`; `UsageError` where it is none.
        """
        from statediff.agents.own_log import OwnLog, now  # noqa: PLC0415 - few agents keep one

        return OwnLog(path=self.trace_path, clock=self.clock or now, classes=dict(classes or {}))

    @overload
    def tool(self, function: _Function, /) -> _Function: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        principal: str | None = "agent",
        class_: str = "unknown",
        without: Collection[str] = (),
    ) -> Callable[[_Function], _Function]: ...
    def tool(self, function: Any = None, /, *, class_: str = "unknown", **known: Any) -> Any:
        """The function, sync or async, each call of which is in the trial's trace.

        `name` is the tool's, else the function's; `class_` a class of calls such as `read`;
        `without` names parameters that are no arguments, e.g. a framework's context. With any of
        them it makes a decorator. `UsageError` where it is no function or no class.
        """
        from statediff.agents.own_log import name_of, recorded  # noqa: PLC0415 - few keep one

        def record(given: Any) -> Any:
            name = known.get("name") or name_of(given)
            return recorded(given, self.log({name: class_}), **known)

        return record if function is None else record(function)

    @property
    def writable(self) -> tuple[Path, ...]:
        """The folders that an isolated program may write."""
        found = {self.folder, *filter(None, map(place_of, self.urls.values()))}
        return tuple(sorted(found))

    @property
    def hidden(self) -> tuple[Path, ...]:
        """Paths that an isolated program does not see, but for those it may write.

        A program that was given no system gets tools, and the systems' files are none of them.
        """
        return self.secrets if self.place is None or self.urls else (self.place, *self.secrets)


def place_of(url: str) -> Path | None:
    """The folder that an agent needs to use a system that is files of this machine."""
    path = path_of(url)
    return path if path is None or path.is_dir() else path.parent


def path_of(url: str) -> Path | None:
    """The file or folder of this machine that a URL leads to; None where it leads elsewhere."""
    parts = urlsplit(url)
    return None if parts.netloc or not parts.path else Path("/" + unquote(parts.path).lstrip("/"))


@dataclass(frozen=True)
class Output:
    """A program's output on one stream: the first `bytes_kept` of `bytes_seen`."""

    text: str
    bytes_seen: int
    bytes_kept: int


NOTHING_PRINTED = Output("", 0, 0)


@dataclass(frozen=True)
class AgentRun:
    """One finished run of an agent. Its failure is a fact about the run, not a harness fault."""

    answer: Value | NoAnswer
    trace: Trace
    started_at: datetime
    finished_at: datetime
    exit_code: int | None = None
    """A program's exit code; negative: the signal that ended it; None: not a program."""
    error: str | None = None
    """Why the agent did not end well (exit code, timeout, exception); None when it did."""
    ending: RunEnding | None = None
    """How it ended, in the words of a contract; None where the adapter does not know."""
    stdout: Output = NOTHING_PRINTED
    stderr: Output = NOTHING_PRINTED
    unreadable: str | None = None
    """Why what a function returned can be no answer; that is a fault of the function."""
    usage: Usage | None = None
    """The usage of a model; None where nobody counted."""
    is_at_large: bool = False
    """Something that the agent began may run still."""
    command: tuple[str, ...] = ()
    """The program that was run, and its arguments; empty of what is no program of the caller's."""
    boundary: Mapping[str, str] = field(default_factory=dict)
    """Each part of what kept it apart: `held`, or why not; empty where nothing was to keep it."""
    endpoints: tuple[str, ...] = ()
    """`HOST:PORT` of all that it reached, where its network was its own."""
    refused: tuple[str, ...] = ()
    """Other places that it asked for, and did not get: `ADDRESS:PORT`, or a name."""


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
        """By what, e.g. `container`; `none` where nothing keeps it."""


@runtime_checkable
class Trusted(Protocol):
    """An agent whose own log of its calls somebody answers for."""

    @property
    def is_trace_trusted(self) -> bool:
        """True if somebody does."""


@runtime_checkable
class Entrusted(Protocol):
    """An agent that is given secrets of the evaluator's."""

    @property
    def entrusted(self) -> tuple[str, ...]:
        """The secrets that the agent is given, such as the key of a model."""


@dataclass(frozen=True)
class WrappedAgent:
    """The part of an agent that an agent around it needs."""

    agent: Agent

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def isolation(self) -> str:
        """The agent's own."""
        return self.agent.isolation if isinstance(self.agent, Isolated) else "none"

    @property
    def entrusted(self) -> tuple[str, ...]:
        """The agent's own."""
        return self.agent.entrusted if isinstance(self.agent, Entrusted) else ()

    @property
    def halted(self) -> Event:
        """The agent's own; of one that nobody can end, an event that nobody heeds."""
        return self.agent.halted if isinstance(self.agent, Haltable) else Event()


class Agent(Protocol):
    """Whatever can be given a trial. `run` raises `AdapterError` only if it could not start."""

    @property
    def name(self) -> str: ...

    def run(self, trial: Trial, clock: Clock) -> AgentRun: ...
