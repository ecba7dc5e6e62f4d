"""A seal's statement as a signed statement of SCITT: COSE_Sign1 over the in-toto Statement.

A transparency service takes it as it takes any [draft-ietf-scitt-architecture]. The protected
header has the algorithm, the type of the payload, the key and, as CWT claims [RFC 9597], who
issues it and of what; the payload is byte for byte what the seal's envelope signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from statediff.errors import UsageError
from statediff.evidence.verify import PAYLOAD, key_id
from statediff.extras import extra_module

SIGN1: Final = 18
"""The tag of COSE_Sign1 [RFC 9052]."""
EDDSA: Final = -8
ALGORITHM, CONTENT_TYPE, KEY_ID, CLAIMS = 1, 3, 4, 15
ISSUER, SUBJECT = 1, 2
MAX_TEXT: Final = 1000


def signed_statement(
    payload: bytes, issuer: str, subject: str, key: bytes, sign: Callable[[bytes], bytes]
) -> bytes:
    """The tagged COSE_Sign1 over a statement's bytes, by `sign` under the public key `key`.

    `UsageError` for an issuer or a subject that names nobody.
    """
    for name, text in (("issuer", issuer), ("subject", subject)):
        if not text.strip() or len(text) > MAX_TEXT or not text.isprintable():
            raise UsageError(f"{name}: expected 1 to {MAX_TEXT} printable characters")
    cbor = extra_module("cbor2", "scitt", "COSE is written with cbor2")
    header = {
        ALGORITHM: EDDSA, CONTENT_TYPE: PAYLOAD, KEY_ID: bytes.fromhex(key_id(key)),
        CLAIMS: {ISSUER: issuer, SUBJECT: subject},
    }  # fmt: skip
    protected: bytes = cbor.dumps(header, canonical=True)
    signed: bytes = cbor.dumps(["Signature1", protected, b"", payload], canonical=True)
    parts = cbor.CBORTag(SIGN1, [protected, {}, payload, sign(signed)])
    found: bytes = cbor.dumps(parts, canonical=True)
    return found
