"""What a plain scalar means, and which characters may stand in a document.

YAML 1.2 core rules, with three refusals instead of guesses: numbers with leading zeros (octal in
YAML 1.1, decimal in 1.2, an identifier to most people), `.inf` and `.nan`, and numbers too large to
be meant. `no`, `on`, `yes` and timestamps are text; a number with a point or exponent is an exact
`Decimal`.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Final

from statediff.model.values import printable

MAX_DIGITS: Final = 100
"""Characters in one number. Python's own limit on digits (4,300) would raise later."""
MAX_EXPONENT: Final = 400
"""Largest power of ten, either way: a little more than binary floats have."""

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?([0-9]+))?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")

NOT_IN_DOCUMENTS: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # controls; a tab and line ends are fine
    "|\r(?!\n)"  # alone it overwrites the line on a console and ends one for some parsers only
    "|[\u2028\u2029\ufeff\ufffe\uffff]"  # line ends for some parsers only; a misplaced mark
    "|[\u202a-\u202e\u2066-\u2069]"  # bidirectional controls show text in another order
)
_INVISIBLE_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5")
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotAScalar(ValueError):
    """The text is neither a value nor safely a string; the message is ours, `hint` the way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def resolve(text: str) -> None | bool | int | Decimal | str:
    """The value of a plain scalar; `NotAScalar` for a number that is ambiguous or out of bounds."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _NOT_FINITE.fullmatch(text):
        raise NotAScalar(
            f"expected a finite number, found {text}",
            "quote it if it is text; there is no infinity and no NaN",
        )
    whole = _INT.fullmatch(text)
    number = whole or _FLOAT.fullmatch(text)
    if number is None:
        return text
    if len(text) > MAX_DIGITS:
        raise NotAScalar(
            f"a number of {len(text)} characters; the limit is {MAX_DIGITS}",
            "quote it if it is text",
        )
    if _LEADING_ZERO.match(text):
        raise NotAScalar(
            f"{text} begins with a zero: octal to some, decimal to others",
            "quote it if it is text, drop the zero if it is a number",
        )
    if whole:
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    exponent = number[1] or "0"
    if len(exponent) > len(str(MAX_EXPONENT)) or int(exponent) > MAX_EXPONENT:
        raise NotAScalar(f"{text} has an exponent beyond {MAX_EXPONENT}", "quote it if it is text")
    return Decimal(text)


def hidden_character(text: str, *, is_key: bool) -> str | None:
    """The name of the first character in `text` that a reader cannot see, or `None`.

    In an expression line ends and tabs are ordinary; in a key nothing but the plain space is.
    """
    for character in text:
        if character.isascii() and character.isprintable():
            continue
        if not is_key and character in ("\t", "\n"):
            continue
        category = unicodedata.category(character)
        if (
            category[0] == "C"
            or category in ("Zl", "Zp")
            or character in _INVISIBLE_LETTERS
            or (is_key and category == "Zs")
        ):
            return character_name(character)
    return None


def has_surrogate(text: str) -> bool:
    r"""Whether an escape such as `\ud800` put half a character into the text."""
    return _SURROGATE.search(text) is not None


def character_name(character: str) -> str:
    """A character as a message can show it: code point and Unicode name."""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" {name}" if name else "")


def quoted(text: str, limit: int = 40) -> str:
    """Text inside backticks for a message: one line, nothing hidden, never long."""
    shown = printable(" ".join(text.split()) if "\n" in text else text)
    return "`" + (shown if len(shown) <= limit else shown[: limit - 1] + "…") + "`"
