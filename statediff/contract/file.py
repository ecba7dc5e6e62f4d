"""Contracts from files, as read: bound to no schema yet."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from statediff.contract.document.contract import ContractDocument
from statediff.contract.document.load import parse_document, read_bytes
from statediff.contract.yaml.reader import Document


@dataclass(frozen=True)
class ContractFile:
    """A contract as read: its bytes, where its parts stand, and its content."""

    data: bytes
    source: Document
    content: ContractDocument

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()


def load_contract(path: Path) -> ContractFile:
    """The contract in a file; `UsageError` or `ContractError` with places."""
    return parse_contract(read_bytes(path), str(path))


def parse_contract(data: bytes, file: str) -> ContractFile:
    """The contract in `data`; `file` is the name used in messages."""
    return ContractFile(data, *parse_document(data, file))
