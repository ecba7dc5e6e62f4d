"""The states between the ends of sources that have no feed, read after every call of a tool.

A folder or a repository keeps no log. Where the agent reaches it through tools of ours alone, what
each call left can be read when the call is over: those states are a history, one transaction a
call. They are all there were only if the log of calls is complete, every call was one of these, no
two of them were at work at once, none could undo something of its own, and the last state is the
one after the run. Else there is a gap, with its cause; the states that were seen stay known.

This module may not decide whether anything that was seen matters.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from statediff.capture.feed import Seen, history_of, read_of, with_history
from statediff.capture.held_chunks import chunks_of
from statediff.capture.source import (
    Clock,
    SettledSource,
    Source,
    SourceUnavailable,
    asked_twice,
    gap_of,
)
from statediff.model.readings import Capture, History, Transaction
from statediff.model.state import ChunkStore, State
from statediff.model.trace import Mark, Trace

Marks = tuple[Mark, ...] | None
LATER: Final = "it is otherwise after the run than the last call left it"


@dataclass
class _Line:
    """The states of one source after each call that changed it."""

    source: Source
    before: State
    state: State
    transactions: list[Transaction] = field(default_factory=list)
    gap: str | None = None

    def look(self, call: str, names: tuple[str, ...], store: ChunkStore, clock: Clock) -> bool:
        """True if the call changed the source."""
        kept = chunks_of(store, self.source.name)
        try:
            part = asked_twice(lambda: self.source.read(kept, clock, self.state))
        except SourceUnavailable as error:
            self.gap = self.gap or f"after {call} it could not be read: {gap_of(error)}"
            return False
        if part.spoiled or not part.reading.is_complete:
            cause = part.reading.cause or "; ".join(part.spoiled)
            self.gap = self.gap or f"after {call} not all of it could be read: {cause}"
        if part.state.digest() == self.state.digest():
            return False
        self.state = part.state
        position = str(len(self.transactions) + 1)
        self.transactions.append(
            Transaction(call, self.source.name, position, None, part.state, names)
        )
        return True


class Looks:
    """The readings after the calls of one trial; safe to use from several threads."""

    def __init__(
        self, sources: Iterable[Source], before: Capture, store: ChunkStore, clock: Clock
    ) -> None:
        """`sources` are those whose history is asked for and that have no feed.

        Of these, the ones that could be read and in which what a call wrote is there at its end.
        """
        self._store, self._clock = store, clock
        self._lines: dict[str, _Line] = {}
        for source in sources:
            part = read_of(before, source.name)
            if part is not None and isinstance(source, SettledSource):
                self._lines[source.name] = _Line(source, part.state, part.state)
        self._one_at_a_time = threading.Lock()
        self._is_attached = False
        self._calls: set[str] = set()
        self._gap: str | None = None

    def attach(self) -> None:
        """The agent acts by tools after whose calls the sources are read."""
        self._is_attached = True

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other call that may write is at work."""
        with self._one_at_a_time:
            yield

    def harmless(self, call: str) -> None:
        """The call was made, and could change nothing."""
        self._calls.add(call)

    def after(self, call: str, tool: str, marks: Marks, *, is_one_step: bool) -> Marks:
        """The writes that the call is known to have made, now that its systems have been read.

        `is_one_step` says that the call undid nothing of its own and left nothing at work.
        """
        self._calls.add(call)
        if not is_one_step:
            self._gap = self._gap or f"{call} ({tool}) may have undone something of its own"
        found = [m for m in marks or () if m.source not in self._lines or m.name is not None]
        for name, line in self._lines.items():
            names = tuple(m.name for m in found if m.source == name and m.name is not None)
            if line.look(call, names, self._store, self._clock) and not names:
                found.append(Mark(name, call))
        return None if marks is None else tuple(found)

    def add_history(self, after: Capture, trace: Trace) -> Capture:
        """The capture after with the history of these sources, as the log of calls allows.

        Nothing is added where the agent has no such tools, or made no call and may have gone past.
        """
        cause = self._cause(trace)
        if not self._is_attached or (not self._calls and cause is not None):
            return after
        known = after.history
        histories = [History((reading,), known.of(reading.source)) for reading in known.readings]
        for name, line in self._lines.items():
            last = read_of(after, name)
            gap = line.gap or cause
            if gap is None and last is not None and last.state.digest() != line.state.digest():
                gap = LATER
            seen = Seen(tuple(line.transactions), gap)
            histories.append(history_of(name, seen, after, self._clock, line.before))
        return with_history(after, histories)

    def _cause(self, trace: Trace) -> str | None:
        if trace.gap is not None:
            return f"something may have been done past the tools: {trace.gap}"
        past = [action.id for action in trace.actions if action.id not in self._calls]
        return f"{past[0]} went past the tools after which it is read" if past else self._gap
