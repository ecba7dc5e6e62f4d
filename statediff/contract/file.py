"""Contracts from files, as read: bound to no schema yet."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from statediff.contract.document.contract import ContractDocument
from statediff.contract.document.load import parse_document, read_beside, read_bytes
from statediff.contract.document.profiles import Profile, missing_files, with_files
from statediff.contract.yaml.reader import Document, read_document
from statediff.contract.yaml.shape import as_model


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

    @cached_property
    def whole(self) -> Document:
        """The document with the clauses of its profiles behind its own, where they are read."""
        value = dict(self.source.value)
        for section in ("forbid", "allow", "effects"):
            own = value.get(section) or []
            added = getattr(self.content, section)[len(own) :]
            if added:
                dumps = (each.model_dump(by_alias=True, exclude_none=True) for each in added)
                value[section] = [*own, *dumps]
        return replace(self.source, value=value)


def load_contract(path: Path) -> ContractFile:
    """The contract in a file, with its profiles; `UsageError` or `ContractError` with places."""
    data = read_bytes(path)
    missing = missing_files(read_document(data, str(path))) if b"use:" in data else ()
    texts = {}
    for name in missing:
        if os.path.lexists(path.parent / "profiles" / f"{name}.yaml"):
            texts[name] = read_beside(path, f"profiles/{name}.yaml")
            as_model(read_document(texts[name], f"profiles/{name}.yaml"), Profile)
    if texts:
        data = with_files(data, texts)
    return parse_contract(data, str(path))


@lru_cache(maxsize=16)  # the trials of a task share one
def parse_contract(data: bytes, file: str) -> ContractFile:
    """The contract in `data`; `file` is the name used in messages."""
    return ContractFile(data, *parse_document(data, file))
