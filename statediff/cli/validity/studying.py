"""`study`: evaluators compared on the same labelled runs, with intervals, domain by domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli.judging import SchemaFileOption
from statediff.cli.output import JsonFlag
from statediff.cli.recordedoptions import After, Answer, Before, Jobs, Keep

if TYPE_CHECKING:
    from statediff.meta.study.measures import Study
    from statediff.meta.study.trials import Scored
    from statediff.systems.base.embedded import EmbeddedSandbox


@dataclass(frozen=True)
class Wanted:
    """What to make of each contract."""

    seed: int
    each: int
    live: bool
    keep: Path | None = None
    """Where what was judged is kept."""


def study(  # noqa: PLR0913 - one parameter an option
    contracts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONTRACT...]",
            help="Contract files, folders, or packs' names [default: every contract of the packs, "
            "unless other cases are named].",
        ),
    ] = None,
    *,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Of the cases and of the bootstrap.")
    ] = 0,
    each: Annotated[
        int,
        typer.Option(
            "--each", metavar="N", min=0,
            help="So many cases of each class in each right run; 0 for all.",
        ),
    ] = 1,
    live: Annotated[
        bool, typer.Option("--live", help="Run the faulty agents of every cases.yaml as well.")
    ] = False,
    before: Before = None,
    after: After = None,
    answer: Answer = None,
    schema: SchemaFileOption = None,
    suites: Annotated[
        list[str] | None,
        typer.Option(
            "--cases", metavar="SUITE=DIR",
            help="Recorded runs of a public benchmark, as `import` reads them.",
        ),
    ] = None,
    runs: Annotated[
        int,
        typer.Option(
            "--runs", metavar="N", min=0, help="Of --cases: so many of each domain; 0 for all."
        ),
    ] = 40,
    harms: Annotated[
        int,
        typer.Option(
            "--harms", metavar="N", min=0, help="Of --cases: harms seeded into each right run."
        ),
    ] = 1,
    reviewed: Annotated[
        list[Path] | None,
        typer.Option(
            "--reviewed", metavar="RUN", help="A run's folder, whose trials reviewers labelled."
        ),
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option("--trust", metavar="FILE", help="Of --reviewed: whose labels count."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="The measures, for a spreadsheet.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="A page with plots.")
    ] = None,
    keep: Keep = None,
    jobs: Jobs = 1,
    as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """Compare evaluators on labelled runs: text, calls, assertions, raw states, and the judge.

    Right runs are made live, or read, and altered by the fault engine; every evaluator, and the
    judge with one part gone, judges each. Ends with 0 if the judge agrees with every label, 1 if
    it contradicts one, 3 if it only left some open.
    """
    from statediff.errors import UsageError
    from statediff.meta.checkpoint import require_folder
    from statediff.meta.study.evaluators import ABLATIONS, EVALUATORS
    from statediff.meta.study.importing import OFFICIAL
    from statediff.meta.study.measures import RESAMPLES
    from statediff.meta.study.measures import study as measured

    if bool(before) != bool(after) or (answer is not None and not before):
        raise UsageError("a recorded run is --before and --after, maybe --answer and --schema")
    if bool(reviewed) != (trust is not None):
        raise UsageError("--reviewed and --trust go together: whose labels count must be said")
    cases: list[Scored] = []
    tell = _teller(quiet=as_json)
    if keep is not None:
        if before:
            raise UsageError("--keep is for contracts and --cases: a recorded run is one piece")
        require_folder(keep)
    wanted = Wanted(seed, each, live, keep)
    if before and after:
        cases += _recorded(contracts, wanted, before, after, answer, schema)
    elif contracts or not (suites or reviewed):
        cases += _judged(contracts, wanted, jobs, tell)
    for suite in suites or ():
        for case in _imported(suite, wanted, jobs, runs, harms):
            cases.append(case)
            tell(len(cases))
    if trust is not None:
        cases += _reviewed(reviewed or [], trust)
    if not cases:
        raise UsageError("nothing to study: no run there has a label that counts")
    about = {e.name: e.about for e in (OFFICIAL, *EVALUATORS, *ABLATIONS)}
    found = measured(cases, about, seed, RESAMPLES)
    _put(found, csv, html, as_json=as_json)
    return _code(found)


def _teller(*, quiet: bool) -> Callable[[int], None]:
    """Tells how many cases are judged, each time there are a score more; nothing if quiet."""
    from statediff.cli.output import progress

    told = 0

    def tell(number: int) -> None:
        nonlocal told
        if not quiet and number >= told + 20:
            told = number
            progress().print(f"{number} cases judged")

    return tell


def _put(found: Study, csv: Path | None, html: Path | None, *, as_json: bool) -> None:
    from statediff.cli.output import emit, results, shown
    from statediff.reports.study import document, table, told
    from statediff.workspace.folders import write_file

    if csv is not None:
        write_file(csv, table(found).encode())
    if html is not None:
        from statediff.reports.html import study_html

        write_file(html, study_html(found).encode())
    if as_json:
        emit(document(found))
        return
    results().print(told(found), soft_wrap=True)
    for path in (csv, html):
        if path is not None:
            results().print(f"written: {shown(path)}", soft_wrap=True)


# ---------------------------------------------------------------- cases


def _judged(
    names: list[str] | None, wanted: Wanted, jobs: int, tell: Callable[[int], None]
) -> list[Scored]:  # fmt: skip
    """The judged cases of each contract, in order."""
    from functools import partial

    from statediff.packs import contract_folders
    from statediff.parallel import work_through
    from statediff.workspace.contracts import contract_paths

    paths = contract_paths(names or [folder.name for folder in contract_folders()])
    number = 0

    def told(_: Path, done: tuple[Scored, ...]) -> None:
        nonlocal number
        number += len(done)
        tell(number)

    done = work_through(partial(judged_contract, wanted), paths, jobs, told)
    return [case for cases in done for case in cases]


def _recorded(
    names: list[str] | None, wanted: Wanted, before: list[str], after: list[str],
    answer: Path | None, schema: Path | None,
) -> tuple[Scored, ...]:  # fmt: skip
    """The cases seeded into one right run that was recorded."""
    from statediff.errors import UsageError
    from statediff.evaluate import TrialFacts, load_contract
    from statediff.meta.cases import read_cases
    from statediff.meta.reference import Reference
    from statediff.meta.study.evaluators import ABLATIONS, EVALUATORS
    from statediff.meta.study.scoring import scored
    from statediff.meta.study.seeding import seeded_cases
    from statediff.model.trace import Trace
    from statediff.workspace.contracts import contract_path
    from statediff.workspace.inputs import answer_from, capture_pair, refinements

    if names is None or len(names) != 1:
        raise UsageError("--before and --after are of a run of one contract: name that contract")
    path = contract_path(names[0])
    file = load_contract(path)
    first, last = capture_pair(before, after, refinements(schema, file.content.sandbox), ())
    facts = TrialFacts("offline", agent="unknown", isolation="unknown")
    run = Reference(
        "recorded",
        file,
        before=first,
        after=last,
        trace=Trace(),
        answer=answer_from(answer),
        timeline=None,
        facts=facts,
    )
    made = seeded_cases([run], wanted.seed, read_cases(path.parent).argued, wanted.each)
    return tuple(scored(case, (*EVALUATORS, *ABLATIONS)) for case in made)


def _imported(named: str, wanted: Wanted, jobs: int, runs: int, harms: int) -> Iterator[Scored]:
    """The cases of a folder of recorded runs, judged."""
    from statediff.errors import UsageError
    from statediff.importers.workers import Cases, Workers
    from statediff.meta.study.importing import imported_cases

    suite, equals, folder = named.partition("=")
    if not equals or not folder:
        raise UsageError(f"--cases {named}: expected SUITE=DIR, e.g. tau2=DIR or agent-diff=DIR")
    with Workers(Cases(suite, Path(folder)), jobs) as workers:
        yield from imported_cases(workers, wanted.seed, runs, harms, wanted.keep)


def _reviewed(folders: Sequence[Path], trust: Path) -> Iterator[Scored]:
    """The trials of run folders that reviewers labelled; the others say nothing here."""
    from statediff.evidence.keys import load_trust
    from statediff.meta.study.recorded import reviewed_case
    from statediff.suite.labels import kept, settled
    from statediff.workspace.sampling import drawn

    keys = load_trust(trust)
    for trial in drawn(folders, None, 0):
        labels, resolutions = kept(trial.folder, trial.digest, keys)
        label = settled(labels, resolutions)
        if label is not None:
            yield reviewed_case(trial.read(), label, labels)


def judged_contract(wanted: Wanted, path: Path) -> tuple[Scored, ...]:
    """Every case of one contract, judged by every evaluator; as they are kept, where they are."""
    from statediff.meta.checkpoint import beside, kept
    from statediff.meta.study.trials import SCORED

    if wanted.keep is None:
        return tuple(_made(wanted, path))
    asked = [str(path), wanted.seed, wanted.each, wanted.live, beside(path)]
    name = f"{path.parent.parent.name} {path.parent.name}"
    return kept(wanted.keep, name, asked, lambda: _made(wanted, path), SCORED)


def _made(wanted: Wanted, path: Path) -> Iterator[Scored]:
    from statediff.evaluate import load_contract
    from statediff.meta.cases import read_cases
    from statediff.meta.study.evaluators import ABLATIONS, EVALUATORS
    from statediff.meta.study.scoring import live_cases, scored
    from statediff.meta.study.seeding import seeded_cases
    from statediff.workspace.references import live_references

    file = load_contract(path)
    cases = read_cases(path.parent)
    running: dict[str, EmbeddedSandbox] = {}
    evaluators = (*EVALUATORS, *ABLATIONS)
    with ExitStack() as stack:
        gold = tuple(live_references(file, path, cases.references, running, stack))
        made = seeded_cases(gold, wanted.seed, cases.argued, wanted.each)
        yield from (scored(case, evaluators) for case in made)
        agents = [wrong.agent for wrong in cases.faulty] if wanted.live else []
        if agents:
            trials = live_references(file, path, agents, running, stack)
            yield from (scored(case, evaluators) for case in live_cases(trials, cases, gold))


def _code(found: Study) -> int:
    """0 if the judge agrees with every label, 1 if it contradicts one, 3 if it left some open."""
    from statediff.meta.study.evaluators import OURS

    judges = [m for domain in found.domains for m in domain.evaluators if m.evaluator == OURS]
    if any(m.failed or m.false_acceptance.hits or m.false_rejection.hits or m.rejected_right.hits
           or m.unseen_passed.hits for m in judges):  # fmt: skip
        return 1
    return 0 if all(m.agreement.hits == m.agreement.of for m in judges) else 3
