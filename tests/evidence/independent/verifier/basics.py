"""Read canonical JSON, base64 and instants, and check signatures (R-JSON, R-B64, R-TIME)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ORDER = 2**252 + 27742317777372353535851937790883648493
LARGEST = 2**53 - 1
COPY_DEPTH = 256
OTHER_DEPTH = 240
ZERO = bytes(32)
VERDICTS = ("MATCH", "INCONCLUSIVE", "DIVERGE")
Hook = Callable[[list[tuple[str, Any]]], dict[str, Any]]

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{6}))?\+00:00"
)


class Refused(Exception):
    """A rule is broken by what is looked at; the text begins with the rule's name."""


def need(condition: bool, why: str) -> None:
    """Refuse with the reason unless the condition holds."""
    if not condition:
        raise Refused(why)


def sha(data: bytes) -> bytes:
    """SHA-256 of the bytes."""
    return hashlib.sha256(data).digest()


def sha_hex(data: bytes) -> str:
    """SHA-256 of the bytes, as hex."""
    return hashlib.sha256(data).hexdigest()


def is_hex(value: Any, digits: int) -> bool:
    """Tell whether the value is a text of so many digits of lower-case hex."""
    return isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None


def is_number(value: Any) -> bool:
    """Tell whether the value is a number, which a flag never is."""
    return isinstance(value, int) and not isinstance(value, bool)


def members(value: Any, names: str, why: str) -> dict[str, Any]:
    """Return the object if it has exactly the members named (separated by spaces)."""
    need(isinstance(value, dict) and set(value) == set(names.split()), why)
    found: dict[str, Any] = value
    return found


def texts(value: dict[str, Any], names: str, why: str) -> None:
    """Refuse unless each of the members named is a text."""
    for name in names.split():
        need(isinstance(value.get(name), str), why)


def _integer(text: str) -> int:
    need(text != "-0" and len(text) <= 17, "R-JSON-5 number")
    number = int(text)
    need(-LARGEST <= number <= LARGEST, "R-JSON-5 range")
    return number


def _no_number(text: str) -> NoReturn:
    raise Refused("R-JSON-5 not an integer: " + text[:40])


def _sorted_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    last: bytes | None = None
    for name, _ in pairs:
        key = name.encode("utf-16-be", "surrogatepass")
        need(last is None or last < key, "R-JSON-2 or R-JSON-4 order of members")
        last = key
    return dict(pairs)


def _free_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    need(len(result) == len(pairs), "R-JSON-4 a name twice")
    return result


def check_depth(data: bytes, most: int) -> None:
    """Refuse what nests deeper than the given number of levels (R-JSON-7)."""
    depth = 0
    for token in _TOKENS.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
            need(depth <= most, "R-JSON-7 too deep")
        elif first in b"]}":
            depth -= 1


def _load(data: bytes, hook: Hook) -> Any:
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=hook,
            parse_int=_integer,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except (ValueError, RecursionError) as error:
        raise Refused("R-JSON-1 not JSON in UTF-8") from error


def _write(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused("R-JSON-6 half of a surrogate pair") from error


def read_canonical(data: bytes, depth: int = OTHER_DEPTH) -> Any:
    """Parse the bytes and refuse them unless they are canonical JSON."""
    check_depth(data, depth)
    value = _load(data, _sorted_object)
    need(_write(value) == data, "R-JSON-1 not canonical")
    return value


def read_free(data: bytes, depth: int = OTHER_DEPTH) -> Any:
    """Parse JSON as people write it (R-TRUST-1)."""
    check_depth(data, depth)
    return _load(data, _free_object)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return {name: _ordered(value[name]) for name in names}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return value


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of the value."""
    try:
        return _write(_ordered(value))
    except RecursionError as error:
        raise Refused("R-JSON-7 too deep") from error


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal; a flag is never a number."""
    return canonical(one) == canonical(other)


def unbase64(value: Any, why: str = "R-B64-1") -> bytes:
    """Decode a text that is the one base64 of its bytes."""
    need(isinstance(value, str) and value.isascii(), why)
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(why) from error
    need(base64.b64encode(data).decode() == value, why)
    return data


def instant(value: Any, why: str = "R-TIME-1") -> datetime:
    """Return the moment of an instant."""
    found = _INSTANT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Refused(why)
    year, month, day, hour, minute, second, fraction = (int(part or 0) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, fraction, UTC)
    except ValueError as error:
        raise Refused(why) from error


def signed_by(raw: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether an Ed25519 signature fits (RFC 8032 5.1.7)."""
    if len(signature) != 64 or int.from_bytes(signature[32:], "little") >= ORDER:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def worst(verdicts: list[str]) -> str:
    """Return the worst of some verdicts: MATCH, then INCONCLUSIVE, then DIVERGE."""
    return max(verdicts, key=VERDICTS.index)


def fold(truths: list[str]) -> str:
    """Fold the truths of clauses to a verdict (R-SAY-2)."""
    if "FAILS" in truths:
        return "DIVERGE"
    return "INCONCLUSIVE" if "UNKNOWN" in truths or not truths else "MATCH"
