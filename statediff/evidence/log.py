"""The log of verdicts: appended to, never changed, and signed by its size and root.

Each entry is one line of canonical JSON. A verdict over evidence that the log has a verdict for
already is a re-judgement: it names the entry it supersedes and why, and the old one stays. Whoever
keeps an old checkpoint can tell that nothing was taken out or changed since, and with a proof that
one verdict is in, without the log itself.

Checkpoint: `{"payload": base64, "signature": base64, "keyid"}`; the payload is canonical JSON of
`{"format", "origin", "root", "size", "at"}`, signed under a prefix of its own so that no signature
over something else fits. A root alone would not bind the size.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from statediff.errors import BundleError, UsageError
from statediff.evidence.canonical import read, write
from statediff.evidence.keys import SigningKey
from statediff.evidence.merkle import entry_hash, includes, inclusion_proof, log_root
from statediff.evidence.package import Bundle
from statediff.evidence.verify import SEALING, Signer, key_id

Json = Any
ENTRY: Final = "statediff/entry/1"
CHECKPOINT: Final = "statediff/checkpoint/1"
PROOF: Final = "statediff/inclusion/1"
MAX_REASON: Final = 500
_PAYLOAD: Final = ("at", "format", "origin", "root", "size")
_PREFIX: Final = b"statediff checkpoint\x00"
_VERDICT: Final = (
    "at", "because", "bundle", "contract", "contract_digest", "contract_version", "evidence",
    "form", "kernel", "kind", "supersedes", "trial", "verdict",
)  # fmt: skip
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
    for number, line in enumerate(lines):
        where = f"log entry {number}"
        entry = read(line, where)
        if not isinstance(entry, dict) or tuple(sorted(entry)) != _VERDICT:
            raise BundleError(f"{where}: expected exactly {', '.join(_VERDICT)}")
        if (entry["form"], entry["kind"]) != (ENTRY, "verdict"):
            raise BundleError(f"{where}: of a form or kind this version does not know")
        expected = latest.get(str(entry["evidence"]))
        if entry["supersedes"] != expected or (expected is None) != (entry["because"] is None):
            raise BundleError(f"{where}: does not name the entry it supersedes, and why")
        latest[str(entry["evidence"])] = number
        entries.append(entry)
    return Log(lines, tuple(entries), latest)


def verdict_entry(log: Log, bundle: Bundle, at: datetime, because: str | None) -> bytes:
    """The line that records the bundle's verdict, without its newline.

    `UsageError` if it is in the log already, or is a re-judgement without a reason, or has a reason
    and is none.
    """
    evidence = evidence_of(bundle)
    superseded = log.latest.get(evidence)
    known = next((n for n, e in enumerate(log.entries) if e["bundle"] == bundle.digest), None)
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
    payload = write(
        {
            "format": CHECKPOINT, "origin": origin, "size": len(log.lines),
            "root": log.root.hex(), "at": at.isoformat(),
        }
    )  # fmt: skip
    return write(
        {
            "payload": _text(payload), "keyid": key_id(key.public),
            "signature": _text(key.sign(_PREFIX + payload)),
        }
    )  # fmt: skip


def read_checkpoint(data: bytes, trust: Sequence[Signer]) -> Checkpoint:
    """The checkpoint, signed by a key that was trusted for it at its time. `BundleError`."""
    document = read(data.removesuffix(b"\n"), "checkpoint")
    if not isinstance(document, dict) or sorted(document) != ["keyid", "payload", "signature"]:
        _refuse("expected exactly keyid, payload and signature")
    raw = _bytes(document["payload"])
    payload = read(raw, "checkpoint: payload")
    if not isinstance(payload, dict) or sorted(payload) != [
        "at",
        "format",
        "origin",
        "root",
        "size",
    ]:
        _refuse("the payload is not that of a checkpoint")
    if payload["format"] != CHECKPOINT or not isinstance(payload["size"], int):
        _refuse("the payload is of another form")
    try:
        at, root = datetime.fromisoformat(payload["at"]), bytes.fromhex(payload["root"])
    except (TypeError, ValueError) as error:
        raise BundleError(f"checkpoint: {error}") from error
    if at.tzinfo is None:
        _refuse("its time has no zone")
    signer = next((s for s in trust if key_id(s.key) == document["keyid"]), None)
    if signer is None or SEALING not in signer.roles:
        _refuse(f"signed by a key that is not trusted as {SEALING}")
    early = signer.valid_from is not None and at < signer.valid_from
    if early or (signer.valid_until is not None and at >= signer.valid_until):
        _refuse(f"the key of {signer.name} was not valid at {at}")
    try:
        key = Ed25519PublicKey.from_public_bytes(signer.key)
        key.verify(_bytes(document["signature"]), _PREFIX + raw)
    except InvalidSignature:
        _refuse(f"the signature of {signer.name} does not fit")
    return Checkpoint(str(payload["origin"]), payload["size"], root, at, signer.name)


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


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: Json) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise BundleError(f"checkpoint: not base64: {error}") from error
    if _text(data) != text:
        _refuse("not the one base64 of its bytes")
    return data


def _refuse(why: str) -> NoReturn:
    raise BundleError(f"checkpoint: {why}")
