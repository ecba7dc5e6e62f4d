"""Workbooks of Excel (.xlsx, .xlsm) as tables: a sheet is a table, its first row the names.

openpyxl reads them. It is slower than a compiled reader, and it alone shows both a formula and the
value that was computed last, so that a formula that nothing has computed is no empty cell. Hidden
sheets are sheets. Beside the sheets there are two tables: `workbook.sheet` with the place and the
visibility of each, and `workbook.formula` with the text of each formula.

A number without a fraction is an integer, for Excel knows no difference. A cell with the format of
a date, by the workbook's own epoch (1900 or 1904), is a text in ISO form; an error is its text
(`#DIV/0!`). Where a column held such cells before the run and no texts, a text that is spelled like
one of them is the object {"text": text}: formulas and sorting do not take it for a date. A formula
that nothing has computed is the object {"formula": text}. An empty cell is null; a row of empty
cells is none. Styles, comments, charts and macros are not looked at.
"""

from __future__ import annotations

import json
import lzma
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

from statediff.errors import InputError, UsageError
from statediff.model.values import printable
from statediff.systems.tables.shape import MAX_BYTES

SUFFIXES: Final = frozenset({".xlsx", ".xlsm"})
SHEETS: Final = "workbook.sheet"
FORMULAS: Final = "workbook.formula"
_FAULTS: Final = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, AssertionError),
    *(OSError, EOFError, RecursionError, RuntimeError, SyntaxError, zipfile.BadZipFile),
    *(zlib.error, lzma.LZMAError, struct.error),
)
"""What the reader raises at a file that is no workbook; a `SyntaxError` is its XML parser's, and
the last ones come from parts of the archive that are damaged."""


Columns: TypeAlias = dict[tuple[str, str], set[bool]]
"""Sheet and column → whether what is shown as text there is text, of each cell that is."""


_LIKE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(T\d\d:.*)?|\d\d:\d\d.*|PT-?[\d.]+S|#[A-Z0-9/!?_]+", re.DOTALL
)
"""How dates, times, durations and errors are shown, and more."""


def workbook_tables(
    file: Path, before: Columns | None = None, found: Columns | None = None
) -> Mapping[str, Sequence[str]]:
    """Table → its records as JSON. `InputError` names the file and the cell that is wrong.

    `before` are the columns of the first state, None where this is it; `found` gets those of this.
    """
    try:
        from openpyxl import load_workbook  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{printable(str(file))}: workbooks need openpyxl; get it with "
            "`pip install statediff[excel]`"
        ) from error
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(each.file_size for each in archive.infolist())
        if size > MAX_BYTES:
            raise _wrong(file, f"its content has {size} bytes, more than {MAX_BYTES}")
        # What opens the file itself leaves it open where it turns out to be no workbook.
        with file.open("rb") as one, file.open("rb") as two, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parts that are not looked at
            shown = load_workbook(one, read_only=True, data_only=True)
            written = load_workbook(two, read_only=True)
            return _tables(file, shown, written, before or {}, {} if found is None else found)
    except _FAULTS as error:
        raise _wrong(file, f"cannot be read as a workbook: {str(error)[:200]}") from error


def _tables(
    file: Path, shown: Any, written: Any, before: Columns, columns: Columns
) -> Mapping[str, Sequence[str]]:
    sheets, formulas = [], []
    tables: dict[str, Sequence[str]] = {}
    for place, sheet in enumerate(shown.worksheets, 1):
        own = written[sheet.title]
        # A file may claim to be smaller than it is.
        sheet.reset_dimensions()
        own.reset_dimensions()
        found: dict[str, str] = {}
        rows = _Rows(file, sheet.title, found, before, columns)
        if sheet.title in (SHEETS, FORMULAS):
            raise _wrong(file, f"a sheet is called {sheet.title}, as what lists them; rename it")
        tables[sheet.title] = list(rows.records(sheet.iter_rows(), own.iter_rows()))
        sheets.append({"id": sheet.title, "place": place, "visibility": sheet.sheet_state})
        formulas += [
            {"id": f"{sheet.title}!{cell}", "formula": text} for cell, text in found.items()
        ]
    tables[SHEETS] = [json.dumps(each) for each in sheets]
    tables[FORMULAS] = [json.dumps(each) for each in formulas]
    return tables


class _Rows:
    """The rows of one sheet; `formulas` gets the text of each by the cell's name."""

    def __init__(
        self, file: Path, sheet: str, formulas: dict[str, str], before: Columns, columns: Columns
    ) -> None:
        self._file = file
        self._sheet = sheet
        self._formulas = formulas
        self._before = before
        self._columns = columns

    def records(self, shown: Iterator[Any], written: Iterator[Any]) -> Iterator[str]:
        header: list[str] = []
        for number, (cells, own) in enumerate(zip(shown, written, strict=True), 1):
            values = [self._cell(cell, each) for cell, each in zip(cells, own, strict=True)]
            if number == 1:
                header = self._header(values)
                continue
            if any(value != "null" for value in values[len(header) :]):
                raise self._wrong(number, f"a value beyond the {len(header)} named columns")
            values += ["null"] * (len(header) - len(values))
            if any(value != "null" for value in values):
                for at, (name, cell) in enumerate(zip(header, cells, strict=False)):
                    values[at] = self._told(name, cell, values[at])
                pairs = zip(header, values, strict=False)
                yield "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in pairs) + "}"

    def _header(self, values: Sequence[str]) -> list[str]:
        names = [json.loads(value) for value in values]
        while names and names[-1] is None:
            names.pop()
        if not all(isinstance(name, str) and name for name in names):
            raise self._wrong(1, "expected the name of each column, as text")
        if len(set(names)) < len(names):
            raise self._wrong(1, "a column is named twice")
        return names

    def _cell(self, shown: Any, written: Any) -> str:
        value = shown.value
        if written.data_type == "f":
            text = str(getattr(written.value, "text", written.value))
            self._formulas[written.coordinate] = text
            if value is None:
                return json.dumps({"formula": text})
        return _literal(value, getattr(shown, "number_format", ""))

    def _told(self, name: str, cell: Any, value: str) -> str:
        """The value; a text where only dates, times and errors were says that it is one."""
        if not value.startswith('"'):
            return value
        column, is_text = (self._sheet, name), isinstance(cell.value, str) and cell.data_type != "e"
        self._columns.setdefault(column, set()).add(is_text)
        is_odd = is_text and self._before.get(column) == {False}
        return f'{{"text": {value}}}' if is_odd and _LIKE.fullmatch(json.loads(value)) else value

    def _wrong(self, row: int, what: str) -> InputError:
        return _wrong(self._file, f"sheet {self._sheet}, row {row}: {what}")


def _literal(value: Any, form: str) -> str:
    """A cell as JSON."""
    from openpyxl.styles.numbers import is_datetime  # noqa: PLC0415 - an extra

    match value:
        case float() if value.is_integer():
            return str(int(value))
        case datetime() if is_datetime(form) == "date" and value.time() == time():
            return json.dumps(value.date().isoformat())
        case datetime() | date() | time():
            return json.dumps(value.isoformat())
        case timedelta():
            return json.dumps(f"PT{value / timedelta(seconds=1):.6f}S")
        case _:
            return json.dumps(value, allow_nan=False)


def _wrong(file: Path, what: str) -> InputError:
    return InputError(f"{printable(str(file))}: {printable(what)}")
