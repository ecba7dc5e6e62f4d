"""The recorder: a log of calls that the harness keeps, between the agent and what it calls.

Whoever carries out the agent's calls (a server of tools, a proxy, a loop around a model) tells the
recorder when one begins and when it ends:

    with Recorder(folder / "calls.jsonl", clock) as recorder:
        call = recorder.begin("issue_refund", {"order": 1009})
        …
        recorder.end(call, result={"refund": 7}, transactions=[Mark("shop-db", "41")])
    trace = recorder.trace()

Ids are minted here and the clock is an argument, so that the same calls leave the same bytes. Each
line is in the file before the call goes on, whatever thread it came from: when the process dies,
the file still says what had begun. Texts and values are bounded; what was too large to keep is
*unobserved*, never cut, for a cut value would be another value.

The log is complete only if it was closed in order and nothing of it failed. Whoever knows of calls
that went past the recorder says so with `miss`.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from statediff.capture.source import Clock
from statediff.errors import BundleError, InputError, StorageError
from statediff.evidence.canonical import read, write
from statediff.evidence.documents import answer_document
from statediff.evidence.traces import action_document, trace_from
from statediff.model.strictjson import read_json
from statediff.model.trace import NO_REPLY, Action, ActionClass, Excerpt, Mark, Trace
from statediff.model.values import Map, Unobserved, Value, encode, printable

FORM: Final = "statediff.calls/1"
MAX_CALLS: Final = 100_000
MAX_VALUE_BYTES: Final = 64 * 1024
"""Of the arguments, or of the result, of one call, written as JSON."""
MAX_DEPTH: Final = 32
MAX_ERROR: Final = 2000
MAX_NAME: Final = 200
STOPPED: Final = "the recorder was stopped before the run was over"
NOT_ENDED: Final = "the call had not ended when the recorder was closed"


class Recorder:
    """An append-only log of one run; safe to use from several threads."""

    def __init__(self, path: Path, clock: Clock, *, principal: str | None = "agent") -> None:
        """The file exists and is empty but for its form; `StorageError` if it existed before."""
        self._path = path
        self._clock = clock
        self._principal = principal
        self._lock = threading.Lock()
        self._number = 0
        self._open: dict[str, bytes] = {}
        self._failed: dict[bytes, int] = {}
        self._gap: str | None = None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file: int | None = os.open(path, flags, 0o600)
        except OSError as error:
            raise StorageError(
                f"{path} cannot be made: {error.strerror}; a log of calls is never written over"
            ) from error
        self._write({"form": FORM})

    def begin(
        self,
        tool: str,
        arguments: object = None,
        *,
        class_: ActionClass = ActionClass.UNKNOWN,
        principal: str | None = None,
        parent: str | None = None,
        attempt: int | None = None,
        context: str | None = None,
        messages: str | None = None,
    ) -> str:
        """A call is in the log; its id. To be called before anything of it is carried out.

        `arguments` is a `Map`, an object of JSON, `Unobserved`, or whatever else the agent sent in
        their place. Without `attempt` it is one more than the failed calls of the same tool with
        the same arguments since one succeeded.
        """
        kept = log_value({} if arguments is None else arguments)
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
                principal=self._principal if principal is None else principal,
                attempt=attempt or self._failed.get(likeness, 0) + 1,
                started_at=self._clock(),
                parent=parent,
                context=None if context is None else Excerpt.of(context),
                messages=None if messages is None else Excerpt.of(messages),
            )
            self._write({"begin": action_document(action)})
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
        kept = log_value(result)
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
                    "error": None if error is None else _text(error, MAX_ERROR),
                    "class": None if class_ is None else class_.value,
                    "transactions": marks,
                    "finished_at": encode(self._clock()),
                }
            )

    def user(self, message: str) -> None:
        """A message of the user, with which a turn begins."""
        with self._lock:
            self._write({"user": _text(message, MAX_VALUE_BYTES)})

    def reply(self, reply: object) -> None:
        """What the agent said to the user at the end of the turn."""
        kept = log_value(reply)
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
            if self._file is None:
                return
            if self._open and self._gap is None:
                self._gap = f"{next(iter(self._open))}: {NOT_ENDED}"
            self._write({"closed": self._gap})
            os.close(self._file)
            self._file = None

    def trace(self) -> Trace:
        """The trace as the file tells it; complete only once closed."""
        trace = read_calls(self._path)
        if self._gap is None or trace.gap is not None:
            return trace
        return replace(trace, is_complete=False, cause=self._gap)

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
            self._gap = _text(cause, MAX_ERROR)
            self._write({"missed": self._gap})

    def _write(self, entry: dict[str, Any]) -> None:
        """One more line. A disk that is full does not end the run: the log is then incomplete."""
        if self._file is None:
            self._gap = self._gap or "a call was made after the recorder was closed"
            return
        line = write(entry) + b"\n"
        try:
            if self._number > MAX_CALLS:
                self._gap = self._gap or f"there are more than {MAX_CALLS} calls"
                if "closed" not in entry:
                    return
            if os.write(self._file, line) != len(line):
                self._gap = self._gap or "a line of the log could not be written whole"
        except OSError as error:
            self._gap = self._gap or f"a line of the log could not be written: {error.strerror}"


@contextmanager
def recording(clock: Clock, *, principal: str | None = "agent") -> Iterator[Recorder]:
    """A recorder in a temporary folder, which goes with the block: read the trace inside it."""
    with (
        tempfile.TemporaryDirectory(
            prefix="statediff-calls-", ignore_cleanup_errors=True
        ) as folder,
        Recorder(Path(folder) / "calls.jsonl", clock, principal=principal) as recorder,
    ):
        yield recorder


def read_calls(path: Path) -> Trace:
    """The trace that a recorder left, up to the first line that it cannot have written whole.

    Calls that never ended stand in it with that as their error. `InputError` if there is no log.
    """
    actions: list[Any] = []
    at: dict[str, int] = {}
    turns: list[Any] = []
    gap: str | None = STOPPED
    try:
        with path.open("rb") as lines:
            if _entry(next(lines, b""), path) != {"form": FORM}:
                raise InputError(f"{path.name} is no log of calls: expected the form {FORM}")
            for number, line in enumerate(lines, start=2):
                try:
                    entry = _entry(line, path)
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
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from error
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
                return Unobserved(f"{len(encoded)} bytes; the log keeps {MAX_VALUE_BYTES}")
            return raw
        text = json.dumps(raw, ensure_ascii=False, allow_nan=False).encode("utf-8")
        return read_json(text, "value", max_bytes=MAX_VALUE_BYTES, max_depth=MAX_DEPTH)
    except (TypeError, ValueError, RecursionError) as error:
        return Unobserved(f"not JSON: {_text(str(error), 200)}")
    except InputError as error:
        return Unobserved(str(error))


def _entry(line: bytes, path: Path) -> Any:
    if not line.endswith(b"\n"):
        raise InputError("it was not written whole")
    return read(line[:-1], path.name)


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


def _text(text: str, limit: int) -> str:
    """Text that can be written: bounded, and without half characters."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut.encode("utf-8", errors="replace").decode("utf-8")


def _digest(tool: str, arguments: Map | Unobserved) -> bytes:
    return hashlib.sha256(write([tool, encode(arguments)])).digest()[:16]
