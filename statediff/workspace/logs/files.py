"""A log as a file, and what a file says somebody did as records for a log.

The log is read whole and appended to by one process at a time. Signatures of records are checked,
and nothing is invented.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from statediff.atomic import write_atomically
from statediff.contract.authoring.versions import read_releases
from statediff.entrypoints import plug_ins
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.canonical import read, write
from statediff.evidence.log import (
    Log,
    Record,
    made_again,
    read_log,
    record_entry,
    roots_entries,
    roots_record,
    seal_record,
)
from statediff.evidence.seal import is_sealed
from statediff.evidence.statements import payload_of
from statediff.evidence.vault import EXPIRY, read_expiry
from statediff.evidence.verify import Signer, Verified, verify
from statediff.workspace.bundles import load_copy, read_file, verifying
from statediff.workspace.logs.releases import check_release

CLOCK_SLACK: Final = timedelta(minutes=1)
"""How far a clock that is set right may go back between two entries."""


def append(log: Path, make: Callable[[Log], bytes]) -> tuple[int, bytes]:
    """The number and the line of the entry that `make` gives for the log as it is, now in it."""
    with _open(log) as descriptor:
        content = _content(descriptor)
        # A torn line was never acknowledged; the next entry takes its place.
        whole = content[: content.rfind(b"\n") + 1]
        kept = read_log(whole)
        line = make(kept)
        _require_later(log, kept, line)
        os.ftruncate(descriptor, len(whole))
        os.lseek(descriptor, len(whole), os.SEEK_SET)
        _write(descriptor, line + b"\n")
        os.fsync(descriptor)
    return len(kept.entries), line


def _require_later(log: Path, kept: Log, line: bytes) -> None:
    """`UsageError` for an entry that says it was made before one before it."""
    for number, now, last in _backdated((*kept.entries, read(line, "an entry"))):
        if number == len(kept.entries):
            raise UsageError(
                f"{log}: the clock says {now.isoformat()}, and its newest entry was made at "
                f"{last.isoformat()}; nothing is entered before what is there: set the clock right"
            )


def require_in_order(log: Path, kept: Log) -> None:
    """`BundleError` where an entry says it was made before one before it."""
    for number, now, last in _backdated(kept.entries):
        raise BundleError(
            f"{log}: entry {number} says it was made at {now.isoformat()}, and one before it at "
            f"{last.isoformat()}: it was dated back"
        )


def _backdated(
    entries: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[int, datetime, datetime]]:
    """Entries that say they are older than the newest before them, by more than clocks are set."""
    newest: datetime | None = None
    for number, entry in enumerate(entries):
        try:
            at = datetime.fromisoformat(entry["at"])
        except ValueError:  # it says any text
            continue
        if at.tzinfo is None:
            continue
        if newest is not None and newest - at > CLOCK_SLACK:
            yield number, at, newest
        newest = at if newest is None else max(newest, at)


def secret_of(log: Path) -> bytes:
    """The secret that digests in the log are under: in a file beside it, made at the first need."""
    path = log.with_name(f"{log.name}.secret")
    try:
        if not path.exists():
            data = secrets.token_hex(32).encode() + b"\n"
            with contextlib.suppress(FileExistsError):
                write_atomically(path, data, mode=0o600, exclusive=True, durable=True)
        return bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: the log's secret cannot be had: {error}") from error


def register(log: Path, trial: str, roots: Mapping[str, str]) -> int:
    """The trial's state roots are in the log; gives the number of their entry."""
    record, now = roots_record(trial, roots), datetime.now(UTC).replace(microsecond=0)
    return append(log, partial(record_entry, record=record, at=now))[0]


def states_facts(found: Verified, log: Path | None) -> dict[str, Any]:
    """The state roots in a verified copy, and their entries in a log, as plain JSON."""
    if found.states is None:
        return {"states": None, "judged_by": None, "logged": None, "made_again": []}
    [manifest] = [leaf.value[0] for leaf in found.leaves if leaf.path == "manifest.json#"]
    judged = {"contract": manifest.get("contract_digest"), "modules": manifest.get("modules")}
    logged, again = None, tuple[int, ...]()
    if log is not None:
        kept, trial = load_log(log), str(manifest.get("trial"))
        entry, verdict = roots_entries(kept, trial, found.states)
        logged, again = {"entry": entry, "verdict": verdict}, made_again(kept).get(trial, ())
    states = dict(found.states)
    return {"states": states, "judged_by": judged, "logged": logged, "made_again": list(again)}


def load_log(path: Path) -> Log:
    """The log in a file; `UsageError` where it cannot be read."""
    return read_log(read_file(path))


@contextlib.contextmanager
def _open(path: Path) -> Iterator[int]:
    """The file, made if need be, which nobody else appends to until it is closed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"{path}: the log cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    except OSError as error:
        raise StorageError(f"{path}: the log cannot be written: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


_YAML = (".yaml", ".yml")


def records(path: Path, trust: Sequence[Signer] | None, secret: bytes = b"") -> list[Record]:
    """The records of a label, a resolution, an erasure, a sealed copy or a file of releases.

    A bundle that one is about is named under the log's secret. What a study registers, and the
    labels of its passes, are not signed.

    `UsageError` without a trust file where one is needed, `BundleError` for what is not so signed.
    """
    if path.is_file() and (other := _of_plug_in(read_file(path), trust, secret)) is not None:
        return [other]
    if trust is None:
        raise UsageError(f"{path}: is signed; say with --trust FILE whose keys count")
    if is_sealed(path):
        return [_sealed(path, trust)]
    data = read_file(path)
    if path.suffix in _YAML:
        return releases(data, str(path), trust)
    if _is_expiry(data):
        return [retention(data, trust)]
    raise UsageError(f"{path}: no file of a log; labels come with `pip install statediff[lab]`")


def _of_plug_in(data: bytes, trust: Sequence[Signer] | None, secret: bytes) -> Record | None:
    """The record of a file that a distribution knows, such as a label, or a study's registration.

    Given are the file, whose keys count if that was said, and the secret that bundles are named by.
    """
    for plug_in in plug_ins("statediff.records").values():
        record_of: Callable[..., Record | None] = plug_in.load()  # type: ignore[assignment]  # as the group says
        if (found := record_of(data, trust, secret)) is not None:
            return found
    return None


def _sealed(path: Path, trust: Sequence[Signer]) -> Record:
    sealed = load_copy(path, None)
    with verifying(path):
        return seal_record(sealed, verify(sealed.files, trust))


def retention(data: bytes, trust: Sequence[Signer]) -> Record:
    """The record of an erasure."""
    payload, signer = read_expiry(data, trust)
    said = {"by": signer, "items": str(len(payload["items"])), "because": str(payload["because"])}
    return Record("retention", str(payload["root"]), _digest(data), said)


def releases(data: bytes, name: str, trust: Sequence[Signer]) -> list[Record]:
    """The records of all versions of a `released.yaml`, each signed; a sign-off is another one."""
    found = []
    for version, entry in sorted(read_releases(data, name).items()):
        check_release(version, entry, trust)
        said = {"by": entry.released_by, "on": entry.on, "contract": entry.digest}
        if entry.reviewed is not None:
            review = entry.reviewed
            who = {"reviewed_by": review.by} if review.by else {"reviewed_kind": review.kind}
            said |= {**who, "reviewed_on": review.on}
        digest = hashlib.sha256(write([version, said])).hexdigest()
        found.append(Record("release", version, digest, said))
    return found


def _is_expiry(data: bytes) -> bool:
    """The kind that a signed file claims to be; the reader checks its signature."""
    try:
        payload = json.loads(payload_of(data, "record"))
    except (ValueError, RecursionError) as error:
        raise BundleError(f"record: {error}") from error
    return isinstance(payload, dict) and payload.get("format") == EXPIRY


def _digest(data: bytes) -> str:
    return hashlib.sha256(data.removesuffix(b"\n")).hexdigest()
