"""Every state that pushes left in a repository behind a server of ours.

The server lets pushes in one after the other and keeps, where no request reaches, what the files of
the refs were before and after each (`sandboxes/images/git/serve.sh`). Objects stay, whatever refs
lead to them, for nothing collects garbage; so the state after a push is what its refs lead to, read
with the code that scans.

A push is known by the moves of its refs, which whoever pushed knows too.

What it cannot see: who pushed; in which order one push moved several refs; pushes that were
refused, which leave nothing. Refs that moved otherwise than by a push, and a push that was cut off,
are gaps. A repository that the agent holds as a folder has no such feed: its reflogs are the
agent's to write, and deleting a branch deletes its reflog.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.systems.files.tree import Folder, NotRead
from statediff.systems.git.refs import Refs, moves, read_refs
from statediff.systems.git.source import GitSource

MAX_PUSHES: Final = 1_000
MAX_NAMES: Final = 200
"""Refs of one push by whose move it is known."""
_LOCK: Final = "lock"
_MOVED: Final = "its refs moved otherwise than by a push"


class GitServerFeed:
    """A `Feed` of the bare repository at `place`, whose server keeps its pushes in `course`."""

    def __init__(self, read: GitSource, place: Path, course: Path) -> None:
        self._read = read
        self._place = place
        self._course = course
        self._start: Refs | None = None

    @property
    def source(self) -> str:
        return self._read.name

    def attach(self) -> None:
        self.detach()
        if self._pushes():
            raise SourceUnavailable("there were pushes before; reset the sandbox first")
        self._start = _refs(self._place)

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        if self._start is None:
            raise SourceUnavailable(f"no feed of {self.source} is attached")
        told: list[Transaction] = []
        earlier = self._start
        pushes = self._pushes()
        for number in range((len(pushes) + 1) // 2):
            halves = [f"{number:06d}.{moment}" for moment in ("before", "after")]
            if not set(halves) <= pushes:
                return Seen(tuple(told), "a push was cut off, or is still going on")
            if number == MAX_PUSHES:
                return Seen(tuple(told), f"there are more than {MAX_PUSHES} pushes")
            start, end = (_refs(self._course / name) for name in halves)
            if start != earlier:
                return Seen(tuple(told), _MOVED)
            if end != earlier:
                name = f"{self.source}/{len(told) + 1}"
                state = self._read.at(end, store, before)
                position, names = f"push {number + 1}", moves(earlier, end)[:MAX_NAMES]
                told.append(Transaction(name, self.source, position, None, state, names))
            earlier = end
        return Seen(tuple(told), None if _refs(self._place) == earlier else _MOVED)

    def detach(self) -> None:
        self._start = None

    def _pushes(self) -> frozenset[str]:
        """What the server kept of pushes. Raises `SourceUnavailable`."""
        try:
            return frozenset(entry.name for entry in self._course.iterdir()) - {_LOCK}
        except OSError as error:
            raise SourceUnavailable(
                f"what the server kept of pushes cannot be read: {error.strerror}"
            ) from error


def _refs(place: Path) -> Refs:
    try:
        with Folder.open(place) as folder:
            return read_refs(folder)
    except NotRead as error:
        raise SourceUnavailable(str(error)) from error
