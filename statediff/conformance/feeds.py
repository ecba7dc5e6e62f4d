"""The duties of a system's feed: every commit of a run, each once and in order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import pytest

from statediff.capture.feed import Feed, Seen
from statediff.capture.source import SourceUnavailable, clock
from statediff.conformance.systems import (
    RunningSystem,
    assert_proven,
    assert_settles,
    captured,
    states,
)
from statediff.model.state import MemoryChunks, State
from statediff.systems.base.protocol import System


@dataclass(frozen=True)
class Change:
    """A change of a system with a feed, by the means an agent has."""

    apply: Callable[[System], object]
    undo: Callable[[System], object] | None = None
    """Puts the state back as it was before `apply`. A change that nothing can undo, such as a
    message that is sent, can be made again and again."""
    commits: int = 1
    """How many commits `apply` makes, and `undo`."""


class FeedSuite(RunningSystem):
    """The feed of a system: its history is every commit of the run, or says that it is not.

    Scans are the measure: what the feed shows is compared with the states that the source shows
    after each change.
    """

    changes: ClassVar[Mapping[str, Change]]
    """At least one; a good suite has one for each kind of commit that the feed tells apart."""
    losses: ClassVar[Mapping[str, Callable[[System], object]]]
    """Ways to take from the feed what it saw or is to see, e.g. its log is cut off; at least one.
    Each also works on a system that was changed."""
    only_adds: ClassVar[bool] = False
    """Nothing that is done to the system can be undone, as in an outbox."""
    walks: ClassVar[int] = 6
    """How many random runs of changes are tried, each one step longer than the last."""

    def test_there_are_changes_and_losses_and_one_change_is_undone(self) -> None:
        assert self.changes
        assert self.losses
        assert self.only_adds != any(change.undo for change in self.changes.values())

    def test_a_run_without_a_commit_has_an_empty_history(self, system: System) -> None:
        with FeedRun(system, self.source) as run:
            run.check()

    def test_every_commit_is_seen_once_in_order_and_together_they_are_the_scan_after(
        self, system: System
    ) -> None:
        for seed in range(self.walks):
            system.reset()
            assert_proven(system.verify(), f"walk {seed}")
            with FeedRun(system, self.source) as run:
                self._walk(run, random.Random(seed), 2 + seed)  # noqa: S311 - no secret
                run.check()

    def test_a_change_that_is_undone_within_the_run_is_in_the_history(self, system: System) -> None:
        for name, change in self.changes.items():
            if change.undo is None:
                continue
            system.reset()
            with FeedRun(system, self.source) as run:
                run.make(name, change)
                run.make(name, change, is_undone=True)
                was = run.before.digest()
                assert run.scan().digest() == was, f"{name}: its undo puts another state there"
                between = [t.state.digest() for t in run.check().transactions]
                assert set(between) - {was}, f"{name}: the history shows nothing of it"

    def test_nothing_that_was_done_before_it_was_attached_is_seen(self, system: System) -> None:
        for name, change in self.changes.items():
            system.reset()
            change.apply(system)
            assert_settles(system, name)
            with FeedRun(system, self.source) as run:
                run.check()
                if change.undo is None:
                    run.make(name, change)
                else:
                    run.make(name, change, is_undone=True)
                run.check()

    def test_after_a_reset_it_sees_nothing_of_an_earlier_run(self, system: System) -> None:
        name, change = next(iter(self.changes.items()))
        for _ in range(2):
            with FeedRun(system, self.source) as run:
                run.make(name, change)
                run.check()
            system.reset()
            assert_proven(system.verify(), f"{name} was seen by a feed")
        with FeedRun(system, self.source) as run:
            run.check()

    def test_a_feed_that_lost_something_says_so(self, system: System) -> None:
        name, change = next(iter(self.changes.items()))
        for loss, lose in self.losses.items():
            system.reset()
            with FeedRun(system, self.source) as run:
                run.make(name, change)
                lose(system)
                assert run.gap(), f"{loss}: the history is shown as complete"

    def test_of_an_unplugged_source_no_complete_history_is_shown_but_the_true_one(
        self, system: System
    ) -> None:
        name, change = next(iter(self.changes.items()))
        with FeedRun(system, self.source) as run:
            run.make(name, change)
            system.unplug(self.source)
            if not run.gap():
                run.check_states()
        system.reset()
        assert_proven(system.verify(), f"{self.source} was unplugged")

    def test_a_reset_under_it_is_never_a_run_in_which_nothing_was_put_back(
        self, system: System
    ) -> None:
        name, change = next(iter(self.changes.items()))
        with FeedRun(system, self.source) as run:
            run.make(name, change)
            system.reset()
            if not run.gap():
                run.expected.append(run.scan().digest())
                run.check()

    def test_watching_and_reading_change_nothing(self, system: System) -> None:
        alone = captured(system.sources())
        with FeedRun(system, self.source) as run:
            assert states(captured(system.sources(), alone)) == states(alone), "it was attached"
            first = run.check()
            assert run.check() == first, "it was read twice"
            assert states(captured(system.sources(), alone)) == states(alone), "it was read"
        assert states(captured(system.sources(), alone)) == states(alone), "it was detached"
        assert {entry.what for entry in system.verify()[1]} <= self.traces

    def test_it_is_read_while_it_is_attached_and_never_else(self, system: System) -> None:
        feed = feed_of(system, self.source)
        before = captured(system.sources())
        [state] = [part.state for part in before.parts if part.reading.source == self.source]
        for _ in ("before it was attached", "after it was detached"):
            feed.detach()
            feed.detach()
            with pytest.raises(SourceUnavailable):
                feed.finish(MemoryChunks(), clock, state)
            feed.attach()
            assert feed.finish(MemoryChunks(), clock, state) == Seen(())
            feed.detach()

    def _walk(self, run: FeedRun, draw: random.Random, steps: int) -> None:
        """Changes in any order, each undone at some time or not, with a look in between."""
        is_made = dict.fromkeys(self.changes, False)
        for _ in range(steps):
            name = draw.choice(list(self.changes))
            change = self.changes[name]
            run.make(name, change, is_undone=is_made[name])
            is_made[name] = change.undo is not None and not is_made[name]
            if draw.random() < 0.25:
                run.check()


@dataclass
class FeedRun:
    """A system while its feed watches, as scans show it. A context manager."""

    system: System
    name: str
    steps: list[str] = field(default_factory=list)
    expected: list[str | None] = field(default_factory=list)
    """The digest after each commit; None between the commits of one change."""

    def __enter__(self) -> Self:
        self.feed = feed_of(self.system, self.name)
        self.store = MemoryChunks()
        self.feed.attach()
        try:
            self.before = self.scan()
        except BaseException:
            self.feed.detach()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.feed.detach()

    def scan(self) -> State:
        """The state that the source shows now, cut like the state before."""
        [source] = [source for source in self.system.sources() if source.name == self.name]
        read = source.read(self.store, clock, getattr(self, "before", None))
        assert read.reading.is_complete, read.reading.cause
        return read.state

    def make(self, name: str, change: Change, *, is_undone: bool = False) -> None:
        """The change is made, or undone, and the state that it leaves is known."""
        act = change.undo if is_undone and change.undo is not None else change.apply
        act(self.system)
        self.steps.append(f"not {name}" if act is change.undo else name)
        assert_settles(self.system, str(self))
        self.expected += [*[None] * (change.commits - 1), self.scan().digest()]

    def gap(self) -> str | None:
        """Why there may have been more than the feed shows, as it says itself."""
        try:
            return self.feed.finish(self.store, clock, self.before).gap
        except SourceUnavailable as error:
            return str(error)

    def check(self) -> Seen:
        """The feed shows the states that the scans showed, and ends in what a scan shows now."""
        seen = self.check_states()
        last = seen.transactions[-1].state if seen.transactions else self.before
        assert last.digest() == self.scan().digest(), f"{self}: it ends in another state"
        return seen

    def check_states(self) -> Seen:
        """The feed shows the states that the scans showed: all, each once, in their order."""
        try:
            seen = self.feed.finish(self.store, clock, self.before)
        except SourceUnavailable as error:
            raise AssertionError(f"{self}: it cannot be read: {error}") from error
        assert seen.gap is None, f"{self}: nothing was lost, and yet: {seen.gap}"
        told = seen.transactions
        assert len(told) == len(self.expected), f"{self}: {len(told)} transactions"
        for number, (transaction, digest) in enumerate(zip(told, self.expected, strict=True), 1):
            assert transaction.source == self.name, f"{self}: {number} is of another source"
            found = transaction.state.digest()
            assert digest in (None, found), f"{self}: the state after commit {number} is another"
        assert len({transaction.id for transaction in told}) == len(told), f"{self}: one id twice"
        return seen

    def __str__(self) -> str:
        return f"after {', '.join(self.steps) or 'nothing'}"


def feed_of(system: System, name: str) -> Feed:
    """The one feed of the source."""
    found = [feed for feed in system.feeds() if feed.source == name]
    assert len(found) == 1, f"{len(found)} feeds of {name}"
    return found[0]
