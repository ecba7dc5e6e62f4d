"""Connections of the evaluator's to a MariaDB server, and what such a server says when it fails."""

from __future__ import annotations

import os
import socket
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql

from statediff.model.values import printable

Connection = pymysql.Connection
CONNECT_SECONDS: Final = 5
_CHARSET: Final = "utf8mb4"


def connected(url: str, seconds: float) -> tuple[Connection[Any], str]:
    """A connection that commits each statement, and the database the URL names.

    Without a password in the URL, `MYSQL_PWD` of the environment is it. Values come as text, or as
    bytes where they are no text. Raises `pymysql.Error`.
    """
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    places = query.get("unix_socket")
    is_here = places is not None or parts.hostname in ("localhost", "127.0.0.1", "::1", None)
    database = unquote(parts.path.removeprefix("/"))
    connection = pymysql.connect(
        host=parts.hostname or "localhost",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or "") or os.environ.get("MYSQL_PWD", ""),
        charset=_CHARSET,
        read_timeout=seconds,
        write_timeout=seconds,
        autocommit=True,
        conv={},
        ssl_disabled=is_here,
        ssl=None if is_here else _tls(query),
        defer_connect=True,
    )
    # The driver does not close a socket that it made and could not connect.
    if places is None:
        line = socket.create_connection((parts.hostname, parts.port or 3306), CONNECT_SECONDS)
    else:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(CONNECT_SECONDS)
    try:
        if places is not None:
            line.connect(places[0])
        connection.connect(line)
    except BaseException:
        line.close()
        raise
    return connection, database


def _tls(query: dict[str, list[str]]) -> dict[str, object]:
    """TLS where the server has it; with `?ssl_ca=FILE` the server has to prove who it is."""
    files = query.get("ssl_ca")
    return {"check_hostname": False} if files is None else {"ca": files[0], "check_hostname": True}


def cause_of(error: BaseException) -> str:
    """Why the server did not do it, in words without control characters."""
    code, *said = error.args or ("",)
    if code in (1205, 1969, 3024):
        return f"it was locked, or took longer than it may ({code})"
    return printable(f"the server said: {' '.join(map(str, said))[:160]} ({code})")


def fetched(connection: Connection[Any], statement: str, *values: str) -> list[tuple[Any, ...]]:
    """All rows of a statement; each `{db}` in it is the first of `values`."""
    if values:
        statement = statement.replace("{db}", literal(values[0]))
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def literal(text: str) -> str:
    """The text as a string of SQL, for a server that takes a backslash for an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def quoted(name: str) -> str:
    """The name as an identifier, whatever characters it holds."""
    return "`" + name.replace("`", "``") + "`"
