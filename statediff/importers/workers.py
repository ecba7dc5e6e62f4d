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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from statediff.errors import UsageError
from statediff.importers.recorded import Suite
from statediff.importers.registry import open_suite

MAX_JOBS: Final = 64
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


def in_order(
    cases: Cases, work: Callable[[Suite, Piece], Done], pieces: Iterable[Piece], jobs: int
) -> Iterator[Done]:
    """The work done on each piece, in the order of the pieces; `work` is a module's function.

    With one job all is done here. An interrupt lets the pieces in hand end and starts no other.
    """
    if not 1 <= jobs <= MAX_JOBS:
        raise UsageError(f"-j {jobs}: expected a number of processes from 1 to {MAX_JOBS}")
    if jobs == 1:
        suite = cases.opened()
        for piece in pieces:
            yield work(suite, piece)
        return
    # Spawned, not forked: a fork copies the locks of Arrow's threads, held or not.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _begin, (cases,))
    waiting: deque[Future[Done]] = deque()
    try:
        for piece in pieces:
            waiting.append(pool.submit(_do, work, piece))
            if len(waiting) > 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


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
