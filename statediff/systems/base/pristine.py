"""A file that others are copied from.

The kernel copies: where the file system shares blocks (Btrfs, XFS) nothing is read or written. A
copy is proven by what it holds: no time of a file stands for its content. A write through a mapping
may move none, and one that was begun before the file was looked at may end after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import weakref
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final

Version = tuple[int, ...]

_BLOCK_BYTES: Final = 8 * 1024 * 1024
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def version_of(status: os.stat_result) -> Version:
    """Another one after a change of owner, mode, names or attributes, and after most writes."""
    # The change time too: the modification time can be set back by anyone who owns the file.
    return (
        *(status.st_dev, status.st_ino, status.st_mode, status.st_nlink, status.st_uid),
        *(status.st_gid, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
    )


class Pristine:
    """The bytes of a base: a file without a name. Of one that was seen to change, no copy is made.

    It is made of the one at the place, whose name is taken from it.
    """

    def __init__(self, place: Path) -> None:
        self._file = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)
        place.unlink()
        self._version = version_of(os.fstat(self._file))
        with self._opened() as file:
            self.digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._require_unchanged()

    def _opened(self) -> BufferedReader:
        return open(self._file, "rb", closefd=False)

    def _require_unchanged(self) -> None:
        if version_of(os.fstat(self._file)) != self._version:
            raise OSError("what it is copied from was written to by somebody else")

    def copy(self, folder: int, name: str, mode: int) -> None:
        """The file of the name in the open folder is a new one: a copy. Raises `OSError`."""
        self._require_unchanged()
        part = f".{os.urandom(8).hex()}.part"
        target = os.open(part, _NEW, mode, dir_fd=folder)
        try:
            os.fchmod(target, mode)
            _copy(self._file, target)
            self._require_unchanged()
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
        finally:
            os.close(target)

    def read(self) -> bytes:
        """The bytes themselves."""
        with self._opened() as file:
            file.seek(0)
            return file.read()


@contextlib.contextmanager
def folder_near(folder: Path) -> Iterator[Path]:
    """A folder for a while, in the file system in which the other one is, or will be."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    place = folder if os.access(folder, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix=".statediff-") as made:
        yield Path(made)


def copy_content(place: Path, to: Path) -> None:
    """A new file holds what another one does. Raises `OSError`."""
    with place.open("rb") as source, to.open("xb") as target:
        _copy(source.fileno(), target.fileno())


def _copy(source: int, target: int) -> None:
    """The empty target holds what the source does. Raises `OSError`."""
    at, size = 0, os.fstat(source).st_size
    while at < size:
        done = 0
        with contextlib.suppress(OSError, AttributeError):  # of two file systems; not on Linux
            done = os.copy_file_range(source, target, size - at, at, at)
        at += done or os.pwrite(target, os.pread(source, _BLOCK_BYTES, at), at)
        if not done and os.fstat(source).st_size < size:
            raise OSError("it was cut short while it was copied")
