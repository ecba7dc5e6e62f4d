"""Small signed documents beside bundles: `{"keyid", "payload", "signature"}`, the payload base64.

The signature is over a prefix and the payload, so that none fits a statement of another sort.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from statediff.errors import BundleError
from statediff.evidence.canonical import read, write
from statediff.evidence.verify import SEALING, Rejected, Signer, instant, key_id

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey

Json = Any
REVIEWER: Final = "reviewer"
"""The role a key needs for its labels and sign-offs to count."""


def sign_statement(payload: Json, what: str, key: SigningKey) -> bytes:
    """The signed statement; `what` says of which sort it is, in one word."""
    raw = write(payload)
    return write({
        "payload": _text(raw), "keyid": key_id(key.public),
        "signature": _text(key.sign(_prefix(what) + raw)),
    })  # fmt: skip


def read_statement(
    data: bytes, what: str, keys: Sequence[str], trust: Sequence[Signer]
) -> tuple[dict[str, Json], datetime, str]:
    """The payload with exactly these keys, its instant `at`, and who signed it. `BundleError`.

    The key must be trusted as evaluator at that instant.
    """
    opened = open_statement(data, what, SEALING, trust)
    if sorted(opened[0]) != sorted(keys):
        _refuse(what, f"the payload is not that of a {what}")
    return opened


def open_statement(
    data: bytes, what: str, role: str, trust: Sequence[Signer]
) -> tuple[dict[str, Json], datetime, str]:
    """The payload, its instant `at`, and who signed it; what else it holds is not checked.

    The key must be trusted in that role at that instant. `BundleError`.
    """
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - `--help` does without
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - as above
        Ed25519PublicKey,
    )

    document = _document(data, what)
    raw = read_base64(document["payload"], what)
    signer = next((s for s in trust if key_id(s.key) == document["keyid"]), None)
    if signer is None or role not in signer.roles:
        _refuse(what, f"signed by a key that is not trusted as {role}")
    try:
        key = Ed25519PublicKey.from_public_bytes(signer.key)
        key.verify(read_base64(document["signature"], what), _prefix(what) + raw)
    except InvalidSignature:
        _refuse(what, f"the signature of {signer.name} does not fit")
    except ValueError as error:
        raise BundleError(f"{what}: {error}") from error
    payload = read(raw, f"{what}: payload")
    if not isinstance(payload, dict):
        _refuse(what, "the payload is no object")
    try:
        at = instant(payload.get("at"), "at")
    except Rejected as error:
        raise BundleError(f"{what}: {error}") from error
    early = signer.valid_from is not None and at < signer.valid_from
    if early or (signer.valid_until is not None and at >= signer.valid_until):
        _refuse(what, f"the key of {signer.name} was not valid at {at}")
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


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def read_base64(text: Json, what: str) -> bytes:
    """The bytes of which this is the one base64. `BundleError`, naming `what`."""
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise BundleError(f"{what}: not base64: {error}") from error
    if _text(data) != text:
        _refuse(what, "not the one base64 of its bytes")
    return data


def _refuse(what: str, why: str) -> NoReturn:
    raise BundleError(f"{what}: {why}")
