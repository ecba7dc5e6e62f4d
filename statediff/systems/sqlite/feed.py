"""Every committed state of a SQLite database in WAL mode, whoever wrote it.

1. `attach` holds the locks of a reader (`sqlite_hold`). As long as it does no checkpoint writes to
   the database file and nothing begins the log anew: the file stays what it was, and the log keeps
   every transaction.
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

What watching changes: a checkpoint reports that it is busy, so that the log grows with the run, and
neither the journal mode nor exclusive locking can be chosen while the feed is attached.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.model.values import printable
from statediff.systems.relational.schema import Refine
from statediff.systems.sqlite.copy import DatabaseCopy
from statediff.systems.sqlite.hold import Hold
from statediff.systems.sqlite.replay import Replay
from statediff.systems.sqlite.scan import Scanner, cause_of
from statediff.systems.sqlite.wal import (
    Commit,
    LogIndex,
    read_commits,
    read_header,
)

MAX_TRANSACTIONS: Final = 10_000
MAX_LOG_BYTES: Final = 2 * 1024 * 1024 * 1024


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
            self._held = Hold(self._path)
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
        """What was seen, each state as `tell` puts it.

        Without `before`, the state at `attach` is read from the file, and told first. What `tell`
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
                    raise SourceUnavailable(f"there are more than {MAX_TRANSACTIONS} transactions")
                number = len(told) + 1
                told.append(
                    Transaction(
                        f"{self.source}/{number}", self.source, str(commit.frame), None, tell(state)
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
        if before is None:
            with DatabaseCopy(held.page_size) as copy:
                if copy.fill(held.file) != held.digest:
                    raise SourceUnavailable("its file was written past its log")
                yield None, copy.state(scanner, store)
        return
    if held.header not in (None, header):
        raise SourceUnavailable("its write-ahead log was begun anew")
    if os.fstat(held.log).st_size > MAX_LOG_BYTES:
        raise SourceUnavailable(f"its write-ahead log holds more than {MAX_LOG_BYTES >> 20} MiB")
    last = LogIndex(0, header.salts, header.checksum)
    with DatabaseCopy(header.page_size) as copy:
        if copy.fill(held.file) != held.digest:
            raise SourceUnavailable("its file was written past its log")
        replay = None if before is None else Replay(copy, scanner, store, before)
        for commit in read_commits(held.log, header):
            last = LogIndex(commit.frame, header.salts, commit.checksum)
            if commit.frame <= held.end.frames:
                copy.write(commit)
                if commit.frame == held.end.frames and last != held.end:
                    raise SourceUnavailable("its write-ahead log was rewritten")
            else:
                if replay is None:
                    start = copy.state(scanner, store)
                    yield None, start
                    replay = Replay(copy, scanner, store, start)
                yield commit, replay.apply(commit)
        if replay is None:
            yield None, copy.state(scanner, store)
    if last.frames < held.end.frames:
        raise SourceUnavailable("its write-ahead log was cut off")
    held.check_end(index, last)
    if held.look() != index:
        raise SourceUnavailable("it was written while its log was read")
