"""JSON from outside, read strictly: what is ambiguous is refused, never guessed.

Refused are: bytes that are not UTF-8, a byte order mark, duplicate keys, NaN and infinities, lone
surrogates, numbers of absurd size, deep nesting, and anything above a size cap. Integers become
`int`; numbers with a fraction or an exponent become `Decimal`, exactly as written. `Limits` says
how much of each is too much; a `Flaw` says what was refused, and each caller words it for its
readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from functools import cache
from typing import Any, Final

from statediff.errors import InputError
from statediff.model.values import MAX_DEPTH, Map, Value
from statediff.uncollected import uncollected

MAX_BYTES: Final = 1024 * 1024
MAX_DIGITS: Final = 1000
"""Digits and decimal exponent allowed in a number; arithmetic on more would not be bounded."""

Tree = Any
"""None, `bool`, `int`, `Decimal`, `str`, and lists and dicts of these."""

_STRING: Final = re.compile(rb'"[^"]*"?')
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_OTHERS: Final = bytes(set(range(256)) - set(b'"[]{}'))
_HALF_PAIR: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_MARK: Final = "\ufeff"


@dataclass(frozen=True)
class Limits:
    """How much of everything is read."""

    max_bytes: int = MAX_BYTES
    max_depth: int = MAX_DEPTH
    """How many arrays and objects may be open at one place."""
    max_digits: int = MAX_DIGITS
    """How many characters a number may have, its sign included."""
    max_exponent: int | None = MAX_DIGITS
    """The largest exponent of the first digit, either way; None where fractions and exponents are
    refused.
    """
    max_integer: int | None = None
    takes_mark: bool = False
    """True if one byte order mark at the beginning is passed over."""


class FlawKind(Enum):
    """Why a document is refused."""

    TOO_LARGE = auto()
    NOT_UTF8 = auto()
    NOT_JSON = auto()
    TOO_DEEP = auto()
    KEY_TWICE = auto()
    NO_NUMBER = auto()
    TOO_MANY_DIGITS = auto()
    OUT_OF_RANGE = auto()
    HALF_PAIR = auto()


class Flaw(ValueError):
    """The refused part. `text` is the document's own: a key, a number, a text.

    For `NOT_UTF8` and `NOT_JSON` the decoder's own error is the cause; `members` is the whole of
    an object with a `KEY_TWICE`.
    """

    __slots__ = ("kind", "members", "text")  # a hostile document has very many

    def __init__(
        self,
        kind: FlawKind,
        words: str,
        text: str = "",
        members: Sequence[tuple[str, Tree]] = (),
    ) -> None:
        super().__init__(words)
        self.kind = kind
        self.text = text
        self.members = members


def read_json(
    raw: bytes, what: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> Value:
    """The one value that `raw` holds. `InputError`, naming `what` and the reason, otherwise."""
    try:
        return freeze(_parse(raw, Limits(max_bytes, max_depth), keeps_flaws=False), max_depth)
    except Flaw as flaw:
        if flaw.kind is FlawKind.TOO_DEEP:
            raise InputError(f"{what}: nested deeper than {max_depth} levels") from flaw
        raise InputError(f"{what}: {flaw}") from flaw


def read_tree(raw: bytes, limits: Limits) -> Tree:
    """The one value that `raw` holds. Raises `Flaw`."""
    if _is_deeper(raw, limits.max_depth):
        raise _too_deep()
    tree = _parse(raw, limits, keeps_flaws=False)
    if has_half_pairs(raw):
        _require_texts(tree)
    return tree


def has_half_pairs(raw: bytes) -> bool:
    """True if a text in the document may be none: it has escapes of surrogates.

    UTF-8 has none, so that half of a pair can only be written so.
    """
    return _HALF_PAIR.search(raw) is not None


def read_with_flaws(raw: bytes, limits: Limits) -> Tree:
    """The value that `raw` holds, with a `Flaw` in the place of each part that is refused.

    This is for callers that name the place: `freeze` raises the flaws of a part, among them that it
    is too deep or has half of a surrogate pair. Raises `Flaw` where there is no place to name.
    """
    return _parse(raw, limits, keeps_flaws=True)


def freeze(tree: Tree, max_depth: int) -> Value:
    """Part of a tree, as a value that cannot change. Raises the first `Flaw` in it."""
    kind = type(tree)
    if kind is str:
        return tree if tree.isascii() else _text(tree)
    if kind is dict:
        if not max_depth:
            raise _too_deep()
        return Map.of({_text(name): freeze(item, max_depth - 1) for name, item in tree.items()})
    if kind is list:
        if not max_depth:
            raise _too_deep()
        return tuple([freeze(item, max_depth - 1) for item in tree])
    if kind is Flaw:
        raise tree
    known: None | bool | int | Decimal = tree
    return known


def spelling(tree: Tree) -> str:
    """Part of a tree, flaws and all, as the JSON text that it is up to white space and escapes."""
    if isinstance(tree, Flaw):
        return _members(tree.members) if tree.members else tree.text
    if isinstance(tree, dict):
        return _members(tree.items())
    if isinstance(tree, list):
        return f"[{','.join(map(spelling, tree))}]"
    return str(tree) if isinstance(tree, Decimal) else json.dumps(tree)


def _members(pairs: Iterable[tuple[str, Tree]]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{spelling(item)}" for name, item in pairs) + "}"


def _parse(raw: bytes, limits: Limits, *, keeps_flaws: bool) -> Tree:
    if len(raw) > limits.max_bytes:
        raise Flaw(FlawKind.TOO_LARGE, f"{len(raw)} bytes; at most {limits.max_bytes} are read")
    decoder = _decoder(limits.max_digits, limits.max_exponent, limits.max_integer, keeps_flaws)
    try:
        text = raw.decode("utf-8-sig" if limits.takes_mark else "utf-8")
        if text.startswith(_MARK):
            raise json.JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
        with uncollected():
            return decoder.decode(text)
    except UnicodeDecodeError as error:
        raise Flaw(FlawKind.NOT_UTF8, f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Flaw(FlawKind.NOT_JSON, f"not JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise _too_deep() from error


@cache
def _decoder(
    max_digits: int, max_exponent: int | None, max_integer: int | None, keeps_flaws: bool
) -> json.JSONDecoder:
    def refuse(kind: FlawKind, words: str, text: str) -> Flaw:
        flaw = Flaw(kind, words, text)
        if keeps_flaws:
            return flaw
        raise flaw

    def read_object(pairs: list[tuple[str, Tree]]) -> dict[str, Tree] | Flaw:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # None on purpose: the name is then known
        flaw = Flaw(
            FlawKind.KEY_TWICE, f"the key {name[:60]!r} stands twice in one object", name, pairs
        )
        if keeps_flaws:
            return flaw
        raise flaw

    def read_integer(digits: str) -> int | Flaw:
        if len(digits) > max_digits:
            return too_many(digits)
        number = int(digits)
        if max_integer is not None and abs(number) > max_integer:
            return out_of_range(digits)
        return number

    def read_fraction(digits: str) -> Decimal | Flaw:
        if max_exponent is None:
            return refuse(FlawKind.NO_NUMBER, f"{digits[:40]} is not a whole number", digits)
        if len(digits) > max_digits:
            return too_many(digits)
        try:
            number = Decimal(digits)
        except InvalidOperation:  # an exponent that no decimal can have
            return out_of_range(digits)
        return number if abs(number.adjusted()) <= max_exponent else out_of_range(digits)

    def read_constant(name: str) -> Flaw:
        return refuse(FlawKind.NO_NUMBER, f"{name} is not a JSON number", name)

    def too_many(digits: str) -> Flaw:
        words = f"a number has more than {max_digits} digits"
        return refuse(FlawKind.TOO_MANY_DIGITS, words, digits)

    def out_of_range(digits: str) -> Flaw:
        words = f"the number {digits[:40]} is out of range"
        return refuse(FlawKind.OUT_OF_RANGE, words, digits)

    return json.JSONDecoder(
        object_pairs_hook=read_object, parse_int=read_integer, parse_float=read_fraction,
        parse_constant=read_constant,
    )  # fmt: skip


def _is_deeper(raw: bytes, max_depth: int) -> bool:
    """True if brackets are open at more levels anywhere, counted without parsing."""
    if raw.count(b"[") + raw.count(b"{") <= max_depth:
        return False
    import numpy as np  # noqa: PLC0415 - slow, and few documents have so many brackets

    # Without escaped backslashes, then escaped quotes, every quote begins or ends a string. Each
    # step is linear however hostile the bytes are; where they are no JSON, any answer will do.
    quoted = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACKETS, _OTHERS)
    brackets = np.frombuffer(_STRING.sub(b"", quoted), np.uint8)
    levels = np.cumsum(np.where(brackets == ord("["), 1, -1))
    return bool(levels.max(initial=0) > max_depth)


def _require_texts(tree: Tree) -> None:
    """No text in the tree is half of a surrogate pair. Raises `Flaw`."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if type(node) is str:
            _text(node)
        elif type(node) is list:
            pending += node
        elif type(node) is dict:
            pending += node
            pending += node.values()


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        words = "a text holds half of a surrogate pair"
        raise Flaw(FlawKind.HALF_PAIR, words, text) from error
    return text


def _too_deep() -> Flaw:
    return Flaw(FlawKind.TOO_DEEP, "nested too deeply")
