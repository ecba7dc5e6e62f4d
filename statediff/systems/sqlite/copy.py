"""A private copy of a database file, to which committed transactions are applied by page.

The copy is opened as a file that nobody else writes, without a log: each state is read by a new
connection, which finds the pages as they were written last.
"""

from __future__ import annotations

import mmap
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import blake3

from statediff.capture.source import SourceUnavailable
from statediff.model.state import ChunkStore, State
from statediff.systems.sqlite.catalogue import Catalogue, read_catalogue
from statediff.systems.sqlite.pages import FileConnection
from statediff.systems.sqlite.scan import Scanner, begin, cause_of
from statediff.systems.sqlite.wal import Commit

_BLOCK_BYTES: Final = 1024 * 1024
_FORMAT: Final = slice(18, 20)
_ROLLBACK: Final = b"\x01\x01"
_LOGGED: Final = 2


def file_digest(descriptor: int) -> str:
    """BLAKE3 of a whole file."""
    hasher = blake3.blake3()
    for block in _blocks(descriptor):
        hasher.update(block)
    return hasher.hexdigest()


def _blocks(descriptor: int) -> Iterator[bytes]:
    offset = 0
    while block := os.pread(descriptor, _BLOCK_BYTES, offset):
        yield block
        offset += len(block)


class DatabaseCopy:
    """A context manager: nothing is left of the copy afterwards. Raises `SourceUnavailable`."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._folder = tempfile.TemporaryDirectory(prefix="statediff-copy-")
        self._path = Path(self._folder.name) / "copy"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._is_logged = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)
        self._folder.cleanup()

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    @property
    def page_size(self) -> int:
        return self._page_size

    def fill(self, descriptor: int) -> str:
        """The copy is what the file is now; the digest of the file's bytes."""
        hasher = blake3.blake3()
        offset = 0
        for block in _blocks(descriptor):
            hasher.update(block)
            offset += os.pwrite(self._file, block, offset)
        self._put(1, self.page(1))
        return hasher.hexdigest()

    def page(self, number: int) -> bytes:
        """A page as it is now."""
        return os.pread(self._file, self._page_size, (number - 1) * self._page_size)

    def image(self) -> mmap.mmap:
        """All of it, as it stays whatever is written to the copy; no other process can reach it."""
        with tempfile.TemporaryFile(dir=self._folder.name) as file:
            for block in _blocks(self._file):
                file.write(block)
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def write(self, commit: Commit) -> None:
        """The copy is the database after the commit."""
        for number in sorted(commit.pages):
            self._put(number, commit.pages[number])
        os.ftruncate(self._file, commit.page_count * self._page_size)

    def _put(self, number: int, content: bytes) -> None:
        if number == 1:
            self._is_logged = content[19:20] == bytes([_LOGGED])
            content = without_log(content)
        os.pwrite(self._file, content, (number - 1) * self._page_size)

    def connect(self) -> sqlite3.Connection:
        """A connection that can only read, and only what the copy is until the next `write`."""
        try:
            return sqlite3.connect(
                f"{self._path.as_uri()}?mode=ro&immutable=1",
                uri=True,
                isolation_level=None,
                factory=FileConnection,
            )
        except sqlite3.Error as error:
            raise SourceUnavailable(cause_of(error)) from error

    def state(self, scanner: Scanner, store: ChunkStore) -> State:
        """All that the copy holds, as a scan of the database would show it."""
        with closing(self.connect()) as connection:
            return scanner.scan(connection, self.begin(connection), store, None).state

    def begin(self, connection: sqlite3.Connection) -> Catalogue:
        """The catalogue, as the database itself would show it (see `sqlite.scan.begin`)."""
        return self._as_logged(begin(connection))

    def describe(self, connection: sqlite3.Connection, known: Catalogue) -> Catalogue:
        """The same, in a read transaction under way, where the catalogue was `known` before."""
        return self._as_logged(read_catalogue(connection, known))

    def _as_logged(self, catalogue: Catalogue) -> Catalogue:
        if self._is_logged:
            for setting in catalogue.objects["db.storage"]:
                setting["value"] = "wal"
        return catalogue


def without_log(first_page: bytes) -> bytes:
    """The database's first page (or all of it) marked as having no write-ahead log."""
    if first_page[19:20] != bytes([_LOGGED]):
        return first_page
    return first_page[: _FORMAT.start] + _ROLLBACK + first_page[_FORMAT.stop :]


def with_log(image: bytes) -> bytes:
    """The database marked as having a write-ahead log; anyone who opens it begins one."""
    return image[: _FORMAT.start] + bytes([_LOGGED, _LOGGED]) + image[_FORMAT.stop :]
