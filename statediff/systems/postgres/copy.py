"""What a `COPY … TO STDOUT` delivers, in blocks of whole rows.

psycopg's own reader makes a generator and waits for it anew for every row, which costs more than
the server's work on it. Here the rows that have arrived are taken from libpq at once, and only then
is the line waited for, in a way that lets `hung_up_after` cut it.
"""

from __future__ import annotations

import contextlib
import re
import select
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from statediff.systems.postgres.session import CONNECT_SECONDS, Connection

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""A block has at least so much, and one row more at most."""
T = TypeVar("T")


def blocks_copied(connection: Connection, query: str) -> Generator[bytearray]:
    """The rows of one `COPY` in blocks. Raises `psycopg.Error` where they are not all.

    Whoever stops in the middle has the statement cancelled.
    """
    line = connection.pgconn
    line.send_query(query.encode())
    while line.flush():
        _wait(line, select.POLLIN | select.POLLOUT)
    begun = _result(line)
    is_over = begun.status != ExecStatus.COPY_OUT
    try:
        if is_over:
            raise error_from_result(begun)
        block, size = bytearray(), 0
        take = line.get_copy_data
        while (length := (found := take(1))[0]) >= 0:
            if length == 0:
                _wait(line)
                continue
            block += found[1]  # libpq's own copy of the row ends here, and its place is used again
            size += length
            if size >= BLOCK_BYTES:
                yield block
                block, size = bytearray(), 0
        is_over = True
        ended = _result(line)
        if ended.status != ExecStatus.COMMAND_OK:
            raise error_from_result(ended)
        if block:
            yield block
    finally:
        if not connection.broken:
            with contextlib.suppress(psycopg.Error):  # the line is gone: the next statement says so
                if not is_over:
                    connection.cancel_safe(timeout=CONNECT_SECONDS)
                    _drain(line)
                while _next(line) is not None:
                    pass


class Copied:
    """The rows of one `COPY` within a transaction, each as the server writes it.

    It is asked for at once, so that several servers' processes work side by side, and one after the
    other is read. Whatever becomes of it, the transaction goes on once it is closed.
    """

    def __init__(self, connection: Connection, query: str) -> None:
        self._connection = connection
        self._has_failed = self._is_over = False
        line = connection.pgconn
        line.send_query(f"SAVEPOINT copied; {query}; RELEASE copied".encode())
        while line.flush():
            _wait(line, select.POLLIN | select.POLLOUT)

    def __iter__(self) -> Iterator[bytes]:
        """Every row. Raises `psycopg.Error` where they are not all."""
        line = self._connection.pgconn
        failed: PGresult | None = None
        while (result := _next(line)) is not None:
            if result.status == ExecStatus.COPY_OUT:
                take = line.get_copy_data
                while (length := (found := take(1))[0]) >= 0:
                    if length:
                        yield bytes(found[1])
                    else:
                        _wait(line)
            elif result.status != ExecStatus.COMMAND_OK:
                failed, self._has_failed = result, True
        self._is_over = True
        if failed is not None:
            raise error_from_result(failed)

    def close(self) -> None:
        """Nothing of it is under way. What was not read is read past: it is to be little."""
        if self._connection.broken:
            return
        if not self._is_over:
            with contextlib.suppress(psycopg.Error):  # told to whoever reads, or of no use
                for _ in self:
                    pass
        if self._has_failed and not self._connection.broken:
            self._connection.execute("ROLLBACK TO copied; RELEASE copied")


_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {
    b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"
}  # fmt: skip


def cells(line: bytes) -> tuple[str | None, ...]:
    """What stands in a row as `COPY` writes it. Raises `UnicodeDecodeError`."""
    return tuple(
        None if cell == rb"\N" else (_plain(cell) if b"\\" in cell else cell).decode()
        for cell in line.removesuffix(b"\n").split(b"\t")
    )


def _plain(cell: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), cell)


def ahead(items: Generator[T]) -> Generator[T]:
    """The same; while one is worked upon, the next is fetched by a thread."""
    with contextlib.closing(items), ThreadPoolExecutor(1, "copies ahead") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _drain(line: PGconn) -> None:
    while (length := line.get_copy_data(1)[0]) >= 0:
        if length == 0:
            _wait(line)


def _next(line: PGconn) -> PGresult | None:
    while line.is_busy():
        _wait(line)
    return line.get_result()


def _result(line: PGconn) -> PGresult:
    found = _next(line)
    if found is None:
        raise psycopg.OperationalError("the server gave no result")
    return found


def _wait(line: PGconn, events: int = select.POLLIN) -> None:
    """Something has arrived, and libpq has it. Raises `psycopg.OperationalError` without a line."""
    waiter = select.poll()
    waiter.register(line.socket, events)
    waiter.poll()
    line.consume_input()
