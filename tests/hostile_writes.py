"""Anything that a program may do to files, as a value: drawn by Hypothesis, then done to a folder.

A write names what it is done to by a number among the entries that are there, so that every one of
them can be done to every folder, in any order. What cannot be done is not.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypothesis import strategies as st

_HUGE: Final = 1 << 42
"""Bytes of a file that is one hole."""


@dataclass(frozen=True)
class Write:
    """One thing that is done to the entry with this number, counted round."""

    what: str
    entry: int
    number: int = 0
    content: bytes = b""

    def do(self, top: Path) -> None:
        """It is done below `top`, which a write may take away as well, or not at all."""
        entries = [os.fsencode(top)]
        walk = () if top.is_symlink() else os.walk(entries[0])
        for folder, folders, files in walk:
            entries += [os.path.join(folder, name) for name in sorted(folders + files)]  # noqa: PTH118 - bytes
        place = entries[self.entry % len(entries)]
        other = entries[self.number % len(entries)]
        if os.path.islink(place) and self.what not in _OF_LINKS:  # noqa: PTH114 - bytes
            return  # a link may lead out of the folder
        with contextlib.suppress(OSError, shutil.Error, ValueError):
            _WAYS[self.what](self, place, other)


def _gone(place: bytes) -> None:
    if os.path.isdir(place) and not os.path.islink(place):  # noqa: PTH112, PTH114 - bytes
        shutil.rmtree(place)
    else:
        os.unlink(place)  # noqa: PTH108 - bytes


def _overwrite(write: Write, place: bytes, _: bytes) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        size = os.fstat(descriptor).st_size
        os.pwrite(descriptor, write.content, write.number % (size + 1))
    finally:
        os.close(descriptor)


def _cut(write: Write, place: bytes, _: bytes) -> None:
    os.truncate(place, write.number % (os.stat(place).st_size + 1))  # noqa: PTH116 - bytes


def _add(write: Write, place: bytes, _: bytes) -> None:
    folder = place if os.path.isdir(place) else os.path.dirname(place)  # noqa: PTH112, PTH120 - bytes
    name = write.content.replace(b"/", b"\n").replace(b"\0", b"\xff")[:255] or b" "
    descriptor = os.open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY)  # noqa: PTH118 - bytes
    os.write(descriptor, write.content)
    os.close(descriptor)


def _deep(write: Write, place: bytes, _: bytes) -> None:
    folder = place if os.path.isdir(place) else os.path.dirname(place)  # noqa: PTH112, PTH120 - bytes
    os.makedirs(os.path.join(folder, *[b"d" * 100] * (write.number % 30 + 1)))  # noqa: PTH118, PTH103 - bytes


def _link(write: Write, place: bytes, other: bytes) -> None:
    _gone(place)
    os.symlink((other, b"/etc/passwd", b".", b"nowhere", b"/dev/zero")[write.number % 5], place)  # noqa: PTH211 - bytes


def _socket(_: Write, place: bytes, __: bytes) -> None:
    _gone(place)
    with (
        contextlib.closing(socket.socket(socket.AF_UNIX)) as made,
        contextlib.chdir(
            os.path.dirname(place)  # noqa: PTH120 - bytes
        ),
    ):
        made.bind(os.path.basename(place))  # noqa: PTH119 - bytes


def _instead(make: Callable[[bytes], None]) -> Callable[[Write, bytes, bytes], None]:
    def way(_: Write, place: bytes, __: bytes) -> None:
        _gone(place)
        make(place)

    return way


def _statement(write: Write, place: bytes, _: bytes) -> None:
    if not os.path.isfile(place):  # noqa: PTH113 - bytes
        return  # SQLite would wait for somebody to write to a pipe
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(
            sqlite3.connect(os.fsdecode(place), timeout=0, isolation_level=None)
        ) as db,
    ):
        db.executescript(STATEMENTS[write.number % len(STATEMENTS)])


STATEMENTS: Final = (
    "CREATE TABLE user2 (id PRIMARY KEY, x)",
    "ALTER TABLE user RENAME TO person",
    "ALTER TABLE user RENAME COLUMN id TO key",
    "ALTER TABLE user ADD COLUMN z DEFAULT 1",
    "DROP TABLE user",
    "DROP TABLE user; CREATE TABLE user (id INTEGER PRIMARY KEY, name)",
    "DROP TABLE user; CREATE VIEW user AS SELECT 1 AS id, 'a' AS name",
    "DROP TABLE user; CREATE VIRTUAL TABLE user USING fts5(id, name)",
    "INSERT INTO user VALUES (9, zeroblob(9000000))",
    "INSERT INTO user VALUES (7, CAST(x'ff00' AS TEXT)), (-1, 9e999)",
    "INSERT INTO log VALUES (NULL, zeroblob(20000)), (NULL, 1)",
    """WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i+1 FROM n WHERE i < 3000)
    INSERT INTO user SELECT i, i FROM n""",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage = 2",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = 'x' WHERE name = 'log'",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET name = CAST(x'ff' AS TEXT)",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET type = 'trigger' WHERE name = 'user'",
    "PRAGMA writable_schema=ON; DELETE FROM sqlite_schema",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage = 99999",
    "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema SELECT * FROM sqlite_schema",
    "PRAGMA user_version = 7; PRAGMA application_id = 9",
    "PRAGMA journal_mode = WAL; INSERT INTO user VALUES (5, 1)",
    "PRAGMA encoding = 'UTF-16'; VACUUM",
    "PRAGMA page_size = 512; VACUUM",
    "CREATE TRIGGER t AFTER INSERT ON user BEGIN DELETE FROM user; END",
    "CREATE INDEX i ON user (name); CREATE INDEX j ON user (abs(id))",
)


_WAYS: Final[dict[str, Callable[[Write, bytes, bytes], None]]] = {
    "overwrite": _overwrite,
    "cut": _cut,
    "add": _add,
    "deep": _deep,
    "remove": lambda _, place, __: _gone(place),
    "link": _link,
    "fifo": _instead(os.mkfifo),
    "folder": _instead(os.mkdir),
    "socket": _socket,
    "mode": lambda write, place, _: os.chmod(place, write.number % 0o10000),  # noqa: PTH101 - bytes
    "huge": lambda _, place, __: os.truncate(place, _HUGE),
    "move": lambda _, place, other: os.rename(place, other),  # noqa: PTH104 - bytes
    "name": lambda write, place, _: os.rename(  # noqa: PTH104 - bytes
        place,
        os.path.join(os.path.dirname(place), write.content.replace(b"/", b".") or b"x"),  # noqa: PTH118, PTH120 - bytes
    ),
    "double": lambda _, place, other: os.link(place, other + b"2"),
    "sql": _statement,
}

_OF_LINKS: Final = {"remove", "link", "fifo", "folder", "socket", "move", "name"}
"""What is done to a link itself."""
WRITES: Final = st.lists(
    st.builds(
        Write,
        st.sampled_from(sorted(_WAYS)),
        st.integers(0, 200),
        st.integers(0, 1 << 20),
        st.binary(max_size=60)
        | st.sampled_from([b"\0" * 4096, b"\xff" * 4096, b'{"a": NaN}', b"[" * 4000, b'\n,"x']),
    ),
    min_size=1,
    max_size=4,
)
"""What an agent may do after its harm, in order."""
