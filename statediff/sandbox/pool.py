"""Sandboxes for several workers at once: one for each, and nobody shares one.

A sandbox is handed out as its last user left it: a trial puts it back itself, and proves that.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
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
        self._free: queue.SimpleQueue[S] = queue.SimpleQueue()

    @contextmanager
    def lease(self) -> Iterator[S]:
        """A sandbox that nobody else has; waits for one."""
        sandbox = self._free.get()
        try:
            yield sandbox
        finally:
            self._free.put(sandbox)

    def __enter__(self) -> Self:
        try:
            self._each(lambda sandbox: sandbox.start())
        except BaseException:
            self._stop()
            raise
        for sandbox in self._all:
            self._free.put(sandbox)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._each(lambda sandbox: sandbox.stop())

    def _each(self, action: Callable[[S], None]) -> None:
        """Done to all, at once; raises what the first that failed raised, after all have ended."""
        with ThreadPoolExecutor(max(1, len(self._all))) as several:
            done = [several.submit(action, sandbox) for sandbox in self._all]
            wait(done)
        for one in done:
            one.result()
