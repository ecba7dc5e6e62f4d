"""Every committed state of a SQLite database in WAL mode, no matter who wrote it.

1. `attach` holds the locks of a reader (`Hold`). As long as it does no checkpoint writes to
   the database file and nothing begins the log anew: the file stays what it was, and the log keeps
   every transaction.
2. `finish` reads the log's bytes itself. It believes only frames whose salts and checksums are
   right (`sqlite.wal`), and only if the file was not written, neither was exchanged, and the log
   ends where its index says. Anything else is a gap, with the cause. What a server commits while
   the log is read comes after the end.
3. Each transaction is applied to a copy, and its state read as a scan would (`sqlite.replay`).

What it cannot see: when a transaction was committed (the log holds no times) and by whom; what was
rolled back; databases an agent attached beside this one, and temporary tables. It tells the states
of the file it was attached to: what else its path named for a while is not one of them. And anyone
who may write the log may also forge it: commits that were cut off its end *and* out of its index,
byte by byte and consistently, are gone. A log and an index that were copied and put back are such a
gap, because SQLite does not write to its index that way (`IndexWrites`); a forger who maps the
index is not noticed. That takes the rights of the evaluator's own user, and such trials are
labelled `isolation: none`.

What watching changes: a checkpoint reports that it is busy, so that the log grows with the run, and
neither the journal mode nor exclusive locking can be chosen while the feed is attached.

A reader that uses nothing but the database file holds a shared lock on the file, on "read 0" and on
the "dead man's switch" of the log's index (sqlite.org/walformat, §2.3). `Hold` takes the same locks
without being a reader. While it has them, no checkpoint writes to the file, so that the log is
never begun anew; nobody leaves WAL mode or folds the log when it closes; and nobody rebuilds the
index from what the log then holds. They are locks of the open file description, so that nothing
this process opens and closes beside them gives them up, as it would with SQLite's own. And no part
of the index is ever mapped: an agent that truncates a mapped file kills the process that reads it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sqlite3
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable, SourceUnfollowed, gap_of
from statediff.model.explanation import by_run
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.model.values import printable
from statediff.systems.relational.schema import Refine
from statediff.systems.sqlite.copy import DatabaseCopy, file_digest
from statediff.systems.sqlite.pages import page_size
from statediff.systems.sqlite.replay import Replay
from statediff.systems.sqlite.scan import Scanner, cause_of, is_of_the_file
from statediff.systems.sqlite.wal import (
    Commit,
    LogHeader,
    LogIndex,
    read_commits,
    read_header,
    read_index,
)

_MAGIC: Final = b"SQLite format 3\0"
_SHARED: Final = (0x40000002, 510)
_READ_0: Final = (123, 1)
_DEAD_MAN: Final = (128, 1)
_CUT: Final = "its write-ahead log is empty, but was cut off or overwritten (or checkpointed)"

_REGION_BYTES: Final = 32 * 1024
_MODIFY: Final = 2
_OVERFLOW: Final = 0x4000
_EVENT: Final = struct.Struct("iIII")
_MOST_EVENT_BYTES: Final = 1024 * 1024


class IndexWrites:
    """Writes to the index of a log that SQLite does not make; `log` and `index` are open.

    SQLite changes the index (the `-shm` file) in mapped memory. It writes to the file only to let
    it grow, one region of 32 KiB at a time and each byte of that in one go. So a file that was
    written more often than it grew was written by somebody else: a copy of the log and its index,
    put back after a change, makes the change and everything after it look as if it had never been.

    The kernel notes the writes (inotify), merging those of one file that follow each other with
    nothing in between; what is written to the log stands in between. A writer that maps the index
    as SQLite does is not noticed. Raises `OSError`.
    """

    def __init__(self, log: int, index: int) -> None:
        self._index = index
        self._count = 0
        self._regions = _regions(index)
        self._library = ctypes.CDLL(None, use_errno=True)
        self._queue = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._watched = self._watch(index)
            self._watch(log)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Nothing is noted any more."""
        os.close(self._queue)

    def are_all_of_sqlite(self) -> bool:
        """True if the index was written once for each growth, at most."""
        try:
            while events := os.read(self._queue, _MOST_EVENT_BYTES):
                at = 0
                while at < len(events):
                    watched, mask, _cookie, length = _EVENT.unpack_from(events, at)
                    if mask & _OVERFLOW:
                        self._count += _OVERFLOW
                    self._count += watched == self._watched and bool(mask & _MODIFY)
                    at += _EVENT.size + length
        except BlockingIOError:
            pass  # these were all
        return self._count <= _regions(self._index) - self._regions

    def _watch(self, descriptor: int) -> int:
        path = f"/proc/self/fd/{descriptor}".encode()
        return self._call("inotify_add_watch", self._queue, path, _MODIFY)

    def _call(self, name: str, *arguments: int | bytes) -> int:
        found = int(getattr(self._library, name)(*arguments))
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return found


def _regions(index: int) -> int:
    return -(-os.fstat(index).st_size // _REGION_BYTES)


class Hold:
    """The locks, descriptors of the database's three files, and what these were at the start.

    Raises `SourceUnavailable` or `OSError`.
    """

    def __init__(self, path: Path) -> None:
        self._paths = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
        self._descriptors: list[int] = []
        self._writes: IndexWrites | None = None
        try:
            self.file = self._open(path, os.O_RDONLY)
            _lock(self.file, *_SHARED)
            mode = self._mode()
            self.log = self._open(self._paths[1], os.O_RDONLY | os.O_CREAT, mode)
            self._index = self._open(self._paths[2], os.O_RDWR | os.O_CREAT, mode)
            _lock(self._index, *_DEAD_MAN)
            _lock(self._index, *_READ_0)
            self._file_stamp = _write_stamp(self.file)
            self._log_stamp = _write_stamp(self.log)
            self.digest = file_digest(self.file)
            self.header = read_header(self.log)
            self.end = LogIndex(0, b"", (0, 0))
            if self.header is not None:
                for commit in read_commits(self.log, self.header):
                    self.end = LogIndex(commit.frame, self.header.salts, commit.checksum)
            self._writes = IndexWrites(self.log, self._index)
            self.look()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Nothing is held."""
        if self._writes is not None:
            self._writes.close()
            self._writes = None
        while self._descriptors:
            os.close(self._descriptors.pop())

    def look(self) -> LogIndex | None:
        """The log's index (None: nobody ever used it).

        Raises unless all three files are those that are held, and the database file as it was.
        """
        for path, descriptor in zip(self._paths, self._descriptors, strict=True):
            held = os.fstat(descriptor)
            try:
                found = path.lstat()
            except (FileNotFoundError, NotADirectoryError, ValueError):
                found = None  # any other error is none of the run's
            if found is None or (found.st_dev, found.st_ino) != (held.st_dev, held.st_ino):
                raise SourceUnfollowed(f"{printable(path.name)} was removed or exchanged")
        if _write_stamp(self.file) != self._file_stamp:
            raise SourceUnfollowed("its file was written past its log, or its mode changed")
        index = read_index(self._index)
        if index is None and os.fstat(self._index).st_size:
            raise SourceUnfollowed("the index of its write-ahead log is damaged")
        return index

    def check_index_writes(self) -> None:
        """Raises where somebody else than SQLite wrote to the index."""
        if self._writes is not None and not self._writes.are_all_of_sqlite():
            raise SourceUnfollowed(
                "the index of its write-ahead log was written past SQLite: commits may be missing"
            )

    @property
    def page_size(self) -> int:
        """The page size of the database file, as its first page says."""
        return page_size(os.pread(self.file, 18, 0))

    def check_unwritten_log(self) -> None:
        """Raises unless the log is still as empty as it was, and nobody cut it back to that."""
        # Not the time of its inode's change: for root, SQLite sets the owner of a log it opens.
        if self.header is not None or _write_stamp(self.log)[:2] != self._log_stamp[:2]:
            raise SourceUnfollowed(_CUT)

    def check_end(self, index: LogIndex | None, last: LogIndex) -> None:
        """Raises unless the last transaction of the log is the last that its readers see."""
        if not is_end(index, last):
            seen = "nothing" if index is None else index.frames
            raise SourceUnfollowed(
                f"its write-ahead log has {last.frames} committed frames, its index says {seen}"
            )

    def _mode(self) -> int:
        head = os.pread(self.file, 20, 0)
        if head[:16] != _MAGIC:
            raise SourceUnavailable("the file is not a SQLite database")
        if head[18:20] != b"\x02\x02":
            raise SourceUnavailable("it keeps no write-ahead log: PRAGMA journal_mode = WAL")
        return stat.S_IMODE(os.fstat(self.file).st_mode)

    def _open(self, path: Path, how: int, mode: int = 0) -> int:
        descriptor = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
        self._descriptors.append(descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SourceUnavailable(f"{printable(path.name)} is not a file")
        return descriptor


def _hold(path: Path) -> Hold:
    """The hold, where it may be had soon: who makes its log or drops it locks the rest out."""
    deadline = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            return Hold(path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def is_end(index: LogIndex | None, last: LogIndex) -> bool:
    """True if the index counts all transactions of the log, the last of which ends there."""
    return index == last if last.frames else index is None or not index.frames


def _lock(descriptor: int, start: int, length: int) -> None:
    if sys.platform != "linux":
        raise SourceUnavailable("its log can be held on Linux only")
    # struct flock: type, whence, start, length, process (0 for a lock of the open description)
    lock = struct.pack("@hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)


def _write_stamp(descriptor: int) -> tuple[int, int, int]:
    """Numbers that change whenever the file is written; nobody can set the last of the three."""
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


MAX_TRANSACTIONS: Final = 10_000
MAX_LOG_BYTES: Final = 2 * 1024 * 1024 * 1024
LOCKED_SECONDS: Final = 2.0
"""How long others may keep a database locked that is to be held."""
_LOOKS: Final = 4
_LOOK_SECONDS: Final = 0.02
"""Seconds of a commit in the making: the log has its frames before its index counts them."""


class SqliteFeed:
    """A `Feed` of one database file."""

    def __init__(self, source: str, path: Path | str, refine: Refine | None = None) -> None:
        self._path = Path(path)
        self._scanner = Scanner(source, refine)
        self._held: Hold | None = None

    @property
    def source(self) -> str:
        return self._scanner.name

    def attach(self) -> None:
        self.detach()
        try:
            self._held = _hold(self._path)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SourceUnavailable(
                f"{printable(self._path.name)} or its log cannot be held: {reason}"
            ) from error

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        return self.retold(store, before, lambda state: state)

    def retold(
        self, store: ChunkStore, before: State | None, tell: Callable[[State], State]
    ) -> Seen:
        """The history that was seen, each state as `tell` puts it.

        Without `before`, the state at `attach` is read from the file, and comes first. What `tell`
        raises as `SourceUnavailable` is the gap.
        """
        if self._held is None:
            raise SourceUnavailable(f"no feed of {self.source} is attached")
        told: list[Transaction] = []
        try:
            for commit, state in _states(self._held, self._scanner, store, before):
                if commit is None:
                    tell(state)
                    continue
                if len(told) == MAX_TRANSACTIONS:
                    raise SourceUnfollowed(f"there are more than {MAX_TRANSACTIONS} transactions")
                number = len(told) + 1
                told.append(
                    Transaction(
                        f"{self.source}/{number}", self.source, str(commit.frame), None, tell(state)
                    )
                )
        except SourceUnavailable as error:
            return Seen(tuple(told), gap_of(error))
        except sqlite3.Error as error:
            cause = cause_of(error)
            return Seen(tuple(told), by_run(cause) if is_of_the_file(error) else cause)
        except OSError as error:
            return Seen(tuple(told), f"its copy could not be written or read: {error.strerror}")
        return Seen(tuple(told))

    def detach(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def _end(held: Hold, header: LogHeader) -> tuple[LogIndex | None, LogIndex | None]:
    """The index, and the end of the log at that moment; None if it cannot be read."""
    for _ in range(_LOOKS - 1):
        index, last = _look(held, header)
        if last is None or is_end(index, last):
            return index, last
        time.sleep(_LOOK_SECONDS)
    return _look(held, header)


def _goes_on(now: LogIndex | None, last: LogIndex) -> bool:
    """True if the log that ended there has all of that still, and perhaps more."""
    if not last.frames:
        return True
    return now is not None and now.salts == last.salts and now.frames >= last.frames


def _look(held: Hold, header: LogHeader) -> tuple[LogIndex | None, LogIndex | None]:
    index = held.look()
    last = LogIndex(0, header.salts, header.checksum)
    try:
        for commit in read_commits(held.log, header):
            last = LogIndex(commit.frame, header.salts, commit.checksum)
    except SourceUnavailable:
        return index, None  # a reader that gets there sees the cause
    return index, last


def _up_to(commits: Iterator[Commit], end: LogIndex | None) -> Iterator[Commit]:
    """Each commit up to that end."""
    for commit in commits:
        if end is not None and commit.frame > end.frames:
            return
        yield commit
        if end is not None and commit.frame == end.frames:
            return


def _states(
    held: Hold, scanner: Scanner, store: ChunkStore, before: State | None
) -> Iterator[tuple[Commit | None, State]]:
    """Each transaction since `attach` with the state after it; the state then, if none is given.

    Raises `SourceUnavailable` where there may have been more, or others than these.
    """
    index = held.look()
    header = read_header(held.log)
    if header is None:
        held.check_unwritten_log()
        held.check_end(index, LogIndex(0, b"", (0, 0)))
        held.check_index_writes()
        if before is None:
            with DatabaseCopy(held.page_size) as copy:
                if copy.fill(held.file) != held.digest:
                    raise SourceUnfollowed("its file was written past its log")
                yield None, copy.state(scanner, store)
        return
    if held.header not in (None, header):
        raise SourceUnfollowed("its write-ahead log was begun anew")
    if os.fstat(held.log).st_size > MAX_LOG_BYTES:
        raise SourceUnfollowed(f"its write-ahead log holds more than {MAX_LOG_BYTES >> 20} MiB")
    index, end = _end(held, header)
    last = LogIndex(0, header.salts, header.checksum)
    with DatabaseCopy(header.page_size) as copy:
        if copy.fill(held.file) != held.digest:
            raise SourceUnfollowed("its file was written past its log")
        replay: Replay | None = None
        for commit in _up_to(read_commits(held.log, header), end):
            last = LogIndex(commit.frame, header.salts, commit.checksum)
            if commit.frame <= held.end.frames:
                copy.write(commit)
                if commit.frame == held.end.frames and last != held.end:
                    raise SourceUnfollowed("its write-ahead log was rewritten")
            else:
                if replay is None:
                    start = copy.state(scanner, store) if before is None else before
                    if before is None:
                        yield None, start
                    replay = Replay(copy, scanner, store, start)
                yield commit, replay.apply(commit)
        if replay is None and before is None:
            yield None, copy.state(scanner, store)
    if last.frames < held.end.frames:
        raise SourceUnfollowed("its write-ahead log was cut off")
    held.check_end(index, last)
    if end not in (None, last) or not _goes_on(held.look(), last):
        raise SourceUnavailable("it was written while its log was read")
    held.check_index_writes()
