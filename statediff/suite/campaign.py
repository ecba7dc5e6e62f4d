"""Episodes on workers: each until it has an end that counts, told as they end.

1. As many are handed over as the workers have room for, and no more.
2. What ends is told; what may well end otherwise is begun anew, a bounded number of times.
3. A worker that is lost costs the one episode that it was at.

Whatever ends the iteration early, Ctrl-C too: no further episode begins, those that run are asked
to end and have ended, and what they had finished is still told.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar

from statediff.suite.workers import Workers

E = TypeVar("E")
O = TypeVar("O")  # noqa: E741 - an outcome, as E is an episode
LOOK_SECONDS: Final = 0.5
"""How often somebody looks up though nothing ended: rooms may have come, and times go on."""


@dataclass(frozen=True)
class Rules(Generic[E, O]):
    """What an episode is, as far as whoever carries it out needs to know."""

    play: Callable[[E], O]
    """A function of a module: workers may be other processes."""
    lost: Callable[[E, BaseException], O]
    """The outcome of an episode whose worker ended."""
    again: Callable[[E, O], E | None]
    """What is to be tried instead of an outcome that does not count yet; None if it counts."""
    goes_on: Callable[[], bool] = lambda: True
    """Whether another episode may begin."""
    looked: Callable[[], None] = lambda: None
    """Called now and then while nothing ends."""


def carried_out(episodes: Iterable[E], workers: Workers, rules: Rules[E, O]) -> Generator[O]:
    """The outcome of every episode, in the order in which they end."""
    left, first = iter(episodes), deque[E]()
    running: dict[Future[O], E] = {}
    try:
        while True:
            is_all = _fill(left, first, running, workers, rules)
            if not running and is_all:
                return
            if not running:  # there is no worker now; one may come
                time.sleep(LOOK_SECONDS)
            done, _ = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
            rules.looked()
            for future in done:
                episode = running.pop(future)
                outcome = _outcome(future, episode, workers, rules)
                other = rules.again(episode, outcome)
                if other is None:
                    yield outcome
                else:
                    first.append(other)
    except KeyboardInterrupt:
        _end(running, workers)
        for future, episode in running.items():
            if not future.cancelled() and future.exception() is None:
                outcome = future.result()
                if rules.again(episode, outcome) is None:
                    yield outcome
        raise
    finally:
        _end(running, workers)


def _fill(
    left: Iterator[E], first: deque[E], running: dict[Future[O], E], workers: Workers,
    rules: Rules[E, O],
) -> bool:  # fmt: skip
    """As many run as there is room for, those that are tried again first; whether these are all."""
    slots = workers.slots()
    if not slots and not running:
        # Nobody waits for a worker that there is nothing for.
        if rules.goes_on() and not first:
            first.extend(islice(left, 1))
        return not first or not rules.goes_on()
    while len(running) < slots:
        if not rules.goes_on():
            return True
        if first:
            episode = first.popleft()
        else:
            try:
                episode = next(left)
            except StopIteration:
                return True
        running[workers.executor.submit(rules.play, episode)] = episode
    return False


def _outcome(future: Future[O], episode: E, workers: Workers, rules: Rules[E, O]) -> O:
    # Asked for before it is raised: an interrupt of ours is none of the worker's.
    error = CancelledError() if future.cancelled() else future.exception()
    if error is not None and isinstance(error, (*workers.lost, CancelledError)):
        return rules.lost(episode, error)
    return future.result()


def _end(running: dict[Future[O], E], workers: Workers) -> None:
    waiting = [future for future in running if not future.done()]
    for future in waiting:
        future.cancel()
    if waiting:
        workers.halt()
