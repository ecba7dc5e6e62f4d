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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, runtime_checkable

import blake3

from statediff.capture.feed import Feed, Seen
from statediff.capture.history import Watch, history_of, read_of, unseen
from statediff.capture.source import Clock, PageReader, Source, SourceUnavailable, unread
from statediff.capture.take import read_source, unobserved_state
from statediff.errors import AdapterError
from statediff.model.readings import (
    Capture,
    History,
    SourceCapture,
)
from statediff.model.state import ChunkStore, State

FAULT: Final = (
    "contradiction: a whole scan after the run shows something else than the state before with all "
    "that the feed saw, in {}; the source is at fault, and nothing it said is used"
)
PAGES_FAULT: Final = (
    "contradiction: a whole scan after the run shows something else than the pages that changed, "
    "in {}; the source is at fault, and nothing it said is used"
)
_NAMES_TOLD: Final = 5


@dataclass(frozen=True)
class Doubt:
    """A type that no delta establishes, and why."""

    type: str
    cause: str


@dataclass(frozen=True)
class Established:
    """The state after a run, told from the state before."""

    part: SourceCapture
    """Its reading is of kind FEED, with the position that the state shows."""
    seen: Seen
    """The history; the last transaction's state is that of `part`."""
    doubts: tuple[Doubt, ...] = ()
    """The types that were scanned instead, sorted by name."""


@runtime_checkable
class DeltaFeed(Feed, Protocol):
    """A feed that also tells the state after, at a cost that follows what changed."""

    def establish(self, store: ChunkStore, clock: Clock, before: State) -> Established:
        """What the source is now; `before` is the capture made since `attach`.

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
    """Of all trials and sources; 1 is always."""
    seed: int = 0
    by_pages: bool = False
    """Whether pages are compared on every trial, where a source or a feed can do that."""

    def wanted(self, trial: str, source: str) -> bool:
        """Whether this trial's reading of the source is to be a whole scan as well."""
        drawn = blake3.blake3(f"{self.seed}/{trial}/{source}".encode()).digest(8)
        return int.from_bytes(drawn, "big") < self.rate * 2**64


NO_SCANS: Final = Scans()
AUTHORITATIVE: Final = Scans(rate=1.0)


@dataclass(frozen=True)
class Check:
    """How one source's state after was established."""

    source: str
    by_feed: bool
    by_scan: bool
    doubts: tuple[Doubt, ...] = ()
    disagreement: tuple[str, ...] = ()
    """Types in which a scan and what was told without it differ."""
    by_pages: bool = False


@dataclass(frozen=True)
class Guarded:
    """The capture after with its history, and how each source's part was come by."""

    capture: Capture
    checks: tuple[Check, ...] = field(default=())


def capture_after(
    sources: Sequence[Source],
    watch: Watch,
    store: ChunkStore,
    clock: Clock,
    before: Capture,
    wanted: Sequence[str] = (),
    *,
    by_pages: bool = False,
) -> Guarded:
    """Everything the sources show after the run, sorted by name, with what the feeds saw.

    `wanted` are the sources of which a whole scan is made in any case; `by_pages` has feeds look at
    pages, where they can.
    """
    ordered = sorted(sources, key=lambda source: source.name)
    if len({source.name for source in ordered}) < len(ordered):
        raise AdapterError("two sources share a name: give each its own name")
    parts: list[SourceCapture] = []
    told: list[History] = []
    checks: list[Check] = []
    for source in ordered:
        part, history, check = _after(
            source, watch, store, clock, before, source.name in wanted, by_pages
        )
        parts.append(part)
        checks.append(check)
        if history is not None:
            told.append(history)
    return Guarded(watch.told(store, before, Capture(tuple(parts)), told), tuple(checks))


def _after(
    source: Source,
    watch: Watch,
    store: ChunkStore,
    clock: Clock,
    before: Capture,
    is_wanted: bool,
    by_pages: bool,
) -> tuple[SourceCapture, History | None, Check]:
    """The part, its history if it is settled already, and how it was come by."""
    name = source.name
    first = read_of(before, name)
    like = next((p.state for p in before.parts if p.reading.source == name), None)
    feed = watch.attached(name)
    if first is not None and isinstance(source, PageReader) and not isinstance(feed, DeltaFeed):
        return _by_pages(source, store, clock, first.state, is_wanted)
    if first is None or not isinstance(feed, DeltaFeed):
        return read_source(source, store, clock, like, "after"), None, Check(name, False, True)
    paged = feed if by_pages and isinstance(feed, PagedFeed) else None
    try:
        if paged is not None:
            paged.check_pages()
        found = feed.establish(store, clock, first.state)
    except SourceUnavailable as error:
        part = read_source(source, store, clock, like, "after")
        history = unseen(name, f"the feed could not be read: {error}", clock)
        return part, history, Check(name, False, True)
    if found.part.reading.source != name:
        raise AdapterError(f"the feed of {name!r} delivered another source's reading")
    part = replace(found.part, reading=replace(found.part.reading, id=f"after/{name}"))
    check = Check(name, True, False, found.doubts, by_pages=paged is not None)
    if is_wanted:
        part, fault, check = _scanned_too(source, store, clock, like, part, check, FAULT)
        if fault is not None:
            return part, fault, check
    return part, history_of(name, found.seen, Capture((part,)), clock), check


def _scanned_too(
    source: Source, store: ChunkStore, clock: Clock, like: State | None, part: SourceCapture,
    check: Check, fault: str,
) -> tuple[SourceCapture, History | None, Check]:  # fmt: skip
    """What was told without a scan, held against one; with a history where that is a fault."""
    scan = read_source(source, store, clock, like, "after")
    if scan.reading.digest is None:
        return part, None, check
    check = replace(check, by_scan=True, disagreement=differing(part.state, scan.state))
    if check.disagreement:
        cause = fault.format(_named(check.disagreement))
        return _refused(part, store, cause), unseen(check.source, cause, clock), check
    return scan if scan.reading.is_complete else part, None, check


def _by_pages(
    source: PageReader, store: ChunkStore, clock: Clock, before: State, is_wanted: bool
) -> tuple[SourceCapture, History | None, Check]:
    """The part as its changed pages tell it; scanned where they do not. Its history is not told."""
    try:
        found = source.read_changed(store, clock, before)
    except SourceUnavailable:
        part = read_source(source, store, clock, before, "after")
        return part, None, Check(source.name, False, True)
    part = replace(found, reading=replace(found.reading, id=f"after/{source.name}"))
    check = Check(source.name, False, False, by_pages=True)
    if not is_wanted:
        return part, None, check
    return _scanned_too(source, store, clock, before, part, check, PAGES_FAULT)


def differing(told: State, scanned: State) -> tuple[str, ...]:
    """The types of which both states know all and do not show the same, sorted."""
    found = set(told.tables.keys() ^ scanned.tables.keys())
    for name in told.tables.keys() & scanned.tables.keys():
        one, other = told.tables[name], scanned.tables[name]
        if (
            one.enumeration.is_complete
            and other.enumeration.is_complete
            and (one.type != other.type or one.chunks != other.chunks)
        ):
            found.add(name)
    return tuple(sorted(found))


def _named(types: tuple[str, ...]) -> str:
    more = len(types) - _NAMES_TOLD
    return ", ".join(types[:_NAMES_TOLD]) + (f" and {more} more" if more > 0 else "")


def _refused(part: SourceCapture, store: ChunkStore, cause: str) -> SourceCapture:
    was, state = part.reading, part.state
    return SourceCapture(
        unread(was.id, was.source, was.as_of, cause, clock=was.clock),
        unobserved_state(state.schema, store, cause, state),
    )
