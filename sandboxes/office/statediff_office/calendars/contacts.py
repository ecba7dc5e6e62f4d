"""Contacts: a vCard text as a row, its addresses, numbers and e-mails typed.

What an address book shows has a field; every other property is in `properties` as vCard text, so
that nothing of a card is unseen. Left out are REV and PRODID, which programs write anew, and a
VERSION that is one of the two that they write.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Map, Value
from statediff_office.calendars.items import MAX_OBJECT_CHARACTERS
from statediff_office.calendars.lines import ContentLine, content_lines, with_parameters, with_value

ADDRESS_BOOK: Final = EntityType(
    "address_book",
    ("path",),
    (
        Field("path", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT),
        Field("description", Kind.TEXT),
    ),
)
"""An address book by its path on the server."""
CONTACT: Final = EntityType(
    "contact",
    ("address_book", "uid"),
    (
        Field("address_book", Kind.TEXT, is_nullable=False, reference=ADDRESS_BOOK.name),
        Field("uid", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT, is_nullable=False),
        Field("full_name", Kind.TEXT),
        Field("organization", Kind.TEXT),
        Field("title", Kind.TEXT),
        Field("note", Kind.TEXT),
        Field("birthday", Kind.TEXT),
        Field("emails", Kind.LIST, is_nullable=False),
        Field("phones", Kind.LIST, is_nullable=False),
        Field("addresses", Kind.LIST, is_nullable=False),
        Field("categories", Kind.LIST, is_nullable=False),
        Field("properties", Kind.MAP, is_nullable=False),
    ),
)
"""A person or company. `name` is the last part of the card's path; `emails` and `phones` are maps
{value, type, …} with their parameters, in the card's order; `addresses` are maps {street, city,
region, code, country, box, extended, type, …}; `organization` is all its parts, joined by `;`;
`properties` maps each other property to the list of its lines."""
CONTACT_TYPES: Final = (ADDRESS_BOOK, CONTACT)

_TEXTS: Final = {
    "FN": "full_name",
    "ORG": "organization",
    "TITLE": "title",
    "NOTE": "note",
    "BDAY": "birthday",
}
_ADDRESS: Final = ("box", "extended", "street", "city", "region", "code", "country")
_LISTS: Final = {"EMAIL": "emails", "TEL": "phones", "ADR": "addresses"}
_FRAME: Final = frozenset({"BEGIN", "END", "REV", "PRODID"})
_VERSIONS: Final = frozenset({"3.0", "4.0"})
_ESCAPED: Final = re.compile(r"\\([\\,;nN])")
_WORDS: Final = frozenset({"type", "value", "encoding"})
"""Parameters whose values are words, in any case and order; every other one may hold a text."""


def contact_row(address_book: str, name: str, text: str) -> Row:
    """The one card of an object. Raises `ValueError` where it is none."""
    if len(text) > MAX_OBJECT_CHARACTERS:
        raise ValueError(f"it has more than {MAX_OBJECT_CHARACTERS} characters")
    lines = [_parts(line) for line in content_lines(text)]
    framed = [(n, params, v.upper()) for n, params, v in lines if n in ("BEGIN", "END")]
    edges = [n for n, _, _ in (*lines[:1], *lines[-1:])]
    if framed != [("BEGIN", {}, "VCARD"), ("END", {}, "VCARD")] or edges != ["BEGIN", "END"]:
        raise ValueError("it does not hold one card")
    uids = [value for n, _, value in lines if n == "UID"]
    if len(uids) != 1:
        raise ValueError("it has no UID, or several")
    row: Row = {
        "address_book": address_book,
        "uid": uids[0],
        "name": name,
        **dict.fromkeys(_TEXTS.values()),
    }
    lists: dict[str, list[Value]] = {field: [] for field in _LISTS.values()}
    categories: list[Value] = []
    versions = [(params, value) for n, params, value in lines if n == "VERSION"]
    is_usual = len(versions) == 1 and versions[0][1] in _VERSIONS and not versions[0][0]
    others: dict[str, list[str]] = {} if versions else {"VERSION": []}
    names = Counter(kind for kind, _, _ in lines)
    for kind, params, value in lines:
        if (
            (kind in _FRAME and names[kind] == 1)
            or (kind == "UID" and not params)
            or (kind == "VERSION" and is_usual)
        ):
            continue
        if kind in _TEXTS and not params and row[_TEXTS[kind]] is None:
            row[_TEXTS[kind]] = value if kind == "ORG" else _unescaped(value)
        elif kind == "ADR":
            lists["addresses"].append(with_parameters(params, _address(value)))
        elif kind in _LISTS:
            lists[_LISTS[kind]].append(with_parameters(params, {"value": _unescaped(value)}))
        elif kind == "CATEGORIES" and not params:
            categories += [_unescaped(each) for each in _split(value, ",")]
        else:
            said = "".join(f";{n}={_quoted(v)}" for n, v in sorted(params.items()))
            others.setdefault(kind, []).append(with_value(said.removeprefix(";"), value))
    row.update({field: tuple(found) for field, found in lists.items()})
    row["categories"] = tuple(sorted(categories, key=repr))
    row["properties"] = Map.of({kind: tuple(found) for kind, found in others.items()})
    return row


def _parts(line: ContentLine) -> tuple[str, dict[str, str], str]:
    # A group (`item1.ADR`) ties a line to another; the name of the line is what follows.
    group, _, kind = line.name.rpartition(".")
    found: dict[str, list[str]] = {"group": [group.lower()]} if group else {}
    for key, value in line.parameters:
        name = ";group" if key == "group" else key  # which is no group
        words = value.lower().split(",") if name in _WORDS else [value]
        found.setdefault(name, []).extend(words)
    given = {n: ",".join(sorted(v) if n in _WORDS else v) for n, v in found.items()}
    return kind, given, line.value


def _address(value: str) -> dict[str, Value]:
    parts = [_unescaped(each) for each in _split(value, ";")]
    found: dict[str, Value] = dict(zip(_ADDRESS, [*parts, *[""] * len(_ADDRESS)], strict=False))
    if len(parts) > len(_ADDRESS):
        found["more"] = tuple(parts[len(_ADDRESS) :])
    return found


def _quoted(value: str) -> str:
    """A parameter's value, in quotes where it has what ends one."""
    return f'"{value}"' if ";" in value or ":" in value else value


def _split(value: str, at: str) -> list[str]:
    """The parts of a value, cut where the character is not escaped."""
    parts, pending = [], ""
    for piece in value.split(at):
        pending += piece
        if (len(piece) - len(piece.rstrip("\\"))) % 2:
            pending += at  # it is escaped; behind the last piece nothing is
            continue
        parts.append(pending)
        pending = ""
    return [*parts, pending[:-1]] if pending else parts


def _unescaped(value: str) -> str:
    """The text; a backslash before what needs none is a character (RFC 6350, section 3.4)."""
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)
