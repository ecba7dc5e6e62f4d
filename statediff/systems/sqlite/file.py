"""Opens the file of a SQLite database so that nothing can be written to it or wait for long."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

from statediff.capture.source import SourceUnavailable
from statediff.model.values import printable
from statediff.systems.sqlite.scan import BUSY_SECONDS, cause_of

_SIDE_FILES: Final = ("-wal", "-shm", "-journal")


def open_database(path: Path) -> sqlite3.Connection:
    """A connection that can only read. Raises `SourceUnavailable`."""
    cause = strange_side_file(path)
    if cause is not None:
        raise SourceUnavailable(cause)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - one call, one answer
            raise SourceUnavailable(f"{printable(path.name)} is not a file")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceUnavailable(f"{printable(path.name)} cannot be opened: {reason}") from error
    uri = "file:" + quote(os.fsencode(path.absolute())) + "?mode=ro"
    try:
        return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    except sqlite3.Error as error:
        raise SourceUnavailable(cause_of(error)) from error


def strange_side_file(path: Path) -> str | None:
    """Why SQLite may not open the database: on a pipe in place of its log it would wait forever."""
    for suffix in _SIDE_FILES:
        beside = path.with_name(path.name + suffix)
        try:
            if not stat.S_ISREG(beside.lstat().st_mode):
                return f"{printable(beside.name)} is not a file"
        except (OSError, ValueError):
            continue  # it is not there, or nothing is: opening says why
    return None
