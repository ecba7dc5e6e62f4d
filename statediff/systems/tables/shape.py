"""Strict reading of JSON tables, `{type: [record, …]}`: nothing that reads in two ways.

Refused, with file, type and record: duplicate keys, NaN and Infinity, lone surrogates, numbers
beyond a double's range, nesting deeper than `MAX_DEPTH`, bytes that are not UTF-8 (a leading byte
order mark is tolerated), more than `MAX_BYTES`, and any other shape. Integers become `int`, all
other numbers exact `Decimal`.

A run could have written all of this into its state after, which is therefore read as far as it goes
(`tables_after`): what is no JSON in a field is the bytes that stand there, which is another value
than any before; what is no list of records is unobserved.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from decimal import Decimal
from json import JSONDecodeError
from pathlib import Path, PurePath
from typing import Any, Final

from statediff.errors import InputError
from statediff.model.batches import KEYLESS_KEY
from statediff.model.state import Coverage, Enumeration
from statediff.model.strictjson import (
    Flaw,
    FlawKind,
    Limits,
    freeze,
    has_half_pairs,
    read_with_flaws,
    spelling,
)
from statediff.model.values import MAX_DEPTH, Value, printable
from statediff.uncollected import uncollected

MAX_BYTES: Final = 512 * 1024 * 1024
MAX_EXPONENT: Final = 308
"""Decimal exponent beyond which a number is refused: what a double cannot hold, no system keeps."""
MAX_DIGITS: Final = 1000
_LIMITS: Final = Limits(MAX_BYTES, MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT, takes_mark=True)

_OF_LINES: Final = replace(_LIMITS, takes_mark=False)
_SHORT: Final = 300
"""Characters of a number that is within every limit, where it has no exponent."""

_PLAIN: Final = frozenset({type(None), bool, int, Decimal, str})
_MAX_SHAPES: Final = 1000
"""Orders of names that are remembered."""

Record = dict[str, Value]
Document = dict[str, list[Record]]
"""Type → records, in the order of the file."""


@dataclass(frozen=True)
class TablesAfter:
    """A state after, as far as it can be read; `gaps` says of a type what cannot."""

    document: Document
    gaps: Mapping[str, Enumeration] = dataclass_field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Exported:
    """Tables as the files of an export say them, in the place of the text of a JSON file.

    `tree` is what `read_with_flaws` would make of that text. Where `may_have_half_pairs`, a text in
    it may be none.
    """

    tree: Mapping[str, Any]
    may_have_half_pairs: bool


Given = bytes | Exported
"""One side of a run: the bytes of a JSON file, or what an export says."""


def number_of(text: str) -> Any:
    """The number that JSON's spelling of one stands for, exactly; a `Flaw` where it is refused."""
    if len(text) < _SHORT and "e" not in text:
        return Decimal(text) if "." in text else int(text)
    return read_with_flaws(text.encode(), _LIMITS)


def object_of(line: str) -> dict[str, Any] | Flaw:
    """The one JSON object that the line is, with its flaws. Raises `Flaw` where it is none."""
    tree = read_with_flaws(line.encode(), _OF_LINES)
    if not isinstance(tree, dict) and not (isinstance(tree, Flaw) and tree.members):
        raise Flaw(FlawKind.NOT_JSON, "no object")
    return tree


def read_document(path: Path | str) -> bytes:
    """The bytes of a JSON tables file; `InputError` when it cannot be read or is too large."""
    file = Path(path)
    try:
        if not file.is_file():
            found = "something that is not a file" if file.exists() else "nothing"
            raise InputError(f"{printable(str(path))}: expected a JSON file, found {found}")
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise _too_large(printable(str(path)), size)
        return file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{printable(str(path))}: cannot be read: {reason}") from error


def is_list(raw: Given) -> bool:
    """True if the file is one list, and no object of tables."""
    if isinstance(raw, Exported):
        return False
    return raw.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def parse_tables(raw: Given, file: str, alone: str | None = None) -> Document:
    """The tables in `raw`; `file` is how messages name them. Raises `InputError`.

    A list is the records of the type `alone`, where that is given.
    """
    name = printable(file)
    with uncollected():
        return _tables(_named(_tree(raw, name), alone), name, _Plain(raw))


def tables_after(raw: Given, file: str, alone: str | None = None) -> TablesAfter:
    """The tables of a state that a run left. Raises `InputError` where there are none."""
    name = printable(file)
    with uncollected():
        return _tables_after(_named(_tree(raw, name), alone), name, _Plain(raw))


def _tables_after(tree: Any, name: str, is_plain: _Plain) -> TablesAfter:
    if isinstance(tree, Flaw) or not isinstance(tree, dict):
        _tables(tree, name, is_plain)  # which refuses it, in its own words
    document: Document = {}
    gaps: dict[str, Enumeration] = {}
    for raw_name, records in tree.items():
        type_name = _plain_name(raw_name, tree)
        where = f"{name}: type {_quoted(type_name)}"
        if not isinstance(records, list):
            found = _words(records) if isinstance(records, Flaw) else _shape(records)
            cause = f"{where}: expected a list of records, found {found}"
            gaps[type_name] = Enumeration(Coverage.UNOBSERVED, cause)
            continue
        objects = [r for r in records if isinstance(r, dict)]
        document[type_name] = [r if is_plain(r) else _record_after(r) for r in objects]
        if len(objects) < len(records):
            lost = f"{len(records) - len(objects)} records are no objects with distinct keys"
            gaps[type_name] = Enumeration(Coverage.INCOMPLETE, f"{where}: {lost}")
    return TablesAfter(document, gaps)


def _tree(raw: Given, name: str) -> Any:
    if isinstance(raw, Exported):
        return raw.tree
    try:
        return read_with_flaws(raw, _LIMITS)
    except Flaw as flaw:
        raise _unread(flaw, raw, name) from flaw


def _named(tree: Any, alone: str | None) -> Any:
    return {alone: tree} if alone is not None and isinstance(tree, list) else tree


def _record_after(record: dict[str, Any]) -> Record:
    return {_plain_name(name, record): _value_after(value) for name, value in record.items()}


def _plain_name(name: str, beside: Mapping[str, Any]) -> str:
    """The name, or another one where it cannot be one; nothing beside it has that."""
    plain = name if _is_text(name) else printable(name)
    while plain in ("", KEYLESS_KEY) or (plain != name and plain in beside):
        plain += "_"
    return plain


def _value_after(tree: Any) -> Value:
    try:
        return freeze(tree, MAX_DEPTH - 1)
    except Flaw:
        written = tree if isinstance(tree, str) else spelling(tree)
        return written.encode(errors="surrogatepass")


def _unread(flaw: Flaw, raw: bytes, name: str) -> InputError:
    match flaw.__cause__:
        case UnicodeDecodeError(start=start):
            line = raw.count(b"\n", 0, start) + 1
            return InputError(
                f"{name}:{line}: not UTF-8: byte 0x{raw[start]:02x} at offset {start}; "
                "save the file as UTF-8"
            )
        case JSONDecodeError() if not raw.strip():
            return InputError(f"{name}: the file is empty; expected JSON")
        case JSONDecodeError(lineno=line, colno=column, msg=why):
            suffix = PurePath(name).suffix
            hint = f"; a file that ends with {suffix} is read as JSON, a folder as the files in it"
            is_other = suffix not in ("", ".json")
            return InputError(f"{name}:{line}:{column}: not JSON: {why}{hint * is_other}")
        case _ if flaw.kind is FlawKind.TOO_LARGE:
            return _too_large(name, len(raw))
        case _:
            return InputError(f"{name}: {_words(flaw)}")


def _too_large(name: str, size: int) -> InputError:
    return InputError(f"{name}: {size} bytes, expected at most {MAX_BYTES}; export fewer types")


def _words(flaw: Flaw) -> str:
    match flaw.kind:
        case FlawKind.KEY_TWICE:
            return f"the key {_quoted(flaw.text)} stands twice in one object"
        case FlawKind.NO_NUMBER:
            return f"{flaw}; write null or leave the field out"
        case FlawKind.TOO_MANY_DIGITS:
            return f"a number of {len(flaw.text)} digits; expected at most {MAX_DIGITS}"
        case FlawKind.OUT_OF_RANGE:
            what = f"the number {flaw.text[:40]} lies beyond 1e±{MAX_EXPONENT}"
            return f"{what}; write it as text if it is meant"
        case FlawKind.TOO_DEEP:
            return f"nested deeper than {MAX_DEPTH} levels"
        case FlawKind.HALF_PAIR:
            return "text with a lone surrogate"
        case _:
            return str(flaw)


class _Plain:
    """Checks that a record is one as it was parsed: known names, and no text to look at.

    Only an escape of half a surrogate pair makes a text that is none.
    """

    def __init__(self, raw: Given) -> None:
        if isinstance(raw, Exported):
            self._takes_texts = not raw.may_have_half_pairs
        else:
            self._takes_texts = not has_half_pairs(raw)
        self._names: set[tuple[str, ...]] = set()

    def __call__(self, record: Any) -> bool:
        if type(record) is not dict or not _PLAIN.issuperset(map(type, record.values())):
            return False
        names = tuple(record)
        if names in self._names:
            return self._takes_texts
        if not all(name and name != KEYLESS_KEY and name.isascii() for name in names):
            return False
        if len(self._names) < _MAX_SHAPES:
            self._names.add(names)
        return self._takes_texts


def _tables(tree: Any, name: str, is_plain: _Plain) -> Document:
    if isinstance(tree, Flaw):
        raise InputError(f"{name}: {_words(tree)}")
    if not isinstance(tree, dict):
        raise InputError(f"{name}: expected an object {{type: [record, …]}}, found {_shape(tree)}")
    document: Document = {}
    for type_name, records in tree.items():
        where = f"{name}: type {_quoted(type_name)}"
        _check_name(type_name, where)
        if isinstance(records, Flaw):
            raise InputError(f"{where}: {_words(records)}")
        if not isinstance(records, list):
            raise InputError(
                f"{where}: expected a list of records, found {_shape(records)}; write it as "
                "[{…}, …], or leave it out if it is no state"
            )
        document[type_name] = [
            record if is_plain(record) else _record(records, index, where)
            for index, record in enumerate(records)
        ]
    return document


def _record(records: list[Any], index: int, of: str) -> Record:
    record = records[index]
    if type(record) is not dict:
        found = _words(record) if isinstance(record, Flaw) else None
        raise InputError(
            f"{of}, record {index}: {found or f'expected an object, found {_shape(record)}'}"
        )
    converted: Record = {}
    for field, value in record.items():
        try:
            if not field or field == KEYLESS_KEY or not field.isascii():
                _check_field(field, f"{of}, record {index}")
            converted[field] = freeze(value, MAX_DEPTH - 1)
        except Flaw as flaw:
            where = f"{of}, record {index}: field {_quoted(field)}"
            raise InputError(f"{where}: {_words(flaw)}") from flaw
    return converted


def _check_field(field: str, where: str) -> None:
    _check_name(field, f"{where}: field {_quoted(field)}")
    if field == KEYLESS_KEY:
        raise InputError(f"{where}: the field name {field!r} is reserved; rename the field")


def _check_name(text: str, where: str) -> None:
    if not text:
        raise InputError(f"{where}: the name is empty")
    if not _is_text(text):
        raise InputError(f"{where}: the name has a lone surrogate")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _quoted(text: str) -> str:
    return f'"{printable(text[:80])}"'


def _shape(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return f'text "{printable(value[:300])}"' if isinstance(value, str) else "a number"
