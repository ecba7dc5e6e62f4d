"""Every committed state of a Synapse: its database's log, in the chat's own terms.

See `trackers.retold`, and what it cannot see. What a file holds that is uploaded in the run is
known from its last commit on. Most commits of the server change nothing that anybody would know.
"""

from __future__ import annotations

from pathlib import Path

from statediff.model.state import ChunkStore, State
from statediff.systems.hosted.retold import Marks, Moment, RetoldFeed, Unmoved, marks_below
from statediff.systems.sqlite.feed import SqliteFeed
from statediff_chat.source import SynapseSource, media_path, without_following


class SynapseFeed(RetoldFeed):
    """A `Feed` of the Synapse with this database and this folder of media."""

    def __init__(self, source: SynapseSource, database: Path, media: Path) -> None:
        super().__init__(SqliteFeed(source.name, database, without_following))
        self._told_by = source
        self._media = media

    def marks(self) -> Marks:
        return marks_below(self._media, lambda _: True)

    def is_gap(self, path: str, is_new: bool) -> bool:
        parts = path.split("/")
        is_upload = len(parts) == 4 and media_path("".join(parts[1:])) == (*parts,)
        return not (is_new and is_upload)

    def told(
        self,
        raw: State,
        store: ChunkStore,
        before: State,
        past: Unmoved | None,
        last: Moment | None,
    ) -> State:
        return self._told_by.told(raw, store, before, past, last)
