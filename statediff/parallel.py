"""Work done by several processes: an executor whose processes may die, and pieces handed to it.

* `Processes` is an executor of processes. One that dies takes the call with it that it was at,
  whose future raises `BrokenExecutor`, and no other; the next call gets a new process.
* `Inline` is the executor of this process.
* `in_order` and `as_done` hand pieces to an executor, few at a time, so that memory follows the
  number of processes and not that of the pieces. `work_through` makes the executor, too.

What is handed over is a function of a module with arguments that can be pickled. Nothing is tried
twice: the caller decides that. Ctrl-C at a terminal goes to every process; here it is the parent's
to answer, who begins nothing more and either lets the calls in hand end or asks them to.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import forkserver, resource_tracker
from typing import Any, Literal, ParamSpec, TypeVar

from statediff.sparing import import_sparingly
from statediff.systems.base.privacy import bare_environment

P = ParamSpec("P")
T = TypeVar("T")
Piece = TypeVar("Piece")
Done = TypeVar("Done")


@dataclass(frozen=True)
class Start:
    """How the processes are started, and how they end."""

    method: Literal["spawn", "forkserver"] = "spawn"
    """Never `fork`: a fork copies the locks of Arrow's threads, held or not."""
    preload: tuple[str, ...] = ()
    """With `forkserver`: modules imported once, in the process that the others are forked from."""
    end_seconds: float | None = None
    """At the end, calls in hand are interrupted, and killed so many seconds later. None: they end
    by themselves."""
    close: Callable[[], object] | None = None
    """Called in a process that was interrupted, before it ends; a function of a module."""


class Inline(Executor):
    """An executor that does its work before `submit` returns."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as any executor: `result` raises it
            future.set_exception(error)
        return future


class Processes(Executor):
    """Pools of one process each: a pool ends as a whole if one of its processes does.

    A process is started by the first call that it gets. A call goes to the one with the fewest.
    """

    def __init__(self, number: int, start: Start | None = None) -> None:
        self._start = start or Start()
        self._slots = [_Slot(self._start) for _ in range(number)]
        self._interrupted: set[int] = set()
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._is_shut:  # a slot whose process died would begin another
            raise RuntimeError("cannot schedule new futures after shutdown")
        slot = min(self._slots, key=lambda each: each.busy)
        return slot.submit(fn, *args, **kwargs)

    def pids(self) -> list[int]:
        """The processes that have begun."""
        return [pid for slot in self._slots if (pid := slot.pid()) is not None]

    def halt(self) -> None:
        """Every process is asked to end what it is at."""
        for pid in self.pids():
            if pid not in self._interrupted:  # a second time it would interrupt the end itself
                self._interrupted.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut = True
        for slot in self._slots:
            slot.shut(cancel_futures)
        if not wait:
            return
        try:
            if self._start.end_seconds is not None:
                self._end(self._start.end_seconds)
        finally:
            for slot in self._slots:
                slot.join()

    def _end(self, seconds: float) -> None:
        """Interrupt what runs, and kill it later or when this is interrupted itself.

        Each is asked again: one may not have begun yet when the others were asked.
        """
        until = time.monotonic() + seconds
        try:
            while self._is_busy() and time.monotonic() < until:
                self.halt()
                time.sleep(0.01)
        finally:
            while self._is_busy():
                for slot in self._slots:
                    pid = slot.pid() if slot.busy else None
                    if pid is not None:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)

    def _is_busy(self) -> bool:
        return any(slot.busy for slot in self._slots)


class _Slot:
    """One process, and another one when it has ended."""

    def __init__(self, start: Start) -> None:
        self.busy = 0
        self._ending: threading.Thread | None = None
        self._lock = threading.Lock()
        self._start = start
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context(self._start.method)
        whole = None
        if self._start.method == "forkserver":
            context.set_forkserver_preload([__name__, *self._start.preload])
            # The server and the tracker show their environment for as long as they run.
            with bare_environment() as whole:
                resource_tracker.ensure_running()
                forkserver.ensure_running()
        self.pool = ProcessPoolExecutor(
            1,
            mp_context=context,
            initializer=_begun,
            initargs=(os.getcwd(), self._start, whole),  # noqa: PTH109 - text
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
        # One that is forked has the mask of its server, and is forked deaf to Ctrl-C.
        is_spawned = self._start.method == "spawn"
        with _uninterrupted() if is_spawned else contextlib.nullcontext():
            if self._pid is None:
                self._pid = self.pool.submit(os.getpid)
            return self.pool.submit(_attended, fn, *args, **kwargs)

    def shut(self, cancel_futures: bool) -> None:
        """Nothing more is begun; the process ends when it has no call in hand.

        A pool that was shut down without waiting cannot be waited for later, so a thread waits.
        """
        if self._ending is None:
            what = {"wait": True, "cancel_futures": cancel_futures}
            self._ending = threading.Thread(target=self.pool.shutdown, kwargs=what)
            self._ending.start()

    def join(self) -> None:
        """The process has ended."""
        if self._ending is not None:
            self._ending.join()

    def _ended(self, _: Future[Any]) -> None:
        with self._lock:
            self.busy -= 1


@contextmanager
def _uninterrupted() -> Iterator[None]:
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


# -- pieces


def in_order(
    executor: Executor,
    ahead: int,
    work: Callable[[Piece], Done],
    pieces: Iterable[Piece],
    lost: Callable[[Piece], Done] | None = None,
) -> Iterator[Done]:
    """The work done on each piece, in their order; at most `ahead` pieces wait behind one.

    Of a piece whose process died `lost` says what stands in its place; without it, that raises.
    """
    waiting: deque[tuple[Piece, Future[Done]]] = deque()

    def first() -> Done:
        piece, future = waiting.popleft()
        try:
            return future.result()
        except BrokenExecutor:
            if lost is None:
                raise
            return lost(piece)

    for piece in pieces:
        waiting.append((piece, executor.submit(work, piece)))
        if len(waiting) > ahead:
            yield first()
    while waiting:
        yield first()


def as_done(
    executor: Executor, number: int, work: Callable[[Piece], Done], pieces: Iterable[Piece]
) -> Iterator[tuple[int, Done]]:
    """(place of the piece, the work done on it) as soon as it is; `number` are in hand at once."""
    rest = enumerate(pieces)
    running: dict[Future[Done], int] = {}
    while True:
        for at, piece in islice(rest, number - len(running)):
            running[executor.submit(work, piece)] = at
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=running.__getitem__):
            yield running.pop(future), future.result()


def work_through(
    work: Callable[[Piece], Done],
    pieces: Sequence[Piece],
    jobs: int,
    report: Callable[[Piece, Done], object],
) -> list[Done]:
    """The work done on each piece, in their order; `report` gets each as soon as it is done.

    An interrupt lets the pieces in hand end and begins no other.
    """
    number = min(jobs, len(pieces))
    executor = Processes(number) if number > 1 else Inline()
    found: dict[int, Done] = {}
    try:
        for at, done in as_done(executor, number, work, pieces):
            found[at] = done
            report(pieces[at], done)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
    return [found[at] for at in range(len(pieces))]


# -- in a process of `Processes`


@dataclass
class _Here:
    start: Start | None = None

    def close(self) -> None:
        if self.start is not None and self.start.close is not None:
            self.start.close()


_here = _Here()
_idle = threading.Event()
_idle.set()


def _begun(folder: str, start: Start, environment: dict[str, str] | None) -> None:
    """It is where its parent is, leaves Ctrl-C to it, ends with it, and when asked."""
    os.chdir(folder)
    os.environ.update(environment or {})
    _here.start = start
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _asked)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if start.method == "spawn" or "pyarrow" in sys.modules:
        import_sparingly()


def _asked(_number: int, _frame: object) -> None:
    if not _idle.is_set():
        raise KeyboardInterrupt
    _here.close()
    os._exit(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    if _here.start is not None and _here.start.end_seconds is None:
        _idle.wait()  # what it is at puts away what it made
    # Otherwise at once: the call is lost in any case.
    os._exit(1)


def _attended(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    _idle.clear()
    try:
        return fn(*args, **kwargs)
    except KeyboardInterrupt:
        # What it was at has ended in order. Nothing is begun in a process that was asked to end.
        _idle.set()
        _here.close()
        os._exit(1)
    finally:
        _idle.set()
