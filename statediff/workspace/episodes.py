"""One attempt at a scheduled trial of a run, in whichever process; its arguments say it all.

The engine (`statediff.workspace.trials`) makes the trial. What is added here is the run's: the
folder in which the attempt counts, its record, its page, and what is known of one that failed.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff.capture.store import DiskChunks
from statediff.errors import HarnessError, UsageError
from statediff.evidence.verify import OBSERVATION
from statediff.harness import JudgedTrial, TrialPlan
from statediff.reports.line import trial_line
from statediff.reports.plain import brief_findings
from statediff.reports.record import parsed
from statediff.suite.campaign import close_when_idle
from statediff.suite.indexing import stamp_of
from statediff.suite.records import (
    Attempt,
    Ended,
    FaultKind,
    Trial,
    attempt_folder,
    discard_attempt,
    fault_kind,
    judged_trial,
    keep_attempt,
    nano,
    read_attempt,
    without_bundle,
    write_attempt,
)
from statediff.total import in_any_case, twice, words_of
from statediff.trial_folder import destroy_keys, retained_chunks, vault_of
from statediff.workspace.agents import AgentOptions
from statediff.workspace.folders import shown
from statediff.workspace.logs.files import register
from statediff.workspace.observers import KEY, observer_in
from statediff.workspace.pages import Tell, keep_fault, keep_trial_report
from statediff.workspace.runfolders import ending_of, read_trial, run_facts, run_secret
from statediff.workspace.trials import TrialRequest, make_trial, read_contract

if TYPE_CHECKING:
    from statediff.capture.guard import SourceCheck
    from statediff.evidence.package import Bundle
    from statediff.model.state import ChunkStore

TRIAL: Final = "statediff/trial/1"


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One attempt to make; everything in it can be sent to another process or machine."""

    run: Path
    planned: Trial
    request: TrialRequest
    attempt: int = 1
    """How often the trial was begun, this time included."""
    is_retried: bool = False
    lost: int = 0
    """How many attempts of this command failed around the agent."""
    on_cluster: bool = False


@dataclass(frozen=True)
class Played:
    """How an attempt ended: with a bundle in `folder`, or with a fault."""

    trial: str
    contract: str
    agent: str
    record: Trial
    line: str = ""
    """The one thing worth knowing first."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """More of it for `--json`."""
    folder: Path | None = None
    fault: str = ""
    sandbox: str = ""
    checks: tuple[SourceCheck, ...] = ()
    is_new: bool = True
    """True if it was made now: it may have been there."""
    not_kept: tuple[str, ...] = ()
    """Files of it that could not be written, and why; the verdict stays what it is."""

    is_unobserved: bool = False
    """True if an observer should have signed, and the bundle has nothing of one."""

    @property
    def verdict(self) -> Ended | None:
        return self.record.ended if self.record.ended.has_verdict else None

    def as_json(self) -> dict[str, Any]:
        """The trial as one line of `--json`."""
        document: dict[str, Any] = {
            "schema": TRIAL,
            "trial": self.trial,
            "contract": self.contract,
            "agent": self.agent,
        }
        if self.record.attempts > 1:
            document["attempts"] = self.record.attempts
        if self.verdict is None or self.folder is None:
            return {
                **document,
                "verdict": None,
                "fault": self.fault,
                "cause": self.record.cause or None,
            }
        return {
            **document,
            "verdict": self.verdict.value,
            **self.document,
            **({"not_kept": list(self.not_kept)} if self.not_kept else {}),
            "bundle": shown(self.folder),
        }


def play(tell: Tell, episode: Episode) -> Played:
    """The trial has an attempt that counts, made now unless there was one.

    Whatever fails in it is one of its ends, an error that nobody foresaw too. `UsageError` where
    this machine has not what the run was begun with, which is so for every other trial.
    """
    try:
        there = find_played(episode)
        if there is not None:
            return there
        _require_unchanged(episode)
        return _play(tell, episode)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - of this trial, and no other's end
        return _failed(episode, FaultKind.UNFORESEEN, unforeseen(error))


def unforeseen(error: BaseException) -> str:
    """The error in one line, where no message was foreseen."""
    text = " ".join(str(error).split())
    return f"an error that statediff has no name for: {type(error).__name__}: {text or 'no words'}"


def _play(tell: Tell, episode: Episode) -> Played:
    folder = attempt_folder(episode.run, episode.planned.name)
    played, bundle = _attempt(episode, folder)
    if bundle is None:
        return _kept(episode, folder, played)

    def not_kept(error: Exception) -> Played:
        return replace(played, not_kept=(*played.not_kept, f"its folder: {words_of(error)}"))

    # There is a verdict: nothing that fails from here on takes it away.
    played = in_any_case(lambda: _kept(episode, folder, played), not_kept)
    place = played.folder
    if place is None or not played.is_new:
        return played
    try:
        if not place.is_dir():
            return played
        keep_trial_report(bundle, place, tell)
    except Exception as error:  # noqa: BLE001 - the verdict is there; only its page is not
        tell(error)
    stamp = in_any_case(lambda: stamp_of(place.parent), lambda _: "")
    return replace(played, record=replace(played.record, stamp=stamp))


def _kept(episode: Episode, folder: Path, played: Played) -> Played:
    """The attempt in the folder counts, or that of somebody who was faster."""
    if not folder.is_dir():  # not even that could be written
        return played
    if not keep_attempt(folder, episode.run, episode.planned.name):
        discard_attempt(folder)  # somebody else was faster; one of a trial counts
        return find_played(episode) or played
    return played


def find_played(episode: Episode) -> Played | None:
    """The outcome in the trial's folder, where it holds a bundle of this trial."""
    folder = episode.run / "trials" / episode.planned.name
    if not (folder / "bundle").is_dir():
        return None
    found = read_trial(folder)
    if found.bundle is None:
        return None
    record = judged_trial(episode.planned, found.bundle, stamp_of(folder))
    known = read_attempt(folder)
    if not record.ended.has_verdict:
        return None
    return replace(_played(episode, record, known, found.bundle, folder), is_new=False)


def lose(episode: Episode, error: BaseException) -> Played:
    """The attempt whose worker ended: its verdict may be there already; else that is all."""
    there = in_any_case(lambda: find_played(episode), lambda _: None)
    if there is not None:
        return replace(there, is_new=True)
    why = f"its worker ended while it was at this trial ({type(error).__name__})"
    return _failed(episode, FaultKind.WORKER, why)


def _require_unchanged(episode: Episode) -> None:
    """The contract's file holds what the run was begun with."""
    file, expected = read_contract(episode.request), episode.planned.digest
    if file.digest != expected:
        raise UsageError(
            f"{episode.request.contract}: the contract has changed since the run was begun; "
            f"expected digest {expected[:12]}, found {file.digest[:12]}. Undo that, or begin a new "
            "run"
        )


def _attempt(episode: Episode, folder: Path) -> tuple[Played, Bundle | None]:
    """How the attempt in the folder ended, and its bundle; the folder says it, too."""
    if episode.on_cluster:
        close_when_idle()
    plan = _plan(episode, folder)
    chunks, vault = DiskChunks(episode.run / "chunks"), vault_of(episode.run)
    store: ChunkStore = chunks
    try:
        named = read_contract(episode.request).content.evidence
        retain = {source: rules.retain for source, rules in named.items() if rules.retain}
        store = retained_chunks(chunks, retain, vault)
        done = make_trial(episode.request, plan, store)
        return twice(lambda: _record_verdict(episode, folder, done))
    except UsageError:
        destroy_keys(store, vault)
        raise
    except HarnessError as error:
        destroy_keys(store, vault)
        return _record_fault(episode, folder, fault_kind(error), str(error)), None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - of this trial, and no other's end
        destroy_keys(store, vault)
        trace = "".join(traceback.format_exception(error))
        return _record_fault(episode, folder, FaultKind.UNFORESEEN, unforeseen(error), trace), None


def _plan(episode: Episode, folder: Path) -> TrialPlan:
    """The plan of a trial in the folder; of a run with a log, its state roots go there first."""
    settings, agent = run_facts(episode.run)["settings"], episode.request.agent
    options = agent if isinstance(agent, AgentOptions) else None
    plan = TrialPlan(episode.planned.name, folder, episode.planned.seed or 0)
    plan = replace(plan, observer=observer_in(settings, options))
    secret = run_secret(episode.run)
    if not secret:
        return plan
    log = Path(settings["log"])

    def put(trial: str, roots: Mapping[str, str]) -> None:
        register(log, trial, roots)

    return replace(plan, secret=secret, register=put)


def _record_verdict(
    episode: Episode, folder: Path, done: JudgedTrial
) -> tuple[Played, Bundle | None]:
    usage = done.observed.run.usage
    known = Attempt(episode.attempt, episode.is_retried, nano(usage.cost if usage else None))
    not_kept: list[str] = []
    in_any_case(
        lambda: write_attempt(folder, known),
        lambda error: not_kept.append(f"attempt is not kept: {words_of(error)}"),
    )
    bundle = parsed(done.evaluated.bundle)
    played = _played(episode, judged_trial(episode.planned, bundle, ""), known, bundle, folder)
    return replace(
        played,
        sandbox=done.observed.receipt.sandbox,
        checks=done.observed.checks,
        not_kept=(*done.not_kept, *not_kept),
    ), bundle


def _record_fault(
    episode: Episode, folder: Path, kind: FaultKind, why: str, trace: str = ""
) -> Played:
    with contextlib.suppress(OSError):  # a full disk is one of the faults
        folder.mkdir(parents=True, exist_ok=True)
        write_attempt(folder, Attempt(episode.attempt, episode.is_retried, None, kind))
    keep_fault(folder, f"{why}\n\n{trace}".strip())
    return _failed(episode, kind, why)


def _played(
    episode: Episode, record: Trial, known: Attempt, bundle: Bundle, folder: Path
) -> Played:
    """How the attempt in `folder` ended."""
    record = replace(
        record, attempts=known.number, is_retried=known.is_retried, cost_nano=known.cost_nano
    )
    results = bundle.document("judgement.json")["results"]
    document = {
        **{name: results[name] for name in ("tool", "task", "outcome")},
        "findings": brief_findings(bundle),
    }
    ending = in_any_case(lambda: ending_of(folder / "bundle"), lambda _: None)
    if ending is not None:
        document["agent_error"] = ending.sentence
    return Played(
        trial=record.name,
        contract=episode.planned.contract,
        agent=episode.planned.agent,
        record=record,
        line=trial_line(bundle, ending),
        document=document,
        folder=episode.run / "trials" / record.name / "bundle",
        is_unobserved=KEY in run_facts(episode.run)["settings"] and OBSERVATION not in bundle.files,
    )


def _failed(episode: Episode, kind: FaultKind, why: str) -> Played:
    record = replace(
        without_bundle(episode.planned, Ended.FAULT, why),
        attempts=episode.attempt,
        is_retried=episode.is_retried,
        cause=str(kind),
    )
    planned = episode.planned
    return Played(
        trial=planned.name,
        contract=planned.contract,
        agent=planned.agent,
        record=record,
        fault=why,
    )
