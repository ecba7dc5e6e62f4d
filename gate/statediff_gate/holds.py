"""A hold waits for a person; a signed approval is the person's answer.

A hold keeps no transaction open. It has the statements, what they did and the digest of that
(`statediff_gate.digests`). An approval names the hold and the digest, is signed by a key that the
gate trusts as a reviewer's, ends at its expiry, and opens one transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from statediff.errors import BundleError, UsageError
from statediff.evidence.canonical import read, write
from statediff.evidence.keys import SigningKey
from statediff.evidence.verify import Signer
from statediff.systems.relational.tools import Scalar
from statediff.workspace.bundles import read_file

HOLD: Final = "statediff/hold/1"
APPROVAL: Final = "statediff/approval/1"
ROLE: Final = "reviewer"
"""The role, in a trust file, of a key that approves."""


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A transaction that waits for a person."""

    name: str
    contract: str
    contract_digest: str
    why: str
    statements: tuple[tuple[str, str, tuple[Scalar, ...]], ...]
    digest: str
    changes: Sequence[Mapping[str, Any]]
    """Its changes as plain JSON."""
    at: str

    def document(self) -> dict[str, Any]:
        """The hold as JSON."""
        statements = [[source, text, list(values)] for source, text, values in self.statements]
        return {"form": HOLD, **vars(self), "statements": statements, "changes": [*self.changes]}


def read_hold(path: Path) -> Hold:
    """The hold in a file. `BundleError` where it is none."""
    document = read(read_file(path), str(path))
    try:
        if document.pop("form") != HOLD:
            raise ValueError(f"not of form {HOLD}")
        listed = document.pop("statements")
        statements = tuple((source, text, tuple(values)) for source, text, values in listed)
        return Hold(statements=statements, **document)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise BundleError(f"{path}: not a hold: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A person's approval of one hold."""

    hold: str
    digest: str
    by: str
    expires: datetime
    name: str
    """The digest of the signed file: it is used once."""


def approve(hold: Hold, key: SigningKey, at: datetime, expires: datetime) -> bytes:
    """The signed approval of exactly what the hold did."""
    if expires <= at:
        raise UsageError("an approval expires after it was given")
    payload = {
        "form": APPROVAL, "hold": hold.name, "contract": hold.contract_digest,
        "digest": hold.digest, "at": at.isoformat(), "expires": expires.isoformat(),
        "key": key.public.hex(),
    }  # fmt: skip
    return write({**payload, "signature": key.sign(write(payload)).hex()})


def read_approval(
    data: bytes, trust: Sequence[Signer], now: datetime, contract_digest: str
) -> Approval:
    """The approval, where it counts now. `UsageError` says why it does not."""
    try:
        document = read(data, "the approval")
        signature = bytes.fromhex(document.pop("signature"))
        if document["form"] != APPROVAL:
            raise ValueError(f"not of form {APPROVAL}")
        key = bytes.fromhex(document["key"])
        Ed25519PublicKey.from_public_bytes(key).verify(signature, write(document))
        at, expires = (datetime.fromisoformat(document[name]) for name in ("at", "expires"))
        if at.tzinfo is None or expires.tzinfo is None:
            raise ValueError("an instant has a zone")
        hold, digest, contract = (str(document[n]) for n in ("hold", "digest", "contract"))
    except InvalidSignature as error:
        raise UsageError("the approval: its signature does not fit") from error
    except (AttributeError, LookupError, TypeError, ValueError, BundleError) as error:
        raise UsageError(f"the approval: cannot be read: {error}") from error
    signer = next((each for each in trust if each.key == key and ROLE in each.roles), None)
    if signer is None:
        raise UsageError(f"the approval: no key that is trusted as {ROLE} signed it")
    limits = signer.valid_from, signer.valid_until
    if (limits[0] is not None and at < limits[0]) or (limits[1] is not None and at >= limits[1]):
        raise UsageError(f"the approval: the key of {signer.name} was not valid when it was signed")
    if now >= expires:
        raise UsageError(f"the approval: it expired at {expires.isoformat()}")
    if contract != contract_digest:
        raise UsageError("the approval: of another contract")
    return Approval(
        hold=hold, digest=digest, by=signer.name, expires=expires,
        name=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip


def approvals_in(
    folder: Path, trust: Sequence[Signer], used: Path, contract_digest: str
) -> dict[str, Approval]:
    """The approvals in the folder that count now and were not used, by what they open."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            said = read_approval(read_file(path), trust, utc_now(), contract_digest)
        except (BundleError, UsageError):
            continue  # of another time, or of nobody who may
        if not (used / said.name).exists():
            found[said.digest] = said
    return found


def utc_now() -> datetime:
    """This second."""
    return datetime.now(UTC).replace(microsecond=0)
