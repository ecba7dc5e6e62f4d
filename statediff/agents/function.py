"""`module:function`: a Python function is an agent. It gets a `Trial` and returns its answer.

A function that is named runs in a process of its own (`NamedFunctionAgent`, `callee.py`), isolated
as a program is. One that is given as an object runs inside the evaluator's process
(`FunctionAgent`): it has no timeout and `isolation: none`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final, TypeAlias

from statediff.agents.callee import awaited, unreadable
from statediff.agents.command import CommandAgent
from statediff.agents.handover import (
    MAX_ANSWER_BYTES,
    MAX_HANDED_DEPTH,
    as_answer,
    read_answer,
    read_trace,
)
from statediff.agents.isolation import NONE
from statediff.agents.recorder import Recorder, recording
from statediff.agents.tools import tool_table
from statediff.agents.trial import AgentRun, Trial
from statediff.agents.turns import heard, say_to
from statediff.capture.source import Clock
from statediff.entrypoints import named_function
from statediff.errors import InputError, UsageError
from statediff.model.explanation import is_unread
from statediff.model.strictjson import read_json
from statediff.model.trace import ENDED_BY_ITSELF, ENDED_IN_CRASH, NoAnswer
from statediff.model.values import Value, encode, printable
from statediff.reads.library import Readable
from statediff.systems.base.privacy import CREDENTIALS, OF_KEYS
from statediff.systems.base.tool import ToolError

AgentFunction: TypeAlias = Callable[[Trial], Any]
Tool: TypeAlias = Callable[[str, Mapping[str, Any]], Any]
MAX_WORD_BYTES: Final = 8 * MAX_ANSWER_BYTES
"""The most bytes of one line of a function's process: its answer as escaped text."""


@dataclass(frozen=True)
class FunctionAgent:
    """An agent that is a function; whatever it raises is the agent's error, not a harness fault."""

    function: AgentFunction
    name: str

    @staticmethod
    def load(path: str) -> FunctionAgent:
        """The function that `module:function` names; `UsageError` if there is no such thing."""
        return FunctionAgent(named_function(path, "the agent"), path)

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        return _recorded(self._run, trial, clock)

    def _run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        error = wrong = None
        answer: Value | NoAnswer
        try:
            say = say_to(trial.user, partial(read_trace, trial.trace_path))
            returned = awaited(
                self.function(replace(trial, clock=clock, say=say, user=None, looks=None))
            )
        except (Exception, SystemExit) as raised:  # noqa: BLE001 — an agent may raise anything; that is a fact about the run
            error = f"the agent raised {type(raised).__name__}: {raised}"[:2000]
            answer = NoAnswer(error)
        else:
            # None: it may have written the answer file instead, as a program would.
            answer = (
                read_answer(trial.answer_path, trial.answer_form)
                if returned is None
                else as_answer(returned)
            )
            wrong = _unreadable(returned)
        trace = read_trace(trial.trace_path)
        ending = ENDED_IN_CRASH if error else ENDED_BY_ITSELF
        return AgentRun(
            answer, trace, started_at, clock(), error=error, ending=ending, unreadable=wrong
        )


def _unreadable(returned: object) -> str | None:
    try:
        json.dumps(returned, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        return unreadable(returned, error)
    return None


def _recorded(run_in: Callable[[Trial, Clock], AgentRun], trial: Trial, clock: Clock) -> AgentRun:
    """The run of the function; where there is a library, with the calls that it made of tools."""
    if trial.library is None:
        return run_in(trial, clock)
    with recording(clock) as recorder:
        run = _by_tools(run_in, trial, trial.library, clock, recorder)
        recorder.close()
        return replace(run, trace=recorder.trace(), finished_at=max(run.finished_at, clock()))


def _by_tools(
    run_in: Callable[[Trial, Clock], AgentRun],
    trial: Trial,
    library: Readable,
    clock: Clock,
    recorder: Recorder,
) -> AgentRun:
    """The function reads through the gate; the systems behind it are not given."""
    urls = {name: url for name, url in trial.urls.items() if name not in library.sources}
    user = heard(trial.user, recorder.so_far)
    table = tool_table(trial.urls, recorder, library, trial.tools, looks=trial.looks)

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        reply = table.call(name, dict(arguments))
        if reply.is_error:
            raise ToolError(reply.text)
        return json.loads(reply.text)

    try:
        return run_in(replace(trial, urls=urls, call=call, user=user), clock)
    finally:
        table.close()
        if urls:
            recorder.miss(f"it was given where to find {', '.join(sorted(urls))}")


@dataclass(frozen=True)
class NamedFunctionAgent:
    """A function of a module, called in a process of its own; the evaluator does not import it.

    The process has the caller's folder and environment, but for what statediff itself reads states
    with. What the function prints is passed on to standard error.
    """

    name: str
    """`module:function`."""
    isolation: str = NONE
    timeout_seconds: float = math.inf
    halted: Event = field(default_factory=Event, compare=False, repr=False)
    network: tuple[str, ...] = ()
    """As that of a program."""

    @staticmethod
    def named(path: str, isolation: str, timeout_seconds: float) -> NamedFunctionAgent:
        """`UsageError` where there is no such module."""
        module, _ = _names(path)
        try:
            is_there = importlib.util.find_spec(module) is not None
        except (ImportError, ValueError) as error:
            raise UsageError(f"the agent module {module!r} cannot be imported: {error}") from error
        if not is_there:
            raise UsageError(
                f"the agent module {module!r} cannot be imported: No module named {module!r}"
            )
        return NamedFunctionAgent(path, isolation, timeout_seconds)

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        return _recorded(self._run, trial, clock)

    def _run(self, trial: Trial, clock: Clock) -> AgentRun:
        ours, its = socket.socketpair()
        said: dict[str, Any] = {}
        with ours, its:
            order = {
                "function": self.name,
                "path": _import_path(),
                "has_tools": trial.call is not None,
                "trial": _as_json(trial),
            }
            say = say_to(trial.user, partial(read_trace, trial.trace_path))
            server = threading.Thread(target=_serve, args=(ours, order, trial.call, say, said))
            server.start()
            try:
                run = self._program(trial, its).run(replace(trial, user=None), clock)
            finally:
                its.close()
                ours.shutdown(socket.SHUT_RDWR)
                server.join()
        return _told(run, said)

    def _program(self, trial: Trial, its: socket.socket) -> CommandAgent:
        return CommandAgent(
            (sys.executable, "-B", "-m", "statediff.agents.callee"),
            self.timeout_seconds,
            name=self.name,
            halted=self.halted,
            environment=(
                ("PYTHONPATH", os.pathsep.join(_import_path())),
                ("TMPDIR", str(trial.folder)),
            ),
            stdin=its.fileno(),
            is_own=True,
            withheld=CREDENTIALS | OF_KEYS,
            isolation=self.isolation,
            network=self.network,
        )


def _names(path: str) -> tuple[str, str]:
    module, colon, attribute = path.partition(":")
    if not (module and colon and attribute):
        raise UsageError(f"expected module:function, found {path!r}")
    return module, attribute


def _import_path() -> list[str]:
    return [str(Path(each).absolute()) for each in sys.path]


def _as_json(trial: Trial) -> dict[str, Any]:
    return {
        "prompt": trial.prompt,
        "inputs": {name: encode(value) for name, value in trial.inputs.items()},
        "urls": dict(trial.urls),
        "folder": str(trial.folder),
        "answer_path": str(trial.answer_path),
        "trace_path": str(trial.trace_path),
        "seed": trial.seed,
        "answer_form": trial.answer_form,
    }


def _serve(
    ours: socket.socket,
    order: object,
    call: Tool | None,
    say: Callable[[Any], str | None],
    said: dict[str, Any],
) -> None:
    """The function's process has its order, tools and user; its last word is in `said`."""
    with contextlib.suppress(OSError, ValueError, RecursionError), ours.makefile("rwb") as line:
        line.write(json.dumps(order).encode("ascii") + b"\n")
        line.flush()
        while (raw := line.readline(MAX_WORD_BYTES)).endswith(b"\n"):
            word = json.loads(raw)
            if not isinstance(word, dict):
                return
            is_call = call is not None and isinstance(word.get("call"), str)
            if not is_call and "say" not in word:
                said |= word
                return
            arguments = word.get("arguments")
            try:
                if call is not None and is_call:
                    returned = call(word["call"], arguments if isinstance(arguments, dict) else {})
                else:
                    returned = say(word["say"])
                reply = {"text": json.dumps(returned), "is_error": False}
            except (ToolError, InputError) as error:
                reply = {"text": str(error), "is_error": True}
            line.write(json.dumps(reply).encode("ascii") + b"\n")
            line.flush()


def _told(run: AgentRun, said: Mapping[str, Any]) -> AgentRun:
    """The run with the function's answer, which it may have written to the file instead."""
    if isinstance(missing := said.get("missing"), str):
        raise UsageError(missing)
    run = replace(run, command=())  # the program that calls it is ours
    ending = run.ending and replace(run.ending, exit_code=None)  # a function returns no code
    plain = replace(run, exit_code=None, ending=ending)
    for key, shown in (("raised", "the agent raised {}"), ("unreadable", "{}")):
        if isinstance(why := said.get(key), str):
            cause = shown.format(printable(why[:2000]))
            if is_unread(cause):  # it is the agent's own word
                cause = f"the agent: {cause}"
            if key == "raised":
                crash = ENDED_IN_CRASH
                return replace(plain, answer=NoAnswer(cause), error=cause, ending=crash)
            return replace(plain, answer=NoAnswer(cause), unreadable=cause)
    if isinstance(text := said.get("returned"), str):
        raw = text.encode("utf-8", "surrogatepass")
        try:
            answer: Value | NoAnswer = read_json(
                raw, "answer", max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_HANDED_DEPTH
            )
        except InputError as error:
            answer = NoAnswer(str(error))
        return replace(plain, answer=answer)
    if "returned" not in said and run.error is None:
        return replace(run, error="the agent's process ended without a word", ending=ENDED_IN_CRASH)
    return plain
