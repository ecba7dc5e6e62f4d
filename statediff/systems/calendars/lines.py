"""The content lines of iCalendar and vCard: unfolded, and cut into name, parameters and value.

Libraries keep one value of a parameter that is there twice. Here all are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FOLD: Final = re.compile(r"\r?\n[ \t]")
_PARTS: Final = re.compile(r'(?:[^";:]|"[^"]*")*')


@dataclass(frozen=True)
class ContentLine:
    """One property as it is written; names in upper case, names of parameters in lower case."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    """All of them, repeated ones too; a bare word is a `type`, as in old cards."""
    value: str


def content_lines(text: str) -> Iterator[ContentLine]:
    """The lines of a text, in their order. Raises `ValueError` at one that is none."""
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
    if not name:
        raise ValueError("a line without a name")
    pairs = []
    for each in given:
        key, is_pair, value = each.partition("=")
        pairs.append((key.lower(), value.strip('"')) if is_pair else ("type", key))
    return ContentLine(name.upper(), tuple(pairs), line[at:])


def repeated_parameter(text: str) -> str | None:
    """What a line says twice of one parameter, e.g. `ATTENDEE: partstat`; None if none does."""
    for line in content_lines(text):
        names = [name for name, _ in line.parameters]
        for name in names:
            if names.count(name) > 1:
                return f"{line.name}: {name}"
    return None


def mismatched_end(text: str) -> str | None:
    """The name of a component that ends where another one is open; None if none does."""
    open_ones: list[str] = []
    for line in content_lines(text):
        named = line.value.strip().upper()
        if line.name == "BEGIN":
            open_ones.append(named)
        elif line.name == "END" and (not open_ones or open_ones.pop() != named):
            return named
    return None
