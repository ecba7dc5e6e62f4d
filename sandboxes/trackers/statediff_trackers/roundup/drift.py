"""The files of a tracker's home as an image, and in words what differs from one."""

from __future__ import annotations

import configparser
import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

from statediff.model.values import printable
from statediff.systems.base.images import Difference, Image, StoredFile
from statediff.systems.hosted.home import updated, with_its_log
from statediff.systems.sqlite.copy import without_log
from statediff_trackers.roundup.home import CONFIG, parsed_settings
from statediff_trackers.roundup.stores import FILES

DATABASE: Final = "db/db"
_LOG: Final = f"{DATABASE}-wal"
_NOTHING: Final = "no such file"


def with_password(image: Image, login: str, stored: str) -> dict[str, StoredFile]:
    """The image with another stored password for the user."""
    database = image[DATABASE]
    update = "UPDATE _user SET _password = ? WHERE _username = ?"
    content = updated(database.content, update, (stored, login))
    return {**image, DATABASE: StoredFile(database.kind, database.mode, content)}


def described(expected: Image, found: Image) -> Iterator[Difference]:
    """The differences, each thing named for what it is in the tracker where that can be known."""
    for path in sorted(expected.keys() | found.keys()):
        before, after = expected.get(path), found.get(path)
        if before == after and not (path == DATABASE and _LOG in found):
            continue
        told: list[Difference] = []
        if before is not None and after is not None and before.mode == after.mode:
            if path == DATABASE:
                told = _in_database(before.content, with_its_log(found, DATABASE))
            elif path == CONFIG:
                told = _in_settings(before.content, after.content)
        yield from told or [(_file_name(path), _short_file(before), _short_file(after))] * (
            before != after
        )


def without_traces_of_readers(found: Mapping[str, StoredFile]) -> dict[str, StoredFile]:
    """Without empty logs and their indexes: the first to open a database clears such an index."""
    kept = dict(found)
    for database in (DATABASE, *(f"db/{file}" for file in FILES.values())):
        sides = [f"{database}-wal", f"{database}-shm"]
        log, index = map(kept.get, sides)
        if log and index and log.kind == index.kind == "file" and not log.content:
            for side in sides:
                del kept[side]
    return kept


def _short_file(file: StoredFile | None) -> str:
    if file is None:
        return _NOTHING
    return f"{file}, digest {hashlib.sha256(file.content).hexdigest()[:12]}"


def _file_name(path: str) -> str:
    match path.split("/"):
        case ["db", "files", "file", _, name]:
            return f"attachment {printable(name.removeprefix('file'))}"
        case ["db", "files", "msg", _, name]:
            return f"text of comment {printable(name.removeprefix('msg'))}"
        case _:
            return f"file {printable(path)}"


def _in_settings(before: bytes, after: bytes) -> list[Difference]:
    try:
        sides = [_settings(before), _settings(after)]
    except (UnicodeDecodeError, configparser.Error):
        return []
    return [
        (f"setting {name}", sides[0].get(name, "not set"), sides[1].get(name, "not set"))
        for name in sorted(sides[0].keys() | sides[1].keys())
        if sides[0].get(name) != sides[1].get(name)
    ]


def _settings(content: bytes) -> dict[str, str]:
    parser = parsed_settings(content)
    return {
        f"{section}.{name}": printable(value[:60])
        for section in parser.sections()
        for name, value in parser.items(section)
    }


def _in_database(before: bytes, after: bytes) -> list[Difference]:
    try:
        sides = [_tables(before), _tables(after)]
    except sqlite3.Error:
        return []  # it is no database any more: then the file differs
    told: list[Difference] = []
    for name in sorted(sides[0].keys() | sides[1].keys()):
        one, other = sides[0].get(name), sides[1].get(name)
        if one is None or other is None:
            told.append((f"table {printable(name)}", _there(one), _there(other)))
        elif one != other:
            told += _in_table(name, one, other)
    return told


def _there(table: Any) -> str:
    return "no such table" if table is None else "a table"


def _in_table(name: str, one: dict[Any, Any], other: dict[Any, Any]) -> list[Difference]:
    if name.startswith("_") and all(
        isinstance(row, dict) for row in (*one.values(), *other.values())
    ):
        what = name.removeprefix("_")
        told = [
            (f"{what} {key}", _present(key in one), _present(key in other))
            for key in sorted(one.keys() ^ other.keys(), key=str)
        ]
        for key in sorted(one.keys() & other.keys(), key=str):
            told += [
                (f"{column.strip('_')} of {what} {key}", _cell(column, was), _cell(column, now))
                for column, was in one[key].items()
                if (now := other[key].get(column)) != was
            ]
        if told:
            return told
    return [(f"table {printable(name)}", f"{len(one)} rows", f"{len(other)} rows, or other ones")]


def _present(is_there: bool) -> str:
    return "there" if is_there else "not there"


def _cell(column: str, value: Any) -> str:
    # A receipt is shown to people: it holds no stored password.
    return "a password" if column == "_password" else printable(str(value)[:60])


def _tables(image: bytes) -> dict[str, dict[Any, Any]]:
    """Table → its rows: by `id` as columns where it has one, else all of them by position."""
    found: dict[str, dict[Any, Any]] = {}
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(without_log(image))
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.text_factory = bytes
        for name, sql in connection.execute(
            "SELECT CAST(name AS TEXT), CAST(sql AS TEXT) FROM sqlite_schema WHERE type = 'table'"
        ).fetchall():
            table = name.decode("utf-8", "replace")
            if sql is None or b"VIRTUAL" in sql[:20].upper():
                continue
            cursor = connection.execute(f'SELECT * FROM "{table.replace(chr(34), chr(34) * 2)}"')  # noqa: S608 - quoted
            columns = [each[0] for each in cursor.description]
            rows = [dict(zip(columns, map(_plain, row), strict=True)) for row in cursor]
            by_id = {row["id"]: row for row in rows} if "id" in columns else {}
            found[table] = by_id if len(by_id) == len(rows) else dict(enumerate(rows))
    return found


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
