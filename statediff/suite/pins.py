"""Pins: what a run rests on besides its contracts: code, local changes of it, and sandboxes.

They are enough to say later whether two runs were made by the same means, and by which.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff._version import __version__
from statediff.errors import UsageError
from statediff.model.values import printable

if TYPE_CHECKING:
    from statediff.packs import SandboxPack

MAX_PATCH: Final = 4 * 1024 * 1024
MAX_UNTRACKED: Final = 1000
_NO_GIT: Final = "the program `git`, which is not here: install git"


def pin_code(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Statediff's own code, and the state of the repository around `folder`, with its patch.

    The patch is what differs from the commit; a file that git does not know is named, with its
    digest.
    """
    package = Path(str(importlib.resources.files("statediff")))
    found: dict[str, Any] = {"statediff": __version__, "digest": _folder_digest(package, "*.py")}
    try:
        repository, patch = _repository(folder)
    except (_GitRefuses, OSError, ValueError) as error:
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
    """The digest of all files of a pack; of a project's sandbox, its file and those it names."""
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
    """The digest of a file, a folder, or a repository's references and changes of tracked files."""
    if not is_repository:
        return _folder_digest(path, "*") if path.is_dir() else _file_digest(path)
    if shutil.which("git") is None:
        raise UsageError(f"{path}: pinning a repository takes {_NO_GIT}")
    git = _Git(path, is_below=False)
    try:
        refs = git("for-each-ref", "--format=%(refname) %(objectname) %(symref)")
        head = git("symbolic-ref", "-q", "HEAD", may_lack=True) or git("rev-parse", "HEAD")
        is_bare = git("rev-parse", "--is-inside-work-tree") != b"true\n"
        patch = b"" if is_bare else git.patch()
    except _GitRefuses as error:
        return f"none: {error}"
    return hashlib.sha256(b"\0".join([refs, head, patch])).hexdigest()


def _repository(folder: Path) -> tuple[dict[str, Any] | None, bytes]:
    """None where the folder is in no repository. Nothing of the repository is run."""
    if shutil.which("git") is None:
        raise _GitRefuses(f"that takes {_NO_GIT}")
    git = _Git(folder)
    try:
        is_bare = git("rev-parse", "--is-inside-work-tree") != b"true\n"
    except _GitRefuses as error:
        if str(error).startswith("fatal: not a git repository"):
            return None, b""
        raise
    commit = b"" if is_bare else git("rev-parse", "-q", "--verify", "HEAD^{commit}", may_lack=True)
    if not commit:
        return {"commit": None, "patch": None, "untracked": {}}, b""
    top = Path(os.fsdecode(git("rev-parse", "--show-toplevel").removesuffix(b"\n")))
    git = _Git(top)
    patch = git.patch()
    listed = git("ls-files", "-z", "--others", "--exclude-standard", "--directory",
                 "--no-empty-directory")  # fmt: skip
    new = sorted(map(os.fsdecode, filter(None, listed.split(b"\0"))))
    untracked = {printable(name): _code_file_digest(top / name) for name in new[:MAX_UNTRACKED]}
    facts = {
        "commit": commit.decode().strip(),
        "patch": hashlib.sha256(patch).hexdigest() if patch else None,
        "untracked": untracked,
        "untracked_left_out": max(0, len(new) - MAX_UNTRACKED),
    }
    return facts, patch if len(patch) <= MAX_PATCH else b""


class _GitRefuses(Exception):
    """The message of git instead of an answer."""


class _Git:
    """The program git in a folder, without the settings and variables of this machine.

    Of what a repository's own settings name, nothing is run: no monitor, hook, filter, program
    that shows differences, or transport.
    """

    def __init__(self, folder: Path, *, is_below: bool = True) -> None:
        own = folder.resolve()
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
        }
        if not is_below:  # the repository is the folder's own
            self._environment["GIT_CEILING_DIRECTORIES"] = str(own.parent)
        # An empty monitor is none for every release; of a word older ones would run the program.
        self._git = ["git", "-C", str(own), "-c", "core.fsmonitor="]
        self._git += ["-c", f"core.hooksPath={os.devnull}"]

    def patch(self) -> bytes:
        """The differences from the commit in files that git knows."""
        without = []
        listed = self("config", "-z", "--name-only", "--get-regexp", r"^filter\.", may_lack=True)
        for name in map(os.fsdecode, filter(None, listed.split(b"\0"))):
            driver = name.rpartition(".")[0]
            if "=" in driver:
                raise _GitRefuses(f"the filter {printable(driver)} cannot be left out")
            for setting in ("clean=", "process=", "required=false"):
                without += ["-c", f"{driver}.{setting}"]
        self._git += without
        return self("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames",
                    "--full-index", "--submodule=short", "--ignore-submodules=dirty",
                    "HEAD")  # fmt: skip

    def __call__(self, *words: str, may_lack: bool = False) -> bytes:
        """The output of git; nothing where there is nothing and `may_lack` allows that."""
        done = subprocess.run(
            [*self._git, *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode == 0 or (may_lack and done.returncode == 1):
            return done.stdout
        said = done.stderr.decode("utf-8", "replace").partition("\n")[0]
        raise _GitRefuses(printable(said))


def _code_file_digest(path: Path) -> str | None:
    """The digest of a file; None for a folder, and for what is too large to be code."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_PATCH:
        return None
    return _file_digest(path)


def _folder_digest(folder: Path, pattern: str) -> str:
    """The digest of all files below the folder, without those that Python compiled."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts:
            name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
            whole.update(len(name).to_bytes(4, "big") + name + bytes.fromhex(_file_digest(path)))
    return whole.hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
