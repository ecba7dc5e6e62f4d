"""The cells of a workbook as openpyxl reads them: each once, and only those that are written.

openpyxl's own rows have a cell for every place up to the last one named, leave out what stands in
no order, and write a formula that many cells share anew for each, however long it is. So its parser
of cells is used, and the elements of a sheet are walked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, Self

from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.reader.excel import ExcelReader
from openpyxl.worksheet._reader import FORMULA_TAG, ROW_TAG, WorkSheetParser
from openpyxl.xml.constants import ARC_STYLE
from openpyxl.xml.functions import iterparse

from statediff.systems.tables.leftovers import Leftovers, local

Take = Callable[[int], None]
"""Is asked for room for so many characters before they are made; raises where there is none."""
_WORK_OF_A_SHARE: Final = 16
"""The cost of a character of a formula that is written for one more cell, in characters."""
_MOST_COLUMNS: Final = 16_384
"""The most columns of a row; Excel has no more."""
_WHOLE_LEVELS: Final = 2
"""A worksheet and its rows: what is in these goes when it was looked at, so that memory is that of
one row."""


_MOST_OF_FORMAT: Final = 1000
"""Characters of a number format; Excel takes 255."""
_DAY: Final = r"(y+{0}m+{0}d+|d+{0}m+{0}y+|m+{0}d+{0}y+)".format(r"\\?[-/. ]")
_HOUR: Final = r"\[?h+\]?:mm(:ss(\.0+)?)?( am/pm)?"
_USUAL: Final = re.compile(rf"general|{_DAY}|{_HOUR}|{_DAY}[\\ t]+{_HOUR}", re.IGNORECASE)
"""Number formats that programs give by themselves, and that change no value that is shown."""
_BLOCK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is written: its place from 1, what it shows, the formula, the number format."""

    row: int
    column: int
    name: str
    value: Any
    formula: str | None
    form: str
    is_error: bool
    odd: str
    """The number format, and what a protected sheet keeps of it; empty where that is usual."""


class Sheet:
    """One sheet; `rows` reads it."""

    def __init__(self, sheet: Any, take: Take) -> None:
        self.title = str(sheet.title)
        self.visibility = str(sheet.sheet_state)
        self._sheet = sheet
        self._take = take
        self._styles: dict[int, str] = {}
        book = sheet.parent
        self.beside = Leftovers(book._archive, sheet._worksheet_path, take)  # noqa: SLF001
        """The sheet beside its cells, once `rows` is through."""

    def rows(self) -> Iterator[tuple[int, list[Cell]]]:
        """Each row that is written, with its number. `ValueError` where their order is wrong."""
        sheet, book, last = self._sheet, self._sheet.parent, 0
        with sheet._get_source() as source:  # noqa: SLF001 - as the library's own rows
            parser = _Parser(
                source,
                sheet._shared_strings,  # noqa: SLF001
                data_only=True,
                epoch=book.epoch,
                date_formats=book._date_formats,  # noqa: SLF001
                timedelta_formats=book._timedelta_formats,  # noqa: SLF001
            )
            parser.take = self._take
            above: list[Any] = []
            for event, element in iterparse(source, events=("start", "end")):
                if event == "start":
                    above.append(element)
                    continue
                above.pop()
                if element.tag == ROW_TAG:
                    number, cells = parser.parse_row(element)
                    if number <= last:
                        raise ValueError(f"sheet {self.title}: row {number} is not in its place")
                    last = number
                    self.beside.row(element, number)
                    yield number, [self._cell(each) for each in cells]
                if len(above) == _WHOLE_LEVELS:
                    self.beside.see(local(above[-1].tag), element)
                elif len(above) == 1:
                    self.beside.end(element)
                if 0 < len(above) <= _WHOLE_LEVELS:
                    above[-1].remove(element)  # it is the first one there
                elif above and len(above[-1]) > _MOST_COLUMNS:
                    raise ValueError(f"sheet {self.title}: more than {_MOST_COLUMNS} columns")

    def _odd(self, cell: Any) -> str:
        style = cell._style_id  # noqa: SLF001
        if style not in self._styles:
            form, kept = str(cell.number_format), cell.protection
            is_usual = _USUAL.fullmatch(form) and kept.locked and not kept.hidden
            said = json.dumps([form, bool(kept.locked), bool(kept.hidden)])
            self._styles[style] = "" if is_usual else said
        return self._styles[style]

    def _cell(self, found: dict[str, Any]) -> Cell:
        formula = found.pop("formula")
        cell = ReadOnlyCell(self._sheet, **found)
        return Cell(
            row=cell.row,
            column=cell.column,
            name=cell.coordinate,
            value=cell.value,
            formula=formula,
            form="" if cell.value is None else str(cell.number_format),
            is_error=cell.data_type == "e",
            odd=self._odd(cell),
        )


def sheets_of(content: IO[bytes], most: int, take: Take) -> Iterator[Sheet]:
    """The sheets in their order. `ValueError` where there are more, or two of one part."""
    reader = _Reader(content)
    reader.most = most
    reader.read()
    return (Sheet(each, take) for each in reader.wb.worksheets)


class _Reader(ExcelReader):
    """The library's reader; it looks at each sheet's part while it opens the workbook."""

    most: int

    def __init__(self, content: IO[bytes]) -> None:
        super().__init__(content, read_only=True, data_only=True, keep_links=False)
        opened = self.archive.open
        vars(self.archive)["open"] = lambda *args: _Blocks(opened(*args))

    def read_theme(self) -> None:
        """Read nothing of the theme; and the formats, before the library takes each apart."""
        if ARC_STYLE not in self.valid_files:
            return
        for _, element in iterparse(self.archive.open(ARC_STYLE)):
            if len(element.get("formatCode", "")) > _MOST_OF_FORMAT:
                raise ValueError(f"a number format of more than {_MOST_OF_FORMAT} characters")

    def read_worksheets(self) -> None:
        parts = [rel.target for _, rel in self.parser.find_sheets()]
        if len(parts) > self.most:
            raise ValueError(f"it has more than {self.most} sheets")
        if len(set(parts)) < len(parts):
            raise ValueError("two of its sheets are one part")
        super().read_worksheets()


class _Blocks:
    """A part that is read in large blocks: expat begins a long text anew at each of them."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.close = source.close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int = -1) -> bytes:
        return self._source.read(size if size < 0 else max(size, _BLOCK))


class _Parser(WorkSheetParser):
    """A parser that delivers a cell's value and its formula at once."""

    take: Take

    def parse_cell(self, element: Any) -> dict[str, Any]:
        """As the library delivers it, with the text of its `formula` or None."""
        cell = super().parse_cell(element)
        written = element.find(FORMULA_TAG)
        if written is None:
            return {**cell, "formula": None}
        shared = self.shared_formulae.get(written.get("si"))
        if shared is not None:
            self.take(_WORK_OF_A_SHARE * len(shared.tokenizer.formula))
        formula = self.parse_formula(element)  # type: ignore[no-untyped-call]
        if not isinstance(formula, str):  # of an array, or of a table of what would be if
            formula = getattr(formula, "text", None) or json.dumps(dict(formula))
        return {**cell, "formula": formula}
