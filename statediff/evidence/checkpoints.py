"""The signed head of a log, its size and root, and all that follows from it without the log.

Who keeps an old checkpoint can tell that nothing was taken out of the log or changed since,
and with a proof that one entry is in it. A log could still show different people different
histories of the same size: a witness, who signs only what goes on from what it signed before, keeps
it from that. Checkpoints and proofs are written as C2SP's tlog-checkpoint and tlog-proof say;
checkpoints of statediff 0.1 (JSON) are still read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from statediff.errors import BundleError, UsageError
from statediff.evidence.canonical import read, read_base64, write, write_base64
from statediff.evidence.keys import SigningKey
from statediff.evidence.log import Log
from statediff.evidence.merkle import (
    consistency_proof,
    entry_hash,
    extends,
    inclusion_proof,
    log_root,
)
from statediff.evidence.notes import (
    Head,
    Note,
    Signature,
    read_hash,
    read_head,
    read_note,
    sign_head,
)
from statediff.evidence.verify import SEALING, Signer, includes

Json = Any
WITNESSING: Final = "witness"
"""The role of a key that signs a log's checkpoints beside the log itself."""
PROOF: Final = "c2sp.org/tlog-proof@v1"
CONSISTENCY: Final = "statediff/consistency/1"
MOST_STEPS: Final = 63
"""The most steps of a proof, as a witness takes it."""


@dataclass(frozen=True)
class Witnessed:
    """Who else signed a checkpoint, and when."""

    name: str
    at: datetime


@dataclass(frozen=True)
class Checkpoint:
    """The signed facts of a log: its name, how many entries it had, and their root."""

    origin: str
    size: int
    root: bytes
    at: datetime
    signer: str
    witnesses: tuple[Witnessed, ...] = ()
    stamped_at: datetime | None = None
    """When a time stamping authority saw it, where somebody checked that."""


def checkpoint(log: Log, origin: str, at: datetime, key: SigningKey) -> bytes:
    """The signed size and root of the log as it is; `origin` names the log."""
    return sign_head(Head(origin, len(log.lines), log.root), at, key)


def read_checkpoint(data: bytes, trust: Sequence[Signer], origin: str | None = None) -> Checkpoint:
    """The checkpoint, signed by a key that was trusted for it at its time. `BundleError`.

    `origin`: what the log has to be called, where the reader expects one.
    """
    found = checked(read_note(data), trust)
    if origin is not None and found.origin != origin:
        raise BundleError(
            f"checkpoint: of the log {found.origin[:200]!r}, not of {origin!r}; "
            "name the log that is meant with --origin"
        )
    return found


def checked(note: Note, trust: Sequence[Signer]) -> Checkpoint:
    """The checkpoint of a note, under a signature of the log's that counts. `BundleError`."""
    head = read_head(note)
    for signer in (s for s in trust if SEALING in s.roles):
        if note.is_signed(head.origin, signer.key):
            at = note.signed_at(signer.key, head.origin)
            if at is None:
                raise BundleError(f"checkpoint: {signer.name} does not say when it was signed")
            _require_valid(signer, at)
            names = _witnesses(note, trust)
            return Checkpoint(head.origin, head.size, head.root, at, signer.name, names)
    raise BundleError(
        f"checkpoint: no signature of {head.origin[:200]!r} by a key that is trusted as {SEALING}"
    )


def _witnesses(note: Note, trust: Sequence[Signer]) -> tuple[Witnessed, ...]:
    found = []
    for signer in (s for s in trust if WITNESSING in s.roles):
        if (at := note.signed_at(signer.key)) is not None:
            _require_valid(signer, at)
            found.append(Witnessed(signer.name, at))
    return tuple(found)


def _require_valid(signer: Signer, at: datetime) -> None:
    is_early = signer.valid_from is not None and at < signer.valid_from
    if is_early or (signer.valid_until is not None and at >= signer.valid_until):
        raise BundleError(f"checkpoint: the key of {signer.name} was not valid at {at}")


def with_signatures(note: Note, more: Sequence[Signature]) -> Note:
    """The note with signatures that it does not have yet."""
    return Note(note.text, (*note.signatures, *(s for s in more if s not in note.signatures)))


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


def consistency_of(log: Log, old: Checkpoint, new: Checkpoint) -> bytes:
    """The proof, beside both checkpoints, that the newer log begins with the older one."""
    steps = consistency_proof(log.hashes[: new.size], old.size)
    return write(
        {
            "format": CONSISTENCY,
            "old": old.size,
            "new": new.size,
            "path": [write_base64(step) for step in steps],
        }
    )


def check_consistent(old: Checkpoint, new: Checkpoint, proof: bytes | None) -> int:
    """How many entries the newer checkpoint has more; `BundleError` where it is another history.

    `UsageError` without the proof of `consistency_of`, where one is needed.
    """
    if old.origin != new.origin:
        raise BundleError(f"the checkpoints are of two logs: {old.origin!r} and {new.origin!r}")
    if new.size < old.size:
        raise BundleError(
            f"the log went back: {old.size} entries at {old.at}, {new.size} at {new.at}"
        )
    steps: list[bytes] = []
    if old.size not in (0, new.size):
        if proof is None:
            raise UsageError("say with --log LOG or --proof FILE what lies between the two")
        steps = _steps(proof, old, new)
    if not extends(old.size, old.root, new.size, new.root, steps):
        raise BundleError(
            f"{new.origin}: the {new.size} entries of {new.at} do not begin with the {old.size} "
            f"of {old.at}: the log was rewritten, or has two histories"
        )
    return new.size - old.size


def _steps(proof: bytes, old: Checkpoint, new: Checkpoint) -> list[bytes]:
    document = read(proof.removesuffix(b"\n"), "proof")
    if not isinstance(document, dict) or sorted(document) != ["format", "new", "old", "path"]:
        raise BundleError("proof: expected exactly format, old, new and path")
    found = (document["format"], document["old"], document["new"])
    path = document["path"]
    is_flag = any(isinstance(each, bool) for each in found)
    if is_flag or found != (CONSISTENCY, old.size, new.size) or not _are_texts(path):
        raise BundleError(f"proof: not one from {old.size} to {new.size} entries")
    return [read_hash(step) for step in path]


def _are_texts(path: Json) -> bool:
    return (
        isinstance(path, list)
        and len(path) <= MOST_STEPS
        and all(isinstance(step, str) for step in path)
    )


def proof_of(log: Log, index: int, signed: bytes, size: int) -> bytes:
    """The proof, without the log, that the entry is in it: the checkpoint is part of it.

    `signed`: the bytes of a checkpoint of so many entries.
    """
    if not 0 <= index < size <= len(log.lines):
        raise UsageError(f"there is no entry {index} in a log of {min(size, len(log.lines))}")
    path = [write_base64(step) for step in inclusion_proof(log.hashes[:size], index)]
    extra = write_base64(log.lines[index])
    lines = [PROOF, f"extra {extra}", f"index {index}", *path, "", ""]
    return "\n".join(lines).encode() + signed


def check_proof(
    data: bytes, trust: Sequence[Signer], *, origin: str | None = None, signed: bytes | None = None
) -> tuple[Mapping[str, Json], Checkpoint]:
    """The entry that a proof shows to be in a log, and the checkpoint it is shown by.

    `signed`: the checkpoint that is meant.
    `BundleError` where it shows nothing.
    """
    front, gap, own = data.partition(b"\n\n")
    if not gap:
        raise BundleError("proof: it has no checkpoint")
    seen = read_checkpoint(own, trust, origin)
    if signed is not None:
        meant = read_checkpoint(signed, trust, origin)
        if (meant.size, meant.root) != (seen.size, seen.root):
            raise BundleError("proof: it is shown by another checkpoint than the one that is meant")
    line, index, steps = _front(front)
    if not includes(entry_hash(line), index, seen.size, seen.root, steps):
        raise BundleError("proof: it does not show the entry to be in the log of the checkpoint")
    entry = read(line, "proof: entry")
    if not isinstance(entry, dict):
        raise BundleError("proof: the entry is no entry of a log of verdicts")
    return entry, seen


def _front(front: bytes) -> tuple[bytes, int, list[bytes]]:
    """The entry's line, its index and the path that leads to the root."""
    try:
        lines = front.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise BundleError("proof: not ASCII") from error
    marks = ("extra ", "index ")
    if lines[0] != PROOF:
        raise BundleError(f"proof: not of form {PROOF}")
    if len(lines) < 3 or [line[:6] for line in lines[1:3]] != list(marks):
        raise BundleError("proof: expected the lines of the entry and of its index")
    number = lines[2].removeprefix("index ")
    if not number.isdigit() or len(number) > 18 or str(int(number)) != number:
        raise BundleError("proof: the index is no number")
    if len(lines) > 3 + MOST_STEPS:
        raise BundleError(f"proof: more than {MOST_STEPS} steps")
    entry = read_base64(lines[1].removeprefix("extra "), "proof: entry")
    return entry, int(number), [read_hash(line) for line in lines[3:]]
