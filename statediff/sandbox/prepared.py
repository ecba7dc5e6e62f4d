"""Data folders of database servers, kept by the process that made them, for its next servers.

To make a database of a pack's texts takes a server longer than to begin. So whoever is the second
to ask for the same one keeps an archive of the data folder, and who asks after that unpacks it.
Archives lie in the memory folder of this process's containers and go with it, however it ends.

Nothing here proves anything. What a data folder must hold is told by what its maker found in it
(`Kept.facts`), which stays in this process's memory, and every reset is proven against that. An
archive that is not as it was when it was written is not used again.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from blake3 import blake3

from statediff.sandbox.containers import SOCKETS, Container, Shared, connect
from statediff.sandbox.folders import remove

T = TypeVar("T")
PLACE: Final = "/usr/share/statediff/data.tar"
"""Where the images' servers find the archive that they unpack."""
MOST: Final = 3
"""Kept in all: each may take some 40 MB of memory."""
_ARCHIVE: Final = "data.tar"


@dataclass(frozen=True)
class Kept(Generic[T]):
    """An archive, and what its maker knows of the server it was taken from."""

    archive: Path
    digest: bytes
    facts: T

    @property
    def shared(self) -> Shared:
        """The archive, where a server finds it."""
        return Shared(self.archive, PLACE)

    def is_whole(self) -> bool:
        try:
            return blake3(self.archive.read_bytes()).digest() == self.digest
        except OSError:
            return False


@dataclass
class Turn(Generic[T]):
    """One start of a server: from what was kept, or else nobody else makes the same meanwhile."""

    kept: Kept[T] | None = None
    is_wanted: bool = False
    """Somebody else asked for the same before, or waits for it, and there is room."""

    def keep(self, container: Container, data: str, facts: T, *without: str) -> None:
        """The data folder of a server that nobody writes to is kept. Raises `SandboxError`."""
        left_out = [f"--exclude=./{name}" for name in without]
        written = ("-S", "--hole-detection=raw", "-cf", f"{SOCKETS}/{_ARCHIVE}")
        container.check("tar", "-C", data, *left_out, *written, ".")
        archive = connect().folder() / _ARCHIVE
        container.socket(_ARCHIVE).replace(archive)
        self.kept = Kept(archive, blake3(archive.read_bytes()).digest(), facts)


@dataclass
class _Place(Generic[T]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: int = 0
    kept: Kept[T] | None = None


class Shelf(Generic[T]):
    """What was kept of one kind of server, by whatever tells two of them apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[Hashable, _Place[T]] = {}

    @contextmanager
    def turn(self, *key: Hashable) -> Iterator[Turn[T]]:
        """One start of a server that this key tells from others; see `Turn`."""
        with self._lock:
            place = self._places.setdefault((connect().owner, *key), _Place())
            place.asked += 1
        with place.lock:
            if place.kept is not None and not place.kept.is_whole():
                remove(place.kept.archive)
                place.kept = None
            if place.kept is None:
                kept = sum(other.kept is not None for other in [*self._places.values()])
                turn: Turn[T] = Turn(is_wanted=place.asked > 1 and kept < MOST)
                yield turn
                place.kept = turn.kept
                return
        yield Turn(place.kept)
