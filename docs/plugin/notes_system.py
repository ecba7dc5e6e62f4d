"""A system of one's own: a file of notes, which an agent reads and writes as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from statediff.capture.feed import Feed
from statediff.capture.source import Clock, Source, SourceUnavailable
from statediff.errors import InputError, SandboxError
from statediff.model.readings import SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import ChunkStore, State
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.plugin import Refinement
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.tables.inference import fits
from statediff.systems.tables.shape import parse_tables
from statediff.systems.tables.source import TablesSource

TEMPLATE = b'{"note": [{"id": 1, "text": "buy milk", "done": false}]}'
"""Says what a note is: an agent's file does not decide what a contract can name."""


class NotesSource:
    """Reads the file anew each time; what is not a file of notes is unavailable, never empty."""

    def __init__(self, name: str, file: Path, refine: Refinement | None = None) -> None:
        self.name = name
        self._file = file
        self._refine = refine

    def schema(self) -> Schema:
        """That of every file of notes."""
        return TablesSource(self.name, TEMPLATE, self._refine).schema()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        """All notes, or `SourceUnavailable` with the cause."""
        try:
            now = self._file.read_bytes()
            (note,) = TablesSource(self.name, TEMPLATE).schema().types
            document = parse_tables(now, self._file.name)
            if set(document) != {"note"} or not all(fits(note, n) for n in document["note"]):
                raise SourceUnavailable(f"{self._file.name} is no file of notes")
            source = TablesSource(self.name, now, self._refine, companion=TEMPLATE, is_after=True)
            return source.read(store, clock, like)
        except (OSError, InputError) as error:
            raise SourceUnavailable(f"the notes cannot be read: {error}") from error


class NotesSystem:
    """A `System`; nothing of it runs, so there is nothing to start or stop."""

    FILES: ClassVar[Mapping[str, bool]] = {"notes": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.file = folder / "notes.json"
        # What "pristine" means is kept here, in memory, where no agent can change it.
        self.base = source.files["notes"].read_bytes()

    @property
    def url(self) -> str:
        """Where an agent finds the notes."""
        return f"notes://{self.file}"

    def start(self) -> None:
        """Nothing runs."""

    def stop(self) -> None:
        """Nothing runs."""

    def reset(self) -> None:
        """The folder holds the file of the base, and nothing else."""
        try:
            remove(self.file.parent)
            make_folder(self.file.parent)
            self.file.write_bytes(self.base)
        except OSError as error:
            raise SandboxError(f"{self.source}: {self.file} cannot be put back: {error}") from error

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        """A look at the bytes and at the folder, not through `sources`."""
        expected = hashlib.sha256(self.base).hexdigest()
        drift = []
        try:
            found = hashlib.sha256(self.file.read_bytes()).hexdigest()
            names = sorted(path.name for path in self.file.parent.iterdir())
        except OSError as error:
            found, names = "", [f"unreadable: {error.strerror}"]
        if found != expected:
            drift.append(Drift(self.source, "the notes", expected[:12], found[:12] or "nothing"))
        if names != ["notes.json"]:
            drift.append(Drift(self.source, "the folder", "notes.json", ", ".join(names)))
        count = sum(len(notes) for notes in json.loads(self.base).values())
        proof = SourceProof(self.source, "sha256 of the file", expected, found, count)
        return proof, tuple(drift)

    def sources(self) -> tuple[Source, ...]:
        """The notes."""
        return (NotesSource(self.source, self.file),)

    def feeds(self) -> tuple[Feed, ...]:
        """The file keeps no history."""
        return ()

    def unsettled(self, deadline: float) -> str | None:
        """Writing a file is over when it is over."""
        return None

    def unplug(self, source: str) -> None:
        """The file is gone until the next reset."""
        remove(self.file)
