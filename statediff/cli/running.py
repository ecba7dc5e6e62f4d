"""`run`: an agent's trials under one or several contracts, each in a sandbox that was proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli import agentoptions
from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.agents.trial import Agent
    from statediff.capture.guard import Scans
    from statediff.cli.trials import Finished
    from statediff.evaluate import ContractFile
    from statediff.sandbox.embedded import EmbeddedSandbox
    from statediff.sandbox.pool import SandboxPool


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
        int, typer.Option("-k", "--trials", min=1, max=10_000, help="Trials of each contract.")
    ] = 1,
    workers: Annotated[
        int,
        typer.Option(
            "-j",
            "--jobs",
            min=1,
            max=256,
            help="Trials at once, each in a sandbox of its own; results are told in order.",
        ),
    ] = 1,
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
    as_json: JsonFlag = False,
) -> int:
    """Run an agent in its contract's sandbox, k times, and judge every trial."""
    from statediff.capture.guard import AUTHORITATIVE, Scans
    from statediff.cli import folders
    from statediff.cli.contracts import contract_paths
    from statediff.cli.releases import unchanged
    from statediff.evaluate import load_contract
    from statediff.harness import write_run

    paths = contract_paths(contracts)
    agents = agentoptions.AgentOptions(
        agent_cmd, agent, agent_mcp, mcp_config, base_url, model, key_env, price_in, price_out,
        max_cost, max_turns, stream, timeout, agent_image, record_http,
    ).agents(list(paths))  # fmt: skip
    scheduled = [
        Scheduled(load_contract(path), made, trials)
        for path, made in zip(paths, agents, strict=True)
    ]
    if not allow_unreviewed:
        _require_reviewed(scheduled)
    for path, entry in zip(paths, scheduled, strict=True):
        unchanged(path, entry.file)
    folders.require_writable(out)
    with ExitStack() as stack:
        pools = _pools(scheduled, sandbox, workers, stack)
        folder = folders.new_run(out, "run")
        write_run(
            folder, folder.name,
            {f"{s.file.content.contract}@{s.file.content.version}": s.file.digest
             for s in scheduled},
            {"trials": trials, "sandbox": sandbox,
             "agents": sorted({s.agent.name for s in scheduled}),
             "timeout_seconds": None if timeout is None else str(timeout),
             "scans": "always" if authoritative else str(sample_scans),
             "images": _images(sandbox, agent_image)},

        )  # fmt: skip
        report = Report(as_json, sum(s.trials for s in scheduled), folder)
        try:
            scans = AUTHORITATIVE if authoritative else Scans(sample_scans)
            for finished in _finished(scheduled, pools, workers, folder, scans):
                report.add(finished)
        except KeyboardInterrupt:
            report.is_interrupted = True
    return report.end()


@dataclass(frozen=True)
class Scheduled:
    """A contract with the agent that is tried under it, and how often."""

    file: ContractFile
    agent: Agent
    trials: int


def _require_reviewed(scheduled: Sequence[Scheduled]) -> None:
    """No contract is a draft; `UsageError` names those that are."""
    from statediff.errors import UsageError

    drafts = [s.file.content.contract for s in scheduled if not s.file.content.reviewed]
    if drafts:
        raise UsageError(
            f"{', '.join(drafts)}: `reviewed: false`: a draft that nobody has signed decides "
            "nothing; remove the line when its owner has read it, or say --allow-unreviewed"
        )


def _pools(
    scheduled: Sequence[Scheduled], variant: str, workers: int, stack: ExitStack
) -> Mapping[str, SandboxPool[EmbeddedSandbox]]:
    """Running sandboxes for every contract, each contract checked against its base state."""
    from statediff.cli.trials import base_state, pool_of, require_sound
    from statediff.errors import UsageError

    trials: dict[str, int] = {}
    for entry in scheduled:
        content = entry.file.content
        if content.sandbox is None:
            raise UsageError(
                f"{content.contract} names no sandbox to run in; add `sandbox:`, or judge states "
                "that you captured yourself with `statediff judge`"
            )
        trials[content.sandbox] = trials.get(content.sandbox, 0) + entry.trials
    pools: dict[str, SandboxPool[EmbeddedSandbox]] = {}
    for name, number in trials.items():
        pools[name] = stack.enter_context(pool_of(name, variant, min(workers, number)))
        with pools[name].lease() as sandbox:
            base = base_state(sandbox)
        for entry in scheduled:
            if entry.file.content.sandbox == name:
                require_sound(entry.file, base)
    return pools


def _images(variant: str, agent_image: str | None) -> dict[str, str]:
    """The exact images that the run's servers, and its agent, are in."""
    from statediff.packs import EMBEDDED

    if variant == EMBEDDED and agent_image is None:
        return {}
    from statediff.cli.sandboxes import docker_parts

    containers, images = docker_parts()
    engine = containers.connect()
    found: dict[str, str] = images.in_use(engine)
    if agent_image is not None:
        found[agent_image] = str(engine.client.images.get(agent_image).id)
    return found


def _finished(
    scheduled: Sequence[Scheduled],
    pools: Mapping[str, SandboxPool[EmbeddedSandbox]],
    workers: int,
    folder: Path,
    scans: Scans,
) -> Iterator[Finished]:
    """Every trial, in the order of the schedule."""
    from statediff.agents.trial import Haltable
    from statediff.suite.workers import Job, in_order

    jobs = [
        Job(entry.file.content.sandbox or "", partial(_trial, entry, number, folder, scans))
        for entry in scheduled
        for number in range(1, entry.trials + 1)
    ]

    def halt() -> None:
        for entry in scheduled:
            if isinstance(entry.agent, Haltable):
                entry.agent.halted.set()

    yield from in_order(jobs, pools, workers, halt)


def _trial(
    entry: Scheduled, number: int, folder: Path, scans: Scans, sandbox: EmbeddedSandbox
) -> Finished:
    """One trial, with its record on disk; a fault of the machinery is one of its ends."""
    from statediff.capture.store import DiskChunks
    from statediff.cli.reporting import keep_fault, keep_trial_report
    from statediff.cli.trials import Finished, clock
    from statediff.errors import HarnessError
    from statediff.harness import TrialPlan, run_trial

    name = entry.file.content.contract
    trial = f"{name.replace('/', '-')}-{number}"
    try:
        judged = run_trial(
            sandbox, entry.file, entry.agent,
            TrialPlan(trial, folder / "trials" / trial, seed=number),
            clock=clock, store=DiskChunks(folder / "chunks"), scans=scans,
        )  # fmt: skip
    except HarnessError as error:
        keep_fault(folder / "trials" / trial, error)
        return Finished(trial, name, entry.agent.name, fault=error)
    keep_trial_report(judged.evaluated.bundle, judged.bundle_folder)
    return Finished(
        trial, name, entry.agent.name, judged.evaluated.bundle, judged.bundle_folder,
        sandbox=entry.file.content.sandbox or "", checks=judged.observed.checks,
    )  # fmt: skip


@dataclass
class Report:
    """Tells of each trial as it ends, and sums up over all that were scheduled."""

    as_json: bool
    scheduled: int
    folder: Path
    finished: list[Finished] = field(default_factory=list)
    is_interrupted: bool = False

    def suspects(self) -> list[str]:
        """The trials to judge again: those that rest on a feed which a later scan contradicted.

        A feed is trusted again from the last scan that agreed with it.
        """
        found: set[str] = set()
        unproven: dict[tuple[str, str], list[str]] = {}
        for finished in self.finished:
            for check in finished.checks:
                since = unproven.setdefault((finished.sandbox, check.source), [])
                if check.disagreement:
                    found.update(since)
                if check.by_scan:
                    since.clear()
                elif check.by_feed:
                    since.append(finished.trial)
        return sorted(found)

    def add(self, finished: Finished) -> None:
        from rich.text import Text

        from statediff.cli.output import emit, results
        from statediff.reports.line import trial_line
        from statediff.reports.record import said
        from statediff.reports.text import verdict_text

        self.finished.append(finished)
        if self.as_json:
            emit(finished.as_json())
            return
        line = Text(said(finished.trial, 100) + "  ")
        if finished.bundle is None:
            line.append("fault", style="bold red").append(f"  {said(finished.fault, 2000)}")
        else:
            verdict = verdict_text(finished.bundle.manifest["verdict"])
            line.append(verdict).append(" " * (14 - len(verdict)))
            line.append(trial_line(finished.bundle))
        results().print(line, soft_wrap=True)

    def counts(self) -> dict[str, int]:
        """How the scheduled trials ended; the numbers add up to `scheduled`."""
        ended = [f.verdict.value if f.verdict else "fault" for f in self.finished]
        found = {name: ended.count(name) for name in ("MATCH", "DIVERGE", "INCONCLUSIVE", "fault")}
        return {
            "scheduled": self.scheduled, **found, "not_run": self.scheduled - len(self.finished),
        }  # fmt: skip

    def end(self) -> int:
        """The summary is told; the exit code of the run."""
        from statediff.cli.output import emit, results, shown
        from statediff.cli.reporting import keep_run_report

        counts, suspects = self.counts(), self.suspects()
        page = keep_run_report(self.folder)
        if self.as_json:
            summary: dict[str, Any] = {**counts, "interrupted": self.is_interrupted}
            if suspects:
                summary["judge_again"] = suspects
            where = None if page is None else shown(page)
            emit({"summary": {**summary, "run": shown(self.folder), "report": where}})
        else:
            told = ", ".join(
                f"{number} {name.replace('_', ' ')}"
                for name, number in counts.items() if number and name != "scheduled"
            )  # fmt: skip
            lead = "interrupted; " if self.is_interrupted else ""
            plural = "trial" if self.scheduled == 1 else "trials"
            results().print(
                f"{lead}{self.scheduled} {plural}: {told}   {shown(self.folder)}", soft_wrap=True
            )
            if suspects:
                results().print(
                    "a scan contradicted a feed; judge these again, with --authoritative: "
                    + ", ".join(suspects), soft_wrap=True,
                )  # fmt: skip
        return self._exit_code()

    def _exit_code(self) -> int:
        from statediff.cli.faults import FAULT, INTERRUPTED
        from statediff.evaluate import exit_code

        if self.is_interrupted:
            return INTERRUPTED
        code = exit_code(f.verdict for f in self.finished if f.verdict is not None)
        has_fault = any(f.verdict is None for f in self.finished)
        return FAULT if has_fault and code != 1 else code
