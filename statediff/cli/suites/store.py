"""`runs`, `stats`, `compare` and `store`: what the folders of many trials hold and say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.faults import FAULT
from statediff.cli.options import JsonFlag, RunArgument, StoreOption
from statediff.cli.output import emit, print_result, results, shown
from statediff.errors import BundleError, ContractError, UsageError
from statediff.workspace.stores import KnownRun, find_run, index_run, open_store, signed_opinions

if TYPE_CHECKING:
    from rich.table import Table

    from statediff.reports.differences import Differences
    from statediff.reports.opinions import Flags
    from statediff.reports.suites import Opened, Sides
    from statediff.suite.artifacts import CopyCounts
    from statediff.suite.comparison import ComparedCase, Comparison, RunPart
    from statediff.suite.figures import SideFigures
    from statediff.suite.opinions import ReviewerOpinions
    from statediff.suite.store import Store

CHECK: Final = "statediff/store-check/1"
COLLECTION: Final = "statediff/store-gc/1"
COPY: Final = "statediff/copy/1"
_WIDEST: Final = 500

LabelTrustOption = Annotated[
    Path | None,
    typer.Option(
        "--trust", metavar="FILE", help="Show what reviewers signed, by the keys that FILE trusts."
    ),
]

PooledFlag = Annotated[
    bool,
    typer.Option("--pooled", help="Also what is pooled over domains; it is no score of any."),
]


def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The folder that holds the runs' folders.")
    ] = Path("runs"),
    every: Annotated[
        bool, typer.Option("--all", help="All runs that the store knows, not only those in DIR.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List runs: how many trials were scheduled, and how they ended."""
    from statediff.suite.file_stamps import look_ahead
    from statediff.workspace.runfolders import is_run

    if not folder.is_dir() and not every:
        raise UsageError(f"{folder}: expected a folder that holds the folders of runs")
    there = sorted(filter(is_run, folder.iterdir())) if folder.is_dir() else []
    with look_ahead(there) as ahead, open_store(store) as index:
        known = {index_run(index, place, ahead).id for place in there}
        listed = [each for each in index.runs() if every or each.id in known]
    from statediff.reports.suites import runs_document, runs_table

    if as_json:
        emit(runs_document(listed))
    else:
        _print(runs_table(listed, with_place=every))


def stats(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    ks: Annotated[
        list[int] | None,
        typer.Option(
            "-k", min=1, max=10_000, help="For pass@k and pass^k; may be repeated [default: 1]."
        ),
    ] = None,
    store: StoreOption = None,
    trust: LabelTrustOption = None,
    pooled: PooledFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Count the trials of runs by contract and domain, with pass@k, pass^k and reruns' spread.

    Ends with 0 whatever the verdicts are: the exit code of `run` is the verdicts'.
    """
    from statediff.suite.file_stamps import look_ahead

    with look_ahead(folders) as ahead, open_store(store) as index:
        from statediff.reports.suites import stats_document, stats_tables
        from statediff.suite.figures import figures, labeled
        from statediff.suite.overview import groups, passes

        # A run that is named twice is counted once.
        every = {run.id: run for run in (find_run(index, folder, ahead) for folder in folders)}
        wanted = list(every)
        found = figures(groups(index, wanted), passes(index, wanted), sorted(set(ks or [1])))
        reviewed = signed_opinions(index, list(every.values()), trust)
    rows = labeled(found, reviewed)
    if as_json:
        document = stats_document(found, len(every), rows, is_pooled=pooled)
        emit(document if reviewed is None else {**document, "reviewed": _opinions(reviewed)})
        return
    _print(*stats_tables(found, rows, is_pooled=pooled))
    if reviewed is not None:
        from statediff.reports.opinions import opinions_tables

        _print(*opinions_tables(reviewed))


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """What is compared, and how closely."""

    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of the bootstrap; the same seed, same interval.")
    ] = 0
    agent_a: Annotated[
        str | None, typer.Option("--agent-a", metavar="NAME", help="Of several agents in A, this.")
    ] = None
    agent_b: Annotated[
        str | None, typer.Option("--agent-b", metavar="NAME", help="Of several agents in B, this.")
    ] = None
    details: Annotated[
        int,
        typer.Option(
            "--details",
            metavar="N",
            min=0,
            max=10_000,
            help="So many cases are opened for their deltas, turns and calls.",
        ),
    ] = 5


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="The folder of the run to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The folder of the run in question.")],
    options: ComparisonOptions,
    store: StoreOption = None,
    trust: LabelTrustOption = None,
    pooled: PooledFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Compare two runs, or two agents of a run, case by case.

    Ends with 1 if a case regressed; else with 3 if whether one still passes is not known, or no
    case could be compared; else with 0.
    """
    from statediff.suite.file_stamps import look_ahead

    with look_ahead((a, b)) as ahead, open_store(store) as index:
        from statediff.suite.comparison import CaseChange, all_trials, compare, unlike_trials

        runs = find_run(index, a, ahead), find_run(index, b, ahead)
        one, other = (
            _part(index, run.id, agent, folder)
            for run, agent, folder in zip(
                runs, (options.agent_a, options.agent_b), (a, b), strict=True
            )
        )
        reviewed = signed_opinions(index, runs, trust)
        figures = _figures_of(index, one), _figures_of(index, other)
        if as_json or reviewed is not None:
            found = compare(all_trials(index, one), all_trials(index, other), options.seed)
        else:
            sides = unlike_trials(index, one, other, options.details)
            found = compare(sides.a, sides.b, options.seed, sides.alike)
    inside = {case.key: _inside(case, *runs) for case in found.telling(options.details)}
    flags = None if reviewed is None else [reviewed.flagged(run.id) for run in runs]
    if as_json:
        _emit_comparison(found, inside, figures, flags)
    else:
        _print_comparison(found, inside, figures, flags, is_pooled=pooled)
    if found.of(CaseChange.REGRESSED):
        return 1
    return 3 if not found.pooled.decided or any(case.lost_its_pass for case in found.cases) else 0


def _figures_of(index: Store, part: RunPart) -> Mapping[str, SideFigures]:
    from statediff.suite.figures import side_figures
    from statediff.suite.overview import groups

    return side_figures(
        group
        for group in groups(index, [part.run])
        if part.agent is None or group.agent == part.agent
    )


def _emit_comparison(
    found: Comparison, inside: Opened, figures: Sides, flags: Sequence[Flags] | None
) -> None:
    from statediff.reports.opinions import flagged_document
    from statediff.reports.suites import comparison_document

    document = comparison_document(found, inside, figures)
    if flags is not None:
        document["unreliable"] = flagged_document(found, *flags)
    emit(document)


def _print_comparison(
    found: Comparison,
    inside: Opened,
    figures: Sides,
    flags: Sequence[Flags] | None,
    *,
    is_pooled: bool,
) -> None:
    from statediff.reports.opinions import flagged_lines
    from statediff.reports.suites import comparison_tables

    _print(*comparison_tables(found, inside, figures, is_pooled=is_pooled))
    if flags is not None:
        _print(*flagged_lines(found, *flags))


def _inside(case: ComparedCase, *runs: KnownRun) -> Differences | str:
    """Where the two bundles of a case part, or why one of them cannot be read."""
    from statediff.model.values import printable

    bundles = []
    for side, run in zip((case.a, case.b), runs, strict=True):
        if side is None or not side.ended.has_verdict:
            return "one of its trials has no verdict"
        bundle, why = run.bundle(side.name)
        if bundle is None or bundle.digest != side.bundle:
            return f"the bundle of {printable(side.name)} is not the one that was indexed: " + (
                printable(why) or "it was changed; run this command again"
            )
        bundles.append(bundle)
    from statediff.reports.differences import differences  # slow: a state's whole machinery

    try:
        return differences(*bundles)
    except (BundleError, ContractError) as error:
        return printable(str(error))


def _part(index: Store, run: str, agent: str | None, folder: Path) -> RunPart:
    """The trials of the one agent that is compared; `UsageError` if there are others."""
    from statediff.model.values import printable
    from statediff.suite.comparison import RunPart, agents_of

    known = agents_of(index, run)
    told = ", ".join(map(printable, known[:20]))
    if agent is None and len(known) > 1:
        raise UsageError(
            f"{folder}: has trials of {len(known)} agents; say with --agent-a or --agent-b whose "
            f"to compare: {told}"
        )
    if agent is not None and agent not in known:
        raise UsageError(f"{folder}: no trial of {printable(agent)!r}; there are: {told}")
    return RunPart(run, agent)


def _print(*told: Table | str) -> None:
    """The tables and lines, as wide as they are: figures that are cut short are other figures."""
    door = results()
    door.width = _WIDEST
    for each in told:
        door.print(each, soft_wrap=True)


def _opinions(found: ReviewerOpinions) -> dict[str, Any]:
    from statediff.reports.opinions import opinions_document

    document: dict[str, Any] = opinions_document(found)
    return document


# ---------------------------------------------------------------- store

FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A chunk store: the folder `chunks` of a run.")
]


def check(folder: FolderArgument, as_json: JsonFlag = False) -> int:
    """Read every chunk and compare it with its name; 4 if one is damaged."""
    from statediff.capture.store import check_store as look

    found = look(folder)
    lines = [*found.damaged, f"{found.chunks:,} chunks, {found.bytes:,} bytes"]
    lines[-1] += f"; {len(found.damaged)} damaged" if found.damaged else "; all are sound"
    if found.encrypted:
        lines[-1] += f", but for {found.encrypted:,} that are encrypted and were not read"
    if found.left_over:
        lines.append(
            f"{found.left_over} files of interrupted writers; `statediff store gc` removes them"
        )
    document = {
        "schema": CHECK,
        "ok": not found.damaged,
        "chunks": found.chunks,
        "bytes": found.bytes,
        "encrypted": found.encrypted,
        "damaged": list(found.damaged),
        "left_over": found.left_over,
    }
    print_result(document, "\n".join(lines), as_json=as_json)
    return FAULT if found.damaged else 0


def gc(
    folder: FolderArgument,
    unused_hours: Annotated[
        float,
        typer.Option("--unused-hours", min=0, help="Keep what a run put in so many last hours."),
    ] = 24.0,
    as_json: JsonFlag = False,
) -> None:
    """Remove the chunks that no run has put lately; what a running one relies on stays."""
    import time

    from statediff.capture.store import collect

    found = collect(folder, time.time_ns() - int(unused_hours * 3600e9))
    text = f"{found.removed:,} files removed, {found.removed_bytes:,} bytes; {found.kept:,} kept"
    text += "; the store is in use" if found.is_in_use else ""
    document = {
        "schema": COLLECTION,
        "removed": found.removed,
        "removed_bytes": found.removed_bytes,
        "kept": found.kept,
        "in_use": found.is_in_use,
    }
    print_result(document, text, as_json=as_json)


UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="s3://bucket/runs, file:///srv/runs, or what else fsspec reaches."
    ),
]


def push(
    run: RunArgument,
    url: UrlArgument,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Copy a run's folder below a URL: what is not there yet, and whole."""
    from statediff.suite.artifacts import CopyPlace

    place = CopyPlace(url)
    with open_store(store) as index:
        known, folder = index_run(index, run), run.resolve()
        found = place.push(folder)
        index.put_copy(known.id, place.url)
    _print_copy("url", f"{place.url}/{folder.name}", found, as_json=as_json)


def fetch(
    url: Annotated[str, typer.Argument(metavar="URL", help="Of the run's copy.")],
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Where the run's folder goes, a new one."),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Bring the copy of a run back; `replay` and `store check` say whether it is what it says."""
    from statediff.suite.artifacts import CopyPlace, check_url

    place, _, name = check_url(url).rpartition("/")
    found = CopyPlace(place).fetch(name, folder)
    _print_copy("folder", shown(folder), found, as_json=as_json)


def _print_copy(what: str, where: str, found: CopyCounts, *, as_json: bool) -> None:

    text = f"{found.trials:,} trials, {found.files:,} files, {found.bytes:,} bytes; {where}"
    print_result({"schema": COPY, what: where, **asdict(found)}, text, as_json=as_json)


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("check", check),
    ("gc", gc),
    ("push", push),
    ("fetch", fetch),
)
