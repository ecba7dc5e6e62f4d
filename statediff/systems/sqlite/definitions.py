"""The texts of SQLite's definitions: their parts, and what a table asks of its rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from statediff.systems.relational.meaning import COVERED, pieces, words
from statediff.systems.relational.schema import quoted
from statediff.systems.relational.ties import closed


class Uncertain(Exception):
    """Only a check of the whole file can tell; the message says why."""


_NAME: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[\w$]+""")
_OF_TABLE: Final = ("autoincrement", "without rowid", "strict", "primary key desc")
_COMPUTED: Final = re.compile(r"\bAS\s*\(", re.IGNORECASE)
_DIRECTION: Final = re.compile(r"\b(ASC|DESC)\s*$", re.IGNORECASE)
_WHERE: Final = re.compile(r"\s*WHERE\b(.+)", re.IGNORECASE | re.DOTALL)


def parts_of(sql: str) -> tuple[list[str], str | None]:
    """The expressions of a CREATE INDEX, and its condition. Raises `Uncertain`."""
    parts, rest = split(sql)
    where = _WHERE.fullmatch(rest)
    if ";" in rest or bool(rest.strip()) is not bool(where):
        raise Uncertain("the text of an index is not understood")
    written = [_DIRECTION.sub("", part).strip() for part in parts]
    return written, None if where is None else where[1].strip()


def arguments_of(sql: str) -> list[str]:
    """The arguments of a CREATE VIRTUAL TABLE that has some. Raises `Uncertain`."""
    parts, rest = split(sql)
    if rest.strip():
        raise Uncertain("the text of a virtual table is not understood")
    return [part.strip() for part in parts]


def split(sql: str) -> tuple[list[str], str]:
    """The parts between the commas of the first parentheses, and the text that follows them."""
    parts, rest, depth, is_past = [""], "", 0, False
    for piece in pieces(sql):
        if is_past:
            rest += piece
            continue
        depth += (piece == "(") - (piece == ")")
        is_past = depth == 0 and piece == ")"
        if depth == 1 and piece == ",":
            parts.append("")
        elif depth > 1 or (depth and piece != "("):
            parts[-1] += piece
    if depth or not is_past:
        raise Uncertain("the text of an index is not understood")
    return parts, rest


def folded(name: str) -> str:
    """The name as SQLite compares names: ASCII letters only."""
    return (
        name.lower() if name.isascii() else re.sub("[A-Z]", lambda letter: letter[0].lower(), name)
    )


def text_of(stored: Any) -> str:
    """A name as the catalogue has it, whatever is stored there."""
    # Names come from a table that `writable_schema` lets anyone fill with anything.
    if isinstance(stored, bytes):
        return stored.decode("utf-8", "backslashreplace")
    return str(stored)


class Reference(NamedTuple):
    """A foreign key: its columns, the table, its columns or its primary key, and what it does."""

    columns: tuple[str, ...]
    table: str
    targets: tuple[str, ...]
    on_delete: str
    on_update: str


def reads_of(
    definition: str, generated: Collection[str], columns: Collection[str]
) -> Mapping[str, tuple[str, ...]]:
    """Generated column → the columns that its expression reads, all by their folded names."""
    if not generated:
        return {}
    names = {folded(name) for name in columns}
    reads: dict[str, tuple[str, ...]] = {}
    for column, expression in expressions_of(definition):
        words = _NAME.findall(expression)
        read = {folded(plain_name(word)) for word in words if not word.startswith("'")} & names
        reads[column] = tuple(sorted(read - {column}))
    return closed({name: reads.get(name, ()) for name in map(folded, generated)})


def expressions_of(definition: str) -> Iterator[tuple[str, str]]:
    """The generated columns of a CREATE TABLE, folded, each with its expression."""
    for part in _parts(definition):
        found, first = _COMPUTED.search(part), _NAME.search(part)
        if found is not None and first is not None:
            with suppress(Uncertain):
                yield folded(plain_name(first[0])), ",".join(split(part[found.end() - 1 :])[0])


def references_of(listed: Iterable[tuple[Any, ...]]) -> tuple[Reference, ...]:
    """The foreign keys of a table, of one column or more."""
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for row in listed:
        parts.setdefault(row[0], []).append(row)
    found = []
    for rows in parts.values():
        _, _, table, _, target, on_update, on_delete, *_ = rows[0]
        targets = () if target is None else tuple(text_of(row[4]) for row in rows)
        columns = tuple(text_of(row[3]) for row in rows)
        found.append(Reference(columns, text_of(table), targets, str(on_delete), str(on_update)))
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
    found, depth, word = list[str](), 0, ""
    for piece in pieces(definition):
        if depth:
            depth += (piece == "(") - (piece == ")")
            found[-1] += piece if depth else ""
        elif piece == "(" and word == "CHECK":
            found.append("")
            depth = 1
        if not piece.isspace():
            word = piece.upper()
    return tuple(each.strip() for each in (found[:-1] if depth else found))


def constraints_of(
    definition: str,
    columns: Collection[str],
    foreign: Iterable[Reference],
    unique: Iterable[tuple[str, ...]],
    generated: Collection[str],
) -> tuple[str, ...]:
    """The constraints of a table beside types, one text each: no two of them are the same."""
    found = [f"check {' '.join(words(check))}" for check in checks_of(definition)]
    found += [f"unique ({', '.join(map(folded, names))})" for names in unique]
    for key in foreign:
        own, other = (", ".join(map(folded, names)) for names in (key.columns, key.targets))
        does = f"on delete {key.on_delete.lower()} on update {key.on_update.lower()}"
        found.append(f"foreign key ({own}) references {folded(key.table)} ({other}) {does}")
    plain = COVERED.sub(" ", definition)
    found += [each for each in _OF_TABLE if f" {each} " in f" {' '.join(words(plain))} "]
    names, made = {folded(name) for name in columns}, {folded(name) for name in generated}
    for part in _parts(definition):
        first = _NAME.search(part)
        name = "" if first is None else folded(plain_name(first[0]))
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
    for piece in pieces(part):
        depth += (piece == "(") - (piece == ")")
        outside += " " if depth or piece == ")" or piece[0] == "'" else piece
    found = re.search(r"\bCOLLATE\s+([\w$]+|\"[^\"]+\"|`[^`]+`|\[[^\]]+\])", outside, re.IGNORECASE)
    return "" if found is None else plain_name(found[1]).lower()


def plain_name(name: str) -> str:
    """The name without its quotes."""
    if name[0] == "[":
        return name[1:-1]
    return name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '"`' else name
