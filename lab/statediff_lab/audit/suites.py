"""The rules of a public benchmark on trial, task by task, over its recorded runs.

1. Of each task's runs that are right, the first that the benchmark and our contract both pass is
   seeded; where nobody recorded one, the least run that the benchmark's rules pass.
2. A run is right, or wrong, where later human corrections say so and agree. Without corrections the
   published verdict is what is on trial, and counts for nothing.
3. What the rules would say of a seeded run, `Suite.reward` computes. Where it rests on code or
   language that is not in the files, the verifier says nothing, and that is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from statediff.errors import StatediffError
from statediff.kernel import TrialFacts
from statediff.meta.checkpoint import Form, checkpoint, digest_of
from statediff.meta.reference import Reference
from statediff.meta.world import World, in_order
from statediff.model.verdict import Verdict
from statediff_lab.audit.holes import Holes
from statediff_lab.audit.tries import (
    Exhibit,
    Group,
    Heard,
    TaskAudit,
    Untriable,
    seeded,
    show_all,
)
from statediff_lab.audit.verifiers import SAID, Opinion, Said
from statediff_lab.importers.recorded import (
    Labels,
    RecordedRun,
    RunLine,
    SeededChange,
    Suite,
    TaskId,
)
from statediff_lab.importers.rejudge import read_run, readable_runs
from statediff_lab.importers.sweep import changes_of, reference_of
from statediff_lab.importers.workers import Workers


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is tried, and what is kept of it."""

    seed: int = 0
    each: int = 3
    """Runs of each class and task; 0 for all."""
    keep: Path | None = None
    """Where the result of each task is kept, to go on from there."""
    holes: Path | None = None
    """Where a bundle of each hole is written."""


@dataclass(frozen=True)
class _Piece:
    task: TaskId
    effort: Effort
    files: str
    """The digest of the suite's folder, where results are kept."""
    lines: list[RunLine] = field(default_factory=list)


def audit_suite(workers: Workers, effort: Effort, domain: str | None = None) -> Iterator[TaskAudit]:
    """Every task of every domain, or of one, in order; those without a run too."""
    suite = workers.suite
    files = "" if effort.keep is None else digest_of(workers.cases.folder.rglob("*"))
    pieces = {
        task: _Piece(task, effort, files) for task in suite.tasks() if domain in (None, task.domain)
    }
    for _, line, run, _ in readable_runs(suite, domain):
        if run.task in pieces:
            pieces[run.task].lines.append(line)
    yield from workers.in_order(audit_piece, pieces.values())


def audit_piece(suite: Suite, piece: _Piece) -> TaskAudit:
    """One task, audited or as it was kept."""
    effort, task = piece.effort, piece.task
    places = [[line.file, line.number] for line in piece.lines]
    asked = [suite.name, str(task), effort.seed, effort.each, str(effort.holes), piece.files]
    name = f"{suite.name} {task}"
    make = partial(_audits, suite, piece)
    form = Form("audit", partial(audit_from, effort.holes))
    (found,) = checkpoint(effort.keep, name, [*asked, places], make, form)
    return found


def _audits(suite: Suite, piece: _Piece) -> Iterator[TaskAudit]:
    task = piece.task
    domain = f"{suite.name} {task.domain}"
    try:
        runs = [read_run(suite, task.domain, line) for line in piece.lines]
        base = _base(suite, task, runs)
        if base is None:
            is_silent = all(suite.reward(run) is None for run, _ in runs)
            why = (
                "its rules rest on code or language that is not in the files"
                if runs and is_silent
                else "no right run was recorded, and none could be made that its rules pass"
            )
            yield TaskAudit(domain, task.name, fault=why)
            return
        run, reference = base
        holes = Holes(piece.effort.holes, f"{domain} {task.name}")
        world = World(reference, reference.judged(), piece.effort.seed)
        shown = _exhibits(suite, run, world, runs, piece.effort.each)
        tries, untried = show_all(shown, holes.keep)
        text = reference.contract.data.decode()
        holes.describe(text)
        left = (*untried, *in_order(world.untried))
        yield TaskAudit(domain, task.name, tries=tries, untried=left, contract=text)
    except StatediffError as error:
        yield TaskAudit(domain, task.name, fault=str(error))


def _base(
    suite: Suite, task: TaskId, runs: Sequence[tuple[RecordedRun, Labels]]
) -> tuple[RecordedRun, Reference] | None:
    """The run that harm is seeded into: one that its rules pass, if it can be that ours do too."""
    found: tuple[RecordedRun, Reference] | None = None
    passing = (run for run, labels in runs if is_right(labels) is not False and suite.reward(run))
    least = suite.minimal(task)
    for run in (*passing, *([] if least is None else [least])):
        if run is least and not suite.reward(run):
            continue
        reference = reference_of(suite, run)
        found = found or (run, reference)
        if reference.judged().verdict is Verdict.MATCH:
            return run, reference
    return found


def is_right(labels: Labels) -> bool | None:
    """True if later human corrections pass the run; None where they differ or there are none."""
    said = set(labels.corrected.values())
    return said.pop() if len(said) == 1 and not labels.uses_language else None


def _exhibits(
    suite: Suite,
    run: RecordedRun,
    world: World,
    runs: Sequence[tuple[RecordedRun, Labels]],
    each: int,
) -> Iterator[Exhibit]:
    yield from _nothing(suite, run, world)
    for recorded, labels in runs:
        label = is_right(labels)
        if label is not None:
            yield Exhibit(
                group=Group.RIGHT if label else Group.IN_TASK,
                kind="recorded-run",
                sentence=f"{recorded.run_id}: people say it is {'right' if label else 'wrong'}",
                ask=partial(_ask, suite, recorded),
            )

    def show(mutant: Reference) -> Heard:
        changes = changes_of(world.reference, mutant)
        if not changes:
            raise Untriable("no row differs")
        return Heard(_opinion(suite, run, changes), mutant)

    yield from seeded(world, each, show)


def _nothing(suite: Suite, run: RecordedRun, world: World) -> Iterator[Exhibit]:
    """The run in which nothing was done, without its answer and with it."""
    if world.reference.contract.content.noop or not world.touched:
        return  # that is what the task asks
    silent = suite.strip(run, acts=False, speaks=False)
    still = suite.still(run.task)
    idle = replace(
        world.reference,
        before=still.before,
        after=still.after,
        trace=still.trace,
        answer=still.answer,
        facts=TrialFacts(run.run_id),
    )
    yield Exhibit(
        group=Group.NOTHING,
        kind="null-run",
        sentence="nothing was done, and nothing said",
        ask=lambda: Heard(_opinion(suite, silent), idle),
    )
    said = suite.strip(run, acts=False, speaks=True)
    if said.raw != silent.raw:
        yield Exhibit(
            group=Group.NOTHING,
            kind="answer-alone",
            sentence="nothing was done; all was said",
            ask=partial(_ask, suite, said),
        )


def _ask(suite: Suite, run: RecordedRun) -> Heard:
    return Heard(_opinion(suite, run), reference_of(suite, run))


def _opinion(suite: Suite, run: RecordedRun, changes: Sequence[SeededChange] = ()) -> Opinion:
    said = SAID[suite.reward(run, changes)]
    return Opinion(said, causes=() if said is Said.PASS else suite.compat(run, changes).causes)


def audit_from(holes: Path | None, told: Mapping[str, Any]) -> TaskAudit:
    """The audit that `asdict` wrote, by way of JSON; `LookupError` where a bundle of it is gone."""
    for each in told["tries"]:
        if each["bundle"] and not (holes and (holes / each["bundle"] / "manifest.json").exists()):
            raise LookupError(each["bundle"])
    return TypeAdapter(TaskAudit).validate_python(told)
