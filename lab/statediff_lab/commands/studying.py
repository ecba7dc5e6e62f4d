"""`study`: evaluators compared on the same labelled runs, with intervals, domain by domain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statediff.cli.options import JsonFlag, Pieces, RecordedRun, SchemaFileOption
from statediff.cli.output import print_result, progress
from statediff.errors import UsageError
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff_lab.study.measures import Study
    from statediff_lab.study.passes import Labelling, PassAgreement
    from statediff_lab.study.trials import ScoredCase


REGISTERED: Final = "statediff/study-registered/1"


@dataclass(frozen=True)
class Wanted:
    """The cases to make of each contract."""

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
class PlannedStudy:
    """A sample of --cases that is registered before anybody labels it, and its labels later."""

    register: Annotated[
        Path | None,
        typer.Option(
            "--register",
            metavar="FILE",
            help="Draw a sample of --cases and write down what will be done; judges nothing.",
        ),
    ] = None
    protocol: Annotated[
        Path | None,
        typer.Option(
            "--protocol",
            metavar="FILE",
            help="For --register: who labels, what they see, how disagreements are settled.",
        ),
    ] = None
    within: Annotated[
        str,
        typer.Option(
            "--within",
            metavar="SHARE",
            help="For --register: half the width of the interval that is wanted, 0.1 is 10 points.",
        ),
    ] = "0.1"
    expected: Annotated[
        str,
        typer.Option(
            "--expected",
            metavar="SHARE",
            help="For --register: the share that is expected; 0.5 asks for the most runs.",
        ),
    ] = "0.5"
    registration: Annotated[
        Path | None,
        typer.Option("--registration", metavar="FILE", help="What --register wrote."),
    ] = None
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Of --registration: the labels of a pass, or of a settling; given for each.",
        ),
    ] = None

    def require_whole(self, suites: list[str] | None) -> None:
        """`UsageError` where what belongs together was not given together."""
        if self.register is not None and (not suites or self.protocol is None):
            raise UsageError("--register draws from --cases, and --protocol says who labels how")
        if self.protocol is not None and self.register is None:
            raise UsageError("--protocol is for --register")
        if (self.registration is None) != (not self.labels):
            raise UsageError("--registration and --labels go together: what was drawn, and labels")
        if self.registration is not None and (self.register is not None or not suites):
            raise UsageError("--registration is of --cases that are there, and not drawn anew")


@dataclass(frozen=True, kw_only=True)
class OtherCases(PlannedStudy):
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
    """The files that the measures are written to."""

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
    judge with one part gone, judges each. Of recorded runs a sample can be registered before it is
    labelled, and studied with the labels of blind passes. Ends with 0 if the judge agrees with
    every label, 1 if it contradicts one, 3 if it only left some open.
    """
    from statediff_lab.study.evaluators import ABLATIONS, EVALUATORS
    from statediff_lab.study.importing import OFFICIAL
    from statediff_lab.study.measures import RESAMPLES
    from statediff_lab.study.measures import study as measured
    from statediff_lab.study.passes import agreements

    _require_consistent(recorded, others, pieces)
    if others.register is not None:
        return _register(others, others.register, making.seed, as_json=as_json)
    cases: list[ScoredCase] = []
    passes: tuple[PassAgreement, ...] = ()
    tell = _teller(quiet=as_json)
    wanted = Wanted(making.seed, making.each, making.live, pieces.keep)
    if recorded.before:
        cases += _recorded_cases(contracts, wanted, recorded, schema)
    elif contracts or not (others.suites or others.reviewed):
        cases += _contract_cases(contracts, wanted, pieces.jobs, tell)
    if others.registration is not None:
        found = _labelling(others, others.registration)
        cases += _labelled_cases(found, others.suites or [], pieces.jobs)
        passes = agreements(found, making.seed, RESAMPLES)
    for suite in (others.suites or ()) if others.registration is None else ():
        for case in _imported_cases(suite, wanted, pieces.jobs, others.runs, others.harms):
            cases.append(case)
            tell(len(cases))
    if others.trust is not None:
        cases += _reviewed_cases(others.reviewed or [], others.trust)
    if not cases:
        raise UsageError("nothing to study: no run there has a label that counts")
    about = {e.name: e.about for e in (OFFICIAL, *EVALUATORS, *ABLATIONS)}
    measures = replace(measured(cases, about, making.seed, RESAMPLES), passes=passes)
    _write(measures, files, as_json=as_json)
    return _code(measures)


def _require_consistent(recorded: RecordedRun, others: OtherCases, pieces: Pieces) -> None:
    """The options that go together were all given; `UsageError` if not."""
    from statediff.meta.checkpoint import require_folder

    if not recorded.is_whole:
        raise UsageError("a recorded run is --before and --after, maybe --answer and --schema")
    others.require_whole(others.suites)
    if bool(others.reviewed) != (others.trust is not None):
        raise UsageError("--reviewed and --trust go together: whose labels count must be said")
    if pieces.keep is not None:
        if recorded.before:
            raise UsageError("--keep is for contracts and --cases: a recorded run is one piece")
        require_folder(pieces.keep)


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
    from statediff.workspace.folders import write_file
    from statediff_lab.reports.study import document, study_text, table

    if files.csv is not None:
        write_file(files.csv, table(found).encode(), option="--csv")
    if files.html is not None:
        from statediff_lab.reports.pages import study_html

        write_file(files.html, study_html(found).encode(), option="--html")
    written = [f"written: {shown(path)}" for path in (files.csv, files.html) if path is not None]
    print_result(document(found), "\n".join([study_text(found), *written]), as_json=as_json)


# ---------------------------------------------------------------- cases


def _contract_cases(
    names: list[str] | None, wanted: Wanted, jobs: int, tell: Callable[[int], None]
) -> list[ScoredCase]:
    """The judged cases of each contract, in order."""
    from functools import partial

    from statediff.parallel import work_through
    from statediff.workspace.contracts import contract_paths
    from statediff.workspace.installed import served_tasks

    paths = contract_paths(names or [folder.name for folder in served_tasks()])
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
    from statediff.contract.file import load_contract
    from statediff.meta.cases import read_cases
    from statediff.model.trace import Trace
    from statediff.workspace.contracts import contract_path
    from statediff.workspace.references import recorded_run
    from statediff_lab.study.cases import seed_cases
    from statediff_lab.study.evaluators import ABLATIONS, EVALUATORS, score_case

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
    from statediff_lab.importers.workers import CaseFolder, Workers
    from statediff_lab.study.importing import imported_cases

    with Workers(CaseFolder(*_suite_and_folder(named)), jobs) as workers:
        yield from imported_cases(workers, wanted.seed, runs, harms, wanted.keep)


def _suite_and_folder(named: str) -> tuple[str, Path]:
    suite, equals, folder = named.partition("=")
    if not equals or not folder:
        raise UsageError(f"--cases {named}: expected SUITE=DIR, e.g. tau2=DIR or agent-diff=DIR")
    return suite, Path(folder)


def _register(planned: OtherCases, out: Path, seed: int, *, as_json: bool) -> int:
    """The sample is drawn and written down; nothing is judged."""
    from statediff.workspace.bundles import read_file
    from statediff.workspace.folders import write_file
    from statediff_lab.importers.recorded import open_suite
    from statediff_lab.study.importing import registered

    opened = {
        name: open_suite(name, path) for name, path in map(_suite_and_folder, planned.suites or [])
    }
    protocol = {} if planned.protocol is None else {"protocol": _text(read_file(planned.protocol))}
    found = registered(opened, _share(planned.within), _share(planned.expected), seed, protocol)
    write_file(out, found.written())
    drawn = [f"  {s.domain}, {s.stratum}: {s.drawn} of {s.runs}" for s in found.strata]
    head = f"{shown(out)}: {len(found.sample)} runs, SHA-256 {found.digest}"
    document = {"schema": REGISTERED, "runs": len(found.sample), "digest": found.digest}
    print_result(document, "\n".join([head, *drawn]), as_json=as_json)
    return 0


def _share(text: str) -> Fraction:
    """A share as a decimal. `UsageError` for other texts."""
    if not re.fullmatch(r"0\.[0-9]{1,9}", text):
        raise UsageError(f"{text[:40]!r}: expected a share between 0 and 1 like 0.1")
    return Fraction(text)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"--protocol: not UTF-8: {error}") from error


def _labelling(planned: PlannedStudy, registration: Path) -> Labelling:
    from statediff.workspace.bundles import read_file
    from statediff_lab.study.passes import labelling, read_labels
    from statediff_lab.study.planning import read_registration

    files = [read_labels(read_file(path)) for path in planned.labels or ()]
    return labelling(read_registration(read_file(registration)), files)


def _labelled_cases(found: Labelling, suites: list[str], jobs: int) -> list[ScoredCase]:
    """The registered runs with their labels, under the contracts that were registered."""
    from statediff_lab.importers.workers import CaseFolder, Workers
    from statediff_lab.study.importing import contracts_digest, labelled_cases

    folders = dict(map(_suite_and_folder, suites))
    lacking = {each.domain.split(" ")[0] for each in found.registration.sample} - folders.keys()
    if lacking:
        raise UsageError(f"--cases: runs of {', '.join(sorted(lacking))} were registered as well")
    cases: list[ScoredCase] = []
    opened = {}
    for name, folder in folders.items():
        with Workers(CaseFolder(name, folder), jobs) as workers:
            cases += labelled_cases(workers, found)
            opened[name] = workers.suite
    if contracts_digest(opened, found.registration.sample) != found.registration.contracts:
        progress().print("note: the contracts are others than those that were registered")
    return cases


def _reviewed_cases(folders: Sequence[Path], trust: Path) -> Iterator[ScoredCase]:
    """The trials of run folders that reviewers labelled; the others say nothing here."""
    from statediff.evidence.keys import load_trust
    from statediff.workspace.references import whole_trial
    from statediff_lab.labels import labels_in, looks_in, settled_label
    from statediff_lab.samples import draw_trials
    from statediff_lab.study.cases import ReviewedTrial, reviewed_cases

    keys = load_trust(trust)
    found = []
    for trial in draw_trials(folders, None, 0):
        labels, resolutions = labels_in(trial.folder, trial.digest, keys)
        label = settled_label(labels, resolutions)
        if label is not None:
            bundle = trial.read()
            run = whole_trial(trial.folder, bundle)
            looks = looks_in(trial.folder, trial.digest, keys)
            found.append(ReviewedTrial(bundle, label, labels, run, looks))
    return reviewed_cases(found)


def judged_contract(wanted: Wanted, path: Path) -> tuple[ScoredCase, ...]:
    """Every case of one contract, judged by every evaluator; as they are kept, where they are."""
    from statediff.meta.checkpoint import checkpoint, contract_digest
    from statediff_lab.study.trials import SCORED

    if wanted.keep is None:
        return tuple(_make_cases(wanted, path))
    asked = [str(path), wanted.seed, wanted.each, wanted.live, contract_digest(path)]
    name = f"{path.parent.parent.name} {path.parent.name}"
    return checkpoint(wanted.keep, name, asked, lambda: _make_cases(wanted, path), SCORED)


def _make_cases(wanted: Wanted, path: Path) -> Iterator[ScoredCase]:
    from statediff.contract.file import load_contract
    from statediff.meta.cases import read_cases
    from statediff.suite.campaign import SandboxPool
    from statediff.workspace.references import live_references
    from statediff_lab.study.cases import live_cases, seed_cases
    from statediff_lab.study.evaluators import ABLATIONS, EVALUATORS, score_case

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
    from statediff_lab.study.evaluators import OURS

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
