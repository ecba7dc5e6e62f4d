"""Writes to the index of a write-ahead log that SQLite does not make.

SQLite changes the index (the `-shm` file) in mapped memory. It writes to the file only to let it
grow, one region of 32 KiB at a time and each byte of that in one go. So a file that was written
more often than it grew was written by somebody else: a copy of the log and its index, put back
after a change, makes the change and everything after it look as if it had never been.

The kernel notes the writes (inotify), merging those of one file that follow each other with nothing
in between; what is written to the log stands in between. A writer that maps the index as SQLite
does is not noticed.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

REGION_BYTES: Final = 32 * 1024
_MODIFY: Final = 2
_OVERFLOW: Final = 0x4000
_EVENT: Final = struct.Struct("iIII")
_MOST_BYTES: Final = 1024 * 1024


class IndexWrites:
    """Notes writes to an index from now on; `log` and `index` are open. Raises `OSError`."""

    def __init__(self, log: int, index: int) -> None:
        self._index = index
        self._count = 0
        self._regions = _regions(index)
        self._library = ctypes.CDLL(None, use_errno=True)
        self._queue = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._watched = self._watch(index)
            self._watch(log)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Nothing is noted any more."""
        os.close(self._queue)

    def are_all_of_sqlite(self) -> bool:
        """Whether the index was written once for each growth, at most."""
        try:
            while events := os.read(self._queue, _MOST_BYTES):
                at = 0
                while at < len(events):
                    watched, mask, _cookie, length = _EVENT.unpack_from(events, at)
                    if mask & _OVERFLOW:
                        self._count += _OVERFLOW
                    self._count += watched == self._watched and bool(mask & _MODIFY)
                    at += _EVENT.size + length
        except BlockingIOError:
            pass  # these were all
        return self._count <= _regions(self._index) - self._regions

    def _watch(self, descriptor: int) -> int:
        path = f"/proc/self/fd/{descriptor}".encode()
        return self._call("inotify_add_watch", self._queue, path, _MODIFY)

    def _call(self, name: str, *arguments: int | bytes) -> int:
        found = int(getattr(self._library, name)(*arguments))
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return found


def _regions(index: int) -> int:
    return -(-os.fstat(index).st_size // REGION_BYTES)
