"""Reads the two files an agent may leave: its answer and its own log of its calls.

Both are written by the agent and therefore hostile until read: only a regular file is opened,
without following a link and without waiting on a pipe, and no more than a cap is read. What
cannot be read is `NoAnswer(cause)` or an incomplete trace with a cause, never an exception.

A person who works by hand (`record`) is an agent that hands in nothing else.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Final

from statediff.agents.trial import Agent, AgentRun, Haltable, Isolated, Trial
from statediff.capture.source import Clock
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.trace import Action, ActionClass, NoAnswer, Trace, Turn
from statediff.model.values import Map, Unobserved, Value

MAX_ANSWER_BYTES: Final = 1024 * 1024
MAX_HANDED_DEPTH: Final = 32
"""Each level of a value takes two in a bundle, which allows 100."""
MAX_TRACE_BYTES: Final = 16 * 1024 * 1024
MAX_TRACE_LINE_BYTES: Final = 1024 * 1024
SELF_RECORDED: Final = "recorded by the agent itself"
PAST_THE_TOOLS: Final = "nothing keeps the program from the systems behind its tools"
NOT_RECORDED: Final = "the agent's calls were not recorded"
_OPTIONAL_TEXTS: Final = {"error", "class", "started_at", "finished_at", "principal"}
_KEYS: Final = {"tool", "arguments", "result", "attempt"} | _OPTIONAL_TEXTS
_CLASSES: Final = {entry.value: entry for entry in ActionClass}


def read_answer(path: Path, form: str = "json") -> Value | NoAnswer:
    """The answer in the file, or why there is none; with `form` text, prose or a JSON text."""
    try:
        raw = read_handed_file(path, MAX_ANSWER_BYTES)
        if raw is None:
            return NoAnswer("the agent wrote no answer file")
        return answer_in(raw, "answer", form, MAX_HANDED_DEPTH)
    except InputError as error:
        return NoAnswer(str(error))


def answer_in(raw: bytes, name: str, form: str, max_depth: int | None = None) -> Value:
    """The answer that the bytes are; `InputError` where they are none.

    Prose is UTF-8 text without the line ends at its end, or a text as JSON writes it.
    """
    depth = {} if max_depth is None else {"max_depth": max_depth}
    if form != "text":
        return read_json(raw, name, max_bytes=MAX_ANSWER_BYTES, **depth)
    with contextlib.suppress(InputError):
        read = read_json(raw, name, max_bytes=MAX_ANSWER_BYTES, **depth)
        if isinstance(read, str):
            return read
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: expected UTF-8 text: byte {error.start} is none") from None
    return text.rstrip("\r\n")


def read_trace(path: Path) -> Trace:
    """The calls in the file up to the first bad line. Never complete: the agent wrote it itself.

    A line is a call, or `{"user": TEXT}`, which begins a turn, or `{"reply": …}`, the agent's
    reply in it.
    """
    try:
        raw = read_handed_file(path, MAX_TRACE_BYTES)
    except InputError as error:
        return Trace(cause=str(error))
    if raw is None:
        return Trace(cause=NOT_RECORDED)
    actions: list[Action] = []
    turns: list[Turn] = []
    cause = SELF_RECORDED
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            _take(line, f"trace line {number}", actions, turns)
        except InputError as error:
            cause = str(error)
            break
    return Trace(tuple(actions), False, cause, True, tuple(turns) or None)


def read_handed_file(path: Path, max_bytes: int) -> bytes | None:
    """The bytes of a regular file; None if there is none; `InputError` for anything else.

    Links are not followed and pipes not waited for; the kind is checked on the opened file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        kind = "a symbolic link" if path.is_symlink() else f"unreadable: {error.strerror}"
        raise InputError(f"{path.name} is {kind}; expected a regular file") from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"{path.name} is {_kind(mode)}; expected a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"{path.name} is unreadable: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(raw) > max_bytes:
        raise InputError(f"{path.name} has more than the {max_bytes} bytes that are read")
    return raw


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def _take(line: bytes, what: str, actions: list[Action], turns: list[Turn]) -> None:
    """One more line of a trace: a call, a message of the user, or the agent's reply."""
    entry = read_json(line, what, max_bytes=MAX_TRACE_LINE_BYTES, max_depth=MAX_HANDED_DEPTH)
    if not isinstance(entry, Map):
        raise InputError(f"{what}: expected an object")
    members = dict(entry.items)
    if members.keys() == {"user"}:
        message = members["user"]
        if not isinstance(message, str):
            raise InputError(f"{what}: expected text under `user`")
        turns.append(Turn(message, len(actions)))
    elif members.keys() == {"reply"}:
        if not turns:
            raise InputError(f"{what}: a reply before the first message of the user")
        turns[-1] = replace(turns[-1], reply=members["reply"])
    else:
        actions.append(_action(members, what, len(actions) + 1))


def _action(members: dict[str, Value], what: str, position: int) -> Action:
    unknown = sorted(set(members) - _KEYS)
    if unknown:
        raise InputError(f"{what}: unknown key {unknown[0][:60]!r}")
    tool = members.get("tool")
    if not isinstance(tool, str) or not tool:
        raise InputError(f"{what}: expected the tool's name under `tool`")
    # What the log does not say of a call is unobserved: it is not a call without arguments.
    arguments = members.get("arguments", Unobserved(f"{what} does not say the arguments"))
    if not isinstance(arguments, (Map, Unobserved)):
        raise InputError(f"{what}: expected an object under `arguments`")
    attempt = members.get("attempt", 1)
    if isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 1:
        raise InputError(f"{what}: expected a number from 1 under `attempt`")
    name = _optional_text(members, "class", what) or ActionClass.UNKNOWN.value
    if name not in _CLASSES:
        raise InputError(f"{what}: `class` is one of {', '.join(_CLASSES)}; found {name[:60]!r}")
    return Action(
        id=f"call-{position}",
        tool=tool,
        action_class=_CLASSES[name],
        arguments=arguments,
        result=members.get("result"),
        error=_optional_text(members, "error", what),
        principal=_optional_text(members, "principal", what),
        attempt=attempt,
        started_at=_instant(members, "started_at", what),
        finished_at=_instant(members, "finished_at", what),
    )


def _optional_text(members: dict[str, Value], key: str, what: str) -> str | None:
    value = members.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{what}: expected text under `{key}`")
    return value


def _instant(members: dict[str, Value], key: str, what: str) -> datetime | None:
    text = _optional_text(members, key, what)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{what}: `{key}` is not an ISO 8601 instant: {text[:40]!r}") from error
    if moment.tzinfo is None:
        raise InputError(f"{what}: `{key}` has no zone: {text[:40]!r}; write e.g. {text[:19]}Z")
    return moment.astimezone(UTC)


@dataclass(frozen=True)
class TrustedAgent:
    """Another agent, for whose own log of its calls the caller answers (`--trust-trace`).

    A log that is not there, that is damaged, or that says itself what it lacks, stays what it is.
    """

    agent: Agent
    is_trace_trusted: bool = True

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def isolation(self) -> str:
        """The agent's own."""
        return self.agent.isolation if isinstance(self.agent, Isolated) else "none"

    @property
    def halted(self) -> Event:
        """The agent's own; of one that nobody can end, an event that nobody heeds."""
        return self.agent.halted if isinstance(self.agent, Haltable) else Event()

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        run = self.agent.run(trial, clock)
        trace = run.trace
        if trace.cause in (SELF_RECORDED, PAST_THE_TOOLS):
            trace = replace(trace, is_complete=True, is_agent_influenced=False, cause="")
        return replace(run, trace=trace)


@dataclass(frozen=True)
class Person:
    """Someone who works on the systems by hand; `wait` returns when they say that they are done."""

    wait: Callable[[Trial], None]
    name: str = "person"

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        self.wait(trial)
        answer = read_answer(trial.answer_path, trial.answer_form)
        trace = read_trace(trial.trace_path)
        return AgentRun(answer, trace, started_at, clock())
