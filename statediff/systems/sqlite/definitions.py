"""The parts between the commas of a definition of an index or a virtual table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final


class Uncertain(Exception):
    """Only a check of the whole file can tell; the message says why."""


TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|$)"""
    r"""|[(),]|[^'"`\[(),/-]+|.""",
    re.DOTALL,
)
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
    for piece in _pieces(sql):
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


def _pieces(sql: str) -> Iterator[str]:
    for match in TOKEN.finditer(sql):
        piece = match[0]
        yield " " if piece.startswith(("--", "/*")) else piece
