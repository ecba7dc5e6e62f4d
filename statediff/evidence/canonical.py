"""The strict canonical form of a bundle's JSON: RFC 8785 without numbers other than small integers.

`read` accepts exactly the bytes that `write` produces: `write(read(data)) == data`, or an error.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from statediff.errors import BundleError

MAX_BYTES: Final = 256 * 1024 * 1024
MAX_DEPTH: Final = 240
"""Room for a value of `values.MAX_DEPTH` levels, each of which is three for a tagged map."""

_SAFE: Final = 2**53 - 1
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)
# RFC 8785 sorts keys by UTF-16 units, Python by code points: the same below the surrogates.
_BEYOND: Final = re.compile("[\ue000-\U0010ffff]")


def write(document: Any) -> bytes:
    """The canonical bytes. Floats, big integers and lone surrogates are programming errors.

    The standard encoder writes the same bytes many times faster wherever the order of keys cannot
    differ; `tests/evidence` compares the two.
    """
    text = _ENCODER.encode(document)
    if _BEYOND.search(text):
        import rfc8785  # noqa: PLC0415 - hardly ever needed

        return rfc8785.dumps(document)
    return text.encode("utf-8")


def read(data: bytes, name: str) -> Any:
    """The document in `data`; `BundleError` unless the bytes are canonical."""
    if len(data) > MAX_BYTES:
        raise BundleError(f"{name}: {len(data)} bytes are more than a bundle's file may have")
    if _depth(data) > MAX_DEPTH:
        raise BundleError(f"{name}: nested deeper than {MAX_DEPTH} levels")

    def refuse(text: str) -> NoReturn:
        raise BundleError(f"{name}: {text!r} is not allowed; bundles hold no floats")

    def integer(text: str) -> int:
        if len(text) > 17 or abs(int(text)) > _SAFE:
            refuse(text)
        return int(text)

    try:
        document = json.loads(
            data.decode("utf-8"),
            parse_float=refuse,
            parse_constant=refuse,
            parse_int=integer,
            object_pairs_hook=lambda pairs: _distinct(pairs, name),
        )
        canonical = write(document)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{name}: not canonical JSON: {error}") from error
    if canonical != data:
        raise BundleError(f"{name}: the bytes are not in canonical form")
    return document


def _distinct(pairs: list[tuple[str, Any]], name: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BundleError(f"{name}: an object has two members of one name")
    return found


def _depth(data: bytes) -> int:
    """The deepest nesting of brackets, counted without parsing."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return 0
    import numpy as np  # noqa: PLC0415 - slow, and few documents are so large

    outside = np.frombuffer(_TEXT.sub(b"", data), np.uint8)
    opened = (outside == ord("[")) | (outside == ord("{"))
    closed = (outside == ord("]")) | (outside == ord("}"))
    levels = np.cumsum(opened.astype(np.int32) - closed.astype(np.int32))
    return int(levels.max(initial=0))
