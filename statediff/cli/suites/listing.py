"""`runs`, `stats` and `compare`: what many trials say together, from the folders of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.output import JsonFlag
from statediff.workspace.stores import Named, indexed, named, opened_store, signed_of

if TYPE_CHECKING:
    from rich.table import Table

    from statediff.reports.differences import Differences
    from statediff.suite.comparison import Case
    from statediff.suite.comparison_rows import Part
    from statediff.suite.opinions import Opinions
    from statediff.suite.store import Store

_WIDEST: Final = 500

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where runs are indexed: sqlite:///FILE or postgresql://… "
        "[default: .statediff/store.sqlite].",
    ),
]


TrustOption = Annotated[
    Path | None,
    typer.Option(
        "--trust", metavar="FILE", help="Show what reviewers signed, by the keys that FILE trusts."
    ),
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
    from statediff.cli.output import emit
    from statediff.errors import UsageError
    from statediff.suite.file_stamps import looking
    from statediff.workspace.runfolders import is_run

    if not folder.is_dir() and not every:
        raise UsageError(f"{folder}: expected a folder that holds the folders of runs")
    there = sorted(filter(is_run, folder.iterdir())) if folder.is_dir() else []
    with looking(there) as ahead, opened_store(store) as index:
        known = {indexed(index, place, ahead).id for place in there}
        listed = [each for each in index.listed() if every or each.id in known]
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
    trust: TrustOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Count the trials of runs by contract and domain, with pass@k, pass^k and reruns' spread.

    Ends with 0 whatever the verdicts are: the exit code of `run` is the verdicts'.
    """
    from statediff.suite.file_stamps import looking

    with looking(folders) as ahead, opened_store(store) as index:
        from statediff.cli.output import emit
        from statediff.reports.suites import stats_document, stats_tables
        from statediff.suite.overview import groups, passes
        from statediff.suite.summary import figures

        # A run that is named twice is counted once.
        every = {run.id: run for run in (named(index, folder, ahead) for folder in folders)}
        wanted = list(every)
        found = figures(groups(index, wanted), passes(index, wanted), sorted(set(ks or [1])))
        reviewed = signed_of(index, list(every.values()), trust)
    if as_json:
        document = stats_document(found, len(every))
        emit(document if reviewed is None else {**document, "reviewed": _reviewed(reviewed)})
        return
    _print(*stats_tables(found))
    if reviewed is not None:
        from statediff.reports.opinions import opinions_tables

        _print(*opinions_tables(reviewed))


def compare(  # noqa: PLR0913, PLR0917 - one parameter an option
    a: Annotated[Path, typer.Argument(metavar="A", help="The folder of the run to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The folder of the run in question.")],
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of the bootstrap; the same seed, same interval.")
    ] = 0,
    agent_a: Annotated[
        str | None, typer.Option("--agent-a", metavar="NAME", help="Of several agents in A, this.")
    ] = None,
    agent_b: Annotated[
        str | None, typer.Option("--agent-b", metavar="NAME", help="Of several agents in B, this.")
    ] = None,
    details: Annotated[
        int,
        typer.Option(
            "--details", metavar="N", min=0, max=10_000,
            help="So many cases are opened for their deltas, turns and calls.",
        ),
    ] = 5,
    store: StoreOption = None,
    trust: TrustOption = None,
    as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """Compare two runs, or two agents of a run, case by case.

    Ends with 1 if a case regressed; else with 3 if whether one still passes is not known, or no
    case could be compared; else with 0.
    """
    from statediff.suite.file_stamps import looking

    with looking((a, b)) as ahead, opened_store(store) as index:
        from statediff.cli.output import emit
        from statediff.reports.suites import comparison_document, comparison_tables
        from statediff.suite.comparison import Change, compare
        from statediff.suite.comparison_rows import apart, whole

        runs = named(index, a, ahead), named(index, b, ahead)
        one, other = (
            _part(index, run.id, agent, folder)
            for run, agent, folder in zip(runs, (agent_a, agent_b), (a, b), strict=True)
        )
        reviewed = signed_of(index, runs, trust)
        if as_json or reviewed is not None:
            found = compare(whole(index, one), whole(index, other), seed)
        else:
            sides = apart(index, one, other, details)
            found = compare(sides.a, sides.b, seed, sides.alike)
    flags = [{} if reviewed is None else reviewed.flagged(run.id) for run in runs]
    inside = {case.key: _inside(case, *runs) for case in found.telling(details)}
    if as_json:
        document = comparison_document(found, inside)
        if reviewed is not None:
            from statediff.reports.opinions import flagged_document

            document["unreliable"] = flagged_document(found, *flags)
        emit(document)
    else:
        _print(*comparison_tables(found, inside))
        if reviewed is not None:
            from statediff.reports.opinions import flagged_lines

            _print(*flagged_lines(found, *flags))
    if found.of(Change.REGRESSED):
        return 1
    return 3 if not found.decided or any(case.lost_its_pass for case in found.cases) else 0


def _inside(case: Case, *runs: Named) -> Differences | str:
    """Where the two bundles of a case part, or why one of them cannot be read."""
    from statediff.errors import BundleError, ContractError
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


def _part(index: Store, run: str, agent: str | None, folder: Path) -> Part:
    """The trials of the one agent that is compared; `UsageError` if there are others."""
    from statediff.errors import UsageError
    from statediff.model.values import printable
    from statediff.suite.comparison_rows import Part, agents

    known = agents(index, run)
    told = ", ".join(map(printable, known[:20]))
    if agent is None and len(known) > 1:
        raise UsageError(
            f"{folder}: has trials of {len(known)} agents; say with --agent-a or --agent-b whose "
            f"to compare: {told}"
        )
    if agent is not None and agent not in known:
        raise UsageError(f"{folder}: no trial of {printable(agent)!r}; there are: {told}")
    return Part(run, agent)


def _print(*told: Table | str) -> None:
    """The tables and lines, as wide as they are: figures that are cut short are other figures."""
    from statediff.cli.output import results

    door = results()
    door.width = _WIDEST
    for each in told:
        door.print(each, soft_wrap=True)


def _reviewed(found: Opinions) -> dict[str, Any]:
    from statediff.reports.opinions import opinions_document

    document: dict[str, Any] = opinions_document(found)
    return document
