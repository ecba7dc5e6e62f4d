"""What is wrong with a text that is not YAML, in words for whoever wrote it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from ruamel.yaml.error import MarkedYAMLError


class Explanation(NamedTuple):
    """Where the text goes wrong (both from 1), what was expected there, and what often helps."""

    line: int
    column: int
    words: str
    hint: str


def explained(error: MarkedYAMLError, text: str) -> Explanation:
    """What ruamel.yaml refused `text` for, and where to look."""
    said = f"{error.context or ''} {error.problem or ''}"
    clue = next(
        (clue for clue in _CLUES if clue.said in said),
        _Clue(said, f"not YAML: {' '.join(said.split())[:120]}"),
    )
    marks = [error.problem_mark, error.context_mark]
    mark = next((m for m in marks[:: -1 if clue.at_beginning else 1] if m is not None), None)
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    written = ["", *text.split("\n"), ""]
    hint = ""
    if " #" in written[line - 1]:
        hint = "YAML ends the line above at ` #`; if that is no comment, quote the text"
    elif _EXPRESSION_LINE.match(written[line]):
        hint = (
            "an expression that begins with a quote or bracket or holds `: ` goes on a "
            "line of its own, indented, below `key: >-`"
        )
    return Explanation(line, column, clue.words, hint)


_EXPRESSION_LINE = re.compile(
    r"\s*(?:- +)*(?:(?:where|that|authorized_by|always|after_every_call|calls)\s*:|[\"'\[({])"
)


@dataclass(frozen=True)
class _Clue:
    """What ruamel.yaml says, what we say, and whether to point at where the construct began."""

    said: str
    words: str
    at_beginning: bool = False


_CLUES: Final = (
    _Clue("mapping values are not allowed", "expected one `key: value` here, found another `: `"),
    _Clue(
        "cannot start any token",
        "expected a value, found a character that cannot begin one (indent with spaces, quote "
        "text that begins with @, `, % or a tab)",
    ),
    _Clue(
        "found unexpected end of stream",
        "expected a closing quote, found the end of the file",
        at_beginning=True,
    ),
    _Clue(
        "unknown escape character",
        "expected a known escape, found another; in single quotes a backslash is itself",
    ),
    _Clue("'<document start>'", "expected the end of the file, found more"),
    _Clue("while scanning a simple key", "expected `key: value`, found a line without `: `"),
    _Clue("while parsing a flow", "expected `,` or the closing bracket, found something else"),
    _Clue(
        "while parsing a block",
        "expected the next key or item, found something that does not fit: check the "
        "indentation above and here, and for text after a closed quote or bracket",
    ),
)
