"""Tables in files of other forms: CSV, TSV, JSON lines, Parquet, Excel, folders.

A file is a table, and its name without suffix is the type; a folder has a table for each such file.
CSV says nothing of kinds. A column holds numbers where every value of the *first* state is one in
JSON's spelling; an empty cell in it is null. Every other column is text, and so is a value of a
column of numbers that is no number: what a run writes in another form is a change. JSON lines and
Parquet have kinds of their own; instants, dates and bytes (base64) become text. A workbook has a
table for each sheet (`workbooks`); in a folder each is called FILE.SHEET.

A fault of the first state is an `InputError`. The run may have caused a fault of a later state: the
message then replaces the table's records, so that the table is unobserved with that cause.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from statediff.errors import InputError
from statediff.model.strictjson import Flaw
from statediff.model.values import printable
from statediff.systems.tables import workbooks
from statediff.systems.tables.columns import Odd
from statediff.systems.tables.forms import (
    Forms,
    departure_of_columns,
    departure_of_kinds,
    kinds_of,
)
from statediff.systems.tables.shape import MAX_BYTES, Exported, number_of, object_of
from statediff.systems.tables.spelling import (
    odd_blanks,
    residue_of,
    residue_of_lines,
    said_beside,
    shown,
)
from statediff.uncollected import uncollected

DELIMITERS: Final[Mapping[str, str]] = {".csv": ",", ".tsv": "\t"}
LINES: Final = frozenset({".jsonl", ".ndjson"})
PARQUET: Final = ".parquet"
SUFFIXES: Final = frozenset({*DELIMITERS, *LINES, *workbooks.SUFFIXES, PARQUET})
_TEXTS: Final = frozenset({*DELIMITERS, PARQUET})
"""The forms in which no text has half of a surrogate pair."""
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_PARQUET_FAULTS: Final = (
    *(pa.ArrowException, OSError, ValueError, TypeError),
    *(ArithmeticError, LookupError, RecursionError),
)
"""Errors of the reader at a file that is no Parquet, or holds a value that Python has none for."""
_MAX_FIELD: Final = 16 * 1024 * 1024
_AS_THEY_ARE: Final = frozenset({type(None), bool, int, str})


def is_export(path: Path) -> bool:
    """True if the path is a folder, or a file of one of these forms."""
    return path.is_dir() or path.suffix.lower() in SUFFIXES


def exported(
    path: Path, forms: Forms | None = None, first: Path | None = None
) -> tuple[Exported, Forms]:
    """The tables of the path, and how the files of the first state are written.

    `forms` and `first` are those of the first state; None where this is it. The one table of a
    file is called like that of the first file. `InputError` names the file and the line that is
    wrong, of the first state, and of a path that cannot be listed.
    """
    found = Forms()
    named: dict[str, Any] = {}
    files = _files(path, is_first=forms is None)
    for stem, file in files.items():
        tables: Mapping[str, Any]
        if isinstance(file, Path) and file.suffix.lower() in workbooks.SUFFIXES:
            before = f"{stem}." if path.is_dir() else ""
            known = None if forms is None else forms.sheets.get(before)
            sheets = workbooks.workbook_tables(
                file, known, found.sheets.setdefault(before, workbooks.Columns())
            )
            tables = {f"{before}{name}": rows for name, rows in sheets.items()}
            said, looks = workbooks.beside_of(file)
            found.said |= {f"{before}{place}": digest for place, digest in said.items()}
            found.leave(stem if before else "workbook", {"looks": looks})
        else:
            tables = {
                _name(stem, path, first): _table(_name(stem, path, first), file, forms, found)
            }
        for name, rows in tables.items():
            if name in named or name in found.residue:
                raise _wrong(path, f"two of its files hold a table {name}; rename one")
            named[name] = rows
    named |= {kind: rows for kind, rows in found.residue.items() if rows}
    are_texts = all(isinstance(f, Path) and f.suffix.lower() in _TEXTS for f in files.values())
    return Exported(named, not are_texts), found if forms is None else forms


def _name(stem: str, path: Path, first: Path | None) -> str:
    is_alone = not (first is None or first.is_dir() or path.is_dir())
    return first.stem if first is not None and is_alone else stem


def plain_tables(
    path: Path, forms: Forms | None = None, first: Path | None = None
) -> tuple[dict[str, list[dict[str, Any]]], Forms]:
    """The tables of CSV and Parquet as plain objects. `Odd` where these do not say all of them."""
    files = _files(path, is_first=forms is None).values()
    if not all(isinstance(file, Path) and file.suffix.lower() in _TEXTS for file in files):
        raise Odd
    said, found = exported(path, forms, first)
    return {name: list(map(_plain_record, rows)) for name, rows in said.tree.items()}, found


def _plain_record(record: Any) -> dict[str, Any]:
    if type(record) is not dict:
        raise Odd
    return {n: v if type(v) in _AS_THEY_ARE else _plain(v) for n, v in record.items()}


def _plain(value: Any) -> float:
    """The number that Python writes so."""
    if type(value) is not Decimal or repr(number := float(value)) != str(value).lower():
        raise Odd
    return number


def _cell(value: str) -> Any:
    """The value of a cell in a column of numbers."""
    if not value:
        return None
    return number_of(value) if _NUMBER.fullmatch(value) else value


def _value(value: Any) -> Any:
    """A value of Parquet, its numbers exact."""
    match value:
        case None | bool() | int() | str():
            return value
        case dict():
            return {str(name): _value(each) for name, each in value.items()}
        case list() | tuple():
            return list(map(_value, value))
        case Decimal():
            return number_of(f"{value:f}")
        case float() if math.isfinite(value):
            return number_of(repr(value))
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)  # no number of JSON: the text differs from every one


def _table(name: str, file: Path | InputError, forms: Forms | None, found: Forms) -> Any:
    """The table's records; the fault in their place where a run may have left it."""
    try:
        if isinstance(file, InputError):
            raise file
        with uncollected():
            return _rows(name, file, forms, found)
    except InputError as error:
        if forms is None:
            raise
        return str(error)


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


def _rows(name: str, file: Path, forms: Forms | None, found: Forms) -> list[Any]:
    suffix = file.suffix.lower()
    if suffix == PARQUET:
        return [_value(row) for row in _parquet(name, file, forms, found)]
    if suffix in LINES:
        raw, text = _text(file)
        lines = list(_lines(file, text))
        found.leave(name, shown(residue_of_lines(raw, lines)))
        return lines
    (raw, text), delimiter = _text(file), DELIMITERS[suffix]
    header, cells = _cells(name, file, text, forms, found)
    known = (forms or found).numbers
    parts = residue_of(raw, delimiter, [header, *cells], {c for of, c in known if of == name})
    found.leave(name, shown(parts))
    if "layout" in parts and (odd := odd_blanks(text, delimiter)):
        found.said[f"{name}.blanks"] = odd
    columns = list(zip(*cells, strict=True)) or [() for _ in header]
    made = [
        list(map(_cell, column)) if (name, of) in known else column
        for of, column in zip(header, columns, strict=True)
    ]
    return [dict(zip(header, row, strict=True)) for row in zip(*made, strict=True)]


def _text(file: Path) -> tuple[bytes, str]:
    """The content of the file, and its text."""
    try:
        raw = file.read_bytes()
        return raw, raw.decode("utf-8-sig")
    except OSError as error:
        raise _wrong(file, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _wrong(file, f"byte {error.start}: not UTF-8") from None


def _cells(
    name: str, file: Path, text: str, forms: Forms | None, found: Forms
) -> tuple[list[str], list[list[str]]]:
    """The header and the rows; columns of numbers are found in the first state."""
    header, numbered = delimited(file, text, DELIMITERS[file.suffix.lower()])
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


def _lines(file: Path, text: str) -> Iterator[Any]:
    """Each line that holds a value: one object, and nothing beside it."""
    for number, line in enumerate(text.split("\n"), 1):
        if not (stripped := line.strip(" \t\r")):
            continue
        try:
            # A carriage return within it is where it ends for a program that reads text.
            yield object_of("" if "\r" in stripped else stripped)
        except Flaw:
            raise _wrong(file, f"line {number}: expected one JSON object") from None


def delimited(
    file: Path, text: str, delimiter: str
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and each row with its last line. `InputError` where a row has other columns."""
    csv.field_size_limit(_MAX_FIELD)
    lines = io.StringIO(text, newline="\n").readlines()
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    ended = _ended(file, lines, reader)
    try:
        header = next(ended, [])
        if len(set(header)) < len(header):
            raise _wrong(file, "line 1: a column is named twice")
        rows = []
        for row in ended:
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


def _ended(file: Path, lines: Sequence[str], reader: Any) -> Iterator[list[str]]:
    """The rows. `InputError` where one ends in a way that programs do not agree on."""
    for row in reader:
        if lines[reader.line_num - 1].endswith(("\r\r\n", "\r")):
            raise _wrong(file, f"line {reader.line_num}: a carriage return alone ends a row")
        yield row


def _other_delimiter(header: Sequence[str]) -> str:
    """The other character that may separate the columns, where the header is read as one."""
    found = _separator_within(header)
    if found is None:
        return ""
    shown = "a tab" if found == "\t" else f"`{found}`"
    return f"; are its columns separated by {shown}?"


def _separator_within(header: Sequence[str]) -> str | None:
    """The character in the one column that there is which separates columns elsewhere."""
    [only, *others] = header or [""]
    return None if others else next((each for each in ";|\t" if each in only), None)


def _is_numbers(column: Iterable[str]) -> bool:
    values = [value for value in column if value]
    return bool(values) and all(_NUMBER.fullmatch(value) for value in values)


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
        if table.nbytes > MAX_BYTES:
            raise _wrong(file, f"its table has more than {MAX_BYTES} bytes")
        found.columns[name], found.kinds[name] = frozenset(names), kinds_of(table.schema)
        if forms is not None:
            _check(file, departure_of_kinds(forms, name, found.kinds[name]))
            if not table.num_rows:
                _check(file, departure_of_columns(forms, name, names))
        found.said |= {f"{name}.{key}": said for key, said in said_beside(table.schema).items()}
        for batch in table.to_batches():
            yield from batch.to_pylist()
    except _PARQUET_FAULTS as error:
        raise _wrong(file, f"cannot be read as Parquet: {str(error)[:200]}") from error


def _wrong(file: Path, what: str) -> InputError:
    return InputError(f"{printable(str(file))}: {printable(what)}")
