"""The strict canonical form of a bundle's JSON: RFC 8785 without numbers other than small integers.

`read` accepts exactly the bytes that `write` produces: `write(read(data)) == data`, or an error.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.model.strictjson import Flaw, FlawKind, Limits, read_tree

MAX_BYTES: Final = 1024 * 1024 * 1024
MAX_DEPTH: Final = 240
"""Room for a value of `values.MAX_DEPTH` levels, each of which is three for a tagged map."""

_SAFE: Final = 2**53 - 1
_LIMITS: Final = Limits(MAX_BYTES, MAX_DEPTH, max_digits=17, max_exponent=None, max_integer=_SAFE)

write: Final = v.canonical
"""The canonical bytes. Floats, big integers and lone surrogates are programming errors."""


def read(data: bytes, name: str) -> Any:
    """The document in `data`; `BundleError` unless the bytes are canonical."""
    try:
        document = read_tree(data, _LIMITS)
        canonical = write(document)
    except Flaw as flaw:
        raise BundleError(f"{name}: {_words(flaw, len(data))}") from flaw
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{name}: not canonical JSON: {error}") from error
    if canonical != data:
        raise BundleError(f"{name}: the bytes are not in canonical form")
    return document


def write_base64(data: bytes) -> str:
    """The one base64 of the bytes."""
    return base64.b64encode(data).decode("ascii")


def read_base64(text: Any, what: str) -> bytes:
    """The bytes of which this is the one base64. `BundleError`, naming `what`."""
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise BundleError(f"{what}: not base64: {error}") from error
    if write_base64(data) != text:
        raise BundleError(f"{what}: not the one base64 of its bytes")
    return data


def _words(flaw: Flaw, size: int) -> str:
    match flaw.kind:
        case FlawKind.TOO_LARGE:
            return f"{size} bytes are more than a bundle's file may have"
        case FlawKind.TOO_DEEP:
            return f"nested deeper than {MAX_DEPTH} levels"
        case FlawKind.KEY_TWICE:
            return "an object has two members of one name"
        case FlawKind.NO_NUMBER | FlawKind.TOO_MANY_DIGITS | FlawKind.OUT_OF_RANGE:
            return f"{flaw.text[:60]!r} is not allowed; bundles hold no floats"
        case FlawKind.NOT_UTF8 | FlawKind.NOT_JSON | FlawKind.HALF_PAIR:
            return f"not canonical JSON: {flaw.__cause__}"
