"""Connections of the evaluator's to a PostgreSQL server: settings that an agent cannot have chosen.

How a value is written, whose functions are found and how long a lock is waited for are set on each
connection, whatever the server, the database or the role says.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final

import psycopg

from statediff.model.values import printable

Connection = psycopg.Connection[tuple[Any, ...]]
LOCK_SECONDS: Final = 2.0
READ_SECONDS: Final = 300.0
CONNECT_SECONDS: Final = 5
_SETTINGS: Final = {
    "search_path": "pg_catalog", "row_security": "off", "client_encoding": "UTF8",
    "datestyle": "ISO, YMD", "timezone": "UTC", "intervalstyle": "postgres",
    "extra_float_digits": "1", "bytea_output": "hex", "xmlbinary": "base64",
    "xmloption": "content", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C", "jit": "off",
    "quote_all_identifiers": "off", "default_transaction_deferrable": "off",
    "max_parallel_workers_per_gather": "0", "synchronize_seqscans": "off",
    "statement_timeout": f"{READ_SECONDS:.0f}s", "lock_timeout": f"{LOCK_SECONDS * 1000:.0f}ms",
    "idle_in_transaction_session_timeout": "0", "client_min_messages": "error",
    "array_nulls": "on", "constraint_exclusion": "off", "enable_partition_pruning": "off",
}  # fmt: skip


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
            return f"the server cannot be reached ({printable(str(error).strip()[:160])})"
        case state:
            first = (error.diag.message_primary or str(error))[:160]
            return f"the server refused: {printable(first)} ({state})"
