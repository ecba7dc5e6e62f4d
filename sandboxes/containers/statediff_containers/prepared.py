"""Data folders of database servers, kept by the process that made them, for its next servers.

To make a database of a pack's texts takes a server longer than to begin. So the second caller
to ask for the same one ends its server when that is made and leaves the volume it wrote, over which
it begins again, and who asks after that begins there too (`overlay_volume`). The volume goes with
this process, however that ends.

Nothing here proves anything. What a data folder must hold is shown by what its maker found in it
(`Kept.facts`), which stays in this process's memory, and every reset is proven against that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from statediff.errors import SandboxError
from statediff.systems.base.owner import Owner
from statediff_containers.box import Box

T = TypeVar("T")
MOST: Final = 3
"""Kept in all: nobody knows how long they will be of use."""
QUIET_SECONDS: Final = 0.5
"""From a server's start until its sandbox is proven."""


@dataclass(frozen=True)
class Kept(Generic[T]):
    """A server's data, which no server writes any more, and what its maker knows of it."""

    written: Hashable
    """For `Machine.run`, e.g. a volume."""
    facts: T


class Starts:
    """How many servers are being started, for those who have work that can wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._last = time.monotonic() - QUIET_SECONDS

    @contextmanager
    def one(self) -> Iterator[None]:
        """A server is being started meanwhile."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                self._last = time.monotonic()

    def rest(self, wanted: threading.Event) -> None:
        """For a while nobody has started a server, or somebody waits for the work."""
        while (left := self._seconds_to_rest()) > 0 and not wanted.wait(left):
            pass

    def _seconds_to_rest(self) -> float:
        with self._lock:
            if self._under_way:
                return QUIET_SECONDS
            return self._last + QUIET_SECONDS - time.monotonic()


STARTS: Final = Starts()
"""Those of this process."""


@dataclass
class _Place(Generic[T]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: int = 0
    kept: Kept[T] | None = None
    is_refused: bool = False


class Shelf(Generic[T]):
    """The kept data of one kind of server, by whatever tells two of them apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[Hashable, _Place[T]] = {}

    def start(
        self,
        key: Hashable,
        make: Callable[[], tuple[Box, T]],
        begin: Callable[[Kept[T]], Box],
    ) -> tuple[Box, T]:
        """A running server, and the facts about its data folder.

        `begin` starts the server over a volume that was kept for the key. If none was, `make` loads
        the texts, one caller per key at a time. If others want the same key, that server is ended,
        its volume is kept, and `begin` starts it again. If a volume cannot be used, e.g. because
        the engine's kernel cannot mount one folder over another, each server loads its texts.
        """
        with self._lock:
            place = self._places.setdefault((Owner.current(), key), _Place())
            place.asked += 1
        with STARTS.one():
            return self._start_at(place, make, begin)

    def _start_at(
        self,
        place: _Place[T],
        make: Callable[[], tuple[Box, T]],
        begin: Callable[[Kept[T]], Box],
    ) -> tuple[Box, T]:
        while True:
            if (kept := place.kept) is None:
                with place.lock:
                    if place.kept is None:
                        box, facts = make()
                        if not self._is_wanted(place):
                            return box, facts
                        place.kept = _keep_volume(box, facts)
                        place.is_refused = place.kept is None
                    kept = place.kept
            if kept is not None:
                try:
                    return begin(kept), kept.facts
                except SandboxError:
                    place.kept, place.is_refused = None, True

    def _is_wanted(self, place: _Place[T]) -> bool:
        """True if somebody else asked for the same before, or waits for it, and there is room."""
        kept = sum(other.kept is not None for other in [*self._places.values()])
        return place.asked > 1 and not place.is_refused and kept < MOST


def _keep_volume(box: Box, facts: T) -> Kept[T] | None:
    """End the server and keep its data, written for good; None where it did not end well."""
    try:
        written = box.ended()
    finally:
        box.remove()
    return None if written is None else Kept(written, facts)
