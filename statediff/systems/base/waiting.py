"""Waiting for what starts: as long as it works, whatever the clock says.

A slow or busy machine is no fault of a server. So who waits for one looks at what it does: it
writes its log, uses the processor, waits for the processor or for a disk, or begins and ends
processes. What does none of it for `STALL_SECONDS` hangs; only Linux shows it, and elsewhere the
log alone counts. `MOST_SECONDS` end the wait for one that works and is never ready.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from statediff.systems.base.owner import stat_of

STALL_SECONDS: Final = 60.0
MOST_SECONDS: Final = 900.0
LOOK_SECONDS: Final = 0.25
_WORK_SECONDS: Final = 0.05
"""Seconds of the processor: a program that sleeps and now and then looks at the clock uses less."""
_BUSY: Final = frozenset("RD")
"""States of a process that uses or waits for the processor, or waits for a disk."""
_USER_FIELD: Final = 11
"""The field of /proc/PID/stat behind the name: time used by it and by children it waited for."""


class Patience:
    """How long somebody waits for processes and what they begin, from now on."""

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        written: Callable[[], object] = lambda: None,
        stall_seconds: float = STALL_SECONDS,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        """`written` is another value whenever something was written, e.g. the size of a log."""
        self._pids, self._written = pids, written
        self._stall, self._most = stall_seconds, most_seconds
        self._began = self._worked = time.monotonic()
        self._looked = 0.0
        self._last: object = None

    def is_over(self) -> str | None:
        """The reason why nobody waits any longer; None while it works."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            processes = tuple(_tree(self._pids()))
            is_busy = any(state in _BUSY for _, state, _ in processes)
            used = sum(seconds for _, _, seconds in processes) // _WORK_SECONDS
            mark = self._written(), used, tuple(pid for pid, _, _ in processes)
            if is_busy or mark != self._last:
                self._last, self._worked = mark, now
        if now - self._worked >= self._stall:
            return f"it has done nothing for {self._stall:g} s: no output, no use of the processor"
        if now - self._began >= self._most:
            return f"it is not ready after {self._most:g} s, though it works"
        return None


def communicate(
    process: subprocess.Popen[bytes], given: bytes, stall_seconds: float = STALL_SECONDS
) -> tuple[bytes, bytes, str]:
    """Output and errors of a program that gets `given`, once it has ended.

    Third, why it was killed; empty where it ended by itself.
    """
    patience, why = Patience(lambda: [process.pid], stall_seconds=stall_seconds), ""
    left: bytes | None = given
    try:
        while True:
            try:
                output, errors = process.communicate(left, LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                left, why = None, why or patience.is_over() or ""
                if why:
                    process.kill()
                continue
            return output, errors, why
    except BaseException:
        process.kill()
        raise


def _tree(pids: Iterable[int]) -> Iterator[tuple[int, str, float]]:
    """The processes and all that they began: number, state, seconds of the processor."""
    left, seen = list(pids), set[int]()
    while left:
        pid = left.pop()
        if pid in seen:
            continue
        seen.add(pid)
        if (found := stat_of(pid)) is None:
            continue
        ticks = sum(found[1][_USER_FIELD - 1 : _USER_FIELD + 3])
        yield pid, found[0], ticks / os.sysconf("SC_CLK_TCK")
        with suppress(OSError, ValueError):  # it has ended
            for thread in Path(f"/proc/{pid}/task").iterdir():
                left += map(int, (thread / "children").read_text("ascii").split())


def pids_with(variable: str, value: str) -> list[int]:
    """The processes of this machine that were begun with the variable in their environment.

    So what a command left in the background is found, whatever process is its parent now.
    """
    wanted, found = f"{variable}={value}\0".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
