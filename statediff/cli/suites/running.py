"""`run` and `retry`: agents' trials under contracts, each in a sandbox that was proven."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statediff._version import __version__
from statediff.cli.faults import left_out
from statediff.cli.options import (
    CaseChoice,
    ContractArguments,
    ContractsVariantOption,
    InstalledOnly,
    JsonFlag,
    MaxCostOption,
    ObserverOption,
    RebaseOption,
    RootsLogOption,
    RunPlaces,
    Scheduling,
    flag,
    old,
    opt,
    rarely,
)
from statediff.cli.output import note
from statediff.cli.suites.progress import Report
from statediff.contract.file import load_contract
from statediff.errors import StatediffError, UsageError
from statediff.evidence.log import keyed, record_entry, registration
from statediff.kernel import KERNEL
from statediff.model.values import printable
from statediff.packs import EMBEDDED, sandbox_names, sandbox_of
from statediff.reports.said import said
from statediff.suite import store as index
from statediff.suite.campaign import POOL
from statediff.suite.pins import pin_code, pin_sandboxes
from statediff.suite.records import Trial, agent_labels
from statediff.systems.base.registry import plugins
from statediff.trial_folder import write_run
from statediff.workspace import agents, folders, stores
from statediff.workspace.agentfile import SUFFIXES, agents_in
from statediff.workspace.bundles import begin_copy
from statediff.workspace.campaigns import (
    WITHOUT_VERDICT,
    Campaign,
    Entry,
    How,
    bases_of,
    campaign,
    carry_out,
    cases_in,
    find_resumable,
    forget_bases,
    lock_run,
    require_runnable,
    servers_of,
)
from statediff.workspace.contracts import contract_paths, require_unchanged
from statediff.workspace.folders import write_file
from statediff.workspace.installed import installed
from statediff.workspace.logs.files import append, load_log, secret_of
from statediff.workspace.observers import observer_settings, require_shared
from statediff.workspace.runfolders import facts_of, make_secret
from statediff.workspace.stores import index_run, open_store

if TYPE_CHECKING:
    from statediff.suite.store import Store


class ScanBy(StrEnum):
    """The reading after a trial, where no feed reports the changes."""

    WHOLE = "whole"
    PAGES = "pages"


@dataclass(frozen=True, kw_only=True)
class OldOptions:
    """Options that are keys of the agent's file now."""

    agent_image: str | None = old()
    agent_mcp: str | None = old()
    mcp_config: Path | None = old()
    record_http: bool = old(default=False)
    isolation: str | None = old()
    network: list[str] | None = old()
    trust_trace: bool = old(default=False)
    base_url: str | None = old()
    model: list[str] | None = old()
    key_env: str | None = old()
    price_in: str | None = old()
    price_out: str | None = old()
    max_turns: int | None = old(min=1, max=1000)
    stream: bool = old(default=False)
    user_url: str | None = old()
    user_model: str | None = old()
    user_key_env: str | None = old()

    @property
    def given(self) -> dict[str, Any]:
        """Those that are given."""
        return {name: value for name, value in vars(self).items() if value not in (None, False)}


def _key_of(old: str) -> str:
    """The key of the agent's file that says what the option said."""
    if old.startswith("user_"):
        return "user"
    return {"agent_image": "image", "agent_mcp": "mcp", "base_url": "url"}.get(old, old)


@dataclass(frozen=True, kw_only=True)
class AgentChoice:
    """The agents to run."""

    agent_cmd: list[str] | None = opt(
        "[NAME=]CMD",
        "The agent: any program; it finds system NAME at STATEDIFF_NAME_URL. May be given again.",
    )
    agent: list[str] | None = opt(
        "AGENT",
        "Or a file (AGENT.yaml), a Python function (MODULE:FUNCTION), or a program's name in "
        "the contract's folder. May be given again.",
    )
    old: OldOptions

    def each(self, timeout: float | None, max_cost: str | None) -> list[agents.AgentOptions]:
        """The options of each agent; `UsageError` where two ways to run it are given."""
        common = agents.AgentOptions(timeout_seconds=timeout, max_cost=max_cost)
        given = self.old.given
        if given:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            keys = ", ".join(dict.fromkeys(f"`{_key_of(name)}`" for name in given))
            note(f"{names}: write {keys} into a file, and give it as --agent FILE.yaml")
        files = [Path(each) for each in self.agent or () if each.endswith(SUFFIXES)]
        if files:
            if given or self.agent_cmd or len(files) < len(self.agent or ()):
                raise UsageError("a file of --agent stands alone, or beside other files")
            found = [each for file in files for each in agents_in(file, common)]
        else:
            models = given.pop("model", [])
            given["network"] = tuple(given.get("network", ()))
            for name in ("image", "mcp"):
                given[name] = given.pop(f"agent_{name}", None)
            options = replace(common, **given)
            found = agents.each_agent(options, self.agent_cmd or [], self.agent or [], models)
        for each in found:
            each.user()
        return found


@dataclass(frozen=True, kw_only=True)
class TrialChoice:
    """The trials to make: how many of which contracts, and by which seeds."""

    cases: CaseChoice
    trials: int = opt(
        "",
        "Trials of each contract with each agent.",
        "-k",
        "--trials",
        default=1,
        min=1,
        max=10_000,
    )
    seed: int = opt(
        "", "Of the first trials; the next have the next ones.", default=1, min=0, max=2**53 - 1
    )
    max_cost: MaxCostOption = None
    installed_only: InstalledOnly = False


@dataclass(frozen=True, kw_only=True)
class Trying:
    """The place of a trial, and its time limit."""

    resume: bool = flag("Go on with the newest run of the same command, if there is one.")
    timeout: float | None = opt("SECONDS", "For each trial [default: 600].")
    sandbox: ContractsVariantOption = "embedded"
    out: Path = opt("DIR", "The run's folder is made in it.", default=Path("runs"))
    rebase: RebaseOption = False


@dataclass(frozen=True, kw_only=True)
class JudgingOptions:
    """By which contracts, and over which evidence, trials are judged."""

    allow_unreviewed: bool = flag("Judge by drafts (`reviewed: false`) too.")
    authoritative: bool = flag("Scan every source after every trial, feed or not.")
    sample_scans: float = opt(
        "RATE",
        "How many of the trials that a feed tells of are scanned too, to compare.",
        default=0.05,
        min=0.0,
        max=1.0,
    )
    scan: ScanBy = opt(
        "",
        "`pages`: pages are compared on every trial, where a system has them to compare.",
        default=ScanBy.WHOLE,
    )
    log: RootsLogOption = None
    observer: ObserverOption = None
    vault: Path | None = opt(
        "DIR", "Where the keys go of what `retain` limits. [default: .statediff/vault]"
    )


@rarely(
    "scheduler", "retries", "rebase", "store", "artifacts", "allow_unreviewed", "authoritative",
    "sample_scans", "scan", "log", "observer", "vault",
)  # fmt: skip
def run(
    contracts: ContractArguments,
    choice: AgentChoice,
    which: TrialChoice,
    scheduling: Scheduling,
    trying: Trying,
    places: RunPlaces,
    judging: JudgingOptions,
    as_json: JsonFlag = False,
) -> int:
    """Run agents in sandboxes, k times each, and judge every trial."""
    options = choice.each(trying.timeout, which.max_cost)
    entries, absent = _entries(contracts, which, judging.allow_unreviewed, trying.sandbox)
    is_left = left_out(absent, forgiven=which.installed_only)
    require_observer(judging.observer, trying.sandbox, scheduling)
    settings = _settings(entries, options, which, trying, judging)
    if which.cases.is_given:
        settings["cases"] = which.cases.chosen.as_json()
    folders.require_writable(trying.out)
    with ExitStack() as stack:
        stack.callback(POOL.close)
        if trying.rebase:
            forget_bases(entries, trying.sandbox)
        tell_failed(require_runnable(entries, trying.sandbox))
        _tell_shadowed(entries)
        image = next((each.image for each in options if each.image is not None), None)
        settings["images"] = _images(trying.sandbox, image)
        if servers := show_servers(entries, trying.sandbox):
            settings["servers"] = servers
        facts, patch = _facts(entries, settings)
        folder = find_resumable(trying.out, facts) if trying.resume else None
        if folder is None:
            folders.make_own(trying.out)
            folder = _begun(folders.new_run(trying.out, "run"), facts, patch)
        stack.enter_context(lock_run(folder))
        how = how_of(scheduling, which.max_cost, places)
        made = campaign(folder, entries, options)
        if judging.log is not None:
            _register(made, judging.log)
        return carried_out(made, how, as_json, None) or is_left


def _register(made: Campaign, log: Path) -> None:
    """The log says which trials the run will make; of one that is resumed it does already."""
    facts = facts_of(made.folder)
    contracts = [f"{trial.contract}@{trial.version}" for trial in made.planned.values()]
    plan = registration(made.folder.name, facts, tuple(made.planned), contracts)
    record = replace(plan, digest=keyed(secret_of(log), plan.digest))
    if log.exists() and record.digest in load_log(log).registered:
        return
    now = datetime.now(UTC).replace(microsecond=0)
    number, _ = append(log, partial(record_entry, record=record, at=now))
    note(f"registered as entry {number} of {log}")


def require_observer(key: Path | None, variant: str, scheduling: Scheduling) -> None:
    """The observer's key can be had wherever the trials are made. `UsageError`."""
    is_here = scheduling.workers == 1 or variant != EMBEDDED
    if key is not None and (scheduling.scheduler is not None or not is_here):
        require_shared(key)


def how_of(scheduling: Scheduling, max_cost: str | None, places: RunPlaces) -> How:
    """How the trials are made, as the options say."""
    return How(**vars(scheduling), max_cost=max_cost, **vars(places))


def _settings(
    entries: Sequence[Entry],
    options: Sequence[agents.AgentOptions],
    which: TrialChoice,
    trying: Trying,
    judging: JudgingOptions,
) -> dict[str, Any]:
    """The record of the command in `run.json`; a default that came later is left out."""
    _require_text([*(str(e.path.absolute()) for e in entries), *(o.command or "" for o in options)])
    names = _names(options, entries)
    settings: dict[str, Any] = {
        "trials": which.trials,
        "sandbox": trying.sandbox,
        "agents": names,
        "timeout_seconds": None if trying.timeout is None else str(trying.timeout),
        "scans": "always" if judging.authoritative else str(judging.sample_scans),
        "contract_files": {entry.name: str(entry.path.absolute()) for entry in entries},
        "agent_options": [replace(each, max_cost=None).as_json() for each in options],
    }
    if len(names) > 1:
        settings["labels"] = list(agent_labels(names))
    if which.seed != 1:
        settings["first_seed"] = which.seed
    if judging.scan is ScanBy.PAGES:
        settings["scan"] = judging.scan.value
    if judging.log is not None:
        settings["log"] = str(judging.log.absolute())
    settings |= observer_settings(judging.observer)
    if any(rules.retain for each in entries for rules in each.file.content.evidence.values()):
        settings["vault"] = str((judging.vault or stores.DEFAULT.parent / "vault").absolute())
    return settings


def carried_out(
    made: Campaign, how: How, as_json: bool, chosen: Callable[[Sequence[Trial]], list[Trial]] | None
) -> int:
    """The run's trials are made, those that are chosen or have no verdict; its exit code."""
    with _store_of(how) as store:
        run = index_run(store, made.folder)
        trials = [t for t in store.trials(run.id) if t.name in made.planned]
        missing = [t for t in trials if t.ended in WITHOUT_VERDICT]
        wanted = missing if chosen is None else chosen(trials)
        names = {trial.name for trial in wanted}
        order = {name: at for at, name in enumerate(made.planned)}
        wanted.sort(key=lambda trial: order[trial.name])
        kept = [trial for trial in trials if trial.name not in names]
        with Report(as_json, tuple(made.planned), made.folder) as report:
            copies = begin_copy(how.artifacts, made.folder, store, run.id, report.note)
            carry_out(made, wanted, kept, how, report, store, copies, is_retried=chosen is not None)
        code = report.end()
        copies.whole()
    return code


@contextmanager
def _store_of(how: How) -> Iterator[Store]:
    """The store that was named; the default one, or one for this command if that cannot be used."""
    with ExitStack() as stack:
        try:
            store = stack.enter_context(open_store(how.store))
        except StatediffError as error:
            if how.store is not None:
                raise
            note(f"no store, and none is needed: {error}")
            store = stack.enter_context(index.open_store("sqlite://"))
        yield store


def _entries(
    named: Sequence[str], which: TrialChoice, allow_unreviewed: bool, variant: str
) -> tuple[list[Entry], Mapping[str, str]]:
    """The contracts to run, and what is not installed of those that were named.

    `UsageError` names those that are drafts.
    """
    found = [Entry(path, load_contract(path)) for path in contract_paths(named)]
    drafts = [e.file.content.contract for e in found if not e.file.content.reviewed]
    if drafts and not allow_unreviewed:
        raise UsageError(
            f"{', '.join(drafts)}: `reviewed: false`: a draft that nobody has signed decides "
            "nothing; remove the line when its owner has read it, or say --allow-unreviewed"
        )
    here, absent = installed([entry.path for entry in found], variant)
    found = [entry for entry in found if entry.path in here]
    for entry in found:
        require_unchanged(entry.path, entry.file)
    chosen = which.cases.chosen
    entries = [case for entry in found for case in cases_in(entry.path, entry.file, chosen)]
    return entries, absent


def _names(options: Sequence[agents.AgentOptions], entries: Sequence[Entry]) -> list[str]:
    """The names of the agents; `UsageError` where one cannot be had for every contract."""
    made = [[each.agent(entry.path) for entry in entries] for each in options]
    names = [of_each[0].name for of_each in made]
    if len(set(names)) < len(names):
        raise UsageError(f"two agents have one name: {', '.join(sorted(names))}")
    return names


def tell_failed(failed: Mapping[str, str]) -> None:
    """The sandboxes that did not start are named, and the run goes on with the others."""
    for name, why in failed.items():
        note(f"{name}: its trials will have no verdict: {said(why)}")


def _require_text(written: Sequence[str]) -> None:
    """Raise `UsageError` where `run.json` cannot hold the text."""
    for text in written:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{printable(text)}: is not UTF-8, and a run records it; rename what is called so"
            ) from error


def _tell_shadowed(entries: Sequence[Entry]) -> None:
    """A sandbox of the project's that has the name of a shipped one is named with its file."""
    shipped = sandbox_names()
    for name, found in sorted({(e.file.content.sandbox, sandbox_of(e.file)) for e in entries}):
        if name in shipped and found != name:
            note(f"sandbox {name}: {found}, not the one that comes with statediff")


def _facts(entries: Sequence[Entry], settings: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The facts for `run.json`, and the patch of the repository that one works in."""
    code, patch = pin_code(Path.cwd())
    return {
        "contracts": {entry.name: entry.digest for entry in entries},
        "settings": settings,
        "kernel": KERNEL,
        "statediff": __version__,
        "code": code,
        "sandboxes": pinned(entries, str(settings["sandbox"])),
    }, patch


def pinned(entries: Sequence[Entry], variant: str) -> dict[str, dict[str, Any]]:
    """The pins of the contracts' sandboxes, and of the bases that are there."""
    names = [sandbox_of(entry.file) or "" for entry in entries]
    return pin_sandboxes(names, variant, bases_of(entries, variant))


def _begun(folder: Path, facts: dict[str, Any], patch: bytes) -> Path:
    """The folder, which says what is to be done in it."""
    pins = {"code": facts["code"], "sandboxes": facts["sandboxes"]}
    write_run(folder, folder.name, facts["contracts"], facts["settings"], pins)
    if patch:
        write_file(folder / "local.patch", patch)
    if "log" in facts["settings"]:
        make_secret(folder)
    return folder


def _images(variant: str, agent_image: str | None) -> dict[str, str]:
    """The exact images that the run's servers, and its agent, are in."""
    if variant == EMBEDDED and agent_image is None:
        return {}
    found: dict[str, str] = {}
    for plugin in plugins().values():
        if plugin.images is not None:
            with contextlib.suppress(ModuleNotFoundError):  # servers that run already need none
                found |= plugin.images(agent_image)
    return found


def show_servers(entries: Sequence[Entry], variant: str) -> dict[str, str]:
    """Print and return what the servers of the sandboxes are and run in."""
    found = servers_of(entries, variant)
    for source, what in found.items():
        note(f"{source}: {what}")
    return found
