"""SQLite databases in WAL mode whose log is empty, as a sandbox puts them back."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest


def clock() -> datetime:
    return datetime(2024, 5, 1, tzinfo=UTC)


def database(path: Path, script: str, page_size: int = 4096, auto_vacuum: int = 0) -> Path:
    """The file at `path`; nothing is beside it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute(f"PRAGMA auto_vacuum = {auto_vacuum}")
        connection.executescript(script)
        image = connection.serialize()
    path.write_bytes(image[:18] + b"\x02\x02" + image[20:])
    return path


def has_search(module: str) -> bool:
    """True if this SQLite has the search of that name."""
    with closing(sqlite3.connect(":memory:")) as connection:
        found = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = ?", (module,))
        return found.fetchone() is not None


def needs_search(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not has_search(module), reason=f"this SQLite has no {module}")
