"""The packs of Linear and Slack, over the recorded runs they were made for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from statediff_lab.importers.agentdiff.suite import AgentDiff, open_cases
from statediff_lab.importers.pack import pack_folder
from statediff_lab.importers.recorded import (
    Half,
    Labels,
    RecordedRun,
    RunLine,
    TaskId,
    parse,
    read_lines,
)
from statediff_lab.importers.rejudge import judge_trial, read_run, reasons, reviewed_reasons

from statediff.model.verdict import Judgement, Verdict

PACKS = pack_folder("agent-diff", "linear").parent


def runs_of(cases: AgentDiff) -> Iterator[tuple[RecordedRun, Labels]]:
    for file in cases.files:
        for line in read_lines(file.path):
            assert isinstance(line, RunLine)
            yield read_run(cases, file.domain, line)


def judged(cases: AgentDiff, run: RecordedRun) -> Judgement:
    return judge_trial(cases.prepare(run)).judgement


def test_no_pack_names_a_run(whole: Path) -> None:
    text = "".join(p.read_text() for p in sorted(PACKS.rglob("*")) if p.is_file())
    folder = whole / "agent-diff"
    ids = [
        str(parse(line)["run_id"])
        for file in open_cases(folder).files
        for line in read_lines(file.path)
        if isinstance(line, RunLine)
    ]
    assert len(ids) == 549
    assert not [run_id for run_id in ids if run_id in text]


@pytest.mark.slow
def test_a_few_runs_of_each_task_are_judged_as_the_pack_says(whole: Path) -> None:
    """All are judged by `statediff lab import`; here two that pass and one that does not."""
    cases = open_cases(whole / "agent-diff")
    seen: Counter[tuple[TaskId, bool]] = Counter()
    for run, labels in runs_of(cases):
        assert labels.official is not None
        seen[run.task, labels.official] += 1
        if seen[run.task, labels.official] > (2 if labels.official else 1):
            continue
        judgement = judged(cases, run)
        if not labels.official:
            assert judgement.verdict is Verdict.DIVERGE, run.run_id
        elif judgement.verdict is not Verdict.MATCH:
            notes = cases.pack(run.task.domain).notes(run.task.name)
            assert judgement.verdict is Verdict.DIVERGE
            assert reviewed_reasons(notes.reviewed, reasons(judgement)), run.run_id
    assert len({task for task, _ in seen}) == 40


def test_each_task_without_a_passing_run_has_a_least_run_that_matches(whole: Path) -> None:
    cases = open_cases(whole / "agent-diff")
    passing = {run.task for run, labels in runs_of(cases) if labels.official}
    for task in (task for task in cases.tasks() if task not in passing):
        run = cases.minimal(task)
        assert run is not None, task
        assert cases.compat(run).passes, task
        assert judged(cases, run).verdict is Verdict.MATCH, task


def test_a_least_run_is_the_same_each_time(whole: Path) -> None:
    one, other = (open_cases(whole / "agent-diff") for _ in range(2))
    for task in (TaskId("linear", "test_41"), TaskId("slack", "test_19")):
        assert one.minimal(task) == other.minimal(task)


def test_the_first_run_over_the_held_out_half_is_on_record() -> None:
    first = json.loads((PACKS / "first-run.json").read_text())
    runs = first["held_out"]["linear"]
    assert runs["runs"] == sum(count for name, count in runs.items() if name != "runs") == 271
    assert first["pack_version"] == "1.0.0"


@pytest.mark.parametrize("domain", ["linear", "slack"])
def test_what_a_pack_says_of_a_task_it_says_of_one_that_there_is(whole: Path, domain: str) -> None:
    cases = open_cases(whole / "agent-diff")
    tasks = {task.name for task in cases.tasks() if task.domain == domain}
    assert set(cases.pack(domain).tasks) <= tasks
    assert cases.half(TaskId(domain, "test_13")) is Half.HELD_OUT
