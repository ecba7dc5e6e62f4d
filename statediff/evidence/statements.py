"""Small signed documents beside bundles: `{"keyid", "payload", "signature"}`, the payload base64.

The signature is over a prefix and the payload, so that none fits a statement of another sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.canonical import read, read_base64, write, write_base64

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey

Json = Any
REVIEWER: Final = "reviewer"
"""The role a key needs for its labels and sign-offs to count."""


def sign_statement(payload: Json, what: str, key: SigningKey) -> bytes:
    """The signed statement; `what` says of which sort it is, in one word."""
    raw = write(payload)
    return write({
        "payload": write_base64(raw), "keyid": v.key_id(key.public),
        "signature": write_base64(key.sign(_prefix(what) + raw)),
    })  # fmt: skip


def read_statement(
    data: bytes, what: str, keys: Sequence[str], trust: Sequence[v.Signer]
) -> tuple[dict[str, Json], datetime, str]:
    """The payload with exactly these keys, its instant `at`, and who signed it. `BundleError`.

    The key must be trusted as evaluator at that instant.
    """
    opened = open_statement(data, what, v.SEALING, trust)
    if sorted(opened[0]) != sorted(keys):
        _refuse(what, f"the payload is not that of a {what}")
    return opened


def open_statement(
    data: bytes, what: str, role: str, trust: Sequence[v.Signer]
) -> tuple[dict[str, Json], datetime, str]:
    """The payload, its instant `at`, and who signed it; what else it holds is not checked.

    The key must be trusted in that role at that instant. `BundleError`.
    """
    document = _document(data, what)
    raw = read_base64(document["payload"], what)
    signer = next((s for s in trust if v.key_id(s.key) == document["keyid"]), None)
    if signer is None or role not in signer.roles:
        _refuse(what, f"signed by a key that is not trusted as {role}")
    try:
        signature = read_base64(document["signature"], what)
        v.require_fit(signer, signature, _prefix(what) + raw, what)
        payload = read(raw, f"{what}: payload")
        if not isinstance(payload, dict):
            _refuse(what, "the payload is no object")
        at = v.instant(payload.get("at"), f"{what}: at")
        v.check_time(signer, at, what)
    except v.Rejected as error:
        raise BundleError(str(error)) from error
    return payload, at, signer.name


def payload_of(data: bytes, what: str) -> bytes:
    """The payload's bytes of a statement of any sort, not yet verified. `BundleError`."""
    return read_base64(_document(data, what)["payload"], what)


def _document(data: bytes, what: str) -> dict[str, Json]:
    document = read(data.removesuffix(b"\n"), what)
    if not isinstance(document, dict) or sorted(document) != ["keyid", "payload", "signature"]:
        _refuse(what, "expected exactly keyid, payload and signature")
    return document


def _prefix(what: str) -> bytes:
    return f"statediff {what}\x00".encode()


def _refuse(what: str, why: str) -> NoReturn:
    raise BundleError(f"{what}: {why}")
