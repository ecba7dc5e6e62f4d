"""Who signed a release or a sign-off: the facts in `released.yaml`, under a key that is trusted.

A line of that file is anybody's who can write it. A signed one carries a statement of the same
facts: by an evaluator's key for a release, by a reviewer's for a sign-off, and where a name stands
beside it, by the key of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from statediff.contract.authoring.versions import Release, Releases, SignOff, same_person
from statediff.errors import BundleError, UsageError
from statediff.evidence.statements import REVIEWER, open_statement, sign_statement
from statediff.evidence.verify import SEALING

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey
    from statediff.evidence.verify import Signer

RELEASE: Final = "statediff/release/1"
SIGN_OFF: Final = "statediff/sign-off/1"


def sign_release(releases: Releases, name: str, key: SigningKey, at: datetime) -> Releases:
    """With the signature of who released that version. `UsageError` if it has one."""
    entry = releases[name]
    if entry.signed is not None:
        raise UsageError(f"{name}: its release is signed already")
    signed = _sign(_release_facts(name, entry), "release", key, at)
    return {**releases, name: entry.model_copy(update={"signed": signed})}


def sign_review(releases: Releases, name: str, key: SigningKey, at: datetime) -> Releases:
    """With the signature of who signed that version off. `UsageError` if it has one."""
    entry = releases[name]
    if entry.reviewed is None or entry.reviewed.signed is not None:
        raise UsageError(f"{name}: there is no sign-off that waits for a signature")
    signed = _sign(_review_facts(name, entry, entry.reviewed), "sign-off", key, at)
    review = entry.reviewed.model_copy(update={"signed": signed})
    return {**releases, name: entry.model_copy(update={"reviewed": review})}


def check_release(name: str, entry: Release, trust: Sequence[Signer]) -> tuple[str, str | None]:
    """Who signed the release, and who the sign-off if there is one. `BundleError`."""
    facts = _release_facts(name, entry)
    signer = _check(facts, entry.signed, "release", SEALING, entry.released_by, trust)
    if entry.reviewed is None:
        return signer, None
    review = entry.reviewed
    facts = _review_facts(name, entry, review)
    return signer, _check(facts, review.signed, "sign-off", REVIEWER, review.by, trust)


def _release_facts(name: str, entry: Release) -> dict[str, Any]:
    return {
        "format": RELEASE,
        "contract": name,
        "digest": entry.digest,
        "by": entry.released_by,
        "on": entry.on,
    }


def _review_facts(name: str, entry: Release, review: SignOff) -> dict[str, Any]:
    return {
        "format": SIGN_OFF,
        "contract": name,
        "digest": entry.digest,
        **review.model_dump(exclude={"signed"}),
    }


def _sign(facts: dict[str, Any], what: str, key: SigningKey, at: datetime) -> str:
    return sign_statement({**facts, "at": at.isoformat()}, what, key).decode("ascii")


def _check(
    facts: dict[str, Any],
    signed: str | None,
    what: str,
    role: str,
    by: str | None,
    trust: Sequence[Signer],
) -> str:
    name = facts["contract"]
    if signed is None:
        raise BundleError(
            f"{name}: its {what} is not signed; `statediff contract {what} … --key FILE` signs it"
        )
    payload, at, signer = open_statement(signed.encode(), what, role, trust)
    if payload != {**facts, "at": at.isoformat()}:
        raise BundleError(f"{name}: what was signed is another {what}")
    if by is not None and not same_person(by, signer):
        raise BundleError(f"{name}: its {what} names {by}, and is signed by {signer}")
    return signer
