"""The contracts whose systems are installed, and the names of those left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from statediff.contract.file import ContractFile, load_contract
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
from statediff.systems.base.registry import missing_extra


def installed(
    paths: Sequence[Path], variant: str = EMBEDDED
) -> tuple[tuple[Path, ...], Mapping[str, str]]:
    """The contracts whose sandbox can be started here; sandbox → what installs it, of the others.

    One that cannot be read is kept: its reader says what is wrong. `UsageError` where nothing is
    left.
    """
    kept, absent = list[Path](), dict[str, str]()
    for path in paths:
        try:
            absent |= (found := _lacking(load_contract(path), variant))
        except ContractError:
            found = {}
        kept += [] if found else [path]
    if paths and not kept:
        name, requirement = next(iter(absent.items()))
        raise UsageError(f"{name}: its systems are not installed; pip install {requirement}")
    return tuple(kept), absent


def _lacking(file: ContractFile, variant: str) -> Mapping[str, str]:
    """The contract's sandbox and what `pip install` gets it with; nothing where it is there."""
    named, sandbox = file.content.sandbox, known_sandbox(file)
    if named is None:
        return {}
    if sandbox is None or (sandbox in PACKS and sandbox not in sandbox_names()):
        found = requirement_of(named)
    else:
        found = missing_extra(sandbox_pack(sandbox, variant))
    return {} if found is None else {named: found}


def missing_servers() -> Mapping[str, str]:
    """Pack → what `pip install` gets it with, of those whose systems are not installed."""
    found = {name: requirement_of(name) for name in PACKS}
    found |= {name: missing_extra(sandbox_pack(name)) for name in sandbox_names()}
    return {name: extra for name, extra in sorted(found.items()) if extra is not None}


def served_tasks() -> tuple[ContractFolder, ...]:
    """The tasks of the packs whose servers are installed."""
    absent = missing_servers()
    return tuple(f for f in contract_folders() if f.name.partition("/")[0] not in absent)
