"""Small signed documents beside bundles: `{"keyid", "payload", "signature"}`, the payload base64.

The signature is over a prefix and the payload, so that none fits a statement of another sort.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from statediff.errors import BundleError
from statediff.evidence.canonical import read, write
from statediff.evidence.keys import SigningKey
from statediff.evidence.verify import SEALING, Signer, key_id

Json = Any


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
    raw = payload_of(data, what)
    payload = read(raw, f"{what}: payload")
    if not isinstance(payload, dict) or sorted(payload) != sorted(keys):
        _refuse(what, f"the payload is not that of a {what}")
    try:
        at = datetime.fromisoformat(payload["at"])
    except (TypeError, ValueError) as error:
        raise BundleError(f"{what}: {error}") from error
    if at.tzinfo is None:
        _refuse(what, "its time has no zone")
    document = read(data.removesuffix(b"\n"), what)
    signer = next((s for s in trust if key_id(s.key) == document["keyid"]), None)
    if signer is None or SEALING not in signer.roles:
        _refuse(what, f"signed by a key that is not trusted as {SEALING}")
    early = signer.valid_from is not None and at < signer.valid_from
    if early or (signer.valid_until is not None and at >= signer.valid_until):
        _refuse(what, f"the key of {signer.name} was not valid at {at}")
    try:
        key = Ed25519PublicKey.from_public_bytes(signer.key)
        key.verify(_bytes(document["signature"], what), _prefix(what) + raw)
    except InvalidSignature:
        _refuse(what, f"the signature of {signer.name} does not fit")
    return payload, at, signer.name


def payload_of(data: bytes, what: str) -> bytes:
    """The payload's bytes of a statement of any sort, not yet verified. `BundleError`."""
    document = read(data.removesuffix(b"\n"), what)
    if not isinstance(document, dict) or sorted(document) != ["keyid", "payload", "signature"]:
        _refuse(what, "expected exactly keyid, payload and signature")
    return _bytes(document["payload"], what)


def _prefix(what: str) -> bytes:
    return f"statediff {what}\x00".encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: Json, what: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise BundleError(f"{what}: not base64: {error}") from error
    if _text(data) != text:
        _refuse(what, "not the one base64 of its bytes")
    return data


def _refuse(what: str, why: str) -> NoReturn:
    raise BundleError(f"{what}: {why}")
