"""Trials on several sandboxes at once: results in the order of the schedule, and an end to all.

A worker is a thread that has one sandbox for the length of a job. What a job raises is raised
where its result is asked for, as with any executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from statediff.sandbox.pool import SandboxPool
from statediff.sandbox.protocol import Sandbox

S = TypeVar("S", bound=Sandbox)
T = TypeVar("T")


@dataclass(frozen=True)
class Job(Generic[S, T]):
    """What is to be done in a sandbox of the pool called `sandbox`."""

    sandbox: str
    work: Callable[[S], T]


def in_order(
    jobs: Sequence[Job[S, T]],
    pools: Mapping[str, SandboxPool[S]],
    workers: int,
    halt: Callable[[], None],
) -> Iterator[T]:
    """What each job returned, in the order of the jobs, however they end.

    Whatever ends the iteration early, Ctrl-C too: no further job begins, `halt()` asks those that
    run to end, and they have ended. What jobs had returned by an interrupt is still delivered.
    """
    if workers == 1:
        for job in jobs:
            yield _done(job, pools)
        return
    several = ThreadPoolExecutor(workers, thread_name_prefix="trial")
    futures: list[Future[T]] = [several.submit(_done, job, pools) for job in jobs]
    told = 0
    try:
        for future in futures:
            result = future.result()
            told += 1
            yield result
    except KeyboardInterrupt:
        _end(several, halt)
        for future in futures[told:]:
            if not future.cancelled() and future.exception() is None:
                yield future.result()
        raise
    finally:
        _end(several, halt)


def _done(job: Job[S, T], pools: Mapping[str, SandboxPool[S]]) -> T:
    with pools[job.sandbox].lease() as sandbox:
        return job.work(sandbox)


def _end(several: ThreadPoolExecutor, halt: Callable[[], None]) -> None:
    several.shutdown(wait=False, cancel_futures=True)
    halt()
    several.shutdown(wait=True)
