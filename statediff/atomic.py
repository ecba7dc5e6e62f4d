"""Files that appear whole: at any moment a reader finds the old content or the new, never a part.

The content goes into a temporary file in the same folder, which then takes the name. A process that
is killed leaves at most that temporary file, whose name `PART` matches.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

PART: Final = re.compile(r"\.[0-9a-f]{16}\.part")
"""The names of temporary files. They say nothing of the target, whose own name may be too long."""

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ANY: Final = 0o666
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


def write_atomically(
    path: Path | str,
    content: bytes | memoryview,
    *,
    mode: int | None = None,
    exclusive: bool = False,
    durable: bool = False,
) -> None:
    """The file at `path` holds exactly `content`; after an error it is as it was.

    `mode` sets the permission bits whatever the umask is, and nobody else can open the file before
    it has them; without `mode` the umask decides. `exclusive` refuses to overwrite: raises
    `FileExistsError`. `durable` makes content and name survive a power cut. A symbolic link at
    `path` is replaced, never followed. Raises `OSError`.
    """
    target = os.fspath(path)
    if exclusive and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    folder = os.path.dirname(target)  # noqa: PTH120 - a chunk store calls this for every chunk
    part = os.path.join(folder, f".{os.urandom(8).hex()}.part")  # noqa: PTH118 - as above
    descriptor = os.open(part, _NEW, _ANY if mode is None else mode)
    try:
        try:
            if mode is not None:
                os.fchmod(descriptor, mode)
            _write(descriptor, memoryview(content))
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if exclusive:
            _take_free_name(part, target)
        else:
            os.replace(part, target)  # noqa: PTH105 - as above
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)  # noqa: PTH108 - as above
        raise
    if durable:
        sync_folder(folder or ".")


def _write(descriptor: int, rest: memoryview) -> None:
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _take_free_name(part: str, target: str) -> None:
    """The file at `part` is at `target` instead. `FileExistsError` if something is there."""
    try:
        os.link(part, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # FAT and some network file systems have no hard links. Reserve the name, then replace: a
        # kill between the two leaves an empty file, which nobody mistakes for content.
        os.close(os.open(target, _NEW, 0o600))
        os.replace(part, target)  # noqa: PTH105 - beside os.link
    else:
        os.unlink(part)  # noqa: PTH108 - as above


_AT_ONCE: Final = 8
"""A file system writes for several who wait what it writes for one."""


def sync_below(folder: Path) -> None:
    """The folder with all that is in it survives a power cut. Raises `OSError`.

    Its own name does so once the folder above it is synced too (`sync_folder`).
    """
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    folders = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(_sync_file, files):
            pass
    for each in (*folders, folder):
        sync_folder(each)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path | str) -> None:
    """The names in the folder survive a power cut. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(descriptor)
