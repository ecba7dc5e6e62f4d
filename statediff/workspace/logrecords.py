"""What a file says somebody did, as records for a log: signatures checked, nothing invented."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from statediff.errors import BundleError, UsageError
from statediff.evidence.log import Record

if TYPE_CHECKING:
    from statediff.evidence.verify import Signer

_YAML = (".yaml", ".yml")


def records(path: Path, trust: Sequence[Signer] | None) -> list[Record]:
    """The records of a label, a resolution, an erasure or a file of releases.

    `UsageError` without a trust file where one is needed, `BundleError` for what is not so signed.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    if path.suffix in _YAML:
        return releases(data, str(path))
    if trust is None:
        raise UsageError(f"{path}: is signed; say with --trust FILE whose keys count")
    return [retention(data, trust) if _is_expiry(data) else _reviewed(data, trust)]


def retention(data: bytes, trust: Sequence[Signer]) -> Record:
    """The record of an erasure."""
    from statediff.evidence.vault import read_expiry

    payload, signer = read_expiry(data, trust)
    said = {"by": signer, "items": str(len(payload["items"])), "because": str(payload["because"])}
    return Record("retention", str(payload["root"]), _digest(data), said)


def releases(data: bytes, name: str) -> list[Record]:
    """The records of all versions of a `released.yaml`; a sign-off is another one."""
    from statediff.contract.authoring.versions import read_releases
    from statediff.evidence.canonical import write

    found = []
    for version, entry in sorted(read_releases(data, name).entries.items()):
        said = {"by": entry.released_by, "on": entry.on, "contract": entry.digest}
        if entry.reviewed is not None:
            said |= {"reviewed_by": entry.reviewed.by, "reviewed_on": entry.reviewed.on}
        digest = hashlib.sha256(write([version, said])).hexdigest()
        found.append(Record("release", version, digest, said))
    return found


def _reviewed(data: bytes, trust: Sequence[Signer]) -> Record:
    from statediff.suite.labels import Flagged, Labelled, read_signed

    found = read_signed(data, trust)
    if isinstance(found, Labelled):
        said = {"by": found.reviewer, "label": found.given.label.value}
        if found.given.cause is not None:
            said["cause"] = found.given.cause.value
        return Record("adjudication", found.bundle, _digest(data), said)
    if isinstance(found, Flagged):
        raise UsageError("a flag is kept beside its bundle, and is no record of a log")
    said = {"by": found.by, "label": found.label.value, "because": found.because}
    return Record("resolution", found.bundle, _digest(data), said)


def _is_expiry(data: bytes) -> bool:
    """Which sort a signed file claims to be; its signature is checked by whoever reads that."""
    from statediff.evidence.statements import payload_of
    from statediff.evidence.vault import EXPIRY

    try:
        payload = json.loads(payload_of(data, "record"))
    except (ValueError, RecursionError) as error:
        raise BundleError(f"record: {error}") from error
    return isinstance(payload, dict) and payload.get("format") == EXPIRY


def _digest(data: bytes) -> str:
    return hashlib.sha256(data.removesuffix(b"\n")).hexdigest()
