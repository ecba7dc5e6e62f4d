"""The state of a seeded run, as a verifier reads it: SQLite databases, JSON tables, folders.

The state after the right run is copied, and each change made in the copy by an ordinary statement,
or as a program writes files: what triggers, defaults and constraints make of it happens as it would
in a run. So who wants to know what was shown reads the copy again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from statediff.model.schema import EntityType
from statediff.model.values import ABSENT, Map, Observed, printable
from statediff_lab.audit import folders, repositories
from statediff_lab.audit.folders import Refused, Unwritable
from statediff_lab.audit.statements import statement_of
from statediff_lab.importers.recorded import SeededChange

_SQLITE: Final = b"SQLite format 3\x00"
_ONE: Final = "rowid = (SELECT rowid FROM {table} WHERE {where} LIMIT 1)"
Keys = Mapping[str, tuple[str, ...]]
"""Table → its key columns; none for a table whose rows have no key."""


def keys_of(types: Sequence[EntityType]) -> Keys:
    """The key columns of each table, as the file names them."""
    return {t.source_table: tuple(t.by_name[k].source_column for k in t.key) for t in types}


def without_computed(
    changes: Sequence[SeededChange], types: Sequence[EntityType]
) -> list[SeededChange]:
    """The changes without the columns that a database computes by itself, which no run writes."""
    computed = {
        t.source_table: {f.source_column for f in t.fields if f.computed_from} for t in types
    }

    def written(change: SeededChange, row: Mapping[str, Observed] | None) -> Any:
        own = computed[change.type]
        return None if row is None else {n: v for n, v in row.items() if n not in own}

    return [replace(c, before=written(c, c.before), after=written(c, c.after)) for c in changes]


def is_sqlite(path: Path) -> bool:
    """True if the file is a SQLite database."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def write_changes(path: Path, changes: Sequence[SeededChange], keys: Keys) -> None:
    """The file holds the changes. Raises `Unwritable`, and the file is then anything."""
    if not changes:
        return
    if any(change.type not in keys for change in changes):
        raise Unwritable("it is no row of a table")
    if path.is_dir() and {change.type for change in changes} <= repositories.WRITTEN:
        repositories.write_changes(path, changes)
    elif path.is_dir():
        folders.write_entries(path, changes)
    elif is_sqlite(path):
        _in_database(path, changes, keys)
    else:
        _in_tables(path, changes, keys)


def write_anew(path: Path) -> None:
    """The same state in other bytes: vacuumed, records in another order, files written later."""
    if path.is_dir():
        folders.write_again(path)
        return
    if is_sqlite(path):
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            size = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA page_size = {1024 if size != 1024 else 4096}")
            connection.execute("VACUUM")
        return
    document = _loaded(path)
    if isinstance(document, list):
        document = document[::-1]
    else:
        document = {
            name: held[::-1] if isinstance(held, list) else held
            for name, held in reversed(document.items())
        }
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")


def remove_table(path: Path, table: str) -> None:
    """The state holds the table no more, or a folder no entry. Raises `Unwritable`."""
    if path.is_dir():
        folders.remove_entries(path)
        return
    if not is_sqlite(path):
        document = _loaded(path)
        if not isinstance(document, dict) or table not in document:
            raise Unwritable("the file has one table, without a name")
        del document[table]
        path.write_text(json.dumps(document), encoding="utf-8")
        return
    with _writing(path) as connection:
        connection.execute(f"DROP TABLE {_quoted(table)}")


def cut(path: Path) -> None:
    """The second half of the file is gone, or of the entries of a folder."""
    if path.is_dir():
        folders.remove_entries(path, from_middle=True)
        return
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def copied(original: Path, folder: Path) -> Path:
    """A copy of the state in the folder, with what SQLite keeps beside it."""
    target = folder / (original.name or "state")
    if original.is_dir():
        shutil.copytree(original, target, symlinks=True)
    elif is_sqlite(original):
        source = f"{original.absolute().as_uri()}?mode=ro"
        with (
            contextlib.closing(sqlite3.connect(source, uri=True)) as one,
            contextlib.closing(sqlite3.connect(target)) as other,
        ):
            one.backup(other)
    else:
        shutil.copyfile(original, target)
    return target


def remove(path: Path) -> None:
    """The state is gone."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


# ---------------------------------------------------------------- SQLite


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            yield connection
            connection.commit()
    except (sqlite3.Error, OverflowError) as error:
        raise Refused(f"the database refuses it: {printable(str(error))[:200]}") from error


def _in_database(path: Path, changes: Sequence[SeededChange], keys: Keys) -> None:
    with _writing(path) as connection:
        if _holds_its_keys(connection):
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN")
            connection.execute("PRAGMA defer_foreign_keys = ON")
        for change in changes:
            _write_row(connection, change, keys[change.type])


def _holds_its_keys(connection: sqlite3.Connection) -> bool:
    """True if no foreign key is broken: else the programs that write the file ask for none."""
    try:
        return connection.execute("PRAGMA foreign_key_check").fetchone() is None
    except sqlite3.OperationalError:  # a key that refers to no column of that name
        return False


def _write_row(connection: sqlite3.Connection, change: SeededChange, key: Sequence[str]) -> None:
    made, values = statement_of(change, _quoted(change.type), key, '"', _ONE)
    done = connection.execute(made, values)
    if done.rowcount != 1:
        raise Unwritable(f"the database finds {done.rowcount} rows for one")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# ---------------------------------------------------------------- JSON tables


def _loaded(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Unwritable(f"{path.name} is not JSON: {error}") from error


def _in_tables(path: Path, changes: Sequence[SeededChange], keys: Keys) -> None:
    document = _loaded(path)
    for change in changes:
        rows = document if isinstance(document, list) else document.setdefault(change.type, [])
        place = _place(rows, change, keys[change.type])
        new = None if change.after is None else _record(change.after)
        if new is None:
            del rows[place]
        elif change.before is None:
            rows.append(new)
        else:
            # A field that the change leaves alone stays as the file spells it.
            old = change.before
            kept = {n: v for n, v in rows[place].items() if n in new}
            rows[place] = kept | {n: v for n, v in new.items() if change.after[n] != old.get(n)}  # type: ignore[index]  # there is one
    path.write_text(json.dumps(document), encoding="utf-8")


def _place(rows: list[Any], change: SeededChange, key: Sequence[str]) -> int:
    if change.before is None:
        return -1
    wanted = _record({n: v for n, v in change.before.items() if n in key or not key})
    found = [
        at
        for at, row in enumerate(rows)
        if isinstance(row, dict) and all(row.get(name) == value for name, value in wanted.items())
    ]
    if not found or (key and len(found) > 1):
        raise Unwritable(f"the file has {len(found)} records for one")
    return found[0]


def _record(row: Mapping[str, Observed]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in row.items() if value is not ABSENT}


def _plain(value: Observed) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime() | date():
            return value.isoformat()
        case tuple():
            return [_plain(item) for item in value]
        case Map(items):
            return {name: _plain(item) for name, item in items}
        case _:
            raise Unwritable(f"a value of the kind {type(value).__name__} has no form in a file")
