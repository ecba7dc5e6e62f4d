"""The recorder: a log of calls that the harness keeps, between the agent and what it calls.

Anyone who carries out the agent's calls (a server of tools, a proxy, a loop around a model) tells
the recorder when one begins and when it ends:

    with recording(clock) as recorder:
        call = recorder.begin("issue_refund", {"order": 1009})
        …
        recorder.end(call, result={"refund": 7}, transactions=[Mark("shop-db", "41")])
        recorder.close()
        trace = recorder.trace()

Ids are minted here and the clock is an argument, so that the same calls leave the same bytes. The
log is in this process's memory, where a program that shares our user has no file to change. With a
`path` each line is in that file as well before the call goes on, whatever thread it came from: when
the process dies, the file still says what had begun. What happens to the file changes no trace of
this process; a running digest shows it, and the log is then not complete. Texts and values are
bounded; what was too large to keep is *unobserved*, never cut, for a cut value would be another
value. Nothing else is changed: what is recorded is judged.

The log is complete only if it was closed in order and nothing of it failed. Anyone who knows of
calls that went past the recorder says so with `miss`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from statediff.agents.own_log import bounded
from statediff.agents.own_secrets import OwnSecrets
from statediff.atomic import write_atomically
from statediff.capture.source import Clock
from statediff.errors import BundleError, InputError, StorageError
from statediff.evidence.canonical import read, write
from statediff.evidence.documents import ACTION, answer_document, trace_from
from statediff.model.explanation import by_run
from statediff.model.strictjson import read_json
from statediff.model.trace import NO_REPLY, Action, ActionClass, Excerpt, Mark, Trace
from statediff.model.values import Map, Unobserved, Value, encode, printable

FORM: Final = "statediff.calls/1"
NO_SECRETS: Final = OwnSecrets()
MAX_CALLS: Final = 100_000
MAX_VALUE_BYTES: Final = 64 * 1024
"""The most bytes of one call's arguments, or of its result, as JSON."""
MAX_LOG_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of all lines: further calls keep their names, and no values."""
MAX_DEPTH: Final = 32
MAX_ERROR: Final = 2000
MAX_NAME: Final = 200
STOPPED: Final = "the recorder was stopped before the run was over"
NOT_ENDED: Final = "the call had not ended when the recorder was closed"
CHANGED: Final = by_run(
    "the log's file was changed, replaced or removed while calls were recorded, by a program that "
    "can write it; the calls that are kept were read before"
)


class Recorder:
    """An append-only log of one run; safe to use from several threads."""

    def __init__(
        self,
        path: Path | None,
        clock: Clock,
        *,
        principal: str | None = "agent",
        own: OwnSecrets = NO_SECRETS,
    ) -> None:
        """With a path the file is there, holding its form; `StorageError` if it was before.

        `own` are secrets of ours that are not to be in it, where nobody takes them out later.
        """
        self._own = own
        self._clock = clock
        self._lines: list[bytes] = []
        self._bytes = 0
        self._principal = principal
        self._lock = threading.Lock()
        self._number = 0
        self._open: dict[str, bytes] = {}
        self._failed: dict[bytes, int] = {}
        self._gap: str | None = None
        self._is_closed = False
        self._file = None if path is None else _LogFile(path)
        self._write({"form": FORM})

    def begin(
        self,
        tool: str,
        arguments: object = None,
        *,
        class_: ActionClass = ActionClass.UNKNOWN,
        principal: str | None = None,
        parent: str | None = None,
        context: str | None = None,
        messages: str | None = None,
    ) -> str:
        """A call is in the log; its id. To be called before anything of it is carried out.

        `arguments` is a `Map`, an object of JSON, `Unobserved`, or whatever else the agent sent in
        their place. The attempt is one more than the failed calls of the same tool with the same
        arguments since one succeeded.
        """
        kept = self._value({} if arguments is None else arguments)
        if not isinstance(kept, (Map, Unobserved)):
            kept = Map.of({"unparsed": kept})
        name = printable(tool[:MAX_NAME]) or "(no name)"
        likeness = _digest(name, kept)
        with self._lock:
            self._number += 1
            call = f"call-{self._number}"
            self._open[call] = likeness
            action = Action(
                call,
                name,
                action_class=class_,
                arguments=kept,
                principal=self._principal if principal is None else self._own.text(principal),
                attempt=self._failed.get(likeness, 0) + 1,
                started_at=self._clock(),
                parent=parent,
                context=None if context is None else Excerpt.of(self._own.text(context)),
                messages=None if messages is None else Excerpt.of(self._own.text(messages)),
            )
            self._write({"begin": ACTION.encode(action)})
        return call

    def end(
        self,
        call: str,
        *,
        result: object = None,
        error: str | None = None,
        class_: ActionClass | None = None,
        transactions: Iterable[Mark] | None = None,
    ) -> None:
        """The call is over. `KeyError` if it had not begun, or was over already.

        `transactions` are all those that the call made; None where that is not known.
        """
        kept = self._value(result)
        marks = None if transactions is None else [[m.source, m.name] for m in transactions]
        with self._lock:
            likeness = self._open.pop(call)
            if error is None:
                self._failed.pop(likeness, None)
            else:
                self._failed[likeness] = self._failed.get(likeness, 0) + 1
            self._write(
                {
                    "end": call,
                    "result": encode(kept),
                    "error": None if error is None else bounded(self._own.text(error), MAX_ERROR),
                    "class": None if class_ is None else class_.value,
                    "transactions": marks,
                    "finished_at": encode(self._clock()),
                }
            )

    def user(self, message: str) -> None:
        """A message of the user, with which a turn begins."""
        with self._lock:
            self._write({"user": bounded(self._own.text(message), MAX_VALUE_BYTES)})

    def reply(self, reply: object) -> None:
        """The agent's reply to the user at the end of the turn."""
        kept = log_value(self._own.value(reply))
        with self._lock:
            if isinstance(kept, Unobserved):
                self._miss(kept.cause)
            else:
                self._write({"reply": answer_document(kept)})

    def miss(self, cause: str) -> None:
        """The log is not complete: calls were made, or may have been, that it does not hold."""
        with self._lock:
            self._miss(cause)

    def close(self) -> None:
        """Nothing more is recorded. The log is complete if nothing was missed and all ended."""
        with self._lock:
            if self._is_closed:
                return
            if self._open and self._gap is None:
                self._gap = f"{next(iter(self._open))}: {NOT_ENDED}"
            is_changed = self._file is not None and not self._file.is_as_written()
            if is_changed:
                self._gap = self._gap or CHANGED
            self._write({"closed": self._gap})
            self._is_closed = True
            if self._file is not None:
                self._file.close(self._lines if is_changed else None)

    def trace(self) -> Trace:
        """The trace as this process wrote it; complete only once closed."""
        with self._lock:
            trace = _trace(self._lines, "the log of calls")
            gap = self._gap
        if gap is None or trace.gap is not None:
            return trace
        return replace(trace, is_complete=False, cause=gap)

    def so_far(self) -> Trace:
        """The trace up to now: complete unless something was missed or a call is under way."""
        with self._lock:
            gap = self._gap or (NOT_ENDED if self._open else None)
            return _trace([*self._lines, write({"closed": gap}) + b"\n"], "the log of calls")

    @property
    def calls(self) -> int:
        """How many calls have begun."""
        return self._number

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _miss(self, cause: str) -> None:
        if self._gap is None:
            self._gap = bounded(self._own.text(cause), MAX_ERROR)
            self._write({"missed": self._gap})

    def _value(self, raw: object) -> Value | Unobserved:
        if self._bytes > MAX_LOG_BYTES:
            cause = f"the log has more than {MAX_LOG_BYTES} bytes and keeps no values"
            return Unobserved(by_run(cause))
        return log_value(self._own.value(raw))

    def _write(self, entry: dict[str, Any]) -> None:
        """One more line. A disk that is full does not end the run: the log is then incomplete."""
        if self._is_closed:
            self._gap = self._gap or by_run("a call was made after the recorder was closed")
            return
        if self._number > MAX_CALLS:
            self._gap = self._gap or by_run(f"there are more than {MAX_CALLS} calls")
            if "closed" not in entry:
                return
        line = write(entry) + b"\n"
        self._lines.append(line)
        self._bytes += len(line)
        if self._file is not None:
            problem = self._file.problem(line)
            self._gap = self._gap or problem


class _LogFile:
    """The copy of a log that outlives this process; only what was written to it is vouched for."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._path = path
        self._digest = hashlib.sha256()
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise StorageError(
                f"{path} cannot be made: {error.strerror}; a log of calls is never written over"
            ) from error

    def problem(self, line: bytes) -> str | None:
        """Why the line is not in the file; None where it is."""
        try:
            self._digest.update(line)
            if os.write(self._file, line) != len(line):
                return "a line of the log could not be written whole"
        except OSError as error:
            return f"a line of the log could not be written: {error.strerror}"
        return None

    def is_as_written(self) -> bool:
        """True if the path leads to the file still, and it holds what was written and no more."""
        found, at = hashlib.sha256(), 0
        try:
            if not os.path.samestat(self._path.lstat(), os.fstat(self._file)):
                return False
            while piece := os.pread(self._file, 1 << 20, at):
                found.update(piece)
                at += len(piece)
        except OSError:
            return False
        return found.digest() == self._digest.digest()

    def close(self, anew: Iterable[bytes] | None) -> None:
        """Nothing more is written; with lines, they are what is in the file now."""
        os.close(self._file)
        if anew is not None:
            with contextlib.suppress(OSError):  # its folder is gone: the trace has the calls
                write_atomically(self._path, b"".join(anew), mode=0o600)


def recording(clock: Clock, *, principal: str | None = "agent") -> Recorder:
    """A recorder without a file, for one block."""
    return Recorder(None, clock, principal=principal)


def read_calls(path: Path) -> Trace:
    """The trace that a recorder left, up to the first line that it cannot have written whole.

    Calls that never ended are in it with that as their error. `InputError` if there is no log.
    """
    try:
        with path.open("rb") as lines:
            return _trace(lines, path.name)
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from error


def _trace(lines: Iterable[bytes], name: str) -> Trace:
    actions: list[Any] = []
    at: dict[str, int] = {}
    turns: list[Any] = []
    gap: str | None = STOPPED
    rest = iter(lines)
    if _entry(next(rest, b""), name) != {"form": FORM}:
        raise InputError(f"{name} is no log of calls: expected the form {FORM}")
    for number, line in enumerate(rest, start=2):
        try:
            entry = _entry(line, name)
            if "begin" in entry:
                at[entry["begin"]["id"]] = len(actions)
                actions.append({**entry["begin"], "error": NOT_ENDED})
            elif "end" in entry:
                _end(actions[at[entry["end"]]], entry)
            elif "user" in entry:
                turns.append(_turn(entry["user"], len(actions)))
            elif "reply" in entry and turns:
                turns[-1]["reply"] = entry["reply"]
            gap = entry.get("closed", STOPPED)
        except (InputError, BundleError, KeyError) as error:
            gap = f"line {number} of the log is damaged: {error}"
            break
    document = {
        "is_complete": gap is None,
        "cause": gap or "",
        "is_agent_influenced": False,
        "actions": actions,
        "turns": turns or None,
    }
    return trace_from(document)


def log_value(raw: object) -> Value | Unobserved:
    """The value as the log keeps it: JSON as strictly as files are read, or why it is not kept."""
    if isinstance(raw, Unobserved):
        return raw
    try:
        if isinstance(raw, Map):
            encoded = write(encode(raw))
            if len(encoded) > MAX_VALUE_BYTES:
                return Unobserved(by_run(f"{len(encoded)} bytes; the log keeps {MAX_VALUE_BYTES}"))
            return raw
        text = json.dumps(raw, ensure_ascii=False, allow_nan=False).encode("utf-8")
        return read_json(text, "value", max_bytes=MAX_VALUE_BYTES, max_depth=MAX_DEPTH)
    except (TypeError, ValueError, RecursionError) as error:
        return Unobserved(by_run(f"not JSON: {bounded(str(error), 200)}"))
    except InputError as error:
        return Unobserved(by_run(str(error)))


def _entry(line: bytes, name: str) -> Any:
    if not line.endswith(b"\n"):
        raise InputError("it was not written whole")
    return read(line[:-1], name)


def _end(action: dict[str, Any], entry: Any) -> None:
    action["result"] = entry["result"]
    action["error"] = entry["error"]
    action["finished_at"] = entry["finished_at"]
    if entry["class"] is not None:
        action["class"] = entry["class"]
    if entry["transactions"] is not None:
        action["transactions"] = entry["transactions"]


def _turn(message: str, calls_before: int) -> dict[str, Any]:
    return {"message": message, "calls_before": calls_before, "reply": answer_document(NO_REPLY)}


def _digest(tool: str, arguments: Map | Unobserved) -> bytes:
    return hashlib.sha256(write([tool, encode(arguments)])).digest()[:16]
