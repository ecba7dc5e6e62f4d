"""Traces imported from OpenTelemetry: spans and events of the GenAI conventions, as calls.

Read are OTLP in JSON (one document, or one a line as collectors write it) and in protobuf (one
message, or each behind its length). A call is

1. a span of the operation `execute_tool`, with its arguments and result where they were exported;
2. or, where an instrumentation makes no such spans, a call that the model asked for in one message
   and got a response to in another.

What a span does not say is looked up in the messages, by the id of the call, in every form that the
conventions have had (see `otel_messages`). What nobody says is *unobserved*. That every call has a
span is nothing that spans can say, so the trace is never complete by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from statediff.agents.handover import read_handed_file
from statediff.agents.otel_messages import Asked, Messages, as_arguments, as_result
from statediff.agents.otlp import MAX_FILE_BYTES, Event, Span, read_otlp
from statediff.errors import InputError
from statediff.model.trace import Action, Trace
from statediff.model.values import Unobserved, printable

IMPORTED: Final = "imported from OpenTelemetry: whether every call has a span is not known"
MAX_CALLS: Final = 100_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MCP_CALL: Final = "tools/call"


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
        raise InputError(f"{what}: no trace {printable(trace_id)[:60]!r}; {_known(found)}")
    if len(traces) > 1:
        raise InputError(f"{what}: {len(traces)} traces have calls; name one; {_known(traces)}")
    actions = next(iter(traces.values()), ())
    return Trace(tuple(actions), False, IMPORTED, is_agent_influenced=True)


def _known(traces: Iterable[str]) -> str:
    names = sorted(map(printable, traces))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"there are: {', '.join(names[:5]) or 'none'}{more}"


@dataclass
class _Call:
    """One call as far as it is told so far."""

    tool: str
    order: tuple[int, int]
    id: str | None = None
    span: Span | None = None
    told: list[Asked] = field(default_factory=list)


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
        outer = _around(span, by_span)
        is_same = outer is not None and outer.text("gen_ai.tool.name") == tool
        if outer is not None and is_same and span.text("mcp.method.name") == _MCP_CALL:
            inside[span.id] = outer.id
            continue
        calls[span.id] = _Call(tool, (span.started, number), span.text("gen_ai.tool.call.id"), span)
    known = {call.id for call in calls.values() if call.id is not None}
    nameless = {call.tool for call in calls.values() if call.id is None}
    for number, asked in enumerate(messages.answered()):
        # A span that names no id may be the very call that the message is about.
        if asked.id not in known and asked.name not in nameless:
            calls[f"message {number}"] = _Call(asked.name, (asked.at, number), asked.id)
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


def _around(span: Span, by_span: Mapping[str, Span]) -> Span | None:
    """The nearest span around it that executes a tool."""
    for outer in _outwards(span, by_span):
        if _executes(outer):
            return outer
    return None


def _parent(call: _Call, by_span: Mapping[str, Span], numbers: Mapping[str, str]) -> str | None:
    if call.span is None:
        return None
    return next(
        (numbers[outer.id] for outer in _outwards(call.span, by_span) if outer.id in numbers), None
    )


def _outwards(span: Span, by_span: Mapping[str, Span]) -> Iterator[Span]:
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
    """The instant, to the microsecond; None where none was told, or none that there is."""
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None
    except OverflowError:
        return None
