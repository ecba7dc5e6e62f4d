"""Released versions on disk: what `lint`, `run` and `contract` ask of `released.yaml`."""

from __future__ import annotations

from pathlib import Path

from statediff.contract.authoring.versions import FILE, Releases, identifier, read_releases
from statediff.contract.document.load import read_bytes
from statediff.contract.lint.subject import remark
from statediff.errors import ContractError, Problem
from statediff.evaluate import ContractFile


def releases_beside(path: Path) -> Releases:
    """What was released of the contracts in the folder of `path`; nothing where there is no file.

    `ContractError` or `UsageError` where there is one that cannot be read.
    """
    beside = path.parent / FILE
    if not beside.exists():
        return Releases({})
    return read_releases(read_bytes(beside), str(beside))


def unreviewed(path: Path, file: ContractFile) -> tuple[Problem, ...]:
    """The remark that the version is released and nobody signed it off; nothing otherwise."""
    name = identifier(file.content.contract, file.content.version)
    known = releases_beside(path).entries.get(name)
    if known is None or known.reviewed is not None:
        return ()
    message = f"{name} was released by {known.released_by} on {known.on}, and nobody reviewed it"
    return (remark(file.source, "unreviewed", ("version",), message),)


def unchanged(path: Path, file: ContractFile) -> None:
    """The contract is no released version, or has its very bytes; `ContractError` otherwise."""
    name = identifier(file.content.contract, file.content.version)
    known = releases_beside(path).entries.get(name)
    if known is not None and known.digest != file.digest:
        problem = file.source.problem(
            ("version",),
            f"{name} was released with digest {known.digest[:12]}, this file has "
            f"{file.digest[:12]}",
            code="released-changed",
            hint="a released version never changes: raise `version`, or restore the file",
        )
        raise ContractError((problem,))


def is_released(path: Path, file: ContractFile) -> bool:
    """Whether these bytes are a released version, which never changes."""
    name = identifier(file.content.contract, file.content.version)
    known = releases_beside(path).entries.get(name)
    return known is not None and known.digest == file.digest
