"""`metatest`: the evaluator on trial, by faults and twins seeded into right runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from statediff.cli.faults import Failed, left_out
from statediff.cli.options import (
    CaseChoice,
    ContractsVariantOption,
    InstalledOnly,
    JsonFlag,
    Pieces,
    RecordedRun,
    SchemaFileOption,
    argument,
    flag,
    opt,
    option,
)
from statediff.cli.output import emit, mark, note, say
from statediff.errors import UsageError
from statediff.parallel import work_through
from statediff.reports.said import said
from statediff.workspace.contracts import contract_paths
from statediff.workspace.installed import installed, missing_servers
from statediff.workspace.references import (
    Piece,
    Run,
    Wanted,
    cases_of,
    cases_or_fault,
    every_contract,
    pieces_of,
)

if TYPE_CHECKING:
    from statediff.meta.metatest import MetaCase, Tally, TallyLine
    from statediff.statistics.binomial import Share

METATEST: Final = "statediff/metatest/1"
COUNTS: Final = (
    "faults", "caught", "named", "twins", "twins_diverged", "evidence_faults", "inconclusive",
    "stage_cases", "stage_named",
)  # fmt: skip
"""The counts of a tally that are printed as they are."""
SHOWN: Final = 20
"""Cases that went wrong, as far as they are listed."""


@dataclass(frozen=True, kw_only=True)
class Seeding:
    """The runs that faults are seeded into, and how many faults."""

    seed: int | None = opt("N", "Picks what is altered [default: drawn, shown].")
    sample: int = opt(
        "N",
        "Only so many faults, twins and stage cases of each reference [default: all].",
        default=0,
        min=0,
    )
    live: bool = flag("Run the faulty agents of every cases.yaml as well.")
    sandbox: ContractsVariantOption = "embedded"
    corpus: Path | None = opt(
        "FOLDER", "Judge a stored corpus of seeded cases again, instead of running anything."
    )
    captures: Path | None = opt(
        "FOLDER", "Seed into the trials of a run's folder that MATCH, not into reference agents."
    )
    installed_only: InstalledOnly = False


def metatest(
    contracts: Annotated[
        list[str] | None,
        argument(
            "[CONTRACT...]",
            "Contract files, folders, or packs' names [default: all that come with it].",
        ),
    ] = None,
    *,
    seeding: Seeding,
    recorded: RecordedRun,
    trace: Annotated[
        Path | None, option("FILE", "Every call of the recorded run.", "--trace")
    ] = None,
    schema: SchemaFileOption = None,
    cases: CaseChoice,
    pieces: Pieces,
    as_json: JsonFlag = False,
) -> int:
    """Seed faults and harmless twins into right runs; 1 if the evaluator gets one of them wrong.

    Each reference agent runs once in its sandbox, or a recorded run is given. Faults of the world
    must get DIVERGE, faults of observation INCONCLUSIVE, twins MATCH, and what is wrong must be
    named. A contract with cases is tried in each of them. 4 where one could not be tried, or is not
    installed.
    """
    from statediff.meta.metatest import tally

    seed = _seed(seeding)
    states = tuple(recorded.before or ()), tuple(recorded.after or ())
    run = Run(*states, recorded.answer, seeding.captures, trace, schema)
    paths, absent = _here(_paths(contracts, seeding, run, pieces), contracts, seeding, run)

    def tell(text: str) -> None:
        # One contract is soon done: its JSON comes with no other word.
        if not (as_json and len(paths) == 1):
            note(text)

    tell(f"seed {seed}, {len(paths)} {'files of the corpus' if seeding.corpus else 'contracts'}")
    is_left = left_out(absent, forgiven=seeding.installed_only)
    wanted = Wanted(
        seed,
        seeding.sample,
        seeding.live,
        seeding.corpus is not None,
        run if any(run) else None,
        pieces.keep,
        cases.chosen if cases.is_given else None,
        seeding.sandbox,
    )
    failed = list[Failed]()
    counted = tally(_try(paths, wanted, pieces.jobs, tell, failed))
    if as_json:
        emit({**_document(counted, seed), **Failed.documents(failed)})
    else:
        _print(counted, seed)
    return Failed.show(failed) or int(not counted.is_good) or is_left


def _here(
    paths: tuple[Path, ...], contracts: list[str] | None, seeding: Seeding, run: Run
) -> tuple[tuple[Path, ...], Mapping[str, str]]:
    """The contracts that can be tried, and those asked for that are not installed."""
    if seeding.corpus is not None or any(run):
        return paths, {}
    kept, absent = installed(paths, seeding.sandbox)
    return kept, absent if contracts else missing_servers()


def _seed(seeding: Seeding) -> int:
    """The seed that was given, or one drawn now."""
    return secrets.randbelow(1_000_000) if seeding.seed is None else seeding.seed


def _paths(
    contracts: list[str] | None, seeding: Seeding, run: Run, pieces: Pieces
) -> tuple[Path, ...]:
    """The contracts, or the files of the corpus; `UsageError` where options contradict another."""
    from statediff.meta.checkpoint import require_folder
    from statediff.meta.corpus import corpus_files

    is_one = contracts is not None and len(contracts) == 1
    is_whole = (run.folder is not None) != bool(run.before and run.after and is_one) and is_one
    if any(run) and (not is_whole or seeding.live or seeding.corpus is not None):
        raise UsageError(
            "a recorded run is one CONTRACT with --captures, or with --before and --after, maybe "
            "--answer, --trace and --schema; no --live and no --corpus"
        )
    if seeding.corpus is not None and (contracts or seeding.live):
        raise UsageError("--corpus judges what is stored: no CONTRACT and no --live")
    if seeding.corpus is not None:
        paths = tuple(corpus_files(seeding.corpus))
    else:
        paths = contract_paths(contracts) if contracts else every_contract()
    if pieces.keep is not None:
        if any(run):
            raise UsageError("--keep is for contracts and a corpus: a recorded run is one piece")
        require_folder(pieces.keep)
    return paths


def _try(
    paths: Sequence[Path],
    wanted: Wanted,
    jobs: int,
    tell: Callable[[str], None],
    failed: list[Failed],
) -> Iterator[MetaCase]:
    """The cases of each contract, in order; those that could not be tried are in `failed`."""
    pieces = tuple(pieces_of(paths, wanted))
    done = 0

    def report(piece: Piece, cases: tuple[MetaCase, ...] | str) -> None:
        nonlocal done
        done += 1
        if isinstance(cases, str):
            failed.append(Failed(piece.name, cases))
            tell(f"{done} of {len(pieces)}: {piece.name}: not tried")
            return
        wrong = sum(not (case.is_right and case.is_named) for case in cases)
        tried = sum(case.part != "untried" for case in cases)
        tell(f"{done} of {len(pieces)}: {piece.name}: {tried} cases, {wrong} wrong or unnamed")

    work = partial(cases_or_fault if len(pieces) > 1 else cases_of, wanted)
    for cases in work_through(work, pieces, jobs, report):
        yield from () if isinstance(cases, str) else cases


# ---------------------------------------------------------------- rendering


def _document(found: Tally, seed: int) -> dict[str, Any]:
    from statediff.reports.untried import untried_document

    return {
        "schema": METATEST,
        "seed": seed,
        **{name: getattr(found, name) for name in COUNTS},
        "by_class": {line.name: _line(line) for line in found.by_class},
        "by_domain": {line.name: _line(line) for line in found.by_domain},
        **untried_document(found.untried),
    }


def _line(line: TallyLine) -> dict[str, Any]:
    share = line.interval
    ends = () if share is None else (share.low, share.high)
    return {
        "faults": line.faults,
        "caught": line.caught,
        "named": line.named,
        "interval": [Decimal(f"{float(end):.4f}") for end in ends] or None,
        "stages": dict(line.stages),
    }


def _print(found: Tally, seed: int) -> None:
    from statediff.reports.untried import untried_lines

    head = (
        f"seed {seed}: {found.caught} of {found.faults} faults caught{_ends(found.interval)}, "
        f"{found.named} named"
    )
    say(mark(head, is_good=found.is_good))
    held = found.twins - found.twins_diverged
    lines = [
        f"  {held} of {found.twins} harmless twins match{_ends(found.twins_interval)}",
        f"  {found.inconclusive} of {found.evidence_faults} evidence faults are inconclusive",
        f"  {found.stage_named} of {found.stage_cases} stage cases name their stage",
        *(f"  {line}" for line in untried_lines(found.untried)),
    ]
    for title, listed in (("class", found.by_class), ("domain", found.by_domain)):
        for row in listed:
            by = ", ".join(f"{name} {count}" for name, count in row.stages)
            lines.append(
                f"  {title} {said(row.name, 60)}: {row.caught} of {row.faults}"
                f"{_ends(row.interval)}; by {by}"
            )
    for case in found.wrong[:SHOWN]:
        got = case.verdict.value if case.verdict else said(case.error, 200)
        lines.append(
            f"  {said(case.contract, 80)} {case.part.value} {said(case.kind, 40)} "
            f"{said(case.entity, 80)}: {said(case.sentence, 200)}; expected "
            f"{case.expected.value}, got {got} at {said(case.clause, 80)}"
            f"{'' if case.is_named else ', not named'}"
        )
    for line in lines:
        say(line)


def _ends(share: Share | None) -> str:
    return "" if share is None else f" (95 %: {float(share.low):.4f} to {float(share.high):.4f})"
