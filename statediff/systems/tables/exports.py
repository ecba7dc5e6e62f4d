"""Tables in files of other forms, as JSON tables: CSV, TSV, JSON lines, Parquet, Excel, folders.

A file is a table, and its name without suffix is the type; a folder has a table for each such file.
CSV says nothing of kinds. A column holds numbers where every value of the *first* state is one in
JSON's spelling; an empty cell in it is null. Every other column is text, and so is a value of a
column of numbers that is no number: what a run writes in another form is a change. JSON lines and
Parquet have kinds of their own; instants, dates and bytes (base64) become text. A workbook has a
table for each sheet (`workbooks`); in a folder each is called FILE.SHEET.

A fault of the first state is an `InputError`. A run could have left those of a later one: the fault
then stands in the place of the table's records, so that the table is unobserved with that cause.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from statediff.errors import InputError
from statediff.model.values import printable
from statediff.systems.tables import workbooks
from statediff.systems.tables.columns import Odd
from statediff.systems.tables.forms import (
    Forms,
    departure_of_columns,
    departure_of_kinds,
    kinds_of,
)
from statediff.systems.tables.shape import MAX_BYTES

DELIMITERS: Final[Mapping[str, str]] = {".csv": ",", ".tsv": "\t"}
LINES: Final = frozenset({".jsonl", ".ndjson"})
PARQUET: Final = ".parquet"
SUFFIXES: Final = frozenset({*DELIMITERS, *LINES, *workbooks.SUFFIXES, PARQUET})
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_PARQUET_FAULTS: Final = (
    *(pa.ArrowException, OSError, ValueError, TypeError),
    *(ArithmeticError, LookupError, RecursionError),
)
"""What the reader raises at a file that is no Parquet, or holds what Python has no value for."""
_MAX_FIELD: Final = 16 * 1024 * 1024
_EXACT: Final = 300
"""Digits of a number from which on its text is read by the strict reader."""


def is_export(path: Path) -> bool:
    """Whether the path is a folder, or a file of one of these forms."""
    return path.is_dir() or path.suffix.lower() in SUFFIXES


def json_tables(
    path: Path, forms: Forms | None = None, first: Path | None = None
) -> tuple[bytes, Forms]:
    """The tables of the path as JSON tables, and how the files of the first state are written.

    `forms` and `first` are those of the first state; None where this is it. The one table of a
    file is called like that of the first file. `InputError` names the file and the line that is
    wrong, of the first state, and of a path that cannot be listed.
    """
    found = Forms()
    named: dict[str, str] = {}
    for stem, file in _files(path, is_first=forms is None).items():
        tables: Mapping[str, str]
        if isinstance(file, Path) and file.suffix.lower() in workbooks.SUFFIXES:
            before = f"{stem}." if path.is_dir() else ""
            known = None if forms is None else forms.sheets.get(before)
            sheets = workbooks.workbook_tables(file, known, found.sheets.setdefault(before, {}))
            tables = {f"{before}{name}": _listed(rows) for name, rows in sheets.items()}
        else:
            is_alone = not (first is None or first.is_dir() or path.is_dir())
            table = first.stem if first is not None and is_alone else stem
            tables = {table: _table(table, file, forms, found)}
        for name, text in tables.items():
            if name in named:
                raise _wrong(path, f"two of its files hold a table {name}; rename one")
            named[name] = text
    texts = [f"{json.dumps(name)}: {text}" for name, text in named.items()]
    return ("{" + ",\n".join(texts) + "}").encode(), found if forms is None else forms


def plain_tables(
    path: Path, forms: Forms | None = None, first: Path | None = None
) -> tuple[dict[str, list[dict[str, Any]]], Forms]:
    """The same tables as plain objects. `Odd` where only their JSON text says all of them."""
    found = Forms()
    tables: dict[str, list[dict[str, Any]]] = {}
    for stem, file in _files(path, is_first=forms is None).items():
        if isinstance(file, InputError):
            raise file
        is_alone = not (first is None or first.is_dir() or path.is_dir())
        table = first.stem if first is not None and is_alone else stem
        if file.suffix.lower() == PARQUET:
            tables[table] = [
                {name: _plain(value) for name, value in row.items()}
                for row in _parquet(table, file, forms, found)
            ]
        elif file.suffix.lower() in DELIMITERS:
            header, cells = _cells(table, file, forms, found)
            known = (forms or found).numbers
            columns = list(zip(*cells, strict=True)) or [() for _ in header]
            made = [
                list(map(_number, column)) if (table, name) in known else column
                for name, column in zip(header, columns, strict=True)
            ]
            tables[table] = [dict(zip(header, row, strict=True)) for row in zip(*made, strict=True)]
        else:
            raise Odd
    return tables, forms or found


def _number(cell: str) -> Any:
    """What `_cell` writes of a cell in a column of numbers."""
    if not cell:
        return None
    if not _NUMBER.fullmatch(cell):
        return cell
    value = float(cell) if "." in cell else int(cell) if len(cell) < _EXACT else cell
    if repr(value) != cell:
        raise Odd  # it is written otherwise than Python writes it
    return value


def _plain(value: Any) -> Any:
    """What `literal` writes, as an object."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise Odd


def _table(name: str, file: Path | InputError, forms: Forms | None, found: Forms) -> str:
    """The table's records; the fault in their place where a run may have left it."""
    try:
        if isinstance(file, InputError):
            raise file
        return _listed(_rows(name, file, forms, found))
    except InputError as error:
        if forms is None:
            raise
        return json.dumps(str(error))


def _listed(rows: Sequence[str]) -> str:
    return "[\n" + ",\n".join(rows) + "\n]"


def _files(path: Path, *, is_first: bool) -> dict[str, Path | InputError]:
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        wanted = [file for file in files if file.suffix.lower() in SUFFIXES and file.is_file()]
        if sum(file.stat().st_size for file in wanted) > MAX_BYTES:
            raise InputError(f"{printable(str(path))}: its tables have more than {MAX_BYTES} bytes")
    except OSError as error:
        raise InputError(f"{printable(str(path))}: cannot be read: {error.strerror}") from error
    named: dict[str, Path | InputError] = {}
    for file in wanted:
        other = named.setdefault(file.stem, file)
        if other is not file:
            name = printable(other.name) if isinstance(other, Path) else "another file"
            twice = InputError(
                f"{printable(str(file))}: {name} holds a table of that name too; rename one"
            )
            if is_first:
                raise twice
            named[file.stem] = twice
    return named


def _rows(name: str, file: Path, forms: Forms | None, found: Forms) -> list[str]:
    suffix = file.suffix.lower()
    if suffix == PARQUET:
        return [literal(row) for row in _parquet(name, file, forms, found)]
    if suffix in LINES:
        return list(_lines(file, _text(file)))
    header, cells = _cells(name, file, forms, found)
    known = (forms or found).numbers
    is_number = [(name, column) in known for column in header]
    names = [json.dumps(column) for column in header]
    return [_record(names, is_number, row) for row in cells]


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise _wrong(file, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _wrong(file, f"byte {error.start}: not UTF-8") from None


def _cells(
    name: str, file: Path, forms: Forms | None, found: Forms
) -> tuple[list[str], list[list[str]]]:
    """The header and the rows; columns of numbers are found in the first state."""
    header, numbered = delimited(file, _text(file), DELIMITERS[file.suffix.lower()])
    cells = [row for _, row in numbered]
    found.columns[name] = frozenset(header)
    if forms is None:
        numbers = {(name, c) for at, c in enumerate(header) if _is_numbers(r[at] for r in cells)}
        found.numbers |= numbers
    elif not cells:
        _check(file, departure_of_columns(forms, name, header))
    return header, cells


def _check(file: Path, departure: str | None) -> None:
    if departure is not None:
        raise _wrong(file, departure)


def _lines(file: Path, text: str) -> Iterator[str]:
    """Each line that holds a value: one object, and nothing beside it."""
    decoder = json.JSONDecoder()
    for number, line in enumerate(text.split("\n"), 1):
        if not (stripped := line.strip(" \t\r")):
            continue
        try:
            value, end = decoder.raw_decode(stripped)
        except (ValueError, RecursionError):
            value, end = None, -1
        # A carriage return within it is where it ends for a program that reads text.
        if end != len(stripped) or not isinstance(value, dict) or "\r" in stripped:
            raise _wrong(file, f"line {number}: expected one JSON object")
        yield stripped


def delimited(
    file: Path, text: str, delimiter: str
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and each row with its last line. `InputError` where a row has other columns."""
    csv.field_size_limit(_MAX_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        if len(set(header)) < len(header):
            raise _wrong(file, "line 1: a column is named twice")
        rows = []
        for row in reader:
            if row and len(row) != len(header):
                what = f"line {reader.line_num}: expected {len(header)} values, found {len(row)}"
                raise _wrong(file, what + _other_delimiter(header))
            if row:
                rows.append((reader.line_num, row))
    except csv.Error as error:
        raise _wrong(file, f"line {reader.line_num}: {error}") from error
    other = _separator_within(header)
    if other and rows and all(other in row[0] for _, row in rows):
        raise _wrong(file, "line 1: expected columns, found one" + _other_delimiter(header))
    return header, rows


def _other_delimiter(header: Sequence[str]) -> str:
    """What else may separate the columns, where the header is read as one."""
    found = _separator_within(header)
    if found is None:
        return ""
    shown = "a tab" if found == "\t" else f"`{found}`"
    return f"; are its columns separated by {shown}?"


def _separator_within(header: Sequence[str]) -> str | None:
    """What stands in the one column that there is, and separates columns elsewhere."""
    [only, *others] = header or [""]
    return None if others else next((each for each in ";|\t" if each in only), None)


def _is_numbers(column: Iterable[str]) -> bool:
    values = [value for value in column if value]
    return bool(values) and all(_NUMBER.fullmatch(value) for value in values)


def _record(names: Sequence[str], is_number: Sequence[bool], row: Sequence[str]) -> str:
    cells = zip(names, is_number, row, strict=True)
    return "{" + ", ".join(f"{n}: {_cell(value, number)}" for n, number, value in cells) + "}"


def _cell(value: str, is_number: bool) -> str:
    if is_number and not value:
        return "null"
    if is_number and _NUMBER.fullmatch(value):
        return value
    return json.dumps(value)


def _parquet(name: str, file: Path, forms: Forms | None, found: Forms) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet  # noqa: PLC0415 - takes a while, and few states are so

    try:
        with file.open("rb") as content:
            names = parquet.read_schema(content).names
            if len(set(names)) < len(names):
                raise _wrong(file, "a column is named twice")
            content.seek(0)
            # What reads batch by batch takes files that this, and most programs, refuse.
            table = parquet.read_table(content, partitioning=None)
        found.columns[name], found.kinds[name] = frozenset(names), kinds_of(table.schema)
        if forms is not None:
            _check(file, departure_of_kinds(forms, name, found.kinds[name]))
            if not table.num_rows:
                _check(file, departure_of_columns(forms, name, names))
        for batch in table.to_batches():
            yield from batch.to_pylist()
    except _PARQUET_FAULTS as error:
        raise _wrong(file, f"cannot be read as Parquet: {str(error)[:200]}") from error


def literal(value: Any) -> str:
    """A value of Parquet as JSON, its numbers exact."""
    match value:
        case dict():
            inside = (f"{json.dumps(str(k))}: {literal(v)}" for k, v in value.items())
            return "{" + ", ".join(inside) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(literal, value)) + "]"
        case Decimal():
            return f"{value:f}"
        case float() if not math.isfinite(value):
            return json.dumps(
                str(value)
            )  # JSON has no such number: the text differs from every one
        case datetime() | date() | time():
            return json.dumps(value.isoformat())
        case bytes():
            return json.dumps(base64.b64encode(value).decode())
        case None | bool() | int() | float() | str():
            return json.dumps(value)
        case _:
            return json.dumps(str(value))


def _wrong(file: Path, what: str) -> InputError:
    return InputError(f"{printable(str(file))}: {printable(what)}")
