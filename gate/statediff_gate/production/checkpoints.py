"""A world kept on disk with its position in the log: a guard that starts again goes on from there.

Two files: the state (`SLOT-POSITION.state`, as `capture` writes one) and `SLOT.json`, which names
it and takes its place at once. The slot forgets nothing behind the position that is on disk.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from statediff.atomic import sync_folder, write_atomically
from statediff.capture.source import replayed
from statediff.errors import BundleError, StorageError
from statediff.evidence.canonical import read, write
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks, State, Table
from statediff.systems.captured.statefile import CapturedSource, write_state
from statediff_gate.course import WorldChunks

_FORM = "statediff/guard/1"


@dataclass(frozen=True, kw_only=True)
class Head:
    """Whose world it is, and which."""

    slot: str
    source: str
    agent: str
    database: str
    """The server's own number, and the database's."""
    position: str
    """All that was committed before it is in the world."""
    snapshot: str | None = None
    """What a reading of the whole showed, where transactions behind the position are in it too."""
    until: str | None = None
    """Those are all before this position."""
    why: str | None = None
    """Why all was read again: what the agent did meanwhile could not be judged."""
    marked: tuple[tuple[str, str], ...] = ()
    """The tables that had a mark before that reading."""
    shape: tuple[tuple[str, ...], ...] = ()
    """How the tables were."""
    state: str = ""
    """The file of the world."""


class Checkpoint:
    """The file of one slot in a folder."""

    def __init__(self, folder: Path, slot: str) -> None:
        self.folder = folder / "guard"
        self._path = self.folder / f"{slot}.json"

    def load(self) -> Head | None:
        """The head that was kept last; None where none was."""
        if not self._path.exists():
            return None
        document: Any = read(self._path.read_bytes(), str(self._path))
        try:
            if document.pop("form") != _FORM:
                raise ValueError(f"not of form {_FORM}")
            for name in ("marked", "shape"):
                document[name] = tuple(map(tuple, document[name]))
            return Head(**document)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise BundleError(f"{self._path}: not a guard's position: {error}") from error

    def world(self, head: Head) -> State:
        """The state that the head names, in memory."""
        source = CapturedSource(head.source, self.folder / head.state)
        state = source.read(MemoryChunks(), lambda: datetime.now(UTC), None).state
        store = WorldChunks()
        tables = {}
        for name, table in state.tables.items():
            chunks = tuple(store.put(batch) for batch in table.batches())
            tables[name] = Table(table.type, chunks, table.partition, store, table.enumeration)
        return State(state.schema, tables)

    def save(self, head: Head, world: State | None) -> Head:
        """The head is on disk with its world; None where that is the one of its file still."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if world is not None:
                name = f"{head.slot}-{head.position.replace('/', '-')}.state"
                place = self.folder / name
                part = replayed(
                    head.source, datetime.now(UTC), world, gaps=(), position=head.position
                )
                write_state(Capture((part,)), place, is_refined=True)
                with place.open("rb") as written:
                    os.fsync(written.fileno())
                sync_folder(self.folder)
                head = replace(head, state=name)
            write_atomically(self._path, write({"form": _FORM, **asdict(head)}), durable=True)
            for old in self.folder.glob(f"{head.slot}-*.state"):
                if old.name != head.state:
                    old.unlink()
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot be written: {error.strerror}") from error
        return head

    def remove(self) -> None:
        """Nothing is kept."""
        head = self.load()
        if head is not None:
            self._path.unlink()
            (self.folder / head.state).unlink(missing_ok=True)
