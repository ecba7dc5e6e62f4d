"""A database made of SQL or of another file: any dump that `sqlite3 FILE .dump` writes loads.

Statements are run one by one, so that a message names the one that fails and its line. Nothing but
the database in memory can be written: a text that attaches a file is refused.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.systems.base.pristine import copy_content

_STOP: Final = re.compile(
    r"'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)|(?P<end>;)", re.DOTALL
)
"""Places that may hold a semicolon that ends no statement, or one that may end it. A quote that is
doubled within a text begins the next text.
"""
_BLANK: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z)|;)*", re.DOTALL)
_SHOWN: Final = 60


def run_script(connection: sqlite3.Connection, path: Path) -> None:
    """Every statement of the file has been run; `SandboxError` names the line of one that fails."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(f"{path}: cannot be read as SQL: {error}") from error
    connection.set_authorizer(_only_here)
    try:
        for line, statement in statements(text):
            try:
                connection.execute(statement)
            except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
                start = printable(" ".join(statement.split())[:_SHOWN])
                raise SandboxError(f"{path}:{line}: {error}: {start}") from error
    finally:
        connection.set_authorizer(None)


def statements(text: str) -> Iterator[tuple[int, str]]:
    r"""Every statement with the line on which it begins.

    >>> list(statements("-- tables\\nCREATE TABLE t (a);\\nINSERT INTO t VALUES (';');"))
    [(2, 'CREATE TABLE t (a);'), (3, "INSERT INTO t VALUES (';');")]
    """
    start = _after_blank(text, 0)
    line, counted = 1, 0
    for found in _STOP.finditer(text):
        end = found.end()
        if found["end"] is None or end <= start:
            continue
        statement = text[start:end]
        if not sqlite3.complete_statement(statement):
            continue  # a semicolon within the body of a trigger
        line, counted = line + text.count("\n", counted, start), start
        yield line, statement
        start = _after_blank(text, end)
    if start < len(text):
        yield line + text.count("\n", counted, start), text[start:]


def _after_blank(text: str, start: int) -> int:
    found = _BLANK.match(text, start)
    return start if found is None else found.end()


def _only_here(action: int, *_: object) -> int:
    refused = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
    return sqlite3.SQLITE_DENY if action in refused else sqlite3.SQLITE_OK


def load_dump(connection: sqlite3.Connection, path: Path) -> None:
    """The database is what the dump says, whatever refers to what and in which order."""
    connection.execute("PRAGMA foreign_keys = OFF")
    run_script(connection, path)
    if connection.in_transaction:
        raise SandboxError(f"{path}: ends within a transaction; the dump is cut off")
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise SandboxError(f"{path}: makes no table; is it a dump that failed?")


def copy_file(path: Path, to: Path) -> None:
    """`to` is the database as it is committed in the file now, which somebody may be using.

    While we read it nobody begins its log anew: what is in the log belongs to the file.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        ) as source:
            source.execute("BEGIN")
            if not source.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                raise SandboxError(f"{path}: is an empty database; expected one with tables")
            copy_content(path, to)
            if log.exists():
                copy_content(log, to.with_name(f"{to.name}-wal"))
        with contextlib.closing(sqlite3.connect(to)) as made:
            made.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except (sqlite3.Error, OSError) as error:
        raise SandboxError(f"{path}: cannot be copied as a SQLite database: {error}") from error
