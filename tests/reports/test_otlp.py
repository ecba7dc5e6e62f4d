"""Verdicts as OpenTelemetry spans: read back by our own reader, and by the protocol's classes."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from statediff.agents.otlp import read_otlp
from statediff.reports.formats.otlp import EVENT, fault_span, trial_spans
from tests.judging import run, user

BODY = "forbid:\n  - {id: no-users-gone, delete: user}\n"
HERE = {"user": [user(1), user(2)]}
GONE = {"user": [user(1)]}


def test_a_trial_is_a_span_with_a_result_for_the_verdict_and_each_clause() -> None:
    bundle = run(BODY, HERE, GONE).bundle
    document = trial_spans(bundle, "t-1")
    assert document == trial_spans(bundle, "t-1")
    [span], [] = read_otlp(json.dumps(document).encode(), "export")
    assert span.text("statediff.verdict") == "DIVERGE"
    assert span.error() == "DIVERGE"
    told = {
        e.attributes["gen_ai.evaluation.name"]: e.attributes["gen_ai.evaluation.score.label"]
        for e in span.events
        if e.name == EVENT
    }
    assert told["statediff.verdict"] == told["statediff.outcome"] == "DIVERGE"
    assert (told["no-users-gone"], told["frame"]) == ("FAILS", "FAILS")


def test_only_a_match_is_ok_and_a_fault_is_an_error() -> None:
    [match], _ = read_otlp(json.dumps(trial_spans(run(BODY, HERE, HERE).bundle, "a")).encode(), "x")
    [fault], _ = read_otlp(json.dumps(fault_span("run", "b", "no\x1b reset")).encode(), "x")
    assert match.error() is None
    assert fault.error() == "no verdict"
    assert "\x1b" not in str(fault.text("statediff.fault"))
    assert match.id != fault.id


def test_the_protocols_own_classes_take_every_line() -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    document: Any = trial_spans(run(BODY, HERE, GONE).bundle, "t-1")
    [span] = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for name in ("traceId", "spanId"):  # the one thing that OTLP writes unlike other messages
        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    message = json_format.ParseDict(document, service.ExportTraceServiceRequest())
    [found] = message.resource_spans[0].scope_spans[0].spans
    assert (len(found.trace_id), len(found.span_id), found.status.code) == (16, 8, 2)
