"""How Roundup stores values, and what they mean: dates, links, roles, texts, the journal's entries.

Nothing is guessed: what is not in the form that Roundup writes stays as it is.

Roundup keeps the parameters of a journal entry, and the list of its classes, as the `repr` of
Python values, and evaluates them when it reads them. An agent may have written anything there.
`literal` knows literals only, has bounds, and answers `None` to anything else.

`ast.literal_eval` would not do instead: 256 KiB of `1,1,…` take 121 MiB there, `---…1` ends with
`MemoryError` and `1+1j+1j…` with `RecursionError`; it also reads sets, bytes, sums, half surrogate
pairs and a key that is there twice. Guards against all of that would have to read the text first.

Texts, attachments, settings and the programs that the tracker runs are files below its home, and
each can be an agent's work. No link is followed, only regular files are read, and none beyond a
size; what is not read is unobserved, with the cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.schema import Kind
from statediff.model.values import ABSENT, Observed, Unobserved, key_order
from statediff.systems.hosted.folder import content_digest

MAX_CHARACTERS: Final = 256 * 1024
MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 10_000

_BLANK: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"None|True|False")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?![0-9.eEjJ_])")
_TEXT: Final = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"")
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\\'\"nrt])|(.))"
)
_PLAIN: Final = {"n": "\n", "r": "\r", "t": "\t"}
_WORDS: Final = {"None": None, "True": True, "False": False}
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


class _Refused(ValueError):
    """Not a literal that is read here."""


def literal(text: object) -> tuple[Any] | None:
    """The one literal in `text` as a 1-tuple, None if it is anything else.

    >>> literal("{'status': '1', 'messages': (('+', ['61']),)}")
    ({'status': '1', 'messages': (('+', ['61']),)},)
    >>> literal("__import__('os')") is None
    True
    """
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        return None
    reader = _Reader(text)
    try:
        value = reader.value(MAX_DEPTH)
        return (value,) if reader.is_at_end() else None
    except _Refused:
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._items = 0

    def value(self, depth: int) -> Any:
        self._items += 1
        if not depth or self._items > MAX_ITEMS:
            raise _Refused
        self._blank()
        opening = self._text[self._at : self._at + 1]
        if opening in _CLOSING:
            self._at += 1
            return self._several(opening, depth - 1)
        if word := self._match(_WORD):
            return _WORDS[word[0]]
        if number := self._match(_NUMBER):
            return int(number[0])
        if quoted := self._match(_TEXT):
            return _unescape(quoted[1] if quoted[1] is not None else quoted[2])
        raise _Refused

    def is_at_end(self) -> bool:
        self._blank()
        return self._at == len(self._text)

    def _several(self, opening: str, depth: int) -> Any:
        found: list[Any] = []
        ended_with_comma = True
        while not self._eat(_CLOSING[opening]):
            if not ended_with_comma:
                raise _Refused
            item = self.value(depth)
            if opening == "{":
                if not self._eat(":") or not isinstance(item, str):
                    raise _Refused
                item = (item, self.value(depth))
            found.append(item)
            ended_with_comma = self._eat(",")
        if opening == "{":
            if len(dict(found)) != len(found):
                raise _Refused
            return dict(found)
        if opening == "[":
            return found
        if len(found) == 1 and not ended_with_comma:
            return found[0]  # only brackets around one value
        return tuple(found)

    def _eat(self, sign: str) -> bool:
        self._blank()
        is_there = self._text.startswith(sign, self._at)
        self._at += is_there
        return is_there

    def _match(self, form: re.Pattern[str]) -> re.Match[str] | None:
        found = form.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _blank(self) -> None:
        self._match(_BLANK)


def _unescape(inner: str) -> str:
    text = _ESCAPE.sub(_character, inner)
    try:
        # Roundup writes the bytes of UTF-8 as one character each.
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    if code:
        number = int(code, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise _Refused
        return chr(number)
    if escape[4]:
        return _PLAIN.get(escape[4], escape[4])
    raise _Refused


@dataclass(frozen=True)
class Property:
    """One property of a Roundup class. `target` is the class a link or multilink leads to."""

    name: str
    kind: Kind
    target: str | None = None
    is_multilink: bool = False
    is_secret: bool = False


_TYPES: Final = {
    "String": Kind.TEXT,
    "Date": Kind.TIMESTAMP,
    "Link": Kind.INT,
    "Multilink": Kind.LIST,
    "Password": Kind.TEXT,
    "Boolean": Kind.BOOL,
    "Integer": Kind.INT,
    "Number": Kind.FLOAT,
    "Interval": Kind.TEXT,
}
_DECLARED: Final = re.compile(r'<roundup\.hyperdb\.([A-Za-z]+)(?: to "([A-Za-z_0-9]+)")?>')


def declared_classes(text: object) -> dict[str, tuple[Property, ...]] | None:
    """The classes that the `schema` table declares, None where it is not such a declaration."""
    found = literal(text)
    if found is None or not isinstance(found[0], dict):
        return None
    tables = found[0].get("tables")
    if not isinstance(tables, dict):
        return None
    classes: dict[str, tuple[Property, ...]] = {}
    for name, entry in tables.items():
        match entry:
            case (str(), list(listed)):
                properties = [_property(each) for each in listed]
            case _:
                return None
        if None in properties:
            return None
        classes[name] = tuple(p for p in properties if p is not None)
    return classes


def _property(entry: object) -> Property | None:
    match entry:
        case (str(name), str(declared)):
            form = _DECLARED.fullmatch(declared)
        case _:
            return None
    if form is None or form[1] not in _TYPES:
        return None
    kind = form[1]
    return Property(name, _TYPES[kind], form[2], kind == "Multilink", kind == "Password")


ALSO_ON: Final = "also_on"
DATABASE: Final = "db"
"""The folder of the database, below the home."""
_STORED_DATE: Final = re.compile(r"([0-9]{14})(?:\.([0-9]{1,6}))?")


def entry_order(row: Row) -> Any:
    """The order of an entry of the journal among those of its class."""
    columns = ("nodeid", "date", "tag", "action", "params")
    return key_order(tuple(_sortable(row.get(c)) for c in columns))


def _sortable(cell: Observed | None) -> Any:
    return "" if isinstance(cell, Unobserved) or cell is ABSENT else cell


def changes(row: Row, secrets: frozenset[str]) -> list[tuple[Observed, Observed]]:
    """(field, value before) for each property an entry tells of; its text where it is none of ours.

    A `set` tells the old values, a multilink's as the numbers that came and went (`+61 -7`). Where
    Roundup notes that there are none, so does the one change; NULL is not that.
    """
    params, action = row.get("params", ABSENT), row.get("action")
    if params == _WITHOUT.get(str(action), ABSENT) and params is not ABSENT:
        return [(None, None)]
    told = literal(params)
    if told is not None and _apart_from_texts(repr(told[0])) != _apart_from_texts(str(params)):
        told = None  # it means the same, and Roundup writes it otherwise
    match action, None if told is None else told[0]:
        case "set", dict(values) if values:
            return [
                (n, _before(v) if n not in secrets else _hidden(v))
                for n, v in sorted(values.items())
            ]
        case "link" | "unlink", (str(kind), str(item), str(name)):
            return [(f"{kind}{item}.{name}", None)]
        case _:
            return [(None, _hidden(params))]


def _apart_from_texts(written: str) -> str:
    return _TEXT.sub("''", written)


_WITHOUT: Final = {"create": "{}", "retired": "None", "restored": "None"}
"""Action → the parameters that Roundup writes with it."""


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
        case ("+" | "-", list(numbers)):
            return all(isinstance(each, str) and each.isdigit() for each in numbers)
        case _:
            return False


def _hidden(value: Any) -> Observed:
    """A digest: the value may be a password, or hide one."""
    if value is ABSENT or isinstance(value, Unobserved):
        return value
    if value is None:
        return "NULL"
    return content_digest(value if isinstance(value, bytes) else str(value).encode())


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


_KEPT: Final[dict[Kind, tuple[type, ...]]] = {
    Kind.TIMESTAMP: (datetime,),
    Kind.BOOL: (bool,),
    Kind.INT: (int,),
    Kind.FLOAT: (int, float),
    Kind.LIST: (tuple,),
    Kind.TEXT: (str,),
}


def is_of_kind(kind: Kind, told: Observed) -> bool:
    """True if a cell that the tracker wrote could be read as this; one that is not read may be."""
    return told is None or isinstance(told, Unobserved) or type(told) in _KEPT[kind]


def roles(stored: Observed) -> Observed:
    """The names in a list with commas, sorted; what is no such list stays as it is."""
    if not isinstance(stored, str):
        return stored
    return tuple(sorted({name.strip() for name in stored.split(",")} - {""}))


def truth(stored: Observed | None, yes: object = 1) -> Observed:
    """A truth value that Roundup keeps as a number: 0, or `yes`; what is neither stays as it is."""
    if type(stored) is int and stored in (0, yes):
        return bool(stored)
    return stored


def number(stored: Observed | None) -> Observed:
    """A number that Roundup keeps as text."""
    if isinstance(stored, str) and stored.isascii() and stored.isdigit() and len(stored) < 19:
        return int(stored) if stored == str(int(stored)) else stored
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
    return {"content": text, "digest": content_digest(found), "size": len(found)}


def on_which(owner: str, listed: list[int]) -> Row:
    """Which item lists a message or file, and which others do too, in the order of their ids.

    An item that lists it twice is there twice.
    """
    ordered = sorted(listed)
    return {owner: ordered[0] if ordered else None, ALSO_ON: tuple(ordered[1:])}


def rows_digest(rows: list[Row]) -> str:
    """The digest of rows in whatever order."""
    written = sorted(repr(sorted(row.items())) for row in rows)
    return content_digest("\n".join(written).encode("utf-8", "backslashreplace"))
