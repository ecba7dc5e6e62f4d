"""Every committed state of a Roundup tracker: its database's log, in the tracker's own terms.

1. The log of the tracker's database is followed as any other (`sqlite.feed`): every commit, no
   matter who wrote it, through the interface or past it.
2. Each state is reported as the source tells it (`roundup`). What lies in files has no log: a file
   that is the same inode, unchanged since `attach`, was the same at every moment. Of any other
   nothing is known at moments in between, and what was written over or removed is a gap.

What it cannot see is what `sqlite.feed` cannot, the text of a comment or an attachment that is made
in the run before its last commit, and an agent that exchanges a whole folder and puts it back; that
takes the rights of the evaluator's own user.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.batches import Row
from statediff.model.explanation import by_run
from statediff.model.state import ChunkStore, Coverage, MemoryChunks, State
from statediff.model.values import Absent, Unobserved, printable
from statediff.systems.roundup.home import NOT_LISTED, Home, Items, content_path
from statediff.systems.roundup.source import RoundupSource
from statediff.systems.roundup.stores import FILES, Store
from statediff.systems.roundup.values import DATABASE
from statediff.systems.sqlite.feed import SqliteFeed

Marks: TypeAlias = Mapping[str, tuple[int, ...]]
"""Path below the home → what changes whenever that file or folder does."""

TICK_NS: Final = 20_000_000
"""Times of files are that coarse: what was changed later than this ago could change unseen."""
_IN_BETWEEN: Final = by_run("it lies in a file that was written in it, and files have no log")
_STORES: Final = tuple(f"{DATABASE}/{file}" for file in FILES.values())
_NO_LOG: Final = "it lies in a database of its own, whose log is not followed"
_WRITTEN: Final = by_run("files beside its database were changed, and no log tells when: ")
_MOVED: Final = "the capture before does not show the state in which the feed was attached"


class RoundupFeed:
    """A `Feed` of the tracker in the folder `home`."""

    def __init__(self, source: RoundupSource, home: Path) -> None:
        self._told_by = source
        self._home = home
        self._log = SqliteFeed(source.name, home / DATABASE / "db")
        self._marks: Marks = {}

    @property
    def source(self) -> str:
        return self._log.source

    def attach(self) -> None:
        self._log.attach()
        try:
            self._marks = _marks(self._home)
            newest = max((mark[1] for mark in self._marks.values()), default=0)
            # Else a change within the same tick as the last one before could not be distinguished.
            time.sleep(max(0, min(TICK_NS, newest + TICK_NS - time.time_ns())) / 1e9)
        except OSError as error:
            self._log.detach()
            raise SourceUnavailable(f"its home cannot be listed: {error.strerror}") from error

    def detach(self) -> None:
        self._log.detach()

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        try:
            past = _Past(self._told_by.home, self._marks, _marks(self._home))
        except OSError as error:
            raise SourceUnavailable(f"its home cannot be listed: {error.strerror}") from error
        raw: list[State] = []

        def tell(state: State) -> State:
            told = self._told_by.told(state, past, store, before)
            if not (raw or past.changed or _agree(told, before)):
                raise SourceUnavailable(_MOVED)
            raw[:] = [state]
            return told

        seen = self._log.retold(MemoryChunks(), None, tell)
        if seen.gap is None and past.changed:
            some = printable(", ".join(past.changed[:3]))
            seen = replace(seen, gap=f"{_WRITTEN}{some}")
        if seen.transactions and seen.gap is None:
            last = self._told_by.told(raw[0], self._told_by.home, store, before)
            seen = replace(
                seen,
                transactions=(
                    *seen.transactions[:-1],
                    replace(seen.transactions[-1], state=last),
                ),
            )
        return seen


class _Past(Home):
    """What the files were at any moment since `attach`, as far as that can be known."""

    def __init__(self, home: Home, attached: Marks, now: Marks) -> None:
        super().__init__(home.folder, home.own)
        self._same = {path for path, mark in attached.items() if now.get(path) == mark}
        files = f"{DATABASE}/files/"
        self.changed = sorted(
            path
            for path in attached.keys() | now.keys()
            if path not in self._same
            and not (path.startswith(files) and path not in attached)
            and not path.endswith("/")
            and path not in _STORES
        )
        # A program that was there for a while only has changed its folder.
        self._is_still = not self.changed and all(
            path in self._same for path in attached if path.endswith("/")
        )

    def content(self, kind: str, number: int) -> bytes | Unobserved | Absent:
        if "/".join(content_path(kind, number)) in self._same:
            return super().content(kind, number)
        return Unobserved(_IN_BETWEEN)

    def settings(self) -> list[Row] | str:
        return super().settings() if self._is_still else _IN_BETWEEN

    def programs(self, items: Items) -> list[Row] | str:
        found = super().programs(items) if self._is_still else _IN_BETWEEN
        if isinstance(found, str):
            return found
        # The content of an item of which this moment knows nothing yet.
        files = f"{DATABASE}/files/"
        return [
            row
            for row in found
            if not str(row["path"]).startswith(files) or row["path"] in self._same
        ]

    def store(self, name: str) -> Store:
        path = f"{DATABASE}/{FILES[name]}"
        return super().store(name) if path in self._same else Store(f"{name}: {_NO_LOG}")


def _agree(told: State, before: State) -> bool:
    """Whether the two are the same in all that is known of the first."""
    return told.tables.keys() == before.tables.keys() and all(
        table.chunks == before.tables[name].chunks
        for name, table in told.tables.items()
        if table.enumeration.coverage is not Coverage.UNOBSERVED
    )


def _marks(home: Path) -> Marks:
    """Of every file below the home, and of every folder (`…/`) beside the database's."""
    found: dict[str, tuple[int, ...]] = {}

    def mark(name: str, path: str) -> None:
        is_ = os.lstat(path)
        found[name] = (is_.st_ino, is_.st_ctime_ns, is_.st_size, is_.st_mode)

    def fail(error: OSError) -> None:
        raise error

    for folder, _, files in os.walk(home, onerror=fail):
        below = os.path.relpath(folder, home)
        prefix = "" if below == "." else f"{below}/"
        if not prefix.startswith(f"{DATABASE}/"):
            mark(f"{prefix}/", folder)
        for name in files:
            # Databases change their files all the time.
            if not prefix or prefix + name not in NOT_LISTED:
                mark(prefix + name, f"{folder}/{name}")
    for path in _STORES:
        with contextlib.suppress(FileNotFoundError):
            mark(path, f"{home}/{path}")
        log = home / f"{path}-wal"
        if log.exists() and log.lstat().st_size:
            found.pop(path, None)  # its log is written now: nobody knows what it was
    return found
