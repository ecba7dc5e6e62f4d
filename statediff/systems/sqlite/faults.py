"""Faults of a SQLite file below its rows: it disagrees with itself, or is unreadable."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from statediff.systems.base.faults import Below, Place
from statediff.systems.sqlite.copy import with_log
from statediff.systems.sqlite.pages import page_size

_SCHEME: Final = "sqlite:///"
_LEAVES: Final = (10, 13)


def _unindexed(path: Path) -> bool:
    """An index has no entry any more, by plain SQL; its definition is the one before."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        found = db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
            " AND upper(sql) NOT LIKE '% WHERE %' ORDER BY name"
        ).fetchall()
    for name, sql in found:
        for text in (f"{sql} WHERE 0", sql):
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                (version,) = db.execute("PRAGMA schema_version").fetchone()
                db.execute("PRAGMA writable_schema = ON")
                db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (text, name))
                db.execute(f"PRAGMA schema_version = {version + 1}")
            if text != sql:
                with closing(sqlite3.connect(path, isolation_level=None)) as db:
                    db.execute(f'REINDEX "{name}"')
        with closing(sqlite3.connect(path)) as db:
            if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                return True  # the table is not empty
    return False


def _disordered(content: bytearray, size: int) -> bool:
    """Two cells of a leaf have changed places."""
    for start in range(size, len(content), size):
        (cells,) = struct.unpack_from(">H", content, start + 3)
        if content[start] in _LEAVES and 2 <= cells < size // 4:
            at = start + 8
            one, other = content[at : at + 2], content[at + 2 : at + 4]
            content[at : at + 4] = other + one
            return True
    return False


def _freed(content: bytearray, size: int) -> bool:
    """A page in use is on the free list."""
    if any(content[32:40]):
        return False
    pages = len(content) // size
    struct.pack_into(">III", content, 28, pages + 1, pages + 1, 2)
    content[92:96] = content[24:28]
    content += struct.pack(">III", 0, 1, 2).ljust(size, b"\0")
    return True


def _read_only(content: bytearray, _size: int) -> bool:
    """The header says that the file can only be read."""
    content[18] = 3
    return True


def _headless(content: bytearray, _size: int) -> bool:
    """The file has no header."""
    content[:100] = bytes(100)
    return True


def _cut(content: bytearray, size: int) -> bool:
    """The second half of the file is gone."""
    del content[len(content) // size // 2 * size :]
    return True


def _in_bytes(change: Callable[[bytearray, int], bool]) -> Callable[[Path], bool]:
    def apply(path: Path) -> bool:
        plain = path.with_name(f"{path.name}.plain")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("VACUUM INTO ?", (str(plain),))
        content = bytearray(with_log(plain.read_bytes()))
        is_changed = change(content, page_size(content))
        plain.write_bytes(content)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        plain.chmod(path.stat().st_mode & 0o777)
        plain.replace(path)
        return is_changed

    return apply


OPERATORS: Final[Mapping[str, Callable[[Path], bool]]] = {
    "index-entries": _unindexed,
    "cell-order": _in_bytes(_disordered),
    "free-list": _in_bytes(_freed),
    "read-only-header": _in_bytes(_read_only),
    "no-header": _in_bytes(_headless),
    "cut-off": _in_bytes(_cut),
}


def _in_file(operator: str) -> Callable[[Place], bool]:
    return lambda place: OPERATORS[operator](place.path)


FAULTS: Final[Mapping[str, Below]] = {
    f"structure:{name}": Below(_SCHEME, _in_file(name), ("db.structure",)) for name in OPERATORS
}
