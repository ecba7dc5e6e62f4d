"""The receipt: proof of a sandbox's base state, by digests that capture has no part in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

RECEIPT_FORM: Final = "statediff.receipt/1"


@dataclass(frozen=True, order=True)
class Drift:
    """One thing that is not as it was at the base: `what` is a table, a file or the mail."""

    source: str
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.source}: {self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class SourceProof:
    """What one source was found to be: the base's digest, the digest found, and its size."""

    source: str
    method: str
    """How the digest was taken, e.g. `sha256 of the database file`."""
    expected: str
    found: str
    entities: int
    """Entities in the base: rows of the database's tables, messages in the mailbox."""


@dataclass(frozen=True)
class Receipt:
    """A sandbox was looked at after a reset; `proofs` and `drift` are sorted by source.

    `run` refuses a sandbox whose receipt is not `ok`.
    """

    sandbox: str
    version: str
    verified_at: datetime
    proofs: tuple[SourceProof, ...]
    drift: tuple[Drift, ...] = ()
    isolation: str = "none"
    """`none`: the agent runs as the evaluator's user and could reach its files. `container`: in a
    container of its own, from which it reaches the systems and its own folder only."""

    @property
    def ok(self) -> bool:
        """Every source was proven to be in its base state."""
        return (
            not self.drift
            and bool(self.proofs)
            and all(proof.expected == proof.found for proof in self.proofs)
        )

    @property
    def entities(self) -> int:
        return sum(proof.entities for proof in self.proofs)

    def as_json(self) -> dict[str, Any]:
        """The receipt as a document for the run folder."""
        return {
            "form": RECEIPT_FORM,
            "sandbox": self.sandbox,
            "version": self.version,
            "verified_at": self.verified_at.isoformat(),
            "ok": self.ok,
            "isolation": self.isolation,
            "entities": self.entities,
            "proofs": [
                {
                    "source": proof.source,
                    "method": proof.method,
                    "expected": proof.expected,
                    "found": proof.found,
                    "entities": proof.entities,
                }
                for proof in self.proofs
            ],
            "drift": [
                {
                    "source": entry.source,
                    "what": entry.what,
                    "expected": entry.expected,
                    "found": entry.found,
                }
                for entry in self.drift
            ],
        }
