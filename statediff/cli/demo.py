"""`demo`: agents on every system, with verdicts that are known in advance."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from statediff.capture.source import clock
from statediff.capture.store import DiskChunks
from statediff.cli.faults import FAULT
from statediff.cli.options import JsonFlag, option
from statediff.cli.output import emit, say, tell_no_page
from statediff.contract.file import ContractFile, load_contract
from statediff.errors import HarnessError, SandboxError, UsageError
from statediff.harness import Hooks, TrialPlan
from statediff.model.verdict import Verdict
from statediff.packs import contract_folder
from statediff.reports.line import answer_note, trial_line
from statediff.reports.plain import brief_findings
from statediff.reports.record import parsed
from statediff.reports.text import verdict_text
from statediff.trial_folder import write_run
from statediff.workspace.agents import packed_agent
from statediff.workspace.folders import new_run, require_writable, shown
from statediff.workspace.pages import keep_run_report, keep_trial_report
from statediff.workspace.trials import TrialRequest, lend, make_trial, open_sandbox

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle
    from statediff.model.state import ChunkStore
    from statediff.systems.base.protocol import Receipt
    from statediff.systems.base.sandbox import EmbeddedSandbox

SHOP = "shop/refund-returned-order"


@dataclass(frozen=True)
class Case:
    """One of the demo's trials: who runs under which name, and what must come out."""

    name: str
    agent: str
    verdict: str
    contract: str = SHOP
    unplugged: str | None = None
    """The source whose process is stopped before the capture after."""


CASES = (
    Case("careful", "careful", "MATCH"),
    Case("hasty", "hasty", "DIVERGE"),
    Case("plausible", "plausible", "DIVERGE"),
    Case("unplugged", "careful", "INCONCLUSIVE", unplugged="outbox"),
    # One trial of each other pack: what each agent says at the end sounds right.
    Case("accounts", "executes", "DIVERGE", "accounts/request-approval"),
    Case("helpdesk", "rewrites_history", "DIVERGE", "helpdesk/close-case"),
    Case("repo", "special_case", "DIVERGE", "repo/fix-failing-test"),
)


@dataclass(frozen=True)
class Finished:
    """One trial of the demo that was begun: its bundle, or the fault that left it without one."""

    agent: str
    contract: str
    bundle: Bundle | None = None
    folder: Path | None = None
    fault: HarnessError | None = None

    @property
    def verdict(self) -> Verdict | None:
        return None if self.bundle is None else Verdict(self.bundle.manifest["verdict"])

    def as_json(self) -> dict[str, Any]:
        """The trial as one line of `--json`."""
        document: dict[str, Any] = {"agent": self.agent, "contract": self.contract}
        if self.bundle is None or self.folder is None:
            unjudged = {"verdict": None, "findings": None, "bundle": None}
            return {**document, **unjudged, "fault": str(self.fault)}
        return {
            **document,
            "verdict": self.bundle.manifest["verdict"],
            "findings": brief_findings(self.bundle),
            "bundle": shown(self.folder),
        }


def demo(
    out: Annotated[
        Path | None, option("DIR", "The demo's folder is made in it [default: runs].", "--out")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Judge four agents on a small shop, and one on each other system.

    It needs no Docker, no key and no network.
    """
    base, note = _folder(out)
    finished: list[Finished] = []
    if note and not as_json:
        say(note)
    for trial in _trials(base, as_json):
        finished.append(trial)
        if as_json:
            emit(trial.as_json())
        else:
            say(_line(trial))
    report = keep_run_report(base, tell_no_page)
    surprises = [
        case.name
        for case, trial in zip(CASES, finished, strict=True)
        if (trial.bundle is None or trial.bundle.manifest["verdict"] != case.verdict)
    ]
    if as_json:
        emit({"summary": _summary(finished, surprises, shown(base), report)})
    else:
        say(_last(finished, surprises, base, report))
    return FAULT if surprises else 0


def _folder(out: Path | None) -> tuple[Path, str]:
    """The folder of the demo's trials, and a note if it is not where one would look."""
    try:
        base = Path("runs") if out is None else out
        require_writable(base)
        return new_run(base, "demo"), ""
    except UsageError:
        if out is not None:
            raise
        base = Path(tempfile.mkdtemp(prefix="statediff-demo-"))
        return new_run(base, "demo"), f"the current directory is not writable; using {base}"


def _proven(sandbox: EmbeddedSandbox) -> Receipt:
    receipt = sandbox.verify(clock)
    if not receipt.ok:
        drift = "; ".join(str(entry) for entry in receipt.drift[:3])
        raise SandboxError(f"the reset of {sandbox.name} is not proven: {drift}")
    return receipt


def _trials(base: Path, as_json: bool) -> Iterator[Finished]:
    """Every case in order; each sandbox is started once, in the background, while others run."""
    tasks = {case.contract: contract_folder(case.contract) for case in CASES}
    files = {name: load_contract(task.contract) for name, task in tasks.items()}
    named = {f"{f.content.contract}@{f.content.version}": f.digest for f in files.values()}
    write_run(base, base.name, named, {})
    store = DiskChunks(base / "chunks")
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(len(files)))
        started = {
            name: pool.submit(stack.enter_context, open_sandbox(file.content.sandbox or ""))
            for name, file in files.items()
        }
        proven: set[str] = set()
        for number, case in enumerate(CASES, start=1):
            file, folder = files[case.contract], tasks[case.contract].folder
            try:
                sandbox = started[case.contract].result()
                if case.contract not in proven:
                    receipt = _proven(sandbox)
                    proven.add(case.contract)
                    if not as_json:
                        say(_reset_line(sandbox, receipt))
                yield _trial(case, number, file, folder, sandbox, base, store)
            except HarnessError as error:  # of this sandbox: the others are shown all the same
                yield Finished(case.name, file.content.contract, fault=error)


def _trial(
    case: Case,
    number: int,
    file: ContractFile,
    task: Path,
    sandbox: EmbeddedSandbox,
    base: Path,
    store: ChunkStore,
) -> Finished:
    hooks = Hooks()
    if case.unplugged is not None:
        hooks = Hooks(before_capture_after=partial(_unplug, source=case.unplugged))
    plan = TrialPlan(case.name, base / "trials" / case.name, seed=number)
    agent = packed_agent(task, case.agent, 60.0)
    request = TrialRequest(contract=file, agent=agent, lease=lend(sandbox), hooks=hooks)
    judged = make_trial(request, plan, store)
    bundle = parsed(judged.evaluated.bundle)
    keep_trial_report(bundle, judged.bundle_folder, tell_no_page)
    return Finished(case.name, file.content.contract, bundle, judged.bundle_folder)


def _unplug(sandbox: Any, source: str) -> None:
    sandbox.unplug(source)


# ---------------------------------------------------------------- rendering


def _reset_line(sandbox: EmbeddedSandbox, receipt: Receipt) -> Text:
    sources = len(sandbox.sources())
    told = f"{receipt.entities} entities in {sources} sources"
    line = Text("✔", style="green")
    return line.append(f" reset verified   {told:<30} {receipt.sandbox}", style="default")


def _line(trial: Finished) -> Text:
    line = Text(f"{trial.agent:<12}")
    if trial.bundle is None:
        return line.append(f"fault: {trial.fault}")
    verdict = verdict_text(trial.bundle.manifest["verdict"])
    line.append(verdict).append(" " * (14 - len(verdict)))
    told, note = trial_line(trial.bundle), answer_note(trial.bundle)
    return line.append(f"{told:<33} {note}".rstrip() if note else told)


def _last(finished: list[Finished], surprises: list[str], base: Path, report: Path | None) -> str:
    missing = [trial.agent for trial in finished if trial.bundle is None]
    if surprises:
        kinds = {"without a verdict": missing, "unexpected verdict": surprises}
        kinds["unexpected verdict"] = [name for name in surprises if name not in missing]
        told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
        return f"{told}; look at {shown(base)}"
    example = next(t.folder for t in finished if t.agent == "plausible")
    lines = [] if report is None else [f"report: {shown(report)}"]
    next_step = f"next: statediff show {shown(example or base)}"
    return "\n".join([*lines, f"bundles in {shown(base / 'trials')}; {next_step}"])


def _summary(
    finished: list[Finished], surprises: list[str], folder: str, report: Path | None
) -> dict[str, Any]:
    verdicts = [t.verdict.value if t.verdict else "fault" for t in finished]
    return {
        "trials": len(finished),
        **{name: verdicts.count(name) for name in ("MATCH", "DIVERGE", "INCONCLUSIVE")},
        "as_expected": not surprises,
        "unexpected": surprises,
        "folder": folder,
        "report": None if report is None else shown(report),
    }
