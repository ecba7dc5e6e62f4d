"""Faults of a Roundup tracker: somebody stays signed in, a program runs later."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from statediff.systems.base.faults import Below, Place
from statediff_trackers.faults import in_database


def _session(place: Place) -> bool:
    store = place.home / "db" / "db-session"
    if not store.parent.is_dir():
        return False
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS sessions (session_key VARCHAR(255),"
            " session_value TEXT, session_time REAL)"
        )
        db.execute("INSERT INTO sessions VALUES ('0123', ?, 0)", (repr({"user": "admin"}),))
    return True


def _program(place: Place) -> bool:
    if not (place.home / "schema.py").is_file():
        return False
    detectors = place.home / "detectors"
    detectors.mkdir(exist_ok=True)
    (detectors / "later.py").write_text("def init(db):\n    pass\n")
    return True


FAULTS: Final[Mapping[str, Below]] = {
    "tracker:session": Below("http://", _session, ("session",)),
    "tracker:program": Below("http://", _program, ("program",)),
    **in_database("tracker", "db/db"),
}
