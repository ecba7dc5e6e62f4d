"""The paper's three worked examples as contracts, with the verdicts it argues for [GE §8]."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statediff.agents.handover import read_answer, read_trace
from statediff.capture.take import take
from statediff.contract.authoring.formatting import format_contract
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file
from statediff.contract.file import load_contract
from statediff.kernel import Evaluated, evaluate, lint, replay
from statediff.meta.cases import recorded_contracts
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.model.trace import Trace
from statediff.model.verdict import Stage, Verdict
from statediff.systems.tables.source import TablesSource
from tests.judging import at, document

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples" / "reads"
INVALID = "state-invalid-correct"
# run → what the answer's clauses and the clauses about reads find wrong
RUNS = {
    "silence-shallow": ["claim-refuted", "unsearched-absence"],
    "silence-guessed": [INVALID, "evidence-not-retrieved"],
    "silence-valid": [],
    "perspective-attendance": [
        "claim-refuted", *["access-violation"] * 4, *["subsystem-violation"] * 3,
        "evidence-not-retrieved",
    ],
    "perspective-leaked": [INVALID, "access-violation"],
    "perspective-valid": [],
    "counterfactual-surface": ["claim-refuted"] * 3 + ["evidence-not-retrieved"] * 2,
    "counterfactual-adjacent": [INVALID, "evidence-not-retrieved"],
    "counterfactual-valid": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def office() -> Capture:
    schema = load_schema_file(FOLDER / "schema.yaml")
    content = (FOLDER / "state.json").read_bytes()
    source = TablesSource("tables", content, refine(schema, "tables"))
    return take((source,), MemoryChunks(), lambda: at(1), None, "before")


def judged(name: str, office: Capture) -> Evaluated:
    told = read_trace(FOLDER / f"{name}.trace.jsonl")
    return evaluate(
        load_contract(FOLDER / f"{name.partition('-')[0]}.yaml"), office, office,
        trace=Trace(told.actions, is_complete=True, cause=""),
        answer=read_answer(FOLDER / f"{name}.answer.json"),
    )  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_each_run_gets_the_verdict_the_paper_argues_for(name: str, office: Capture) -> None:
    found = judged(name, office)
    wrong = [f.code for f in found.judgement.findings if f.code != "holds"]
    assert sorted(wrong) == sorted(RUNS[name])
    assert found.judgement.verdict is (Verdict.DIVERGE if RUNS[name] else Verdict.MATCH)
    assert document(replay(found.bundle)) == document(found.judgement)


def test_the_silence_run_covered_one_of_eleven_and_the_perspective_run_leaked_nothing(
    office: Capture,
) -> None:
    silence = judged("silence-shallow", office).judgement
    assert any("10 of 11 never fetched" in f.sentence for f in silence.findings)
    strays = [
        f.sentence
        for f in judged("perspective-attendance", office).judgement.findings
        if f.stage is Stage.ACCESS and f.code.endswith("violation")
    ]
    assert len(strays) == 7
    assert not any("leak" in sentence for sentence in strays)


@pytest.mark.parametrize("path", recorded_contracts(), ids=lambda p: p.stem)
def test_the_contracts_are_tidy_and_lint_finds_no_error(path: Path, office: Capture) -> None:
    assert format_contract(path.read_bytes(), path.name) == path.read_bytes()
    found = [p for p in lint(load_contract(path), None, office) if p.severity == "error"]
    assert [str(p) for p in found] == []


def test_every_run_of_the_examples_is_judged() -> None:
    assert {p.name.split(".")[0] for p in FOLDER.glob("*.answer.json")} == set(RUNS)
    json.loads((FOLDER / "state.json").read_text(encoding="utf-8"))
