"""Faults of a folder below its rows: a mode, an owner or an attribute of one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from statediff.systems.base.faults import Below, Place


def _entry(place: Place) -> Path | None:
    """The first file of a folder that is no repository."""
    folder = place.path
    if (folder / "HEAD").exists() or (folder / ".git").exists():
        return None
    return next((p for p in sorted(folder.rglob("*")) if p.is_file()), None)


def _mode(place: Place) -> bool:
    entry = _entry(place)
    if entry is not None:
        entry.chmod(entry.stat().st_mode & 0o7777 ^ 0o4002)
    return entry is not None


def _owner(place: Place) -> bool:
    entry = _entry(place)
    if entry is None or os.geteuid() != 0:
        return False
    os.chown(entry, 4711, 4711)
    return True


def _attribute(place: Place) -> bool:
    entry = _entry(place)
    if entry is None:
        return False
    try:
        os.setxattr(entry, "user.statediff", b"1")
    except OSError:
        return False  # the file system has none
    return True


FAULTS: Final[Mapping[str, Below]] = {
    "files:mode": Below("file://", _mode, ()),
    "files:owner": Below("file://", _owner, ()),
    "files:attribute": Below("file://", _attribute, ()),
}
