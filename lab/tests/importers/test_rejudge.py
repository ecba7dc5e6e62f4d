"""Recorded runs judged again, in order; `test_conformance` has what the kit asks of readers."""

from __future__ import annotations

import pytest
from statediff_lab.importers.recorded import Half
from statediff_lab.importers.rejudge import Mode, Wanted, rejudge
from statediff_lab.importers.workers import CaseFolder, Workers

from statediff.errors import UsageError
from statediff.model.verdict import Verdict

COMPAT = Wanted(Mode.COMPAT)


def judged(name, folder, wanted=COMPAT, jobs=1):
    with Workers(CaseFolder(name, folder), jobs) as workers:
        return list(rejudge(workers, wanted))


@pytest.mark.parametrize(
    ("name", "folder"), [("agent-diff", "agent-diff"), ("tau2", "tau2"), ("tau2", "tau2-sample")]
)
def test_a_benchmarks_own_rules_reproduce_its_recorded_verdicts(samples, name, folder):
    found = judged(name, samples / folder)
    assert found
    assert [j.passes for j in found] == [j.labels.compat for j in found]
    assert {j.passes for j in found} == {True, False}


@pytest.mark.slow
def test_two_processes_give_what_one_gives_in_the_same_order(altered):
    folder = altered("agent-diff", lambda lines: b"".join(lines * 4))  # little work needs no other
    wanted = Wanted(Mode.CLOSED)
    assert judged("agent-diff", folder, wanted, jobs=2) == judged("agent-diff", folder, wanted)


def test_one_domain_or_half_can_be_wanted_and_a_domain_that_is_not_there_is_named(samples):
    found = judged("agent-diff", samples / "agent-diff", Wanted(Mode.COMPAT, half=Half.HELD_OUT))
    assert found == []
    with pytest.raises(UsageError, match="there are runs of: linear"):
        judged("agent-diff", samples / "agent-diff", Wanted(domain="trello"))


def test_a_closed_contract_sees_what_the_benchmark_passes(samples):
    found = judged("agent-diff", samples / "agent-diff", Wanted(Mode.CLOSED))
    [hurt] = [j for j in found if j.labels.official and j.verdict is Verdict.DIVERGE]
    assert hurt.why[0].clause == "frame"
    assert hurt.why[0].on == ("issue_labels",)
    assert hurt.reviewed
