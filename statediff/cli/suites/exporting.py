"""`export`: judged trials in the forms of other tools: JUnit, SARIF, Markdown, OpenTelemetry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from statediff.cli.output import JsonFlag

EXPORT = "statediff/export/1"


def _choices() -> str:
    """Every format, as help shows a choice; asked for only when this command is made."""
    from statediff.reports.formats.registry import names

    return f"<{'|'.join(names())}>"


def _known(form: str) -> str:
    from statediff.reports.formats.registry import names

    if form not in names():
        known = ", ".join(map(repr, names()))
        raise ValueError(f"{form!r} is not one of {known}.")
    return form


def export(
    target: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE|RUN", help="A bundle's folder, a trial's, or a run's."),
    ],
    form: Annotated[
        str,
        typer.Option("--as", metavar=_choices(), parser=_known, help="The form of the export."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The file [default: standard output]."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the verdicts of a run or a bundle for other tools.

    MATCH passes, DIVERGE is a failure, INCONCLUSIVE and a trial without a verdict are errors. Ends
    with 0 whatever they are: the exit code of `run` is the verdict's.
    """
    from statediff.cli.output import emit, results, shown
    from statediff.errors import UsageError
    from statediff.reports.formats.format import Takes
    from statediff.reports.formats.registry import format_of
    from statediff.workspace.folders import write_file

    if as_json and out is None:
        raise UsageError("--json tells of the file that was written; name it with --out")
    found = format_of(form)
    given = {Takes.TRIALS: _trials, Takes.TURNS: _turns, Takes.SPANS: _spans}
    objects, count, not_run = given[found.takes](target)
    text = found.write(objects, not_run)
    if out is None:
        results().print(text, end="", soft_wrap=True)
        return
    write_file(out, text.encode("utf-8"))
    if as_json:
        emit({
            "schema": EXPORT, "export": shown(out), "as": form, "trials": count,
            "not_run": not_run,
        })  # fmt: skip
    else:
        results().print(shown(out), soft_wrap=True)


def _trials(target: Path) -> tuple[Sequence[Any], int, int]:
    """Every trial of the run or bundle; how many there are, and how many were never run."""
    from statediff.errors import BundleError, InputError
    from statediff.reports.formats.exports import exported, without_verdict
    from statediff.workspace.bundles import load_bundle
    from statediff.workspace.runfolders import is_run, run_facts, scheduled, trials

    if not is_run(target):
        bundle, folder = load_bundle(target)
        return [exported(bundle, str(bundle.manifest["trial"]), str(folder))], 1, 0
    found = []
    for trial in trials(target):
        try:
            found.append(
                without_verdict(trial.name, trial.why)
                if trial.bundle is None
                else exported(trial.bundle, trial.name, str(trial.folder))
            )
        except (BundleError, InputError) as error:
            found.append(without_verdict(trial.name, str(error)))
    return found, len(found), scheduled(run_facts(target), len(found)) - len(found)


def _turns(target: Path) -> tuple[Sequence[Any], int, int]:
    """Every turn of every trial that was judged; how many trials were, and were not."""
    from statediff.reports.formats.turns import turn_lines
    from statediff.reports.rubric import opinion_line
    from statediff.suite.rubric import FILE, kept_opinion
    from statediff.workspace.bundles import load_bundle
    from statediff.workspace.runfolders import is_run, run_facts, scheduled, trials

    if is_run(target):
        every = list(trials(target))
        found = [(each.bundle, each.folder) for each in every if each.bundle is not None]
        missing = scheduled(run_facts(target), len(every)) - len(found)
    else:
        found, missing = [load_bundle(target)], 0
    lines: list[Any] = []
    for bundle, folder in found:
        opinion = kept_opinion(folder.parent / FILE)
        turns = list(turn_lines(bundle, str(folder)))
        if opinion is not None and opinion.bundle == bundle.digest:
            turns[-1]["judge"] = opinion_line(opinion)  # it is about the whole run
        lines += turns
    return lines, len(found), missing


def _spans(target: Path) -> tuple[Sequence[Any], int, int]:
    """Every trial as a document of OTLP; how many there are, and how many were never run."""
    from statediff.reports.formats.otlp import fault_span, trial_spans
    from statediff.workspace.bundles import load_bundle
    from statediff.workspace.runfolders import is_run, run_facts, scheduled, trials

    if not is_run(target):
        bundle, folder = load_bundle(target)
        document = trial_spans(bundle, str(bundle.manifest["trial"]), str(folder))
        return [document], 1, 0
    run = target.absolute().name
    lines = [
        fault_span(run, trial.name, trial.why)
        if trial.bundle is None
        else trial_spans(trial.bundle, trial.name, str(trial.folder))
        for trial in trials(target)
    ]
    left = scheduled(run_facts(target), len(lines)) - len(lines)
    lines += [
        fault_span(run, f"not run {number}", "it was scheduled and not run")
        for number in range(left)
    ]
    return lines, len(lines) - left, left
