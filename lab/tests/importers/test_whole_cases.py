"""All 1,154 recorded runs, where they lie beside the checkout."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.importers.agreement import RunTally, compat_summary, report
from statediff_lab.importers.rejudge import Mode, Wanted, rejudge
from statediff_lab.importers.workers import CaseFolder, Workers

from lab.tests.importers.conftest import stripped
from statediff.contract.file import ContractFile
from statediff.kernel import Evaluated, TrialFacts, evaluate, prepare
from statediff.model.readings import Capture
from statediff.model.verdict import Verdict

pytestmark = pytest.mark.slow

RUNS = {"agent-diff": 549, "tau2": 605}


def tallied(name: str, folder: Path, wanted: Wanted, jobs: int = 1) -> RunTally:
    tally = RunTally()
    with Workers(CaseFolder(name, folder), jobs) as workers:
        for outcome in rejudge(workers, wanted):
            tally.add(outcome)
    return tally


@pytest.mark.parametrize("name", RUNS)
def test_each_benchmarks_own_rules_reproduce_every_recorded_verdict(
    whole: Path, tmp_path: Path, name: str
) -> None:
    labelled = tallied(name, whole / name, Wanted(Mode.COMPAT))
    runs = RUNS[name]
    assert compat_summary(labelled) == {
        "runs": runs, "agree": runs, "false_pass": 0, "false_fail": 0,
    }  # fmt: skip
    bare = tmp_path / name
    shutil.copytree(whole / name, bare, copy_function=shutil.copyfile)
    bare.chmod(0o755)
    for file in (*bare.glob("runs-*.gz"), *bare.glob("runs_*.gz")):
        lines = gzip.decompress(file.read_bytes()).splitlines()
        file.write_bytes(gzip.compress(b"".join(stripped(line) for line in lines), 1))
    for name_of_labels in ("adjudicated", "llm_judge_verdicts"):
        (bare / f"{name_of_labels}.jsonl.gz").unlink(missing_ok=True)
    unlabelled = tallied(name, bare, Wanted(Mode.COMPAT))
    assert [(j.run_id, j.verdict) for j in unlabelled.judged] == [
        (j.run_id, j.verdict) for j in labelled.judged
    ]
    assert compat_summary(unlabelled)["unlabelled"] == runs


@pytest.mark.timeout(900)
def test_officially_passing_runs_match_unless_a_reviewed_reason_says_why_not(whole: Path) -> None:
    tally = tallied("agent-diff", whole / "agent-diff", Wanted(), jobs=2)
    [linear] = report("agent-diff", "closed", tally, 0).domains
    passing = [j for j in tally.judged if j.labels.official]
    assert len(passing) == 448
    assert [j.run_id for j in passing if j.verdict is not Verdict.MATCH and not j.reviewed] == []
    assert (linear.official.false_pass, linear.official.inconclusive, linear.faults) == (0, 0, 0)


@pytest.mark.timeout(900)
def test_corrected_verdicts_are_reproduced_and_readings_are_kept_apart(whole: Path) -> None:
    tally = tallied("tau2", whole / "tau2", Wanted(), jobs=2)
    made = report("tau2", "closed", tally, 0)
    assert (made.faults, made.bad_lines) == ((), ())
    domains = {domain.domain: domain for domain in made.domains}
    retail = domains["retail"]
    assert (retail.disputed.agree, retail.disputed.runs) == (5, 5)
    assert (retail.corrected.runs, retail.corrected.false_fail) == (180, 0)
    # The corrections kept the reference and compare texts: this run wrote a country another way.
    wrong = [d for d in retail.disagreements if d.against == "corrected"]
    assert [d.judged.task.name for d in wrong] == ["22"]
    assert all(not domain.unreviewed for domain in made.domains)


@pytest.mark.parametrize("name", RUNS)
def test_a_prepared_contract_judges_every_recorded_run_as_evaluate_does(
    whole: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Work that is done once changes nothing: verdicts, changes and findings are the same."""
    found: list[bool] = []

    def both(
        file: ContractFile, before: Capture, after: Capture, *, facts: TrialFacts, **more: Any
    ) -> Evaluated:
        done = evaluate(file, before, after, facts=facts, **more)
        again = prepare(file, before, facts=facts).judgement(after, **more)
        found.append(again == done.judgement)
        return done

    monkeypatch.setattr("statediff_lab.importers.rejudge.evaluate", both)
    tallied(name, whole / name, Wanted())
    assert found == [True] * RUNS[name]
