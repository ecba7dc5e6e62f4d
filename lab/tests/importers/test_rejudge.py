"""Recorded runs judged again: in order, whatever is wrong with one of them, and by no label."""

from __future__ import annotations

import gzip
import json

import pytest
from statediff_lab.importers.recorded import BadLine, Half
from statediff_lab.importers.rejudge import Mode, RejudgedRun, Wanted, rejudge
from statediff_lab.importers.workers import CaseFolder, Workers

from lab.tests.importers.conftest import stripped
from statediff.errors import UsageError
from statediff.model.verdict import Verdict

COMPAT = Wanted(Mode.COMPAT)


def judged(name, folder, wanted=COMPAT, jobs=1):
    with Workers(CaseFolder(name, folder), jobs) as workers:
        return list(rejudge(workers, wanted))


@pytest.mark.parametrize("name", ["agent-diff", "tau2"])
def test_a_benchmarks_own_rules_reproduce_its_recorded_verdicts(samples, name):
    found = judged(name, samples / name)
    assert found
    assert [j.passes for j in found] == [j.labels.compat for j in found]
    assert {j.passes for j in found} == {True, False}


@pytest.mark.parametrize("name", ["agent-diff", "tau2"])
@pytest.mark.parametrize("mode", list(Mode))
def test_without_labels_every_outcome_is_the_same(samples, altered, name, mode):
    bare = altered(name, lambda lines: b"".join(stripped(line) for line in lines))
    one = judged(name, samples / name, Wanted(mode))
    two = judged(name, bare, Wanted(mode))
    assert [(j.run_id, j.verdict, j.why) for j in one] == [
        (j.run_id, j.verdict, j.why) for j in two
    ]
    assert {j.labels.official for j in two} == {None}


def test_a_label_that_lies_changes_no_outcome(samples, altered):
    def lie(lines):
        runs = [json.loads(line) for line in lines]
        return b"".join(json.dumps({**r, "passed": not r["passed"]}).encode() + b"\n" for r in runs)

    folder = altered("agent-diff", lie)
    one, two = judged("agent-diff", samples / "agent-diff"), judged("agent-diff", folder)
    assert [j.verdict for j in one] == [j.verdict for j in two]


@pytest.mark.slow
def test_two_processes_give_what_one_gives_in_the_same_order(altered):
    folder = altered("agent-diff", lambda lines: b"".join(lines * 4))  # little work needs no other
    wanted = Wanted(Mode.CLOSED)
    assert judged("agent-diff", folder, wanted, jobs=2) == judged("agent-diff", folder, wanted)


def test_a_corrupt_line_is_reported_by_number_and_the_rest_is_judged(samples, altered):
    def damage(lines):
        return b"".join([lines[0], lines[1][:100] + b"\n", b'{"run_id": 5}\n', *lines[2:]])

    found = judged("agent-diff", altered("agent-diff", damage))
    assert [f.number for f in found if isinstance(f, BadLine)] == [2, 3]
    whole = judged("agent-diff", samples / "agent-diff")
    kept = [j.run_id for j in whole]
    del kept[1]
    assert [f.run_id for f in found if isinstance(f, RejudgedRun)] == kept


def test_a_truncated_gzip_loses_only_what_was_cut_off(altered):
    def cut(lines):
        noise = [json.dumps({"noise": str(i**50)}).encode() + b"\n" for i in range(2000)]
        return gzip.compress(b"".join([*lines, *noise]))[:-2000]

    found = judged("agent-diff", altered("agent-diff", cut))
    assert sum(isinstance(f, RejudgedRun) for f in found) == 9
    assert "damaged" in found[-1].why


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


@pytest.mark.parametrize("jobs", [0, -1, 65])
def test_a_number_of_processes_that_is_none_is_refused(samples, jobs):
    with pytest.raises(UsageError, match="expected a number of processes"):
        judged("agent-diff", samples / "agent-diff", jobs=jobs)


@pytest.mark.parametrize(("name", "folder", "why"), [
    ("other", ".", "there are: agent-diff, bfcl, tau2"),
    ("agent-diff", "nowhere", "expected a folder"),
])  # fmt: skip
def test_a_format_or_folder_that_is_none_is_named(tmp_path, name, folder, why):
    with pytest.raises(UsageError, match=why):
        judged(name, tmp_path / folder)
