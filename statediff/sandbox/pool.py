"""Sandboxes for several workers at once: one for each, put back while its worker does other things.

Nobody shares a sandbox. One that is handed back is reset in the background, so that whoever leases
it next finds the work done; a trial still proves its reset itself, because only then is it known.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from statediff.sandbox.protocol import Sandbox

S = TypeVar("S", bound=Sandbox)


class SandboxPool(Generic[S]):
    """`size` running sandboxes, made by `make` in folders of their own under `work`.

    A context manager: it starts all of them at once and stops all of them, whatever happens.
    """

    def __init__(self, make: Callable[[Path], S], size: int, work: Path) -> None:
        self._all = tuple(make(work / str(number)) for number in range(size))
        self._free: queue.SimpleQueue[tuple[S, Future[None] | None]] = queue.SimpleQueue()
        self._resets = ThreadPoolExecutor(max(1, size))

    @contextmanager
    def lease(self) -> Iterator[S]:
        """A sandbox that nobody else has; waits for one. Raises what its last reset raised."""
        sandbox, reset = self._free.get()
        try:
            if reset is not None:
                reset.result()
            yield sandbox
        finally:
            self._free.put((sandbox, self._resets.submit(sandbox.reset)))

    def __enter__(self) -> Self:
        try:
            for started in [self._resets.submit(sandbox.start) for sandbox in self._all]:
                started.result()
        except BaseException:
            self._stop()
            raise
        for sandbox in self._all:
            self._free.put((sandbox, None))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._resets.shutdown(wait=True, cancel_futures=True)
        with ThreadPoolExecutor(max(1, len(self._all))) as several:
            stops = [several.submit(sandbox.stop) for sandbox in self._all]
        for stopped in stops:
            stopped.result()
