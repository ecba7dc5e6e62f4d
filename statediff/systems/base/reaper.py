"""A process that outlives this one and cleans up what it left, however it ended.

1. `Reaper(clean, …)` starts it: in a session of its own, so that Ctrl-C and what else strikes the
   terminal's group passes it by, and with no stream or file of ours, so that no pipeline waits for
   it.
2. It holds one end of a pipe whose other end only this process has, and, where the system has such,
   a handle of this process itself. A number is never looked up: a caller that is given the number
   of a dead process later is not taken for it. While it waits it is small: Python, and this file.
3. `release` is the one word that passes through the pipe: nothing is left to clean, it ends.
4. When this process is gone, it becomes a whole Python that calls `clean`, and ends.

`clean` is a function at the top of a module. It may find its work half done.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator

TRIES = 20
_PAUSE_SECONDS = 0.1
_HANDLE = 3
"""The number under which a reaper finds the handle of the process that it waits for."""
_FIRST_FREE = 10
"""Above every number that a reaper is given files under."""
_MOST_FILES = 1 << 16
"""Beyond it nobody has left a file open for us to inherit."""


class Reaper:
    """The process that calls `clean` with these arguments once the one that made this is gone."""

    def __init__(self, clean: Callable[..., None], *arguments: str) -> None:
        name = f"{clean.__module__}:{clean.__qualname__}"
        if clean.__module__ == "__main__" or "." in clean.__qualname__:
            raise ValueError(f"{name} is not a function that another process can import")
        self._parent = os.getpid()
        ours: list[int] = []
        try:
            ours += os.pipe()
            waits, self._line = _raise_descriptor(ours, 0), _raise_descriptor(ours, 1)
            handle = _handle_of(self._parent)
            if handle is not None:
                ours.append(handle)
                handle = _raise_descriptor(ours, 2)
            self.pid = _spawn(waits, handle, name, arguments)
            ours.remove(self._line)
        finally:
            for each in ours:
                os.close(each)

    def is_running(self) -> bool:
        """True if it is there still; False as well in a process that did not make it."""
        try:
            is_there = os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            is_there = False
        if not is_there:
            self._close()
        return is_there

    def release(self) -> None:
        """It has ended, and cleaned nothing. Only the process that made it can say so."""
        if self._parent == os.getpid() and self._line >= 0:
            with contextlib.suppress(BrokenPipeError):  # it was killed
                os.write(self._line, b".")
            with contextlib.suppress(ChildProcessError):  # somebody has seen its end
                os.waitpid(self.pid, 0)
        self._close()

    def _close(self) -> None:
        if self._line >= 0:
            os.close(self._line)
            self._line = -1


def attempts() -> Iterator[None]:
    """A pause after each of some tries: what a dying process had asked for may appear after it."""
    for _ in range(TRIES):
        yield
        time.sleep(_PAUSE_SECONDS)


def _raise_descriptor(files: list[int], at: int) -> int:
    """The file under a number that is none of those a reaper uses; it closes when we exec."""
    higher = fcntl.fcntl(files[at], fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    os.close(files[at])
    files[at] = higher
    return higher


def _handle_of(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # a system without such: the end of the pipe must do


def _spawn(waits: int, handle: int | None, name: str, arguments: tuple[str, ...]) -> int:
    files: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_DUP2, waits, 0)
    ]
    files += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)]
    if handle is not None:
        files.append((os.POSIX_SPAWN_DUP2, handle, _HANDLE))
    path = [os.path.abspath(each) for each in sys.path if each]  # noqa: PTH100 - no pathlib in here
    from statediff.systems.base.privacy import allowed_environment  # noqa: PLC0415 - not while it waits

    # Not a `Popen`: that wants to be waited for, and this process is to outlive us.
    return os.posix_spawn(
        sys.executable,
        [
            sys.executable,
            "-I",
            "-S",
            __file__,
            "wait",
            "-" if handle is None else "handle",
            name,
            *arguments,
        ],
        {**allowed_environment(), "PYTHONPATH": os.pathsep.join(path)},
        file_actions=files,
        setsid=True,
    )


def _wait(has_handle: bool) -> bool:
    """True if the process that began this one is gone; False where it has released it."""
    watched = [0, _HANDLE] if has_handle else [0]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready:
            if os.read(0, 1):
                return False
            if not has_handle:
                return True
            watched = [_HANDLE]  # whatever closed the pipe: whether the process lives, this says
        if _HANDLE in ready:
            return True


def _main(step: str, how: str, name: str, *arguments: str) -> None:
    if step == "wait":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.chdir("/")
        has_handle = how == "handle"
        os.closerange(_HANDLE + has_handle, _MOST_FILES)
        if _wait(has_handle):
            # Anew, with the packages that the cleaning function needs; the signals stay ignored.
            command = [sys.executable, "-P", __file__, "clean", how, name, *arguments]
            os.execv(sys.executable, command)  # noqa: S606 - no shell is wanted
    else:
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function)(*arguments)


if __name__ == "__main__":
    _main(*sys.argv[1:])
