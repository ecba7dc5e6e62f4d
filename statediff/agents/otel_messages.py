"""Which calls the messages between an agent and its model tell of, in every form there has been.

* since 1.37: `gen_ai.input.messages` and `gen_ai.output.messages`, made of parts, as attributes
  of spans or of one event;
* since 1.28: events in logs or spans: `gen_ai.choice`, `gen_ai.assistant.message`,
  `gen_ai.tool.message`;
* before: events of spans with the JSON of all messages in one attribute, `gen_ai.prompt` and
  `gen_ai.completion`.

Each names calls by an id: a model asks for a call under it, and the response comes under it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from statediff.agents.otlp import Event, Span
from statediff.agents.recorder import recorded_value
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.values import Map, Unobserved, Value
from statediff.systems.base.plain import plain

_EXCHANGE: Final = frozenset({"gen_ai.tool.message", "gen_ai.choice"})
_WHOLE: Final = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt",
                 "gen_ai.completion")  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A call that a model asked for."""

    id: str
    name: str
    arguments: Any
    at: int


class Messages:
    """What all messages of one trace say of calls, by the id of the call."""

    def __init__(self, spans: Iterable[Span], events: Iterable[Event]) -> None:
        self._asked: dict[str, Asked] = {}
        self._results: dict[str, Any] = {}
        for span in spans:
            self._attributes(span.attributes, span.started)
            is_told = self._exchange(span)
            for event in span.events:
                if not (is_told and event.name in _EXCHANGE):
                    self._event(event)
        for event in events:
            self._event(event)

    def arguments(self, call: str | None) -> Any:
        """What the model gave the call, or None."""
        asked = self._asked.get(call or "")
        return None if asked is None else asked.arguments

    def result(self, call: str | None) -> Any:
        """What came back, or None."""
        return self._results.get(call or "")

    def answered(self) -> Iterator[Asked]:
        """The calls that were asked for and got a response, in the order of the asking."""
        found = (asked for asked in self._asked.values() if asked.id in self._results)
        return iter(sorted(found, key=lambda asked: asked.at))

    def _event(self, event: Event) -> None:
        self._attributes(event.attributes, event.at)
        body = event.body if isinstance(event.body, dict) else {}
        told = {**event.attributes, **body}
        match event.name:
            case "gen_ai.choice":
                self._message(_read(told.get("message", told)), event.at)
            case "gen_ai.assistant.message":
                self._message(told, event.at)
            case "gen_ai.tool.message":
                self._response(told.get("id"), told.get("content"))
            case _:
                self._attributes(body, event.at)

    def _exchange(self, span: Span) -> bool:
        """Whether the span of a call itself tells what the call was given and what it gave.

        Then `gen_ai.tool.message`, elsewhere the response, holds the arguments, and `gen_ai.choice`
        the response under the id of the call: so the Strands library has it.
        """
        call = span.text("gen_ai.tool.call.id")
        if call is None or span.text("gen_ai.operation.name") != "execute_tool":
            return False
        told = {e.name: e for e in span.events if e.attributes.get("id") == call}
        if not told.keys() >= _EXCHANGE:
            return False
        given, gave = told["gen_ai.tool.message"], told["gen_ai.choice"]
        name = span.text("gen_ai.tool.name")
        self._ask(call, name, given.attributes.get("content"), span.started)
        self._response(call, gave.attributes.get("message"))
        return True

    def _attributes(self, attributes: Mapping[str, Any], at: int) -> None:
        for name in _WHOLE:
            found = _read(attributes.get(name))
            for message in found if isinstance(found, list) else ():
                self._message(message, at)

    def _message(self, message: Any, at: int) -> None:
        if not isinstance(message, dict):
            return
        if message.get("role") == "tool":
            self._response(message.get("tool_call_id"), message.get("content"))
        calls = _read(message.get("tool_calls"))
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                function = call.get("function")
                told = function if isinstance(function, dict) else call
                self._ask(call.get("id"), told.get("name"), told.get("arguments"), at)
        parts = message.get("parts")
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            if part.get("type") == "tool_call":
                self._ask(part.get("id"), part.get("name"), part.get("arguments"), at)
            elif part.get("type") == "tool_call_response":
                self._response(part.get("id"), part.get("response", part.get("result")))
        inner = message.get("message")
        if isinstance(inner, dict):
            self._message(inner, at)

    def _ask(self, call: Any, name: Any, arguments: Any, at: int) -> None:
        if isinstance(call, str) and call and isinstance(name, str) and name:
            known = self._asked.get(call)
            if known is None or (known.arguments is None and arguments is not None):
                self._asked[call] = Asked(call, name, arguments, at if known is None else known.at)

    def _response(self, call: Any, content: Any) -> None:
        if isinstance(call, str) and call and content is not None:
            self._results.setdefault(call, content)


def as_arguments(told: Any) -> Map | Unobserved:
    """The arguments as exported: an object, or the JSON text of one."""
    found = _exported(told)
    if isinstance(found, (Map, Unobserved)):
        return found
    return Unobserved("the exported arguments are no JSON object")


def as_result(told: Any) -> Value | Unobserved:
    """What was exported; of content that is one block of text, what that text is."""
    found = _exported(told)
    text = _only_text(found)
    return found if text is None else _exported(text)


def _exported(told: Any) -> Value | Unobserved:
    """What was exported, read as JSON where it is the text of some object or list."""
    if isinstance(told, str) and told.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(InputError):
            return read_json(told.encode("utf-8", errors="replace"), "an attribute", max_depth=32)
    found = _value(told)
    kept = recorded_value(Map.of({"": found}))  # bounded as everything that is recorded
    return kept if isinstance(kept, Unobserved) else found


def _only_text(found: Value | Unobserved) -> str | None:
    """The text of content that is one block of text, and nothing else."""
    block = found[0] if isinstance(found, tuple) and len(found) == 1 else None
    fields = dict(block.items) if isinstance(block, Map) else {}
    text, kind = fields.get("text"), fields.get("type", "text")
    is_alone = fields.keys() <= {"text", "type"} and kind == "text"
    return text if is_alone and isinstance(text, str) else None


def _read(told: Any) -> Any:
    """A structure, or the structure that a text is the JSON of."""
    if not isinstance(told, str):
        return told
    try:
        return plain(
            read_json(
                told.encode("utf-8", errors="replace"), "messages", max_bytes=16 * 1024 * 1024
            )
        )
    except InputError:
        return None


def _value(told: Any) -> Value:
    """Plain JSON as a value; numbers as they were written."""
    if isinstance(told, dict):
        return Map.of({name: _value(each) for name, each in told.items()})
    if isinstance(told, list):
        return tuple(map(_value, told))
    if isinstance(told, float):
        return Decimal(repr(told)) if math.isfinite(told) else str(told)
    found: Value = told
    return found
