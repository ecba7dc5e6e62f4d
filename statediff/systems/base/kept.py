"""A history that a server of ours keeps: its whole state after each request that changed it.

In the server's process `KeptStates` keeps them, where no request reaches; the evaluator asks for
them with `{"history": n}`, the states after the first n, and `KeptStatesFeed` makes transactions of
them. A server that ended since, or one that kept too much, is a gap. The server looks after each
request and before the next one begins, so that the order is exact and nothing is in between.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.explanation import by_run
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.systems.base.forking import Order

MAX_KEPT_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of all states together, as the evaluator reads them; a server keeps them
compressed.
"""
MAX_KEPT: Final = 2_000
_ALL: Final = 1_000_000_000


@dataclass
class KeptStates:
    """Every state that a server was in since it began, the first one left out."""

    server: int
    """Which process it is."""
    last: bytes
    """The state as it was last, in one spelling of JSON."""
    states: list[tuple[str, bytes]] = field(default_factory=list)
    """When (ISO), and the state, compressed."""
    gap: str | None = None
    """Why there may have been more."""
    _bytes: int = 0

    def check(self, state: bytes) -> None:
        """A state that no request left is a gap: something else changed it, nobody knows when."""
        if state != self.last:
            self.gap = "it was changed between two requests"
            self.last = state

    def keep(self, state: bytes) -> None:
        """The state is kept, if it is another than the last one."""
        if state == self.last:
            return
        self.last = state
        if len(self.states) >= MAX_KEPT or self._bytes + len(state) > MAX_KEPT_BYTES:
            self.gap = f"more than {MAX_KEPT} states, or {MAX_KEPT_BYTES} bytes of them"
            return
        self._bytes += len(state)
        self.states.append((datetime.now(UTC).isoformat(), zlib.compress(state, 1)))

    def answer(self, after: int, now: bytes) -> Order:
        """The evaluator's answer: the states after the first so many; `now` is the last one."""
        self.check(now)
        states = [[at, json.loads(zlib.decompress(each))] for at, each in self.states[after:]]
        return {
            "server": self.server,
            "states": states,
            "count": len(self.states),
            "gap": self.gap,
        }


Ask = Callable[[Order], "Order | None"]
"""A question to the server of the trial → its answer; None if it gives none."""
StateOf = Callable[[Any, ChunkStore, State], State]
"""(a state as it was kept, the store, the one before it) → the state."""


class KeptStatesFeed:
    """A `Feed` of one source whose server keeps its states."""

    def __init__(self, source: str, ask: Ask, state_of: Callable[[Order], StateOf]) -> None:
        self._source = source
        self._ask = ask
        self._state_of = state_of
        """For one answer: what makes a state of each that it has."""
        self._known: tuple[int, int] | None = None
        """Which server it was, and how many states it had kept."""

    @property
    def source(self) -> str:
        return self._source

    def attach(self) -> None:
        found = self._history(_ALL)
        self._known = (int(found["server"]), int(found["count"]))

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        if self._known is None:
            raise SourceUnavailable(f"no feed of {self._source} is attached")
        server, known = self._known
        found = self._history(known)
        if found["server"] != server:
            return Seen((), "the server was replaced since, and what the other one kept is gone")
        made = []
        last, state_of = before, self._state_of(found)
        for number, (at, kept) in enumerate(found["states"], known + 1):
            last = state_of(kept, store, last)
            name, moment = f"{self._source}/{number}", datetime.fromisoformat(at)
            made.append(Transaction(name, self._source, str(number), moment, last))
        gap = found["gap"]
        return Seen(tuple(made), None if gap is None else by_run(gap))

    def detach(self) -> None:
        self._known = None

    def _history(self, after: int) -> Order:
        answer = self._ask({"history": after})
        if answer is None:
            raise SourceUnavailable("the server does not answer")
        return answer
