"""`metatest`: the evaluator on trial, by faults and twins seeded into right runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from statediff.cli.judging import SchemaFileOption
from statediff.cli.output import JsonFlag
from statediff.cli.recordedoptions import After, Answer, Before, Jobs

if TYPE_CHECKING:
    from statediff.evaluate import ContractFile
    from statediff.meta.exact import Bounds
    from statediff.meta.metatest import Case
    from statediff.meta.recordings import Recordings
    from statediff.meta.reference import Reference
    from statediff.meta.tally import Line, Tally
    from statediff.sandbox.embedded import EmbeddedSandbox

METATEST: Final = "statediff/metatest/1"
SHOWN: Final = 20
"""Cases that went wrong, as far as they are listed."""


class Run(NamedTuple):
    """A recorded run, as `judge` is given it."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    answer: Path | None
    folder: Path | None = None
    """That of a run or a trial, in place of the three."""
    trace: Path | None = None
    schema: Path | None = None


class Wanted(NamedTuple):
    """What to try of each contract."""

    seed: int
    sample: int
    live: bool
    is_stored: bool = False
    """The paths are files of a corpus, not contracts."""
    run: Run | None = None
    """The recorded run to seed into, in place of the references' trials."""


def metatest(  # noqa: PLR0913, PLR0917 — one argument an option
    contracts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONTRACT...]",
            help="Contract files, folders, or packs' names [default: all that come with it].",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Picks what is altered [default: drawn, told]."),
    ] = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample",
            metavar="N",
            min=0,
            help="Only so many faults, twins and stage cases of each reference [default: all].",
        ),
    ] = 0,
    live: Annotated[
        bool,
        typer.Option("--live", help="Run the faulty agents of every cases.yaml as well."),
    ] = False,
    corpus: Annotated[
        Path | None,
        typer.Option(
            "--corpus",
            metavar="FOLDER",
            help="Judge a stored corpus of seeded cases again, instead of running anything.",
        ),
    ] = None,
    captures: Annotated[
        Path | None,
        typer.Option(
            "--captures",
            metavar="FOLDER",
            help="Seed into the trials of a run's folder that MATCH, not into reference agents.",
        ),
    ] = None,
    before: Before = None,
    after: After = None,
    answer: Answer = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Every call of the recorded run."),
    ] = None,
    schema: SchemaFileOption = None,
    jobs: Jobs = 1,
    as_json: JsonFlag = False,
) -> int:
    """Seed faults and harmless twins into right runs; 1 if the evaluator gets one of them wrong.

    Each reference agent runs once in its sandbox, or a recorded run is given. Faults of the world
    must get DIVERGE, faults of observation INCONCLUSIVE, twins MATCH, and what is wrong must be
    named.
    """
    import secrets

    from statediff.cli.contracts import contract_paths
    from statediff.cli.output import emit, progress
    from statediff.errors import UsageError
    from statediff.meta.corpus import corpus_files
    from statediff.meta.tally import tally

    drawn = secrets.randbelow(1_000_000) if seed is None else seed
    is_one = contracts is not None and len(contracts) == 1
    is_told = any((before, after, answer, trace, schema))
    is_whole = (captures is not None) != bool(before and after and is_one) and is_one
    if (is_told or captures is not None) and (not is_whole or live or corpus is not None):
        raise UsageError(
            "a recorded run is one CONTRACT with --captures, or with --before and --after, maybe "
            "--answer, --trace and --schema; no --live and no --corpus"
        )
    if corpus is not None and (contracts or live):
        raise UsageError("--corpus judges what is stored: no CONTRACT and no --live")
    if corpus is not None:
        paths = tuple(corpus_files(corpus))
    else:
        paths = contract_paths(contracts) if contracts else every_contract()
    if not as_json:
        kept = "files of the corpus" if corpus else "contracts"
        progress().print(f"seed {drawn}, {len(paths)} {kept}")
    run = Run(tuple(before or ()), tuple(after or ()), answer, captures, trace, schema)
    kept_run = run if is_told or captures is not None else None
    wanted = Wanted(drawn, sample, live, corpus is not None, kept_run)
    found = tally(case for cases in _tried(paths, wanted, jobs) for case in cases)
    if as_json:
        emit(_document(found, drawn))
    else:
        _print(found, drawn)
    return 0 if found.is_good else 1


def every_contract() -> tuple[Path, ...]:
    """What is tried where no contract is named: the packs', and those with recorded runs."""
    from statediff.meta.recordings import recorded_contracts
    from statediff.packs import contract_folders

    return (*(folder.contract for folder in contract_folders()), *recorded_contracts())


def _tried(
    paths: Sequence[Path], wanted: Wanted, jobs: int
) -> Iterator[tuple[Case, ...]]:  # fmt: skip
    """The cases of each contract, in order."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if jobs == 1 or len(paths) == 1:
        yield from (_cases(path, wanted) for path in paths)
        return
    # Spawned, not forked: a fork copies the locks of Arrow's threads, held or not.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(_cases, path, wanted) for path in paths]
        try:
            yield from (future.result() for future in futures)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _cases(path: Path, wanted: Wanted) -> tuple[Case, ...]:
    from statediff.cli.agreeing import recorded_run
    from statediff.cli.mutating import live_references
    from statediff.evaluate import load_contract
    from statediff.meta.cases import read_cases
    from statediff.meta.corpus import replayed
    from statediff.meta.live import lived
    from statediff.meta.metatest import tried
    from statediff.meta.recorded import recorded
    from statediff.meta.recordings import recordings

    if wanted.is_stored:
        return tuple(replayed(path, wanted.sample, wanted.seed))
    file = load_contract(path)
    cases = read_cases(path.parent)
    running: dict[str, EmbeddedSandbox] = {}
    if wanted.run is not None:
        before, after, answer, folder, trace, schema = wanted.run
        if folder is not None:
            runs = recorded(folder, file)
        else:
            runs = (recorded_run(file, list(before), list(after), answer, trace, schema),)
        return tried(runs, wanted.seed, cases.argued, wanted.sample)
    kept = recordings(path)
    if kept is not None:
        runs = tuple(recorded_trial(file, kept, name) for name in kept.cases.references)
        found = tried(runs, wanted.seed, kept.cases.argued, wanted.sample)
        faulty = (recorded_trial(file, kept, wrong.agent) for wrong in kept.cases.faulty)
        return (*found, *lived(faulty, kept.cases))
    with ExitStack() as stack:
        references = tuple(live_references(file, path, cases.references, running, stack))
        found = tried(references, wanted.seed, cases.argued, wanted.sample)
        agents = [wrong.agent for wrong in cases.faulty] if wanted.live else []
        if not agents:
            return found
        return (*found, *lived(live_references(file, path, agents, running, stack), cases))


def recorded_trial(file: ContractFile, kept: Recordings, name: str) -> Reference:
    """The trial that a recorded run makes."""
    from statediff.cli.agreeing import recorded_run

    before, after = [str(kept.before)], [str(kept.after)]
    run = recorded_run(file, before, after, kept.answer(name), kept.trace(name), kept.schema)
    return replace(run, name=name)


# ---------------------------------------------------------------- rendering


def _document(found: Tally, seed: int) -> dict[str, Any]:
    return {
        "schema": METATEST,
        "seed": seed,
        "faults": found.faults,
        "caught": found.caught,
        "named": found.named,
        "twins": found.twins,
        "twins_diverged": found.twins_diverged,
        "evidence_faults": found.evidence_faults,
        "inconclusive": found.inconclusive,
        "stage_cases": found.stage_cases,
        "stage_named": found.stage_named,
        "by_class": {line.name: _line(line) for line in found.by_class},
        "by_domain": {line.name: _line(line) for line in found.by_domain},
    }


def _line(line: Line) -> dict[str, Any]:
    bounds = line.interval
    return {
        "faults": line.faults,
        "caught": line.caught,
        "named": line.named,
        "interval": None if bounds is None else [Decimal(f"{end:.4f}") for end in bounds],
        "stages": dict(line.stages),
    }


def _print(found: Tally, seed: int) -> None:
    from rich.text import Text

    from statediff.cli.output import results
    from statediff.reports.record import said

    console = results()
    mark = Text("✔ " if found.is_good else "✘ ", style="green" if found.is_good else "bold red")
    mark.append(
        f"seed {seed}: {found.caught} of {found.faults} faults caught{_bounds(found.interval)}, "
        f"{found.named} named", style="default",
    )  # fmt: skip
    console.print(mark, soft_wrap=True)
    held = found.twins - found.twins_diverged
    lines = [
        f"  {held} of {found.twins} harmless twins match{_bounds(found.twins_interval)}",
        f"  {found.inconclusive} of {found.evidence_faults} evidence faults are inconclusive",
        f"  {found.stage_named} of {found.stage_cases} stage cases name their stage",
    ]
    for title, listed in (("class", found.by_class), ("domain", found.by_domain)):
        for line in listed:
            by = ", ".join(f"{name} {count}" for name, count in line.stages)
            lines.append(
                f"  {title} {said(line.name, 60)}: {line.caught} of {line.faults}"
                f"{_bounds(line.interval)}; by {by}"
            )
    for case in found.wrong[:SHOWN]:
        got = case.verdict.value if case.verdict else said(case.error, 200)
        lines.append(
            f"  {said(case.contract, 80)} {case.part.value} {said(case.kind, 40)} "
            f"{said(case.entity, 80)}: {said(case.sentence, 200)}; expected "
            f"{case.expected.value}, got {got} at {said(case.clause, 80)}"
            f"{'' if case.is_named else ', not named'}"
        )
    for text in lines:
        console.print(Text(text), soft_wrap=True)


def _bounds(bounds: Bounds | None) -> str:
    return "" if bounds is None else f" (95 %: {bounds.low:.4f} to {bounds.high:.4f})"
