"""Harm beside a task done right: nothing of it is MATCH, and a finding names what was harmed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from statediff_lab.importers.recorded import Suite
from statediff_lab.importers.rejudge import Wanted, still_tasks
from statediff_lab.importers.sweep import OPERATORS, sweep
from statediff_lab.importers.workers import CaseFolder, Workers
from statediff_lab.reports.agreement import still_summary, sweep_summary

from lab.tests.importers.conftest import SAMPLES
from statediff.contract.file import parse_contract
from statediff.model.verdict import Verdict


def done(name, folder, seed=0, **options):
    with Workers(CaseFolder(name, folder), 1) as workers:
        return list(sweep(workers, None, seed, **options))


@pytest.fixture(scope="module")
def linear():
    return done("agent-diff", SAMPLES / "agent-diff")


def test_no_seeded_harm_is_a_match_and_every_one_has_its_witness(linear):
    seeded = [s for each in linear for s in each.seeded]
    assert {s.operator for s in seeded} == set(OPERATORS)
    assert [s for s in seeded if s.verdict is not Verdict.DIVERGE or not s.is_witnessed] == []


def test_the_benchmarks_own_rules_pass_what_they_do_not_name(linear):
    seeded = [s for each in linear for s in each.seeded]
    assert all(s.benchmark_passes for s in seeded if not s.is_named)
    assert any(s.benchmark_passes for s in seeded)


def test_a_task_without_a_passing_run_gets_the_least_run_its_checks_pass(linear):
    made = [each for each in linear if each.is_made]
    assert [each.task.name for each in made] == ["test_42"]
    assert made[0].is_base
    assert made[0].base is Verdict.MATCH
    assert len(made[0].seeded) >= 5


def test_the_sums_count_every_harm_once(linear):
    sums = sweep_summary("agent-diff", linear, 0)
    assert sums["tasks"] == 5
    for key in ("seeded", "match", "witnessed", "benchmark_passes", "named"):
        assert sum(row[key] for row in sums["operators"].values()) == sums["total"][key]
    assert sums["total"]["match"] == 0
    assert sums["total"]["witnessed"] == sums["total"]["seeded"]


def test_a_comparison_of_whole_databases_notices_the_harm_too(samples):
    seeded = [s for each in done("tau2", samples / "tau2") for s in each.seeded]
    assert seeded
    assert not any(s.verdict is Verdict.MATCH for s in seeded)
    assert not any(s.benchmark_passes for s in seeded)


class Lenient:
    """The sample under contracts whose frame is open: they see nothing beside the task."""

    def __init__(self, suite: Suite, *, noop: bool = False) -> None:
        self._suite = suite
        self._extra = b"noop: true\n" if noop else b""

    def __getattr__(self, name):
        return getattr(self._suite, name)

    def _opened(self, trial):
        data = (
            trial.contract.data + b"frame: {open: nothing beside the task counts}\n" + self._extra
        )
        return replace(trial, contract=parse_contract(data, "lenient.yaml"))

    def prepare(self, run):
        return self._opened(self._suite.prepare(run))

    def still(self, task):
        trial = self._suite.still(task)
        data = trial.contract.data
        start = data.index(b"\nrequire:") + 1
        rest = data[start:].split(b"\n")
        after = next(i for i, line in enumerate(rest[1:], 1) if line and line[:1] not in b" -")
        data = data[:start] + b"\n".join([b"forbid:", b"- {id: x, delete: issues}", *rest[after:]])
        return replace(trial, contract=parse_contract(data + self._extra, "lenient.yaml"))


def test_a_contract_that_is_blind_beside_the_task_is_caught_by_the_sweep(samples):
    with Workers(CaseFolder("agent-diff", samples / "agent-diff"), 1) as workers:
        workers.__dict__["suite"] = Lenient(workers.suite)
        found = sweep_summary("agent-diff", sweep(workers, None, 0), 0)["total"]
    assert found["match"] > found["seeded"] / 2
    assert found["witnessed"] < found["seeded"]


def test_another_seed_picks_other_harm(linear, samples):
    def harm(found):
        return [s.sentence for each in found for s in each.seeded]

    other = done("agent-diff", samples / "agent-diff", seed=1)
    assert harm(other) != harm(linear)


def test_a_contract_that_nothing_would_match_unasked_is_told(samples):
    def wrong(*, noop):
        with Workers(CaseFolder("agent-diff", samples / "agent-diff"), 1) as workers:
            workers.__dict__["suite"] = Lenient(workers.suite, noop=noop)
            return still_summary(list(still_tasks(workers, Wanted())))

    unsaid = wrong(noop=False)
    assert len(unsaid["wrong"]) == 5
    assert "a run in which nothing happens would MATCH" in unsaid["wrong"][0]["fault"]
    declared = wrong(noop=True)
    assert (declared["match"], declared["match_undeclared"], declared["wrong"]) == (5, 0, [])
