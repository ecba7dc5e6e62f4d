"""The ties between columns of SQLite tables, and the rules by which a table refuses rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from statediff.systems.relational.meaning import COVERED, words
from statediff.systems.relational.schema import quoted
from statediff.systems.relational.ties import closed
from statediff.systems.sqlite.definitions import TOKEN, Uncertain, arguments_of, split

_NAME: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[\w$]+""")
_OF_TABLE: Final = ("autoincrement", "without rowid", "strict", "primary key desc")
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
    for column, expression in expressions_of(definition, fold):
        words = _NAME.findall(expression)
        read = {fold(_plain(word)) for word in words if not word.startswith("'")} & names
        reads[column] = tuple(sorted(read - {column}))
    return closed({name: reads.get(name, ()) for name in map(fold, generated)})


def expressions_of(definition: str, fold: Any) -> Iterator[tuple[str, str]]:
    """The generated columns of a CREATE TABLE, folded, each with its expression."""
    for part in _parts(definition):
        found, first = _COMPUTED.search(part), _NAME.search(part)
        if found is not None and first is not None:
            with suppress(Uncertain):
                yield fold(_plain(first[0])), ",".join(split(part[found.end() - 1 :])[0])


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


def unique_of(
    connection: sqlite3.Connection, table: str
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The columns of which no two rows have the same values, and by what: `u`, `pk`, `c`."""
    found = []
    for _, name, is_unique, origin, is_partial, *_ in connection.execute(
        f"PRAGMA main.index_list({quoted(table)})"
    ).fetchall():
        if is_unique and not is_partial and isinstance(name, str):
            columns = connection.execute(f"PRAGMA main.index_info({quoted(name)})").fetchall()
            if all(isinstance(column, str) for _, _, column in columns):
                found.append((str(origin), tuple(column for _, _, column in columns)))
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


def constraints_of(
    definition: str,
    columns: Collection[str],
    foreign: Iterable[Reference],
    unique: Iterable[tuple[str, ...]],
    generated: Collection[str],
    fold: Any,
) -> tuple[str, ...]:
    """What a table asks of its rows beside types, one text each: no two of them are the same."""
    found = [f"check {' '.join(words(check))}" for check in checks_of(definition)]
    found += [f"unique ({', '.join(map(fold, names))})" for names in unique]
    for key in foreign:
        own, other = (", ".join(map(fold, names)) for names in (key.columns, key.targets))
        does = f"on delete {key.on_delete.lower()} on update {key.on_update.lower()}"
        found.append(f"foreign key ({own}) references {fold(key.table)} ({other}) {does}")
    plain = COVERED.sub(" ", definition)
    found += [each for each in _OF_TABLE if f" {each} " in f" {' '.join(words(plain))} "]
    names, made = {fold(name) for name in columns}, {fold(name) for name in generated}
    for part in _parts(definition):
        first = _NAME.search(part)
        name = "" if first is None else fold(_plain(first[0]))
        if name in names and (order := _collation(part)):
            found.append(f"collate {name} {order}")
        computed = _COMPUTED.search(part)
        if name in made and computed is not None:
            found.append(f"generated {name} {' '.join(words(part[computed.end() - 1 :]))}")
    return tuple(dict.fromkeys(found))


def _parts(definition: str) -> list[str]:
    """The parts between the commas of a CREATE TABLE."""
    end = definition.rfind(")") + 1
    for text in (re.split(r"\)\s*(?:WITHOUT|STRICT)\b", definition)[0] + ")", definition[:end]):
        try:
            return arguments_of(text)
        except Uncertain:
            continue
    return []


def _collation(part: str) -> str:
    """The order of texts that a column is declared with; of its own definition alone."""
    depth, outside = 0, ""
    for match in TOKEN.finditer(part):
        piece = match[0]
        depth += (piece == "(") - (piece == ")")
        outside += " " if depth or piece == ")" or piece.startswith(("'", "--", "/*")) else piece
    found = re.search(r"\bCOLLATE\s+([\w$]+|\"[^\"]+\"|`[^`]+`|\[[^\]]+\])", outside, re.IGNORECASE)
    return "" if found is None else _plain(found[1]).lower()


def _plain(name: str) -> str:
    if name[0] == "[":
        return name[1:-1]
    return name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '"`' else name
