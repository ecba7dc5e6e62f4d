"""`export`: judged trials in the forms of other tools: JUnit, SARIF, Markdown, OpenTelemetry."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.reports.exports import Exported

EXPORT = "statediff/export/1"


class Form(StrEnum):
    """What an export can be."""

    JUNIT = "junit"
    SARIF = "sarif"
    MARKDOWN = "markdown"
    TURNS = "turns"
    GITHUB = "github"
    OTLP = "otlp"


def export(
    target: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE|RUN", help="A bundle's folder, a trial's, or a run's."),
    ],
    form: Annotated[Form, typer.Option("--as", help="The form of the export.")],
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
    from statediff.cli.folders import write_file
    from statediff.cli.output import emit, results, shown
    from statediff.errors import UsageError

    if as_json and out is None:
        raise UsageError("--json tells of the file that was written; name it with --out")
    if form is Form.TURNS:
        text, count, not_run = _turns(target)
    elif form is Form.OTLP:
        text, count, not_run = _spans(target)
    else:
        trials, not_run = _trials(target)
        text, count = _written(form, trials, not_run), len(trials)
    if out is None:
        results().print(text, end="", soft_wrap=True)
        return
    write_file(out, text.encode("utf-8"))
    if as_json:
        emit({
            "schema": EXPORT, "export": shown(out), "as": form.value, "trials": count,
            "not_run": not_run,
        })  # fmt: skip
    else:
        results().print(shown(out), soft_wrap=True)


def _trials(target: Path) -> tuple[list[Exported], int]:
    """Every trial of the run or bundle, and how many were scheduled and have no folder."""
    from statediff.cli.bundles import load_bundle
    from statediff.cli.runfolders import is_run, run_facts, scheduled, trials
    from statediff.errors import BundleError, InputError
    from statediff.reports.exports import exported, without_verdict

    if not is_run(target):
        bundle, folder = load_bundle(target)
        return [exported(bundle, str(bundle.manifest["trial"]), str(folder))], 0
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
    return found, scheduled(run_facts(target), len(found)) - len(found)


def _turns(target: Path) -> tuple[str, int, int]:
    """Every turn of every trial that was judged, a line each; how many were, and were not."""
    from statediff.cli.bundles import load_bundle
    from statediff.cli.runfolders import is_run, run_facts, scheduled, trials
    from statediff.reports.plain import dumps
    from statediff.reports.rubric import opinion_line
    from statediff.reports.turns import turn_lines
    from statediff.suite.rubric import FILE, kept_opinion

    if is_run(target):
        every = list(trials(target))
        found = [(each.bundle, each.folder) for each in every if each.bundle is not None]
        missing = scheduled(run_facts(target), len(every)) - len(found)
    else:
        found, missing = [load_bundle(target)], 0
    lines = []
    for bundle, folder in found:
        opinion = kept_opinion(folder.parent / FILE)
        turns = list(turn_lines(bundle, str(folder)))
        if opinion is not None and opinion.bundle == bundle.digest:
            turns[-1]["judge"] = opinion_line(opinion)  # it is about the whole run
        lines += [dumps(turn) + "\n" for turn in turns]
    return "".join(lines), len(found), missing


def _spans(target: Path) -> tuple[str, int, int]:
    """Every trial as a line of OTLP; how many there are, and how many were never run."""
    from statediff.cli.bundles import load_bundle
    from statediff.cli.runfolders import is_run, run_facts, scheduled, trials
    from statediff.reports.otlp import fault_span, trial_spans
    from statediff.reports.plain import dumps

    if not is_run(target):
        bundle, folder = load_bundle(target)
        document = trial_spans(bundle, str(bundle.manifest["trial"]), str(folder))
        return dumps(document) + "\n", 1, 0
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
    return "".join(dumps(line) + "\n" for line in lines), len(lines) - left, left


def _written(form: Form, trials: list[Exported], not_run: int) -> str:
    from statediff.reports.exports import junit, markdown, sarif, workflow

    match form:
        case Form.GITHUB:
            return workflow(trials, not_run)
        case Form.JUNIT:
            return junit(trials, not_run)
        case Form.SARIF:
            return json.dumps(sarif(trials), indent=1, ensure_ascii=True) + "\n"
        case _:
            return markdown(trials, not_run)
