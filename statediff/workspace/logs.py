"""A log as a file: read whole, and appended to by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statediff.evidence.log import Log


def append(log: Path, make: Callable[[Log], bytes]) -> tuple[int, bytes]:
    """The number and the line of the entry that `make` gives for the log as it is, now in it."""
    from statediff.evidence.log import read_log

    with _opened(log) as descriptor:
        content = _content(descriptor)
        # A torn line was never acknowledged; the next entry takes its place.
        whole = content[: content.rfind(b"\n") + 1]
        kept = read_log(whole)
        line = make(kept)
        os.ftruncate(descriptor, len(whole))
        os.lseek(descriptor, len(whole), os.SEEK_SET)
        _write(descriptor, line + b"\n")
        os.fsync(descriptor)
    return len(kept.entries), line


def load_log(path: Path) -> Log:
    """The log in a file; `UsageError` where it cannot be read."""
    from statediff.evidence.log import read_log
    from statediff.workspace.bundles import read_file

    return read_log(read_file(path))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The file, made if need be, which nobody else appends to until it is closed."""
    from statediff.errors import StorageError

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"{path}: the log cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    except OSError as error:
        raise StorageError(f"{path}: the log cannot be written: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
