"""`import`: runs that were recorded for a public benchmark, judged again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli.faults import FAULT
from statediff.cli.options import JsonFlag
from statediff.cli.output import at_work, emit, print_result, progress
from statediff.errors import UsageError
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff_lab.imported import Keeper
    from statediff_lab.importers.agreement import AgreementReport
    from statediff_lab.importers.recorded import BadLine
    from statediff_lab.importers.rejudge import RejudgedRun, StillTask, Wanted
    from statediff_lab.importers.workers import Workers


class ModeName(StrEnum):
    """Whose rules decide."""

    COMPAT = "compat"
    CLOSED = "closed"


class HalfName(StrEnum):
    """The half of the tasks that a pack was developed on, and the other."""

    DEVELOPED = "developed"
    HELD_OUT = "held-out"


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """Which recorded runs are judged, and by whose rules."""

    cases: Annotated[
        Path | None, typer.Option("--cases", metavar="DIR", help="The benchmark's files, and runs.")
    ] = None
    mode: Annotated[
        ModeName,
        typer.Option("--mode", help="The benchmark's own rules, or a closed contract."),
    ] = ModeName.CLOSED
    domain: Annotated[
        str | None, typer.Option("--domain", metavar="NAME", help="Only this domain.")
    ] = None
    half: Annotated[
        HalfName | None, typer.Option("--half", help="Only this half of the tasks.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ImportFiles:
    """The outputs, and where they are written."""

    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Keep schemas, contracts and a bundle of every run here."
        ),
    ] = None
    states: Annotated[
        bool,
        typer.Option("--states", help="With --out: each run's states before and after as well."),
    ] = False
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the page (HTML) here.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Effort:
    """By which seed, and in how many processes."""

    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Picks resamples and seeded harm.")
    ] = 0
    jobs: Annotated[
        int,
        typer.Option("-j", "--jobs", metavar="N", help="Processes [default: one a processor]."),
    ] = 0


def import_runs(
    suite: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help="What recorded the runs: agent-diff, tau2 or otel."),
    ],
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="With otel: the exported spans.")
    ] = None,
    *,
    choice: RunChoice,
    sweep: Annotated[
        bool,
        typer.Option("--sweep", help="Seed harm into what passes, and show who notices."),
    ] = False,
    files: ImportFiles,
    effort: Effort,
    trace_id: Annotated[
        str | None,
        typer.Option("--trace-id", metavar="ID", help="With otel: which trace, of several."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Judge the recorded runs of a public benchmark again, without running an agent.

    By the benchmark's own rules (`compat`), or under contracts whose frame is closed. `otel` reads
    OpenTelemetry spans instead and writes the calls they tell of to --out, for `judge --trace`.
    """
    from statediff.workspace import folders
    from statediff_lab import imported
    from statediff_lab.importers import workers as processes
    from statediff_lab.importers.recorded import Half
    from statediff_lab.importers.rejudge import Mode, Wanted

    out, report, half = files.out, files.report, choice.half
    if suite == "otel":
        if file is None or out is None:
            raise UsageError("import otel takes the exported spans, and --out: FILE --out TRACE")
        return _otel(file, trace_id, out, as_json=as_json)
    if choice.cases is None or file is not None or trace_id is not None:
        raise UsageError(f"import {suite} takes --cases DIR; a FILE and --trace-id go with otel")
    opened = processes.CaseFolder(suite, choice.cases)
    wanted = Wanted(
        Mode(choice.mode.value), choice.domain, None if half is None else Half(half.value)
    )
    _require_compatible(choice, files, is_sweep=sweep)
    for folder in (out, report.parent if report else None):
        if folder is not None:
            folders.require_writable(folder)
    keeper = None if out is None else imported.Keeper(opened, wanted, out, with_states=files.states)
    with processes.Workers(opened, effort.jobs or min(os.cpu_count() or 1, 8)) as workers:
        if sweep:
            return _sweep(workers, choice.domain, effort.seed, as_json=as_json)
        if choice.mode is ModeName.COMPAT:
            return _judge_compat(workers, wanted, as_json=as_json)
        return _judge_closed(workers, wanted, effort.seed, keeper, report, as_json=as_json)


def _require_compatible(choice: RunChoice, files: ImportFiles, *, is_sweep: bool) -> None:
    """The options go together; else `UsageError`."""
    has_out = files.out is not None
    if choice.mode is ModeName.COMPAT and (has_out or files.report or is_sweep):
        raise UsageError(
            "--out, --report and --sweep say what a closed contract finds; leave out --mode compat"
        )
    if (files.states and not has_out) or (is_sweep and has_out):
        raise UsageError("--states goes with --out, --sweep without it")


def _otel(file: Path, trace_id: str | None, out: Path, *, as_json: bool) -> int:
    """The calls in exported spans are in `out`, a new file."""
    from statediff.agents.otel import read_otel
    from statediff.evidence.documents import trace_lines
    from statediff.model.values import Unobserved, printable
    from statediff.workspace import folders

    trace = read_otel(file, trace_id)
    if out.exists():
        raise UsageError(f"{printable(str(out))}: exists already and nothing is overwritten")
    folders.write_file(out, trace_lines(trace), mode=0o600)  # as recorded: it is to be judged
    unsaid = sum(isinstance(call.arguments, Unobserved) for call in trace.actions)
    count, place = len(trace.actions), shown(out)
    note = f"; {unsaid} without arguments" if unsaid else ""
    print_result(
        {"calls": count, "without_arguments": unsaid, "trace": place},
        f"{count} call{'s' * (count != 1)}{note}: {place}",
        as_json=as_json,
    )
    return 0


def _judge_compat(workers: Workers, wanted: Wanted, *, as_json: bool) -> int:
    from statediff_lab.importers.agreement import RunTally, compat_summary
    from statediff_lab.importers.recorded import BadLine
    from statediff_lab.importers.rejudge import Mode, rejudge
    from statediff_lab.reports.agreement import run_line

    tally = RunTally()
    with at_work() as count:
        for outcome in rejudge(workers, wanted):
            tally.add(outcome)
            count("runs")
            if isinstance(outcome, BadLine):
                _tell_bad(outcome, as_json=as_json)
            elif as_json:
                emit(run_line(outcome, Mode.COMPAT))
    sums = compat_summary(tally)
    text = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in sums.items())
    print_result(sums, f"{workers.cases.suite}, by its own rules: {text}", as_json=as_json)
    return _exit_code(tally.judged, bad=len(tally.bad_lines))


def _judge_closed(
    workers: Workers,
    wanted: Wanted,
    seed: int,
    keeper: Keeper | None,
    page: Path | None,
    *,
    as_json: bool,
) -> int:
    from statediff.cli.output import tell_no_page
    from statediff_lab.importers.agreement import RunTally
    from statediff_lab.importers.agreement import report as report_of
    from statediff_lab.importers.recorded import BadLine
    from statediff_lab.importers.rejudge import Mode, rejudge, still_tasks
    from statediff_lab.reports.agreement import agreement_text, run_line, summary

    tally = RunTally()
    with at_work() as count:
        for outcome in rejudge(workers, keeper.wanted if keeper else wanted):
            tally.add(outcome)
            count("runs")
            if isinstance(outcome, BadLine):
                _tell_bad(outcome, as_json=as_json)
                continue
            if keeper is not None:
                keeper.keep(outcome)
            if as_json:
                emit(run_line(outcome, Mode.CLOSED))
        idle = []
        for still in still_tasks(workers, wanted):
            idle.append(still)
            count("tasks")
    made = report_of(workers.cases.suite, wanted.mode.value, tally, seed)
    written = _write_page(made, idle, page)
    kept = None if keeper is None else keeper.end(tell_no_page)
    run, report = (None if path is None else shown(path) for path in (kept, written))
    lines = [*agreement_text(made, idle), *(f"written: {path}" for path in (run, report) if path)]
    document = {"summary": {**summary(made, idle), "run": run, "report": report}}
    print_result(document, "\n".join(lines), as_json=as_json)
    wrong = sum(not s.is_right for s in idle)
    return _exit_code(tally.judged, bad=len(tally.bad_lines) + wrong)


def _write_page(made: AgreementReport, idle: Sequence[StillTask], page: Path | None) -> Path | None:
    if page is None:
        return None
    from statediff.workspace.folders import write_file
    from statediff_lab.reports.pages import agreement_html

    write_file(page, agreement_html(made, idle).encode())
    return page


def _sweep(workers: Workers, domain: str | None, seed: int, *, as_json: bool) -> int:
    from statediff_lab.importers.sweep import sweep
    from statediff_lab.reports.agreement import seeded_line, sweep_summary, sweep_text

    done = []
    with at_work() as count:
        for each in sweep(workers, domain, seed):
            done.append(each)
            count("runs and tasks")
            if each.bad_line is not None:
                _tell_bad(each.bad_line, as_json=as_json)
            for seeded in each.seeded if as_json else ():
                emit(seeded_line(seeded))
    sums = sweep_summary(workers.cases.suite, done, seed)
    print_result({"sweep": sums}, "\n".join(sweep_text(sums)), as_json=as_json)
    missed = sums["total"]["match"] or sums["total"]["witnessed"] < sums["total"]["seeded"]
    if sums["bad_lines"]:
        return FAULT
    return 1 if missed else 0


def _tell_bad(line: BadLine, *, as_json: bool) -> None:
    from statediff_lab.reports.agreement import bad_line

    if as_json:
        emit(bad_line(line))
    else:
        progress().print(f"{line.file}, line {line.number}: not judged: {line.why}", soft_wrap=True)


def _exit_code(judged: Sequence[RejudgedRun], *, bad: int) -> int:
    """As of any run: 1 where a run diverges, else 4 where something could not be judged."""
    from statediff.cli.faults import exit_code

    has_fault = bad > 0 or any(j.verdict is None for j in judged)
    return exit_code((j.verdict for j in judged if j.verdict is not None), has_fault=has_fault)
