"""Exports of two agent libraries from runs that they made (fixtures/build_otel_agents.py)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from statediff.agents.handover import read_answer
from statediff.agents.otel import read_otel
from statediff.agents.tracefile import read_trace_file
from statediff.capture.take import take
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file
from statediff.contract.file import load_contract
from statediff.kernel import Evaluated, evaluate
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.model.trace import Trace
from statediff.model.values import Map
from statediff.model.verdict import Verdict
from statediff.systems.tables.source import TablesSource
from tests.judging import at

ROOT = Path(__file__).parents[2]
SPANS = ROOT / "fixtures" / "otel" / "agents"
EXAMPLES = ROOT / "docs" / "examples" / "reads"
LIBRARIES = ("pydantic-ai", "strands")
PAGE = "confluence:CONF-PROD-002"
UNFETCHED = ["state-invalid-correct", "evidence-not-retrieved"]
WRONG = {"valid": [], "guessed": UNFETCHED, "refused": [*UNFETCHED, "citation-not-retrieved"]}


@cache
def office() -> Capture:
    schema = load_schema_file(EXAMPLES / "schema.yaml")
    content = (EXAMPLES / "state.json").read_bytes()
    source = TablesSource("tables", content, refine(schema, "tables"))
    return take((source,), MemoryChunks(), lambda: at(1), None, "before")


def judged(library: str, run: str, trace: Trace) -> Evaluated:
    answer = read_answer(SPANS / f"{library}.{run}.answer.json")
    contract = load_contract(EXAMPLES / "silence.yaml")
    return evaluate(contract, office(), office(), trace=trace, answer=answer)


def spans(library: str, run: str) -> Path:
    return SPANS / f"{library}.{run}.spans.json"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("run", WRONG)
def test_the_reads_of_a_library_are_judged_by_what_it_exported(library: str, run: str) -> None:
    trace = read_trace_file(spans(library, run), is_vouched=True)
    found = judged(library, run, trace).judgement
    assert sorted(f.code for f in found.findings if f.code != "holds") == sorted(WRONG[run])
    assert found.verdict is (Verdict.DIVERGE if WRONG[run] else Verdict.MATCH)


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_call_has_its_arguments_and_its_result_or_why_it_failed(library: str) -> None:
    searched, fetched = read_otel(spans(library, "valid")).actions
    assert searched.arguments == Map.of({"query": "jamie", "subsystem": "confluence"})
    named = Map.of({"id": PAGE, "title": "Onboarding flow, second draft"})
    assert searched.result == Map.of({"results": (named,)})
    assert (fetched.tool, fetched.arguments) == ("fetch", Map.of({"id": PAGE}))
    assert isinstance(fetched.result, Map)
    assert fetched.result.get("id") == PAGE
    assert (searched.error, fetched.error) == (None, None)
    _, refused = read_otel(spans(library, "refused")).actions
    assert refused.error is not None


@pytest.mark.parametrize("library", LIBRARIES)
def test_unless_somebody_vouches_for_the_spans_they_clear_nobody(library: str) -> None:
    for run in ("valid", "refused"):
        found = judged(library, run, read_trace_file(spans(library, run)))
        assert found.judgement.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_run_in_which_nothing_was_observed_is_inconclusive_and_no_zero(
    library: str, tmp_path: Path
) -> None:
    told = json.loads(spans(library, "valid").read_text())
    [resource] = told["resourceSpans"]
    for scope in resource["scopeSpans"]:
        scope["spans"] = [
            {**span, "attributes": [], "events": []}
            for span in scope["spans"]
            if "tool" not in span["name"]
        ]
    silent = tmp_path / "silent.json"
    silent.write_text(json.dumps(told))
    trace = read_trace_file(silent)
    assert trace.actions == ()
    found = judged(library, "valid", trace).judgement
    assert found.verdict is Verdict.INCONCLUSIVE
    assert not [f for f in found.findings if f.truth.value == "FAILS"]
