"""The Feed protocol, and what the feeds saw of a run as the history of the capture after.

A feed sees every state that a source passed through during a run, in its order. It is attached
before the capture before and read after the capture after. It is trusted no further than it can be
checked: `attach` shows the state it starts from and `finish` ends in the state it arrived at, so
that both ends can be compared with the two scans. A feed that cannot vouch for having seen every
commit is a gap with a cause; the history is then unknown, never empty (docs/design.md §3). One that
contradicts a scan is a fault of its source: nothing of what it said is used, and the cause says so.

This module may not decide whether anything that was seen matters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Protocol, Self

from statediff.capture.held_chunks import chunks_of
from statediff.capture.source import (
    Clock,
    SourceUnavailable,
    SourceUnfollowed,
    asked_twice,
    gap_of,
    unread,
)
from statediff.errors import AdapterError
from statediff.model.columns import table_changes
from statediff.model.explanation import BY_AGENT, is_by_agent, unread_because
from statediff.model.explanation import cause as cause_in
from statediff.model.readings import (
    TRIAL_CLOCK,
    Capture,
    History,
    Reading,
    ReadingKind,
    SourceCapture,
    Transaction,
)
from statediff.model.state import ChunkRef, ChunkStore, State, Table
from statediff.model.trace import Action, Mark, Trace
from statediff.model.values import Unobserved
from statediff.total import in_any_case, words_of


@dataclass(frozen=True)
class Seen:
    """The record of a feed between `attach` and `finish`."""

    transactions: tuple[Transaction, ...]
    """In commit order; each holds the source's whole state after it, sharing chunks that did not
    change. The last one's state is what the source was in when the feed was read."""
    gap: str | None = None
    """Why there may have been more; None if these are all, and every one of them is exact."""


class Feed(Protocol):
    """Sees every commit of one source between two moments. Watching must not change the source."""

    @property
    def source(self) -> str:
        """The source whose states it follows, e.g. `shop-db`."""

    def attach(self) -> None:
        """Whatever is committed from now on will be seen, or a gap reported by `finish`.

        Raises `SourceUnavailable` with the cause where the system offers no feed.
        """

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        """All commits since `attach`; `before` is the source's state then, whose chunks are shared.

        Raises `SourceUnavailable` if it can no longer be read. The feed stays attached until
        `detach`.
        """

    def detach(self) -> None:
        """Nothing of the feed is left on the source; may be called at any time, and again."""


AGENT: Final = "agent"
"""The principal of whatever nobody else in a sandbox can have done."""
CONTRADICTION = (
    "contradiction: the feed ends in another state than the one that was read after the run; the "
    "source is at fault, and nothing it said of the run is used"
)


def with_history(after: Capture, histories: Iterable[History]) -> Capture:
    """The capture after with the history of each source, sorted by source."""
    ordered = sorted(histories, key=lambda history: [r.source for r in history.readings])
    history = History(
        tuple(r for each in ordered for r in each.readings),
        tuple(t for each in ordered for t in each.transactions),
    )
    return replace(after, history=history)


def history_of(
    source: str, seen: Seen, after: Capture, clock: Clock, before: State | None = None
) -> History:
    """One feed's history; complete only where it vouches for that and agrees with the scan after.

    What goes beyond `MAX_CHANGES` is no part of it, and a gap. Raises `AdapterError` if it tells of
    another source.
    """
    if any(t.source != source for t in seen.transactions):
        raise AdapterError(f"the feed of {source!r} delivered transactions of another source")
    last = read_of(after, source)
    if last is None:
        return unseen(source, "the source was not read after the run", clock)
    seen = _bounded(seen, before)
    digest = seen.transactions[-1].state.digest() if seen.transactions else last.state.digest()
    if seen.gap is None and digest != last.state.digest():
        return unseen(source, CONTRADICTION, clock)
    position = seen.transactions[-1].position if seen.transactions else None
    reading = Reading(
        f"during/{source}",
        source,
        ReadingKind.FEED,
        as_of=clock(),
        clock=TRIAL_CLOCK,
        is_complete=seen.gap is None,
        digest=digest,
        position=position,
        cause=seen.gap,
    )
    return History((reading,), seen.transactions)


MAX_CHANGES: Final = 50_000
"""Rows that the transactions of one source change, all together, and that are judged."""


def _bounded(seen: Seen, before: State | None) -> Seen:
    """The record up to the transaction with which more rows changed than are judged."""
    states = [t.state for t in seen.transactions]
    steps = list(itertools.pairwise([before or states[0], *states])) if states else []
    if sum(_most_changes(*step) for step in steps) <= MAX_CHANGES:
        return seen
    count = 0
    for number, step in enumerate(steps, start=1):
        if _most_changes(*step):
            count += sum(1 for _ in itertools.islice(_changes(*step), MAX_CHANGES + 1 - count))
        if count > MAX_CHANGES:
            cause = f"{BY_AGENT}: its transactions change more than {MAX_CHANGES} rows in all"
            return Seen(seen.transactions[: number - 1], cause)
    return seen


def _differing(one: State, two: State) -> Iterator[tuple[Table, Table]]:
    for name, table in two.tables.items():
        earlier = one.tables.get(name)
        if earlier is not None and earlier is not table and earlier.chunks != table.chunks:
            yield earlier, table


def _most_changes(one: State, two: State) -> int:
    """How many rows differ at most: those of the chunks that do."""
    return sum(
        max(old.rows, new.rows)
        for earlier, later in _differing(one, two)
        for old, new in itertools.zip_longest(earlier.chunks, later.chunks, fillvalue=_NO_CHUNK)
        if old.digest != new.digest
    )


_NO_CHUNK: Final = ChunkRef("", 0)


def _changes(one: State, two: State) -> Iterator[object]:
    for earlier, later in _differing(one, two):
        if earlier.type.key == later.type.key:
            yield from table_changes(earlier, later)
        else:
            yield from later.rows()


def unseen(source: str, cause: str, clock: Clock) -> History:
    """Nothing is known of what the source went through, and why."""
    return History((unread(f"during/{source}", source, clock(), cause, kind=ReadingKind.FEED),))


def actions_of_history(
    history: History, trace: Trace, by_agent: frozenset[str] = frozenset()
) -> tuple[Action, ...]:
    """The transactions of the run as actions: all that is known where nobody recorded calls.

    Of a source to which calls say that they wrote there are none: they are those calls' to name.
    `by_agent` are sources in which everybody else's transactions are known and left out.
    """
    recorded = () if trace.is_agent_influenced else trace.actions
    named = {mark.source for action in recorded for mark in action.transactions or ()}
    unknown = Unobserved("nobody recorded the call; what it changed is in the history")
    return tuple(
        Action(
            transaction.id,
            transaction.source,
            arguments=unknown,
            result=unknown,
            principal=AGENT if transaction.source in by_agent else None,
            finished_at=transaction.committed_at,
            transactions=(Mark(transaction.source, transaction.id),),
        )
        for transaction in history.transactions
        if transaction.source not in named
    )


class Watch:
    """The feeds of one trial, from before its first capture until after its last.

    A context manager: whatever happens within, nothing of a feed stays on its source.
    """

    def __init__(self, feeds: Iterable[Feed], clock: Clock) -> None:
        self._feeds = sorted(feeds, key=lambda feed: feed.source)
        self._clock = clock
        self._unattached: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            for feed in self._feeds:
                try:
                    feed.attach()
                except SourceUnavailable as error:
                    said = error.what if isinstance(error, SourceUnfollowed) else error
                    self._unattached[feed.source] = f"no feed could be attached: {said}"
        except BaseException:
            self._detach(self._feeds)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._detach(self._feeds)

    def feed_of(self, source: str) -> Feed | None:
        """The feed of the source; None where there is none, or it could not be attached."""
        found = (feed for feed in self._feeds if feed.source == source)
        return None if source in self._unattached else next(found, None)

    def add_history(
        self, store: ChunkStore, before: Capture, after: Capture, known: Sequence[History] = ()
    ) -> Capture:
        """The capture after with what the feeds saw since they were attached.

        `known` are histories that are settled already; the feeds of these sources are not asked.
        """
        done = {reading.source for history in known for reading in history.readings}
        asked = (feed for feed in self._feeds if feed.source not in done)
        found = [self._history(feed, store, before, after) for feed in asked]
        return with_history(after, [*known, *found])

    def _history(self, feed: Feed, store: ChunkStore, before: Capture, after: Capture) -> History:
        def give_up(error: Exception) -> History:
            return unseen(feed.source, unread_because(words_of(error)), self._clock)

        return in_any_case(lambda: self._seen(feed, store, before, after), give_up)

    def _seen(self, feed: Feed, store: ChunkStore, before: Capture, after: Capture) -> History:
        source = feed.source
        cause = self._unattached.get(source)
        first = read_of(before, source)
        if cause is None and first is None:
            cause = "the source was not read before the run"
        if cause is not None or first is None:
            return unseen(source, cause or "", self._clock)

        def ask() -> Seen:
            return feed.finish(chunks_of(store, source), self._clock, first.state)

        try:
            seen = asked_twice(ask)
            if seen.gap is not None and not is_by_agent(cause_in(seen.gap)):
                seen = asked_twice(ask)
        except SourceUnavailable as error:
            return unseen(source, f"the feed could not be read: {gap_of(error)}", self._clock)
        if seen.gap is None and not seen.transactions:
            last = read_of(after, source)
            if last is not None and last.state.digest() != first.state.digest():
                return unseen(source, CONTRADICTION, self._clock)
        return history_of(source, seen, after, self._clock, first.state)

    def _detach(self, feeds: list[Feed]) -> None:
        """Every feed is let go of, even if letting go of another one failed."""
        for at, feed in enumerate(feeds):
            try:
                feed.detach()
            except BaseException:
                self._detach(feeds[at + 1 :])
                raise


def read_of(capture: Capture, source: str) -> SourceCapture | None:
    """The delivery of the source; None if it could not be read."""
    for part in capture.parts:
        if part.reading.source == source:
            return None if part.reading.digest is None else part
    return None
