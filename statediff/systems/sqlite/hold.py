"""The locks of a reader of a SQLite database in WAL mode, held without being one.

A reader that uses nothing but the database file holds a shared lock on the file, on "read 0" and on
the "dead man's switch" of the log's index (sqlite.org/walformat, §2.3). While these are held, no
checkpoint writes to the file, so that the log is never begun anew; nobody leaves WAL mode or folds
the log when it closes; and nobody rebuilds the index from what the log then holds.

They are locks of the open file description, so that nothing this process opens and closes beside
them gives them up, as it would with SQLite's own. And no part of the index is ever mapped: an agent
that truncates a mapped file kills the process that reads it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
from pathlib import Path
from typing import Final

from statediff.capture.source import SourceUnavailable
from statediff.model.values import printable
from statediff.systems.sqlite.copy import file_digest
from statediff.systems.sqlite.wal import LogIndex, read_commits, read_header, read_index

_MAGIC: Final = b"SQLite format 3\0"
_SHARED: Final = (0x40000002, 510)
_READ_0: Final = (123, 1)
_DEAD_MAN: Final = (128, 1)
_CUT: Final = "its write-ahead log is empty, but was cut off or overwritten (or checkpointed)"


class Hold:
    """The locks, descriptors of the database's three files, and what these were at the start.

    Raises `SourceUnavailable` or `OSError`.
    """

    def __init__(self, path: Path) -> None:
        self._paths = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
        self._descriptors: list[int] = []
        try:
            self.file = self._open(path, os.O_RDONLY)
            _lock(self.file, *_SHARED)
            mode = self._mode()
            self.log = self._open(self._paths[1], os.O_RDONLY | os.O_CREAT, mode)
            self._index = self._open(self._paths[2], os.O_RDWR | os.O_CREAT, mode)
            _lock(self._index, *_DEAD_MAN)
            _lock(self._index, *_READ_0)
            self._written = _written(self.file)
            self._log_written = _written(self.log)
            self.digest = file_digest(self.file)
            self.header = read_header(self.log)
            self.end = LogIndex(0, b"", (0, 0))
            if self.header is not None:
                for commit in read_commits(self.log, self.header):
                    self.end = LogIndex(commit.frame, self.header.salts, commit.checksum)
            self.look()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Nothing is held."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def look(self) -> LogIndex | None:
        """What the log's index says (None: nobody ever used it).

        Raises unless all three files are those that are held, and the database file as it was.
        """
        for path, descriptor in zip(self._paths, self._descriptors, strict=True):
            held = os.fstat(descriptor)
            try:
                found = path.lstat()
            except (OSError, ValueError):
                found = None
            if found is None or (found.st_dev, found.st_ino) != (held.st_dev, held.st_ino):
                raise SourceUnavailable(f"{printable(path.name)} was removed or exchanged")
        if _written(self.file) != self._written:
            raise SourceUnavailable("its file was written past its log, or its mode changed")
        index = read_index(self._index)
        if index is None and os.fstat(self._index).st_size:
            raise SourceUnavailable("the index of its write-ahead log is damaged")
        return index

    @property
    def page_size(self) -> int:
        """Of the database file, as its first page says."""
        told = int.from_bytes(os.pread(self.file, 2, 16), "big")
        return 65536 if told == 1 else told

    def check_unwritten_log(self) -> None:
        """Raises unless the log is still as empty as it was, and nobody cut it back to that."""
        # Not the time of its inode's change: for root, SQLite sets the owner of a log it opens.
        if self.header is not None or _written(self.log)[:2] != self._log_written[:2]:
            raise SourceUnavailable(_CUT)

    def check_end(self, index: LogIndex | None, last: LogIndex) -> None:
        """Raises unless the last transaction of the log is the last that its readers see."""
        is_end = index == last if last.frames else index is None or not index.frames
        if not is_end:
            seen = "nothing" if index is None else index.frames
            raise SourceUnavailable(
                f"its write-ahead log has {last.frames} committed frames, its index says {seen}"
            )

    def _mode(self) -> int:
        head = os.pread(self.file, 20, 0)
        if head[:16] != _MAGIC:
            raise SourceUnavailable("the file is not a SQLite database")
        if head[18:20] != b"\x02\x02":
            raise SourceUnavailable("it keeps no write-ahead log: PRAGMA journal_mode = WAL")
        return stat.S_IMODE(os.fstat(self.file).st_mode)

    def _open(self, path: Path, how: int, mode: int = 0) -> int:
        descriptor = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
        self._descriptors.append(descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SourceUnavailable(f"{printable(path.name)} is not a file")
        return descriptor


def _lock(descriptor: int, start: int, length: int) -> None:
    if sys.platform != "linux":
        raise SourceUnavailable("its log can be held on Linux only")
    # struct flock: type, whence, start, length, process (0 for a lock of the open description)
    lock = struct.pack("@hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)


def _written(descriptor: int) -> tuple[int, int, int]:
    """What changes whenever the file is written; nobody can set the last of the three."""
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
