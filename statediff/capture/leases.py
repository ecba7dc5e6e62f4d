"""Who uses a chunk store: a lease a user, and a gate through which chunks come and go.

A lease is a file in `.leases/` that its owner keeps locked; the lock ends with the owner, however
it ends. Whatever the owner relies on, it has put since its lease began, and putting a chunk that
is there already renews the chunk's time. So a chunk older than every live lease is relied on by
nobody. The gate is a lock on the folder: shared by whoever puts, exclusive for whoever removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LEASES: Final = ".leases"
_serial = itertools.count()


class Lease:
    """This process's use of a store, from now until it ends or the object is gone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._own = threading.local()
        place = Path(folder) / LEASES
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{os.getpid()}-{next(_serial)}"
        while True:
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A collector may have taken the new file, not locked yet, for a dead one's.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    break
            os.close(descriptor)
        self._end = weakref.finalize(self, _end, descriptor, str(path), os.getpid())

    @contextlib.contextmanager
    def gate(self) -> Iterator[None]:
        """Nothing is removed while it is held."""
        # A lock belongs to an open file: threads that shared one would end each other's.
        gate = getattr(self._own, "gate", None)
        if gate is None:
            gate = self._own.gate = _Folder(self._folder)
        with gate.locked(fcntl.LOCK_SH):
            yield


class _Folder:
    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._descriptor)

    @contextlib.contextmanager
    def locked(self, how: int) -> Iterator[None]:
        fcntl.flock(self._descriptor, how)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)


def _end(descriptor: int, path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child ends nobody else's lease
        Path(path).unlink(missing_ok=True)
    os.close(descriptor)


@contextlib.contextmanager
def closed_gate(folder: Path) -> Iterator[None]:
    """Nothing is put while it is held."""
    with _Folder(str(folder)).locked(fcntl.LOCK_EX):
        yield


def oldest_use(folder: Path) -> int | None:
    """When the oldest live lease began, in nanoseconds of the file system's clock; None: no lease.

    Leases of owners that are gone are removed. The gate is closed.
    """
    began: list[int] = []
    for path in sorted((folder / LEASES).glob("*")):
        try:
            descriptor = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            began.append(os.fstat(descriptor).st_mtime_ns)
        else:
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return min(began, default=None)
