"""Raw captures beside the evidence: for auditors only, readable by the recipients of age keys only.

A raw capture is a leaf of the tag `auditor/raw` under the same signature as the rest. Its value is
`{"payload_sha256", "ciphertext"}`: age over 32 random bytes and the content. The random bytes stand
*inside* what is encrypted, so that the digest, which binds the content, tells nothing of it to an
auditor without an identity, however few contents there could be. Its length and name can be seen.

What a bundle does not show of the calls and the answer (`undisclosed`) is a leaf of the same form
and of a tag of its own, on which the decision rests. Where it is encrypted to nobody, the leaf says
in every copy that something is withheld.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

from statediff.errors import BundleError, UsageError
from statediff.evidence.leaf_partition import Piece
from statediff.evidence.verify import RAW, UNDISCLOSED, WITHHELD, Leaf
from statediff.extras import extra_module

PLACE: Final = "raw/"
NOISE_BYTES: Final = 32
MAX_BYTES: Final = 128 * 1024 * 1024


def encrypted(
    name: str, content: bytes, recipients: Sequence[str], fresh: Callable[[int], bytes]
) -> Piece:
    """The piece that carries a raw capture to these recipients (`age1…` or an SSH public key).

    `fresh` gives random bytes. `UsageError` for a recipient that is none.
    """
    if not recipients:
        raise UsageError("a raw capture needs somebody who can read it; name one with --raw-to")
    return Piece(RAW, f"{PLACE}{name}#", _encrypt(name, content, recipients, fresh))


def withheld_piece(
    content: bytes, recipients: Sequence[str], fresh: Callable[[int], bytes]
) -> Piece:
    """The piece that carries what a bundle does not show; to nobody where there is no recipient."""
    return Piece(UNDISCLOSED, WITHHELD, _encrypt(WITHHELD[:-1], content, recipients, fresh))


def _encrypt(
    name: str, content: bytes, recipients: Sequence[str], fresh: Callable[[int], bytes]
) -> dict[str, str]:
    if len(content) > MAX_BYTES:
        raise UsageError(f"{name}: {len(content)} bytes are more than a raw capture may have")
    payload = fresh(NOISE_BYTES) + content
    ciphertext = b""
    if recipients:
        ciphertext = _age().encrypt(payload, [_recipient(text) for text in recipients])
    return {
        "payload_sha256": hashlib.sha256(payload).hexdigest(),
        "ciphertext": base64.b64encode(ciphertext).decode("ascii"),
    }


def decrypted(leaf: Leaf, identity: str) -> tuple[str, bytes]:
    """The name and content of a raw capture. `UsageError` if the identity is none of a recipient.

    `BundleError` if what is encrypted is not what was signed.
    """
    name = leaf.path.removeprefix(PLACE).removesuffix("#")
    age = _age()
    keys = [_identity(line) for line in identity.splitlines() if _is_key(line)]
    try:
        data = base64.b64decode(leaf.value["ciphertext"], validate=True)
        payload = age.decrypt(data, keys)
    except age.DecryptError as error:
        raise UsageError(f"{name}: not encrypted to this identity: {error}") from error
    except (binascii.Error, TypeError, KeyError, ValueError) as error:
        raise BundleError(f"{name}: not a raw capture: {error!r}") from error
    if hashlib.sha256(payload).hexdigest() != leaf.value.get("payload_sha256"):
        raise BundleError(f"{name}: what is encrypted is not what was signed")
    return name, payload[NOISE_BYTES:]


def _is_key(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _recipient(text: str) -> Any:
    age = _age()
    kind = age.ssh if text.startswith("ssh-") else age.x25519
    try:
        return kind.Recipient.from_str(text)
    except age.RecipientError as error:
        raise UsageError(f"{text[:80]!r} is no age recipient (age1…, ssh-…): {error}") from error


def _identity(line: str) -> Any:
    age = _age()
    try:
        return age.x25519.Identity.from_str(line.strip())
    except age.IdentityError as error:
        raise UsageError(f"the identity is none of age (AGE-SECRET-KEY-1…): {error}") from error


def _age() -> ModuleType:
    return extra_module("pyrage", "age", "raw captures are encrypted with age")
