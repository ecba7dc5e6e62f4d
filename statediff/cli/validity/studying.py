"""`study`: evaluators compared on the same labelled runs, with intervals, domain by domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli.options import JsonFlag, Pieces, RecordedRun, SchemaFileOption
from statediff.cli.output import print_result, progress, shown
from statediff.errors import UsageError

if TYPE_CHECKING:
    from statediff.meta.study.measures import Study
    from statediff.meta.study.trials import ScoredCase


@dataclass(frozen=True)
class Wanted:
    """What to make of each contract."""

    seed: int
    each: int
    live: bool
    keep: Path | None = None
    """Where what was judged is kept."""


@dataclass(frozen=True, kw_only=True)
class CaseOptions:
    """Which cases are made of each contract."""

    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Of the cases and of the bootstrap.")
    ] = 0
    each: Annotated[
        int,
        typer.Option(
            "--each",
            metavar="N",
            min=0,
            help="So many cases of each class in each right run; 0 for all.",
        ),
    ] = 1
    live: Annotated[
        bool, typer.Option("--live", help="Run the faulty agents of every cases.yaml as well.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class OtherCases:
    """Cases that others recorded, or reviewers labelled."""

    suites: Annotated[
        list[str] | None,
        typer.Option(
            "--cases",
            metavar="SUITE=DIR",
            help="Recorded runs of a public benchmark, as `import` reads them.",
        ),
    ] = None
    runs: Annotated[
        int,
        typer.Option(
            "--runs", metavar="N", min=0, help="Of --cases: so many of each domain; 0 for all."
        ),
    ] = 40
    harms: Annotated[
        int,
        typer.Option(
            "--harms", metavar="N", min=0, help="Of --cases: harms seeded into each right run."
        ),
    ] = 1
    reviewed: Annotated[
        list[Path] | None,
        typer.Option(
            "--reviewed", metavar="RUN", help="A run's folder, whose trials reviewers labelled."
        ),
    ] = None
    trust: Annotated[
        Path | None,
        typer.Option("--trust", metavar="FILE", help="Of --reviewed: whose labels count."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class StudyFiles:
    """Where the measures are written."""

    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="The measures, for a spreadsheet.")
    ] = None
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="A page with plots.")
    ] = None


def study(
    contracts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONTRACT...]",
            help="Contract files, folders, or packs' names [default: every contract of the packs, "
            "unless other cases are named].",
        ),
    ] = None,
    *,
    making: CaseOptions,
    recorded: RecordedRun,
    schema: SchemaFileOption = None,
    others: OtherCases,
    files: StudyFiles,
    pieces: Pieces,
    as_json: JsonFlag = False,
) -> int:
    """Compare evaluators on labelled runs: text, calls, assertions, raw states, and the judge.

    Right runs are made live, or read, and altered by the fault engine; every evaluator, and the
    judge with one part gone, judges each. Ends with 0 if the judge agrees with every label, 1 if
    it contradicts one, 3 if it only left some open.
    """
    from statediff.meta.checkpoint import require_folder
    from statediff.meta.study.evaluators import ABLATIONS, EVALUATORS
    from statediff.meta.study.importing import OFFICIAL
    from statediff.meta.study.measures import RESAMPLES
    from statediff.meta.study.measures import study as measured

    if not recorded.is_whole:
        raise UsageError("a recorded run is --before and --after, maybe --answer and --schema")
    if bool(others.reviewed) != (others.trust is not None):
        raise UsageError("--reviewed and --trust go together: whose labels count must be said")
    if pieces.keep is not None:
        if recorded.before:
            raise UsageError("--keep is for contracts and --cases: a recorded run is one piece")
        require_folder(pieces.keep)
    cases: list[ScoredCase] = []
    tell = _teller(quiet=as_json)
    wanted = Wanted(making.seed, making.each, making.live, pieces.keep)
    if recorded.before:
        cases += _recorded_cases(contracts, wanted, recorded, schema)
    elif contracts or not (others.suites or others.reviewed):
        cases += _contract_cases(contracts, wanted, pieces.jobs, tell)
    for suite in others.suites or ():
        for case in _imported_cases(suite, wanted, pieces.jobs, others.runs, others.harms):
            cases.append(case)
            tell(len(cases))
    if others.trust is not None:
        cases += _reviewed_cases(others.reviewed or [], others.trust)
    if not cases:
        raise UsageError("nothing to study: no run there has a label that counts")
    about = {e.name: e.about for e in (OFFICIAL, *EVALUATORS, *ABLATIONS)}
    found = measured(cases, about, making.seed, RESAMPLES)
    _write(found, files, as_json=as_json)
    return _code(found)


def _teller(*, quiet: bool) -> Callable[[int], None]:
    """Tells how many cases are judged, each time there are a score more; nothing if quiet."""
    told = 0

    def tell(number: int) -> None:
        nonlocal told
        if not quiet and number >= told + 20:
            told = number
            progress().print(f"{number} cases judged")

    return tell


def _write(found: Study, files: StudyFiles, *, as_json: bool) -> None:
    from statediff.reports.study import document, study_text, table
    from statediff.workspace.folders import write_file

    if files.csv is not None:
        write_file(files.csv, table(found).encode())
    if files.html is not None:
        from statediff.reports.html import study_html

        write_file(files.html, study_html(found).encode())
    written = [f"written: {shown(path)}" for path in (files.csv, files.html) if path is not None]
    print_result(document(found), "\n".join([study_text(found), *written]), as_json=as_json)


# ---------------------------------------------------------------- cases


def _contract_cases(
    names: list[str] | None, wanted: Wanted, jobs: int, tell: Callable[[int], None]
) -> list[ScoredCase]:
    """The judged cases of each contract, in order."""
    from functools import partial

    from statediff.packs import contract_folders
    from statediff.parallel import work_through
    from statediff.workspace.contracts import contract_paths

    paths = contract_paths(names or [folder.name for folder in contract_folders()])
    number = 0

    def count(_: Path, done: tuple[ScoredCase, ...]) -> None:
        nonlocal number
        number += len(done)
        tell(number)

    done = work_through(partial(judged_contract, wanted), paths, jobs, count)
    return [case for cases in done for case in cases]


def _recorded_cases(
    names: list[str] | None, wanted: Wanted, recorded: RecordedRun, schema: Path | None
) -> tuple[ScoredCase, ...]:
    """The cases seeded into one right run that was recorded."""
    from statediff.evaluate import load_contract
    from statediff.meta.cases import read_cases
    from statediff.meta.study.cases import seed_cases
    from statediff.meta.study.evaluators import ABLATIONS, EVALUATORS, score_case
    from statediff.model.trace import Trace
    from statediff.workspace.contracts import contract_path
    from statediff.workspace.references import recorded_run

    if names is None or len(names) != 1:
        raise UsageError("--before and --after are of a run of one contract: name that contract")
    path = contract_path(names[0])
    file = load_contract(path)
    before, after = recorded.before or [], recorded.after or []
    run = recorded_run(file, before, after, recorded.answer, schema=schema)
    made = seed_cases(
        [replace(run, trace=Trace())], wanted.seed, read_cases(path.parent).argued, wanted.each
    )
    return tuple(score_case(case, (*EVALUATORS, *ABLATIONS)) for case in made)


def _imported_cases(
    named: str, wanted: Wanted, jobs: int, runs: int, harms: int
) -> Iterator[ScoredCase]:
    """The cases of a folder of recorded runs, judged."""
    from statediff.importers.workers import CaseFolder, Workers
    from statediff.meta.study.importing import imported_cases

    suite, equals, folder = named.partition("=")
    if not equals or not folder:
        raise UsageError(f"--cases {named}: expected SUITE=DIR, e.g. tau2=DIR or agent-diff=DIR")
    with Workers(CaseFolder(suite, Path(folder)), jobs) as workers:
        yield from imported_cases(workers, wanted.seed, runs, harms, wanted.keep)


def _reviewed_cases(folders: Sequence[Path], trust: Path) -> Iterator[ScoredCase]:
    """The trials of run folders that reviewers labelled; the others say nothing here."""
    from statediff.evidence.keys import load_trust
    from statediff.meta.study.cases import reviewed_case
    from statediff.suite.labels import labels_in, settled_label
    from statediff.workspace.bundles import draw_trials

    keys = load_trust(trust)
    for trial in draw_trials(folders, None, 0):
        labels, resolutions = labels_in(trial.folder, trial.digest, keys)
        label = settled_label(labels, resolutions)
        if label is not None:
            yield reviewed_case(trial.read(), label, labels)


def judged_contract(wanted: Wanted, path: Path) -> tuple[ScoredCase, ...]:
    """Every case of one contract, judged by every evaluator; as they are kept, where they are."""
    from statediff.meta.checkpoint import checkpoint, contract_digest
    from statediff.meta.study.trials import SCORED

    if wanted.keep is None:
        return tuple(_make_cases(wanted, path))
    asked = [str(path), wanted.seed, wanted.each, wanted.live, contract_digest(path)]
    name = f"{path.parent.parent.name} {path.parent.name}"
    return checkpoint(wanted.keep, name, asked, lambda: _make_cases(wanted, path), SCORED)


def _make_cases(wanted: Wanted, path: Path) -> Iterator[ScoredCase]:
    from statediff.evaluate import load_contract
    from statediff.meta.cases import read_cases
    from statediff.meta.study.cases import live_cases, seed_cases
    from statediff.meta.study.evaluators import ABLATIONS, EVALUATORS, score_case
    from statediff.suite.campaign import SandboxPool
    from statediff.workspace.references import live_references

    file = load_contract(path)
    cases = read_cases(path.parent)
    evaluators = (*EVALUATORS, *ABLATIONS)
    with closing(SandboxPool()) as pool:
        gold = tuple(live_references(file, path, cases.references, pool))
        made = seed_cases(gold, wanted.seed, cases.argued, wanted.each)
        yield from (score_case(case, evaluators) for case in made)
        agents = [wrong.agent for wrong in cases.faulty] if wanted.live else []
        if agents:
            trials = live_references(file, path, agents, pool)
            yield from (score_case(case, evaluators) for case in live_cases(trials, cases, gold))


def _code(found: Study) -> int:
    """0 if the judge agrees with every label, 1 if it contradicts one, 3 if it left some open."""
    from statediff.meta.study.evaluators import OURS

    judges = [m for domain in found.domains for m in domain.evaluators if m.evaluator == OURS]
    if any(
        m.failed
        or m.false_acceptance.hits
        or m.false_rejection.hits
        or m.rejected_right.hits
        or m.unseen_passed.hits
        for m in judges
    ):
        return 1
    return 0 if all(m.agreement.hits == m.agreement.of for m in judges) else 3
