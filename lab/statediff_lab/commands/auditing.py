"""`audit`: somebody's verifier on trial, by runs that are right, wrong, or not there to be seen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli.faults import FAULT
from statediff.cli.options import JsonFlag, Pieces, RecordedRun, SchemaFileOption
from statediff.cli.output import at_work, print_result
from statediff.errors import UsageError
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff_lab.audit.measures import DomainAudit
    from statediff_lab.audit.suites import Effort
    from statediff_lab.audit.tasks import FileTask
    from statediff_lab.audit.tries import TaskAudit


@dataclass(frozen=True, kw_only=True)
class Audited:
    """Who judges, and which runs."""

    verifier: Annotated[
        str | None,
        typer.Option(
            "--verifier",
            metavar="VERIFIER",
            help="A command (0 is a pass; {state} is the state's path), pytest:FILE, sql:FILE, "
            "python:MODULE:FUNCTION or contract:CONTRACT.",
        ),
    ] = None
    solution: Annotated[
        str | None,
        typer.Option(
            "--solution",
            metavar="COMMAND",
            help="Instead of --after: makes the right run in a copy of the state, {state}.",
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="PATH", help="Where commands find the folder that they are shown."
        ),
    ] = None
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="URL", help="Where dumps (.sql, .dump, .backup) are loaded."
        ),
    ] = None
    right: Annotated[
        list[str] | None,
        typer.Option("--right", metavar="STATE", help="The state after another right run."),
    ] = None
    wrong: Annotated[
        list[str] | None,
        typer.Option("--wrong", metavar="STATE", help="The state after a run known to be wrong."),
    ] = None
    contract: Annotated[
        Path | None,
        typer.Option(
            "--contract", metavar="CONTRACT", help="What in the task is harm [default: drafted]."
        ),
    ] = None
    cases: Annotated[
        str | None,
        typer.Option(
            "--cases",
            metavar="SUITE=DIR",
            help="Instead: a public benchmark's own rules, on recorded runs as `import` reads.",
        ),
    ] = None
    judges: Annotated[
        Path | None,
        typer.Option(
            "--judges",
            metavar="FILE",
            help="Instead: judges, as JSON lines of labels and verdicts of the same runs.",
        ),
    ] = None
    domain: Annotated[
        str | None, typer.Option("--domain", metavar="NAME", help="Of --cases: only this one.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Trying:
    """How much is tried, and how much may go wrong."""

    each: Annotated[
        int,
        typer.Option(
            "--each", metavar="N", min=0, help="So many runs of each class and task; 0 for all."
        ),
    ] = 3
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Picks them, and resamples.")
    ] = 0
    seconds: Annotated[
        float,
        typer.Option("--timeout", metavar="S", min=0.1, help="Seconds of one word of a verifier."),
    ] = 60.0
    max_blind: Annotated[
        int, typer.Option("--max-blind", metavar="N", min=0, help="Wrong runs that may pass.")
    ] = 0
    max_false_fails: Annotated[
        int,
        typer.Option("--max-false-fails", metavar="N", min=0, help="Right runs that may not pass."),
    ] = 0


@dataclass(frozen=True, kw_only=True)
class AuditFiles:
    """The outputs, and where they are written."""

    holes: Annotated[
        Path | None,
        typer.Option(
            "--holes", metavar="DIR", help="A bundle of each wrong word here, and the contract."
        ),
    ] = None
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the page here.")
    ] = None
    badge: Annotated[
        Path | None,
        typer.Option(
            "--badge", metavar="FILE", help="Write a badge: .svg, or .json as shields.io reads it."
        ),
    ] = None


def audit(
    tasks: Annotated[
        Path | None,
        typer.Argument(metavar="[TASKS]", help="A YAML file of tasks: states, and verifiers."),
    ] = None,
    *,
    audited: Audited,
    recorded: RecordedRun,
    schema: SchemaFileOption = None,
    trying: Trying,
    files: AuditFiles,
    pieces: Pieces,
    as_json: JsonFlag = False,
) -> int:
    """Try a verifier on right runs, seeded harm and harmless twins, and count what it gets wrong.

    Ends with 1 where more wrong runs pass than --max-blind, or more right ones do not than
    --max-false-fails; with 4 where a task could not be audited, after the figures of the others.
    """
    from statediff.meta.checkpoint import require_folder
    from statediff.workspace.folders import require_writable
    from statediff_lab.audit.measures import measure
    from statediff_lab.audit.suites import Effort

    names = ("verifier", "solution", "at", "server", "contract", "right", "wrong")
    given = (getattr(audited, name) for name in names)
    has_own = any((tasks, recorded.before, schema, *given))
    if audited.judges is not None:
        if has_own or audited.cases or any(vars(files).values()):
            raise UsageError("--judges has its runs, and writes no files: leave out all else")
        return _judges(audited.judges, trying.seed, as_json=as_json)
    if files.badge is not None and files.badge.suffix not in (".svg", ".json"):
        raise UsageError(f"--badge {shown(files.badge)}: expected a name in .svg or .json")
    effort = Effort(seed=trying.seed, each=trying.each, keep=pieces.keep, holes=files.holes)
    if pieces.keep is not None:
        require_folder(pieces.keep)
    elif files.holes is not None and files.holes.is_dir() and any(files.holes.iterdir()):
        raise UsageError(f"--holes {shown(files.holes)}: holds something; choose another folder")
    pages = (page.parent for page in (files.html, files.badge) if page is not None)
    for folder in (files.holes, *pages):
        if folder is not None:
            require_writable(folder)
    if audited.cases is not None:
        if has_own:
            raise UsageError("--cases has its tasks, states and verifier: leave out all of yours")
        found = _suite(audited.cases, audited.domain, effort, pieces.jobs)
    else:
        if audited.domain is not None:
            raise UsageError("--domain goes with --cases")
        listed = _tasks(tasks, audited, recorded, schema)
        found = _files(listed, effort, trying.seconds, pieces.jobs)
    domains = measure(found, trying.seed)
    _write(audited, domains, found, trying, files, as_json=as_json)
    return _code(domains, found, trying)


def _tasks(
    path: Path | None, audited: Audited, recorded: RecordedRun, schema: Path | None
) -> tuple[FileTask, ...]:
    from statediff_lab.audit.tasks import FileTask, WrongRun, tasks_in

    if path is not None:
        runs = audited.right or audited.wrong
        own = (audited.contract, schema, audited.solution, audited.at, audited.server)
        if recorded.before or runs or any(own):
            raise UsageError(
                f"{path} says the states of each task: leave out --before and the like"
            )
        return tasks_in(path, audited.verifier)
    ends = bool(recorded.after) + bool(audited.solution)
    if audited.verifier is None or not recorded.before or ends != 1:
        raise UsageError(
            "an audit takes --verifier, --before and --after (a state, and the same after a right "
            "run) or --solution, or a file of TASKS, or --cases SUITE=DIR"
        )
    return (
        FileTask(
            name="task",
            verifier=audited.verifier,
            before=tuple(recorded.before),
            after=tuple(recorded.after or ()),
            solution=audited.solution or "",
            at=audited.at or "",
            server=audited.server or "",
            answer=recorded.answer,
            right=tuple(audited.right or ()),
            wrong=tuple(WrongRun(after=each) for each in audited.wrong or ()),
            contract=audited.contract,
            schema=schema,
        ),
    )


def _files(
    listed: tuple[FileTask, ...], effort: Effort, seconds: float, jobs: int
) -> list[TaskAudit]:
    from functools import partial

    from statediff.parallel import Inline, Processes, in_order
    from statediff_lab.audit.tries import TaskAudit
    from statediff_lab.auditing import audit_or_fault, audit_task

    def lost(task: FileTask) -> TaskAudit:
        return TaskAudit(task.domain or task.name, task.name, fault="its process was ended")

    number = min(jobs, len(listed))
    work = partial(audit_or_fault if len(listed) > 1 else audit_task, effort, seconds)
    executor, found = Processes(number) if number > 1 else Inline(), []
    try:
        with at_work("asking") as count:
            for each in in_order(executor, 2 * number, work, listed, lost):
                count("tasks audited")
                found.append(each)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
    return found


def _suite(named: str, domain: str | None, effort: Effort, jobs: int) -> list[TaskAudit]:
    from statediff_lab.audit.suites import audit_suite
    from statediff_lab.importers.workers import CaseFolder, Workers

    suite, equals, folder = named.partition("=")
    if not equals or not folder:
        raise UsageError(f"--cases {named}: expected SUITE=DIR, e.g. tau2=DIR or agent-diff=DIR")
    with Workers(CaseFolder(suite, Path(folder)), jobs) as workers, at_work("asking") as count:
        return [
            each for each in audit_suite(workers, effort, domain) if count("tasks audited") is None
        ]


def _write(
    audited: Audited,
    domains: tuple[DomainAudit, ...],
    found: list[TaskAudit],
    trying: Trying,
    files: AuditFiles,
    *,
    as_json: bool,
) -> None:
    from statediff.workspace.folders import write_file
    from statediff_lab.reports.audit import audit_document, audit_text, badge

    lines = [audit_text(domains, found)]
    if files.html is not None:
        from statediff_lab.reports.pages import audit_html

        who = audited.verifier or audited.cases or "one of each task"
        write_file(
            files.html, audit_html(who, domains, found, trying.seed).encode(), option="--html"
        )
        lines.append(f"written: {shown(files.html)}")
    if files.badge is not None:
        image = badge(domains, is_svg=files.badge.suffix == ".svg")
        write_file(files.badge, image.encode(), option="--badge")
        lines.append(f"written: {shown(files.badge)}")
    bundles = [each.bundle for task in found for each in task.tries if each.bundle]
    if files.holes is not None and bundles:
        lines.append(f"each hole replays: statediff replay {shown(files.holes / bundles[0])}")
    document = audit_document(domains, found, trying.seed, trying.each)
    print_result(document, "\n".join(lines), as_json=as_json)


def _judges(path: Path, seed: int, *, as_json: bool) -> int:
    from statediff_lab.audit.judges import judge_file
    from statediff_lab.reports.audit import judges_document, judges_text

    study = judge_file(path, seed)
    print_result(judges_document(study), judges_text(study), as_json=as_json)
    return 0


def _code(domains: tuple[DomainAudit, ...], found: list[TaskAudit], trying: Trying) -> int:
    if not any(domain.audited for domain in domains) or any(task.fault for task in found):
        return FAULT
    blind, false = (sum(getattr(d, n) for d in domains) for n in ("blind", "false_fails"))
    return 1 if blind > trying.max_blind or false > trying.max_false_fails else 0
