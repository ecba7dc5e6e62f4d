"""All tools of one trial behind one door: every call that comes in is checked, made and recorded.

Calls of tools that do not exist, and calls whose arguments are wrong, are recorded like any other:
what the agent tried is part of what it did. What a call brings back is bounded before it is
recorded, so that the agent and the record always see the same.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from statediff.agents.calllog import MAX_CALL_BYTES, CallLog, Refused, as_value
from statediff.agents.tools.tool import MAX_RESULT_BYTES, Tool, ToolError
from statediff.model.trace import ActionClass
from statediff.model.values import printable

SHOWN_BYTES: Final = 16 * 1024
"""Of a result that is too long: its beginning."""


@dataclass(frozen=True)
class Reply:
    """What the agent gets for one call: one text, JSON where it is no error."""

    text: str
    is_error: bool = False


class ToolTable:
    """The tools by name. Closing it ends the trial for the agent: no further call is made."""

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        log: CallLog,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.tools: Mapping[str, Tool[Any]] = {tool.name: tool for tool in tools}
        self.log = log
        self._close = close
        self._is_closed = False
        self._running = 0
        self._idle = threading.Condition()

    def call(self, name: str, arguments: Any, **more: Any) -> Reply:
        """What the call gave; `more` is what else is recorded of it."""
        with self._idle:
            if self._is_closed:
                return Reply("the trial is over; no further call is made", is_error=True)
            self._running += 1
        try:
            return self._call(name, arguments, more)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def record_invalid(self, name: Any, arguments: Any, problem: str) -> None:
        """A call so malformed that it names no tool, or has no arguments, is in the log too."""
        with contextlib.suppress(Refused):
            begun = self.log.begin(name if isinstance(name, str) else "(unnamed)", arguments)
            self.log.end(begun, error=problem)

    def _call(self, name: str, arguments: Any, more: Mapping[str, Any]) -> Reply:
        try:
            begun = self.log.begin(name, arguments, **more)
        except Refused as refused:
            return Reply(str(refused), is_error=True)
        kind = ActionClass.UNKNOWN
        try:
            tool, taken = self._checked(name, arguments)
            kind = tool.class_of(taken)
            told = _told(tool.act(taken))
        except ToolError as error:
            text = printable(str(error))[:2000]
            self.log.end(begun, error=text, action_class=kind)
            return Reply(text, is_error=True)
        except Exception as error:  # noqa: BLE001 - whatever a system's driver makes of a hostile call is that call's error; the trial goes on
            text = printable(f"{type(error).__name__}: {error}")[:2000]
            self.log.end(begun, error=text, action_class=kind)
            return Reply(text, is_error=True)
        value, _ = as_value(told, 4 * MAX_RESULT_BYTES)
        self.log.end(begun, result=value, action_class=kind)
        return Reply(json.dumps(told, ensure_ascii=False))

    def _checked(self, name: str, arguments: Any) -> tuple[Tool[Any], Any]:
        tool = self.tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self.tools))
            raise ToolError(f"there is no tool {name[:100]!r}; there are: {known}")
        if not isinstance(arguments, dict):
            raise ToolError(f"the arguments of {name} are a JSON object")
        if as_value(arguments, MAX_CALL_BYTES)[0] is None:
            raise ToolError(f"the arguments of {name} are no JSON, or too much of it")
        try:
            # JSON has no tuples, bytes or instants, so it is validated as what it is.
            return tool, tool.arguments.model_validate_json(json.dumps(arguments))
        except ValidationError as error:
            raise ToolError(_invalid(name, error)) from error

    def close(self, wait_seconds: float = 25.0) -> str:
        """No call is made any more and none is under way; else why not: which still are."""
        deadline = time.monotonic() + wait_seconds
        with self._idle:
            self._is_closed = True
            while self._running and (left := deadline - time.monotonic()) > 0:
                self._idle.wait(left)
            running = self._running
        self._close()
        return (
            f"{running} calls had not ended {wait_seconds:g} s after the agent" if running else ""
        )


def _told(result: Any) -> Any:
    """The result, or its beginning with a word that there is more."""
    text = json.dumps(result, ensure_ascii=False)
    size = len(text.encode("utf-8", errors="surrogatepass"))
    if size <= MAX_RESULT_BYTES:
        return result
    return {"truncated": True, "bytes": size, "beginning": text[:SHOWN_BYTES]}


def _invalid(name: str, error: ValidationError) -> str:
    told = [
        f"{'.'.join(str(part) for part in entry['loc'])[:100] or 'arguments'}: {entry['msg']}"
        for entry in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f"; and {len(told) - 5} more" if len(told) > 5 else ""
    return f"invalid arguments of {name}: {'; '.join(told[:5])}{more}"
