"""The Source protocol: what a system must offer to be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, runtime_checkable

from statediff.errors import StatediffError
from statediff.model.readings import Reading, ReadingKind, SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import ChunkStore, State

Clock = Callable[[], datetime]
"""Returns aware UTC instants; the trial's recorded clock."""


class SourceUnavailable(StatediffError):
    """The source could not be read at all; the message is the cause given to its values."""


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

    def close(self) -> None:
        """Nothing is kept any more."""


@runtime_checkable
class PagedSource(Source, Protocol):
    """A source whose pages can be compared with those of an earlier reading."""

    def by_pages(self) -> PageReader:
        """The same source, read so; whoever asks closes it."""


def scanned(name: str, as_of: datetime, state: State) -> SourceCapture:
    """What a scan of the source `name` found, and where it is incomplete, type by type."""
    gaps = [
        f"{table.type.name}: {table.enumeration.cause}"
        for table in state.tables.values()
        if not table.enumeration.is_complete
    ]
    reading = Reading(
        name, name, ReadingKind.SCAN, as_of, "trial",
        is_complete=not gaps, digest=state.digest(), cause="; ".join(gaps) or None,
    )  # fmt: skip
    return SourceCapture(reading, state)
