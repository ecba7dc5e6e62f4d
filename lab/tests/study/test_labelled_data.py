"""The labels that ship: what was drawn is there as it was, and the page says what they say."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from statediff_lab.importers.agentdiff.suite import open_cases as agent_diff
from statediff_lab.importers.bfcl.suite import open_cases as bfcl
from statediff_lab.importers.recorded import BadLine, Reader, Suite, read_lines
from statediff_lab.importers.tau2.suite import open_cases as tau2
from statediff_lab.importers.workers import CaseFolder, Workers
from statediff_lab.labels import Label
from statediff_lab.study.evaluators import OURS
from statediff_lab.study.importing import contracts_digest, labelled_cases
from statediff_lab.study.measures import is_failure
from statediff_lab.study.passes import (
    Labeller,
    Labelling,
    agreements,
    labelling,
    read_labels,
)
from statediff_lab.study.planning import read_registration

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "fixtures" / "study"
SUITES = ("agent-diff", "bfcl", "tau2")


@pytest.fixture(scope="module")
def found() -> Labelling:
    registration = read_registration((STUDY / "registration.json").read_bytes())
    files = [read_labels(path.read_bytes()) for path in sorted((STUDY / "labels").iterdir())]
    return labelling(registration, files)


def test_every_drawn_run_is_there_as_it_was_with_two_labels(found: Labelling) -> None:
    there = {
        (f"{name} {file.domain}", hashlib.sha256(line.data).hexdigest())
        for name in SUITES
        for file in open_suite_here(name).files
        for line in read_lines(file.path)
        if not isinstance(line, BadLine)
    }
    assert there == {(each.domain, each.digest) for each in found.registration.sample}
    assert len(there) >= 200
    assert found.missing == 0
    assert all(len(each.labels) == len(there) for each in found.passes)
    # Nobody is called a person who was none, and only people take time.
    assert {each.by for each in found.passes} == {Labeller.MODEL}


READERS: dict[str, Reader] = {"agent-diff": agent_diff, "bfcl": bfcl, "tau2": tau2}


def open_suite_here(name: str) -> Suite:
    """Read by the reader of this tree, whichever is installed."""
    return READERS[name](STUDY / "runs" / name)


AS_REGISTERED = {
    "agent-diff": "5d758883dc342944fe563d6b0f8231d540f7eef6e30e668011a64e596feecfc3",
    "bfcl": "5a721423e2d70b146944c968769d761e4c17f496d1bf6e305969ff79d7074a81",
}
"""Digests of the contracts; those of BFCL say what was registered with the keys of 1.0."""


@pytest.mark.slow
@pytest.mark.parametrize("name", AS_REGISTERED)
def test_the_contracts_but_those_of_tau2_are_those_that_were_registered(
    found: Labelling, name: str
) -> None:
    sample = [each for each in found.registration.sample if each.domain.split(" ")[0] == name]
    assert contracts_digest({name: open_suite_here(name)}, sample) == AS_REGISTERED[name]


def test_the_page_says_how_far_the_passes_agree(found: Labelling) -> None:
    page = (ROOT / "docs" / "quality.md").read_text("utf-8")
    for each in agreements(found, 0, 2000):
        assert each.kappa is not None
        right, wrong, open_ones = (each.settled.get(label.value, 0) for label in Label)
        assert f"| {each.domain} | {each.runs}, " in page
        assert f"| {each.agree} of {each.runs} [" in page
        assert f"| {each.kappa:.2f} [" in page
        assert f"| {right}, {wrong}, {open_ones} |" in page


@pytest.mark.slow
def test_the_page_says_what_the_judge_makes_of_a_labelled_domain(found: Labelling) -> None:
    with Workers(CaseFolder("agent-diff", STUDY / "runs" / "agent-diff"), 1) as workers:
        cases = list(labelled_cases(workers, found))
    known = [c for c in cases if c.label is not Label.UNRESOLVABLE]
    agreeing = sum(not is_failure(c, c.opinions[OURS]) for c in known)
    page = (ROOT / "docs" / "quality.md").read_text("utf-8")
    ours = next(x for x in page.splitlines() if x.startswith("| agent-diff linear | 82.9 ["))
    assert f"] | {100 * agreeing / len(known):.1f} [" in ours
