"""`json@1`: the equality of the JSON type, as a canonical form of its values.

White space, the order of keys and escapes are spelling; numbers are compared as exact decimals, so
that 1, 1.0 and 1e0 are one number, which is neither `true` nor `"1"`. A text with a duplicate key,
half of a surrogate pair, a number that is not finite, or more digits or levels than a value may
have is not JSON in this sense; it is compared as the text that it is.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Final

from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.values import MAX_DEPTH, Map, Observed, Value

MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_INTEGER_EXPONENT: Final = 1000


def read_json_value(text: str) -> Value | None:
    """The JSON value that the text is, in canonical form; None where the text is not JSON.

    An object, a list and a number are values. `null`, `true`, `false` and a string stay JSON text,
    written in one way: the column's own null is not the JSON text `null`, and a text that is not
    JSON is no string of JSON.
    """
    try:
        value = _parse(text)
    except InputError:
        return None
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return canonical_json(value)


def others_read(text: str) -> bool:
    """True if programs find an object or a list in a text that is no value here.

    It names a key twice, or is too deep; which of two values a program takes, nobody knows.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    except (ValueError, RecursionError):  # a number of too many digits, too many levels
        pass
    return True


def as_nested(raw: Observed) -> Observed:
    """The object or list that a captured value is, or is the JSON text of; else the value."""
    if not isinstance(raw, str):
        return raw
    try:
        value = _parse(raw)
    except InputError:
        return raw
    return value if isinstance(value, Map | tuple) else raw


def write_json(value: Observed) -> str:
    """The JSON text of a value that JSON has: numbers exactly, as they are."""
    match value:
        case Map(items):
            members = (f"{json.dumps(n, ensure_ascii=False)}:{write_json(v)}" for n, v in items)
            return "{" + ",".join(members) + "}"
        case tuple():
            return "[" + ",".join(map(write_json, value)) + "]"
        case Decimal() if value.is_finite():
            return str(value)
        case None | bool() | int() | str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            raise ValueError(f"JSON has no {type(value).__name__}")


def _parse(text: str) -> Value:
    data = text.encode(errors="surrogatepass")
    return read_json(data, "a JSON text", max_bytes=MAX_BYTES, max_depth=MAX_DEPTH)


def canonical_json(value: Value) -> Value:
    """The value with each number, at any depth, as its one form."""
    match value:
        case Decimal() if value.is_finite():
            return canonical_number(value)
        case tuple():
            return tuple([canonical_json(item) for item in value])
        case Map(items):
            return Map(tuple([(name, canonical_json(item)) for name, item in items]))
        case _:
            return value


def canonical_number(number: Decimal) -> int | Decimal:
    """An `int` where the number is whole, else the decimal without zeros at its end. Exact."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{number} is not finite")
    kept = len(digits)
    while kept > 1 and digits[kept - 1] == 0:
        kept -= 1
    exponent += len(digits) - kept
    digits = digits[:kept]
    if digits == (0,):
        return 0
    if 0 <= exponent <= _MAX_INTEGER_EXPONENT:
        return int(Decimal((sign, digits, exponent)))
    return Decimal((sign, digits, exponent))
