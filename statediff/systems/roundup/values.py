"""How Roundup stores values, and what they mean: dates, links, roles, texts, the journal's entries.

Nothing is guessed: what is not in the form that Roundup writes stays as it is.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.schema import Kind
from statediff.model.values import ABSENT, Observed, Unobserved, key_order
from statediff.systems.roundup.home import digest_of
from statediff.systems.roundup.literals import Property, literal

ALSO_ON: Final = "also_on"
_STORED_DATE: Final = re.compile(r"([0-9]{14})(?:\.([0-9]{1,6}))?")


def entry_order(row: Row) -> Any:
    """The order of an entry of the journal among those of its class."""
    columns = ("nodeid", "date", "tag", "action", "params")
    return key_order(tuple(_sortable(row.get(c)) for c in columns))


def _sortable(cell: Observed | None) -> Any:
    return "" if isinstance(cell, Unobserved) or cell is ABSENT else cell


def changes(row: Row, secrets: frozenset[str]) -> list[tuple[Observed, Observed]]:
    """(field, value before) for each property an entry tells of; its text where it is none of ours.

    A `set` tells the old values, a multilink's as the numbers that came and went (`+61 -7`).
    """
    params = row.get("params")
    told = literal(params)
    match row.get("action"), None if told is None else told[0]:
        case _, None if told is not None:
            return [(None, None)]
        case _, dict(values) if not values:
            return [(None, None)]
        case "set", dict(values):
            return [
                (n, _before(v) if n not in secrets else _hidden(v))
                for n, v in sorted(values.items())
            ]
        case "link" | "unlink", (str(kind), str(item), str(name)):
            return [(f"{kind}{item}.{name}", None)]
        case _:
            return [(None, _hidden(params))]


def _before(value: Any) -> Observed:
    match value:
        case None | str():
            return value
        case bool() | int():
            return str(value)
        case tuple(steps) if steps:
            told = [f"{s[0]}{','.join(map(str, s[1]))}" for s in steps if _is_step(s)]
            if len(told) == len(steps):
                return " ".join(told)
    return _hidden(repr(value))


def _is_step(step: object) -> bool:
    match step:
        case ("+" | "-", list() | tuple()):
            return True
        case _:
            return False


def _hidden(value: Any) -> Observed:
    """A digest: the value may be a password, or hide one."""
    if value is None or isinstance(value, Unobserved):
        return value
    return digest_of(value if isinstance(value, bytes) else str(value).encode())


def cell(kind: str, p: Property, stored: Observed) -> Observed:
    """The value of one property of a class, as it is stored in its column."""
    if stored is None or stored is ABSENT or isinstance(stored, Unobserved):
        return stored
    if p.is_secret:
        return _hidden(stored)
    if (kind, p.name) == ("user", "roles"):
        return roles(stored)
    match p.kind:
        case Kind.TIMESTAMP:
            return instant(stored)
        case Kind.BOOL:
            return truth(stored)
        case _:
            return stored


def roles(stored: Observed) -> Observed:
    """The names in a list with commas, sorted; what is no such list stays as it is."""
    if not isinstance(stored, str):
        return stored
    return tuple(sorted({name.strip() for name in stored.split(",")} - {""}))


def truth(stored: Observed | None) -> Observed:
    """A truth value that Roundup keeps as a number."""
    # Roundup marks what is retired with its own number.
    return bool(stored) if type(stored) is int else stored


def number(stored: Observed | None) -> Observed:
    """A number that Roundup keeps as text."""
    if isinstance(stored, str) and stored.isascii() and stored.isdigit() and len(stored) < 19:
        return int(stored)
    return stored


def instant(stored: Observed | None, *, exact: bool = False) -> Observed:
    """A date of Roundup's, in UTC; what is none stays as it is.

    To the second, unless `exact`: no interface of the tracker tells more.
    """
    form = _STORED_DATE.fullmatch(stored) if isinstance(stored, str) else None
    if form is None:
        return stored
    try:
        fraction = (form[2] or "0") if exact else "0"
        return datetime.strptime(f"{form[1]}.{fraction}+0000", "%Y%m%d%H%M%S.%f%z").astimezone(UTC)
    except ValueError:
        return stored


def content_cells(found: bytes | Observed) -> Row:
    """Text (bytes where it is none), digest and size of what a file held."""
    if not isinstance(found, bytes):
        return {"content": found, "digest": found, "size": found}
    text: Observed
    try:
        text = found.decode()
    except UnicodeDecodeError:
        text = found
    return {"content": text, "digest": digest_of(found), "size": len(found)}


def on_which(owner: str, listed: list[int]) -> Row:
    """Which item lists a message or file, and which others do too, in the order of their ids."""
    ordered = sorted(set(listed))
    return {owner: ordered[0] if ordered else None, ALSO_ON: tuple(ordered[1:])}
