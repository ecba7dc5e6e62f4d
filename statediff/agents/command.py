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
import re
import selectors
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Final

from statediff.agents.handover import read_answer, read_trace
from statediff.agents.isolation import NONE, Order, Supervised
from statediff.agents.trial import AgentRun, Output, Trial
from statediff.agents.turns import serving_turns
from statediff.agents.veil import NAME_VEIL
from statediff.capture.source import Clock
from statediff.errors import AdapterError, UsageError
from statediff.model.values import encode, printable
from statediff.systems.base.tool import url_variable

MAX_OUTPUT_BYTES: Final = 1024 * 1024
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_GRACE_SECONDS: Final = 0.2
"""How long output may still arrive after the whole process group is gone."""
LOOK_SECONDS: Final = 0.05
_INTERPRETER: Final = re.compile(
    r"(?:python|pypy|node|bun|deno|ruby|perl|php|sh|bash|dash|zsh)[0-9.]*|env|uv|uvx|poetry|pipx|npx"
)
_RUNNERS: Final = frozenset({"uv", "poetry", "pipx", "deno", "bun"})
_WITH_VALUE: Final = frozenset({"-W", "-X"})
"""Options of interpreters whose value is a word of its own."""
_CODE: Final = frozenset({"-c", "-e"})


def program_name(command: Sequence[str]) -> str:
    """What people call the program: its script or module, rather than the interpreter's name.

    That of the first word where the code itself is on the command line.
    """
    words, before = iter(command), ""
    for word in words:
        name = Path(word).name
        if word in _CODE:
            break
        if word in _WITH_VALUE:
            next(words, None)
        elif not (
            word.startswith("-")
            or _INTERPRETER.fullmatch(name)
            or (before == "env" and "=" in word)
            or (before in _RUNNERS and word == "run")
        ):
            return name
        before = before if "=" in word else name
    return Path(command[0]).name


_RUN_BY: Final = {".sh": "sh", ".bash": "bash", ".js": "node", ".mjs": "node", ".rb": "ruby"}


def how_to_run(program: str, after: str = "") -> str:
    """What to do with a program's file that cannot be executed."""
    by = _RUN_BY.get(Path(program).suffix.lower(), "python")
    return f"name what runs it, e.g. {after}{by} {program}, or make it executable (chmod +x)"


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
    """What the program reads on standard input: a file, or an open one; None: nothing."""
    is_own: bool = False
    """It is the caller's own program: it runs in the caller's folder, with the caller's environment
    and standard input, and what it prints is passed on to standard error as well."""
    withheld: frozenset[str] = frozenset()
    """Of the caller's environment, what its own program does not get."""
    isolation: str = NONE
    """One of `isolation.KINDS` that this machine allows."""

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError("the agent command is empty; expected a program and its arguments")
        if not self.timeout_seconds > 0:
            raise UsageError(f"an agent needs a timeout above 0 s, found {self.timeout_seconds}")
        if shutil.which(self.command[0]) is None:
            program = printable(self.command[0])
            if Path(self.command[0]).is_file():
                raise UsageError(
                    f"the agent program '{program}' cannot be executed; {how_to_run(program)}"
                )
            raise UsageError(f"the agent program '{program}' is not found")
        name = NAME_VEIL.text(self.name or shlex.join(self.command))
        object.__setattr__(self, "name", name)

    @staticmethod
    def parse(text: str, timeout_seconds: float = 600.0, name: str = "") -> CommandAgent:
        """The agent whose command line is `text`, split as a shell would, run by none.

        The program runs in a folder of its own, so words that name files of the caller's folder
        become absolute.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"the agent command {text!r} cannot be split: {error}") from error
        return CommandAgent(tuple(map(_absolute, words)), timeout_seconds, name=name or text)

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
        program = shutil.which(self.command[0]) or self.command[0]
        order = Order(
            command=[str(Path(program).absolute()), *self.command[1:]],
            environment=environment,
            folder=os.getcwd() if self.is_own else str(trial.folder),  # noqa: PTH109 - text
            isolation=self.isolation,
            writable=[str(place) for place in trial.writable],
            hidden=[str(place) for place in trial.hidden],
        )
        started_at = clock()
        require_going(self.halted)
        echo = _echo if self.is_own else None
        streams = {"stdout": StreamHead(echo=echo), "stderr": StreamHead(echo=echo)}
        try:
            with self._input() as given, Supervised(order, stdin=given) as supervised:
                in_time = _attend(supervised, streams, self.timeout_seconds, self.halted)
        except (OSError, ValueError) as error:
            raise AdapterError(f"the agent {self.name!r} could not be started: {error}") from error
        _drain(supervised.process, streams)
        if "failed" in supervised.answer:
            why = supervised.answer["failed"]
            raise AdapterError(f"the agent {self.name!r} could not be started: {why}")
        finished_at = clock()
        code = supervised.answer.get("status")
        return AgentRun(
            answer=read_answer(trial.answer_path, trial.answer_form),
            trace=read_trace(trial.trace_path),
            started_at=started_at,
            finished_at=finished_at,
            exit_code=code,
            error=_complaint(code, in_time, self.timeout_seconds),
            stdout=streams["stdout"].output(),
            stderr=streams["stderr"].output(),
            is_at_large=supervised.is_at_large,
        )

    def _input(self) -> AbstractContextManager[IO[bytes] | int]:
        if isinstance(self.stdin, int):
            return contextlib.nullcontext(self.stdin)
        if self.is_own and self.stdin is None:
            return contextlib.nullcontext(subprocess.DEVNULL if sys.stdin is None else 0)
        return Path(os.devnull if self.stdin is None else self.stdin).open("rb")


def _absolute(word: str) -> str:
    """A word of a command line; absolute where it is the relative path of something here."""
    if word.startswith(("-", "/")) or word in (".", ".."):
        return word
    try:
        return str(Path(word).absolute()) if Path(word).exists() else word
    except (OSError, ValueError):
        return word


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
    """What a program is given: its task, and where the systems are."""
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
            for key, _ in selector.select(min(left, LOOK_SECONDS)):
                if key.data is None:
                    supervised.take()
                    continue
                piece = os.read(key.fd, 65536)
                streams[key.data].take(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            if supervised.is_over:
                return True
    return False


def require_going(halted: threading.Event) -> None:
    """Nobody has asked the agent to end; what Ctrl-C is to one thread, this is to many."""
    if halted.is_set():
        raise KeyboardInterrupt


def _drain(process: subprocess.Popen[bytes], streams: Mapping[str, StreamHead]) -> None:
    """What was still in the pipes is read; a stray process that keeps one open is not awaited."""
    deadline = time.monotonic() + _GRACE_SECONDS
    pipes = {"stdout": process.stdout, "stderr": process.stderr}
    for name, pipe in pipes.items():
        if pipe is None:
            continue
        with pipe, contextlib.suppress(BlockingIOError):
            while time.monotonic() < deadline and (piece := os.read(pipe.fileno(), 65536)):
                streams[name].take(piece)


def _complaint(code: int | None, in_time: bool, timeout_seconds: float) -> str | None:
    if not in_time:
        return f"the agent did not end within {timeout_seconds:g} s and was stopped"
    if code is None:
        return "the agent ended the process that watches over it; how it ended is not known"
    if code < 0:
        return f"the agent was ended by signal {-code}"
    return f"the agent ended with exit code {code}" if code else None


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
