"""Reads the two files an agent may leave: its answer and its own log of its calls.

Both are written by the agent and therefore hostile until read: only a regular file is opened,
without following a link and without waiting on a pipe, and no more than a cap is read. What
cannot be read is `NoAnswer(cause)` or an incomplete trace with a cause, never an exception.

A person who works by hand (`record`) is an agent that hands in nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from statediff.agents.own_log import MAX_ERROR, MAX_LOG_BYTES
from statediff.agents.trial import AgentRun, Trial, WrappedAgent
from statediff.capture.source import Clock
from statediff.capture.standing import closed_by
from statediff.errors import InputError
from statediff.model.explanation import by_run, unread_because
from statediff.model.strictjson import read_json
from statediff.model.trace import ENDED_BY_ITSELF, Action, ActionClass, NoAnswer, Trace, Turn
from statediff.model.values import Map, Unobserved, Value, printable
from statediff.total import twice

MAX_ANSWER_BYTES: Final = 1024 * 1024
MAX_HANDED_DEPTH: Final = 32
"""Each level of a value takes two in a bundle, which allows 100."""
MAX_TRACE_LINE_BYTES: Final = 1024 * 1024
SELF_RECORDED: Final = "recorded by the agent itself"
LACKS: Final = "the log says that it lacks calls: "
NOT_ENDED: Final = "the call had not ended when the agent did"
PAST_THE_TOOLS: Final = "nothing keeps the program from the systems behind its tools"
NOT_RECORDED: Final = "the agent's calls were not recorded"
_BEGIN_KEYS: Final = {"class", "started_at", "principal", "tool", "arguments", "attempt"}
_END_KEYS: Final = {"error", "finished_at", "result"}
_CLASSES: Final = {entry.value: entry for entry in ActionClass}


def read_answer(path: Path, form: str = "json") -> Value | NoAnswer:
    """The answer in the file, or why there is none; with `form` text, prose or a JSON text."""
    try:
        raw = read_handed_file(path, MAX_ANSWER_BYTES)
        if raw is None:
            return NoAnswer("the agent wrote no answer file")
        return answer_in(raw, "answer", form, MAX_HANDED_DEPTH)
    except _Unread as error:
        return NoAnswer(unread_because(str(error)))
    except InputError as error:
        return NoAnswer(str(error))


def as_answer(returned: object) -> Value | NoAnswer:
    """A function's result, read as if it had been written to the answer file."""
    try:
        raw = json.dumps(returned, ensure_ascii=False, allow_nan=False).encode("utf-8")
        return read_json(raw, "answer", max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_HANDED_DEPTH)
    except (TypeError, ValueError, RecursionError) as error:
        return NoAnswer(f"the answer is not JSON: {error}")
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
    reply in it. A call of `own_log` has a line where it begins, and one where it ends. A log of
    more than `MAX_LOG_BYTES` is read as far.
    """
    try:
        raw = read_handed_file(path, MAX_LOG_BYTES, is_cut=True)
    except _Unread as error:
        return Trace(cause=unread_because(str(error)))
    except InputError as error:
        return Trace(cause=by_run(str(error)))
    if raw is None:
        return Trace(cause=NOT_RECORDED)
    log = _Log()
    lines = raw.split(b"\n")
    if len(raw) > MAX_LOG_BYTES:
        log.missed = by_run(f"{path.name} has more than the {MAX_LOG_BYTES} bytes that are read")
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            log.take(line, f"trace line {number}")
        except InputError as error:
            return log.trace(by_run(str(error)))
    return log.trace(SELF_RECORDED if log.missed is None else LACKS + log.missed)


class _Unread(InputError):
    """The file could not be read, and the agent is no reason."""


def read_handed_file(path: Path, max_bytes: int, *, is_cut: bool = False) -> bytes | None:
    """The bytes of a regular file; None if there is none; `InputError` for anything else.

    With `is_cut`, of a larger file its first `max_bytes` and one more.

    Links are not followed and pipes not waited for; the kind is checked on the opened file. What
    fails is tried once more.
    """
    try:
        raw = twice(lambda: _content(path, max_bytes + 1), (InputError,))
    except OSError as error:
        why = closed_by(path) if error.errno in _OF_RIGHTS else None
        words = f"{path.name} is unreadable: {error.strerror}"
        if why is None:
            raise _Unread(words) from error
        raise InputError(f"{words} ({why}); expected a regular file") from error
    if raw is not None and len(raw) > max_bytes and not is_cut:
        raise InputError(f"{path.name} has more than the {max_bytes} bytes that are read")
    return raw


_OF_RIGHTS: Final = (errno.EACCES, errno.EPERM)


def _content(path: Path, most: int) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path.name} is a symbolic link; expected a regular file") from error
        if error.errno in (errno.ENXIO, errno.ENOTDIR, errno.ENODEV, errno.ENAMETOOLONG):
            raise InputError(
                f"{path.name} is unreadable: {error.strerror}; expected a regular file"
            ) from error
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"{path.name} is {_kind(mode)}; expected a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"


class _Log:
    """The calls and turns of a log, line by line; `missed` is what the log says that it lacks."""

    def __init__(self) -> None:
        self.missed: str | None = None
        self._actions: list[Action] = []
        self._turns: list[Turn] = []
        self._open: dict[str, int] = {}
        """Positions of the calls that have begun, by their ids in the log."""
        self._failed: dict[tuple[str, str], int] = {}

    def trace(self, cause: str) -> Trace:
        """The trace in the lines; a call without an end failed, as far as anybody knows."""
        for at in self._open.values():
            self._actions[at] = replace(self._actions[at], error=NOT_ENDED)
        return Trace(tuple(self._actions), False, cause, True, tuple(self._turns) or None)

    def take(self, line: bytes, what: str) -> None:
        """One more line: a call, its beginning or end, a message of the user, or the reply."""
        entry = read_json(line, what, max_bytes=MAX_TRACE_LINE_BYTES, max_depth=MAX_HANDED_DEPTH)
        if not isinstance(entry, Map):
            raise InputError(f"{what}: expected an object")
        members = dict(entry.items)
        if members.keys() == {"user"}:
            message = members["user"]
            if not isinstance(message, str):
                raise InputError(f"{what}: expected text under `user`")
            self._turns.append(Turn(message, len(self._actions)))
        elif members.keys() == {"reply"}:
            if not self._turns:
                raise InputError(f"{what}: a reply before the first message of the user")
            self._turns[-1] = replace(self._turns[-1], reply=members["reply"])
        elif members.keys() == {"missed"}:
            self.missed = (
                self.missed or _optional_text(members, "missed", what) or "nobody says why"
            )
        elif "begin" in members:
            self._begin(members, what)
        elif "end" in members:
            self._end(members, what)
        else:
            _require_keys(members, _BEGIN_KEYS | _END_KEYS, what)
            self._actions.append(_action(members, what, len(self._actions) + 1))

    def _begin(self, members: dict[str, Value], what: str) -> None:
        _require_keys(members, _BEGIN_KEYS | {"begin"}, what)
        call = _optional_text(members, "begin", what) or ""
        if call in self._open:
            raise InputError(f"{what}: a call begins that has not ended")
        action = _action(members, what, len(self._actions) + 1)
        if "attempt" not in members:
            attempt = self._failed.get(_likeness(action), 0) + 1
            action = replace(action, attempt=attempt)
        self._open[call] = len(self._actions)
        self._actions.append(action)

    def _end(self, members: dict[str, Value], what: str) -> None:
        _require_keys(members, _END_KEYS | {"end"}, what)
        call = _optional_text(members, "end", what) or ""
        if call not in self._open:
            raise InputError(f"{what}: a call ends that has not begun")
        known = _ending(members, what)
        at = self._open.pop(call)
        action = self._actions[at] = replace(self._actions[at], **known)
        if isinstance(action.arguments, Unobserved):
            return  # no two of them are known to be one call again
        likeness = _likeness(action)
        if action.error is None:
            self._failed.pop(likeness, None)
        else:
            self._failed[likeness] = self._failed.get(likeness, 0) + 1


def _likeness(action: Action) -> tuple[str, str]:
    """The same for two calls of one tool with the same arguments, `1` and `true` being two."""
    return action.tool, repr(action.arguments)


def _require_keys(members: dict[str, Value], known: set[str], what: str) -> None:
    unknown = sorted(members.keys() - known - {"unobserved"})
    if unknown:
        raise InputError(f"{what}: unknown key {unknown[0][:60]!r}")


def _ending(members: dict[str, Value], what: str) -> dict[str, Any]:
    return {
        "result": _unobserved(members, "result", what) or members.get("result"),
        "error": _optional_text(members, "error", what),
        "finished_at": _instant(members, "finished_at", what),
    }


def _unobserved(members: dict[str, Value], key: str, what: str) -> Unobserved | None:
    """Why the log does not say the value under the key; None where it does not say why."""
    causes = members.get("unobserved", Map(()))
    if not isinstance(causes, Map) or not {*causes} <= {"arguments", "result"}:
        raise InputError(f"{what}: expected the causes of what is missing under `unobserved`")
    cause = dict(causes.items).get(key)
    if cause is None:
        return None
    if not isinstance(cause, str) or key in members:
        raise InputError(f"{what}: expected why there is no {key} under `unobserved`")
    return Unobserved(f"{what}: {printable(cause[:MAX_ERROR])}")


def _action(members: dict[str, Value], what: str, position: int) -> Action:
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
        arguments=_unobserved(members, "arguments", what) or arguments,
        principal=_optional_text(members, "principal", what),
        attempt=attempt,
        started_at=_instant(members, "started_at", what),
        **_ending(members, what),
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
class TrustedAgent(WrappedAgent):
    """Another agent, for whose own log of its calls the caller answers (`trust_trace`).

    A log that is not there, that is damaged, or that says itself what it lacks, stays what it is.
    """

    is_trace_trusted: bool = True

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
        return AgentRun(answer, trace, started_at, clock(), ending=ENDED_BY_ITSELF)
