"""Room on the disks that an agent may fill, kept for what the evaluator writes after its end.

It is allocated before the agent begins, so that it is there however fast the agent writes. What
holds it has no name: nobody sees or removes it, and it goes with this process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Final, Self

from statediff.agents.trial import Trial, path_of
from statediff.errors import StorageError

ROOM_BYTES: Final = 16 * 1024**2
"""For what a trial leaves, beside a copy of each file that the agent was given."""
FULL_BYTES: Final = 8 * 1024**2
FULL_FILES: Final = 100
"""A disk is full that has less left."""
_LEAST_BYTES: Final = 2 * 1024**2
_FILES: Final = 48
_OTHERS_SECONDS: Final = 2.0
"""Within this the supervisor of another trial has stopped an agent that fills the same disk."""


class Room:
    """A context manager: room on each disk of the folders, which is free when the block is over.

    `StorageError` where a folder's disk has none.
    """

    def __init__(self, folders: Iterable[Path], size: int = ROOM_BYTES) -> None:
        """Take `size` bytes of each disk, or half of what is left where that is less."""
        self._files: dict[int, IO[bytes]] = {}
        self._lines: list[socket.socket] = []
        self._full: set[int] = set()
        for folder in folders:
            if not os.access(folder, os.W_OK):
                continue  # no agent of ours writes there, either
            try:
                self._take(folder, size)
            except OSError as error:
                self._let_go()
                raise StorageError(
                    f"{folder}: there is no room for what the trial leaves: {error.strerror}; "
                    "free some space or choose another folder"
                ) from error

    @staticmethod
    def of(trial: Trial, *folders: Path) -> Room:
        """For the end of a trial: on these disks, its own, and the one of temporary files."""
        files = (path for path in map(path_of, trial.urls.values()) if path is not None)
        size = ROOM_BYTES + sum(path.stat().st_size for path in files if path.is_file())
        return Room((*folders, Path(tempfile.gettempdir()), *trial.writable), size)

    def _take(self, folder: Path, size: int) -> None:
        device = folder.stat().st_dev
        if device in self._files:
            return
        file = self._files[device] = tempfile.TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115 - held
        if _is_full(file):
            self._full.add(device)
        disk = os.fstatvfs(file.fileno())
        _allocate(file, max(_LEAST_BYTES, min(size, disk.f_bavail * disk.f_frsize // 2)))
        if disk.f_files:
            with contextlib.suppress(OSError):  # too many are held already
                self._lines.append(_held_files(folder, min(_FILES, disk.f_favail // 2)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        until = time.monotonic() + _OTHERS_SECONDS
        while time.monotonic() < until and any(
            device not in self._full and _is_full(file) for device, file in self._files.items()
        ):  # else an agent of another trial that fills the disk takes this, too
            time.sleep(0.05)
        self._let_go()

    def _let_go(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError), file:
                file.truncate(0)  # a process that was forked meanwhile may have it open
        for line in self._lines:
            line.close()


def _is_full(file: IO[bytes]) -> bool:
    disk = os.fstatvfs(file.fileno())
    has_no_file = bool(disk.f_files) and disk.f_favail < FULL_FILES
    return has_no_file or disk.f_bavail * disk.f_frsize < FULL_BYTES


def _allocate(file: IO[bytes], size: int) -> None:
    while True:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError:  # a quota, of which the disk says nothing
            file.truncate(0)
            if size <= _LEAST_BYTES:
                raise
            size = max(_LEAST_BYTES, size // 4)


def _held_files(folder: Path, number: int) -> socket.socket:
    """So many empty files: they are on their way to this socket, and take none of our numbers."""
    held, giving = socket.socketpair()
    with contextlib.ExitStack() as stack:
        stack.enter_context(giving)
        try:
            files: list[IO[Any]] = [
                stack.enter_context(tempfile.TemporaryFile(buffering=0, dir=folder))
                for _ in range(number)
            ]
            socket.send_fds(giving, [b"-"], [file.fileno() for file in files])
        except BaseException:
            held.close()
            raise
    return held
