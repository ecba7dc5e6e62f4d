"""Workbooks of Excel (.xlsx, .xlsm) as tables: a sheet is a table, its first row the names.

openpyxl reads them. It is slower than a compiled reader, and it alone shows both a formula and the
value that was computed last, so that a formula that nothing has computed is no empty cell. Hidden
sheets are sheets. Beside the sheets there are two tables: `workbook.sheet` with the place and the
visibility of each, its hidden rows and columns, links, comments, and the `residue` of its other
parts by name (`leftovers`); and `workbook.formula` with the text of each formula.

A number without a fraction is an integer, for Excel knows no difference. A cell with the format of
a date, by the workbook's own epoch (1900 or 1904), is a text in ISO form; an error is its text
(`#DIV/0!`). Where a column held such cells before the run and no texts, a text that is spelled like
one of them is the object {"text": text}: formulas and sorting do not take it for a date. A formula
that nothing has computed is the object {"formula": text}. An empty cell is null; a row of empty
cells is none. Names, macros, connections and whatever else a workbook has are `table.beside`.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import struct
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from statediff.errors import InputError, UsageError
from statediff.model.values import printable
from statediff.systems.tables.shape import number_of
from statediff.uncollected import uncollected

if TYPE_CHECKING:
    from statediff.systems.tables.cells import Cell, Sheet

SUFFIXES: Final = frozenset({".xlsx", ".xlsm"})
MAX_CONTENT: Final = 64 * 1024 * 1024
"""Bytes of a workbook's parts together, as they are when they are no longer compressed."""
MAX_PARTS: Final = 10_000
MAX_SHEETS: Final = 1000
WRITTEN_PER_BYTE: Final = 64
"""Characters of names, texts and formulas that are made of a byte: many cells may share a text, and
a row of one value has a null for each other column."""
_WRITTEN_OF_NONE: Final = 8
"""Characters of an empty cell beside the name of its column."""
SHEETS: Final = "workbook.sheet"
FORMULAS: Final = "workbook.formula"
_FAULTS: Final = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, AssertionError),
    *(OSError, EOFError, RecursionError, RuntimeError, SyntaxError, zipfile.BadZipFile),
    *(zlib.error, lzma.LZMAError, struct.error),
)
"""Errors of the reader at a file that is no workbook; a `SyntaxError` is its XML parser's, and the
last ones come from parts of the archive that are damaged.
"""


Row: TypeAlias = tuple[str, int]
"""Its first value, and a number among those that have the same."""


@dataclass
class Columns:
    """The columns of a workbook's cells beside their values."""

    texts: dict[tuple[str, str], set[bool]] = field(default_factory=dict)
    """Sheet and column → whether what is shown as text there is text, of each cell that is."""
    rows: dict[str, set[Row]] = field(default_factory=dict)
    """Sheet → its rows."""
    forms: dict[tuple[str, int], dict[Row, str]] = field(default_factory=dict)
    """Sheet and column → the format and protection of each cell that has not the usual ones."""


_LIKE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(T\d\d:.*)?|\d\d:\d\d.*|PT-?[\d.]+S|#[A-Z0-9/!?_]+", re.DOTALL
)
"""How dates, times, durations and errors are shown, and more."""


def workbook_tables(
    file: Path, before: Columns | None = None, found: Columns | None = None
) -> Mapping[str, Sequence[Any]]:
    """Table → its records. `InputError` names the file and the cell that is wrong.

    `before` are the columns of the first state, None where this is it; `found` gets those of this.
    """
    try:
        from statediff.systems.tables import cells  # noqa: PLC0415 - openpyxl is an extra
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{printable(str(file))}: workbooks need openpyxl; get it with "
            "`pip install statediff[excel]`"
        ) from error
    try:
        # What opens the file itself leaves it open where it turns out to be no workbook.
        with file.open("rb") as content, warnings.catch_warnings(), uncollected():
            warnings.simplefilter("ignore")  # of parts that are not looked at
            room = _Room(file, WRITTEN_PER_BYTE * _size(file))
            sheets = cells.sheets_of(content, MAX_SHEETS, room.take)
            return _tables(file, sheets, before, Columns() if found is None else found, room)
    except _FAULTS as error:
        raise _wrong(
            file, f"cannot be read as a workbook: {str(error.__cause__ or error)[:200]}"
        ) from error


def beside_of(file: Path) -> tuple[dict[str, str], str]:
    """All that a workbook that was read says beside its sheets, and the digest of its looks."""
    from statediff.systems.tables.leftovers import beside  # noqa: PLC0415 - as above

    try:
        with zipfile.ZipFile(file) as archive:
            return beside(archive)
    except _FAULTS as error:
        raise _wrong(file, f"cannot be read as a workbook: {str(error)[:200]}") from error


def _size(file: Path) -> int:
    """The bytes of its content, of which the file says how many there are, and reads no more."""
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
    size = sum(each.file_size for each in parts)
    if len(parts) > MAX_PARTS:
        raise _wrong(file, f"it has {len(parts)} parts, more than {MAX_PARTS}")
    if size > MAX_CONTENT:
        raise _wrong(file, f"its content has {size} bytes, more than {MAX_CONTENT}")
    return size


def _tables(
    file: Path, sheets: Iterable[Sheet], before: Columns | None, columns: Columns, room: _Room
) -> Mapping[str, Sequence[Any]]:
    listed, formulas = [], []
    tables: dict[str, Sequence[Any]] = {}
    for place, sheet in enumerate(sheets, 1):
        found: dict[str, str] = {}
        rows = _Rows(file, sheet.title, found, before, columns, room)
        if sheet.title in (SHEETS, FORMULAS):
            raise _wrong(file, f"a sheet is called {sheet.title}, as what lists them; rename it")
        tables[sheet.title] = list(rows.records(sheet.rows()))
        shown = {"id": sheet.title, "place": place, "visibility": sheet.visibility}
        beside = sheet.beside.record()
        if rows.odd:
            digest = hashlib.sha256(json.dumps(sorted(rows.odd)).encode()).hexdigest()
            beside["residue"] = {**beside["residue"], "forms": digest}
        listed.append({**shown, **beside})
        formulas += [
            {"id": f"{sheet.title}!{cell}", "formula": text} for cell, text in found.items()
        ]
    return {**tables, SHEETS: listed, FORMULAS: formulas}


@dataclass
class _Room:
    """How many more characters are made of a workbook, of all its sheets together."""

    file: Path
    characters: int

    def take(self, characters: int) -> None:
        """Before they are made. `InputError` where there is no room for them."""
        self.characters -= characters
        if self.characters < 0:
            raise _wrong(self.file, "its cells hold more than its size allows")


class _Rows:
    """The rows of one sheet; `formulas` gets the text of each by the cell's name."""

    def __init__(
        self,
        file: Path,
        sheet: str,
        formulas: dict[str, str],
        before: Columns | None,
        columns: Columns,
        room: _Room,
    ) -> None:
        self._file = file
        self._sheet = sheet
        self._formulas = formulas
        self._before = before
        self._columns = columns
        self._room = room
        self._seen = Counter[str]()
        self._usual: dict[int, set[str]] = {}
        self.odd: list[str] = []
        """By row, the cells whose format or protection is not that of the first state."""

    def records(self, rows: Iterator[tuple[int, list[Cell]]]) -> Iterator[dict[str, Any]]:
        header: list[str] = []
        written = 0
        for number, cells in rows:
            values = self._values(number, cells)
            self._look(cells)
            if number == 1:
                header = self._header(values)
                written = sum(map(len, header)) + _WRITTEN_OF_NONE * len(header)
                continue
            if not values:
                continue
            if max(values) > len(header):
                raise self._wrong(number, f"a value beyond the {len(header)} named columns")
            self._room.take(written)
            record: dict[str, Any] = dict.fromkeys(header)
            for cell in cells:
                if cell.column in values:
                    name = header[cell.column - 1]
                    record[name] = self._told(name, cell, values[cell.column])
            yield record

    def _look(self, cells: Sequence[Cell]) -> None:
        """Note the forms of a row; one that is new may have those of its columns."""
        first = next((str(cell.value) for cell in cells if cell.value is not None), "")
        self._seen[first] += 1
        row, sheet = (first, self._seen[first]), self._sheet
        self._columns.rows.setdefault(sheet, set()).add(row)
        is_known = self._before is not None and row in self._before.rows.get(sheet, ())
        odd = []
        for cell in cells:
            place = sheet, cell.column
            if cell.odd:
                self._columns.forms.setdefault(place, {})[row] = cell.odd
            if self._before is None:
                continue
            forms = self._before.forms.get(place, {})
            if cell.column not in self._usual:
                self._usual[cell.column] = {"", *forms.values()}
            usual = {forms.get(row, "")} if is_known else self._usual[cell.column]
            if cell.odd not in usual:
                odd.append((cell.column, cell.odd))
        if odd:
            said = json.dumps([first, odd])
            self.odd.append(hashlib.sha256(said.encode()).hexdigest())

    def _values(self, number: int, cells: Sequence[Cell]) -> dict[int, Any]:
        """By the column, from 1, the cells that are not empty."""
        values: dict[int, Any] = {}
        last = 0
        for cell in cells:
            if cell.row != number or cell.column <= last:
                raise self._wrong(number, f"the cell {cell.name} does not stand in its place")
            last = cell.column
            value = self._cell(cell)
            if value is not None:
                values[cell.column] = value
        return values

    def _header(self, values: Mapping[int, Any]) -> list[str]:
        names = [values.get(at) for at in range(1, len(values) + 1)]
        if not all(isinstance(name, str) and name for name in names):
            raise self._wrong(1, "expected the name of each column, as text")
        if len(set(names)) < len(names):
            raise self._wrong(1, "a column is named twice")
        return [str(name) for name in names]

    def _cell(self, cell: Cell) -> Any:
        if cell.formula is not None:
            self._room.take(len(cell.formula))
            self._formulas[cell.name] = cell.formula
            if cell.value is None:
                return {"formula": cell.formula}
        if cell.value is None:
            return None
        if isinstance(cell.value, str):  # which many cells may share
            self._room.take(len(cell.value))
        return _value(cell.value, cell.form)

    def _told(self, name: str, cell: Cell, value: Any) -> Any:
        """The value; a text where only dates, times and errors were says that it is one."""
        if not isinstance(value, str):
            return value
        column, is_text = (self._sheet, name), isinstance(cell.value, str) and not cell.is_error
        self._columns.texts.setdefault(column, set()).add(is_text)
        is_odd = is_text and self._before is not None and self._before.texts.get(column) == {False}
        return {"text": value} if is_odd and _LIKE.fullmatch(value) else value

    def _wrong(self, row: int, what: str) -> InputError:
        return _wrong(self._file, f"sheet {self._sheet}, row {row}: {what}")


def _value(value: Any, form: str) -> Any:
    """The value of a cell."""
    from openpyxl.styles.numbers import is_datetime  # noqa: PLC0415 - an extra

    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return int(value) if value.is_integer() else number_of(repr(value))
        case datetime() if is_datetime(form) == "date" and value.time() == time():
            return value.date().isoformat()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return f"PT{value / timedelta(seconds=1):.6f}S"
        case _:
            raise TypeError(f"a cell holds a {type(value).__name__}")


def _wrong(file: Path, what: str) -> InputError:
    return InputError(f"{printable(str(file))}: {printable(what)}")
