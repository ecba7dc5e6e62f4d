"""The state after by feed: trusted as far as it vouches, held to scans, refused where wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from statediff.capture.feed import Watch
from statediff.capture.guard import (
    Doubt,
    Established,
    GuardedCapture,
    Scans,
    SourceCheck,
    capture_after,
    differing,
)
from statediff.capture.source import Source, SourceUnavailable
from statediff.model.readings import ReadingKind, SourceCapture
from statediff.model.state import Coverage, MemoryChunks, State
from tests.histories import clock, seen
from tests.judging import capture, item, part, state

OLD, NEW, OTHER = (state({"item": [item(1, n)]}) for n in (1, 2, 3))


class Scanned:
    """A source that shows one state, and counts how often it is read."""

    name = "db"

    def __init__(self, shown: State | SourceUnavailable) -> None:
        self.shown = shown
        self.count = 0

    def schema(self) -> Any:
        return OLD.schema

    def read(self, store: Any, clock: Any, like: State | None) -> SourceCapture:
        self.count += 1
        if isinstance(self.shown, SourceUnavailable):
            raise self.shown
        return part("after", self.shown)


class Told:
    """A feed that establishes a state, or cannot."""

    source = "db"

    def __init__(self, told: State | SourceUnavailable, name: str = "db") -> None:
        self.told = told
        self.name = name

    def attach(self) -> None: ...

    def detach(self) -> None: ...

    def finish(self, store: Any, clock: Any, before: State) -> Any:
        raise AssertionError("asked for its history alone")

    def establish(self, store: Any, clock: Any, before: State) -> Established:
        if isinstance(self.told, SourceUnavailable):
            raise self.told
        shown = part("after", self.told)
        reading = replace(shown.reading, source=self.name, kind=ReadingKind.FEED)
        return Established(
            SourceCapture(reading, self.told),
            seen("db", [self.told]),
            (Doubt("db.sequence", "no delta shows it"),),
        )


def after(feed: Told, source: Scanned, wanted: tuple[str, ...] = ()) -> GuardedCapture:
    before = capture("before", part("before", OLD))
    with Watch([feed], clock) as watch:
        return capture_after([source], watch, MemoryChunks(), clock, before, wanted)


def test_a_feed_that_establishes_the_state_spares_the_scan() -> None:
    source = Scanned(NEW)
    found = after(Told(NEW), source)
    (shown,) = found.capture.parts
    assert source.count == 0
    assert (shown.reading.id, shown.reading.kind) == ("after/db", ReadingKind.FEED)
    assert shown.state.digest() == NEW.digest()
    assert found.capture.history.gap("db") is None
    assert len(found.capture.history.of("db")) == 1
    doubts = (Doubt("db.sequence", "no delta shows it"),)
    assert found.checks == (SourceCheck("db", True, False, doubts),)


def test_a_scan_that_agrees_is_the_reading() -> None:
    found = after(Told(NEW), Scanned(NEW), ("db",))
    assert found.capture.parts[0].reading.kind is ReadingKind.SCAN
    assert (found.checks[0].by_feed, found.checks[0].by_scan) == (True, True)
    assert found.capture.history.gap("db") is None


def test_a_scan_that_disagrees_is_a_fault_of_the_source() -> None:
    found = after(Told(NEW), Scanned(OTHER), ("db",))
    (shown,) = found.capture.parts
    assert shown.reading.digest is None
    assert "contradiction" in (shown.reading.cause or "")
    assert shown.state.tables["item"].enumeration.coverage is Coverage.UNOBSERVED
    assert shown.state.tables["item"].row_count == 0
    assert "contradiction" in (found.capture.history.gap("db") or "")
    assert found.capture.history.of("db") == ()
    assert found.checks[0].disagreement == ("item",)


def test_a_feed_that_cannot_establish_leaves_it_to_the_scan() -> None:
    source = Scanned(NEW)
    found = after(Told(SourceUnavailable("its log was cut off")), source)
    assert source.count == 1
    assert found.capture.parts[0].state.digest() == NEW.digest()
    assert "cut off" in (found.capture.history.gap("db") or "")
    assert found.checks == (SourceCheck("db", False, True),)


def test_a_scan_that_is_not_to_be_had_leaves_the_feed() -> None:
    found = after(Told(NEW), Scanned(SourceUnavailable("locked")), ("db",))
    assert found.capture.parts[0].reading.kind is ReadingKind.FEED
    assert not found.checks[0].by_scan


def test_a_feed_of_another_source_breaks_its_protocol_and_the_scan_tells() -> None:
    found = after(Told(NEW, "mail"), Scanned(NEW))
    assert found.capture.parts[0].state.digest() == NEW.digest()
    assert "another source" in (found.capture.history.gap("db") or "")


def test_what_one_of_two_states_does_not_know_is_no_disagreement() -> None:
    table = OTHER.tables["item"].unobserved("locked")
    unknown = replace(OTHER, tables={**NEW.tables, "item": table})
    assert differing(NEW, unknown) == ()
    assert differing(NEW, OTHER) == ("item",)
    fewer = {name: each for name, each in NEW.tables.items() if name != "item"}
    assert differing(NEW, replace(NEW, tables=fewer)) == ("item",)


def test_which_trials_are_scanned_follows_from_the_seed() -> None:
    trials = [f"trial-{n}" for n in range(400)]
    some, again, other = ([Scans(0.25, seed).wanted(t, "db") for t in trials] for seed in (1, 1, 2))
    assert some == again != other
    assert 60 < sum(some) < 140
    assert all(Scans(rate=1.0).wanted(t, "db") for t in trials)
    assert not any(Scans().wanted(t, "db") for t in trials)


class Paged(Scanned):
    """The same, read by pages as well, which show a state of their own or say that they cannot."""

    def __init__(self, shown: State, by_pages: State | SourceUnavailable) -> None:
        super().__init__(shown)
        self.changed = by_pages

    def read_changed(self, store: Any, clock: Any, like: State) -> SourceCapture:
        assert like.digest() == OLD.digest()
        if isinstance(self.changed, SourceUnavailable):
            raise self.changed
        return part("after", self.changed)

    def beside(self, source: Source) -> Source:
        return source

    def close(self) -> None: ...


def by_pages(source: Paged, wanted: tuple[str, ...] = ()) -> GuardedCapture:
    before = capture("before", part("before", OLD))
    with Watch([], clock) as watch:
        return capture_after([source], watch, MemoryChunks(), clock, before, wanted, by_pages=True)


def test_pages_that_tell_what_changed_spare_the_scan_and_are_held_to_one_all_the_same() -> None:
    source = Paged(NEW, NEW)
    found = by_pages(source)
    assert (source.count, found.checks) == (0, (SourceCheck("db", False, False, by_pages=True),))
    assert found.capture.parts[0].state.digest() == NEW.digest()
    assert by_pages(source, ("db",)).checks == (SourceCheck("db", False, True, by_pages=True),)
    wrong = by_pages(Paged(OTHER, NEW), ("db",))
    assert wrong.checks[0].disagreement == ("item",)
    assert "the pages that changed, in item" in (wrong.capture.parts[0].reading.cause or "")
    assert wrong.capture.parts[0].state.tables["item"].row_count == 0


def test_pages_that_cannot_tell_leave_it_to_the_scan() -> None:
    source = Paged(NEW, SourceUnavailable("most of its pages changed"))
    found = by_pages(source)
    assert (source.count, found.checks) == (1, (SourceCheck("db", False, True),))
    assert found.capture.parts[0].state.digest() == NEW.digest()


class Checked(Told):
    """A feed that can look at pages."""

    asked = 0

    def check_pages(self) -> None:
        self.asked += 1


def test_a_feed_that_can_look_at_pages_is_asked_to_where_that_is_wanted() -> None:
    before = capture("before", part("before", OLD))
    for looks in (False, True):
        feed, source = Checked(NEW), Scanned(NEW)
        with Watch([feed], clock) as watch:
            found = capture_after([source], watch, MemoryChunks(), clock, before, by_pages=looks)
        assert (feed.asked, found.checks[0].by_pages) == (int(looks), looks)
