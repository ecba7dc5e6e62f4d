"""SQLite's write-ahead log, read byte by byte as its file format says (sqlite.org/fileformat2, §4).

A frame counts only if it carries the salts of the log's header and the running checksum over all
that precedes it; a transaction counts only if a frame that says "commit" ends it. What follows the
last such frame was rolled back, is not committed yet, or was left by a writer that died.

The checksum is a linear recurrence over pairs of 32-bit words, (s, t) → (s + t + a, s + 2t + a + b)
modulo 2³². Its n-th power has Fibonacci numbers for coefficients, so the share of each word in a
frame's checksum is one dot product, and only the step from frame to frame is sequential.

`LogMarks` names the transaction that a call made, on the connection that made it. A statement is
first tried where nothing can be written; one that only reads made no transaction. Whatever writes
is run under the write lock: until it is committed nobody else commits, so that the first
transaction in the log after the position at the lock is its own. Whether it left one at all shows
in the log and in the count of changed rows; where others committed before one could look, and no
row was counted, the mark names no transaction.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from statediff.capture.source import SourceUnfollowed
from statediff.model.trace import Mark

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
MAX_COMMIT_BYTES: Final = 512 * 1024 * 1024
"""The pages of one transaction are held in memory until its last frame is read."""
_LITTLE: Final = 0x377F0682
_BIG: Final = 0x377F0683
_FORMAT: Final = 3007000
_FRAMES_AT_ONCE: Final = 256
_MASK: Final = 0xFFFFFFFF
_INDEX_BYTES: Final = 48

Checksum = tuple[int, int]


@dataclass(frozen=True)
class LogHeader:
    """The head of a log. `salts` are its eight raw bytes; every frame repeats them."""

    page_size: int
    sequence: int
    """How often the log was begun anew."""
    salts: bytes
    checksum: Checksum
    is_big_endian: bool


@dataclass(frozen=True)
class Commit:
    """One committed transaction: the last version of each page it wrote."""

    frame: int
    """1-based number of its last frame: its position in the log."""
    checksum: Checksum
    page_count: int
    """How many pages the database has after it."""
    pages: Mapping[int, bytes]


@dataclass(frozen=True)
class LogIndex:
    """The log's index (the `-shm` file): how far readers see, under which salts."""

    frames: int
    salts: bytes
    checksum: Checksum


def read_header(descriptor: int) -> LogHeader | None:
    """The header of the log; None if the file does not begin with one that is whole and right."""
    head = os.pread(descriptor, HEADER_BYTES, 0)
    if len(head) < HEADER_BYTES:
        return None
    magic, version, page_size, sequence = struct.unpack_from(">4I", head)
    is_size = 512 <= page_size <= 65536 and page_size & (page_size - 1) == 0
    if magic not in (_LITTLE, _BIG) or version != _FORMAT or not is_size:
        return None
    checksum = (0, 0)
    for first, second in struct.iter_unpack(">II" if magic == _BIG else "<II", head[:24]):
        one = (sum(checksum) + first) & _MASK
        checksum = one, (checksum[1] + one + second) & _MASK
    if checksum != struct.unpack_from(">2I", head, 24):
        return None
    return LogHeader(page_size, sequence, head[16:24], checksum, magic == _BIG)


def read_commits(
    descriptor: int, header: LogHeader, after: Commit | None = None
) -> Iterator[Commit]:
    """Every committed transaction of the log, in order; ends at the first frame that is not right.

    Those after one that was read before, where it is given.
    Raises `SourceUnavailable` if one wrote more than `MAX_COMMIT_BYTES`.
    """
    size = FRAME_HEADER_BYTES + header.page_size
    mixer = _Mixer(header)
    checksum, number = header.checksum, 0
    if after is not None:
        checksum, number = after.checksum, after.frame
    offset = HEADER_BYTES + number * size
    pages: dict[int, bytes] = {}
    while True:
        block = os.pread(descriptor, size * _FRAMES_AT_ONCE, offset)
        block = block[: len(block) // size * size]
        if not block:
            return
        offset += len(block)
        for start, shares in zip(range(0, len(block), size), mixer.shares(block), strict=True):
            page, page_count, salts, *written = struct.unpack_from(">II8sII", block, start)
            checksum = mixer.step(checksum, shares)
            if salts != header.salts or tuple(written) != checksum or not page:
                return
            number += 1
            pages[page] = block[start + FRAME_HEADER_BYTES : start + size]
            if page_count:
                yield Commit(number, checksum, page_count, pages)
                pages = {}
            elif len(pages) * header.page_size > MAX_COMMIT_BYTES:
                raise SourceUnfollowed(
                    f"a transaction wrote more than {MAX_COMMIT_BYTES >> 20} MiB"
                )


@lru_cache(maxsize=8)  # one for each size of a page
def _weights(pairs: int) -> tuple[tuple[int, ...], Any]:
    """By what the checksum before, and each word, count in the checksum after so many pairs."""
    numbers = [0, 1]
    while len(numbers) < 2 * pairs + 2:
        numbers.append((numbers[-1] + numbers[-2]) & _MASK)
    weights = [
        weight
        for left in range(2 * (pairs - 1), -1, -2)
        for weight in (numbers[left + 1 : left + 3], numbers[left : left + 2])
    ]
    return tuple(numbers[2 * pairs - 1 : 2 * pairs + 2]), np.array(weights, np.uint32)


class _Mixer:
    """The checksum of frames of one page size."""

    def __init__(self, header: LogHeader) -> None:
        self._words = (FRAME_HEADER_BYTES + header.page_size) // 4
        self._type = np.dtype(">u4" if header.is_big_endian else "<u4")
        self._power, self._weights = _weights((8 + header.page_size) // 8)

    def shares(self, block: bytes) -> list[list[int]]:
        """The share of each frame of the block in the two words, all else being zero."""
        words = np.frombuffer(block, self._type).reshape(-1, self._words).astype(np.uint32)
        found: Any = words[:, :2] @ self._weights[:2] + words[:, 6:] @ self._weights[2:]
        return list(found.tolist())

    def step(self, checksum: Checksum, shares: list[int]) -> Checksum:
        """The running checksum after a frame."""
        (low, middle, high), (one, two) = self._power, checksum
        return (
            (low * one + middle * two + shares[0]) & _MASK,
            (middle * one + high * two + shares[1]) & _MASK,
        )


def read_index(descriptor: int) -> LogIndex | None:
    """The index; None while its two copies differ or nobody has set it up."""
    both = os.pread(descriptor, 2 * _INDEX_BYTES, 0)
    head = both[:_INDEX_BYTES]
    if len(both) < 2 * _INDEX_BYTES or head != both[_INDEX_BYTES:] or not head[12]:
        return None
    order = "<" if sys.byteorder == "little" else ">"
    (frames,) = struct.unpack_from(f"{order}I", head, 16)
    one, two = struct.unpack_from(f"{order}2I", head, 24)
    return LogIndex(frames, head[32:40], (one, two))


READ_ONLY: Final = "attempt to write a readonly database"


class LogMarks:
    """The transactions in the log of one database, by the connections that make them.

    Of one thread; every connection has its own.
    """

    def __init__(self, source: str, database: Path | str) -> None:
        self._source = source
        self._path = f"{database}-wal"
        self._header: LogHeader | None = None
        self._last: Commit | None = None
        self._changes = 0
        """The changes of the connection when its own transaction began."""

    def execute(
        self, connection: sqlite3.Connection, statement: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[tuple[Any, ...]], tuple[Mark, ...]]:
        """The rows of one statement and the transactions that it made: none, one or unknown.

        The connection is in autocommit mode (`isolation_level=None`). A transaction that it begins
        itself is made by the call that commits it. Raises `sqlite3.Error` as SQLite does.
        """
        if connection.in_transaction:
            return self._settle(connection, statement, parameters, "")
        self._changes = connection.total_changes
        try:
            connection.execute("PRAGMA query_only = ON")
            with closing(connection.execute(statement, parameters)) as cursor:
                return cursor.fetchall(), ()
        except sqlite3.OperationalError as error:
            if READ_ONLY not in str(error):
                raise
        finally:
            connection.execute("PRAGMA query_only = OFF")
        connection.execute("BEGIN IMMEDIATE")
        try:
            return self._settle(connection, statement, parameters, "COMMIT")
        except BaseException:
            # SQLite may have rolled back by itself.
            with suppress(sqlite3.OperationalError):
                connection.execute("ROLLBACK")
            raise

    def _settle(
        self,
        connection: sqlite3.Connection,
        statement: str,
        parameters: Sequence[Any],
        commit: str,
    ) -> tuple[list[tuple[Any, ...]], tuple[Mark, ...]]:
        """One statement of an open transaction; what it made, if that ended with it."""
        self.note()
        version = self._version(connection)
        with closing(connection.execute(statement, parameters)) as cursor:
            rows = cursor.fetchall()
        if commit:
            connection.execute(commit)
        if connection.in_transaction:
            return rows, ()
        own = self.since()
        if not own:
            # Without a log nothing shows whether there was a transaction.
            return rows, () if self._header is not None else (Mark(self._source),)
        # The first is ours, if we left one; else it is one that others committed since.
        if connection.total_changes != self._changes and self._is_plain(connection):
            return rows, (own[0],)
        is_alone = version == self._version_at_rest(connection)
        return rows, (own[0] if is_alone else Mark(self._source),)

    def note(self) -> None:
        """Leave what is committed now out of what `since` tells."""
        for _ in self._new():
            pass

    def since(self) -> list[Mark]:
        """The transactions committed since `note`, no matter who made them."""
        return [Mark(self._source, str(commit.frame)) for commit in self._new()]

    def _new(self) -> Iterable[Commit]:
        try:
            log = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        # Nothing locks the log itself, so that closing it gives no lock of SQLite's up.
        try:
            header = read_header(log)
            if header is None:
                return
            if header != self._header:
                self._header, self._last = header, None
            for commit in read_commits(log, header, self._last):
                self._last = commit
                yield commit
        finally:
            os.close(log)

    def _version(self, connection: sqlite3.Connection) -> Any:
        """Changes when another connection commits, and only then."""
        return connection.execute("PRAGMA data_version").fetchone()

    def _version_at_rest(self, connection: sqlite3.Connection) -> Any:
        """The same, while nobody is at a commit: what is in the log, but not yet in its index."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return None
        try:
            return self._version(connection)
        finally:
            connection.execute("ROLLBACK")

    def _is_plain(self, connection: sqlite3.Connection) -> bool:
        """True if every changed row that SQLite counts is one of this database."""
        names = {row[1] for row in connection.execute("PRAGMA database_list")}
        return names == {"main"}
