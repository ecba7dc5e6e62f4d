"""Faults of a Redmine: an administrator stays signed in, a file belongs to nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from statediff.systems.base.faults import Below, Place
from statediff_trackers.faults import in_database

_REDMINE: Final = "redmine.db"


def _token(place: Place) -> bool:
    """An administrator of a Redmine is signed in."""
    database = place.home / _REDMINE
    if not database.is_file():
        return False
    with closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as db:
        made = db.execute(
            "INSERT INTO tokens (user_id, action, value, created_on, updated_on)"
            " SELECT min(id), 'session', hex(randomblob(20)), '2026-01-01', '2026-01-01'"
            " FROM users WHERE admin"
        )
        return made.rowcount == 1


def _stray_file(place: Place) -> bool:
    """A file that no attachment of a Redmine is about."""
    files = place.home / "files"
    if not (place.home / _REDMINE).is_file() or not files.is_dir():
        return False
    (files / "statediff.rb").write_text("nothing\n")
    return True


FAULTS: Final[Mapping[str, Below]] = {
    "redmine:session": Below("http://", _token, ("token",)),
    "redmine:file": Below("http://", _stray_file, ()),
    **in_database("redmine", _REDMINE),
}
