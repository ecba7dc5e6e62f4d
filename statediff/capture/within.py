"""A reading that ends: what a run wrote is read for so long, and no longer.

Readers bound what they do by sizes; this bounds all of them together. The time is that of the
processor in the thread that reads, so that what else runs on the machine hardly counts. Python code
is ended between two of its steps, as by Ctrl-C. One call of a library in C goes on to its end.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")

SECONDS: Final = 600.0
"""As long as an agent may take where nobody says how long."""
LEAST_SECONDS: Final = 10.0
"""A trial may be short; what its readers import, and a state as tasks leave it, takes less."""
LOOK_SECONDS: Final = 0.5
"""Between two looks at the time; a library may take an error for its own, and is ended again."""
_STEPS: Final = 10_000
_allowed: ContextVar[float] = ContextVar("allowed", default=SECONDS)


class OutOfTime(Exception):
    """A step took more time of the processor than it may."""


class _Ended(BaseException):
    """Is raised in the thread that reads."""


@contextmanager
def readings_within(seconds: float | None) -> Iterator[None]:
    """Readings of this context may take as long each as the agent, for which None is no limit."""
    if seconds is None or not math.isfinite(seconds):
        seconds = SECONDS
    token = _allowed.set(max(seconds, LEAST_SECONDS))
    try:
        yield
    finally:
        _allowed.reset(token)


def in_time(step: Callable[[], T], least: float = 0.0) -> T:
    """The result of the step. `OutOfTime` where it takes longer than is allowed, and than `least`.

    Both are seconds of the processor.
    """
    reading = _Reading(max(_allowed.get(), least))
    try:
        try:
            _WATCH.begin(reading)
            return step()
        finally:
            _WATCH.end(reading)
    except _Ended:
        _WATCH.end(reading)
        raise OutOfTime(f"{reading.seconds:.0f} s of the processor") from None


class _Reading:
    """A step of the thread that makes this."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.thread = threading.get_ident()
        self.is_ended = False
        self._spent = _clock_of(self.thread)
        self._until = self._spent() + seconds

    @property
    def is_late(self) -> bool:
        return self._spent() >= self._until


class _Watch:
    """Ends readings, in a thread that there is while there are any, and for a moment after."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a forked process, which has no other thread."""
        self._lock = threading.Lock()
        self._open: set[_Reading] = set()
        self._is_running = False

    def begin(self, reading: _Reading) -> None:
        with self._lock:
            self._open.add(reading)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, daemon=True).start()

    def end(self, reading: _Reading) -> None:
        """Nothing is raised any more in the thread of the reading, which calls this."""
        while True:
            try:
                with self._lock:
                    self._open.discard(reading)
                break
            except _Ended:
                continue
        if reading.is_ended:
            # What waits to be raised is let come: to take it back leaves Python 3.11 looking for it
            # at each step from then on, and for ever where a program is traced.
            with suppress(_Ended):
                for _ in range(_STEPS):
                    pass

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                if not self._open:
                    self._is_running = False
                    return
                for reading in self._open:
                    if reading.is_late:
                        reading.is_ended = True
                        _raise_in(reading.thread)


_WATCH: Final = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCH.forget)


def _clock_of(thread: int) -> Callable[[], float]:
    """The processor's time of the thread; where the system has none for another's, the clock's."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


def _raise_in(thread: int) -> None:
    """Python raises `_Ended` in the thread before its next step."""
    what = ctypes.py_object(_Ended)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
