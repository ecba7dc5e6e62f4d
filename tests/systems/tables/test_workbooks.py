"""Workbooks are tables: strict kinds, formulas and values, both epochs, all sheets."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import statediff
from statediff.errors import InputError
from statediff.model.values import Map
from statediff.workspace.inputs import one_capture

openpyxl = pytest.importorskip("openpyxl")
Comment = openpyxl.comments.Comment
DataValidation = openpyxl.worksheet.datavalidation.DataValidation
UNLOCKED, HIDDEN = (
    openpyxl.styles.Protection(locked=is_locked, hidden=is_locked) for is_locked in (False, True)
)


def save(
    path: Path, rows: list[list[Any]], *, hidden: str = "visible", is_1904: bool = False
) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "sale"
    for row in rows:
        sheet.append(row)
    other = book.create_sheet("note")
    other.append(["text"])
    other.append(["kept"])
    other.sheet_state = hidden
    if is_1904:
        book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    book.save(path)
    return path


def rewritten(path: Path, member: str, pattern: str, by: str) -> Path:
    """The same workbook with something else in one of its parts."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    changed = re.sub(pattern, by, parts[member].decode())
    assert changed != parts[member].decode()
    parts[member] = changed.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


SHEET = "xl/worksheets/sheet1.xml"
ROWS: list[list[Any]] = [
    ["id", "name", "amount", "at", "day", "ok", "error"],
    [1, "Ada", 1.5, datetime(2026, 1, 5, 12), date(2026, 1, 5), True, "#DIV/0!"],  # noqa: DTZ001 - a cell has no zone
    [2, "007", 2, None, None, False, None],
]


def rows_of(path: Path, name: str) -> list[dict[str, Any]]:
    [part] = one_capture([f"book={path}"], lambda _: None).parts
    return [row for _, row in part.state.tables[name].rows()]


@pytest.mark.parametrize("is_1904", [False, True])
def test_cells_keep_their_kinds_whatever_the_epoch(tmp_path: Path, is_1904: bool) -> None:
    path = save(tmp_path / "book.xlsx", ROWS, is_1904=is_1904)
    one, two = rows_of(path, "sale")
    assert one == {
        "id": 1, "name": "Ada", "amount": Decimal("1.5"), "at": "2026-01-05T12:00:00",
        "day": "2026-01-05", "ok": True, "error": "#DIV/0!",
    }  # fmt: skip
    assert (two["name"], two["amount"], two["at"], two["ok"]) == ("007", 2, None, False)


@pytest.mark.parametrize(
    ("column", "cell", "is_other"),
    [
        (4, "2026-01-05", True), (3, "2026-01-05T12:00:00", True), (4, date(2026, 1, 5), False),
        (1, "2026-01-05", True), (6, None, True),
    ],
)  # fmt: skip
def test_a_text_that_reads_like_the_date_in_its_place_is_another_value(
    tmp_path: Path, column: int, cell: Any, is_other: bool
) -> None:
    before = save(tmp_path / "before.xlsx", ROWS)
    left = [*ROWS[1][:column], cell, *ROWS[1][column + 1 :]]
    after = save(tmp_path / "after.xlsx", [ROWS[0], left, ROWS[2]])
    changed = statediff.changes(f"book={before}", f"book={after}")
    assert bool(changed) is is_other
    for number, place in enumerate((before, after)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "book.xlsx").write_bytes(place.read_bytes())
    changed = statediff.changes(
        f"book=tables://{tmp_path / '0'}", f"book=tables://{tmp_path / '1'}"
    )
    assert bool(changed) is is_other


def test_texts_stay_texts_where_texts_were(tmp_path: Path) -> None:
    rows = [["id", "due"], [1, "2026-01-05"], [2, date(2026, 1, 6)]]
    before = save(tmp_path / "before.xlsx", rows)
    after = save(tmp_path / "after.xlsx", [*rows, [3, "2026-01-07"], [4, "soon"]])
    changed = statediff.changes(f"book={before}", f"book={after}")
    assert [each["after"]["due"] for each in changed] == ["2026-01-07", "soon"]
    dated = save(tmp_path / "dated.xlsx", [rows[0], rows[2]])
    new = save(tmp_path / "new.xlsx", [rows[0], rows[2], [3, "2026-01-07"], [4, "soon"]])
    changed = statediff.changes(f"book={dated}", f"book={new}")
    assert [each["after"]["due"] for each in changed] == [{"text": "2026-01-07"}, "soon"]


def test_a_hidden_sheet_is_read_and_hiding_one_is_a_change(tmp_path: Path) -> None:
    before = save(tmp_path / "a.xlsx", ROWS)
    after = save(tmp_path / "b.xlsx", ROWS, hidden="veryHidden")
    assert rows_of(after, "note") == [{"text": "kept"}]
    [delta] = statediff.changes(f"b={before}", f"b={after}")
    assert (delta["type"], delta["key"], delta["after"]) == ("workbook.sheet", "note", "veryHidden")


def test_a_formula_is_its_value_and_its_text_apart(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xlsx", [["id", "sum"], [1, "=1+1"]])
    assert rows_of(path, "sale") == [{"id": 1, "sum": Map.of({"formula": "=1+1"})}]
    rewritten(path, SHEET, r"<f>1\+1</f><v\s*/>|<f>1\+1</f><v></v>", "<f>1+1</f><v>2</v>")
    assert rows_of(path, "sale") == [{"id": 1, "sum": 2}]
    constant = save(tmp_path / "b.xlsx", [["id", "sum"], [1, 2]])
    [delta] = statediff.changes(f"b={path}", f"b={constant}")
    assert (delta["op"], delta["type"], delta["key"]) == ("delete", "workbook.formula", "sale!B2")


def test_rows_beyond_the_size_that_the_file_claims_are_read(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xlsx", ROWS)
    rewritten(path, SHEET, r'<dimension ref="[^"]*"', '<dimension ref="A1:A2"')
    assert len(rows_of(path, "sale")) == 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [([["id", "id"], [1, 2]], "sheet sale, row 1: a column is named twice"),
     ([["id", None, "b"], [1, 2, 3]], "row 1: expected the name of each column"),
     ([["id"], [1, 2]], "row 2: a value beyond the 1 named columns")],
)  # fmt: skip
def test_what_is_no_table_is_named(tmp_path: Path, rows: list[list[Any]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        rows_of(save(tmp_path / "a.xlsx", rows), "sale")


def test_what_is_no_workbook_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"PK no zip")
    with pytest.raises(InputError, match="cannot be read as a workbook"):
        rows_of(path, "sale")
    for part, old, new in (
        (SHEET, "</sheetData>", "</wrong>"),
        ("xl/workbook.xml", "</workbook>", "</wrong>"),
        ("[Content_Types].xml", "</Types>", "</wrong>"),
    ):
        broken = rewritten(save(path, ROWS), part, old, new)
        with pytest.raises(InputError, match="cannot be read as a workbook") as caught:
            rows_of(broken, "sale")
        links = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
        assert broken not in links, caught.value  # closed while the error is still there


def test_a_part_that_cannot_be_unpacked_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xlsx", ROWS)
    with zipfile.ZipFile(path) as archive:
        read = [e for e in archive.infolist() if e.filename in (SHEET, "xl/workbook.xml")]
    content = path.read_bytes()
    for part in read:
        at = part.header_offset + 30 + len(part.filename)
        path.write_bytes(content[:at] + b"\xff" * 4 + content[at + 4 :])
        with pytest.raises(InputError, match="cannot be read as a workbook"):
            rows_of(path, "sale")


def test_in_a_folder_sheets_have_the_name_of_their_file(tmp_path: Path) -> None:
    save(tmp_path / "one.xlsx", ROWS)
    save(tmp_path / "two.xlsx", ROWS)
    [part] = one_capture([f"t=tables://{tmp_path}"], lambda _: None).parts
    assert {"one.sale", "two.sale"} <= set(part.state.tables)


def with_beside(path: Path, change: Callable[[Any], None]) -> Path:
    """The workbook after a change to its first sheet, written by openpyxl."""
    book = openpyxl.load_workbook(path)
    change(book.worksheets[0])
    book.save(path)
    return path


def _link(sheet: Any) -> None:
    sheet["B2"].hyperlink = "https://elsewhere.example/"


BESIDE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a hidden row": ("hidden_rows", lambda s: setattr(s.row_dimensions[2], "hidden", True)),
    "a hidden column": ("hidden_columns", lambda s: setattr(s.column_dimensions["A"], "hidden", 1)),
    "a comment": ("comments", lambda s: setattr(s["A2"], "comment", Comment("paid?", "Eve"))),
    "a link": ("links", _link),
    "merged cells": ("residue", lambda s: s.merge_cells("I1:J2")),
    "a filter": ("residue", lambda s: setattr(s.auto_filter, "ref", "A1:A2")),
    "protection": ("residue", lambda s: s.protection.enable()),
    "a format": ("residue", lambda s: setattr(s["C2"], "number_format", '"1,000"')),
    "a format of a column": (
        "residue",
        lambda s: [setattr(s[f"C{n}"], "number_format", ";;;") for n in (2, 3)],
    ),
    "a format of a name": ("residue", lambda s: setattr(s["B1"], "number_format", ";;;")),
    "a cell without its lock": ("residue", lambda s: setattr(s["C3"], "protection", UNLOCKED)),
    "a hidden formula": ("residue", lambda s: setattr(s["C3"], "protection", HIDDEN)),
    "a validation": ("residue", lambda s: s.add_data_validation(DataValidation("list", '"a,b"'))),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_a_sheet_says_beside_its_cells_is_a_change(name: str, tmp_path: Path) -> None:
    before = with_beside(save(tmp_path / "a.xlsx", ROWS), lambda _: None)
    field, change = BESIDE[name]
    after = with_beside(save(tmp_path / "b.xlsx", ROWS), change)
    changed = statediff.changes(f"b={before}", f"b={after}")
    changed = [each for each in changed if each["type"] != "table.residue"]  # the comment's box
    assert {each["type"] for each in changed} <= {"workbook.sheet"}
    assert {re.split(r"\W", each["path"])[0] for each in changed} == {field}, changed


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    before = with_beside(save(tmp_path / "a.xlsx", ROWS), _link)
    rewritten(
        with_beside(save(tmp_path / "b.xlsx", ROWS), _link),
        "xl/worksheets/_rels/sheet1.xml.rels",
        "elsewhere",
        "evil",
    )
    [change] = statediff.changes(f"b={before}", f"b={tmp_path / 'b.xlsx'}")
    assert "evil" in str(change["after"])


@pytest.mark.parametrize("form", ["0.00", "General"])
def test_a_row_that_looks_like_the_others_or_plain_is_only_a_row(tmp_path: Path, form: str) -> None:
    def show(sheet: Any) -> None:
        for cell, of in zip(("C2", "C3", "C4"), ("0.00", "0.00", form), strict=True):
            sheet[cell].number_format = of

    before = with_beside(save(tmp_path / "a.xlsx", ROWS), show)
    more = [3, "Cleo", 7, *ROWS[1][3:]]
    after = with_beside(save(tmp_path / "b.xlsx", [*ROWS, more]), show)
    changed = statediff.changes(f"b={before}", f"b={after}")
    assert {each["type"] for each in changed} - {"table.residue"} == {"sale"}
    plain = save(tmp_path / "c.xlsx", ROWS)
    changed = statediff.changes(f"b={before}", f"b={plain}")
    assert {each["type"] for each in changed} - {"table.residue"} == {"workbook.sheet"}


def test_how_a_sheet_looks_is_no_change(tmp_path: Path) -> None:
    before = with_beside(save(tmp_path / "a.xlsx", ROWS), lambda _: None)

    def look(sheet: Any) -> None:
        sheet.column_dimensions["A"].width = 40
        sheet.sheet_view.zoomScale = 150
        sheet.page_margins.left = 2

    after = with_beside(save(tmp_path / "b.xlsx", ROWS), look)
    assert statediff.changes(f"b={before}", f"b={after}") == ()
