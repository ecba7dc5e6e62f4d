"""The limits of a verdict: unread types, and a contract that nobody has reviewed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from statediff.contract.file import parse_contract
from statediff.errors import AdapterError, UsageError

UNREVIEWED: Final = "nobody has reviewed this contract yet"


@dataclass(frozen=True)
class Covered:
    """`unread` is how many kinds of thing the reader's account may not read whole."""

    unread: int = 0
    is_reviewed: bool = True

    @property
    def limit(self) -> str:
        """The words after `and nothing else`; empty where everything could be read."""
        if not self.unread:
            return ""
        kinds = "1 kind" if self.unread == 1 else f"{self.unread} kinds"
        return f", of what this account may read: {kinds} could not be"


def covered(contract: bytes | None) -> Covered:
    """The limits that the contract states; a contract of another version states none."""
    if contract is None or (b"unread" not in contract and b"reviewed" not in contract):
        return Covered()
    try:
        content = parse_contract(contract, "contract.yaml").content
    except (UsageError, AdapterError, ValueError):
        return Covered()
    return Covered(len(content.unread), content.reviewed)
