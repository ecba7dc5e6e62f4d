"""OTLP, as exporters and collectors write it to files: spans, and events beside them.

JSON: one document, or one a line. Protobuf: one message, or each behind its length in four bytes.
Attributes become plain JSON; what is not one of the kinds that OTLP has is left out.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from statediff.errors import InputError, UsageError
from statediff.model.strictjson import read_json
from statediff.systems.base.rows import plain

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_SPANS: Final = 200_000
MAX_DEPTH: Final = 32
_JSON_DEPTH: Final = 62
"""The most depth of a document: an attribute's nesting takes several levels of JSON each."""


@dataclass(frozen=True)
class Event:
    """An event at an instant: of a span, or a record of a log within one."""

    trace: str
    span: str
    name: str
    at: int
    attributes: Mapping[str, Any]
    body: Any = None


@dataclass(frozen=True, kw_only=True)
class Span:
    """One span; times are nanoseconds since 1970, 0 where none was given."""

    trace: str
    id: str
    parent: str | None
    name: str
    started: int
    ended: int
    attributes: Mapping[str, Any]
    events: tuple[Event, ...]
    has_failed: bool
    failure: str

    def text(self, attribute: str) -> str | None:
        """The attribute, if it is a text."""
        found = self.attributes.get(attribute)
        return found if isinstance(found, str) else None

    def error(self) -> str | None:
        """Why what the span tells of failed; None where it did not."""
        kind = self.text("error.type")
        is_refused = self.text("gen_ai.tool.status") == "error"  # of a span that is said to be fine
        if not self.has_failed and kind is None and not is_refused:
            return None
        return self.failure or kind or "the span's status is an error"


def read_otlp(raw: bytes, what: str) -> tuple[list[Span], list[Event]]:
    """All spans and events in the bytes, each span once; `InputError` for anything else."""
    spans: dict[tuple[str, str], Span] = {}
    events: list[Event] = []
    for document in _documents(raw, what):
        for owner, kind, entries in (
            ("resourceSpans", "scopeSpans", "spans"),
            ("resourceLogs", "scopeLogs", "logRecords"),
        ):
            for entry in _entries(document, owner, kind, entries, what):
                if entries == "spans":
                    span = _span(entry)
                    spans.setdefault((span.trace, span.id), span)
                else:
                    events.append(_record(entry))
                if len(spans) + len(events) > MAX_SPANS:
                    raise InputError(f"{what}: more than {MAX_SPANS} spans and events")
    return list(spans.values()), events


# ---------------------------------------------------------------- files


def _documents(raw: bytes, what: str) -> Iterator[Any]:
    start = raw.lstrip()[:1]
    if start == b"{":
        try:
            whole = [read_json(raw, what, max_bytes=MAX_FILE_BYTES, max_depth=_JSON_DEPTH)]
        except InputError:
            lines = [line for line in raw.split(b"\n") if line.strip()]
            if len(lines) < 2:
                raise
            whole = [
                read_json(
                    line, f"{what} line {number}", max_bytes=MAX_FILE_BYTES, max_depth=_JSON_DEPTH
                )
                for number, line in enumerate(lines, start=1)
            ]
        for document in whole:
            read = plain(document)
            if not isinstance(read, dict) or not {"resourceSpans", "resourceLogs"} & read.keys():
                raise InputError(
                    f'{what}: no OTLP: expected an object with "resourceSpans" or "resourceLogs"'
                )
            yield read
        return
    yield from _messages(raw, what)


def _messages(raw: bytes, what: str) -> Iterator[Any]:
    """Documents of the same shape as JSON's, from protobuf."""
    try:
        traces: Any = importlib.import_module("opentelemetry.proto.trace.v1.trace_pb2")
        json_format: Any = importlib.import_module("google.protobuf.json_format")
        broken: Any = importlib.import_module("google.protobuf.message").DecodeError
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{what}: OTLP in protobuf needs {error.name}; get it with "
            "`pip install statediff[otel]`, or export the spans as JSON"
        ) from error
    for piece in _split_delimited(raw) or [raw]:
        try:
            message = traces.TracesData.FromString(piece)
            document = json_format.MessageToDict(message)
        except (broken, ValueError, RecursionError, json_format.Error) as error:
            raise InputError(f"{what}: neither OTLP in JSON nor in protobuf: {error}") from error
        if not message.resource_spans:
            raise InputError(f"{what}: no spans in it; expected OTLP in JSON or protobuf")
        yield document


def _split_delimited(raw: bytes) -> list[bytes]:
    """The messages, if each stands behind its length; none if they do not add up."""
    pieces: list[bytes] = []
    at = 0
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "big")
        if end > len(raw) or end == at + 4:
            return []
        pieces.append(raw[at + 4 : end])
        at = end
    return pieces


def _entries(document: Any, owner: str, kind: str, entries: str, what: str) -> Iterator[Any]:
    for resource in _list(document, owner, what):
        for scope in _list(resource, kind, what):
            for entry in _list(scope, entries, what):
                if not isinstance(entry, dict):
                    raise InputError(f"{what}: an entry of {entries} is no object")
                yield entry


def _list(holder: Any, key: str, what: str) -> list[Any]:
    found = holder.get(key, []) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        raise InputError(f"{what}: expected a list under {key!r}")
    return found


# ---------------------------------------------------------------- spans


def _span(entry: Mapping[str, Any]) -> Span:
    trace, id_ = _text(entry.get("traceId")), _text(entry.get("spanId"))
    status = entry.get("status")
    status = status if isinstance(status, dict) else {}
    events = entry.get("events")
    return Span(
        trace=trace,
        id=id_,
        parent=_text(entry.get("parentSpanId")) or None,
        name=_text(entry.get("name")),
        started=_number(entry.get("startTimeUnixNano")),
        ended=_number(entry.get("endTimeUnixNano")),
        attributes=_attributes(entry.get("attributes")),
        events=tuple(
            Event(
                trace,
                id_,
                _text(each.get("name")),
                _number(each.get("timeUnixNano")),
                _attributes(each.get("attributes")),
            )
            for each in (events if isinstance(events, list) else ())
            if isinstance(each, dict)
        ),
        has_failed=status.get("code") in (2, "STATUS_CODE_ERROR"),
        failure=_text(status.get("message")),
    )


def _record(entry: Mapping[str, Any]) -> Event:
    attributes = _attributes(entry.get("attributes"))
    named = _text(entry.get("eventName")) or _text(attributes.get("event.name"))
    return Event(
        _text(entry.get("traceId")),
        _text(entry.get("spanId")),
        named,
        _number(entry.get("timeUnixNano")) or _number(entry.get("observedTimeUnixNano")),
        attributes,
        _any(entry.get("body"), MAX_DEPTH),
    )


def _attributes(listed: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and isinstance(each.get("key"), str):
            found[each["key"]] = _any(each.get("value"), MAX_DEPTH)
    return found


def _any(value: Any, left: int) -> Any:
    """An AnyValue as plain JSON; None where it is none."""
    if not isinstance(value, dict) or len(value) != 1 or not left:
        return None
    ((kind, content),) = value.items()
    match kind:
        case "stringValue" | "boolValue":
            return content if isinstance(content, (str, bool)) else None
        case "intValue":
            return _number(content, lowest=None)
        case "doubleValue":
            return content
        case "bytesValue":
            return _decode(content)
        case "arrayValue":
            values = content.get("values", []) if isinstance(content, dict) else []
            return [_any(each, left - 1) for each in values] if isinstance(values, list) else None
        case "kvlistValue":
            values = content.get("values", []) if isinstance(content, dict) else []
            return {
                each["key"]: _any(each.get("value"), left - 1)
                for each in (values if isinstance(values, list) else ())
                if isinstance(each, dict) and isinstance(each.get("key"), str)
            }
        case _:
            return None


def _decode(value: Any) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode("utf-8")
    except (TypeError, ValueError):
        return None


def _number(value: Any, lowest: int | None = 0) -> int:
    """A whole number, which JSON may hold as text; 0 for anything else."""
    if isinstance(value, str) and len(value) <= 20 and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if lowest is None or value >= lowest else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
