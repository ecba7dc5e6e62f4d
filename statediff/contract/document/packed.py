"""Structure that an application packs into a text, read as objects and lists.

Nothing but the order of keys is forgotten: a text that a program would pack in another way, and one
that is no object or list, stays the text that it is.

    php          what PHP's `serialize` writes; an object is `{"O:CLASS": {…}}`
    php-base64   the same in base64
    wordpress    the same; the lock of a post, `TIME:USER`, is `{time, user}`, and arrays under
                 hashes (the sessions of a user) are a list of objects with `key`
    signed-json  what Django's `signing.dumps` writes, such as a session: `data`, `signed_at`, and
                 `signature`
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, AnyStr, Final

from statediff.model.json_values import read_json_value
from statediff.model.values import Map

MOST: Final = 1024 * 1024
"""Bytes of what is unpacked; more stays packed."""
_COUNT: Final = re.compile(rb"([0-9]{1,7}):")
_LOCK: Final = re.compile(r"([1-9][0-9]{9}):([1-9][0-9]{0,8})", re.ASCII)
_HASH: Final = re.compile("[0-9a-f]{64}")
_DEEPEST: Final = 40
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SIGNED: Final = re.compile(r"(\.?)([\w-]+):([0-9A-Za-z]{1,10}):([\w-]{20,100})", re.ASCII)
_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_HEAD: Final = re.compile(rb"N;|b:[01];|i:-?[0-9]{1,19};|d:[-+.0-9E]{1,30};|[saO]:[0-9]{1,7}:")


def unpacked(stored: Any, packing: str) -> Any:
    """The object or list that is packed; what is stored where it is no such packing."""
    if not isinstance(stored, str):
        return stored
    try:
        found = read_json_value(json.dumps(PACKINGS[packing](stored), allow_nan=False))
    except (ValueError, RecursionError, zlib.error, OverflowError):
        return stored
    return found if isinstance(found, Map | tuple) else stored


def _require(is_so: object) -> None:
    if not is_so:
        raise ValueError


def _some(found: re.Match[AnyStr] | None) -> re.Match[AnyStr]:
    if found is None:
        raise ValueError
    return found


# ---------------------------------------------------------------- Django


def _signed(text: str) -> Any:
    dot, packed, stamp, signature = _some(_SIGNED.fullmatch(text)).groups()
    raw = urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    _require(urlsafe_b64encode(raw).rstrip(b"=").decode() == packed and stamp[0] != "0")
    content = raw
    if dot:
        whole = zlib.decompressobj()
        content = whole.decompress(raw, MOST)
        _require(whole.eof and not whole.unused_data)
    written = content.decode("latin-1")
    data = json.loads(written)
    _require(isinstance(data, dict) and json.dumps(data, separators=(",", ":")) == written)
    seconds = 0
    for digit in stamp:
        seconds = seconds * 62 + _BASE62.index(digit)
    at = datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    # Two programs compress one content in two ways.
    compressed = {"compressed": sha256(raw).hexdigest()} if dot else {}
    return {"data": data, "signed_at": at, "signature": signature, **compressed}


# ---------------------------------------------------------------- PHP


def _php(text: str) -> Any:
    data = text.encode()
    value, end = _value(data, 0, 0)
    _require(end == len(data) and _serialized(value) == data)
    return value


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends."""
    _require(depth < _DEEPEST)
    kind, end = data[at : at + 1], _some(_HEAD.match(data, at)).end()
    plain = data[at + 2 : end - 1].decode()
    if kind in _SCALARS:
        return _SCALARS[kind](plain), end
    size = int(plain)
    if kind == b"a":
        return _array(data, end, size, depth)
    name = data[end + 1 : end + 1 + size].decode()
    end += size + 3
    _require("\0" not in name)
    if kind == b"s":
        return name, end
    count = _some(_COUNT.match(data, end))
    held, end = _array(data, count.end(), int(count[1]), depth)
    return {f"O:{name}": {} if held == [] else held}, end


_SCALARS: Final[Mapping[bytes, Callable[[str], Any]]] = {
    b"N": lambda _: None,
    b"b": lambda plain: plain == "1",
    b"i": int,
    b"d": float,
}


def _array(data: bytes, at: int, size: int, depth: int) -> tuple[Any, int]:
    held: dict[str, Any] = {}
    at += 1
    for _ in range(size):
        key, at = _value(data, at, depth + 1)
        held[str(key)], at = _value(data, at, depth + 1)
    is_list = [*held] == [str(n) for n in range(size)]
    return [*held.values()] if is_list else held, at + 1


def _serialized(value: Any) -> bytes:
    match value:
        case None:
            return b"N;"
        case bool():
            return b"b:%d;" % value
        case int():
            return b"i:%d;" % value
        case float():
            return f"d:{value!r};".encode()
        case str():
            return b's:%d:"%s";' % (len(value.encode()), value.encode())
        case list():
            return b"a" + _members({str(n): each for n, each in enumerate(value)})
        case _:
            return _keyed(value)


def _keyed(value: Mapping[str, Any]) -> bytes:
    name = next(iter(value)) if len(value) == 1 else ""
    if name.startswith("O:") and isinstance(value[name], dict):
        called = name[2:].encode()
        return b'O:%d:"%s"' % (len(called), called) + _members(value[name])
    return b"a" + _members(value)


def _members(held: Mapping[str, Any]) -> bytes:
    parts = [
        _serialized(int(key) if _NUMBER.fullmatch(key) else key) + _serialized(each)
        for key, each in held.items()
    ]
    return b":%d:{%s}" % (len(held), b"".join(parts))


def _php_base64(text: str) -> Any:
    raw = b64decode(text, validate=True)
    _require(b64encode(raw).decode() == text)
    return _php(raw.decode())


def _wordpress(text: str) -> Any:
    if lock := _LOCK.fullmatch(text):
        return {"time": int(lock[1]), "user": int(lock[2])}
    found = _php(text)
    if isinstance(found, list):
        _require(not any(isinstance(each, dict) and "key" in each for each in found))
        return found
    _require(isinstance(found, dict) and {*found} != {"time", "user"})
    if all(_HASH.fullmatch(k) and isinstance(v, dict) and "key" not in v for k, v in found.items()):
        return [{"key": key, **held} for key, held in found.items()]
    return found


PACKINGS: Final[Mapping[str, Callable[[str], Any]]] = {
    "php": _php,
    "php-base64": _php_base64,
    "signed-json": _signed,
    "wordpress": _wordpress,
}
