"""The stores beside a tracker's database: who is signed in, and which keys are good once.

Roundup makes each of the two files when it is first needed, always in one form. A file of another
form, with a trigger or a table more, is an oddity that the home's listing shows; so is one that is
no database. The keys open accounts, so that only their digests are reported.
"""

from __future__ import annotations

import re
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from statediff.capture.source import SourceUnavailable
from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind
from statediff.systems.hosted.folder import content_digest
from statediff.systems.sqlite.source import open_database
from statediff.systems.sqlite.structure import check
from statediff_trackers.roundup.values import DATABASE, literal

MAX_ROWS: Final = 100_000
_FORM: Final = (
    "CREATE TABLE {0}s ({0}_key VARCHAR(255), {0}_value TEXT, {0}_time REAL)",
    "CREATE INDEX {0}_key_idx ON {0}s({0}_key)",
)
_SWEPT: Final = re.compile(rb"last_clean\0\{'last_use': [0-9.]+\}")
"""The row in which Roundup notes when it removed old keys, and all that it notes there."""


def _store_type(name: str) -> EntityType:
    return EntityType(
        name,
        ("key", "position"),
        (
            Field("key", Kind.TEXT, is_nullable=False),
            Field("position", Kind.INT, is_nullable=False),
            Field("user", Kind.TEXT),
            Field("value", Kind.TEXT, is_nullable=False),
        ),
    )


SESSION: Final = _store_type("session")
"""Somebody who is signed in: the digest of the session's key, the login, and the digest of all that
the session holds. `position` counts the rows of one key."""
ONE_TIME_KEY: Final = _store_type("one_time_key")
"""A key that is good once, such as that of a new password."""
FILES: Final = {SESSION.name: "db-session", ONE_TIME_KEY.name: "db-otk"}
"""Type → its file, in the folder of the database."""


@dataclass(frozen=True)
class Store:
    """The content of one of the files."""

    rows: list[Row] | str
    """Its rows, or why they cannot be read."""
    oddity: str | None = None
    """What it is, where it is not what Roundup makes."""


def read_store(home: Path, name: str, own: frozenset[str]) -> Store:
    """The store of the type `name`, without the sessions of the logins `own`."""
    path = home / DATABASE / FILES[name]
    prefix = FILES[name].removeprefix("db-")
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return Store(f"{path.name} is not a file")  # the listing shows it as what it is
    except FileNotFoundError:
        return Store([])
    except OSError as error:
        return Store(f"{path.name} cannot be read: {error.strerror}")
    try:
        with closing(open_database(path)) as connection:
            return _read(connection, prefix, own)
    except (sqlite3.Error, SourceUnavailable) as error:
        return Store(f"{path.name} cannot be read: {error}", f"no store of {prefix}s")


def _read(connection: sqlite3.Connection, prefix: str, own: frozenset[str]) -> Store:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("BEGIN")
    checked = check(connection)
    connection.text_factory = bytes
    found = connection.execute(
        "SELECT CAST(sql AS BLOB) FROM sqlite_schema ORDER BY type, name, rowid LIMIT 1000"
    ).fetchall()
    objects = [b" ".join((sql or b"").split()) for (sql,) in found]
    expected = [form.format(prefix).encode() for form in _FORM]
    oddity = None
    if not objects:
        return Store([])  # it was just begun
    if sorted(objects) != sorted(expected):
        oddity = f"a store of another form, {content_digest(b';'.join(objects))}"
    elif checked.problems or checked.cause:
        oddity = str(checked.problems[0]["problem"] if checked.problems else checked.cause)
    if expected[0] not in objects:
        return Store("its table is another one", oddity)
    # The name of a table is unique, so that this is no view.
    cells = connection.execute(
        f"SELECT CAST({prefix}_key AS BLOB), CAST({prefix}_value AS BLOB)"  # noqa: S608 - ours
        f" FROM {prefix}s NOT INDEXED LIMIT {MAX_ROWS + 1}"
    ).fetchall()
    if len(cells) > MAX_ROWS:
        return Store(f"it holds more than {MAX_ROWS} rows", oddity or "a store of too many rows")
    return Store(_rows(cells, own), oddity)


def _rows(cells: list[tuple[bytes | None, bytes | None]], own: frozenset[str]) -> list[Row]:
    rows: list[Row] = []
    positions: dict[bytes, int] = {}
    for key, value in sorted((key or b"", value or b"") for key, value in cells):
        user = _held(value).get("user")
        if (isinstance(user, str) and user in own) or _SWEPT.fullmatch(key + b"\0" + value):
            continue
        positions[key] = positions.get(key, 0) + 1
        rows.append(
            {
                "key": content_digest(key),
                "position": positions[key],
                "user": user if isinstance(user, str) else None,
                "value": content_digest(value),
            }
        )
    return rows


def _held(value: bytes) -> dict[str, Any]:
    found = literal(value.decode("utf-8", "replace"))
    held = None if found is None else found[0]
    return held if isinstance(held, dict) else {}
