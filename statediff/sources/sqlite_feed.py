"""Every committed state of a SQLite database in WAL mode, whoever wrote it.

1. `attach` holds a read transaction on a connection that can only read. As long as it is held no
   checkpoint copies a later frame into the database file and nothing begins the log anew: the file
   stays what it was, and the log keeps every transaction.
2. `finish` reads the log's bytes itself. It believes only frames whose salts and checksums are
   right (`sqlite_wal`), and only if the file was not written, neither was exchanged, and the log
   ends where its index says. Anything else is a gap, with the cause.
3. Each transaction is applied to a copy, and its state read as a scan would (`sqlite_replay`).

What it cannot see: when a transaction was committed (the log holds no times) and by whom; what was
rolled back; databases an agent attached beside this one, and temporary tables. It tells the states
of the file it was attached to: what else its path named for a while is not one of them. And whoever
may write the log may also forge it: commits that were cut off its end *and* out of its index, byte
by byte and consistently, are gone. That takes the rights of the evaluator's own user, and such
trials are labelled `isolation: none`.

What watching changes: a checkpoint reports that it is busy, and the journal mode and exclusive
locking cannot be changed while the feed is attached.

Descriptors of the file and its index stay open until `detach`: POSIX drops every lock a process has
on a file when it closes any descriptor of it, ours and those of other connections in it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.model.values import printable
from statediff.sources.sqlite import open_database
from statediff.sources.sqlite_copy import DatabaseCopy, file_digest
from statediff.sources.sqlite_replay import Replay
from statediff.sources.sqlite_scan import Refine, Scanner, cause_of
from statediff.sources.sqlite_wal import (
    Commit,
    LogIndex,
    read_commits,
    read_header,
    read_index,
)

MAX_TRANSACTIONS: Final = 10_000
MAX_LOG_BYTES: Final = 2 * 1024 * 1024 * 1024
_CUT: Final = "its write-ahead log is empty, but was cut off or overwritten (or checkpointed)"


class SqliteFeed:
    """A `Feed` of one database file."""

    def __init__(self, source: str, path: Path | str, refine: Refine | None = None) -> None:
        self._path = Path(path)
        self._scanner = Scanner(source, refine)
        self._held: _Held | None = None

    @property
    def source(self) -> str:
        return self._scanner.name

    def attach(self) -> None:
        self.detach()
        try:
            self._held = _Held(self._path)
        except sqlite3.Error as error:
            raise SourceUnavailable(cause_of(error)) from error
        except OSError as error:
            raise SourceUnavailable(
                f"{printable(self._path.name)} or its log cannot be opened: {error.strerror}"
            ) from error

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        if self._held is None:
            raise SourceUnavailable(f"no feed of {self.source} is attached")
        told: list[Transaction] = []
        try:
            for commit, state in _states(self._held, self._scanner, store, before):
                if len(told) == MAX_TRANSACTIONS:
                    raise SourceUnavailable(f"there are more than {MAX_TRANSACTIONS} transactions")
                number = len(told) + 1
                told.append(
                    Transaction(
                        f"{self.source}/{number}", self.source, str(commit.frame), None, state
                    )
                )
        except SourceUnavailable as error:
            return Seen(tuple(told), str(error))
        except sqlite3.Error as error:
            return Seen(tuple(told), cause_of(error))
        except OSError as error:
            return Seen(tuple(told), f"its copy could not be written or read: {error.strerror}")
        return Seen(tuple(told))

    def detach(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def _states(
    held: _Held, scanner: Scanner, store: ChunkStore, before: State
) -> Iterator[tuple[Commit, State]]:
    """Each transaction since `attach` with the state after it.

    Raises `SourceUnavailable` where there may have been others, or others than these.
    """
    index = held.look()
    header = read_header(held.log)
    if header is None:
        held.check_unwritten_log()
        held.check_end(index, None)
        return
    if held.header not in (None, header):
        raise SourceUnavailable("its write-ahead log was begun anew")
    if os.fstat(held.log).st_size > MAX_LOG_BYTES:
        raise SourceUnavailable(f"its write-ahead log holds more than {MAX_LOG_BYTES >> 20} MiB")
    last = LogIndex(0, header.salts, header.checksum)
    with DatabaseCopy(header.page_size) as copy:
        if copy.fill(held.file) != held.digest:
            raise SourceUnavailable("its file was written past its log")
        replay = Replay(copy, scanner, store, before)
        for commit in read_commits(held.log, header):
            last = LogIndex(commit.frame, header.salts, commit.checksum)
            if commit.frame <= held.end.frames:
                copy.write(commit)
                if commit.frame == held.end.frames and last != held.end:
                    raise SourceUnavailable("its write-ahead log was rewritten")
            else:
                yield commit, replay.apply(commit)
    if last.frames < held.end.frames:
        raise SourceUnavailable("its write-ahead log was cut off")
    held.check_end(index, last)
    if held.look() != index:
        raise SourceUnavailable("it was written while its log was read")


class _Held:
    """The read transaction, open descriptors, and what file and log were like at the start.

    Raises `SourceUnavailable`, `sqlite3.Error` or `OSError`.
    """

    def __init__(self, path: Path) -> None:
        self._paths = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
        self._descriptors: list[int] = []
        self._connection = open_database(path)
        try:
            self._connection.execute("PRAGMA mmap_size=0")
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            (mode,) = self._connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                raise SourceUnavailable(
                    f"it keeps no write-ahead log (journal mode {printable(str(mode))})"
                )
            for file in self._paths:
                self._descriptors.append(_open(file))
            self.file, self.log, self._index = self._descriptors
            self._written = _written(self.file)
            self._log_written = _written(self.log)
            self.digest = file_digest(self.file)
            self.header = read_header(self.log)
            self.end = LogIndex(0, b"", (0, 0))
            if self.header is not None:
                for commit in read_commits(self.log, self.header):
                    self.end = LogIndex(commit.frame, self.header.salts, commit.checksum)
            self.look()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Nothing is held. The connection goes first: it still needs its locks to go in order."""
        self._connection.close()
        while self._descriptors:
            os.close(self._descriptors.pop())

    def look(self) -> LogIndex:
        """What the log's index says; raises unless all three files are the ones that are held."""
        for path, descriptor in zip(self._paths, self._descriptors, strict=True):
            held = os.fstat(descriptor)
            try:
                found = path.lstat()
            except (OSError, ValueError):
                found = None
            if found is None or (found.st_dev, found.st_ino) != (held.st_dev, held.st_ino):
                raise SourceUnavailable(f"{printable(path.name)} was removed or exchanged")
        if _written(self.file) != self._written:
            raise SourceUnavailable("its file was written past its log, or its mode changed")
        index = read_index(self._index)
        if index is None:
            raise SourceUnavailable("the index of its write-ahead log is damaged")
        return index

    def check_unwritten_log(self) -> None:
        """Raises unless the log is still as empty as it was, and nobody cut it back to that."""
        # Not the time of its inode's change: for root, SQLite sets the owner of a log it opens.
        if self.header is not None or _written(self.log)[:2] != self._log_written[:2]:
            raise SourceUnavailable(_CUT)

    def check_end(self, index: LogIndex, last: LogIndex | None) -> None:
        """Raises unless the last transaction of the log is the last that its readers see."""
        is_end = index.frames == 0 if last is None or not last.frames else index == last
        if not is_end:
            seen = 0 if last is None else last.frames
            raise SourceUnavailable(
                f"its write-ahead log has {seen} committed frames, its index says {index.frames}"
            )


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SourceUnavailable(f"{printable(path.name)} is not a file")
    return descriptor


def _written(descriptor: int) -> tuple[int, int, int]:
    """What changes whenever the file is written; nobody can set the last of the three."""
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
