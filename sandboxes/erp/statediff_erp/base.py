"""The database with which the ERP begins: made by the pack's program once, then kept.

Tryton's own modules fill most of it, so it is made on the machine that runs it and handed on by
nobody. It is kept in the user's cache, by the digest of the program and of the versions of Tryton's
modules; a file there that another user could have written is not taken.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.systems.base.privacy import allowed_environment
from statediff.systems.base.waiting import communicate

MAX_BASE_BYTES: Final = 256 * 1024 * 1024


def base_of(program: Path) -> bytes:
    """The bytes of the database that the program makes; made, if it was not before.

    Raises `SandboxError` where it cannot be made. Takes a minute of a processor the first time.
    """
    try:
        folder = _cache()
        kept = folder / f"{_digest(program)}.sqlite"
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two that start at once make it once
            if not _is_ours(kept):
                _make(program, kept)
            return _read(kept)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"the ERP's database could not be made: {error}") from error


def _cache() -> Path:
    above = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    folder = Path(above) / "statediff" / "erp"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _digest(program: Path) -> str:
    """The digest of whatever decides what is made."""
    found = sorted({(each.name, each.version) for each in metadata.distributions()})
    versions = [f"{name} {version}" for name, version in found if name.startswith("trytond")]
    return hashlib.sha256("\n".join(versions).encode() + program.read_bytes()).hexdigest()


def _is_ours(file: Path) -> bool:
    """True if it is there, and nobody else can have written it."""
    try:
        status = file.lstat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _make(program: Path, kept: Path) -> None:
    fresh = kept.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with subprocess.Popen(
        [sys.executable, str(program), str(fresh)],
        env=allowed_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        _, errors, why = communicate(process, b"")
    if why or process.returncode != 0:
        said = why or errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SandboxError(f"the ERP's database could not be made: {printable(said[:300])}")
    fresh.chmod(0o600)
    fresh.replace(kept)


def _read(file: Path) -> bytes:
    size = file.stat().st_size
    if size > MAX_BASE_BYTES:
        raise SandboxError(f"{file}: expected at most {MAX_BASE_BYTES} bytes, found {size}")
    return file.read_bytes()
