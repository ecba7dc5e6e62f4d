"""JSON from outside, read strictly: what is ambiguous is refused, never guessed.

Refused are: bytes that are not UTF-8, a byte order mark, duplicate keys, NaN and infinities, lone
surrogates, numbers of absurd size, deep nesting, and anything above a size cap. Integers become
`int`; numbers with a fraction or an exponent become `Decimal`, exactly as written.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from statediff.errors import InputError
from statediff.model.values import MAX_DEPTH, Map, Value

MAX_BYTES: Final = 1024 * 1024
MAX_DIGITS: Final = 1000
"""Digits and decimal exponent allowed in a number; arithmetic on more would not be bounded."""


def read_json(
    raw: bytes, what: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> Value:
    """The one value that `raw` holds. `InputError`, naming `what` and the reason, otherwise."""
    if len(raw) > max_bytes:
        raise InputError(f"{what}: {len(raw)} bytes; at most {max_bytes} are read")
    try:
        text = raw.decode("utf-8")
        parsed = json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_constant,
        )
        return _value(parsed, max_depth, max_depth)
    except UnicodeDecodeError as error:
        raise InputError(f"{what}: not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{what}: not JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise InputError(f"{what}: nested deeper than {max_depth} levels") from error
    except _Refused as error:
        raise InputError(f"{what}: {error}") from error


class _Refused(ValueError):
    """Well-formed JSON that is not read; the message says why."""


class _Pairs(list[tuple[str, Any]]):
    """The members of an object as written; a type of its own, to tell it from an array."""


def _value(parsed: Any, left: int, max_depth: int) -> Value:
    if isinstance(parsed, list) and not left:
        raise _Refused(f"nested deeper than {max_depth} levels")
    if isinstance(parsed, _Pairs):
        members: dict[str, Value] = {}
        for name, item in parsed:
            if name in members:
                raise _Refused(f"the key {name[:60]!r} stands twice in one object")
            members[_text(name)] = _value(item, left - 1, max_depth)
        return Map.of(members)
    if isinstance(parsed, list):
        return tuple(_value(item, left - 1, max_depth) for item in parsed)
    if isinstance(parsed, str):
        return _text(parsed)
    known: Value = parsed  # None, bool, int or Decimal
    return known


def _text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _Refused("a text holds half of a surrogate pair") from error
    return text


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Refused(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _decimal(digits: str) -> Decimal:
    if len(digits) > MAX_DIGITS:
        raise _Refused(f"a number has more than {MAX_DIGITS} digits")
    try:
        number = Decimal(digits)
    except InvalidOperation as error:
        raise _Refused(f"the number {digits[:40]} is out of range") from error
    if abs(number.adjusted()) > MAX_DIGITS:
        raise _Refused(f"the number {digits[:40]} is out of range")
    return number


def _constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a JSON number")
