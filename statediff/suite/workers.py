"""Who makes trials: this process, processes of its own, or a Dask cluster; all are executors.

Whatever is handed to them is a function of a module with an argument that can be pickled. None of
them tries anything twice by itself: whoever submits decides that.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures import ThreadPoolExecutor as Threads
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any, Final, ParamSpec, TypeVar

from statediff.suite.standing import STANDING

P = ParamSpec("P")
T = TypeVar("T")
END_SECONDS: Final = 15.0
"""How long a worker that was asked to end may take."""


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
    """So many threads; one is whoever submits, so that Ctrl-C reaches it at once."""
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
    executor = Processes(number, preload)

    def end() -> None:
        executor.halt()
        executor.shutdown(wait=True, cancel_futures=True)

    try:
        yield Workers(executor, lambda: number, end, (BrokenExecutor,))
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


class Inline(Executor):
    """What is submitted is done before `submit` returns."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as any executor: it is raised where it is asked for
            future.set_exception(error)
        return future


class Processes(Executor):
    """Pools of one process each: a pool ends as a whole if one of its processes does."""

    def __init__(self, number: int, preload: Sequence[str] = ()) -> None:
        # The modules are imported once, in a process that the others are forked from.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["statediff.suite.workers", *preload])
        self._slots = [_Slot(context) for _ in range(number)]
        self._told: set[int] = set()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        slot = min(self._slots, key=lambda each: each.busy)
        return slot.submit(fn, *args, **kwargs)

    def pids(self) -> list[int]:
        """The processes that have begun."""
        return [pid for slot in self._slots if (pid := slot.pid()) is not None]

    def halt(self) -> None:
        """Every process is asked to end what it is at."""
        for pid in self.pids():
            if pid not in self._told:  # a second time it would interrupt the end itself
                self._told.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for slot in self._slots:
            slot.pool.shutdown(wait=False, cancel_futures=cancel_futures)
        if not wait:
            return
        until = time.monotonic() + END_SECONDS
        try:
            while any(slot.busy for slot in self._slots) and time.monotonic() < until:
                self.halt()  # one that was not there yet when it was asked
                time.sleep(0.01)
        finally:
            for slot in self._slots:
                pid = slot.pid() if slot.busy else None
                if pid is not None:  # its keeper puts away what it leaves
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for slot in self._slots:
                slot.pool.shutdown(wait=True)


class _Slot:
    """One process, and another one when it has ended."""

    def __init__(self, context: BaseContext) -> None:
        self.busy = 0
        self._lock = threading.Lock()
        self._context = context
        self._begin()

    def _begin(self) -> None:
        self.pool = ProcessPoolExecutor(
            1,
            mp_context=self._context,
            initializer=_begun,
            initargs=(os.getcwd(),),  # noqa: PTH109 - text
        )
        self._pid: Future[int] | None = None

    def pid(self) -> int | None:
        if self._pid is None or not self._pid.done() or self._pid.exception() is not None:
            return None
        return self._pid.result()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            future = self._submitted(fn, *args, **kwargs)
        except BrokenExecutor:  # it ended while it had nothing to do
            self._begin()
            future = self._submitted(fn, *args, **kwargs)
        with self._lock:
            self.busy += 1
        future.add_done_callback(self._ended)
        return future

    def _submitted(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if self._pid is None:
            self._pid = self.pool.submit(os.getpid)
        return self.pool.submit(_attended, fn, *args, **kwargs)

    def _ended(self, _: Future[Any]) -> None:
        with self._lock:
            self.busy -= 1


# -- in a process of `Processes`

_working = threading.Event()


def _begun(folder: str) -> None:
    """It stands where its parent stands, leaves Ctrl-C to it, ends with it, and when asked."""
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _asked)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _asked(_number: int, _frame: object) -> None:
    if _working.is_set():
        raise KeyboardInterrupt
    STANDING.close()
    os._exit(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # At once: the trial is lost in any case, and the keeper ends its agent.
        os._exit(1)


def _attended(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    _working.set()
    try:
        return fn(*args, **kwargs)
    except KeyboardInterrupt:
        # What it was at has ended in order. Nothing is begun in a process that was asked to end.
        _working.clear()
        STANDING.close()
        os._exit(1)
    finally:
        _working.clear()
