"""A system whose server works over the files of one folder, its home, with a SQLite database in it.

Its files are the pristine image, in the evaluator's memory. A reset puts them beside the home and
swaps them in; the proof compares names, kinds, modes and contents of all files with the image.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from statediff.errors import SandboxError
from statediff.systems.base.images import (
    Difference,
    Image,
    StoredFile,
    image_digest,
    image_of,
    swap_image,
)
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.base.served import ServerProcess
from statediff.systems.sqlite.copy import with_log, without_log
from statediff.systems.sqlite.pages import FileConnection
from statediff.systems.sqlite.source import strange_side_file, write_in_progress

POLL_SECONDS: Final = 0.01


class ServedHome(ABC):
    """The part of such a `System` that depends on nothing but the files and the server."""

    METHOD: ClassVar[str]
    DATABASE: ClassVar[str]
    """Its path below the home."""

    def __init__(self, source: str, title: str, process: ServerProcess, folder: Path) -> None:
        self.source = source
        self.folder = folder
        self.home = folder / "home"
        self._title = title
        self._server = process
        self._image: dict[str, StoredFile] = {}
        self._digest = ""

    def start(self) -> None:
        if not self._server.pid:
            self._build()

    def stop(self) -> None:
        self._server.stop()

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        found: dict[str, StoredFile] = {}
        drift: list[Drift] = []
        try:
            found = self._without_readers(image_of(self.home))
            beside = sorted(e.name for e in os.scandir(self.folder) if e.name != self.home.name)
            drift += [self._drift(f"file {name}", "no such file", "there") for name in beside]
        except OSError as error:
            drift.append(self._drift("its home", "a readable folder", str(error.strerror)))
        if self._server.in_progress() is None:
            drift.append(self._drift("its server", "an answer", "none"))
        drift += [self._drift(*each) for each in self._differences(found)]
        proof = SourceProof(
            self.source, self.METHOD, self._digest, image_digest(found), self._entities
        )
        return proof, tuple(drift)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no request is in progress and nobody holds a write transaction."""
        while True:
            cause = self._busy()
            if cause is None or time.monotonic() >= deadline:
                return cause
            time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    @property
    @abstractmethod
    def _entities(self) -> int:
        """How many are in the base."""

    @abstractmethod
    def _build(self) -> None:
        """It is made anew, in a folder that holds nothing else; its files are the image."""

    @abstractmethod
    def _without_readers(self, found: Image) -> dict[str, StoredFile]:
        """The files without those that a reader of the database makes."""

    @abstractmethod
    def _differences(self, found: Image) -> Iterator[Difference]:
        """The differences from the image, in words."""

    def _put_back(self) -> None:
        """The home is the image, and nothing is beside it. Raises `SandboxError`."""
        try:
            swap_image(self._image, self.home)
        except OSError as error:
            raise SandboxError(
                f"{self.source}: {self._title} could not be put back at {self.home}: {error}"
            ) from error

    def _busy(self) -> str | None:
        waiting = self._server.in_progress()
        if waiting is None:
            return f"{self._title}'s server does not answer"
        if waiting:
            return f"{waiting} requests are in progress"
        file = self.home / self.DATABASE
        try:
            if file.is_symlink() or not file.is_file():
                return f"{self._title}'s database is gone"
            strange = strange_side_file(file)
            if strange is not None:
                return strange
            return write_in_progress(file)
        except sqlite3.Error as error:
            return f"the database cannot be opened: {error}"

    def _drift(self, what: str, expected: str, found: str) -> Drift:
        return Drift(self.source, what, expected, found)


def updated(database: bytes, statement: str, values: tuple[str, str]) -> bytes:
    """The database after one more statement."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        # A database in memory keeps no log, and says so in what it leaves.
        connection.deserialize(without_log(database))
        connection.execute(statement, values)
        return with_log(bytes(connection.serialize()))


def with_its_log(found: Image, database: str) -> bytes:
    """The database with what is committed in the log beside it."""
    content, log = found[database].content, found.get(f"{database}-wal")
    if log is None or not log.content:
        return content
    with tempfile.TemporaryDirectory(prefix="statediff-drift-") as folder:
        file = Path(folder, "db")
        file.write_bytes(content)
        file.with_name("db-wal").write_bytes(log.content)
        with (
            contextlib.suppress(sqlite3.Error),  # then the files are named, and no rows
            contextlib.closing(sqlite3.connect(file, factory=FileConnection)) as connection,
        ):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return file.read_bytes()
