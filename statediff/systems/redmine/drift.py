"""The database of a Redmine as digests of its tables, and in words what differs between two."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from statediff.model.values import printable

Difference = tuple[str, str, str]
"""(what, expected, found)."""

WORK: Final = frozenset(
    {
        "attachments",
        "custom_values",
        "issue_relations",
        "issues",
        "journal_details",
        "journals",
        "sqlite_sequence",
        "tokens",
        "users",
        "watchers",
    }
)
"""Tables that ordinary work changes and of which a running Redmine remembers nothing."""
MAX_ROWS: Final = 1_000_000
_SECRETS: Final = frozenset(
    {"account_password", "hashed_password", "salt", "twofa_totp_key", "value"}
)
_NAMED: Final = {
    "settings": "setting",
    "roles": "role",
    "journals": "journal entry",
    "sqlite_sequence": "numbering",
}


@dataclass(frozen=True)
class TableDigest:
    """What a table is: its definition, and SHA-256 over all rows in their order."""

    definition: str
    rows: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} rows, digest {self.rows[:12]}"


Tables = Mapping[str, TableDigest]


def tables_of(db: sqlite3.Connection) -> dict[str, TableDigest]:
    """Every table, index, view and trigger of a database, read in one transaction.

    Only tables that are kept as rows are read: nothing that the file defines is executed.
    Raises `sqlite3.Error`.
    """
    found: dict[str, TableDigest] = {}
    db.execute("PRAGMA trusted_schema = OFF")
    with _one_transaction(db):
        listed = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
        for kind, name, sql in listed:
            definition = f"{kind}: {sql}"
            if kind != "table" or str(sql)[:20].upper().startswith("CREATE VIRTUAL"):
                found[str(name)] = TableDigest(definition, "", 0)
                continue
            hasher, count = hashlib.sha256(), 0
            for row in db.execute(f"SELECT * FROM {_quoted(name)} LIMIT {MAX_ROWS + 1}"):  # noqa: S608 - quoted
                hasher.update(repr(row).encode("utf-8", "surrogatepass") + b"\n")
                count += 1
            found[str(name)] = TableDigest(definition, hasher.hexdigest(), count)
    return found


def digest_of(tables: Tables) -> str:
    """One digest of all tables."""
    hasher = hashlib.sha256()
    for name, table in sorted(tables.items()):
        hasher.update(f"{name}\0{table.definition}\0{table.rows}\0{table.count}\n".encode())
    return hasher.hexdigest()


def differing(one: Tables, other: Tables) -> list[str]:
    """The names of the tables that are not the same in both, sorted."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def described(
    before: sqlite3.Connection, after: sqlite3.Connection, names: list[str]
) -> Iterator[Difference]:
    """What differs in these tables, row by row where rows have an `id`."""
    for name in names:
        one, other = _rows(before, name), _rows(after, name)
        if one is None or other is None:
            kinds = [_kind(side, name) for side in (before, after)]
            words = [f"a {kind}" if kind else "not there" for kind in kinds]
            yield f"{kinds[0] or kinds[1] or 'table'} {printable(name)}", words[0], words[1]
            continue
        told = False
        for key in sorted(one.keys() | other.keys(), key=str):
            was, now = one.get(key), other.get(key)
            if was == now:
                continue
            told = True
            what = _called(name, key, was or now or {})
            if was is None or now is None:
                yield what, _present(was), _present(now)
                continue
            for column in was:
                if was[column] != now.get(column):
                    yield (
                        f"{column} of {what}",
                        _shown(name, column, was[column]),
                        _shown(name, column, now.get(column)),
                    )
        if not told:
            yield f"table {printable(name)}", "as it was defined", "defined otherwise"


def _kind(db: sqlite3.Connection, name: str) -> str:
    try:
        found = db.execute("SELECT type FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    except sqlite3.Error:
        return ""
    return "" if found is None else printable(str(found[0]))


def _called(table: str, key: object, row: Mapping[str, Any]) -> str:
    word = _NAMED.get(table, table.removesuffix("s"))
    name = row.get("name") if table in ("settings", "roles", "sqlite_sequence") else None
    return printable(f"{word} {key if name is None else name}"[:80])


def _present(row: object) -> str:
    return "not there" if row is None else "there"


def _shown(table: str, column: str, value: object) -> str:
    # A receipt is shown to people: it holds no stored password and no key.
    if column in _SECRETS and table != "settings":
        return "a secret"
    return printable(str(value)[:60])


def _rows(db: sqlite3.Connection, name: str) -> dict[Any, dict[str, Any]] | None:
    try:
        sql = db.execute(
            "SELECT sql FROM sqlite_schema WHERE name = ? AND type = 'table'", (name,)
        ).fetchone()
        if sql is None or str(sql[0]).upper().startswith("CREATE VIRTUAL"):
            return None
        cursor = db.execute(f"SELECT * FROM {_quoted(name)} LIMIT {MAX_ROWS}")  # noqa: S608 - quoted
        columns = [each[0] for each in cursor.description]
        rows = [dict(zip(columns, row, strict=True)) for row in cursor]
    except sqlite3.Error:
        return None
    by_id = {row["id"]: row for row in rows} if "id" in columns else {}
    return by_id if len(by_id) == len(rows) else dict(enumerate(rows))


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'


@contextlib.contextmanager
def _one_transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
