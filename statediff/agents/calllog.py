"""The log that a harness keeps of an agent's calls, out of the agent's reach.

Calls may overlap; they stand in the order in which they began. What the log cannot hold (too many
calls, too much to keep) is refused before it is made, and the trace then says that it is
incomplete: nothing acts unrecorded.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from statediff.capture.source import Clock
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.trace import NOTHING, Action, ActionClass, Trace
from statediff.model.values import Map, Value, printable

MAX_CALLS: Final = 100_000
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024
"""Of arguments and results as JSON, over all calls."""
MAX_CALL_BYTES: Final = 1024 * 1024
"""Of one call's arguments as JSON."""
MAX_DEPTH: Final = 32
MAX_ERROR: Final = 2000
UNFINISHED: Final = "the call had not ended when the agent did"


class Refused(Exception):
    """The log takes no such call; it was not made."""


@dataclass
class Begun:
    """A call that is under way, and from its end on what became of it."""

    number: int
    tool: str
    arguments: Map
    started_at: datetime
    attempt: int
    action_class: ActionClass = ActionClass.UNKNOWN
    result: Value = None
    error: str | None = UNFINISHED
    finished_at: datetime | None = None
    more: dict[str, Any] = field(default_factory=dict)
    """Further fields of its action."""

    def action(self, principal: str | None) -> Action:
        return Action(
            id=f"call-{self.number}", tool=self.tool, action_class=self.action_class,
            arguments=self.arguments, result=self.result, error=self.error, principal=principal,
            attempt=self.attempt, started_at=self.started_at, finished_at=self.finished_at,
            **self.more,
        )  # fmt: skip


class CallLog:
    """Every call that was begun, in order; safe to use from several threads."""

    def __init__(
        self,
        clock: Clock,
        principal: str | None = "agent",
        on_end: Callable[[Action], None] | None = None,
    ) -> None:
        self._clock = clock
        self._principal = principal
        self._on_end = on_end
        self._calls: list[Begun] = []
        self._kept_bytes = 0
        self._refused = ""
        self._lock = threading.Lock()
        self._last: dict[str, Begun] = {}

    def begin(self, tool: str, arguments: Any, **more: Any) -> Begun:
        """The call stands in the log, unfinished. `Refused` if the log cannot hold it.

        What is no JSON object stands there as no arguments; whoever makes calls refuses it.
        """
        name = printable(tool[:200]) or "(unnamed)"
        kept, size = _as_map(arguments)
        with self._lock:
            if len(self._calls) >= MAX_CALLS or self._kept_bytes + size > MAX_KEPT_BYTES:
                self._refused = f"{name} and what came after it were refused: the log is full"
                raise Refused(f"no more calls are taken: {len(self._calls)} are recorded already")
            last = self._last.get(name)
            again = last is not None and last.error is not None and last.arguments == kept
            begun = Begun(
                len(self._calls) + 1, name, kept, self._clock(),
                last.attempt + 1 if last is not None and again else 1, more=more,
            )  # fmt: skip
            self._calls.append(begun)
            self._kept_bytes += size
            self._last[name] = begun
        return begun

    def end(
        self,
        begun: Begun,
        result: Value = None,
        error: str | None = None,
        action_class: ActionClass = ActionClass.UNKNOWN,
        **more: Any,
    ) -> Action:
        """The call stands there with its end; what it brought back counts towards the bound."""
        size = _size(result)
        with self._lock:
            begun.result = result
            begun.error = None if error is None else printable(error[:MAX_ERROR])
            begun.action_class = action_class
            begun.finished_at = self._clock()
            begun.more |= more
            self._kept_bytes += size
            action = begun.action(self._principal)
        if self._on_end is not None:
            self._on_end(action)
        return action

    def trace(self, gap: str = "") -> Trace:
        """The log so far: complete, unless something was refused or `gap` says what may lack."""
        with self._lock:
            actions = tuple(begun.action(self._principal) for begun in self._calls)
            cause = "; ".join(filter(None, (gap, self._refused)))
        return Trace(actions, is_complete=not cause, cause=cause)

    def __len__(self) -> int:
        return len(self._calls)


def _as_map(arguments: Any) -> tuple[Map, int]:
    value, size = as_value(arguments if isinstance(arguments, dict) else {}, MAX_CALL_BYTES)
    return (value if isinstance(value, Map) else NOTHING), size


def as_value(plain: Any, max_bytes: int) -> tuple[Value, int]:
    """Plain JSON as a value, and its size; `None` for what is no JSON or has more bytes."""
    try:
        raw = json.dumps(plain, ensure_ascii=False, allow_nan=False).encode("utf-8")
        return read_json(raw, "a call", max_bytes=max_bytes, max_depth=MAX_DEPTH), len(raw)
    except (TypeError, ValueError, RecursionError, InputError):
        return None, 0


def _size(result: Value) -> int:
    """About how many bytes are kept of it: what a text and a number take, and the rest by count."""
    if isinstance(result, str):
        return len(result)
    if isinstance(result, tuple):
        return 8 + sum(map(_size, result))
    if isinstance(result, Map):
        return 8 + sum(len(name) + _size(value) for name, value in result.items)
    return 8
