"""Every committed state of a server whose source tells its database in other terms.

1. The log of the database is followed as any other (`sqlite.feed`): every commit, no matter who
   wrote it, through the server or past it.
2. Each state is reported as the source tells it. What lies in files has no log: a file that is the
   same inode, unchanged since `attach`, was the same at every moment. Of any other nothing is known
   at moments in between, and what was written over or removed is a gap.

What it cannot see is what `sqlite.feed` cannot, what a file that is made in the run holds before
its last commit, and an agent that exchanges a whole folder and puts it back; that takes the rights
of the evaluator's own user.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.explanation import by_run
from statediff.model.state import ChunkStore, Coverage, MemoryChunks, State
from statediff.model.values import printable
from statediff.systems.sqlite.feed import SqliteFeed

Mark: TypeAlias = tuple[int, ...]
"""Numbers that change whenever a file or folder does."""
Marks: TypeAlias = Mapping[str, Mark]
"""Path below a folder, that of a folder with `/` at its end → its mark."""

TICK_NS: Final = 20_000_000
"""Times of files are that coarse: what was changed later than this ago could change unseen."""
IN_BETWEEN: Final = by_run("it lies in a file that was written in it, and files have no log")
_WRITTEN: Final = by_run("files beside its database were changed, and no log tells when: ")
_MOVED: Final = "the capture before does not show the state in which the feed was attached"


@dataclass(frozen=True)
class Unmoved:
    """The files beside a database as they are known to have been since `attach`."""

    same: frozenset[str]
    """The paths that nobody wrote to."""
    changed: tuple[str, ...]
    """The paths, sorted, that were changed or added where that is a gap."""
    is_still: bool
    """No file or folder was changed: a file that was there for a while changes its folder."""


@dataclass(frozen=True)
class Moment:
    """A state of a database, and as its source tells it."""

    raw: State
    told: State

    def changed(self, raw: State) -> frozenset[str]:
        """The tables, by their names in the database, that are others in that state."""
        tables = self.raw.tables
        gone = {tables[name].type.source_table for name in tables.keys() - raw.tables.keys()}
        return frozenset(
            gone
            | {
                table.type.source_table
                for name, table in raw.tables.items()
                if (was := tables.get(name)) is not table
                and (
                    was is None
                    or (was.type, was.chunks, was.enumeration)
                    != (table.type, table.chunks, table.enumeration)
                )
            }
        )


class RetoldFeed(ABC):
    """A `Feed` of a database with files beside it."""

    def __init__(self, log: SqliteFeed) -> None:
        self._log = log
        self._attached: Marks = {}

    @abstractmethod
    def marks(self) -> Marks:
        """The marks of every file and folder beside the database, now. Raises `OSError`."""

    @abstractmethod
    def is_gap(self, path: str, is_new: bool) -> bool:
        """True if a file that was changed there, or added, leaves nobody knowing when."""

    @abstractmethod
    def told(
        self,
        raw: State,
        store: ChunkStore,
        before: State,
        past: Unmoved | None,
        last: Moment | None,
    ) -> State:
        """One state of the database as the source tells it; the state now, if `past` is None.

        `last` is the moment before it, of the same `past`, where there is one.
        """

    @property
    def source(self) -> str:
        return self._log.source

    def attach(self) -> None:
        self._log.attach()
        try:
            self._attached = self.marks()
            newest = max((mark[1] for mark in self._attached.values()), default=0)
            # Else a change within the same tick as the last one before could not be distinguished.
            time.sleep(max(0, min(TICK_NS, newest + TICK_NS - time.time_ns())) / 1e9)
        except OSError as error:
            self._log.detach()
            raise _unlisted(error) from error

    def detach(self) -> None:
        self._log.detach()

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        try:
            past = self._unmoved(self.marks())
        except OSError as error:
            raise _unlisted(error) from error
        last: Moment | None = None

        def tell(raw: State) -> State:
            nonlocal last
            if last is not None and not last.changed(raw):
                return last.told
            told = self.told(raw, store, before, past, last)
            if not (last or past.changed or _agree(told, before)):
                raise SourceUnavailable(_MOVED)
            last = Moment(raw, told)
            return told

        seen = self._log.retold(MemoryChunks(), None, tell)
        if seen.gap is None and past.changed:
            some = printable(", ".join(past.changed[:3]))
            seen = replace(seen, gap=f"{_WRITTEN}{some}")
        if seen.transactions and seen.gap is None and last is not None:
            state = self.told(last.raw, store, before, None, None)
            end = replace(seen.transactions[-1], state=state)
            seen = replace(seen, transactions=(*seen.transactions[:-1], end))
        return seen

    def _unmoved(self, now: Marks) -> Unmoved:
        was = self._attached
        same = frozenset(path for path, mark in was.items() if now.get(path) == mark)
        changed = sorted(
            path
            for path in was.keys() | now.keys()
            if path not in same and not path.endswith("/") and self.is_gap(path, path not in was)
        )
        folders_stand = all(path in same for path in was if path.endswith("/"))
        return Unmoved(same, tuple(changed), not changed and folders_stand)


def marks_below(home: Path, is_looked_at: Callable[[str], bool]) -> dict[str, Mark]:
    """The marks of files and folders below the home that are looked at. Raises `OSError`."""
    found: dict[str, Mark] = {}

    def fail(error: OSError) -> None:
        raise error

    for folder, _, files in os.walk(home, onerror=fail):
        below = f"{os.path.relpath(folder, home)}/"
        if is_looked_at(below):
            found[below] = mark_of(folder)
        for name in files:
            path = f"{below}{name}".removeprefix("./")
            if is_looked_at(path):
                found[path] = mark_of(f"{folder}/{name}")
    return found


def mark_of(path: str | Path) -> Mark:
    """The mark of one file or folder. Raises `OSError`."""
    is_ = os.lstat(path)
    return is_.st_ino, is_.st_ctime_ns, is_.st_size, is_.st_mode


def _unlisted(error: OSError) -> SourceUnavailable:
    return SourceUnavailable(f"its home cannot be listed: {error.strerror}")


def _agree(told: State, before: State) -> bool:
    """True if the two are the same in all that is known of the first."""
    return told.tables.keys() == before.tables.keys() and all(
        table.chunks == before.tables[name].chunks
        for name, table in told.tables.items()
        if table.enumeration.coverage is not Coverage.UNOBSERVED
    )
