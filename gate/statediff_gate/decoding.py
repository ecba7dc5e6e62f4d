"""Transactions as PostgreSQL's plug-in `test_decoding` writes them, read as changes of rows.

The server writes each value with its type's output function, under the settings of our connection,
as it does for our reader. Other forms are only these: a text in quotes that are doubled inside,
`true` and `false`, `B'…'` for bits, `null`, and `unchanged-toast-datum` for a large value that an
update did not touch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

UNCHANGED: Final = object()
"""A value that is kept outside its row, and was not touched."""
Cells = Mapping[str, object]
"""Column → its text, None for null, or `UNCHANGED`."""

_NAME: Final = r'(?:"(?:[^"]|"")*"|[^\s.:\["]+)'
_TABLE: Final = re.compile(
    rf"table ({_NAME})\.({_NAME}): (INSERT|UPDATE|DELETE|TRUNCATE):(.*)", re.DOTALL
)
_TYPE: Final = re.compile(r'\[((?:"(?:[^"]|"")*"|[^"\[\]]|\[\])*)\]:')
_COLUMN: Final = re.compile(rf" ({_NAME})")
_QUOTED: Final = re.compile(r"B?'((?:[^']|'')*)'", re.DOTALL)
_BARE: Final = re.compile(r"[^\s'\"]\S*")
_ENDS: Final = re.compile(
    r"(PREPARE TRANSACTION|COMMIT PREPARED|ROLLBACK PREPARED) '((?:[^']|'')*)'"
)
_BEGINS: Final = re.compile(r"(BEGIN|COMMIT) (\d+)(?: \(at ([^)]+)\))?")
_MESSAGE: Final = re.compile(
    r"message: transactional: 1 prefix: (.*?), sz: \d+ content:(.*)", re.DOTALL
)


@dataclass(frozen=True)
class RowLine:
    """One change of a row, as the log has it."""

    schema: str
    table: str
    op: str
    old: Cells | None
    """The row before, or its key, where the server logs it."""
    new: Cells | None


@dataclass
class Logged:
    """One transaction of the log."""

    xid: int
    prepared: str | None = None
    """Its name, where it is prepared and not committed yet."""
    rows: list[RowLine] = field(default_factory=list)
    messages: list[tuple[str, str]] = field(default_factory=list)
    """The prefix and the content of each message that it put into the log."""
    at: str | None = None
    """When it was committed, where the slot says so."""


@dataclass(frozen=True)
class Ended:
    """The end of a prepared transaction."""

    prepared: str
    is_committed: bool


class Unreadable(ValueError):
    """A line is not as this release writes it."""


def transactions(lines: Iterable[str]) -> Iterator[Logged | Ended]:
    """The transactions of the log in its order. Raises `Unreadable`."""
    current: Logged | None = None
    for line in lines:
        if (ended := _ENDS.match(line)) is not None:
            name = ended[2].replace("''", "'")
            if ended[1] == "PREPARE TRANSACTION" and current is not None:
                current.prepared = name
                yield current
                current = None
            elif ended[1] != "PREPARE TRANSACTION":
                yield Ended(name, ended[1].startswith("COMMIT"))
        elif (mark := _BEGINS.fullmatch(line)) is not None:
            if mark[1] == "BEGIN":
                current = Logged(int(mark[2]))
            elif current is not None:
                current.at = mark[3]
                yield current
                current = None
        elif current is not None and (said := _MESSAGE.fullmatch(line)) is not None:
            current.messages.append((said[1], said[2]))
        elif current is not None:
            current.rows.extend(rows_of(line))


def rows_of(line: str) -> list[RowLine]:
    """The changes in one line: several for a `TRUNCATE` of several tables."""
    found = _TABLE.fullmatch(line)
    if found is None:
        raise Unreadable(line[:200])
    schema, table = _plain(found[1]), _plain(found[2])
    op, rest = found[3], found[4]
    if op == "TRUNCATE" or rest == " (no-tuple-data)":
        return [RowLine(schema, table, op, None, None)]
    old: Cells | None = None
    if rest.startswith(" old-key:"):
        old, rest = _cells(rest.removeprefix(" old-key:"), " new-tuple:")
        rest = rest.removeprefix(" new-tuple:")
    cells, left = _cells(rest, "")
    if left:
        raise Unreadable(line[:200])
    if op == "DELETE":
        return [RowLine(schema, table, op, cells, None)]
    return [RowLine(schema, table, op, old, cells)]


def _cells(text: str, stop: str) -> tuple[dict[str, object], str]:
    """The columns, and what is behind them."""
    found: dict[str, object] = {}
    at = 0
    while at < len(text) and not (stop and text.startswith(stop, at)):
        name = _COLUMN.match(text, at)
        kind = _TYPE.match(text, name.end()) if name is not None else None
        if name is None or kind is None:
            raise Unreadable(text[:200])
        at = kind.end()
        quoted = _QUOTED.match(text, at)
        bare = _BARE.match(text, at) if quoted is None else None
        value: object
        if quoted is not None:
            value, at = quoted[1].replace("''", "'"), quoted.end()
        elif bare is not None:
            value, at = _bare(bare[0], kind[1]), bare.end()
        else:
            raise Unreadable(text[:200])
        found[_plain(name[1])] = value
    return found, text[at:]


def _bare(text: str, kind: str) -> object:
    if text == "null":
        return None
    if text == "unchanged-toast-datum":
        return UNCHANGED
    return {"true": "t", "false": "f"}.get(text, text) if kind == "boolean" else text


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
