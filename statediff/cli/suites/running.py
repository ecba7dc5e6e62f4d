"""`run` and `retry`: agents' trials under contracts, each in a sandbox that was proven."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.faults import left_out
from statediff.cli.options import (
    CaseChoice,
    ContractArguments,
    ContractsVariantOption,
    InstalledOnly,
    JsonFlag,
    MaxTurnsOption,
    ModelCosts,
    NetworkOption,
    ObserverOption,
    RebaseOption,
    RootsLogOption,
    RunPlaces,
    Scheduling,
    UserModel,
)
from statediff.cli.output import progress
from statediff.errors import StatediffError, UsageError
from statediff.reports.said import said
from statediff.workspace import agents

if TYPE_CHECKING:
    from statediff.suite.records import Trial
    from statediff.suite.store import Store
    from statediff.workspace.campaigns import Campaign, Entry, How


class ScanBy(StrEnum):
    """What is compared with the state before where nothing tells the state after."""

    WHOLE = "whole"
    PAGES = "pages"


@dataclass(frozen=True, kw_only=True)
class AgentChoice:
    """Which agents are run, each in one of four ways, and what is said of all of them."""

    agent_cmd: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-cmd",
            metavar="CMD",
            help="The agent: any program, which finds the system NAME at STATEDIFF_NAME_URL; "
            "CALLED=CMD gives it a name; may be given again for others.",
        ),
    ] = None
    agent_image: Annotated[
        str | None,
        typer.Option(
            "--agent-image",
            metavar="IMAGE",
            help="The agent runs in a container of this image, and reaches the systems only.",
        ),
    ] = None
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="AGENT",
            help="The agent: a Python function (MODULE:FUNCTION), or the name of a program in "
            "the contract's folder; may be given again.",
        ),
    ] = None
    agent_mcp: Annotated[
        str | None,
        typer.Option(
            "--agent-mcp", metavar="CMD", help="The agent: a program that gets only tools, by MCP."
        ),
    ] = None
    mcp_config: Annotated[
        Path | None,
        typer.Option(
            "--mcp-config",
            metavar="FILE",
            help="With --agent-mcp: these MCP servers' tools instead of the sandbox's own.",
        ),
    ] = None
    record_http: Annotated[
        bool,
        typer.Option(
            "--record-http",
            help="With --agent-cmd or --agent: record its requests to systems that speak HTTP.",
        ),
    ] = False
    isolation: Annotated[
        str | None,
        typer.Option(
            "--isolation",
            metavar="KIND",
            help="Keep programs from the evaluator by this: namespaces+landlock, namespaces, "
            "landlock, none [default: the strongest that the machine allows].",
        ),
    ] = None
    network: NetworkOption = None
    trust_trace: Annotated[
        bool,
        typer.Option(
            "--trust-trace",
            help="You answer for the agent's own log of its calls: it may clear the agent.",
        ),
    ] = False
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="The agent: a model at this OpenAI-compatible endpoint, with the sandbox's tools.",
        ),
    ] = None
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME", help="With --base-url: which model; may be given again."
        ),
    ] = None
    costs: ModelCosts
    max_turns: MaxTurnsOption = None
    stream: Annotated[
        bool, typer.Option("--stream", help="Ask the endpoint to stream its answers.")
    ] = False
    user: UserModel

    def each(self, timeout: float | None) -> list[agents.AgentOptions]:
        """What is said of each agent; `UsageError` where it is said in two ways."""
        options = agents.AgentOptions(
            mcp=self.agent_mcp,
            mcp_config=self.mcp_config,
            base_url=self.base_url,
            max_turns=self.max_turns,
            stream=self.stream,
            timeout_seconds=timeout,
            image=self.agent_image,
            record_http=self.record_http,
            isolation=self.isolation,
            network=tuple(self.network or ()),
            trust_trace=self.trust_trace,
            **vars(self.costs),
            **vars(self.user),
        )
        options.user()
        return agents.each_agent(options, self.agent_cmd or [], self.agent or [], self.model or [])


@dataclass(frozen=True, kw_only=True)
class TrialChoice:
    """Which trials are made: how many of which contracts, and by which seeds."""

    cases: CaseChoice
    trials: Annotated[
        int,
        typer.Option(
            "-k", "--trials", min=1, max=10_000, help="Trials of each contract with each agent."
        ),
    ] = 1
    seed: Annotated[
        int,
        typer.Option(
            "--seed", min=0, max=2**53 - 1, help="Of the first trials; the next have the next ones."
        ),
    ] = 1
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PATTERN", help="Of the contracts, those named so: shop/*."),
    ] = None
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="PATTERN", help="Of the contracts, none that is named so."),
    ] = None
    installed_only: InstalledOnly = False


@dataclass(frozen=True, kw_only=True)
class Trying:
    """Where a trial is made, and for how long at most."""

    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the newest run of the same command, if there is one."
        ),
    ] = False
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", help="For each trial [default: 600]."),
    ] = None
    sandbox: ContractsVariantOption = "embedded"
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The run's folder is made in it.")
    ] = Path("runs")
    rebase: RebaseOption = False


@dataclass(frozen=True, kw_only=True)
class JudgingOptions:
    """By which contracts, and over which evidence, trials are judged."""

    allow_unreviewed: Annotated[
        bool, typer.Option("--allow-unreviewed", help="Judge by drafts (`reviewed: false`) too.")
    ] = False
    authoritative: Annotated[
        bool,
        typer.Option("--authoritative", help="Scan every source after every trial, feed or not."),
    ] = False
    sample_scans: Annotated[
        float,
        typer.Option(
            "--sample-scans",
            metavar="RATE",
            min=0.0,
            max=1.0,
            help="How many of the trials that a feed tells of are scanned too, to compare.",
        ),
    ] = 0.05
    scan: Annotated[
        ScanBy,
        typer.Option(
            "--scan",
            help="`pages`: pages are compared on every trial, where a system has them to compare.",
        ),
    ] = ScanBy.WHOLE
    log: RootsLogOption = None
    observer: ObserverOption = None
    vault: Annotated[
        Path | None,
        typer.Option(
            "--vault",
            metavar="DIR",
            help="Where the keys go of what `retain` limits. [default: .statediff/vault]",
        ),
    ] = None


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
    """Run agents in sandboxes, k times each, and judge every trial.

    Of several contracts, those whose systems are not installed are left out; it then ends with 4.
    """
    from statediff.suite.campaign import POOL
    from statediff.workspace import folders
    from statediff.workspace.campaigns import (
        campaign,
        find_resumable,
        forget_bases,
        lock_run,
        require_runnable,
    )

    options = choice.each(trying.timeout)
    entries, absent = _entries(contracts, which, judging.allow_unreviewed, trying.sandbox)
    is_left = left_out(absent, forgiven=which.installed_only)
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
        settings["images"] = _images(trying.sandbox, choice.agent_image)
        if servers := show_servers(entries, trying.sandbox):
            settings["servers"] = servers
        facts, patch = _facts(entries, settings)
        folder = find_resumable(trying.out, facts) if trying.resume else None
        if folder is None:
            folders.make_own(trying.out)
            folder = _begun(folders.new_run(trying.out, "run"), facts, patch)
        stack.enter_context(lock_run(folder))
        how = how_of(scheduling, choice.costs.max_cost, places)
        made = campaign(folder, entries, options)
        if judging.log is not None:
            _register(made, judging.log)
        return carried_out(made, how, as_json, None) or is_left


def _register(made: Campaign, log: Path) -> None:
    """The log says which trials the run will make; of one that is resumed it does already."""
    from datetime import UTC, datetime
    from functools import partial

    from statediff.evidence.log import keyed, record_entry, registration
    from statediff.workspace.logs.files import append, load_log, secret_of
    from statediff.workspace.runfolders import facts_of

    facts = facts_of(made.folder)
    contracts = [f"{trial.contract}@{trial.version}" for trial in made.planned.values()]
    plan = registration(made.folder.name, facts, tuple(made.planned), contracts)
    record = replace(plan, digest=keyed(secret_of(log), plan.digest))
    if log.exists() and record.digest in load_log(log).registered:
        return
    now = datetime.now(UTC).replace(microsecond=0)
    number, _ = append(log, partial(record_entry, record=record, at=now))
    progress().print(f"registered as entry {number} of {log}", soft_wrap=True)


def how_of(scheduling: Scheduling, max_cost: str | None, places: RunPlaces) -> How:
    """How the trials are made, as the options say."""
    from statediff.workspace.campaigns import How

    return How(**vars(scheduling), max_cost=max_cost, **vars(places))


def _settings(
    entries: Sequence[Entry],
    options: Sequence[agents.AgentOptions],
    which: TrialChoice,
    trying: Trying,
    judging: JudgingOptions,
) -> dict[str, Any]:
    """What `run.json` records of the command; a default that came later is left out."""
    from statediff.suite.records import agent_labels
    from statediff.workspace import stores
    from statediff.workspace.observers import observer_of

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
    if judging.observer is not None:
        observer_of(judging.observer)  # a wrong one is found before a trial is made
        settings["observer"] = str(judging.observer.absolute())
    if any(rules.retain for each in entries for rules in each.file.content.evidence.values()):
        settings["vault"] = str((judging.vault or stores.DEFAULT.parent / "vault").absolute())
    return settings


def carried_out(
    made: Campaign, how: How, as_json: bool, chosen: Callable[[Sequence[Trial]], list[Trial]] | None
) -> int:
    """The run's trials are made, those that are chosen or have no verdict; its exit code."""
    from statediff.cli.suites.progress import Report
    from statediff.workspace.bundles import begin_copy
    from statediff.workspace.campaigns import WITHOUT_VERDICT, carry_out
    from statediff.workspace.stores import index_run

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
    from statediff.suite import store as index
    from statediff.workspace.stores import open_store

    with ExitStack() as stack:
        try:
            store = stack.enter_context(open_store(how.store))
        except StatediffError as error:
            if how.store is not None:
                raise
            progress().print(f"no store, and none is needed: {error}", soft_wrap=True)
            store = stack.enter_context(index.open_store("sqlite://"))
        yield store


def _entries(
    named: Sequence[str], which: TrialChoice, allow_unreviewed: bool, variant: str
) -> tuple[list[Entry], Mapping[str, str]]:
    """The contracts to run, and what is not installed of those that were named.

    `UsageError` names those that are drafts, or says there are none.
    """
    from statediff.contract.file import load_contract
    from statediff.workspace.campaigns import Entry, cases_in
    from statediff.workspace.contracts import contract_paths, require_unchanged
    from statediff.workspace.installed import installed

    every = [Entry(path, load_contract(path)) for path in contract_paths(named)]
    found = [
        entry
        for entry in every
        if (not which.only or fits(entry.file.content.contract, which.only))
        and not fits(entry.file.content.contract, which.skip or ())
    ]
    if not found:
        raise UsageError(f"of {len(every)} contracts, --only and --skip leave none")
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


def fits(contract: str, patterns: Sequence[str]) -> bool:
    """Whether the contract's name is as one of the patterns says."""
    return any(fnmatchcase(contract, pattern) for pattern in patterns)


def _names(options: Sequence[agents.AgentOptions], entries: Sequence[Entry]) -> list[str]:
    """What the agents are called; each of them can be had for every contract, else `UsageError`."""
    made = [[each.agent(entry.path) for entry in entries] for each in options]
    names = [of_each[0].name for of_each in made]
    if len(set(names)) < len(names):
        raise UsageError(f"two agents have one name: {', '.join(sorted(names))}")
    return names


def tell_failed(failed: Mapping[str, str]) -> None:
    """The sandboxes that did not start are named, and the run goes on with the others."""
    for name, why in failed.items():
        progress().print(f"{name}: its trials will have no verdict: {said(why)}", soft_wrap=True)


def _require_text(written: Sequence[str]) -> None:
    """Raise `UsageError` where `run.json` cannot hold the text."""
    from statediff.model.values import printable

    for text in written:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{printable(text)}: is not UTF-8, and a run records it; rename what is called so"
            ) from error


def _tell_shadowed(entries: Sequence[Entry]) -> None:
    """A sandbox of the project's that has the name of a shipped one is named with its file."""
    from statediff.packs import sandbox_names, sandbox_of

    shipped = sandbox_names()
    for name, found in sorted({(e.file.content.sandbox, sandbox_of(e.file)) for e in entries}):
        if name in shipped and found != name:
            progress().print(
                f"sandbox {name}: {found}, not the one that comes with statediff", soft_wrap=True
            )


def _facts(entries: Sequence[Entry], settings: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What `run.json` is to say, and the patch of the repository that one works in."""
    from statediff._version import __version__
    from statediff.kernel import KERNEL
    from statediff.suite.pins import pin_code

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
    from statediff.packs import sandbox_of
    from statediff.suite.pins import pin_sandboxes
    from statediff.workspace.campaigns import bases_of

    names = [sandbox_of(entry.file) or "" for entry in entries]
    return pin_sandboxes(names, variant, bases_of(entries, variant))


def _begun(folder: Path, facts: dict[str, Any], patch: bytes) -> Path:
    """The folder, which says what is to be done in it."""
    from statediff.trial_folder import write_run
    from statediff.workspace.folders import write_file
    from statediff.workspace.runfolders import make_secret

    pins = {"code": facts["code"], "sandboxes": facts["sandboxes"]}
    write_run(folder, folder.name, facts["contracts"], facts["settings"], pins)
    if patch:
        write_file(folder / "local.patch", patch)
    if "log" in facts["settings"]:
        make_secret(folder)
    return folder


def _images(variant: str, agent_image: str | None) -> dict[str, str]:
    """The exact images that the run's servers, and its agent, are in."""
    from statediff.packs import EMBEDDED

    if variant == EMBEDDED and agent_image is None:
        return {}
    from statediff.systems.base.registry import plugins

    found: dict[str, str] = {}
    for plugin in plugins().values():
        if plugin.images is not None:
            with contextlib.suppress(ModuleNotFoundError):  # servers that run already need none
                found |= plugin.images(agent_image)
    return found


def show_servers(entries: Sequence[Entry], variant: str) -> dict[str, str]:
    """What the servers of the sandboxes are and run in; said, too."""
    from statediff.workspace.campaigns import servers_of

    found = servers_of(entries, variant)
    for source, what in found.items():
        progress().print(f"{source}: {what}", soft_wrap=True)
    return found
