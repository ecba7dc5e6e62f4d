"""`retry`: chosen trials of a run, made again by the means that its `run.json` names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli import agentoptions
from statediff.cli.output import JsonFlag
from statediff.cli.suites.listing import StoreOption
from statediff.cli.suites.running import Artifacts, Retries, Scheduler, Workers
from statediff.suite.review_terms import Ended
from statediff.workspace import agents

if TYPE_CHECKING:
    from statediff.suite.records import Trial
    from statediff.workspace.campaigns import Entry


def retry(  # noqa: PLR0913, PLR0917 - its options are its arguments
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    trial: Annotated[
        list[str] | None, typer.Option("--trial", metavar="NAME", help="These trials.")
    ] = None,
    ended: Annotated[
        list[Ended] | None, typer.Option("--ended", help="Those that ended so.")
    ] = None,
    contract: Annotated[
        list[str] | None,
        typer.Option("--contract", metavar="PATTERN", help="Those under contracts named so."),
    ] = None,
    workers: Workers = 1,
    scheduler: Scheduler = None,
    retries: Retries = 2,
    max_cost: agentoptions.MaxCost = None,
    store: StoreOption = None,
    artifacts: Artifacts = None,
    as_json: JsonFlag = False,
) -> int:
    """Make chosen trials of a run again; what there was is kept beside them, and told.

    Without a choice, those that have no verdict. With several, those that fit all of them.
    """
    from statediff.cli.suites.running import carried_out
    from statediff.suite.sandbox_pool import STANDING
    from statediff.workspace.campaigns import How, alone, campaign, checked

    entries, options = _as_recorded(run)
    how = How(workers, scheduler, retries, max_cost, store, artifacts)
    with ExitStack() as stack:
        stack.callback(STANDING.close)
        stack.enter_context(alone(run))
        made = campaign(run, entries, options)
        checked(entries, made.variant)
        return carried_out(made, how, as_json, _Chosen(trial, ended, contract).of)


class _Chosen:
    """Which trials of a run are made again."""

    def __init__(
        self, names: list[str] | None, ended: list[Ended] | None, contracts: list[str] | None
    ) -> None:
        self._names = None if names is None else frozenset(names)
        self._ended, self._contracts = ended, contracts

    def of(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those of them; `UsageError` if a trial that was named is none of the run."""
        from statediff.cli.suites.running import fits
        from statediff.errors import UsageError
        from statediff.model.values import printable
        from statediff.workspace.campaigns import WITHOUT_VERDICT

        strange = (self._names or frozenset()) - {trial.name for trial in trials}
        if strange:
            raise UsageError(f"{printable(min(strange))}: the run has no such trial")
        is_all = self._names is None and self._ended is None and self._contracts is None
        ended = WITHOUT_VERDICT if is_all else self._ended
        return [
            trial
            for trial in trials
            if (self._names is None or trial.name in self._names)
            and (ended is None or trial.ended in ended)
            and (self._contracts is None or fits(trial.contract, self._contracts))
        ]


def _as_recorded(run: Path) -> tuple[list[Entry], list[agents.AgentOptions]]:
    """The contracts and agents of a run; `UsageError` where they are not what they were."""
    from statediff.errors import UsageError
    from statediff.evaluate import KERNEL, load_contract
    from statediff.workspace.campaigns import Entry
    from statediff.workspace.runfolders import is_run, run_facts

    if not is_run(run):
        raise UsageError(f"{run}: expected the folder of a run, with its run.json")
    facts = run_facts(run)
    settings = facts.get("settings")
    files = settings.get("contract_files") if isinstance(settings, dict) else None
    told = settings.get("agent_options") if isinstance(settings, dict) else None
    if not isinstance(files, dict) or not isinstance(told, list) or not told:
        raise UsageError(f"{run}: its run.json does not say by which agents; run it anew")
    if facts.get("kernel") != KERNEL:
        raise UsageError(
            f"{run}: was judged by kernel {facts.get('kernel')!r}, and this is {KERNEL}: its "
            "trials could not be counted together; begin a new run"
        )
    entries = [Entry(Path(str(files[name])), load_contract(Path(str(files[name]))))
               for name in sorted(files)]  # fmt: skip
    for entry in entries:
        if facts["contracts"].get(entry.name) != entry.file.digest:
            raise UsageError(
                f"{entry.path}: the contract has changed since the run; begin a new run"
            )
    return entries, [agents.AgentOptions.read(each) for each in told]
