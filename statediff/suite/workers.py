"""Who makes trials: this process, processes of its own, or a Dask cluster; all are executors.

None of them tries anything twice by itself: the caller decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from concurrent.futures import ThreadPoolExecutor as Threads
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from statediff.parallel import Inline, Processes, Start
from statediff.suite.sandbox_pool import STANDING

END_SECONDS: Final = 15.0
"""How long a worker that was asked to end may take; its reaper removes what it leaves."""


@dataclass(frozen=True)
class Workers:
    """An executor, and what must be known of it to make trials on it."""

    executor: Executor
    slots: Callable[[], int]
    """How many trials it makes at once, as of now."""
    halt: Callable[[], None]
    """What runs is asked to end, and has ended where that can be waited for."""
    lost: tuple[type[BaseException], ...] = ()
    """What a future raises whose worker ended."""


@contextmanager
def in_this_process(number: int, halt: Callable[[], None]) -> Iterator[Workers]:
    """So many threads; one is the caller's own, so that Ctrl-C reaches it at once."""
    executor: Executor = Inline() if number == 1 else Threads(number, thread_name_prefix="trial")

    def end() -> None:
        halt()
        executor.shutdown(wait=True, cancel_futures=True)

    try:
        yield Workers(executor, lambda: number, end)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def processes(number: int, preload: Sequence[str] = ()) -> Iterator[Workers]:
    """So many processes. One that ends takes the trial with it that it was at, and no other.

    `preload` are the modules that what they do needs.
    """
    start = Start("forkserver", (__name__, *preload), END_SECONDS, _close_sandboxes)
    executor = Processes(number, start)

    def end() -> None:
        executor.halt()
        executor.shutdown(wait=True, cancel_futures=True)

    try:
        yield Workers(executor, lambda: number, end, (BrokenExecutor,))
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _close_sandboxes() -> None:
    STANDING.close()
