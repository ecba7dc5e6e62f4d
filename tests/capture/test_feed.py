"""Feeds, watched over a trial: what they saw, what they could not, and that none is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statediff.capture.feed import CONTRADICTION, Seen, Watch, history_of
from statediff.capture.source import SourceUnavailable
from statediff.errors import AdapterError
from statediff.model.readings import NO_FEED, History
from statediff.model.state import MemoryChunks, State
from tests.histories import clock, seen
from tests.judging import capture, item, part, state

OLD, MID, NEW = (state({"item": [item(1, n)]}) for n in (1, 2, 3))


class Told:
    """A feed that tells what it is given, or raises it; it notes what is asked of it."""

    def __init__(self, source: str, told: Seen | BaseException, attach: Any = None) -> None:
        self.source = source
        self.asked: list[str] = []
        self._told = told
        self._attach = attach

    def attach(self) -> None:
        self.asked.append("attach")
        if self._attach is not None:
            raise self._attach

    def finish(self, store: Any, clock: Any, before: State) -> Seen:
        self.asked.append("finish")
        if isinstance(self._told, BaseException):
            raise self._told
        return self._told

    def detach(self) -> None:
        self.asked.append("detach")


def sides(after: State = NEW, **overrides: Any) -> tuple[Any, Any]:
    return capture("before", part("before", OLD)), capture(
        "after", part("after", after, **overrides)
    )


def watched(feed: Told, before: Any = None, after: Any = None) -> History:
    first, last = sides()
    with Watch([feed], clock) as watch:
        found = watch.add_history(MemoryChunks(), before or first, after or last)
    assert feed.asked[0] == "attach"
    assert feed.asked[-1] == "detach"
    return found.history


def test_what_a_feed_saw_is_the_history_where_it_ends_in_the_state_after() -> None:
    history = watched(Told("db", seen("db", [MID, NEW])))
    (reading,) = history.readings
    assert (reading.id, reading.kind.value, reading.is_complete) == ("during/db", "feed", True)
    assert (reading.digest, reading.position) == (NEW.digest(), "20")
    assert [t.state.digest() for t in history.of("db")] == [MID.digest(), NEW.digest()]
    assert history.gap("db") is None
    assert history.gap("mail") == NO_FEED


@pytest.mark.parametrize("told", [seen("db", [MID]), seen("db", [])])
def test_a_feed_that_contradicts_a_scan_is_a_fault_of_its_source(told: Seen) -> None:
    history = watched(Told("db", told))
    assert (history.gap("db"), history.transactions) == (CONTRADICTION, ())


def test_a_feed_that_saw_nothing_agrees_with_a_state_that_stayed() -> None:
    before, _ = sides()
    history = watched(Told("db", seen("db", [])), before, sides(OLD)[1])
    assert history.gap("db") is None


def test_a_gap_keeps_what_was_seen_and_says_why_there_may_be_more() -> None:
    history = watched(Told("db", seen("db", [MID], gap="its log was cut off")))
    assert history.gap("db") == "its log was cut off"
    assert len(history.transactions) == 1


@pytest.mark.parametrize(
    ("feed", "cause"),
    [
        (Told("db", SourceUnavailable("it is gone")), "the feed could not be read: it is gone"),
        (Told("db", seen("db", []), SourceUnavailable("no log")),
         "no feed could be attached: no log"),
        (Told("mail", seen("mail", [])), "the source was not read before the run"),
    ],
)  # fmt: skip
def test_a_feed_that_cannot_tell_leaves_a_gap_with_the_cause(feed: Told, cause: str) -> None:
    history = watched(feed)
    assert (history.gap(feed.source), history.transactions) == (cause, ())


def test_a_source_that_was_not_read_has_no_history() -> None:
    unread = sides(digest=None, is_complete=False, cause="refused")[1]
    history = watched(Told("db", seen("db", [NEW])), None, unread)
    assert history.gap("db") == "the source was not read after the run"
    before = capture("before", part("before", OLD, digest=None))
    assert watched(Told("db", seen("db", [NEW])), before).gap("db") is not None


def test_a_feed_that_tells_of_another_source_breaks_its_protocol() -> None:
    with pytest.raises(AdapterError, match="another source"):
        history_of("db", seen("mail", [NEW]), sides()[1], clock)


def raise_in(watch: Watch, error: BaseException) -> None:
    with watch:
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no"), SystemExit(3)])
def test_no_feed_stays_attached_whatever_happens(error: BaseException) -> None:
    feeds = [Told(name, seen(name, [])) for name in "ab"]
    with pytest.raises(type(error)):
        raise_in(Watch(feeds, clock), error)
    assert [feed.asked for feed in feeds] == [["attach", "detach"]] * 2


def test_no_feed_stays_attached_where_another_fails() -> None:
    def let_go(error: Callable[[], BaseException]) -> Told:
        feed = Told("b", seen("b", []), error())
        others = [Told(name, seen(name, [])) for name in "ac"]
        with pytest.raises(KeyboardInterrupt), Watch([feed, *others], clock):
            pass
        assert all(other.asked[-1] == "detach" for other in others)
        return feed

    assert let_go(KeyboardInterrupt).asked == ["attach", "detach"]

    class Stuck(Told):
        def detach(self) -> None:
            super().detach()
            raise RuntimeError("it will not let go")

    feeds = [Stuck("a", seen("a", [])), Told("b", seen("b", []))]
    with pytest.raises(RuntimeError, match="let go"), Watch(feeds, clock):
        pass
    assert feeds[1].asked == ["attach", "detach"]
