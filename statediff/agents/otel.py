"""Traces imported from OpenTelemetry: spans and events of the GenAI conventions, as calls.

Read are OTLP in JSON (one document, or one a line as collectors write it) and in protobuf (one
message, or each behind its length). A call is

1. a span of the operation `execute_tool`, with its arguments and result where they were exported;
2. or, where an instrumentation makes no such spans, a call that the model asked for in one message
   and got a response to in another.

What a span does not say is looked up in the messages between the agent and its model, by the id of
the call, in every form that the conventions have had:

* since 1.37: `gen_ai.input.messages` and `gen_ai.output.messages`, made of parts, as attributes
  of spans or of one event;
* since 1.28: events in logs or spans: `gen_ai.choice`, `gen_ai.assistant.message`,
  `gen_ai.tool.message`;
* before: events of spans with the JSON of all messages in one attribute, `gen_ai.prompt` and
  `gen_ai.completion`.

What nobody says is *unobserved*. That every call has a span is nothing that spans can say, so the
trace is never complete by itself.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from statediff.agents.handover import read_handed_file
from statediff.agents.otlp import MAX_FILE_BYTES, Event, Span, read_otlp
from statediff.agents.recorder import log_value
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.trace import Action, Trace
from statediff.model.values import Map, Unobserved, Value, printable
from statediff.systems.base.rows import plain

IMPORTED: Final = "imported from OpenTelemetry: whether every call has a span is not known"
MAX_CALLS: Final = 100_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MCP_CALL: Final = "tools/call"
_EXCHANGE: Final = frozenset({"gen_ai.tool.message", "gen_ai.choice"})
_WHOLE: Final = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.prompt",
    "gen_ai.completion",
)


def read_otel(path: Path, trace_id: str | None = None) -> Trace:
    """The calls of the one trace in the file that has any, or of the one named.

    `InputError` if the file is no OTLP, or holds several traces with calls and none is named.
    """
    what = printable(str(path))
    raw = read_handed_file(path, MAX_FILE_BYTES)
    if raw is None:
        raise InputError(f"{what}: expected exported spans, found nothing")
    spans, events = read_otlp(raw, what)
    found: dict[str, list[Any]] = {}
    for span in spans:
        found.setdefault(span.trace, [[], []])[0].append(span)
    for event in events:
        found.setdefault(event.trace, [[], []])[1].append(event)
    traces = {
        name: calls
        for name, (of, beside) in found.items()
        if (trace_id is None or name == trace_id) and (calls := _calls(of, beside))
    }
    if trace_id is not None and trace_id not in found:
        raise InputError(f"{what}: no trace {printable(trace_id)[:60]!r}; {_list_names(found)}")
    if len(traces) > 1:
        raise InputError(
            f"{what}: {len(traces)} traces have calls; name one; {_list_names(traces)}"
        )
    actions = next(iter(traces.values()), ())
    return Trace(tuple(actions), False, IMPORTED, is_agent_influenced=True)


def _list_names(traces: Iterable[str]) -> str:
    names = sorted(map(printable, traces))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"there are: {', '.join(names[:5]) or 'none'}{more}"


@dataclass
class _Call:
    """One call, as far as it is known."""

    tool: str
    order: tuple[int, int]
    id: str | None = None
    span: Span | None = None


def _calls(spans: list[Span], events: list[Event]) -> tuple[Action, ...]:
    """The calls of one trace, in the order in which they began."""
    messages = Messages(spans, events)
    by_span = {span.id: span for span in spans}
    calls: dict[str, _Call] = {}
    inside: dict[str, str] = {}
    """MCP spans that tell of a call that another span tells of too → that span."""
    for number, span in enumerate(spans):
        tool = span.text("gen_ai.tool.name")
        if not _executes(span) or tool is None:
            continue
        outer = _enclosing_call(span, by_span)
        is_same = outer is not None and outer.text("gen_ai.tool.name") == tool
        if outer is not None and is_same and span.text("mcp.method.name") == _MCP_CALL:
            inside[span.id] = outer.id
            continue
        calls[span.id] = _Call(tool, (span.started, number), span.text("gen_ai.tool.call.id"), span)
    known = {call.id for call in calls.values() if call.id is not None}
    nameless = {call.tool for call in calls.values() if call.id is None}
    for number, request in enumerate(messages.completed_requests()):
        # A span that names no id may be the very call that the message is about.
        if request.id not in known and request.name not in nameless:
            calls[f"message {number}"] = _Call(request.name, (request.at, number), request.id)
    if len(calls) > MAX_CALLS:
        raise InputError(f"{len(calls)} calls in one trace; at most {MAX_CALLS} are read")
    ordered = sorted(calls.items(), key=lambda entry: entry[1].order)
    numbers = {name: f"call-{at}" for at, (name, _) in enumerate(ordered, start=1)}
    inner: dict[str, list[Span]] = {}
    for name, outermost in inside.items():
        while outermost in inside:
            outermost = inside[outermost]  # noqa: PLW2901 - up to the span that is a call
        inner.setdefault(outermost, []).append(by_span[name])
    return tuple(
        _action(numbers[name], call, inner.get(name, ()), messages, _parent(call, by_span, numbers))
        for name, call in ordered
    )


def _action(
    name: str, call: _Call, inner: Iterable[Span], messages: Messages, parent: str | None
) -> Action:
    spans = [] if call.span is None else [call.span, *inner]
    arguments = _first(spans, "gen_ai.tool.call.arguments", "gen_ai.tool.arguments")
    result = _first(spans, "gen_ai.tool.call.result", "gen_ai.tool.result", "gen_ai.tool.message")
    if arguments is None:
        arguments = messages.arguments(call.id)
    if result is None:
        result = messages.result(call.id)
    error = next((said for span in spans if (said := span.error()) is not None), None)
    unsaid = Unobserved(f"in {name}, the spans do not say the result")
    return Action(
        name,
        printable(call.tool[:200]) or "(no name)",
        arguments=(
            Unobserved(f"in {name}, the spans do not say the arguments")
            if arguments is None
            else as_arguments(arguments)
        ),
        result=as_result(result) if result is not None else (None if error is not None else unsaid),
        error=None if error is None else printable(error)[:2000],
        started_at=None if call.span is None else _instant(call.span.started),
        finished_at=None if call.span is None else _instant(call.span.ended),
        parent=parent,
    )


def _executes(span: Span) -> bool:
    operation = span.text("gen_ai.operation.name")
    return operation == "execute_tool" or (
        operation is None
        and (span.text("mcp.method.name") == _MCP_CALL or span.name.startswith("execute_tool "))
    )


def _enclosing_call(span: Span, by_span: Mapping[str, Span]) -> Span | None:
    """The nearest span around it that executes a tool."""
    for outer in _ancestors(span, by_span):
        if _executes(outer):
            return outer
    return None


def _parent(call: _Call, by_span: Mapping[str, Span], numbers: Mapping[str, str]) -> str | None:
    if call.span is None:
        return None
    return next(
        (numbers[outer.id] for outer in _ancestors(call.span, by_span) if outer.id in numbers), None
    )


def _ancestors(span: Span, by_span: Mapping[str, Span]) -> Iterator[Span]:
    """The spans around it, nearest first; a loop of parents, which nobody may write, ends."""
    seen = {span.id}
    current = by_span.get(span.parent or "")
    while current is not None and current.id not in seen:
        seen.add(current.id)
        yield current
        current = by_span.get(current.parent or "")


def _first(spans: Iterable[Span], *names: str) -> Any:
    for span in spans:
        for name in names:
            if name in span.attributes:
                return span.attributes[name]
    return None


def _instant(nanoseconds: int) -> datetime | None:
    """The instant, to the microsecond; None where none was given, or none that there is."""
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None
    except OverflowError:
        return None


@dataclass(frozen=True)
class ToolRequest:
    """A call that a model asked for."""

    id: str
    name: str
    arguments: Any
    at: int


class Messages:
    """The calls in all messages of one trace, by the id of the call."""

    def __init__(self, spans: Iterable[Span], events: Iterable[Event]) -> None:
        self._requests: dict[str, ToolRequest] = {}
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
        """The arguments that the model gave the call, or None."""
        request = self._requests.get(call or "")
        return None if request is None else request.arguments

    def result(self, call: str | None) -> Any:
        """The result, or None."""
        return self._results.get(call or "")

    def completed_requests(self) -> Iterator[ToolRequest]:
        """The calls that were asked for and got a response, in the order of the asking."""
        found = (request for request in self._requests.values() if request.id in self._results)
        return iter(sorted(found, key=lambda request: request.at))

    def _event(self, event: Event) -> None:
        self._attributes(event.attributes, event.at)
        body = event.body if isinstance(event.body, dict) else {}
        members = {**event.attributes, **body}
        match event.name:
            case "gen_ai.choice":
                self._message(_read(members.get("message", members)), event.at)
            case "gen_ai.assistant.message":
                self._message(members, event.at)
            case "gen_ai.tool.message":
                self._add_result(members.get("id"), members.get("content"))
            case _:
                self._attributes(body, event.at)

    def _exchange(self, span: Span) -> bool:
        """True if the span of a call itself tells what the call was given and what it gave.

        Then `gen_ai.tool.message`, elsewhere the response, holds the arguments, and `gen_ai.choice`
        the response under the id of the call: so the Strands library has it.
        """
        call = span.text("gen_ai.tool.call.id")
        if call is None or span.text("gen_ai.operation.name") != "execute_tool":
            return False
        events = {e.name: e for e in span.events if e.attributes.get("id") == call}
        if not events.keys() >= _EXCHANGE:
            return False
        given, gave = events["gen_ai.tool.message"], events["gen_ai.choice"]
        name = span.text("gen_ai.tool.name")
        self._add_request(call, name, given.attributes.get("content"), span.started)
        self._add_result(call, gave.attributes.get("message"))
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
            self._add_result(message.get("tool_call_id"), message.get("content"))
        calls = _read(message.get("tool_calls"))
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                function = call.get("function")
                named = function if isinstance(function, dict) else call
                self._add_request(call.get("id"), named.get("name"), named.get("arguments"), at)
        parts = message.get("parts")
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            if part.get("type") == "tool_call":
                self._add_request(part.get("id"), part.get("name"), part.get("arguments"), at)
            elif part.get("type") == "tool_call_response":
                self._add_result(part.get("id"), part.get("response", part.get("result")))
        inner = message.get("message")
        if isinstance(inner, dict):
            self._message(inner, at)

    def _add_request(self, call: Any, name: Any, arguments: Any, at: int) -> None:
        if isinstance(call, str) and call and isinstance(name, str) and name:
            known = self._requests.get(call)
            if known is None or (known.arguments is None and arguments is not None):
                self._requests[call] = ToolRequest(
                    call, name, arguments, at if known is None else known.at
                )

    def _add_result(self, call: Any, content: Any) -> None:
        if isinstance(call, str) and call and content is not None:
            self._results.setdefault(call, content)


def as_arguments(raw: Any) -> Map | Unobserved:
    """The arguments as exported: an object, or the JSON text of one."""
    found = _read_export(raw)
    if isinstance(found, (Map, Unobserved)):
        return found
    return Unobserved("the exported arguments are no JSON object")


def as_result(raw: Any) -> Value | Unobserved:
    """The exported content; for one block of text, that text."""
    found = _read_export(raw)
    text = _only_text(found)
    return found if text is None else _read_export(text)


def _read_export(raw: Any) -> Value | Unobserved:
    """The exported content, read as JSON where it is the text of some object or list."""
    if isinstance(raw, str) and raw.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(InputError):
            return read_json(raw.encode("utf-8", errors="replace"), "an attribute", max_depth=32)
    found = _value(raw)
    kept = log_value(Map.of({"": found}))  # bounded as everything that is recorded
    return kept if isinstance(kept, Unobserved) else found


def _only_text(found: Value | Unobserved) -> str | None:
    """The text of content that is one block of text, and nothing else."""
    block = found[0] if isinstance(found, tuple) and len(found) == 1 else None
    fields = dict(block.items) if isinstance(block, Map) else {}
    text, kind = fields.get("text"), fields.get("type", "text")
    is_alone = fields.keys() <= {"text", "type"} and kind == "text"
    return text if is_alone and isinstance(text, str) else None


def _read(raw: Any) -> Any:
    """A structure, or the structure that a text is the JSON of."""
    if not isinstance(raw, str):
        return raw
    try:
        return plain(
            read_json(raw.encode("utf-8", errors="replace"), "messages", max_bytes=16 * 1024 * 1024)
        )
    except InputError:
        return None


def _value(raw: Any) -> Value:
    """Plain JSON as a value; numbers as they were written."""
    if isinstance(raw, dict):
        return Map.of({name: _value(each) for name, each in raw.items()})
    if isinstance(raw, list):
        return tuple(map(_value, raw))
    if isinstance(raw, float):
        return Decimal(repr(raw)) if math.isfinite(raw) else str(raw)
    found: Value = raw
    return found
