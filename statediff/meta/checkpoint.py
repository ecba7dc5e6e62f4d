"""Results of long work, kept piece by piece: what was stopped goes on where it was.

A piece lies in one file, named by a digest of all that makes it: statediff's own code and packs,
the files beside its contract, and what was asked. Other code or other files make another piece. A
file that cannot be read as a piece is no result: it is made anew.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from statediff.atomic import write_atomically
from statediff.entrypoints import plug_ins
from statediff.errors import StorageError, UsageError
from statediff.packs import packs_folders
from statediff.systems.base.registry import GROUP as SYSTEMS

SCHEMA: Final = "statediff/kept/1"
_PACKS: Final = ("contracts", "sandboxes", "docs/examples/reads")
_BESIDE: Final = frozenset({".yaml", ".yml", ".json", ".jsonl", ".csv", ".tsv", ".py"})
"""Endings of the files beside a contract that may decide what a run of it does."""
T = TypeVar("T")
Json = Any


@dataclass(frozen=True)
class Form(Generic[T]):
    """How the results of one kind of piece lie in a file."""

    name: str
    read: Callable[[Json], T]
    """One result, from what `dataclasses.asdict` made of it; an error means that there is none."""


def checkpoint(
    folder: Path | None,
    name: str,
    asked: Sequence[Json],
    make: Callable[[], Iterable[T]],
    form: Form[T],
) -> tuple[T, ...]:
    """The result of `make` for what was `asked`: from the folder if it is there, else made now.

    Raises `StorageError` if it cannot be written.
    """
    if folder is None:
        return tuple(make())
    identity = [SCHEMA, form.name, code_digest(), *asked]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    path = folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')[:80]}-{digest[:24]}.json"
    found = _read_piece(path, identity, form)
    if found is None:
        found = tuple(make())
        _write_piece(path, {"identity": identity, "results": [asdict(each) for each in found]})  # type: ignore[call-overload]  # a form is of a dataclass
    return found


def require_folder(folder: Path) -> None:
    """The folder is there, and can be written. `UsageError` says why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"--keep {folder}: {error.strerror}; choose another folder") from error


@cache
def code_digest() -> str:
    """One digest of the modules of statediff and of its plug-ins, and of the packs with them."""
    systems = (each.module.partition(".")[0] for each in plug_ins(SYSTEMS).values())
    specs = (importlib.util.find_spec(name) for name in sorted({"statediff", *systems}))
    packages = [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin]
    code = (path for package in packages for path in package.rglob("*"))
    files = [path for path in code if path.suffix in {".py", ".yaml", ".j2"}]
    for kind in _PACKS:
        with suppress(UsageError):  # an installed wheel may lack the examples
            data = (path for folder in packs_folders(kind) for path in folder.rglob("*"))
            files += (path for path in data if path.suffix != ".pyc")
    return digest_of(files)


def contract_digest(contract: Path) -> str:
    """One digest of the contract and of the files beside it: its cases, its agents."""
    beside = contract.parent.glob("*")
    return digest_of((contract, *(path for path in beside if path.suffix in _BESIDE)))


def digest_of(files: Iterable[Path]) -> str:
    """One digest of what the files hold, and where. Raises `UsageError` if one cannot be read."""
    whole = hashlib.sha256()
    try:
        for path in sorted(set(files)):
            if path.is_file():
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                whole.update(json.dumps([str(path), content]).encode())
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return whole.hexdigest()


def _read_piece(path: Path, identity: Json, form: Form[T]) -> tuple[T, ...] | None:
    try:
        document = json.loads(path.read_bytes())
        if document["identity"] != identity:
            return None
        return tuple(form.read(each) for each in document["results"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _write_piece(path: Path, document: Json) -> None:
    """The document lies there whole, or not at all."""
    try:
        write_atomically(path, json.dumps(document, default=_plain).encode())
    except OSError as error:
        raise StorageError(f"{path}: cannot be kept: {error.strerror}") from error


def _plain(value: object) -> Json:
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"expected plain values and enums in a result, found {type(value).__name__}")
