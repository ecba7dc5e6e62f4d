"""A folder of recorded runs, worked on piece by piece by one process or several, in order.

Every process opens the folder once and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Final, Self, TypeVar

from statediff.errors import UsageError
from statediff.parallel import Processes, in_order
from statediff_lab.importers.recorded import Suite, open_suite

MAX_JOBS: Final = 64
FEW: Final = 3
"""Pieces that are done sooner than a process is started."""
Piece = TypeVar("Piece")
Done = TypeVar("Done")


@dataclass(frozen=True)
class CaseFolder:
    """A folder of recorded runs, and the format to read it as."""

    suite: str
    folder: Path

    def open(self) -> Suite:
        """The folder, open; `UsageError` if it is not of the format."""
        return open_suite(self.suite, self.folder)


class Workers:
    """The processes that do the work; one job, or little work, is done here. Use as a context.

    An interrupt lets the pieces in hand end and starts no other.
    """

    def __init__(self, cases: CaseFolder, jobs: int) -> None:
        if not 1 <= jobs <= MAX_JOBS:
            raise UsageError(f"-j {jobs}: expected a number of processes from 1 to {MAX_JOBS}")
        self.cases = cases
        self._jobs = jobs
        self._processes: Processes | None = None

    @cached_property
    def suite(self) -> Suite:
        """The folder, as this process sees it."""
        return self.cases.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._processes is not None:
            self._processes.shutdown(wait=True, cancel_futures=True)

    def in_order(
        self, work: Callable[[Suite, Piece], Done], pieces: Iterable[Piece]
    ) -> Iterator[Done]:
        """The work done on each piece, in their order; `work` is a function of a module."""
        rest = iter(pieces)
        first = list(islice(rest, FEW + 1))
        every = chain(first, rest)
        if self._jobs == 1 or (self._processes is None and len(first) <= FEW):
            yield from (work(self.suite, piece) for piece in every)
            return
        if self._processes is None:
            self._processes = Processes(self._jobs)
        there = partial(_work_there, self.cases, work)
        yield from in_order(self._processes, 2 * self._jobs, there, every)


def _work_there(cases: CaseFolder, work: Callable[[Suite, Piece], Done], piece: Piece) -> Done:
    return work(_open_here(cases), piece)


@lru_cache(maxsize=1)
def _open_here(cases: CaseFolder) -> Suite:
    """The folder, as a process of `Workers` keeps it."""
    return cases.open()
