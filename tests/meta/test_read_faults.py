"""Faults and twins of what was read: every fault is caught and named, every twin matches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from statediff.agents.handover import read_answer, read_trace
from statediff.capture.take import take
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file
from statediff.contract.file import load_contract, parse_contract
from statediff.kernel import TrialFacts
from statediff.meta import read_faults
from statediff.meta.metatest import metatest, tally
from statediff.meta.mutate import judge_fault
from statediff.meta.reference import Reference
from statediff.meta.world import World
from statediff.model.state import MemoryChunks
from statediff.model.trace import Trace
from statediff.model.values import Map
from statediff.model.verdict import Verdict
from statediff.systems.tables.source import TablesSource
from tests.judging import at, capture, contract, part
from tests.policy.test_access import CONTRACT, COVERED, NO, NOTES, REPORT, YES, fetch, search, world
from tests.traces import call, log

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples" / "reads"
RUNS = ("silence-valid", "perspective-valid", "counterfactual-valid")


def worked(name: str) -> Reference:
    schema = load_schema_file(FOLDER / "schema.yaml")
    source = TablesSource("tables", (FOLDER / "state.json").read_bytes(), refine(schema, "tables"))
    office = take((source,), MemoryChunks(), lambda: at(1), None, "before")
    told = read_trace(FOLDER / f"{name}.trace.jsonl")
    return Reference(
        name,
        load_contract(FOLDER / f"{name.partition('-')[0]}.yaml"),
        before=office,
        after=office,
        trace=Trace(told.actions, is_complete=True, cause=""),
        answer=read_answer(FOLDER / f"{name}.answer.json"),
        timeline=None,
        facts=TrialFacts(name),
    )


def made(trace: Trace, answer: dict, body: str = CONTRACT, *pages: dict) -> Reference:
    there = capture("before", part("before", world(*(pages or tuple(NOTES)))))
    after = capture("after", part("after", world(*(pages or tuple(NOTES)))))
    file = parse_contract(contract(body).encode(), "c.yaml")
    return Reference(
        "made",
        file,
        before=there,
        after=after,
        trace=trace,
        answer=Map.of(answer),
        timeline=None,
        facts=TrialFacts("made"),
    )


def references() -> list[Reference]:
    submitted = CONTRACT + "  actions: [{tool: submit, because: it hands in}]\n"
    counted = CONTRACT.replace("      cite: true\n", "      count: 1\n")
    return [
        *(worked(name) for name in RUNS),
        made(log(search("wiki:a"), *COVERED), NO),
        made(log(*COVERED, call("submit")), NO, submitted),
        made(log(fetch("wiki:r")), YES, CONTRACT, *NOTES, REPORT),
        made(log(fetch("wiki:r")), YES, counted, *NOTES, REPORT),
    ]


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [World(each, each.judged(), 1) for each in references()]


def test_every_fault_is_caught_and_named_and_every_twin_matches(worlds: list[World]) -> None:
    seen: set[str] = set()
    for each in worlds:
        for fault in read_faults.faults(each):
            outcome, judgement = judge_fault(fault, "r")
            assert outcome.verdict is read_faults.expected_verdict(fault), (
                fault.operator,
                fault.sentence,
            )
            assert judgement is not None
            assert read_faults.is_named(fault, judgement), (fault.operator, fault.sentence)
            seen.add(fault.operator)
        for twin in read_faults.twins(each):
            outcome, _ = judge_fault(twin, "r")
            assert outcome.verdict is Verdict.MATCH, (twin.operator, twin.sentence, outcome)
            seen.add(twin.operator)
    assert seen >= {
        *read_faults.CODES,
        *read_faults.UNRECORDED,
        "other-order",
        "more-allowed",
        "other-words",
    }


def test_the_meta_test_counts_them_with_the_faults_of_the_state() -> None:
    found = tally(metatest([worked("counterfactual-valid")], 1, {}))
    assert found.is_good, [case.sentence for case in found.wrong]
    assert found.twins > 10
    counted = {line.name for line in found.by_class}
    assert {"evidence-never-fetched", "unrecorded-reads", "reversed-causality"} <= counted


def test_a_contract_that_says_nothing_of_reads_gets_none_of_them() -> None:
    whole = references()[3]
    silent = CONTRACT[: CONTRACT.index("access:")]
    file = parse_contract(contract(silent).encode(), "c.yaml")
    bare = World(replace(whole, contract=file), whole.judged(), 1)
    assert not [*read_faults.faults(bare), *read_faults.twins(bare)]
