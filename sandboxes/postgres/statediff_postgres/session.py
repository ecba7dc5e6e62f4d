"""Connections of the evaluator's to a PostgreSQL server, and what a `COPY` over one delivers.

How a value is written, whose functions are found and how long a lock is waited for are set on each
connection, so that an agent cannot have chosen them, whatever the server, the database or the role
says.

psycopg's own reader makes a generator and waits for it anew for every row, which costs more than
the server's work on it. Here the rows that have arrived are taken from libpq at once, and only then
is the line waited for, in a way that lets `hung_up_after` cut it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import socket
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from statediff.model.values import printable

Connection = psycopg.Connection[tuple[Any, ...]]
LOCK_SECONDS: Final = 2.0
READ_SECONDS: Final = 300.0
CONNECT_SECONDS: Final = 5
_SETTINGS: Final = {
    "search_path": "pg_catalog",
    "row_security": "off",
    "client_encoding": "UTF8",
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmlbinary": "base64",
    "xmloption": "content",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "jit": "off",
    "quote_all_identifiers": "off",
    "default_transaction_deferrable": "off",
    "max_parallel_workers_per_gather": "0",
    "synchronize_seqscans": "off",
    "statement_timeout": f"{READ_SECONDS:.0f}s",
    "lock_timeout": f"{LOCK_SECONDS * 1000:.0f}ms",
    "idle_in_transaction_session_timeout": "0",
    "client_min_messages": "error",
    "array_nulls": "on",
    "constraint_exclusion": "off",
    "enable_partition_pruning": "off",
}

# It warns on standard error of each statement behind one that was refused, which we expect.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


@contextlib.contextmanager
def connected(url: str, seconds: float) -> Iterator[Connection]:
    """A connection that commits each statement and lasts `seconds` at most.

    Raises `psycopg.Error`. When time is over the line is cut, not only the statement cancelled: a
    server that was stopped answers nothing.
    """
    with opened(url) as connection, hung_up_after(connection, seconds):
        yield connection


def opened(url: str) -> Connection:
    """A connection that commits each statement; the caller closes it. Raises `psycopg.Error`."""
    connection = psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_SECONDS)
    try:
        connection.prepare_threshold = None
        with hung_up_after(connection, CONNECT_SECONDS):
            chosen = "; ".join(f"SET {name} = '{value}'" for name, value in _SETTINGS.items())
            connection.execute(chosen.encode())
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def hung_up_after(connection: Connection, seconds: float) -> Iterator[None]:
    """The connection is shut down after so long: a server that was stopped answers nothing."""
    with socket.socket(fileno=os.dup(connection.fileno())) as line:

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def cause_of(error: psycopg.Error) -> str:
    """Why the server did not do it, in words that hold no secret and no control character."""
    match error.sqlstate:
        case "55P03":
            return f"it was locked for more than {LOCK_SECONDS:g} s"
        case "57014":
            return f"it took more than {READ_SECONDS:g} s"
        case "42P01" | "3F000":
            return "it was dropped or renamed while it was to be read"
        case None:
            words = " ".join(str(error).split())  # libpq breaks its sentences into lines
            return f"the server cannot be reached ({printable(words[:160])})"
        case state:
            first = (error.diag.message_primary or str(error))[:160]
            return f"the server refused: {printable(first)} ({state})"


BLOCK_BYTES: Final = 4 * 1024 * 1024
"""A block has at least so much, and one row more at most."""
T = TypeVar("T")


def blocks_copied(connection: Connection, query: str) -> Generator[bytearray]:
    """The rows of one `COPY` in blocks. Raises `psycopg.Error` where they are not all.

    Anyone who stops in the middle has the statement cancelled.
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
            with contextlib.suppress(psycopg.Error):  # the reader gets it too, or it is of no use
                for _ in self:
                    pass
        if self._has_failed and not self._connection.broken:
            self._connection.execute("ROLLBACK TO copied; RELEASE copied")


_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def cells(line: bytes) -> tuple[str | None, ...]:
    """The values of a row as `COPY` writes it. Raises `UnicodeDecodeError`."""
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
