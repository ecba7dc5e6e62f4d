"""Verdicts as OpenTelemetry spans, in OTLP's JSON: one trial a line, as collectors read files.

A trial is one span from the agent's start to its end, with an event `gen_ai.evaluation.result` for
the verdict, for each of the three results, and for each clause (GenAI conventions: name, score
label, explanation; no score value, for INCONCLUSIVE has none). The span's status is an error for
whatever is not MATCH and, distinguished by `statediff.verdict`, unset for INCONCLUSIVE.

Ids are derived from the bundle, so that exporting again sends the same spans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from statediff._version import __version__
from statediff.evidence.package import Bundle
from statediff.model.values import decode
from statediff.reports.formats.format import ReportFormat, Takes
from statediff.reports.plain import json_lines
from statediff.reports.record import Record, reading, said

Json = Any
EVENT: Final = "gen_ai.evaluation.result"
_OK, _ERROR = 1, 2
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def trial_spans(bundle: Bundle, trial: str, where: str = "the bundle") -> Json:
    """The span of a judged trial, as a document of its own; `BundleError` if it is damaged."""
    with reading(where):
        record = Record(bundle)
        judged = record.judgement
        begun, ended = _times(bundle.document("timeline.json"))
        verdict = str(judged["verdict"])
        attributes = {
            "statediff.trial": said(trial),
            "statediff.verdict": verdict,
            "statediff.contract": said(record.manifest["contract"]),
            "statediff.contract.version": said(record.manifest["contract_version"]),
            "statediff.contract.digest": said(record.manifest["contract_digest"]),
            "statediff.kernel": said(record.manifest["kernel"]),
            "statediff.bundle": bundle.digest,
            "gen_ai.agent.name": said(record.trial["agent"]),
        }
        status = {"MATCH": {"code": _OK}, "DIVERGE": {"code": _ERROR, "message": "DIVERGE"}}
        return _document(
            bundle.digest,
            trial,
            attributes,
            status.get(verdict, {}),
            (begun, ended),
            [_event(ended, *told) for told in _results(judged)],
        )


def fault_span(run: str, trial: str, why: str) -> Json:
    """The span of a trial without a verdict; when it was is not known."""
    attributes = {"statediff.trial": said(trial), "statediff.fault": said(why, 2000)}
    status = {"code": _ERROR, "message": "no verdict"}
    return _document(f"{run}\n{trial}", trial, attributes, status, (0, 0), [])


def _results(judged: Json) -> Iterator[tuple[str, str, str]]:
    """(name, label, explanation)."""
    found = {f["clause"]: said(f["sentence"]) for f in judged["findings"] if f["truth"] != "HOLDS"}
    yield "statediff.verdict", str(judged["verdict"]), next(iter(found.values()), "")
    for name in ("outcome", "task", "tool"):
        if judged["results"][name] is not None:
            yield f"statediff.{name}", str(judged["results"][name]), ""
    for clause in judged["clauses"]:
        name = clause["clause"]
        yield said(name), str(clause["truth"]), found.get(name, said(clause["sentence"]))


def _event(at: int, name: str, label: str, explanation: str) -> Json:
    attributes = {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.label": label,
        **({"gen_ai.evaluation.explanation": explanation} if explanation else {}),
    }
    return {"timeUnixNano": str(at), "name": EVENT, "attributes": _attributes(attributes)}


def _document(
    seed: str,
    trial: str,
    attributes: Mapping[str, str],
    status: Json,
    times: tuple[int, int],
    events: list[Json],
) -> Json:
    digest = hashlib.sha256(f"{seed}\n{trial}".encode("utf-8", "backslashreplace")).hexdigest()
    span = {
        "traceId": digest[:32],
        "spanId": digest[32:48],
        "name": "statediff trial",
        "kind": 1,
        "startTimeUnixNano": str(times[0]),
        "endTimeUnixNano": str(times[1]),
        "attributes": _attributes(attributes),
        "events": events,
        "status": status,
    }
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": "statediff"})},
                "scopeSpans": [
                    {"scope": {"name": "statediff", "version": __version__}, "spans": [span]}
                ],
            }
        ]
    }


def _attributes(found: Mapping[str, str]) -> list[Json]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in found.items()]


def _times(timeline: Json) -> tuple[int, int]:
    """When the agent began and ended, in nanoseconds since 1970; 0 where nobody knows."""
    if timeline is None:
        return 0, 0
    begun, ended = (_nanos(timeline[name]) for name in ("agent_started_at", "agent_finished_at"))
    return begun, ended


def _nanos(tagged: Json) -> int:
    value = None if tagged is None else decode(tagged)
    if not isinstance(value, datetime):
        return 0
    return (value - _EPOCH) // timedelta(microseconds=1) * 1000


FORMAT: Final = ReportFormat(name="otlp", takes=Takes.SPANS, write=json_lines)
