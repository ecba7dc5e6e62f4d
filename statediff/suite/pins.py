"""Pins: what a run rests on besides its contracts: code, local changes of it, and sandboxes.

They are enough to say later whether two runs were made by the same means, and by which.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pygit2

from statediff._version import __version__
from statediff.model.values import printable

if TYPE_CHECKING:
    from statediff.packs import SandboxPack

MAX_PATCH: Final = 4 * 1024 * 1024
MAX_UNTRACKED: Final = 1000


def pin_code(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Statediff's own code, and the state of the repository around `folder`, with its patch.

    The patch is what differs from the commit; a file that git does not know is named, with its
    digest.
    """
    package = Path(str(importlib.resources.files("statediff")))
    found: dict[str, Any] = {"statediff": __version__, "digest": _folder_digest(package, "*.py")}
    try:
        repository, patch = _repository(folder)
    except (pygit2.GitError, OSError, ValueError, KeyError) as error:
        return {**found, "repository": {"unknown": str(error)[:300]}}, b""
    return {**found, "repository": repository}, patch


def pin_sandboxes(
    named: Iterable[str], variant: str, bases: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Any]]:
    """By name: version, variant, and the digest of all its files, seeds and recipes too.

    `bases` are, by what `sandbox_pack` takes, the digests of what no file of it makes.
    """
    from statediff.packs import sandbox_pack  # noqa: PLC0415 - it reads YAML, and takes a while

    found = {}
    for name in sorted(set(named)):
        pack = sandbox_pack(name, variant)
        found[name if pack.name in found else pack.name] = {
            "version": pack.version,
            "variant": variant,
            "digest": pack_digest(pack),
            **({"bases": dict(bases[name])} if bases.get(name) else {}),
        }
    return found


def pack_digest(pack: SandboxPack) -> str:
    """Of all files of a pack; of a project's sandbox, of its file and of those that it names."""
    from statediff.packs import PACK_FILE  # noqa: PLC0415 - as above

    if pack.file.name == PACK_FILE:
        return _folder_digest(pack.folder, "*")
    whole = hashlib.sha256(pack.file.read_bytes())
    for source in pack.sources:
        for key, path in sorted(source.files.items()):
            if path.exists():
                digest = _digest_at(path, is_repository=key == "repository")
                whole.update(f"{source.name} {key} {digest}\n".encode())
    return whole.hexdigest()


def _digest_at(path: Path, *, is_repository: bool) -> str:
    """Of a file, of a folder, or of a repository's references and changes of tracked files."""
    if not is_repository:
        return _folder_digest(path, "*") if path.is_dir() else _file_digest(path)
    try:
        repository = pygit2.Repository(str(path))
        refs = [(n, str(repository.references[n].target)) for n in sorted(repository.references)]
        patch = "" if repository.is_bare else repository.diff("HEAD").patch or ""
    except (pygit2.GitError, KeyError) as error:
        return f"none: {error}"
    told = f"{refs} {repository.lookup_reference('HEAD').target} {patch}"
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()


def _repository(folder: Path) -> tuple[dict[str, Any] | None, bytes]:
    """None where the folder is in no repository. Nothing of the repository is run."""
    at = pygit2.discover_repository(str(folder))
    if at is None:
        return None, b""
    repository = pygit2.Repository(at)
    if repository.is_bare or repository.head_is_unborn:
        return {"commit": None, "patch": None, "untracked": {}}, b""
    commit = repository.head.peel(pygit2.Commit)
    patch = (repository.diff("HEAD").patch or "").encode("utf-8", "surrogateescape")
    top = Path(repository.workdir)
    new = sorted(
        name
        for name, flags in repository.status(untracked_files="normal").items()
        if flags & pygit2.enums.FileStatus.WT_NEW
    )
    untracked = {printable(name): _code_file_digest(top / name) for name in new[:MAX_UNTRACKED]}
    facts = {
        "commit": str(commit.id),
        "patch": hashlib.sha256(patch).hexdigest() if patch else None,
        "untracked": untracked,
        "untracked_left_out": max(0, len(new) - MAX_UNTRACKED),
    }
    return facts, patch if len(patch) <= MAX_PATCH else b""


def _code_file_digest(path: Path) -> str | None:
    """The digest of a file; None for a folder, and for what is too large to be code."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_PATCH:
        return None
    return _file_digest(path)


def _folder_digest(folder: Path, pattern: str) -> str:
    """Of all files below the folder, by name and content; what Python compiled is left out."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts:
            name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
            whole.update(len(name).to_bytes(4, "big") + name + bytes.fromhex(_file_digest(path)))
    return whole.hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
