"""The log of verdicts: appended to, never changed, and signed by its size and root.

Each entry is one line of canonical JSON. A verdict over evidence that the log has a verdict for
already is a re-judgement: it names the entry it supersedes and why, and the old one stays. Beside
verdicts stand records of what people did: adjudications, resolutions, releases of contracts, and
what was erased; each names its file by digest, and stands once. Whoever
keeps an old checkpoint can tell that nothing was taken out or changed since, and with a proof that
one verdict is in, without the log itself.

Checkpoint: `{"payload": base64, "signature": base64, "keyid"}`; the payload is canonical JSON of
`{"format", "origin", "root", "size", "at"}`, signed under a prefix of its own so that no signature
over something else fits. A root alone would not bind the size.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from statediff.errors import BundleError, UsageError
from statediff.evidence.canonical import read, write
from statediff.evidence.keys import SigningKey
from statediff.evidence.merkle import entry_hash, includes, inclusion_proof, log_root
from statediff.evidence.package import Bundle
from statediff.evidence.statements import read_statement, sign_statement
from statediff.evidence.verify import Signer

Json = Any
ENTRY: Final = "statediff/entry/1"
CHECKPOINT: Final = "statediff/checkpoint/1"
PROOF: Final = "statediff/inclusion/1"
MAX_REASON: Final = 500
MAX_SAID: Final = 4000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_PAYLOAD: Final = ("at", "format", "origin", "root", "size")
_VERDICT: Final = (
    "at", "because", "bundle", "contract", "contract_digest", "contract_version", "evidence",
    "form", "kernel", "kind", "supersedes", "trial", "verdict",
)  # fmt: skip
RECORDS: Final = ("adjudication", "release", "resolution", "retention")
"""The kinds of entry beside verdicts."""
_RECORD: Final = ("about", "at", "digest", "form", "kind", "said")
_JUDGED: Final = ("contract", "contract_digest", "contract_version", "kernel", "trial", "verdict")
_EVIDENCE: Final = ("answer.json", "timeline.json", "trace.json", "trial.json")


@dataclass(frozen=True)
class Log:
    """A log as read: its lines, checked."""

    lines: tuple[bytes, ...]
    entries: tuple[Mapping[str, Json], ...]
    latest: Mapping[str, int]
    """Evidence → the entry of its newest verdict."""

    @property
    def hashes(self) -> list[bytes]:
        return [entry_hash(line) for line in self.lines]

    @property
    def root(self) -> bytes:
        return log_root(self.hashes)


@dataclass(frozen=True)
class Record:
    """What somebody did about a bundle or a contract, as an entry of the log says it."""

    kind: str
    """One of `RECORDS`."""
    about: str
    """The bundle's digest or root, or `contract@version`."""
    digest: str
    """SHA-256 of the signed file, or of what was released."""
    said: Mapping[str, str]


@dataclass(frozen=True)
class Checkpoint:
    """What was signed of a log: its name, how many entries it had, and their root."""

    origin: str
    size: int
    root: bytes
    at: datetime
    signer: str


def read_log(data: bytes) -> Log:
    """The log in a file's bytes. `BundleError` names the line that is not an entry."""
    if data and not data.endswith(b"\n"):
        raise BundleError("the log's last line is torn: an append did not end; add an entry again")
    lines = tuple(data.split(b"\n")[:-1])
    entries: list[Mapping[str, Json]] = []
    latest: dict[str, int] = {}
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
            entries.append(entry)
            continue
        if not isinstance(entry, dict) or tuple(sorted(entry)) != _VERDICT:
            raise BundleError(f"{where}: expected exactly {', '.join(_VERDICT)}")
        if (entry["form"], kind) != (ENTRY, "verdict"):
            raise BundleError(f"{where}: of a form or kind this version does not know")
        expected = latest.get(str(entry["evidence"]))
        if entry["supersedes"] != expected or (expected is None) != (entry["because"] is None):
            raise BundleError(f"{where}: does not name the entry it supersedes, and why")
        latest[str(entry["evidence"])] = number
        entries.append(entry)
    return Log(lines, tuple(entries), latest)


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


def verdict_entry(log: Log, bundle: Bundle, at: datetime, because: str | None) -> bytes:
    """The line that records the bundle's verdict, without its newline.

    `UsageError` if it is in the log already, or is a re-judgement without a reason, or has a reason
    and is none.
    """
    evidence = evidence_of(bundle)
    superseded = log.latest.get(evidence)
    known = next((n for n, e in enumerate(log.entries) if e.get("bundle") == bundle.digest), None)
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
        raise UsageError("--because is for what was judged before; nothing in the log was")
    if because is not None and len(because) > MAX_REASON:
        raise UsageError(f"--because: {len(because)} characters are more than {MAX_REASON}")
    facts = {name: bundle.manifest[name] for name in _JUDGED}
    return write(
        {
            **facts, "form": ENTRY, "kind": "verdict", "at": at.isoformat(),
            "bundle": bundle.digest, "evidence": evidence, "supersedes": superseded,
            "because": because,
        }
    )  # fmt: skip


def evidence_of(bundle: Bundle) -> str:
    """What names the trial itself: the digest of what was observed, whatever was made of it."""
    captures = bundle.document("captures.json")
    observed = [captures["before"], captures["after"]]
    digests = [hashlib.sha256(bundle.files[name]).hexdigest() for name in _EVIDENCE]
    return hashlib.sha256(write([observed, digests])).hexdigest()


def checkpoint(log: Log, origin: str, at: datetime, key: SigningKey) -> bytes:
    """The signed size and root of the log as it is; `origin` names the log."""
    payload = {
        "format": CHECKPOINT, "origin": origin, "size": len(log.lines), "root": log.root.hex(),
        "at": at.isoformat(),
    }  # fmt: skip
    return sign_statement(payload, "checkpoint", key)


def read_checkpoint(data: bytes, trust: Sequence[Signer]) -> Checkpoint:
    """The checkpoint, signed by a key that was trusted for it at its time. `BundleError`."""
    payload, at, signer = read_statement(data, "checkpoint", _PAYLOAD, trust)
    size = payload["size"]
    if payload["format"] != CHECKPOINT or not isinstance(size, int) or isinstance(size, bool):
        raise BundleError("checkpoint: the payload is of another form")
    try:
        root = bytes.fromhex(payload["root"])
    except (TypeError, ValueError) as error:
        raise BundleError(f"checkpoint: {error}") from error
    return Checkpoint(str(payload["origin"]), size, root, at, signer)


def check_extends(log: Log, old: Checkpoint) -> int:
    """How many entries the log has beyond the checkpoint; `BundleError` if it is another log."""
    if len(log.lines) < old.size:
        raise BundleError(
            f"the log has {len(log.lines)} entries, the checkpoint of {old.at} saw {old.size}: "
            "entries were taken out"
        )
    if log_root(log.hashes[: old.size]) != old.root:
        raise BundleError(
            f"the first {old.size} entries are not those that the checkpoint of {old.at} saw: the "
            "log was rewritten"
        )
    return len(log.lines) - old.size


def proof_of(log: Log, index: int, size: int) -> bytes:
    """What shows, beside a checkpoint of `size` entries, that the entry is in the log."""
    if not 0 <= index < size <= len(log.lines):
        raise UsageError(f"there is no entry {index} in a log of {min(size, len(log.lines))}")
    path = inclusion_proof(log.hashes[:size], index)
    return write(
        {
            "format": PROOF, "entry": log.entries[index], "index": index, "size": size,
            "path": [step.hex() for step in path],
        }
    )  # fmt: skip


def check_proof(data: bytes, seen: Checkpoint) -> Mapping[str, Json]:
    """The entry that a proof shows to be in the log of the checkpoint. `BundleError`."""
    document = read(data.removesuffix(b"\n"), "proof")
    if not isinstance(document, dict) or sorted(document) != [
        "entry", "format", "index", "path", "size",
    ]:  # fmt: skip
        raise BundleError("proof: expected exactly entry, format, index, path and size")
    index, size, path = document["index"], document["size"], document["path"]
    try:
        steps = [bytes.fromhex(step) for step in path]
    except (TypeError, ValueError) as error:
        raise BundleError(f"proof: {error}") from error
    if document["format"] != PROOF or size != seen.size or not isinstance(index, int):
        raise BundleError(f"proof: not one for a log of {seen.size} entries")
    entry = document["entry"]
    if not includes(entry_hash(write(entry)), index, size, seen.root, steps):
        raise BundleError("proof: it does not show the entry to be in the log of the checkpoint")
    found: Mapping[str, Json] = entry
    return found
