"""What a Roundup database writes as Python literals, read as data and never evaluated.

Roundup keeps the parameters of a journal entry, and the list of its classes, as the `repr` of
Python values, and evaluates them when it reads them. An agent may have written anything there. This
reader knows literals only, has bounds, and says `None` to whatever else it finds.

`ast.literal_eval` would not do instead: 256 KiB of `1,1,…` take 121 MiB there, `---…1` ends with
`MemoryError` and `1+1j+1j…` with `RecursionError`; it also reads sets, bytes, sums, half surrogate
pairs and a key that is there twice. Guards against all of that would have to read the text first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from statediff.model.schema import Kind

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
            return _unescaped(quoted[1] if quoted[1] is not None else quoted[2])
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


def _unescaped(inner: str) -> str:
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
