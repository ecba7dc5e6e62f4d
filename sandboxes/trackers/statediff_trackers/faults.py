"""Faults of a tracker's database below its rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from statediff.systems.base.faults import Below, Place
from statediff.systems.sqlite.faults import OPERATORS


def in_database(system: str, database: str) -> Mapping[str, Below]:
    """Those of the SQLite file that a tracker keeps in its home."""
    return {
        f"{system}:{name}": Below("http://", _in_tracker(name, database), ("db.structure",))
        for name in ("index-entries", "free-list", "cell-order")
    }


def _in_tracker(operator: str, name: str) -> Callable[[Place], bool]:
    def apply(place: Place) -> bool:
        database = place.home / name
        if not database.is_file():
            return False
        owner = database.stat()
        is_changed = OPERATORS[operator](database)
        if os.geteuid() == 0:  # the server goes on with what is its own
            os.chown(database, owner.st_uid, owner.st_gid)
        return is_changed

    return apply
