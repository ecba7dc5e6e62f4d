"""`--agent-cmd`: any program is an agent.

It runs without a shell, in its own session and folder, with a minimal environment: the task in
`STATEDIFF_TASK`, one `STATEDIFF_<SOURCE>_URL` a source, and in `STATEDIFF_ANSWER` and
`STATEDIFF_TRACE` the names of files it may write. Whatever ends the wait (the program itself, a
timeout, Ctrl-C), nothing that it began is left running, what left its session neither. What else
is kept from it, `isolation` says (`statediff.agents.isolation`).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from statediff.agents.commandline import (
    CommandLine,
    program_name,
    require_program,
)
from statediff.agents.handover import read_answer, read_trace
from statediff.agents.isolation import (
    NONE,
    Order,
    Supervised,
    boundary,
    endpoints,
    is_filtered,
    sockets,
)
from statediff.agents.own_secrets import entrusted_in
from statediff.agents.trial import AgentRun, Output, Trial
from statediff.agents.turns import serving_turns
from statediff.capture.source import Clock
from statediff.errors import AdapterError, UsageError
from statediff.evidence.disclosure.rules import NAME_VEIL
from statediff.model.trace import (
    BY_ITSELF,
    CRASHED,
    ENDED_BY_KILL,
    ENDED_BY_TIMEOUT,
    RunEnding,
)
from statediff.model.values import encode, printable
from statediff.systems.base.tool import url_variable
from statediff.total import in_any_case, twice

MAX_OUTPUT_BYTES: Final = 1024 * 1024
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_GRACE_SECONDS: Final = 0.2
"""How long output may still arrive after the whole process group is gone."""
LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True)
class CommandAgent:
    """An agent that is a program. `UsageError` at once if the program cannot be found."""

    command: tuple[str, ...]
    timeout_seconds: float = 600.0
    pass_environment: tuple[str, ...] = ()
    """Names of the evaluator's variables the program also gets, e.g. the key of its model."""
    name: str = ""
    halted: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    """Once set, no program of this agent runs or is begun any more: as after Ctrl-C."""
    environment: tuple[tuple[str, str], ...] = ()
    """Further variables the program gets."""
    stdin: Path | int | None = None
    """The program's standard input: a file, or an open one; None: nothing."""
    is_own: bool = False
    """It is the caller's own program: it runs in the caller's folder, with the caller's environment
    and standard input, and what it prints is passed on to standard error as well."""
    withheld: frozenset[str] = frozenset()
    """Variables of the caller's environment that its own program does not get."""
    isolation: str = NONE
    """One of `isolation.KINDS` that this machine allows."""
    hint: str = ""
    """A hint beside the error of a program that failed."""
    network: tuple[str, ...] = ()
    """`HOST:PORT` of what it reaches beside the trial's own endpoints, e.g. its model's API."""

    def __post_init__(self) -> None:
        if not self.timeout_seconds > 0:
            raise UsageError(f"an agent needs a timeout above 0 s, found {self.timeout_seconds}")
        require_program(self.command)
        name = NAME_VEIL.text(self.name or program_name(self.command))
        object.__setattr__(self, "name", name)

    @property
    def entrusted(self) -> tuple[str, ...]:
        """The variables that it is given by name and that may be secrets."""
        given = [(n, os.environ[n]) for n in self.pass_environment if n in os.environ]
        return entrusted_in(given)

    @staticmethod
    def parse(
        text: str, timeout_seconds: float = 600.0, name: str = "", folder: Path | None = None
    ) -> CommandAgent:
        """The agent whose command line, `NAME=COMMAND` or a command, is `text`.

        Its program is looked for in the folder, by default the current one; arguments are passed
        as written.
        """
        line = CommandLine.parse(text, folder)
        return CommandAgent(line.words, timeout_seconds, name=name or line.name, hint=line.hint)

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        with serving_turns(trial, partial(read_trace, trial.trace_path)) as turns:
            return self._run(trial, clock, dict(turns))

    def _run(self, trial: Trial, clock: Clock, turns: Mapping[str, str]) -> AgentRun:
        environment = {
            **agent_environment(trial, self.pass_environment),
            **(_without(self.withheld) if self.is_own else {}),
            **task_environment(trial),
            **dict(self.environment),
            **turns,
        }
        told = [*trial.urls.values(), *dict(self.environment).values(), *turns.values()]
        order = Order(
            command=[_program_path(self.command[0]), *self.command[1:]],
            environment=environment,
            folder=os.getcwd() if self.is_own else str(trial.folder),  # noqa: PTH109 - text
            isolation=self.isolation,
            writable=[str(place) for place in trial.writable],
            hidden=[str(place) for place in trial.hidden],
            endpoints=endpoints(told, self.network) if "namespaces" in self.isolation else (),
            sockets=sockets(told),
            is_filtered=is_filtered(self.isolation),
        )
        started_at = clock()
        require_going(self.halted)
        echo = _echo if self.is_own else None
        streams = {"stdout": StreamHead(echo=echo), "stderr": StreamHead(echo=echo)}
        with contextlib.ExitStack() as stack:
            try:
                given = stack.enter_context(self._input())
                supervised = stack.enter_context(Supervised(order, stdin=given))
            except (OSError, ValueError) as error:
                raise AdapterError(
                    f"the agent {self.name!r} could not be started: {error}"
                ) from error
            in_time = _attend(supervised, streams, self.timeout_seconds, self.halted)
        _drain(supervised.process, streams)
        if "failed" in supervised.answer:
            why = supervised.answer["failed"]
            raise AdapterError(f"the agent {self.name!r} could not be started: {why}")
        finished_at = clock()
        code = supervised.answer.get("status")
        refused = tuple(supervised.answer.get("refused", "").split())
        complaint = self._complaint(supervised.answer, in_time)
        if complaint is None:  # it may have tried whether a server of its own was up already
            refused = tuple(each for each in refused if not each.startswith(("127.", "[::1]")))
        return AgentRun(
            answer=read_answer(trial.answer_path, trial.answer_form),
            trace=read_trace(trial.trace_path),
            started_at=started_at,
            finished_at=finished_at,
            exit_code=code,
            error=complaint,
            command=tuple(NAME_VEIL.text(printable(word)) for word in order.command or ()),
            ending=program_ending(code, in_time),
            stdout=streams["stdout"].output(),
            stderr=streams["stderr"].output(),
            is_at_large=supervised.is_at_large,
            boundary=boundary(self.isolation),
            endpoints=tuple(f"{host}:{port}" for host, port in order.endpoints),
            refused=refused,
        )

    def _complaint(self, answer: Mapping[str, Any], in_time: bool) -> str | None:
        code = answer.get("status")
        if "overrun" in answer:
            return f"the agent {answer['overrun']} and was stopped"
        if not in_time:
            return f"the agent did not end within {self.timeout_seconds:g} s and was stopped"
        if code is None:
            return "the agent ended the process that watches over it; how it ended is not known"
        if code < 0:
            return f"the agent was ended by signal {-code}"
        hint = f" ({self.hint})" if self.hint else ""
        return f"the agent ended with exit code {code}{hint}" if code else None

    def _input(self) -> AbstractContextManager[IO[bytes] | int]:
        if isinstance(self.stdin, int):
            return contextlib.nullcontext(self.stdin)
        if self.is_own and self.stdin is None:
            # Who is isolated gets no terminal: what it writes there would be taken for ours.
            is_withheld = sys.stdin is None or (self.isolation != NONE and os.isatty(0))
            return contextlib.nullcontext(subprocess.DEVNULL if is_withheld else 0)
        return Path(os.devnull if self.stdin is None else self.stdin).open("rb")


def _program_path(program: str) -> str:
    """The absolute path at which a program is found as a shell would, if it is found."""
    return str(Path(shutil.which(program) or program).absolute())


def _without(withheld: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in withheld}


def _echo(piece: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads it: it is kept all the same
        sys.stderr.buffer.write(piece)
        sys.stderr.flush()


def agent_environment(trial: Trial, pass_environment: tuple[str, ...] = ()) -> dict[str, str]:
    """All an agent's program gets to see: nothing of the evaluator's environment but its PATH."""
    environment = {name: os.environ[name] for name in pass_environment if name in os.environ}
    environment |= {
        "PATH": os.environ.get("PATH", _DEFAULT_PATH),
        "HOME": str(trial.folder),
        "TMPDIR": str(trial.folder),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    return {**environment, **task_environment(trial)}


def task_environment(trial: Trial) -> dict[str, str]:
    """The environment of a program: its task, and where the systems are."""
    environment = {
        "STATEDIFF_TASK": trial.prompt,
        "STATEDIFF_INPUTS": json.dumps({n: _plain(v) for n, v in sorted(trial.inputs.items())}),
        "STATEDIFF_SEED": str(trial.seed),
        "STATEDIFF_ANSWER": str(trial.answer_path),
        "STATEDIFF_TRACE": str(trial.trace_path),
    }
    environment |= {url_variable(source): url for source, url in trial.urls.items()}
    return environment


@dataclass
class StreamHead:
    """The first bytes of a stream, and how many there were."""

    parts: list[bytes] = field(default_factory=list)
    seen: int = 0
    kept: int = 0
    echo: Callable[[bytes], None] | None = None
    """Gets every piece as it arrives."""

    def take(self, piece: bytes) -> None:
        if self.echo is not None:
            self.echo(piece)
        room = MAX_OUTPUT_BYTES - self.kept
        if room > 0:
            self.parts.append(piece[:room])
            self.kept += len(self.parts[-1])
        self.seen += len(piece)

    def output(self) -> Output:
        text = b"".join(self.parts).decode("utf-8", errors="backslashreplace")
        lines = (printable(line) for line in text.split("\n"))
        note = f"\n[{self.seen - self.kept} more bytes not kept]" if self.seen > self.kept else ""
        return Output("\n".join(lines) + note, self.seen, self.kept)


def _attend(
    supervised: Supervised,
    streams: Mapping[str, StreamHead],
    timeout_seconds: float,
    halted: threading.Event,
) -> bool:
    """Reads output until nothing of the program runs (True) or its time is over (False)."""
    process, deadline = supervised.process, time.monotonic() + timeout_seconds
    with selectors.DefaultSelector() as selector:
        selector.register(supervised.line, selectors.EVENT_READ, None)
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, name)
        while (left := deadline - time.monotonic()) > 0:
            require_going(halted)
            for key, _ in twice(partial(selector.select, min(left, LOOK_SECONDS))):
                if key.data is None:
                    supervised.take()
                    continue
                piece = _piece(key.fd)
                streams[key.data].take(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            if supervised.is_over:
                return True
    return False


def _piece(descriptor: int) -> bytes:
    """Read what a program has printed; empty where it has ended or cannot be read."""
    return in_any_case(lambda: os.read(descriptor, 65536), lambda _: b"")


def require_going(halted: threading.Event) -> None:
    """Nobody has asked the agent to end; what Ctrl-C is to one thread, this is to many."""
    if halted.is_set():
        raise KeyboardInterrupt


def _drain(process: subprocess.Popen[bytes], streams: Mapping[str, StreamHead]) -> None:
    """Read the rest of the pipes; a stray process that keeps one open is not awaited."""
    deadline = time.monotonic() + _GRACE_SECONDS
    pipes = {"stdout": process.stdout, "stderr": process.stderr}
    for name, pipe in pipes.items():
        if pipe is None:
            continue
        with pipe, contextlib.suppress(OSError):  # nothing more is there, or can be read
            while time.monotonic() < deadline and (piece := os.read(pipe.fileno(), 65536)):
                streams[name].take(piece)


def program_ending(code: int | None, in_time: bool) -> RunEnding:
    """How a program ended, by its exit code, or the negative signal; None: it ended its watcher."""
    if not in_time:
        return ENDED_BY_TIMEOUT
    if code is None or code < 0:
        return ENDED_BY_KILL
    return RunEnding(CRASHED if code else BY_ITSELF, code)


def _plain(value: object) -> object:
    """An input as plain JSON; what JSON has no word for is written as its tagged encoding."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    items = getattr(value, "items", None)
    if isinstance(items, tuple):
        return {name: _plain(item) for name, item in items}
    return encode(value)[1]  # type: ignore[arg-type]  # whatever else is a value
