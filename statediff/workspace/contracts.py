"""Contracts as a command line names them: a file, a folder, or the name of a pack's task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from statediff.errors import UsageError
from statediff.evaluate import ContractFile, load_contract
from statediff.model.values import printable
from statediff.packs import CONTRACT_FILE, contract_folder, contract_folders


def contract_file(named: str) -> ContractFile:
    """The one contract that `named` means; `UsageError` where it means none or several."""
    return load_contract(contract_path(named))


def contract_path(named: str) -> Path:
    """The file of the one contract that `named` means; `UsageError` for none or several."""
    paths = contract_paths([named])
    if len(paths) > 1:
        listed = ", ".join(str(path) for path in paths[:5])
        raise UsageError(f"{printable(named)}: holds {len(paths)} contracts; name one: {listed}")
    return paths[0]


def contract_paths(named: Sequence[str]) -> tuple[Path, ...]:
    """The files of every contract named, each once; folders are searched for `contract.yaml`."""
    return tuple(dict.fromkeys(path for name in named for path in _paths(name)))


def _paths(named: str) -> Iterator[Path]:
    path = Path(named)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        is_folder = exists = False
    if not is_folder:
        # A file that does not exist is reported by whoever opens it, unless a pack has the name.
        known = {entry.name for entry in contract_folders()}
        yield path if exists or named not in known else contract_folder(named).contract
        return
    found = sorted(path.rglob(CONTRACT_FILE))
    if not found:
        raise UsageError(f"{printable(named)}: expected a {CONTRACT_FILE} in it, found none")
    yield from found
