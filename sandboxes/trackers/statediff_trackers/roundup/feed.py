"""Every committed state of a Roundup tracker: its database's log, in the tracker's own terms.

See `trackers.retold`, and what it cannot see. The text of a comment or an attachment that is made
in the run is known from its last commit on.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from statediff.model.batches import Row
from statediff.model.state import ChunkStore, State
from statediff.model.values import Absent, Unobserved
from statediff.systems.hosted.retold import (
    IN_BETWEEN,
    Marks,
    Moment,
    RetoldFeed,
    Unmoved,
    mark_of,
    marks_below,
)
from statediff.systems.sqlite.feed import SqliteFeed
from statediff_trackers.roundup.home import NOT_LISTED, Home, Items, content_path
from statediff_trackers.roundup.source import RoundupSource
from statediff_trackers.roundup.stores import FILES, Store
from statediff_trackers.roundup.values import DATABASE

_STORES: Final = tuple(f"{DATABASE}/{file}" for file in FILES.values())
_CONTENT: Final = f"{DATABASE}/files/"
_NO_LOG: Final = "it lies in a database of its own, whose log is not followed"


class RoundupFeed(RetoldFeed):
    """A `Feed` of the tracker in the folder `home`."""

    def __init__(self, source: RoundupSource, home: Path) -> None:
        super().__init__(SqliteFeed(source.name, home / DATABASE / "db"))
        self._told_by = source
        self._home = home

    def marks(self) -> Marks:
        found = marks_below(self._home, _is_looked_at)
        for path in _STORES:
            with contextlib.suppress(FileNotFoundError):
                found[path] = mark_of(self._home / path)
            log = self._home / f"{path}-wal"
            if log.exists() and log.lstat().st_size:
                found.pop(path, None)  # its log is written now: nobody knows what it was
        return found

    def is_gap(self, path: str, is_new: bool) -> bool:
        return path not in _STORES and not (is_new and path.startswith(_CONTENT))

    def told(
        self,
        raw: State,
        store: ChunkStore,
        before: State,
        past: Unmoved | None,
        last: Moment | None,
    ) -> State:
        home = self._told_by.home if past is None else _Past(self._told_by.home, past)
        return self._told_by.told(raw, home, store, before)


class _Past(Home):
    """The files as they were at any moment since `attach`, as far as that can be known."""

    def __init__(self, home: Home, unmoved: Unmoved) -> None:
        super().__init__(home.folder, home.own)
        self._same = unmoved.same
        self._is_still = unmoved.is_still

    def content(self, kind: str, number: int) -> bytes | Unobserved | Absent:
        if "/".join(content_path(kind, number)) in self._same:
            return super().content(kind, number)
        return Unobserved(IN_BETWEEN)

    def settings(self) -> list[Row] | str:
        return super().settings() if self._is_still else IN_BETWEEN

    def programs(self, items: Items) -> list[Row] | str:
        found = super().programs(items) if self._is_still else IN_BETWEEN
        if isinstance(found, str):
            return found
        # The content of an item of which this moment knows nothing yet.
        return [
            row
            for row in found
            if not str(row["path"]).startswith(_CONTENT) or row["path"] in self._same
        ]

    def store(self, name: str) -> Store:
        path = f"{DATABASE}/{FILES[name]}"
        return super().store(name) if path in self._same else Store(f"{name}: {_NO_LOG}")


def _is_looked_at(path: str) -> bool:
    """Databases change their files, and the folders of these, all the time."""
    if path.endswith("/"):
        return not path.startswith(f"{DATABASE}/")
    return "/" not in path or path not in NOT_LISTED
