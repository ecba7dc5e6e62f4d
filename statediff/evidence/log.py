"""The log of verdicts: appended to, and never changed.

Each entry is one line of canonical JSON. A verdict over evidence that the log has a verdict for
already is a re-judgement: it names the entry it supersedes and why, and the old one stays. Beside
verdicts stand records of what people did: adjudications, resolutions, releases of contracts, and
what was erased; each names its file by digest, and stands once. A registration says before a run
which trials it will make, and the verdicts over them name it: what was left out shows.

What a verdict was about is named by digests under the log's secret, which is kept beside the log
and published with nothing: a digest of what was observed, unsalted, says it to anybody who can
guess.

What is signed of a log is in `statediff.evidence.checkpoints`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from statediff.errors import BundleError, UsageError
from statediff.evidence.canonical import read, write
from statediff.evidence.merkle import entry_hash, log_root
from statediff.evidence.package import Bundle
from statediff.evidence.seal import Sealed
from statediff.evidence.verify import Verified

Json = Any
ENTRY: Final = "statediff/entry/1"
MAX_REASON: Final = 500
MAX_SAID: Final = 4000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_VERDICT: Final = (
    "at", "because", "bundle", "contract", "contract_digest", "contract_version", "evidence",
    "form", "kernel", "kind", "supersedes", "trial", "verdict",
)  # fmt: skip
ENTRY_OF_RUN: Final = "statediff/entry/2"
"""The form of a verdict over a trial of a run that was registered before."""
REGISTRATION: Final = "registration"
ROOTS: Final = "roots"
SEAL: Final = "seal"
RECORDS: Final = ("adjudication", REGISTRATION, "release", "resolution", "retention", ROOTS, SEAL)
"""The kinds of entry beside verdicts."""
MAX_TRIALS: Final = 1_000_000
_RECORD: Final = ("about", "at", "digest", "form", "kind", "said")
_JUDGED: Final = ("contract", "contract_digest", "contract_version", "kernel", "trial", "verdict")
_EVIDENCE: Final = ("answer.json", "timeline.json", "trace.json", "trial.json")


@dataclass
class Registered:
    """A run that was registered before its trials, and which of them have verdicts here."""

    entry: int
    run: str
    trials: int
    names: tuple[str, ...]
    """The trials that were planned; empty where they are too many for an entry."""
    judged: set[str] = field(default_factory=set)

    def plans(self, trial: str) -> bool:
        """True if the trial may be one of them."""
        return not self.names or trial in self.names

    @property
    def missing(self) -> int:
        """How many trials have no verdict in the log."""
        return self.trials - len(self.judged)


@dataclass(frozen=True)
class Log:
    """A log as read: its lines, checked."""

    lines: tuple[bytes, ...]
    entries: tuple[Mapping[str, Json], ...]
    latest: Mapping[str, int]
    """Evidence → the entry of its newest verdict."""
    registered: Mapping[str, Registered]
    """Digest of a `run.json` → the run that was registered by it, in the order of the log."""

    @property
    def hashes(self) -> list[bytes]:
        return [entry_hash(line) for line in self.lines]

    @property
    def root(self) -> bytes:
        return log_root(self.hashes)


@dataclass(frozen=True)
class Record:
    """The deed of a person about a bundle or a contract, as an entry of the log."""

    kind: str
    """One of `RECORDS`."""
    about: str
    """The bundle's digest or root, or `contract@version`."""
    digest: str
    """SHA-256 of the signed file, or of what was released."""
    said: Mapping[str, str]


def read_log(data: bytes) -> Log:
    """The log in a file's bytes. `BundleError` names the line that is not an entry."""
    if data and not data.endswith(b"\n"):
        raise BundleError("the log's last line is torn: an append did not end; add an entry again")
    lines = tuple(data.split(b"\n")[:-1])
    entries: list[Mapping[str, Json]] = []
    latest: dict[str, int] = {}
    registered: dict[str, Registered] = {}
    log = Log(lines, (), latest, registered)
    recorded: set[tuple[str, str]] = set()
    for number, line in enumerate(lines):
        where = f"log entry {number}"
        entry = read(line, where)
        kind = entry.get("kind") if isinstance(entry, dict) else None
        if kind in RECORDS:
            _check_record(entry, where)
            if (kind, entry["digest"]) in recorded:
                raise BundleError(f"{where}: records what an earlier entry records")
            recorded.add((kind, entry["digest"]))
            if kind == REGISTRATION:
                registered[entry["digest"]] = _registered(number, entry["said"], where)
        else:
            _check_verdict(entry, log, where)
            latest[entry["evidence"]] = number
        entries.append(entry)
    return replace(log, entries=tuple(entries))


def _check_verdict(entry: Json, log: Log, where: str) -> None:
    """That it is the entry of a verdict that may follow those before it; its run has it then."""
    is_of_run = isinstance(entry, dict) and entry.get("form") == ENTRY_OF_RUN
    keys = sorted((*_VERDICT, "run")) if is_of_run else sorted(_VERDICT)
    if not isinstance(entry, dict) or sorted(entry) != keys:
        raise BundleError(f"{where}: expected exactly {', '.join(keys)}")
    if entry["kind"] != "verdict" or entry["form"] not in (ENTRY, ENTRY_OF_RUN):
        raise BundleError(f"{where}: of a form or kind this version does not know")
    if not all(_fits(name, value) for name, value in entry.items()):
        raise BundleError(f"{where}: a member is not of its kind")
    expected = log.latest.get(entry["evidence"])
    if entry["supersedes"] != expected or (expected is None) != (entry["because"] is None):
        raise BundleError(f"{where}: does not name the entry it supersedes, and why")
    if is_of_run:
        run = log.registered.get(entry["run"])
        if run is None or not run.plans(entry["trial"]):
            raise BundleError(f"{where}: of a trial that no earlier entry registered")
        run.judged.add(entry["trial"])


def _fits(name: str, value: Json) -> bool:
    if name in ("because", "supersedes") and value is None:
        return True
    return type(value) is (int if name == "supersedes" else str)


def _registered(number: int, said: Mapping[str, str], where: str) -> Registered:
    trials, listed = said.get("trials", ""), said.get("names", "")
    names = tuple(listed.split(" ")) if listed else ()
    is_number = trials.isascii() and trials.isdigit() and len(trials) <= len(str(MAX_TRIALS))
    if not is_number or len(names) not in (0, int(trials)) or len({*names, ""}) <= len(names):
        raise BundleError(f"{where}: a registration says how many trials, and names all or none")
    return Registered(number, said.get("run", ""), int(trials), names)


def registration(run: str, facts: bytes, names: Sequence[str], contracts: Sequence[str]) -> Record:
    """The record of what a run will do: `facts` are the bytes of its `run.json`."""
    said = {"run": run, "trials": str(len(names)), "contracts": " ".join(sorted(set(contracts)))}
    said["contracts"] = said["contracts"][:MAX_SAID]
    listed = " ".join(names)
    if len(listed) <= MAX_SAID and not any(" " in name for name in names):
        said["names"] = listed
    return Record(REGISTRATION, run, hashlib.sha256(facts).hexdigest(), said)


def record_entry(log: Log, record: Record, at: datetime) -> bytes:
    """The line that records what somebody did. `UsageError` if it is in the log already."""
    known = next(
        (n for n, e in enumerate(log.entries)
         if (e["kind"], e.get("digest")) == (record.kind, record.digest)), None
    )  # fmt: skip
    if known is not None:
        raise UsageError(f"the log has this {record.kind} already: entry {known}")
    entry = {
        "form": ENTRY, "kind": record.kind, "at": at.isoformat(), "about": record.about,
        "digest": record.digest, "said": dict(record.said),
    }  # fmt: skip
    _check_record(entry, record.kind)
    return write(entry)


def _check_record(entry: Mapping[str, Json], where: str) -> None:
    if tuple(sorted(entry)) != _RECORD or entry["form"] != ENTRY:
        raise BundleError(f"{where}: expected exactly {', '.join(_RECORD)}, of form {ENTRY}")
    said = entry["said"]
    texts = [entry["about"], entry["at"], *(said.values() if isinstance(said, dict) else [None])]
    if not all(isinstance(text, str) and len(text) <= MAX_SAID for text in texts):
        raise BundleError(f"{where}: about, at and said are texts of at most {MAX_SAID} characters")
    if not isinstance(entry["digest"], str) or not _DIGEST.fullmatch(entry["digest"]):
        raise BundleError(f"{where}: the digest is not a SHA-256 in hex")


def keyed(secret: bytes, digest: str) -> str:
    """The name that a digest has in the log with this secret; without one, itself."""
    return hmac.digest(secret, bytes.fromhex(digest), "sha256").hex() if secret else digest


def seal_record(sealed: Sealed, verified: Verified) -> Record:
    """The record of a sealed bundle; every copy of it can be shown to be the one."""
    manifest = verified.manifest
    said = {
        "by": ", ".join(verified.signers), "verdict": str(manifest["verdict"]),
        "contract": f"{manifest['contract']}@{manifest['contract_version']}",
    }  # fmt: skip
    digest = hashlib.sha256(sealed.files["envelope.json"]).hexdigest()
    return Record(SEAL, str(manifest["tree"]["root"]), digest, said)


def roots_record(trial: str, roots: Mapping[str, str]) -> Record:
    """The record of a trial's state roots, by side, made before the trial is judged."""
    digest = hashlib.sha256(write([trial, dict(roots)])).hexdigest()
    return Record(ROOTS, trial, digest, dict(roots))


def roots_entries(log: Log, trial: str, roots: Mapping[str, str]) -> tuple[int | None, int | None]:
    """The entry with the trial's state roots, and that of the first verdict on the trial."""
    digest = roots_record(trial, roots).digest
    found = (n for n, e in enumerate(log.entries) if e.get("digest") == digest)
    verdicts = (
        n for n, e in enumerate(log.entries) if e["kind"] == "verdict" and e["trial"] == trial
    )
    return next(found, None), next(verdicts, None)


def made_again(log: Log) -> dict[str, tuple[int, ...]]:
    """Trial → the entries with its state roots, of those made more often than runs registered them.

    A run makes a trial once. Another attempt, after a fault or after a verdict that was not liked,
    has roots of its own. Nothing is said of trials that no run registered.
    """
    entries: dict[str, list[int]] = {}
    for number, entry in enumerate(log.entries):
        if entry["kind"] == ROOTS:
            entries.setdefault(entry["about"], []).append(number)
    runs = [run for run in log.registered.values() if run.trials]
    planned = {trial: sum(run.plans(trial) for run in runs) for trial in entries}
    return {
        trial: tuple(found) for trial, found in entries.items() if 0 < planned[trial] < len(found)
    }


def verdict_entry(
    log: Log,
    bundle: Bundle,
    at: datetime,
    because: str | None,
    secret: bytes = b"",
    *,
    run: str | None = None,
) -> bytes:
    """The line that records the bundle's verdict, without its newline, under the log's secret.

    `run`: the digest of the `run.json` that the trial is of; it counts where that was registered.

    `UsageError` if it is in the log already, or is a re-judgement without a reason, or has a reason
    and is none.
    """
    digests = {"bundle": bundle.digest, "evidence": evidence_of(bundle)}
    names = {name: keyed(secret, digest) for name, digest in digests.items()}
    evidence = next((e for e in (names["evidence"], digests["evidence"]) if e in log.latest), None)
    superseded = None if evidence is None else log.latest[evidence]
    own = {names["bundle"], digests["bundle"]}
    known = next((n for n, e in enumerate(log.entries) if e.get("bundle") in own), None)
    if known is not None:
        raise UsageError(f"the log has this bundle already: entry {known}")
    if superseded is not None and not (because or "").strip():
        old = log.entries[superseded]
        raise UsageError(
            f"the log has a verdict over this evidence already: entry {superseded}, "
            f"{old['verdict']} under {old['contract']}@{old['contract_version']}, kernel "
            f"{old['kernel']}; say with --because why it is judged again"
        )
    if superseded is None and because is not None:
        raise UsageError("--because is for evidence judged before; the log has no such verdict")
    if because is not None and len(because) > MAX_REASON:
        raise UsageError(f"--because: {len(because)} characters are more than {MAX_REASON}")
    facts = {name: bundle.manifest[name] for name in _JUDGED}
    facts |= {
        "form": ENTRY,
        "kind": "verdict",
        "at": at.isoformat(),
        "bundle": names["bundle"],
        "evidence": evidence or names["evidence"],
        "contract_digest": keyed(secret, facts["contract_digest"]),
        "supersedes": superseded,
        "because": because,
    }
    registered = log.registered.get(run or "")
    if registered is not None and registered.plans(facts["trial"]):
        facts |= {"form": ENTRY_OF_RUN, "run": run}
    return write(facts)


def evidence_of(bundle: Bundle) -> str:
    """The name of the trial itself: the digest of what was observed, whatever was made of it."""
    captures = bundle.document("captures.json")
    observed = [captures["before"], captures["after"]]
    digests = [hashlib.sha256(bundle.files[name]).hexdigest() for name in _EVIDENCE]
    return hashlib.sha256(write([observed, digests])).hexdigest()
