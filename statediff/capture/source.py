"""The Source protocol: what a system must offer to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from statediff.capture.within import OutOfTime, in_time
from statediff.errors import StatediffError
from statediff.later import later
from statediff.model.explanation import by_run, unread_because
from statediff.model.readings import TRIAL_CLOCK, Reading, ReadingKind, SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import ChunkStore, State
from statediff.total import in_any_case, words_of

Clock = Callable[[], datetime]
"""Returns aware UTC instants; the trial's recorded clock."""


def clock() -> datetime:
    """The clock of this machine."""
    return datetime.now(UTC)


class SourceUnavailable(StatediffError):
    """The source could not be read at all; the message is the cause given to its values."""


class SourceRuined(SourceUnavailable):
    """The content that is there now cannot be read: no lock, fault or network is the reason.

    After a run, of a source that was read before it, that is a change (`capture.take`).
    """


class SourceTooSlow(SourceUnavailable):
    """Reading what is there takes longer than it may: `what` says how long that is."""

    def __init__(self, what: str) -> None:
        super().__init__(unread_because(what))
        self.what = what


class SourceUnfollowed(SourceUnavailable):
    """The run keeps the source from being followed: by `what`, and the message says that."""

    def __init__(self, what: str) -> None:
        super().__init__(by_run(what))
        self.what = what


T = TypeVar("T")


def asked_twice(ask: Callable[[], T], least: float = 0.0) -> T:
    """Ask once, and once more where the first ask fails.

    Whatever fails twice is a `SourceUnavailable`, whose message is the cause; `SourceTooSlow` what
    takes longer than readings may, and than `least` seconds of the processor.
    """

    def give_up(error: Exception) -> T:
        if isinstance(error, SourceUnavailable):
            raise error
        raise SourceUnavailable(unread_because(words_of(error))) from error

    try:
        return in_time(lambda: in_any_case(ask, give_up), least)
    except OutOfTime as error:
        raise SourceTooSlow(f"it takes more than {error} to read") from None


def gap_of(error: SourceUnavailable) -> str:
    """Why a history is not whole; what cannot be read in it for what it is, the run wrote."""
    return by_run(str(error)) if isinstance(error, SourceRuined) else str(error)


class Source(Protocol):
    """A system that can be observed, with an identity. Reading it must not change it."""

    @property
    def name(self) -> str:
        """Identity of the source, e.g. `shop-db`."""

    def schema(self) -> Schema:
        """The entity types it delivers; `SourceUnavailable` if it cannot be asked."""

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        """One consistent reading, cut like `like` (the state before).

        Raises `SourceUnavailable`; what it could only read in part it delivers with an incomplete
        enumeration and a cause.
        """


@runtime_checkable
class PageReader(Source, Protocol):
    """A source that keeps the pages it read, and reads again only what lies on others."""

    def read_changed(self, store: ChunkStore, clock: Clock, like: State) -> SourceCapture:
        """One consistent reading, where `like` is what `read` showed when it kept the pages.

        Raises `SourceUnavailable` where pages do not tell all of it: `read` then does.
        """

    def beside(self, source: Source) -> Source:
        """`source`, another place of the same system, read by what differs from the kept pages.

        Its `read` gives what that of `source` gives, for a `like` of what `read` here showed; it is
        `source` itself where pages tell nothing. Threads and forked processes may share it, each
        with a store of its own over that of `read` (`LayeredChunks`). Nobody closes the reader
        before its last use.
        """

    def close(self) -> None:
        """Nothing is kept any more."""


@runtime_checkable
class PagedSource(Source, Protocol):
    """A source whose pages can be compared with those of an earlier reading."""

    def by_pages(self) -> PageReader:
        """The same source, read so; the caller closes it."""


@runtime_checkable
class PlacedSource(Source, Protocol):
    """A source that is read at paths of this machine."""

    @property
    def places(self) -> tuple[Path, ...]:
        """The paths; none where the environment took them away, which says nothing of the run."""


@runtime_checkable
class SettledSource(Source, Protocol):
    """A source in which what a call of a tool wrote is there when the call is over."""

    settles_at_once: ClassVar[bool]


@runtime_checkable
class SessionLister(Source, Protocol):
    """A source whose system shows who else is connected."""

    def sessions(self) -> tuple[str, ...]:
        """Sessions of others, in the system's words, sorted. Raises `SourceUnavailable`."""


def scanned(
    name: str,
    as_of: datetime,
    state: State,
    *,
    gaps: Iterable[str] | None = None,
    position: str | None = None,
    spoiled: tuple[str, ...] = (),
) -> SourceCapture:
    """The capture of a scan of the source `name`, and where it is incomplete.

    `gaps` says what is missing, where the source has words of its own for it; by default each
    incomplete type is named with its cause.
    """
    return _captured(ReadingKind.SCAN, name, as_of, state, gaps, position, spoiled)


def replayed(
    name: str,
    as_of: datetime,
    state: State,
    *,
    gaps: Iterable[str] | None = None,
    position: str,
) -> SourceCapture:
    """The state that the log of the source `name` led to up to `position`; `gaps` as for a scan."""
    return _captured(ReadingKind.FEED, name, as_of, state, gaps, position)


def unread(
    evidence: str,
    source: str,
    as_of: datetime,
    cause: str,
    *,
    kind: ReadingKind = ReadingKind.SCAN,
    clock: str = TRIAL_CLOCK,
) -> Reading:
    """The reading `evidence` of a source that showed nothing, and why."""
    return Reading(
        evidence,
        source,
        kind,
        as_of=as_of,
        clock=clock,
        is_complete=False,
        digest=None,
        cause=cause,
    )


def _captured(
    kind: ReadingKind,
    name: str,
    as_of: datetime,
    state: State,
    gaps: Iterable[str] | None,
    position: str | None,
    spoiled: tuple[str, ...] = (),
) -> SourceCapture:
    missing = tuple(_incomplete_types(state) if gaps is None else gaps)
    reading = Reading(
        id=name,
        source=name,
        kind=kind,
        as_of=as_of,
        clock=TRIAL_CLOCK,
        is_complete=not missing,
        digest=None,
        position=position,
        cause="; ".join(missing) or None,
    )
    return SourceCapture(later(reading, "digest", state.digest), state, spoiled)


def _incomplete_types(state: State) -> Iterator[str]:
    for name, table in sorted(state.tables.items()):
        if not table.enumeration.is_complete:
            yield f"{name}: {table.enumeration.cause}"
