"""Strict reading of JSON tables, `{type: [record, …]}`: nothing that reads in two ways.

Refused, with file, type and record: duplicate keys, NaN and Infinity, lone surrogates, numbers
beyond a double's range, nesting deeper than `MAX_DEPTH`, bytes that are not UTF-8 (a leading byte
order mark is tolerated), more than `MAX_BYTES`, and any other shape. Integers become `int`, all
other numbers exact `Decimal`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from statediff.errors import InputError
from statediff.model.batches import KEYLESS_KEY
from statediff.model.values import MAX_DEPTH, Map, Value, printable

MAX_BYTES: Final = 512 * 1024 * 1024
MAX_EXPONENT: Final = 308
"""Decimal exponent beyond which a number is refused: what a double cannot hold, no system keeps."""
MAX_DIGITS: Final = 1000

Record = dict[str, Value]
Document = dict[str, list[Record]]
"""Type → records, in the order of the file."""


@dataclass(frozen=True)
class _Refused:
    """Stands in the parsed tree where something must be refused, so that its place can be named."""

    reason: str


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


def parse_tables(raw: bytes, file: str) -> Document:
    """The tables in `raw`; `file` is how messages name them. Raises `InputError`."""
    name = printable(file)
    if len(raw) > MAX_BYTES:
        raise _too_large(name, len(raw))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}:{line}: not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}; "
            "save the file as UTF-8"
        ) from error
    try:
        tree = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_number,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{name}: nested deeper than {MAX_DEPTH} levels") from error
    return _tables(tree, name)


def _too_large(name: str, size: int) -> InputError:
    return InputError(f"{name}: {size} bytes, expected at most {MAX_BYTES}; export fewer types")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Refused:
    mapping = dict(pairs)
    if len(mapping) == len(pairs):
        return mapping
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Refused(f"the key {_quoted(key)} stands twice in one object")
        seen.add(key)
    raise AssertionError("fewer keys than pairs, yet none twice")


def _constant(text: str) -> _Refused:
    return _Refused(f"{text} is not a JSON number; write null or leave the field out")


def _integer(text: str) -> int | _Refused:
    if len(text) > MAX_DIGITS:
        return _Refused(f"a number of {len(text)} digits; expected at most {MAX_DIGITS}")
    return int(text)


def _number(text: str) -> Decimal | _Refused:
    if len(text) > MAX_DIGITS:
        return _Refused(f"a number of {len(text)} digits; expected at most {MAX_DIGITS}")
    try:
        number = Decimal(text)
    except InvalidOperation:
        return _Refused(f"the number {text[:40]} has an absurd exponent")
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not (
        abs(number.adjusted()) <= MAX_EXPONENT and abs(exponent) <= MAX_EXPONENT + MAX_DIGITS
    ):
        return _Refused(
            f"the number {text[:40]} lies beyond 1e±{MAX_EXPONENT}; write it as text if it is meant"
        )
    return number


def _tables(tree: Any, name: str) -> Document:
    if isinstance(tree, _Refused):
        raise InputError(f"{name}: {tree.reason}")
    if not isinstance(tree, dict):
        raise InputError(f"{name}: expected an object {{type: [record, …]}}, found {_shape(tree)}")
    document: Document = {}
    for type_name, records in tree.items():
        where = f"{name}: type {_quoted(type_name)}"
        _check_name(type_name, where)
        if isinstance(records, _Refused):
            raise InputError(f"{where}: {records.reason}")
        if not isinstance(records, list):
            raise InputError(f"{where}: expected a list of records, found {_shape(records)}")
        document[type_name] = [
            _record(record, f"{where}, record {index}") for index, record in enumerate(records)
        ]
    return document


def _record(record: Any, where: str) -> Record:
    if isinstance(record, _Refused):
        raise InputError(f"{where}: {record.reason}")
    if not isinstance(record, dict):
        raise InputError(f"{where}: expected an object, found {_shape(record)}")
    converted: Record = {}
    for field, value in record.items():
        _check_name(field, f"{where}: field {_quoted(field)}")
        if field == KEYLESS_KEY:
            raise InputError(f"{where}: the field name {field!r} is reserved; rename the field")
        converted[field] = _value(value, where, field, 1)
    return converted


def _value(value: Any, where: str, field: str, depth: int) -> Value:
    if type(value) is str:
        if not value.isascii() and not _is_text(value):
            raise InputError(f"{where}: field {_quoted(field)}: text with a lone surrogate")
        return value
    if isinstance(value, _Refused):
        raise InputError(f"{where}: field {_quoted(field)}: {value.reason}")
    if isinstance(value, (list, dict)):
        if depth >= MAX_DEPTH:
            raise InputError(
                f"{where}: field {_quoted(field)}: nested deeper than {MAX_DEPTH} levels"
            )
        if isinstance(value, list):
            return tuple(_value(item, where, field, depth + 1) for item in value)
        for key in value:
            if not _is_text(key):
                raise InputError(f"{where}: field {_quoted(field)}: a key with a lone surrogate")
        return Map.of({k: _value(v, where, field, depth + 1) for k, v in value.items()})
    known: None | bool | int | Decimal = value
    return known


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
    return "text" if isinstance(value, str) else "a number"
