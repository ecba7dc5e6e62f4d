"""`run`: agents' trials under contracts, each in a sandbox that was proven."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli import agentoptions
from statediff.cli.output import JsonFlag
from statediff.cli.suites.listing import StoreOption
from statediff.workspace import agents

if TYPE_CHECKING:
    from statediff.suite.records import Trial
    from statediff.suite.store import Store
    from statediff.workspace.campaigns import Campaign, Entry, How

Workers = Annotated[
    int,
    typer.Option(
        "-j",
        "--jobs",
        min=1,
        max=256,
        help="Trials at once, each in a sandbox of its own; results are told in order.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="A Dask scheduler, e.g. tcp://host:8786, whose workers make the trials; or `local`.",
    ),
]
Retries = Annotated[
    int,
    typer.Option(
        "--retries", min=0, max=100, help="Further attempts where the environment failed."
    ),
]

Artifacts = Annotated[
    str | None,
    typer.Option(
        "--artifacts",
        metavar="URL",
        help="Copy the run there as it goes on: s3://bucket/runs, file:///srv/runs; by fsspec.",
    ),
]


class ScanBy(StrEnum):
    """What is compared with the state before where nothing tells the state after."""

    WHOLE = "whole"
    PAGES = "pages"


def run(  # noqa: PLR0913, PLR0917 - its options are its arguments
    contracts: Annotated[
        list[str],
        typer.Argument(metavar="CONTRACT...", help="Contract files, folders, or packs' names."),
    ],
    agent_cmd: agentoptions.AgentCmd = None,
    agent_image: agentoptions.AgentImage = None,
    agent: agentoptions.AgentName = None,
    agent_mcp: agentoptions.AgentMcp = None,
    mcp_config: agentoptions.McpConfig = None,
    record_http: agentoptions.RecordHttp = False,
    base_url: agentoptions.BaseUrl = None,
    model: agentoptions.Model = None,
    key_env: agentoptions.KeyEnv = None,
    price_in: agentoptions.PriceIn = None,
    price_out: agentoptions.PriceOut = None,
    max_cost: agentoptions.MaxCost = None,
    max_turns: agentoptions.MaxTurns = None,
    stream: agentoptions.Stream = False,
    trials: Annotated[
        int,
        typer.Option(
            "-k", "--trials", min=1, max=10_000, help="Trials of each contract with each agent."
        ),
    ] = 1,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", min=0, max=2**53 - 1, help="Of the first trials; the next have the next ones."
        ),
    ] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PATTERN", help="Of the contracts, those named so: shop/*."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="PATTERN", help="Of the contracts, none that is named so."),
    ] = None,
    workers: Workers = 1,
    scheduler: Scheduler = None,
    retries: Retries = 2,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the newest run of the same command, if there is one."
        ),
    ] = False,
    timeout: agentoptions.Timeout = None,
    sandbox: Annotated[
        str,
        typer.Option(
            "--sandbox", metavar="VARIANT", help="Of the contracts' sandboxes, e.g. `postgres`."
        ),
    ] = "embedded",
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The run's folder is made in it.")
    ] = Path("runs"),
    store: StoreOption = None,
    artifacts: Artifacts = None,
    allow_unreviewed: Annotated[
        bool, typer.Option("--allow-unreviewed", help="Judge by drafts (`reviewed: false`) too.")
    ] = False,
    authoritative: Annotated[
        bool,
        typer.Option("--authoritative", help="Scan every source after every trial, feed or not."),
    ] = False,
    sample_scans: Annotated[
        float,
        typer.Option(
            "--sample-scans",
            metavar="RATE",
            min=0.0,
            max=1.0,
            help="How many of the trials that a feed tells of are scanned too, to compare.",
        ),
    ] = 0.05,
    scan: Annotated[
        ScanBy,
        typer.Option(
            "--scan",
            help="`pages`: pages are compared on every trial, where a system has them to compare.",
        ),
    ] = ScanBy.WHOLE,
    as_json: JsonFlag = False,
) -> int:
    """Run agents in their contracts' sandboxes, k times each, and judge every trial."""
    from statediff.suite.sandbox_pool import STANDING
    from statediff.workspace import folders
    from statediff.workspace.campaigns import How, alone, campaign, checked, found_again

    options = agents.several(
        agents.AgentOptions(
            command=None,
            named=None,
            mcp=agent_mcp,
            mcp_config=mcp_config,
            base_url=base_url,
            model=None,
            key_env=key_env,
            price_in=price_in,
            price_out=price_out,
            max_cost=max_cost,
            max_turns=max_turns,
            stream=stream,
            timeout_seconds=timeout,
            image=agent_image,
            record_http=record_http,
        ),
        agent_cmd or [],
        agent or [],
        model or [],
    )
    entries = _entries(contracts, only or (), skip or (), allow_unreviewed=allow_unreviewed)
    names = _names(options, entries)
    how = How(workers, scheduler, retries, max_cost, store, artifacts)
    settings: dict[str, Any] = {
        "trials": trials, "sandbox": sandbox, "agents": names,
        "timeout_seconds": None if timeout is None else str(timeout),
        "scans": "always" if authoritative else str(sample_scans),
        "contract_files": {entry.name: str(entry.path.absolute()) for entry in entries},
        "agent_options": [replace(each, max_cost=None).as_json() for each in options],
    }  # fmt: skip
    if len(names) > 1:
        from statediff.suite.records import labels

        settings["labels"] = list(labels(names))
    if seed != 1:
        settings["first_seed"] = seed
    if scan is ScanBy.PAGES:
        settings["scan"] = scan.value
    folders.require_writable(out)
    with ExitStack() as stack:
        stack.callback(STANDING.close)
        checked(entries, sandbox)
        settings["images"] = _images(sandbox, agent_image)
        facts, patch = _facts(entries, settings)
        folder = found_again(out, facts) if resume else None
        if folder is None:
            folder = _begun(folders.new_run(out, "run"), facts, patch)
        stack.enter_context(alone(folder))
        return carried_out(campaign(folder, entries, options), how, as_json, None)


def carried_out(
    made: Campaign, how: How, as_json: bool, chosen: Callable[[Sequence[Trial]], list[Trial]] | None
) -> int:
    """The run's trials are made, those that are chosen or have no verdict; its exit code."""
    from statediff.cli.suites.progress import Report
    from statediff.workspace.campaigns import WITHOUT_VERDICT, carry_out
    from statediff.workspace.copies import copying
    from statediff.workspace.stores import indexed

    with _store_of(how) as store:
        run = indexed(store, made.folder)
        trials = [t for t in store.trials(run.id) if t.name in made.planned]
        if chosen is None:
            wanted = [t for t in trials if t.ended in WITHOUT_VERDICT]
        else:
            wanted = chosen(trials)
        names = {trial.name for trial in wanted}
        order = {name: at for at, name in enumerate(made.planned)}
        wanted.sort(key=lambda trial: order[trial.name])
        kept = [trial for trial in trials if trial.name not in names]
        with Report(as_json, tuple(made.planned), made.folder) as report:
            copies = copying(how.artifacts, made.folder, store, run.id, report.note)
            carry_out(made, wanted, kept, how, report, store, copies, is_retried=chosen is not None)
        code = report.end()
        copies.whole()
    return code


@contextmanager
def _store_of(how: How) -> Iterator[Store]:
    """The store that was named; the default one, or one for this command if that cannot be used."""
    from statediff.cli.output import progress
    from statediff.errors import StatediffError
    from statediff.suite.store import opened
    from statediff.workspace.stores import opened_store

    with ExitStack() as stack:
        try:
            store = stack.enter_context(opened_store(how.store))
        except StatediffError as error:
            if how.store is not None:
                raise
            progress().print(f"no store, and none is needed: {error}", soft_wrap=True)
            store = stack.enter_context(opened("sqlite://"))
        yield store


def _entries(
    named: Sequence[str], only: Sequence[str], skip: Sequence[str], *, allow_unreviewed: bool
) -> list[Entry]:
    """The contracts to run; `UsageError` names those that are drafts, or says there are none."""
    from statediff.errors import UsageError
    from statediff.evaluate import load_contract
    from statediff.workspace.campaigns import Entry
    from statediff.workspace.contracts import contract_paths
    from statediff.workspace.releases import unchanged

    every = [Entry(path, load_contract(path)) for path in contract_paths(named)]
    found = [
        entry
        for entry in every
        if (not only or fits(entry.file.content.contract, only))
        and not fits(entry.file.content.contract, skip)
    ]
    if not found:
        raise UsageError(f"of {len(every)} contracts, --only and --skip leave none")
    drafts = [e.file.content.contract for e in found if not e.file.content.reviewed]
    if drafts and not allow_unreviewed:
        raise UsageError(
            f"{', '.join(drafts)}: `reviewed: false`: a draft that nobody has signed decides "
            "nothing; remove the line when its owner has read it, or say --allow-unreviewed"
        )
    for entry in found:
        unchanged(entry.path, entry.file)
    return found


def fits(contract: str, patterns: Sequence[str]) -> bool:
    """Whether the contract's name is as one of the patterns says."""
    return any(fnmatchcase(contract, pattern) for pattern in patterns)


def _names(options: Sequence[agents.AgentOptions], entries: Sequence[Entry]) -> list[str]:
    """What the agents are called; each of them can be had for every contract, else `UsageError`."""
    from statediff.errors import UsageError

    made = [each.agents([entry.path for entry in entries]) for each in options]
    names = [of_each[0].name for of_each in made]
    if len(set(names)) < len(names):
        raise UsageError(f"two agents have one name: {', '.join(sorted(names))}")
    return names


def _facts(entries: Sequence[Entry], settings: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What `run.json` is to say, and the patch of the repository that one works in."""
    from statediff._version import __version__
    from statediff.evaluate import KERNEL
    from statediff.suite.pins import code, sandboxes

    pinned, patch = code(Path.cwd())
    names = [entry.file.content.sandbox or "" for entry in entries]
    return {
        "contracts": {entry.name: entry.file.digest for entry in entries},
        "settings": settings, "kernel": KERNEL, "statediff": __version__, "code": pinned,
        "sandboxes": sandboxes(names, str(settings["sandbox"])),
    }, patch  # fmt: skip


def _begun(folder: Path, facts: dict[str, Any], patch: bytes) -> Path:
    """The folder, which says what is to be done in it."""
    from statediff.harness import write_run
    from statediff.workspace.folders import write_file

    pins = {"code": facts["code"], "sandboxes": facts["sandboxes"]}
    write_run(folder, folder.name, facts["contracts"], facts["settings"], pins)
    if patch:
        write_file(folder / "local.patch", patch)
    return folder


def _images(variant: str, agent_image: str | None) -> dict[str, str]:
    """The exact images that the run's servers, and its agent, are in."""
    from statediff.packs import EMBEDDED

    if variant == EMBEDDED and agent_image is None:
        return {}
    from statediff.cli.systems.sandboxes import docker_parts

    containers, images = docker_parts()
    engine = containers.connect()
    found: dict[str, str] = images.in_use(engine)
    if agent_image is not None:
        found[agent_image] = str(engine.client.images.get(agent_image).id)
    return found
