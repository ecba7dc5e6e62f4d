"""The content lines of iCalendar and vCard: unfolded, and cut into name, parameters and value.

Libraries keep one value of a parameter that is there twice. Here all are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.model.values import Map, Value
from statediff.systems.base.rows import residue_type

_FOLD: Final = re.compile(r"\r?\n[ \t]")
_BARE: Final = re.compile(r"\r(?!\n)")
"""An end of a line to some programs, and part of it to others."""
_NAME: Final = re.compile(r"[!#-~]+")
MAX_NESTING: Final = 16
"""Components within components; programs write three."""
_EDGES: Final = ("BEGIN", "END")
_COMPONENT: Final = re.compile(r"[A-Za-z0-9-]+")
_LIKE_PARAMETERS: Final = re.compile(r":|;?[^\s:;=]+=")
_VALUE: Final = r'(?:"[^"\x00-\x08\x0a-\x1f\x7f]*"|[^",\x00-\x08\x0a-\x1f\x7f]*)'
_VALUES: Final = re.compile(f"{_VALUE}(,{_VALUE})*")
_PARTS: Final = re.compile(r'(?:[^";:]|"[^"]*")*')


_ESCAPING: Final = re.compile(r"\\([,;:]|$)")
"""In a parameter some programs read what follows as its text (RFC 5545 has no such thing there)."""
_MOMENT: Final = r"[0-9]{8}(T[0-9]{6}Z?)?"
_SPAN: Final = r"[+-]?P[0-9DHMSTW]+"
_RULE: Final = r"[A-Za-z-]+=[A-Za-z0-9,+\-]+"
_TIME: Final = rf"{_MOMENT}(/({_MOMENT}|{_SPAN}))?"
_KINDS: Final = {
    _MOMENT: "DTSTART DTEND DUE DTSTAMP LAST-MODIFIED COMPLETED CREATED RECURRENCE-ID",
    f"{_TIME}(,{_TIME})*": "EXDATE RDATE",
    r"[+-][0-9]{2}([0-5][0-9]){1,2}": "TZOFFSETFROM TZOFFSETTO",
    r"[+-]?[0-9]+": "SEQUENCE PRIORITY PERCENT-COMPLETE REPEAT",
    f"{_SPAN}|{_MOMENT}": "DURATION TRIGGER",
    rf"(?!(?i:.*\b([A-Z-]+)=.*;\1=)){_RULE}(;{_RULE})*;?": "RRULE EXRULE",
    r"[+-]?[0-9.]+;[+-]?[0-9.]+": "GEO",
}
_FORMS: Final = {name: re.compile(form) for form, names in _KINDS.items() for name in names.split()}
"""How values that are no text are written (RFC 5545). The parser also takes what others refuse,
such as a vertical tab before a digit."""


@dataclass(frozen=True)
class ContentLine:
    """One property as it is written; names in upper case, names of parameters in lower case."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    """All of them, repeated ones too; a bare word is a `type`, as in old cards."""
    value: str


def content_lines(text: str) -> Iterator[ContentLine]:
    """The lines of a text, in their order. Raises `ValueError` at one that is none."""
    if _BARE.search(text):
        raise ValueError("a carriage return within a line")
    for line in _FOLD.sub("", text).split("\n"):
        whole = line.removesuffix("\r")
        if whole.strip():
            yield _content_line(whole)


def _content_line(line: str) -> ContentLine:
    at, parts = 0, []
    while True:
        found = _PARTS.match(line, at)
        end = at if found is None else found.end()
        parts.append(line[at:end])
        if end >= len(line) or line[end] == '"':
            raise ValueError("a line without a value")
        at = end + 1
        if line[end] == ":":
            break
    name, *given = parts
    if not _NAME.fullmatch(name):
        raise ValueError("a line without a name, or with one that is none")
    if name.upper() in _EDGES and (given or not _COMPONENT.fullmatch(line[at:])):
        raise ValueError("a component without a name, or with parameters")
    pairs = []
    for each in given:
        key, is_pair, value = each.partition("=")
        if not _NAME.fullmatch(key) or not _VALUES.fullmatch(value):
            raise ValueError("a parameter without a name or a value, or with one that is none")
        pairs.append((key.lower(), value.replace('"', "")) if is_pair else ("type", key))
    return ContentLine(name.upper(), tuple(pairs), line[at:])


_STAMPS: Final = re.compile(
    r"^(?:DTSTAMP|LAST-MODIFIED|REV|PRODID|VERSION|CALSCALE)[;:].*", re.IGNORECASE | re.MULTILINE
)
RESIDUE: Final = residue_type(
    "calendar.residue",
    "collection",
    "name",
    because="programs write stamps anew, and lines in another order, case and width",
)
"""What the rows of an object do not say: `stamps`, and `layout`, how all of it is spelled."""


def residue_of(text: str) -> dict[str, bytes]:
    """The parts of the residue of one object."""
    stamps = "\n".join(sorted(_STAMPS.findall(_FOLD.sub("", text))))
    return {"stamps": stamps.encode(), "layout": text.encode()}


def repeated_parameter(lines: Sequence[ContentLine]) -> str | None:
    """A parameter that a line has twice, e.g. `ATTENDEE: partstat`; None if none does."""
    for line in lines:
        seen: set[str] = set()
        for name, _ in line.parameters:
            if name in seen:
                return f"{line.name}: {name}"
            seen.add(name)
    return None


def mismatched_end(lines: Sequence[ContentLine]) -> str | None:
    """The component that ends where another is open, or never, or is in none or in too many.

    None if nothing does.
    """
    open_ones: list[str] = []
    for line in lines:
        named = line.value.upper()
        if line.name == "BEGIN":
            open_ones.append(named)
            if len(open_ones) > MAX_NESTING:  # the library walks each level's lines again
                return named
        elif not open_ones or (line.name == "END" and open_ones.pop() != named):
            return named if line.name == "END" else line.name
    return open_ones[-1] if open_ones else None


def malformed(lines: Sequence[ContentLine]) -> str | None:
    """The malformed part of a line, e.g. `DTSTART` or `ATTENDEE: partstat`; None if all is well.

    A name of a person may have space around it; another parameter is then another one to some.
    """
    for line in lines:
        form = _FORMS.get(line.name)
        if form is not None and not form.fullmatch(line.value):
            return line.name
        for name, value in line.parameters:
            if (name != "cn" and value != value.strip()) or _ESCAPING.search(value):
                return f"{line.name}: {name}"
    return None


def with_value(parameters: str, value: str) -> str:
    """All that stands after the name of a line; no value looks as if it had parameters."""
    return f"{parameters}:{value}" if parameters or _LIKE_PARAMETERS.match(value) else value


def with_parameters(parameters: Mapping[str, Value], said: Mapping[str, Value]) -> Map:
    """A line's values, and its parameters; a parameter with the name of a value is `;NAME`."""
    apart = {f";{name}" if name in said else name: each for name, each in parameters.items()}
    return Map.of({**apart, **said})
