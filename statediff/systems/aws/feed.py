"""Every state an account went through: the server keeps one after each request that changed it.

The server answers requests one by one, so that the order is exact and nothing is between two
states. Its process keeps them where no request reaches; a server that ended since is a gap. A
transaction is known by its number, which the answer to its maker carries.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.explanation import by_run
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.systems.aws.source import NO_ANSWER, Ask, AwsSource


class AwsFeed:
    """A `Feed` of one account."""

    def __init__(self, source: AwsSource, ask: Ask) -> None:
        self._source = source
        self._ask = ask
        self._known: tuple[int, int] | None = None
        """Which server it was, and how many states it kept."""

    @property
    def source(self) -> str:
        return self._source.name

    def attach(self) -> None:
        found = self._history(1_000_000_000)
        self._known = (int(found["server"]), int(found["count"]))

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        if self._known is None:
            raise SourceUnavailable(f"no feed of {self.source} is attached")
        server, known = self._known
        found = self._history(known)
        if found["server"] != server:
            return Seen((), "the server was replaced since, and what the other one kept is gone")
        made = []
        last = before
        for number, (at, rows) in enumerate(found["states"], known + 1):
            last = self._source.state(rows, store, last)
            name, moment = f"{self.source}/{number}", datetime.fromisoformat(at)
            made.append(Transaction(name, self.source, str(number), moment, last))
        gap = found["gap"]
        return Seen(tuple(made), None if gap is None else by_run(gap))

    def detach(self) -> None:
        self._known = None

    def _history(self, after: int) -> dict[str, Any]:
        answer = self._ask({"history": after})
        if answer is None:
            raise SourceUnavailable(NO_ANSWER)
        return answer
