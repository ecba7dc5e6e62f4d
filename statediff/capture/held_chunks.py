"""The chunks of a trial whose store may fail under it: a full disk, a folder that was closed.

Once `begun`, a chunk that the store does not take is held in memory, and `missed` says why. Judging
needs no file; only who judges the trial again from its run's folder does.
"""

from __future__ import annotations

import pyarrow as pa

from statediff.capture.keyed_store import SourceChunks
from statediff.model.state import ChunkRef, ChunkStore, MemoryChunks
from statediff.total import twice, words_of


class HeldChunks:
    """A `ChunkStore` over another one."""

    def __init__(self, under: ChunkStore) -> None:
        self.under = under
        self._held = MemoryChunks()
        self._names: set[str] = set()
        self._of: dict[str, HeldChunks] = {}
        self.begun = False
        """The agent acts, or has acted: nothing that fails may end the trial."""
        self.missed: str | None = None

    def put(self, batch: pa.RecordBatch) -> ChunkRef:
        if not self.begun:
            return self.under.put(batch)
        try:
            return twice(lambda: self.under.put(batch))
        except Exception as error:  # noqa: BLE001 - whatever the store does
            self.missed = self.missed or words_of(error)
            ref = self._held.put(batch)
            self._names.add(ref.digest)
            return ref

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        if ref.digest in self._names:
            return self._held.get(ref)
        return twice(lambda: self.under.get(ref))

    def of_source(self, source: str) -> HeldChunks:
        """The store that takes the chunks of a source."""
        if not isinstance(self.under, SourceChunks):
            return self
        keyed = self.under.keyed.get(source)
        if source not in self._of:
            self._of[source] = HeldChunks(self.under.plain if keyed is None else keyed)
        self._of[source].begun = self.begun
        return self._of[source]

    def begin(self) -> None:
        """From now on what fails is held."""
        self.begun = True
        for each in self._of.values():
            each.begun = True

    @property
    def first_missed(self) -> str | None:
        """The reason why some chunk is not in the store; None if all are."""
        causes = (self.missed, *(each.missed for each in self._of.values()))
        return next((cause for cause in causes if cause is not None), None)


def chunks_of(store: ChunkStore, source: str) -> ChunkStore:
    """The store that takes the chunks of a source."""
    if isinstance(store, HeldChunks):
        return store.of_source(source)
    if isinstance(store, SourceChunks):
        return store.keyed.get(source, store.plain)
    return store


def settle(store: ChunkStore, found: ChunkStore, refs: tuple[ChunkRef, ...]) -> None:
    """Put these chunks, which `found` has, into `store` too."""
    if isinstance(found, HeldChunks) and found.missed is None:
        found = found.under
    if found is store:
        return
    for ref in refs:
        store.put(found.get(ref))
