"""`retry`: chosen trials of a run, made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from statediff.cli.options import JsonFlag, MaxCostOption, RunArgument, RunPlaces, Scheduling, opt
from statediff.cli.suites.running import (
    carried_out,
    how_of,
    pinned,
    require_observer,
    show_servers,
    tell_failed,
)
from statediff.contract.file import load_contract
from statediff.errors import UsageError
from statediff.kernel import KERNEL
from statediff.model.values import printable
from statediff.packs import EMBEDDED
from statediff.suite.campaign import POOL
from statediff.suite.records import Ended, Trial
from statediff.workspace import agents
from statediff.workspace.campaigns import (
    WITHOUT_VERDICT,
    Entry,
    campaign,
    cases_in,
    lock_run,
    require_runnable,
)
from statediff.workspace.cases import Chosen
from statediff.workspace.observers import observer_in
from statediff.workspace.runfolders import is_run, run_facts


@dataclass(frozen=True, kw_only=True)
class RetryChoice:
    """The choice of trials of a run that are made again."""

    trial: list[str] | None = opt("NAME", "These trials.")
    ended: list[Ended] | None = opt("", "Those that ended so.")
    contract: list[str] | None = opt("PATTERN", "Those under contracts named so.")

    def of(self, trials: Sequence[Trial]) -> list[Trial]:
        """The chosen trials; `UsageError` if a named trial is none of the run."""
        strange = set(self.trial or ()) - {trial.name for trial in trials}
        if strange:
            raise UsageError(f"{printable(min(strange))}: the run has no such trial")
        is_all = self.trial is None and self.ended is None and self.contract is None
        ended = WITHOUT_VERDICT if is_all else self.ended
        return [
            trial
            for trial in trials
            if (self.trial is None or trial.name in self.trial)
            and (ended is None or trial.ended in ended)
            and (
                self.contract is None
                or any(fnmatchcase(trial.contract, each) for each in self.contract)
            )
        ]

    def _names(self, contract: str) -> bool:
        return any(fnmatchcase(contract, pattern) for pattern in self.contract or ())


def retry(
    run: RunArgument,
    choice: RetryChoice,
    scheduling: Scheduling,
    max_cost: MaxCostOption = None,
    *,
    places: RunPlaces,
    as_json: JsonFlag = False,
) -> int:
    """Make chosen trials of a run again; earlier attempts are kept and marked.

    Without a choice, those that have no verdict. With several, those that fit all of them.
    """
    entries, options = _read_run(run)
    settings = run_facts(run)["settings"]
    key = settings.get("observer")
    variant = str(settings.get("sandbox", EMBEDDED))
    require_observer(None if key is None else Path(key), variant, scheduling)
    observer_in(settings)  # a trial that is set aside has no verdict until it is made again
    how = how_of(scheduling, max_cost, places)
    with ExitStack() as stack:
        stack.callback(POOL.close)
        stack.enter_context(lock_run(run))
        made = campaign(run, entries, options)
        tell_failed(require_runnable(entries, made.variant))
        _require_same(run, pinned(entries, made.variant))
        show_servers(entries, made.variant)
        return carried_out(made, how, as_json, choice.of)


def _require_same(run: Path, now: Mapping[str, Mapping[str, Any]]) -> None:
    """The sandboxes are those that the run began with, in their bases. `UsageError`.

    The base of one that does not start is not known; its trials have no verdict.
    """
    begun = run_facts(run).get("sandboxes")
    for name, pins in now.items():
        then = begun.get(name) if isinstance(begun, dict) else None
        # No trial of one that did not start has a verdict that another base could spoil.
        known = pins if isinstance(then, dict) and "bases" in then else {**pins, "bases": None}
        if not isinstance(then, dict) or any(then.get(key) != known[key] for key in known):
            raise UsageError(
                f"{run}: its trials began with another {name}, or with another base of it, than "
                "there is now; they could not be counted together. Begin a new run"
            )


def _read_run(run: Path) -> tuple[list[Entry], list[agents.AgentOptions]]:
    """The contracts and agents of a run; `UsageError` where they are not what they were."""
    if not is_run(run):
        raise UsageError(f"{run}: expected the folder of a run, with its run.json")
    facts = run_facts(run)
    settings = facts.get("settings")
    if not isinstance(settings, dict):
        settings = {}
    files, told = settings.get("contract_files"), settings.get("agent_options")
    if not isinstance(files, dict) or not isinstance(told, list) or not told:
        raise UsageError(f"{run}: its run.json does not say by which agents; run it anew")
    if facts.get("kernel") != KERNEL:
        raise UsageError(
            f"{run}: was judged by kernel {facts.get('kernel')!r}, and this is {KERNEL}: its "
            "trials could not be counted together; begin a new run"
        )
    cases = Chosen.read(settings.get("cases"))
    paths = dict.fromkeys(Path(str(files[name])) for name in sorted(files))
    entries = [e for path in paths for e in cases_in(path, load_contract(path), cases)]
    for entry in entries:
        if facts["contracts"].get(entry.name) != entry.digest:
            raise UsageError(
                f"{entry.path}: the contract has changed since the run; begin a new run"
            )
    if gone := set(facts["contracts"]) - {entry.name for entry in entries}:
        raise UsageError(f"{min(gone)}: the case is there no more; begin a new run")
    return entries, [agents.AgentOptions.read(each) for each in told]
