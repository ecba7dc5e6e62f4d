"""The state after a run as base plus delta, held against what a delta cannot show.

A feed that is a `DeltaFeed` offers, beside its history, the state after: the state before, with the
chunks that its delta touches replaced (`model/patch.py`). What no delta shows (schema
objects, sequences, unlogged tables, a table that was rewritten) it guards: a look whose cost does
not depend on the state's size tells what is in doubt, and exactly that it reads whole, in the same
snapshot, with the code that scans. So `establish` returns a whole state:

* a type that the delta establishes: the chunks of `before`, but for those that changed;
* a type in doubt: scanned, and named in `Established.doubts` with the cause;
* a type that cannot be established: its enumeration incomplete or unobserved, with the cause, and
  the reading incomplete; never "unchanged". A base that was itself incomplete is such a doubt.

This module decides when that is enough. `Scans` says how often a whole scan is made as well: never,
at a rate (which trials, follows from the seed, so that a run can be made again), or always
(`--authoritative`). A scan that agrees is the reading; one that disagrees about anything that both
know is a fault of the source: all of it is unobserved, and so is its history. A feed that cannot
establish anything raises `SourceUnavailable`, and the source is scanned.

Between the two, a scan by pages (`--scan pages`) costs as much as comparing what says that a page
changed. Of a `PageReader`, which has no feed that tells the state, it is the reading; a `PagedFeed`
is asked to hold what its log names against what the pages themselves say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, runtime_checkable

import blake3

from statediff.capture.feed import Feed, Seen, Watch, history_of, read_of, unseen
from statediff.capture.held_chunks import chunks_of
from statediff.capture.source import (
    Clock,
    PageReader,
    Source,
    SourceUnavailable,
    asked_twice,
    gap_of,
    unread,
)
from statediff.capture.take import in_name_order, read_source, unobserved_state
from statediff.errors import AdapterError
from statediff.model.readings import Capture, History, SourceCapture
from statediff.model.state import ChunkStore, State

FAULT: Final = (
    "contradiction: a whole scan after the run shows something else than the state before with all "
    "that the feed saw, in {}; the source is at fault, and nothing it said is used"
)
PAGES_FAULT: Final = (
    "contradiction: a whole scan after the run shows something else than the pages that changed, "
    "in {}; the source is at fault, and nothing it said is used"
)
_MOST_NAMES: Final = 5


@dataclass(frozen=True)
class Doubt:
    """A type that no delta establishes, and why."""

    type: str
    cause: str


@dataclass(frozen=True)
class Established:
    """The state after a run, established from the state before."""

    part: SourceCapture
    """Its reading is of kind FEED, with the position that the state shows."""
    seen: Seen
    """The history; the last transaction's state is that of `part`."""
    doubts: tuple[Doubt, ...] = ()
    """The types that were scanned instead, sorted by name."""


@runtime_checkable
class DeltaFeed(Feed, Protocol):
    """A feed that also establishes the state after, at a cost that follows what changed."""

    def establish(self, store: ChunkStore, clock: Clock, before: State) -> Established:
        """The source as it is now; `before` is the capture made since `attach`.

        Raises `SourceUnavailable` where the delta is not known to its end. Called instead of
        `finish`.
        """


@runtime_checkable
class PagedFeed(DeltaFeed, Protocol):
    """A feed that can look at the pages themselves, beside what its log says of them."""

    def check_pages(self) -> None:
        """`establish` looks at every page from now on, and refuses where the log missed one."""


@dataclass(frozen=True)
class Scans:
    """How often a whole scan is made although a feed establishes the state."""

    rate: float = 0.0
    """The share of all trials and sources; 1 is always."""
    seed: int = 0
    by_pages: bool = False
    """True if pages are compared on every trial, where a source or a feed can do that."""

    def wanted(self, trial: str, source: str) -> bool:
        """True if this trial's reading of the source is to be a whole scan as well."""
        drawn = blake3.blake3(f"{self.seed}/{trial}/{source}".encode()).digest(8)
        return int.from_bytes(drawn, "big") < self.rate * 2**64

    def wanted_of(self, trial: str, sources: Iterable[str]) -> list[str]:
        """The sources that this trial also reads by a whole scan."""
        return [source for source in sources if self.wanted(trial, source)]


NO_SCANS: Final = Scans()


@dataclass(frozen=True)
class SourceCheck:
    """How one source's state after was established."""

    source: str
    by_feed: bool
    by_scan: bool
    doubts: tuple[Doubt, ...] = ()
    disagreement: tuple[str, ...] = ()
    """Types in which a scan and what was established without it differ."""
    by_pages: bool = False


@dataclass(frozen=True)
class GuardedCapture:
    """The capture after with its history, and how each source's part was established."""

    capture: Capture
    checks: tuple[SourceCheck, ...] = field(default=())


@dataclass(frozen=True)
class _SourceAfter:
    """One source's part of the capture after; `history` where it is settled already."""

    part: SourceCapture
    check: SourceCheck
    history: History | None = None


def capture_after(
    sources: Sequence[Source],
    watch: Watch,
    store: ChunkStore,
    clock: Clock,
    before: Capture,
    wanted: Sequence[str] = (),
    *,
    by_pages: bool = False,
) -> GuardedCapture:
    """Everything the sources show after the run, sorted by name, with what the feeds saw.

    `wanted` are the sources of which a whole scan is made in any case; `by_pages` has feeds look at
    pages, where they can.
    """
    ordered = in_name_order(sources)
    parts: list[SourceCapture] = []
    histories: list[History] = []
    checks: list[SourceCheck] = []
    for source in ordered:
        found = _after(source, watch, store, clock, before, source.name in wanted, by_pages)
        parts.append(found.part)
        checks.append(found.check)
        if found.history is not None:
            histories.append(found.history)
    capture = watch.add_history(store, before, Capture(tuple(parts)), histories)
    return GuardedCapture(capture, tuple(checks))


def _after(
    source: Source,
    watch: Watch,
    store: ChunkStore,
    clock: Clock,
    before: Capture,
    is_wanted: bool,
    by_pages: bool,
) -> _SourceAfter:
    name = source.name
    store = chunks_of(store, name)
    first = read_of(before, name)
    earlier = next((p for p in before.parts if p.reading.source == name), None)
    feed = watch.feed_of(name)
    if first is not None and isinstance(source, PageReader) and not isinstance(feed, DeltaFeed):
        return _by_pages(source, store, clock, first, is_wanted)
    if first is None or not isinstance(feed, DeltaFeed):
        return _scan(source, store, clock, earlier)
    paged = feed if by_pages and isinstance(feed, PagedFeed) else None

    def establish() -> Established:
        if paged is not None:
            paged.check_pages()
        found = feed.establish(store, clock, first.state)
        if found.part.reading.source != name:
            raise AdapterError(f"the feed of {name!r} delivered another source's reading")
        return found

    try:
        found = asked_twice(establish)
    except SourceUnavailable as error:
        history = unseen(name, f"the feed could not be read: {gap_of(error)}", clock)
        return replace(_scan(source, store, clock, earlier), history=history)
    part = replace(found.part, reading=replace(found.part.reading, id=f"after/{name}"))
    check = SourceCheck(
        name, by_feed=True, by_scan=False, doubts=found.doubts, by_pages=paged is not None
    )
    after = _SourceAfter(part, check)
    if is_wanted:
        after = _compare_with_scan(source, store, clock, earlier, after, FAULT)
        if after.history is not None:
            return after
    return replace(
        after, history=history_of(name, found.seen, Capture((after.part,)), clock, first.state)
    )


def _scan(
    source: Source, store: ChunkStore, clock: Clock, earlier: SourceCapture | None
) -> _SourceAfter:
    part = read_source(source, store, clock, earlier, "after")
    return _SourceAfter(part, SourceCheck(source.name, by_feed=False, by_scan=True))


def _compare_with_scan(
    source: Source,
    store: ChunkStore,
    clock: Clock,
    earlier: SourceCapture | None,
    after: _SourceAfter,
    fault: str,
) -> _SourceAfter:
    """A state established without a scan, compared with one; with a history if that is a fault."""
    scan = read_source(source, store, clock, earlier, "after")
    if scan.reading.digest is None:
        return after
    disagreement = differing(after.part.state, scan.state)
    check = replace(after.check, by_scan=True, disagreement=disagreement)
    if disagreement:
        cause = fault.format(_name_types(disagreement))
        history = unseen(check.source, cause, clock)
        return _SourceAfter(_refuse(after.part, store, cause), check, history)
    return _SourceAfter(scan if scan.reading.is_complete else after.part, check)


def _by_pages(
    source: PageReader, store: ChunkStore, clock: Clock, before: SourceCapture, is_wanted: bool
) -> _SourceAfter:
    """The part as its changed pages show it, without its history; scanned where they do not."""
    try:
        found = asked_twice(lambda: source.read_changed(store, clock, before.state))
    except SourceUnavailable:
        return _scan(source, store, clock, before)
    part = replace(found, reading=replace(found.reading, id=f"after/{source.name}"))
    check = SourceCheck(source.name, by_feed=False, by_scan=False, by_pages=True)
    after = _SourceAfter(part, check)
    if not is_wanted:
        return after
    return _compare_with_scan(source, store, clock, before, after, PAGES_FAULT)


def differing(established: State, scanned: State) -> tuple[str, ...]:
    """The types of which both states know all and do not show the same, sorted."""
    found = set(established.tables.keys() ^ scanned.tables.keys())
    for name in established.tables.keys() & scanned.tables.keys():
        one, other = established.tables[name], scanned.tables[name]
        if (
            one.enumeration.is_complete
            and other.enumeration.is_complete
            and (one.type != other.type or one.chunks != other.chunks)
        ):
            found.add(name)
    return tuple(sorted(found))


def _name_types(types: tuple[str, ...]) -> str:
    more = len(types) - _MOST_NAMES
    return ", ".join(types[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _refuse(part: SourceCapture, store: ChunkStore, cause: str) -> SourceCapture:
    was, state = part.reading, part.state
    return SourceCapture(
        unread(was.id, was.source, was.as_of, cause, clock=was.clock),
        unobserved_state(state.schema, store, cause, state),
    )
