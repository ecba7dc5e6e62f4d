"""One piece of work after another, done by several processes and returned in order.

Every process opens the folder of runs once and keeps it. Only a few pieces are ever in flight, so
memory follows the number of processes, not the number of runs.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from statediff.errors import UsageError
from statediff.importers.recorded import Suite
from statediff.importers.registry import open_suite

MAX_JOBS: Final = 64
FEW: Final = 3
"""Pieces that are done sooner than a process is started."""
Piece = TypeVar("Piece")
Done = TypeVar("Done")


@dataclass(frozen=True)
class Cases:
    """A folder of recorded runs, and the format to read it as."""

    suite: str
    folder: Path

    def opened(self) -> Suite:
        """The folder, open; `UsageError` if it is not of the format."""
        return open_suite(self.suite, self.folder)


class Workers:
    """The processes that do the work; one job, or little work, is done here. Use as a context.

    An interrupt lets the pieces in hand end and starts no other.
    """

    def __init__(self, cases: Cases, jobs: int) -> None:
        if not 1 <= jobs <= MAX_JOBS:
            raise UsageError(f"-j {jobs}: expected a number of processes from 1 to {MAX_JOBS}")
        self.cases = cases
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    @cached_property
    def suite(self) -> Suite:
        """The folder, as this process sees it."""
        return self.cases.opened()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def in_order(
        self, work: Callable[[Suite, Piece], Done], pieces: Iterable[Piece]
    ) -> Iterator[Done]:
        """The work done on each piece, in their order; `work` is a function of a module."""
        rest = iter(pieces)
        first = list(islice(rest, FEW + 1))
        if self._jobs == 1 or (self._pool is None and len(first) <= FEW):
            for piece in chain(first, rest):
                yield work(self.suite, piece)
            return
        waiting: deque[Future[Done]] = deque()
        for piece in chain(first, rest):
            with uninterrupted():
                waiting.append(self._started().submit(_do, work, piece))
            if len(waiting) > 2 * self._jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Spawned, not forked: a fork copies the locks of Arrow's threads, held or not.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._jobs, context, _begin, (self.cases,))
        return self._pool


@contextmanager
def uninterrupted() -> Iterator[None]:
    """An interrupt waits; a process that is started meanwhile never gets one.

    Otherwise Ctrl-C at a terminal, which goes to everybody, hits a process that has yet to learn
    to leave it to its parent.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class _Kept:
    """What one process keeps between pieces."""

    cases: Cases | None = None
    suite: Suite | None = None


_KEPT = _Kept()


def _begin(cases: Cases) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer
    _KEPT.cases = cases


def _do(work: Callable[[Suite, Any], Any], piece: Any) -> Any:
    if _KEPT.suite is None:
        if _KEPT.cases is None:
            raise AssertionError("a process works only after it was told on what")
        _KEPT.suite = _KEPT.cases.opened()
    return work(_KEPT.suite, piece)
