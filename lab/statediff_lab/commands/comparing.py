"""`compare` and `reviewed`: two runs case by case, and what reviewers signed of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statediff.cli.options import JsonFlag, StoreOption, TrustOption
from statediff.cli.output import emit
from statediff.cli.suites.store import PooledFlag, print_tables
from statediff.errors import BundleError, ContractError, UsageError
from statediff.workspace.stores import KnownRun, find_run, open_store

if TYPE_CHECKING:
    from statediff.suite.store import Store
    from statediff_lab.comparison import ComparedCase, Comparison, RunPart, SideFigures
    from statediff_lab.reports.comparison import Opened, Sides
    from statediff_lab.reports.differences import Differences
    from statediff_lab.reports.opinions import Flags

REVIEWED: Final = "statediff/reviewed-runs/1"

LabelTrustOption = Annotated[
    Path | None,
    typer.Option(
        "--trust", metavar="FILE", help="Show what reviewers signed, by the keys that FILE trusts."
    ),
]


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """Options for what is compared, and how closely."""

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

    Ends with 1 if a case regressed; else with 3 if a case that passed may not pass any more, or if
    no case could be compared; else with 0.
    """
    from statediff_lab.comparison import CaseChange, compare, trials_of
    from statediff_lab.opinions import signed_opinions

    with open_store(store) as index:
        runs = find_run(index, a), find_run(index, b)
        one, other = (
            _part(index, run.id, agent, folder)
            for run, agent, folder in zip(
                runs, (options.agent_a, options.agent_b), (a, b), strict=True
            )
        )
        reviewed = None if trust is None else signed_opinions(index, runs, trust)
        figures = _figures_of(index, one), _figures_of(index, other)
        found = compare(trials_of(index, one), trials_of(index, other), options.seed)
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
    from statediff.suite.overview import groups
    from statediff_lab.comparison import side_figures

    return side_figures(
        group
        for group in groups(index, [part.run])
        if part.agent is None or group.agent == part.agent
    )


def _emit_comparison(
    found: Comparison, inside: Opened, figures: Sides, flags: Sequence[Flags] | None
) -> None:
    from statediff_lab.reports.comparison import comparison_document
    from statediff_lab.reports.opinions import flagged_document

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
    from statediff_lab.reports.comparison import comparison_tables
    from statediff_lab.reports.opinions import flagged_lines

    print_tables(*comparison_tables(found, inside, figures, is_pooled=is_pooled))
    if flags is not None:
        print_tables(*flagged_lines(found, *flags))


def _inside(case: ComparedCase, *runs: KnownRun) -> Differences | str:
    """The differences of a case's two bundles, or why one of them cannot be read."""
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
    from statediff_lab.reports.differences import differences  # slow: a state's whole machinery

    try:
        return differences(*bundles)
    except (BundleError, ContractError) as error:
        return printable(str(error))


def _part(index: Store, run: str, agent: str | None, folder: Path) -> RunPart:
    """The trials of the one agent that is compared; `UsageError` if there are others."""
    from statediff.model.values import printable
    from statediff_lab.comparison import RunPart, agents_of

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


def reviewed(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    trust: TrustOption,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what reviewers signed of runs beside the verdicts, by domain, contract and agent.

    Ends with 0 whatever they said: no verdict changes.
    """
    from statediff.suite.figures import figures
    from statediff.suite.overview import groups
    from statediff_lab.opinions import labeled, signed_opinions
    from statediff_lab.reports.opinions import (
        gates_document,
        gates_table,
        opinions_document,
        opinions_tables,
    )

    with open_store(store) as index:
        every = {run.id: run for run in (find_run(index, folder) for folder in folders)}
        found = signed_opinions(index, list(every.values()), trust)
        rows = labeled(figures(groups(index, list(every)), (), ()), found)
    if as_json:
        gates = [gates_document(each) for each in rows]
        emit({"schema": REVIEWED, "domains": gates, **opinions_document(found)})
    else:
        print_tables(gates_table(rows), *opinions_tables(found))
