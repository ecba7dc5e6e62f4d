"""Time stamps: an authority's word that a checkpoint or an envelope was there at that time.

A request holds the SHA-256 of the checkpoint's text, or of the envelope, and nothing else; the
answer is a token that anybody checks offline against the authority's root certificate [RFC 3161].
What was stamped cannot have been written later than that, whatever its keys' holders say.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Final

from cryptography.x509 import Certificate, load_pem_x509_certificates

from statediff.errors import BundleError, UsageError
from statediff.evidence.checkpoints import Checkpoint
from statediff.evidence.notes import Head
from statediff.extras import extra_module

MAX_BYTES: Final = 256 * 1024
"""The most bytes of a token; those of public authorities have about 6,000."""


def request(seen: Checkpoint | bytes) -> bytes:
    """The DER of a request for a token over the checkpoint's text, or over these bytes."""
    client = _client()
    builder = client.TimestampRequestBuilder(data=_text(seen))
    asked: bytes = builder.hash_algorithm(client.HashAlgorithm.SHA256).build().as_bytes()
    return asked


def stamped_at(token: bytes, seen: Checkpoint | bytes, roots: Sequence[Certificate]) -> datetime:
    """When an authority below one of these roots saw the checkpoint's text, or these bytes, UTC.

    `BundleError` where the token is no such answer.
    """
    client = _client()
    if len(token) > MAX_BYTES:
        raise BundleError(f"time stamp: more than {MAX_BYTES} bytes")
    try:
        answer = client.decode_timestamp_response(token)
        verifier = client.VerifierBuilder(roots=list(roots)).build()
        verifier.verify_message(answer, _text(seen))
    except client.VerificationError as error:
        raise BundleError(f"time stamp: it does not count here: {error}") from error
    except ValueError as error:
        raise BundleError(f"time stamp: not an answer of RFC 3161: {error}") from error
    at: datetime = answer.tst_info.gen_time
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def read_roots(data: bytes, name: str) -> tuple[Certificate, ...]:
    """The certificates in a PEM file. `UsageError` where there are none."""
    try:
        found = tuple(load_pem_x509_certificates(data))
    except ValueError as error:
        raise UsageError(f"{name}: no certificates in PEM: {error}") from error
    if not found:
        raise UsageError(f"{name}: no certificates in PEM")
    return found


def _text(seen: Checkpoint | bytes) -> bytes:
    if isinstance(seen, bytes):
        return seen
    return Head(seen.origin, seen.size, seen.root).text().encode()


def _client() -> ModuleType:
    wanted = "time stamps are read with rfc3161-client"
    return extra_module("rfc3161_client", "timestamp", wanted)
