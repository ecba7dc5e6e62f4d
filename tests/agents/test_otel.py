"""Traces from OpenTelemetry, in both encodings and every form the conventions have had."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from statediff.agents.otel import read_otel
from statediff.errors import InputError
from statediff.model.trace import Trace
from statediff.model.values import Map, Unobserved

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_000_000_000
START = 1_767_225_600 * SECOND  # 2026-01-01


def value(plain: Any) -> dict[str, Any]:
    match plain:
        case bool():
            return {"boolValue": plain}
        case int():
            return {"intValue": str(plain)}
        case float():
            return {"doubleValue": plain}
        case list():
            return {"arrayValue": {"values": [value(each) for each in plain]}}
        case dict():
            return {"kvlistValue": {"values": attributes(plain)}}
    return {"stringValue": plain}


def attributes(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(each)} for key, each in plain.items()]


def span(number: int, name: str, told: dict[str, Any], **more: Any) -> dict[str, Any]:
    at = START + number * SECOND
    return {
        "traceId": more.pop("trace", TRACE),
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(at),
        "endTimeUnixNano": str(at + SECOND // 2),
        "attributes": attributes(told),
        **more,
    }


def tool(number: int, name: str, call: str | None, **more: Any) -> dict[str, Any]:
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    told |= {} if call is None else {"gen_ai.tool.call.id": call}
    told |= more.pop("told", {})
    return span(number, f"execute_tool {name}", told, **more)


def event(name: str, told: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "timeUnixNano": str(START), "attributes": attributes(told)}


def chat(number: int, *events: tuple[str, Any]) -> Any:
    """The span of a call of the model, and what is said of it beside."""
    return span(number, "chat m", {}, events=[event(name, told) for name, told in events])


def spans(*listed: dict[str, Any]) -> dict[str, Any]:
    scope = {"scope": {"name": "test"}, "spans": list(listed)}
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}


def logs(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"logRecords": list(records)}]}]}


def protobuf(document: dict[str, Any]) -> bytes:
    """The message that an exporter sends: ids are bytes there, hexadecimal in OTLP's JSON."""
    import base64  # noqa: PLC0415

    def as_base64(entry: Any) -> Any:
        if isinstance(entry, dict):
            return {
                key: base64.b64encode(bytes.fromhex(each)).decode()
                if key in ("traceId", "spanId", "parentSpanId")
                else as_base64(each)
                for key, each in entry.items()
            }
        return [as_base64(each) for each in entry] if isinstance(entry, list) else entry

    return ParseDict(as_base64(document), TracesData()).SerializeToString()


def read(folder: Path, *documents: Any, **more: Any) -> Trace:
    path = folder / "spans"
    raw = [d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
    path.write_bytes(b"\n".join(raw))
    return read_otel(path, **more)


SESSION = spans(
    span(1, "invoke_agent shop", {"gen_ai.operation.name": "invoke_agent"}),
    tool(
        3,
        "refund",
        "b",
        parentSpanId=f"{1:016x}",
        told={
            "gen_ai.tool.call.arguments": '{"order": 1009, "cents": 3900}',
            "gen_ai.tool.call.result": '{"refund": 7}',
        },
    ),
    tool(2, "look", "a", told={"gen_ai.tool.call.arguments": {"order": 1009, "deep": [1, 2.5]}}),
    tool(
        4,
        "mail",
        "c",
        told={"error.type": "timeout"},
        status={"code": 2, "message": "no answer \x1b[31m"},
    ),
)


@pytest.mark.parametrize("encoding", ["json", "protobuf", "delimited", "lines"])
def test_spans_of_tools_are_calls_in_their_order_in_every_encoding(encoding, tmp_path):
    raw = protobuf(SESSION)
    trace = {
        "json": lambda: read(tmp_path, SESSION),
        "protobuf": lambda: read(tmp_path, raw),
        "delimited": lambda: read(tmp_path, len(raw).to_bytes(4, "big") + raw),
        "lines": lambda: read(tmp_path, SESSION, SESSION),  # a retried export says all twice
    }[encoding]()
    look, refund, mail = trace.actions
    assert [call.tool for call in trace.actions] == ["look", "refund", "mail"]
    assert refund.arguments == Map.of({"order": 1009, "cents": 3900})
    assert refund.result == Map.of({"refund": 7})
    assert refund.started_at.isoformat() == "2026-01-01T00:00:03+00:00"
    assert (refund.finished_at - refund.started_at).total_seconds() == 0.5
    assert look.arguments.get("order") == 1009
    assert isinstance(look.result, Unobserved)
    assert mail.error == r"no answer \x1b[31m"
    assert isinstance(mail.arguments, Unobserved)
    assert not trace.is_complete
    assert trace.is_agent_influenced


def test_protobuf_and_json_say_the_same(tmp_path):
    message = TracesData.FromString(protobuf(SESSION))
    assert MessageToDict(message)["resourceSpans"]
    assert read(tmp_path, SESSION).actions == read(tmp_path, protobuf(SESSION)).actions


PARTS = json.dumps(
    [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "I refund it."},
                {"type": "tool_call", "id": "b", "name": "refund", "arguments": {"order": 1009}},
            ],
        }
    ]
)
RESPONSE = json.dumps(
    [
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "b", "response": {"refund": 7}}],
        }
    ]
)
CALLS = [
    {"id": "b", "type": "function", "function": {"name": "refund", "arguments": '{"order": 1009}'}}
]

DETAILS = "gen_ai.client.inference.operation.details"
TOLD = [
    {"role": "user", "content": "refund it"},
    {"role": "assistant", "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "b", "content": '{"refund": 7}'},
]
CHOICE = {
    "index": 0,
    "finish_reason": "tool_calls",
    "message": {"role": "assistant", "tool_calls": CALLS},
}
FORMS = {
    "attributes since 1.37": [
        spans(
            span(1, "chat m", {"gen_ai.operation.name": "chat", "gen_ai.output.messages": PARTS}),
            span(3, "chat m", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": RESPONSE}),
        )
    ],
    "one event since 1.37": [
        spans(
            chat(1, (DETAILS, {"gen_ai.output.messages": PARTS})),
            chat(3, (DETAILS, {"gen_ai.input.messages": RESPONSE})),
        )
    ],
    "events of logs since 1.28": [
        spans(chat(1)),
        logs(
            {
                "traceId": TRACE,
                "spanId": f"{1:016x}",
                "timeUnixNano": str(START),
                "eventName": "gen_ai.choice",
                "body": value(CHOICE),
            },
            {
                "traceId": TRACE,
                "spanId": f"{1:016x}",
                "timeUnixNano": str(START + SECOND),
                "attributes": attributes({"event.name": "gen_ai.tool.message"}),
                "body": value({"id": "b", "content": '{"refund": 7}'}),
            },
        ),
    ],
    "events of spans since 1.28": [
        spans(
            chat(
                1,
                ("gen_ai.assistant.message", {"tool_calls": json.dumps(CALLS)}),
                ("gen_ai.tool.message", {"id": "b", "content": '{"refund": 7}'}),
            )
        )
    ],
    "one attribute before": [
        spans(chat(1, ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(TOLD)})))
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_calls_without_spans_are_read_from_the_messages_in_every_form(form, tmp_path):
    (call,) = read(tmp_path, *FORMS[form]).actions
    assert call.tool == "refund"
    assert call.arguments == Map.of({"order": 1009})
    assert call.result == Map.of({"refund": 7})
    assert call.started_at is None


@pytest.mark.parametrize("form", FORMS)
def test_what_a_span_does_not_say_is_looked_up_in_the_messages(form, tmp_path):
    (call,) = read(tmp_path, *FORMS[form], spans(tool(2, "refund", "b"))).actions
    assert call.arguments == Map.of({"order": 1009})
    assert call.result == Map.of({"refund": 7})
    assert call.started_at is not None


def test_a_call_that_was_asked_for_and_never_answered_is_none(tmp_path):
    unanswered = spans(span(1, "chat m", {"gen_ai.output.messages": PARTS}))
    assert read(tmp_path, unanswered).actions == ()


def test_an_mcp_span_within_a_tools_span_is_the_same_call_and_another_tool_is_a_child(tmp_path):
    mcp = {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "plan",
        "gen_ai.tool.call.arguments": '{"goal": 1}',
    }
    inside = {"parentSpanId": f"{1:016x}"}
    trace = read(
        tmp_path,
        spans(
            tool(1, "plan", None),
            span(2, "tools/call plan", mcp, **inside),
            span(3, "tools/call plan", mcp, parentSpanId=f"{2:016x}"),
            tool(4, "refund", None, **inside),
        ),
    )
    plan, refund = trace.actions
    assert plan.arguments == Map.of({"goal": 1})
    assert refund.parent == plan.id


def test_of_several_traces_with_calls_one_is_named(tmp_path):
    other = "f" * 32
    both = spans(tool(1, "a", None), tool(2, "b", None, trace=other))
    with pytest.raises(InputError, match="2 traces have calls; name one"):
        read(tmp_path, both)
    assert [c.tool for c in read(tmp_path, both, trace_id=other).actions] == ["b"]
    with pytest.raises(InputError, match="no trace 'nope'"):
        read(tmp_path, both, trace_id="nope")


def test_a_loop_of_parents_ends(tmp_path):
    loop = spans(
        tool(1, "a", None, parentSpanId=f"{2:016x}"), tool(2, "b", None, parentSpanId=f"{1:016x}")
    )
    assert len(read(tmp_path, loop).actions) == 2


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"\x00\x01",
        b'{"resourceSpans": 1}',
        b'{"resourceSpans": [[]]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": ["x"]}]}]}',
        b'{"resourceSpans": []}\n{"other": 1}',
        b"{" * 5000,
    ],
)
def test_what_is_no_otlp_is_refused(raw, tmp_path):
    path = tmp_path / "spans"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"spans"):
        read_otel(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attributes": 7},
        {"attributes": [7, {"key": 1}, {"key": "a", "value": {"x": 1}}]},
        {"startTimeUnixNano": "9" * 30},
        {"startTimeUnixNano": "-5"},
        {"status": "bad"},
        {"events": [1, {"attributes": None}]},
        {"parentSpanId": 5},
        {"name": None},
        {"startTimeUnixNano": str(2**63)},
    ],
)
def test_spans_of_a_wrong_shape_are_read_as_far_as_they_go(wrong, tmp_path):
    document = spans(tool(1, "a", None), {**tool(2, "b", None), **wrong})
    assert read(tmp_path, document).actions[0].tool in ("a", "b")


def exchanged(status: str, gave: Any) -> dict[str, Any]:
    """A call as Strands tells of it: given and gave, in the call's own span."""
    events = [
        event("gen_ai.tool.message", {"role": "tool", "content": '{"id": "a"}', "id": "c1"}),
        event("gen_ai.choice", {"message": json.dumps(gave), "id": "c1"}),
    ]
    return tool(1, "fetch", "c1", told={"gen_ai.tool.status": status}, events=events)


def test_events_of_a_call_s_own_span_tell_what_it_was_given_and_what_it_gave(tmp_path):
    def told(status: str, *gave: dict[str, Any]) -> Any:
        [action] = read(tmp_path, spans(exchanged(status, list(gave)))).actions
        assert action.arguments == Map.of({"id": "a"})
        return action

    whole = told("success", {"text": '{"page": 1}'})
    assert (whole.result, whole.error) == (Map.of({"page": 1}), None)
    two = told("success", {"text": "one"}, {"text": "two"})
    assert two.result == (Map.of({"text": "one"}), Map.of({"text": "two"}))
    more = told("success", {"text": "one", "more": 1})
    assert more.result == (Map.of({"text": "one", "more": 1}),)
    assert told("error", {"text": "no such page"}).error is not None


def test_a_tool_message_alone_is_the_response_of_its_call(tmp_path):
    said = event("gen_ai.tool.message", {"content": '{"page": 1}', "id": "c1"})
    [action] = read(tmp_path, spans(tool(1, "fetch", "c1", events=[said]))).actions
    assert action.result == Map.of({"page": 1})
    assert isinstance(action.arguments, Unobserved)
