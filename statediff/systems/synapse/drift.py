"""The files of a chat as an image, and in words what differs from one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.systems.base.images import Difference, Image, StoredFile
from statediff.systems.sqlite.copy import with_log, without_log
from statediff.systems.sqlite.sandbox import differing_tables
from statediff.systems.trackers.home import updated, with_its_log

DATABASE: Final = "homeserver.db"
LOG: Final = f"{DATABASE}-wal"
LOG_INDEX: Final = f"{DATABASE}-shm"
MEDIA: Final = "media"


def compacted(file: Path) -> bytes:
    """The database with all that is in its log, in as few pages as it needs."""
    try:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("DELETE FROM user_ips")  # the story's own requests
            connection.execute("VACUUM")
            return with_log(without_log(bytes(connection.serialize())))
    except sqlite3.Error as error:
        raise SandboxError(f"{file}: the chat's database cannot be read: {error}") from error


def with_token(database: bytes, user: str, token: str) -> bytes:
    """The database with another access token of the user's one session."""
    return updated(database, "UPDATE access_tokens SET token = ? WHERE user_id = ?", (token, user))


def without_readers(found: Mapping[str, StoredFile]) -> dict[str, StoredFile]:
    """Without an empty log and its index: the first to open the database makes them anew."""
    kept = dict(found)
    log = kept.get(LOG)
    if log is not None and log.kind == "file" and not log.content:
        del kept[LOG]
    if LOG not in kept and LOG_INDEX in kept and kept[LOG_INDEX].kind == "file":
        del kept[LOG_INDEX]
    return kept


def described(expected: Image, found: Image) -> Iterator[Difference]:
    """What differs: tables of the database by name, and files."""
    log = found.get(LOG)
    if DATABASE in found and (log is not None or found[DATABASE] != expected[DATABASE]):
        held = with_its_log(found, DATABASE)
        for name, before, after in differing_tables(expected[DATABASE].content, held):
            yield f"table {printable(name)}", before, after
    for path in sorted(expected.keys() | found.keys()):
        one, other = expected.get(path), found.get(path)
        if one != other:
            yield f"file {printable(path)}", _short(one), _short(other)


def _short(file: StoredFile | None) -> str:
    return "no such file" if file is None else str(file)
