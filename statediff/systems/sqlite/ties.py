"""What ties columns of an SQLite table to others, and what the table refuses of its rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from statediff.systems.relational.schema import quoted
from statediff.systems.relational.ties import closed
from statediff.systems.sqlite.definitions import TOKEN, Uncertain, arguments_of

_NAME: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[\w$]+""")
_COMPUTED: Final = re.compile(r"\bAS\s*\(", re.IGNORECASE)


class Reference(NamedTuple):
    """A foreign key: its columns, the table, its columns or its primary key, and what it does."""

    columns: tuple[str, ...]
    table: str
    targets: tuple[str, ...]
    on_delete: str
    on_update: str


def reads_of(
    definition: str, generated: Collection[str], columns: Collection[str], fold: Any
) -> Mapping[str, tuple[str, ...]]:
    """Generated column → the columns that its expression reads, all by their folded names."""
    if not generated:
        return {}
    names = {fold(name) for name in columns}
    reads: dict[str, tuple[str, ...]] = {}
    try:
        parts = arguments_of(re.split(r"\)\s*(?:WITHOUT|STRICT)\b", definition)[0] + ")")
    except Uncertain:
        try:
            parts = arguments_of(definition[: definition.rindex(")") + 1])
        except (Uncertain, ValueError):
            return {}
    for part in parts:
        found = _COMPUTED.search(part)
        first = _NAME.search(part)
        if found is None or first is None:
            continue
        words = _NAME.findall(part[found.end() :])
        read = {fold(_plain(word)) for word in words if not word.startswith("'")} & names
        reads[fold(_plain(first[0]))] = tuple(sorted(read - {fold(_plain(first[0]))}))
    return closed({name: reads.get(name, ()) for name in map(fold, generated)})


def references_of(listed: Iterable[tuple[Any, ...]]) -> tuple[Reference, ...]:
    """The foreign keys of a table, of one column or more."""
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for row in listed:
        parts.setdefault(row[0], []).append(row)
    found = []
    for rows in parts.values():
        _, _, table, _, target, on_update, on_delete, *_ = rows[0]
        targets = () if target is None else tuple(str(row[4]) for row in rows)
        columns = tuple(str(row[3]) for row in rows)
        found.append(Reference(columns, str(table), targets, str(on_delete), str(on_update)))
    return tuple(sorted(found))


def unique_of(connection: sqlite3.Connection, table: str) -> tuple[tuple[str, ...], ...]:
    """The columns of which no two rows of the table have the same values."""
    found = []
    for _, name, is_unique, _, is_partial, *_ in connection.execute(
        f"PRAGMA main.index_list({quoted(table)})"
    ).fetchall():
        if is_unique and not is_partial and isinstance(name, str):
            columns = connection.execute(f"PRAGMA main.index_info({quoted(name)})").fetchall()
            if all(isinstance(column, str) for _, _, column in columns):
                found.append(tuple(column for _, _, column in columns))
    return tuple(sorted(found))


def checks_of(definition: str) -> tuple[str, ...]:
    """The conditions that a definition puts on rows of its table, as they are written."""
    found, depth, current = [], 0, ""
    is_check, before = False, ""
    for match in TOKEN.finditer(definition):
        piece = match[0]
        if piece == "(":
            if not is_check and re.search(r"\bCHECK\s*$", before, re.IGNORECASE):
                is_check, depth, current = True, 1, ""
                continue
            depth += is_check
        elif piece == ")" and is_check:
            depth -= 1
            if not depth:
                found.append(current.strip())
                is_check = False
                continue
        if is_check:
            current += " " if piece.startswith(("--", "/*")) else piece
        before = piece
    return tuple(found)


def _plain(name: str) -> str:
    if name[0] == "[":
        return name[1:-1]
    return name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '"`' else name
