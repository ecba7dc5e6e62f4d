"""Runs, trials and attempts as run folders and stores keep them, and how every trial ended.

All text comes from run folders, so it was influenced by agents: it is bounded, and what steers a
terminal or is no text for a database is spelled out.

An attempt at a trial is made under `attempts/TRIAL/…` of the run's folder and moved to
`trials/TRIAL` when it has ended, whole and at once: two processes that make the same trial, or one
that is killed, never leave half of one there, and the second one changes nothing. An attempt that
no longer counts is moved back, and kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from statediff.atomic import sync_folder, write_atomically
from statediff.contract.yaml.reader import read_document
from statediff.errors import (
    AdapterError,
    BundleError,
    HarnessError,
    SandboxError,
    StatediffError,
    StorageError,
    UnprovenBase,
)
from statediff.evidence.package import Bundle
from statediff.model.explanation import Reason
from statediff.model.values import decode, printable
from statediff.suite.spans import SpanCounts, spans

TEXT_LIMIT: Final = 1000
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")
MAX_SCHEDULED: Final = 1_000_000
"""Trials of one run; what says more is no run of ours."""


class Ended(StrEnum):
    """How a scheduled trial ended: with a verdict, or why it has none."""

    MATCH = "MATCH"
    DIVERGE = "DIVERGE"
    INCONCLUSIVE = "INCONCLUSIVE"
    FAULT = "fault"
    """The environment or the harness failed; the agent is not to blame."""
    DAMAGED = "damaged"
    """There is something in the place of its bundle that is not the bundle of this trial."""
    UNFINISHED = "unfinished"
    """Its folder is there, without a bundle and without a reason."""
    NOT_RUN = "not_run"

    @property
    def has_verdict(self) -> bool:
        return self in VERDICTS


VERDICTS: Final = (Ended.MATCH, Ended.DIVERGE, Ended.INCONCLUSIVE)
FAILURES: Final = tuple(each for each in Ended if each not in VERDICTS)
"""Ends without a verdict: shown apart, and never counted as passed."""


class Loose(NamedTuple):
    """A finding that does not hold; runs of many trials are full of the same few."""

    clause: str
    code: str
    stage: str
    truth: str


@dataclass(frozen=True)
class Trial:
    """One scheduled trial, or one whose folder is there though none was scheduled by its name."""

    run: str
    name: str
    ended: Ended
    contract: str = ""
    version: str = ""
    digest: str = ""
    kernel: str = ""
    agent: str = ""
    number: int | None = None
    """Its number among the contract's trials; None where it was not scheduled."""
    seed: int | None = None
    tool: str | None = None
    task: str | None = None
    outcome: str | None = None
    started_at: str | None = None
    """When the agent began, UTC, in ISO 8601."""
    agent_microseconds: int | None = None
    cost_nano: int | None = None
    """The cost of its agent, in billionths; None where nobody said."""
    attempts: int = 1
    """How often it was begun anew, and once; all but the last are kept beside the trials."""
    is_retried: bool = False
    """True if somebody asked for another attempt though there was a verdict."""
    cause: str = ""
    """The kind of failure that left it without a verdict; see `statediff.suite.records`."""
    bundle: str = ""
    why: str = ""
    stamp: str = ""
    """The stamp of the file it was read from; empty where it is to be read again."""
    turns: int = 0
    """How many turns its contract has, if it was tried live; else 0."""
    turns_first: int = 0
    """How many gates held at the first attempt."""
    turns_after: int = 0
    """How many held in the end, at the first attempt or after a repair."""
    turns_failed: int = 0
    """How many failed in the end; of the others it is not known."""
    precision_nano: int | None = None
    """The share of the changes that were required, in billionths; None where undefined."""
    recall_nano: int | None = None
    """The share of the required changes that happened, in billionths; None where undefined."""
    forbidden_nano: int | None = None
    """The forbidden-effect rate, in billionths; None where there is no verdict."""
    along: str | None = None
    """The worst truth of the clauses along the run; None where there is no such clause."""
    whole: str | None = None
    """The worst truth of the clauses over the run as a whole; None where there is none."""
    calls: int = 0
    """How many calls were recorded."""
    calls_wrong: int = 0
    """How many of them are wrong by themselves; see `statediff.suite.spans`."""
    calls_unknown: int = 0
    loose: tuple[Loose, ...] = ()

    @property
    def domain(self) -> str:
        """The part of its contract's name before the first slash."""
        return domain_of(self.contract)


@dataclass(frozen=True)
class Run:
    """The record of one run."""

    id: str
    location: str
    _: KW_ONLY
    name: str
    statediff: str
    kernel: str
    facts: str
    """The whole of `run.json`, as canonical as it was written."""
    contracts: tuple[tuple[str, str, str], ...]
    """(contract, version, digest)."""
    times: int
    """Trials that were scheduled of each contract with each agent."""
    agents: tuple[tuple[str, str], ...]
    """(agent, what names its trials apart); one without a name if it is not known."""
    first_seed: int = 1

    @property
    def scheduled(self) -> int:
        """How many trials there are to be."""
        return len(self.contracts) * len(self.agents) * self.times


def run_record(facts: Mapping[str, Any], location: str) -> Run:
    """The run by its `run.json`; `BundleError` if that contradicts itself.

    `location` names the folder, in one way only; a run's id is derived from both.
    """
    written = json.dumps(facts, sort_keys=True, ensure_ascii=True)
    try:
        settings = facts["settings"]
        agents = settings.get("agents") or []
        times = settings.get("trials", 0)
        contracts = [
            (*_split_contract(name), text(digest))
            for name, digest in sorted(facts["contracts"].items())
        ]
        if isinstance(times, bool) or not isinstance(times, int) or times < 0:
            raise ValueError(f"expected how many trials were asked for, found {times!r}")
        first_seed = settings.get("first_seed", 1)
        if isinstance(first_seed, bool) or not isinstance(first_seed, int):
            raise ValueError(f"expected the seed of the first trial, found {first_seed!r}")
        run = Run(
            hashlib.sha256(f"{location}\n{written}".encode()).hexdigest()[:32],
            location,
            name=text(facts["run"]),
            statediff=text(facts["statediff"]),
            kernel=text(facts["kernel"]),
            facts=written,
            contracts=tuple(contracts),
            times=times,
            agents=_agents(agents, settings.get("labels")),
            first_seed=first_seed,
        )
        if run.scheduled > MAX_SCHEDULED:
            raise ValueError(f"more than {MAX_SCHEDULED:,} trials are none of one run")
        return run
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BundleError(
            f"{printable(location)}: run.json contradicts itself: {text(error)}; expected what "
            "`statediff run` writes"
        ) from error


def scheduled_trials(run: Run) -> dict[str, Trial]:
    """Every trial that was scheduled, by the name of its folder, as if none had been run.

    Two contracts whose names make the same folder have no trial of their own in it.
    """
    found: dict[str, Trial] = {}
    for contract, version, digest in run.contracts:
        for agent, label in run.agents:
            for number in range(1, run.times + 1):
                name = trial_name(contract, label, number)
                if name in found:
                    raise BundleError(
                        f"{printable(run.location)}: two of its trials are kept in {name}"
                    )
                found[name] = Trial(
                    run.id,
                    name,
                    Ended.NOT_RUN,
                    contract=contract,
                    version=version,
                    digest=digest,
                    kernel=run.kernel,
                    agent=agent,
                    number=number,
                    seed=run.first_seed + number - 1,
                    why="it was scheduled and not run",
                )
    return found


def trial_name(contract: str, label: str, number: int) -> str:
    """The name of a trial's folder; `label` tells its agent where there are several."""
    return "-".join(filter(None, (contract.replace("/", "-"), label, str(number))))


def agent_labels(agents: Sequence[str]) -> tuple[str, ...]:
    """Labels that tell each agent's trials apart in names of folders: none for one agent."""
    if len(agents) == 1:
        return ("",)
    short = [_UNFIT.sub("-", agent).strip("-.")[:40] or "agent" for agent in agents]
    return tuple(
        name if short.count(name) == 1 else f"{name}-{at}" for at, name in enumerate(short, 1)
    )


ALONG: Final = frozenset({"steps", "actions"})
"""Sections of a contract that look at single calls and states of a run, its turns among them."""
WHOLE: Final = frozenset({"forbid", "frame", "require"})
"""Sections that look at what the run as a whole changed."""
_TRUTHS: Final = ("HOLDS", "UNKNOWN", "FAILS")


def levels(clauses: Iterable[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """The worst truth along the run, and of the run as a whole [STA]; None without a clause."""
    known = list(clauses)
    one, other = (
        max((c["truth"] for c in known if c["stage"] in own), key=_TRUTHS.index, default=None)
        for own in (ALONG, WHOLE)
    )
    return one, other


def domain_of(contract: str) -> str:
    """The part of a contract's name before its first slash."""
    return contract.partition("/")[0]


def _agents(names: Any, told: Any) -> tuple[tuple[str, str], ...]:
    """Who makes the trials. Older runs of several agents did not tell whose is which."""
    if told is None:
        return ((text(names[0]) if len(names) == 1 else "", ""),)
    if not names or len(names) != len(told) or not all(isinstance(n, str) for n in told):
        raise ValueError(f"expected a label for each of {len(names)} agents")
    if any(_UNFIT.search(label) or label.startswith(".") for label in told):
        raise ValueError("expected labels that can be part of a folder's name")
    return tuple((text(name), label) for name, label in zip(names, told, strict=True))


def judged_trial(planned: Trial, bundle: Bundle, stamp: str) -> Trial:
    """The trial by its bundle; damaged where the bundle is not one of the trial `planned`."""
    try:
        return _judged_trial(planned, bundle, stamp)
    except (
        StatediffError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        return without_bundle(planned, Ended.DAMAGED, f"the bundle contradicts itself: {error}")


def without_bundle(planned: Trial, ended: Ended, why: str) -> Trial:
    """The trial, which has no bundle, and why."""
    return replace(planned, ended=ended, why=text(why), stamp="")


def _judged_trial(planned: Trial, bundle: Bundle, stamp: str) -> Trial:
    manifest, judgement = bundle.manifest, bundle.document("judgement.json")
    trial, timeline = bundle.document("trial.json"), bundle.document("timeline.json")
    verdict = Ended(judgement["verdict"])
    if not verdict.has_verdict or manifest["verdict"] != judgement["verdict"]:
        raise ValueError("its manifest and its judgement have different verdicts")
    found = _identity(manifest, trial)
    _require_planned(planned, found)
    results = ((name, judgement["results"][name]) for name in ("tool", "task", "outcome"))
    named: Any = {name: None if each is None else text(each) for name, each in results}
    loose = {
        Loose(text(f["clause"]), text(f["code"]), text(f["stage"]), text(f["truth"]))
        for f in judgement["findings"]
        if f["truth"] != "HOLDS"
    }
    started = None if timeline is None else _instant(timeline["agent_started_at"])
    finished = None if timeline is None else _instant(timeline["agent_finished_at"])
    taken = None if started is None or finished is None else finished - started
    numbers = judgement["metrics"]
    along, whole = levels(judgement["clauses"])
    history = bundle.document("captures.json")["history"]
    calls = SpanCounts.of(spans(judgement, bundle.document("trace.json"), history))
    judged = replace(
        planned,
        ended=verdict,
        contract=found["contract"],
        version=found["version"],
        digest=found["digest"],
        kernel=text(manifest["kernel"]),
        agent=text(trial["agent"]),
        **named,
        started_at=None if started is None else started.isoformat(),
        agent_microseconds=None if taken is None else taken // timedelta(microseconds=1),
        bundle=bundle.digest,
        why="",
        stamp=stamp,
        precision_nano=_share_nano(numbers["precision"]),
        recall_nano=_share_nano(numbers["recall"]),
        forbidden_nano=_share_nano(numbers["forbidden_effect_rate"]),
        along=along,
        whole=whole,
        calls=calls.number,
        calls_wrong=calls.wrong,
        calls_unknown=calls.unknown,
        loose=tuple(sorted(loose)),
    )
    return _with_turns(judged, bundle, judgement)


def _identity(manifest: Any, trial: Any) -> dict[str, str]:
    """The contract and the number of the trial, by its bundle."""
    return {
        "trial": text(manifest["trial"]),
        "contract": text(manifest["contract"]),
        "version": text(manifest["contract_version"]),
        "digest": text(manifest["contract_digest"]),
        "seed": text(trial["seed"]),
    }


def _require_planned(planned: Trial, found: dict[str, str]) -> None:
    """The bundle is of the trial that was planned, if one was. `ValueError` if it is not."""
    if planned.number is None:
        return
    seed = str(planned.seed)
    named = (planned.name, planned.contract, planned.version, planned.digest, seed)
    for (what, value), expected in zip(found.items(), named, strict=True):
        if value != expected:
            raise ValueError(f"it is of {what} {value}, expected {expected}")


def _with_turns(trial: Trial, bundle: Bundle, judgement: Any) -> Trial:
    """The trial with how its gates ended, where the harness spoke for the user."""
    if b'"gate":' not in bundle.files["trace.json"]:
        return trial
    turns = bundle.document("trace.json")["turns"] or ()
    if all("gate" not in turn for turn in turns):
        return trial
    contract = read_document(bundle.files["contract.yaml"], "contract.yaml").value
    gates = [
        str(turn.get("id") or f"turns-{number}")
        for number, turn in enumerate(contract["turns"], start=1)
    ]
    truths = {each["clause"]: each["truth"] for each in judgement["clauses"]}
    repaired = {
        f["clause"]
        for f in judgement["findings"]
        if f["truth"] == "HOLDS" and f["explanation"]["is"] == Reason.TURN_REPAIRED.value
    }
    held = [gate for gate in gates if truths[gate] == "HOLDS"]
    return replace(
        trial,
        turns=len(gates),
        turns_first=len([gate for gate in held if gate not in repaired]),
        turns_after=len(held),
        turns_failed=sum(truths[gate] == "FAILS" for gate in gates),
    )


def _instant(tagged: Any) -> datetime | None:
    value = None if tagged is None else decode(tagged)
    return value if isinstance(value, datetime) else None


def _share_nano(share: Any) -> int | None:
    """A share of a judgement, such as `2/3`, in billionths."""
    if share is None:
        return None
    above, _, below = share.partition("/")
    nanos = round(Fraction(int(above), int(below)) * 10**9) if int(below) else -1
    if not 0 <= nanos < 2**62:
        raise ValueError(f"{share} is no share")
    return nanos


def _split_contract(name: str) -> tuple[str, str]:
    contract, at, version = name.rpartition("@")
    if not at or not contract or not version:
        raise ValueError(f"expected CONTRACT@VERSION, found {name!r}")
    return text(contract), text(version)


def text(found: object) -> str:
    """The text, bounded, with what is no plain text spelled out."""
    return printable(str(found))[:TEXT_LIMIT]


ATTEMPT_FORM: Final = "statediff.attempt/1"
ATTEMPT_FILE: Final = "attempt.json"
_MAX_ATTEMPT_BYTES: Final = 64 * 1024


class FaultKind(StrEnum):
    """Why an attempt has no verdict; what the agent did wrong is never among them."""

    ENVIRONMENT = "environment"
    """A sandbox, or a system in it, did not start, reset, or stay up."""
    BASE = "base"  # a system is not in the base that its trials began with, and stays so
    WORKER = "worker-lost"
    """Who made the attempt ended in the middle of it."""
    ADAPTER = "adapter"
    """An agent could not be started, a limit on its cost was reached, or a part broke its word."""
    STORAGE = "storage"
    HARNESS = "harness"
    UNFORESEEN = "unforeseen"
    """An error that statediff has no name for: a bug, too little memory, a third party's source."""

    @property
    def is_retried(self) -> bool:
        """True if another attempt may well end otherwise."""
        return self in (FaultKind.ENVIRONMENT, FaultKind.WORKER)


def fault_kind(error: HarnessError) -> FaultKind:
    """By the error's type, never by its words."""
    kinds = (
        (UnprovenBase, FaultKind.BASE),
        (SandboxError, FaultKind.ENVIRONMENT),
        (AdapterError, FaultKind.ADAPTER),
        (StorageError, FaultKind.STORAGE),
    )
    return next((kind for family, kind in kinds if isinstance(error, family)), FaultKind.HARNESS)


@dataclass(frozen=True)
class Attempt:
    """The facts of an attempt beside its bundle."""

    number: int = 1
    is_retried: bool = False
    cost_nano: int | None = None
    fault: FaultKind | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "form": ATTEMPT_FORM,
            "attempt": self.number,
            "retried": self.is_retried,
            "cost_nano": self.cost_nano,
            "fault": None if self.fault is None else self.fault.value,
        }


def nano(cost: Decimal | None) -> int | None:
    """The cost in billionths."""
    return None if cost is None else int((cost * 10**9).to_integral_value())


def attempt_folder(run: Path, trial: str) -> Path:
    """A new place for an attempt; nothing is there yet."""
    return run / "attempts" / trial / uuid.uuid4().hex[:12]


def write_attempt(folder: Path, attempt: Attempt) -> None:
    """The folder of the attempt says what is known of it."""
    document = json.dumps(attempt.as_json(), sort_keys=True)
    write_atomically(folder / ATTEMPT_FILE, document.encode("ascii"), durable=True)


def read_attempt(folder: Path) -> Attempt:
    """The attempt by its folder; a first one where the folder says nothing that makes sense."""
    try:
        with (folder / ATTEMPT_FILE).open("rb") as stream:
            found = json.loads(stream.read(_MAX_ATTEMPT_BYTES))
        if not isinstance(found, Mapping) or found.get("form") != ATTEMPT_FORM:
            return Attempt()
        number, cost, fault = found["attempt"], found["cost_nano"], found["fault"]
        if type(number) is not int or not 1 <= number < 10**6 or type(found["retried"]) is not bool:
            return Attempt()
        if cost is not None and (type(cost) is not int or not 0 <= cost < 2**62):
            return Attempt()
        return Attempt(number, found["retried"], cost, None if fault is None else FaultKind(fault))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Attempt()


def keep_attempt(attempt: Path, run: Path, trial: str) -> bool:
    """The attempt counts for the trial from now on, unless another one does already."""
    final = run / "trials" / trial
    try:
        final.parent.mkdir(exist_ok=True)
        # Onto a folder that holds something it fails, onto an empty or missing one it does not.
        attempt.rename(final)
    except OSError as error:
        if (final / "bundle").is_dir():
            return False
        if (attempt / "bundle").is_dir() and final.is_dir():
            set_aside(run, trial)  # a verdict takes the place of a fault
            return keep_attempt(attempt, run, trial)
        if final.is_dir():
            return False
        raise StorageError(f"{final} cannot be written: {error.strerror}") from error
    try:
        for folder in (final.parent, run, attempt.parent):
            sync_folder(folder)
    except OSError as error:
        raise StorageError(f"{final} cannot be synced: {error.strerror}") from error
    _tidy(attempt.parent)
    return True


def set_aside(run: Path, trial: str) -> int:
    """No attempt counts for the trial; how many there were that counted once."""
    final, kept = run / "trials" / trial, run / "attempts" / trial
    number = next(each for each in count(1) if not (kept / str(each)).exists())
    if not final.is_dir():
        return number - 1
    try:
        kept.mkdir(parents=True, exist_ok=True)
        final.rename(kept / str(number))
        for folder in (kept, kept.parent, final.parent):
            sync_folder(folder)
    except OSError as error:
        raise StorageError(f"{final} cannot be moved to {kept}: {error.strerror}") from error
    return number


def discard_attempt(attempt: Path) -> None:
    """The attempt is gone: another one counts, and this one came too late."""
    shutil.rmtree(attempt, ignore_errors=True)
    _tidy(attempt.parent)


def _tidy(folder: Path) -> None:
    try:
        os.rmdir(folder)  # noqa: PTH106 - one system call
        os.rmdir(folder.parent)  # noqa: PTH106 - as above
    except OSError:
        return  # others are in it
