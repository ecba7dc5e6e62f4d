"""A log of releases of any length, and who signs its checkpoints."""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from statediff.evidence.checkpoints import WITNESSING
from statediff.evidence.keys import SigningKey
from statediff.evidence.log import Record, read_log, record_entry
from statediff.evidence.verify import Signer

ADA, WES, EVE = (
    SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(n, n + 32)))) for n in range(3)
)
TRUST = (
    Signer("Ada", ADA.public, ("evaluator",), None, None),
    Signer("Wes", WES.public, (WITNESSING,), None, None),
)
"""Ada evaluates, Wes witnesses, and nobody knows Eve."""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAME = "example.com/verdicts"


def log_of(size: int, note: str = "") -> bytes:
    """The bytes of a log of so many releases; another `note` makes every entry another one."""
    data = b""
    for number in range(size):
        record = Record("release", "a@1", f"{number:064x}", {"by": f"Ada{note}"})
        data += record_entry(read_log(data), record, NOON) + b"\n"
    return data
