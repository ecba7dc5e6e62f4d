"""What can be tried here: contracts whose systems are installed. What is left out has a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from statediff.errors import ContractError, UsageError
from statediff.extras import PACKS, requirement_of
from statediff.packs import (
    EMBEDDED,
    ContractFolder,
    contract_folders,
    known_sandbox,
    sandbox_names,
    sandbox_pack,
)

if TYPE_CHECKING:
    from statediff.contract.file import ContractFile


@dataclass(frozen=True)
class Installed:
    """Some contracts, and what was left out of those that were named."""

    paths: tuple[Path, ...]
    absent: Mapping[str, str]
    """Sandbox → what `pip install` gets it with, of those that are not installed."""


def installed(paths: Sequence[Path], variant: str = EMBEDDED) -> Installed:
    """The contracts whose sandbox can be started with what is installed.

    One that cannot be read is kept: its reader says what is wrong. `UsageError` where
    nothing is left.
    """
    from statediff.contract.file import load_contract

    kept: list[Path] = []
    absent: dict[str, str] = {}
    for path in paths:
        try:
            found = lacking(load_contract(path), variant)
        except ContractError:
            found = None
        if found is None:
            kept.append(path)
        else:
            absent.setdefault(*found)
    if paths and not kept:
        name, requirement = next(iter(absent.items()))
        raise UsageError(f"{name}: its systems are not installed; pip install {requirement}")
    return Installed(tuple(kept), absent)


def lacking(file: ContractFile, variant: str = EMBEDDED) -> tuple[str, str] | None:
    """The contract's sandbox and what `pip install` gets it with; None where it is installed."""
    from statediff.systems.base.registry import missing_extra

    named = file.content.sandbox
    if named is None:
        return None
    sandbox = known_sandbox(file)
    if sandbox is None or (sandbox in PACKS and sandbox not in sandbox_names()):
        found = requirement_of(named)
    else:
        found = missing_extra(sandbox_pack(sandbox, variant))
    return None if found is None else (named, found)


def missing_servers() -> Mapping[str, str]:
    """Pack → what `pip install` gets it with, of those whose systems are not installed."""
    from statediff.systems.base.registry import missing_extra

    found = {name: requirement_of(name) for name in PACKS}
    found |= {name: missing_extra(sandbox_pack(name)) for name in sandbox_names()}
    return {name: extra for name, extra in sorted(found.items()) if extra is not None}


def served_tasks() -> tuple[ContractFolder, ...]:
    """The tasks of the packs whose servers are installed."""
    absent = missing_servers()
    return tuple(f for f in contract_folders() if f.name.partition("/")[0] not in absent)
