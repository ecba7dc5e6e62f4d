"""Decisions of a gate: one signed line each, which names the line before it.

`decisions.jsonl` grows and never changes. A line has the decision and why, the statements, the
digest of what they did, and the digest of the line before; the gate's key signs it, one for the
whole file. Once a system has committed, a short line says so: where a gate ends before that, nobody
can tell by the records. What was not allowed has a folder of its own, `decisions/NAME/`: the bundle
of the judgement, which `statediff show` opens, and of a hold `hold.json`. An approval that was used
has an empty file in `used/`.

`erase` removes the oldest lines, with their folders and holds. Before that, a signed line says how
many they are and the digest of the last: what is left begins behind exactly that line.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from statediff import kernel
from statediff.atomic import write_atomically
from statediff.contract.file import ContractFile
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.canonical import read, write
from statediff.evidence.keys import load_key
from statediff.model.readings import Capture
from statediff.model.values import printable
from statediff.model.verdict import Decision
from statediff.reports.plain import plain_diff
from statediff_gate.holds import Approval, Hold, utc_now
from statediff_gate.participant import Outcome, Refused, Statement

FORM: Final = "statediff/decision/1"
COMMITTED: Final = "statediff/committed/1"
ERASED: Final = "statediff/decisions-erased/1"
LINES: Final = "decisions.jsonl"
MOST_CHANGES: Final = 100
"""Changes that a record has at most."""
_NONE: Final = "0" * 64
_APPEND: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND


class Records:
    """The records of one gate."""

    def __init__(self, folder: Path, key: Path, contract: ContractFile) -> None:
        self.folder = folder
        self._key = load_key(key)
        self._contract = contract
        self.contract_digest = contract.digest
        try:
            for each in (folder, folder / "decisions", folder / "holds", folder / "used"):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lines = os.open(folder / LINES, _APPEND, 0o600)
        except OSError as error:
            raise StorageError(f"{folder}: cannot be written: {error.strerror}") from error
        last = self._last()
        if last and read(last, LINES).get("key") != self._key.public.hex():
            raise UsageError(
                f"{folder}: its records are signed by another key; name another folder"
            )

    def write(
        self,
        outcome: Outcome,
        statements: Sequence[Statement],
        approval: Approval | None = None,
        captures: tuple[Capture, Capture] | None = None,
        guarded: Mapping[str, str] | None = None,
        lines: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """The name of the record, which is on disk with all that belongs to it.

        `guarded` says of a transaction that was committed already which one it is. Its record has
        what it changed: a bundle takes as long as the whole world, and it is too late to decide.
        `lines` say what the log has of rows that cannot be read whole.
        It survives a power cut after `sync`: until then the server's log has all that it is of.
        """
        more: dict[str, Any] = {} if guarded is None else {"guarded": dict(guarded)}
        if lines:
            more["changes"] = [*lines]
        name = f"{utc_now():%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        if captures is not None and outcome.decision is not Decision.ALLOW:
            if guarded is None:
                self._keep(name, outcome, statements, captures)
            else:
                listed = (*_changes(captures), *lines)
                more["changes"] = _exact(listed[:MOST_CHANGES])
        self._append(guarded is None, {
            "form": FORM, "name": name, "at": utc_now().isoformat(),
            "contract": self._contract.content.contract, "contract_digest": self.contract_digest,
            "decision": outcome.decision.value, "why": outcome.why[:2000],
            "commits": outcome.is_committed,
            "approved_by": None if approval is None else approval.by,
            "statements": [[source, text, list(values)] for source, text, values in statements],
            "digest": outcome.digest, "key": self._key.public.hex(),
            **more,
        })  # fmt: skip
        return name

    def committed(self, name: str) -> None:
        """Say that what this record decided holds in every system."""
        line = {"form": COMMITTED, "at": utc_now().isoformat(), "name": name}
        with contextlib.suppress(StorageError):  # it holds all the same
            self._append(False, {**line, "key": self._key.public.hex()})

    def erase(self, before: datetime) -> int:
        """How many records there were of before: they are gone, and a signed line says so."""
        with self._locked():
            kept = list(read_decisions(self.folder, others=True))
            old = [*itertools.takewhile(lambda r: datetime.fromisoformat(r["at"]) < before, kept)]
            old = old[: len(kept) - 1]  # the last line stays: the next one names it
            if not any(record["form"] == FORM for record in old):
                return 0
            self._put(True, {
                "form": ERASED, "at": utc_now().isoformat(), "lines": len(old),
                "last": kept[len(old)]["previous"], "key": self._key.public.hex(),
            })  # fmt: skip
            path = self.folder / LINES
            left = path.read_bytes().split(b"\n", len(old))[-1]
            write_atomically(path, left, mode=0o600, durable=True)
        names = [record["name"] for record in old if record["form"] == FORM]
        for name in names:
            shutil.rmtree(self.folder / "decisions" / name, ignore_errors=True)
            self.hold_path(name).unlink(missing_ok=True)
        return len(names)

    def spend(self, approval: Approval) -> None:
        """The approval is used, for good. Raises `Refused` where it was before, or has expired."""
        if utc_now() >= approval.expires:
            raise Refused("the approval is void: it has expired")
        place = self.folder / "used" / approval.name
        try:
            write_atomically(place, b"", exclusive=True, durable=True)
        except FileExistsError:
            raise Refused("the approval is void: it was used before") from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Nobody else writes lines; the file is the one that has the name."""
        try:
            while True:
                fcntl.flock(self._lines, fcntl.LOCK_EX)
                path = self.folder / LINES
                if path.exists() and os.path.samestat(os.fstat(self._lines), path.stat()):
                    break
                os.close(self._lines)  # old lines were erased meanwhile
                self._lines = os.open(path, _APPEND, 0o600)
            yield
        except OSError as error:
            raise StorageError(f"{self.folder / LINES}: cannot be written: {error}") from error
        finally:
            fcntl.flock(self._lines, fcntl.LOCK_UN)

    def sync(self) -> None:
        """Every line survives a power cut."""
        with self._locked():
            os.fdatasync(self._lines)

    def _append(self, is_durable: bool, record: Mapping[str, Any]) -> None:
        with self._locked():
            self._put(is_durable, record)

    def _put(self, is_durable: bool, record: Mapping[str, Any]) -> None:
        last = self._last()
        previous = hashlib.sha256(last).hexdigest() if last else _NONE
        line = {**record, "previous": previous}
        signed = {**line, "signature": self._key.sign(write(line)).hex()}
        os.write(self._lines, write(signed) + b"\n")
        if is_durable:
            os.fdatasync(self._lines)

    def last(self) -> Mapping[str, Any]:
        """The record that was written last."""
        with self._locked():
            found: Mapping[str, Any] = read(self._last(), LINES)
        return found

    def _last(self) -> bytes:
        """The last line; empty where there is none."""
        end = os.lseek(self._lines, 0, os.SEEK_END)
        size, tail = 4096, b""
        while end and tail.count(b"\n") < 2 and len(tail) < end:
            start = max(0, end - size)
            tail = os.pread(self._lines, end - start, start)
            size *= 8
        return tail.rstrip(b"\n").rpartition(b"\n")[2]

    def _keep(
        self,
        name: str,
        outcome: Outcome,
        statements: Sequence[Statement],
        captures: tuple[Capture, Capture],
    ) -> None:
        """Keep the bundle that a person looks at, and the hold."""
        from statediff.workspace.folders import keep_bundle  # noqa: PLC0415 - of few decisions

        folder = self.folder / "decisions" / name
        facts = kernel.TrialFacts(name, agent="unknown", isolation="unknown")
        keep_bundle(kernel.evaluate(self._contract, *captures, facts=facts).bundle, folder)
        if outcome.decision is Decision.HOLD and outcome.digest is not None:
            hold = Hold(
                name=name, contract=self._contract.content.contract,
                contract_digest=self.contract_digest, why=outcome.why,
                statements=tuple(statements), digest=outcome.digest,
                changes=_changes(captures), at=utc_now().isoformat(),
            )  # fmt: skip
            write_atomically(self.hold_path(name), write(_exact(hold.document())), durable=True)

    def hold_path(self, name: str) -> Path:
        """The file of a hold of this name."""
        return self.folder / "holds" / f"{name}.json"


def _changes(captures: tuple[Capture, Capture]) -> list[Mapping[str, Any]]:
    """The differences, as plain JSON."""
    return [*plain_diff(kernel.comparison(*captures).diff)["deltas"]]


def _exact(value: Any) -> Any:
    """Numbers of plain JSON that the canonical form does not write, as text."""
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def read_decisions(folder: Path, *, others: bool = False) -> Iterator[Mapping[str, Any]]:
    """Every decision of a gate, oldest first; with `others` the lines that are none too.

    `is_committed` says of each that the gate lived to see that. `BundleError` for a line that was
    not signed so, or by another key than the first, or that does not follow the one before it.
    """
    path = folder / LINES
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error
    named = printable(str(path))
    records = [_verified(line, f"{named}: line {n}") for n, line in enumerate(lines, start=1)]
    gone = {_NONE, *(record["last"] for record in records if record["form"] == ERASED)}
    done = {record["name"] for record in records if record["form"] == COMMITTED}
    for number, record in enumerate(records):
        before = {hashlib.sha256(lines[number - 1]).hexdigest()} if number else gone
        if record["previous"] not in before:
            raise BundleError(f"{named}: line {number + 1}: does not follow the line before it")
        if record["key"] != records[0]["key"]:
            raise BundleError(
                f"{named}: line {number + 1}: is signed by another key than the first"
            )
        if record["form"] == FORM:
            is_committed = record["commits"] and ("guarded" in record or record["name"] in done)
            yield {**record, "is_committed": is_committed}
        elif others:
            yield record


def _verified(line: bytes, where: str) -> Mapping[str, Any]:
    record: Mapping[str, Any] = read(line, where)
    try:
        signature = bytes.fromhex(record["signature"])
        signed = write({n: v for n, v in record.items() if n != "signature"})
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(record["key"]))
        key.verify(signature, signed)
    except (InvalidSignature, LookupError, TypeError, ValueError) as error:
        raise BundleError(f"{where}: is not as it was signed") from error
    return record
