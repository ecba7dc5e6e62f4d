"""How the work of reading and judging grows with the sizes that an agent or an author chooses.

    python -m lab.benchmarks.growth [CASE...]

Each case makes content of a size: letters, calendars, cards, workbooks, YAML, tables and JSON
values in which one thing is multiplied by another if a reader is careless. The exponent is the
slope of a straight line through the logarithms of bytes and of processor time, each the least of
three; the clock does not count, so that other programs hardly matter. 1 is linear.

Other cases have as many clauses as changed rows, where each clause fixes its row, or one clause
about very many changed rows.
"""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import json
import math
import sqlite3
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from statediff_office.calendars.contacts import contact_row
from statediff_office.calendars.items import item_rows
from statediff_office.mail.parsing import MAX_NESTING, parse_message

import statediff
from statediff.contract.yaml.reader import read_document
from statediff.errors import ContractError, InputError
from statediff.systems.tables.exports import exported
from statediff.systems.tables.shape import parse_tables, tables_after

SIZES: Final = (20_000, 40_000, 80_000, 160_000, 320_000, 640_000)
REPEATS: Final = 3
MOST: Final = 1.1
"""The exponent that is allowed."""
CLAUSES: Final = (100, 200, 400, 700, 1_000)
CHANGED: Final = (3_000, 10_000, 30_000, 100_000)
MOST_OF_CLAUSES: Final = 1.15
CONTRACT: Final = """\
contract: bench/growth
version: 1.0.0
owner: bench
intent: One value changes and nothing else.
require:
  - {id: changed, update: t, where: it.id == 0}
"""


@dataclass(frozen=True)
class Case:
    """A name, a maker of bytes of a size, and a reader of them."""

    name: str
    make: Callable[[int], Any]
    read: Callable[[Any], object]
    size: Callable[[Any], int] = len
    sizes: Sequence[int] = SIZES
    most: float = MOST


# ---------------------------------------------------------------- letters

_HEAD: Final = b"From: a@example.org\nMIME-Version: 1.0\n"


def nested_letter(size: int, line: bytes) -> bytes:
    """A letter whose parts are nested the deeper, the larger it is, with a text at the bottom."""
    levels = min(MAX_NESTING - 1, max(1, size // 20_000))
    around = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (each, each)
        for each in range(levels)
    )
    text = line * ((size - len(around)) // len(line))
    return _HEAD + around + b"Content-Type: text/plain\n\n" + text


def too_deep(size: int) -> bytes:
    """A letter of nothing but levels."""
    return nested_letter(size // 2, b"x\n").replace(
        b"Content-Type: text/plain", b"Content-Type: multipart/mixed; boundary=c\n\n--c\n" * 9999, 1
    )[:size]


def letter_of_parts(size: int, part: bytes, before: bytes = b"") -> bytes:
    """A letter of so many parts; `before` stands in front of the first."""
    many = max(1, min(190, (size - len(before)) // (len(part) + 5)))
    parts = b"".join(b"\n--b\n" + part for _ in range(many))
    head = _HEAD + b'Content-Type: multipart/mixed; boundary="b"\n\n'
    return head + before + parts + b"\n--b--\n"


def _with_heads(parameter: bytes) -> Callable[[int], bytes]:
    return lambda size: letter_of_parts(size, b"Content-Type: text/plain; " + parameter + b"\n\nhi")


# ---------------------------------------------------------------- calendars and cards


def _event(body: str) -> str:
    head = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\n"
    return f"{head}{body}END:VEVENT\r\nEND:VCALENDAR\r\n"


def _card(body: str) -> str:
    return f"BEGIN:VCARD\nVERSION:3.0\nUID:1\n{body}\nEND:VCARD\n"


def _parameters(size: int) -> str:
    return "X-A" + "".join(f";a{each}=b" for each in range(size // 9)) + ":v"


def _nested_alarms(size: int) -> str:
    levels = size // 100
    text = "X-A:b\r\n" * (size // 20)
    return _event("BEGIN:VALARM\r\n" * levels + text + "END:VALARM\r\n" * levels)


def _said_of_all(size: int) -> str:
    """Half of the bytes are components, and half are a line that belongs to each of them."""
    others = "END:VEVENT\r\nBEGIN:VEVENT\r\nUID:1\r\n" * (size // 80)
    last = f"END:VEVENT\r\nX-A:{'a' * (size // 2)}\r\nBEGIN:VEVENT\r\nUID:2\r\n"
    return _event(others + last)


def _item(text: str) -> None:
    with contextlib.suppress(ValueError):  # what it is refused for costs no more
        item_rows("c", "n", text)


def _contact(text: str) -> None:
    with contextlib.suppress(ValueError):
        contact_row("c", "n", text)


# ---------------------------------------------------------------- workbooks

_SPACE: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SHEET: Final = "xl/worksheets/sheet1.xml"
_TEXTS: Final = "xl/sharedStrings.xml"


@cache
def _parts() -> dict[str, bytes]:
    """The parts of a workbook, which names one more, of texts that cells share."""
    from openpyxl import Workbook  # noqa: PLC0415 - an extra

    content = io.BytesIO()
    Workbook().save(content)
    with zipfile.ZipFile(content) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    form = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    part = f'<Override PartName="/{_TEXTS}" ContentType="{form}"/></Types>'
    types = parts["[Content_Types].xml"].replace(b"</Types>", part.encode())
    return {**parts, "[Content_Types].xml": types}


def _workbook(rows: str, after: str = "", text: str = "id") -> Path:
    """A workbook of one sheet with these rows below its head, and with one text."""
    head = '<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c></row>'
    data = f"<sheetData>{rows if rows.startswith('<row r=') else head + rows}</sheetData>"
    with tempfile.NamedTemporaryFile(suffix=".xlsx", delete=False) as file:
        place = Path(file.name)
    made = {
        _SHEET: f'<worksheet xmlns="{_SPACE}">{data}{after}</worksheet>'.encode(),
        _TEXTS: f'<sst xmlns="{_SPACE}"><si><t>{text}</t></si></sst>'.encode(),
    }
    with zipfile.ZipFile(place, "w") as archive:
        for name, content in {**_parts(), **made}.items():
            archive.writestr(name, content)
    return place


def _long_and_wide(size: int) -> Path:
    """Half of the bytes name columns, and half are rows with one value."""
    columns = range(size // 100)
    names = "".join(f'<c t="inlineStr"><is><t>c{each}</t></is></c>' for each in columns)
    rows = "<row><c><v>1</v></c></row>" * (size // 54)
    return _workbook(f'<row r="1">{names}</row>{rows}')


def _formulas(size: int) -> Path:
    """Half of the bytes are a formula, and half are cells that share it."""
    formula = "A1+" * (size // 6) + "A1"
    first = f'<row><c r="A2"><f t="shared" si="0">{formula}</f><v>1</v></c></row>'
    return _workbook(first + '<row><c><f t="shared" si="0"/><v>1</v></c></row>' * (size // 100))


def _sheets(place: Path) -> None:
    from statediff.systems.tables.workbooks import workbook_tables  # noqa: PLC0415 - an extra

    with contextlib.suppress(InputError):
        workbook_tables(place)


# ---------------------------------------------------------------- YAML and tables


def _yaml(text: str) -> None:
    with contextlib.suppress(ContractError):
        read_document(text.encode(), "a.yaml")


def _csv(text: str) -> Path:
    with tempfile.NamedTemporaryFile(suffix=".csv", delete=False) as file:
        file.write(text.encode())
    return Path(file.name)


def _exported(place: Path) -> None:
    with contextlib.suppress(InputError):
        parse_tables(exported(place)[0], "a.csv")


def _tables(text: str) -> None:
    with contextlib.suppress(InputError):
        tables_after(text.encode(), "after.json")


def _record(value: str) -> str:
    return f'{{"t": [{{"a": {value}}}]}}'


def _columns(size: int) -> Path:
    columns = range(size // 14)
    names = ",".join(f"c{each}" for each in columns)
    return _csv(f"{names}\n{','.join('1' for _ in columns)}\n")


def _laughs(size: int) -> str:
    levels = range(1, size // 30)
    return "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in levels)


# ---------------------------------------------------------------- JSON


@dataclass(frozen=True)
class Pair:
    """Two states that a judge compares: one is kept, and the other is new."""

    contract: str
    judge: statediff.Judge
    folder: Path
    size: int

    def score(self) -> None:
        """The state after under the judge that is kept."""
        self.judge.judge(f"db={self.folder / 'after'}")

    def judge_once(self) -> None:
        """Both states, from the beginning."""
        before, after = (f"db={self.folder / name}" for name in ("before", "after"))
        statediff.judge(self.contract, before, after)


def _pair(contract: str, size: int, sides: Iterable[Sequence[Sequence[Any]]]) -> Pair:
    """Two databases of one table with these rows."""
    folder = Path(tempfile.mkdtemp(prefix="statediff-growth-"))
    for name, rows in zip(("before", "after"), sides, strict=True):
        with closing(sqlite3.connect(folder / name)) as base:
            base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, doc JSON, n INTEGER, code TEXT)")
            base.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
            base.commit()
    return Pair(contract, statediff.Judge(contract, f"db={folder / 'before'}"), folder, size)


def _judged(before: Any, after: Any) -> Pair:
    texts = json.dumps(before), json.dumps(after)
    return _pair(CONTRACT, len(texts[1]), [[(0, text, 0, "")] for text in texts])


def _flood(size: int) -> Pair:
    """As many numbers changed inside one value as there are bytes, by a measure."""
    places = size // 800
    pad = list(range(100_000, 100_000 + size // 8))
    before = {"pad": pad, "c": list(range(places))}
    return _judged(before, {**before, "c": [each + 1 for each in before["c"]]})


def _members(size: int) -> Pair:
    """The same of an object with many members."""
    before = {f"k{each:07}": each for each in range(size // 20)}
    changed = dict.fromkeys(list(before)[: size // 800], -1)
    return _judged(before, {**before, **changed})


def _taken_out(size: int) -> Pair:
    """An item taken out of the middle of a list, so that all behind it move."""
    before = [{"id": each, "v": f"x{each:07}"} for each in range(size // 800)]
    pad = "x" * (size - len(json.dumps(before)))
    half = len(before) // 2
    return _judged([pad, before], [pad, before[:half] + before[half + 1 :]])


# ---------------------------------------------------------------- clauses by changed rows


def _fixed(size: int, section: str, clause: str) -> Pair:
    """So many clauses, each about one of so many changed rows; `0` in a clause is its number."""
    clauses = "".join(f"  - {{{clause.replace('0', str(n))}}}\n" for n in range(1, size + 1))
    more = "" if section == "require" else "require:\n  - {update: t, where: it.id == 1}\n"
    if section == "forbid":
        more += "allow:\n  - {update: t}\n"
    head, _, _ = CONTRACT.partition("require:")
    rows = range(2 * CLAUSES[-1])
    before = [(n, None, 0, f"k{n}") for n in rows]
    after = [(n, None, n if n <= size else 0, f"k{n}") for n in rows]
    return _pair(f"{head}{section}:\n{clauses}{more}", size, [before, after])


def _bulk(size: int, clause: str) -> Pair:
    """So many changed rows, each with a row in another table that says it may be so."""
    folder = Path(tempfile.mkdtemp(prefix="statediff-growth-"))
    head, _, _ = CONTRACT.partition("require:")
    contract = f"{head}{clause}"
    if "require:" not in clause:
        contract += "require:\n  - {update: t, set: {n: 1}, count: {min: 1}}\n"
    for name, n in (("before", 0), ("after", 1)):
        with closing(sqlite3.connect(folder / name)) as base:
            base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, of INTEGER)")
            base.execute(
                "CREATE TABLE a (id INTEGER PRIMARY KEY, t INTEGER REFERENCES t, ok INTEGER)"
            )
            rows = range(size)
            base.executemany("INSERT INTO t VALUES (?, ?, ?)", ((i, n, i) for i in rows))
            base.executemany("INSERT INTO a VALUES (?, ?, 1)", ((i, i) for i in rows))
            base.commit()
    return Pair(contract, statediff.Judge(contract, f"db={folder / 'before'}"), folder, size)


_REQUIRED: Final = "require:\n  - {id: r, update: t, set: {n: 1}, count: {min: 1}, that: '"
_BULK: Final = {
    "with one value": "forbid:\n  - {update: t, where: new.n == 2}\n",
    "all counted": _REQUIRED + "count(u for u in updated.t if u.n == 1) >= 1'}\n",
    "all added up": _REQUIRED + "sum(u.n for u in updated.t) >= 1'}\n",
    "each approved": _REQUIRED
    + "all(any(a.t.id == u.id and a.ok == 1 for a in before.a) for u in updated.t)'}\n",
    "each counted for": _REQUIRED
    + "all(count(a for a in after.a if a.t.id == u.id) == 1 for u in updated.t)'}\n",
    "each below some": _REQUIRED + "all(any(a.ok >= u.n for a in after.a) for u in updated.t)'}\n",
    "by authorization": "effects:\n  - {on: update t, authorized_by: "
    "'any(a.t.id == it.id and a.ok == 1 for a in before.a)'}\n",
    "derived": "derive:\n  - {id: d, field: t.n, because: it follows, is: "
    "'count(a for a in after.a if a.t.id == it.id)'}\n"
    "require:\n  - {id: r, update: t, where: it.id == 0, set: {n: 1}}\n",
}
_FIXED: Final = {
    "by its key": ("require", "update: t, where: it.id == 0"),
    "by another field": ("require", "update: t, where: 'it.code == \"k0\"'"),
    "by what is set": ("require", "update: t, set: {n: 0}"),
    "that asks for another value": ("require", "update: t, where: it.id == 0, set: {n: -1}"),
    "by its key, in an allow clause": ("allow", "update: t, where: it.id == 0"),
    "by what was, in an allow clause": ("allow", "update: t, from: {code: k0}, fields: [n, code]"),
    "in vain, in a forbid clause": ("forbid", "update: t, where: it.id == 9990000"),
}


def _size_of_file(place: Path) -> int:
    return place.stat().st_size


def _size_of_pair(pair: Pair) -> int:
    return pair.size


_LETTERS: Final = {
    "nested letters": lambda size: nested_letter(size, b"x\n"),
    "nested letters of dashes": lambda size: nested_letter(size, b"--x\n"),
    "nothing but levels": too_deep,
    "space before the parts": lambda size: letter_of_parts(
        size, b"\nhi", b" " * (size - 100) + b"x"
    ),
    "escaped quotes in heads": _with_heads(b'x="' + b'\\"' * 1900),
    "a long name in heads": _with_heads(b"0" * 3900),
    "parameters in heads": _with_heads(b"".join(b"; a%d=b" % each for each in range(190))),
    "pieces of a boundary": lambda size: (
        _HEAD
        + b"Content-Type: multipart/mixed"
        + b"".join(b';\n b*%d="b"' % each for each in range(size // 12))
        + b"\n\nhi\n"
    ),
    "boundaries that begin alike": lambda size: (
        _HEAD
        + b"".join(
            b'Content-Type: multipart/mixed; boundary="%s"\n\n--%s\n' % (b"b" * each, b"b" * each)
            for each in range(1, MAX_NESTING - 1)
        )
        + b"\n"
        + b"".join(b"--%s-\n" % (b"b" * (each % 40)) for each in range(size // 25))
    ),
    "heads": lambda size: b"X-A: b\n" * (size // 7) + b"\nhi",
}
_CALENDARS: Final = {
    "parameters of a line": lambda size: _event(_parameters(size) + "\r\n"),
    "nested alarms": _nested_alarms,
    "a rule of many days": lambda size: _event(
        f"RRULE:FREQ=DAILY;BYDAY={'MO,' * (size // 3)}MO\r\n"
    ),
    "what is said of all components": _said_of_all,
}
_CARDS: Final = {
    "a long category": lambda size: _card("CATEGORIES:" + "a" * size),
    "parts of an address": lambda size: _card("ADR:" + "a;" * (size // 2)),
}
_SHEETS: Final = {
    "cells in the last column": lambda size: _workbook(
        "".join(f'<row r="{n}"><c r="XFD{n}"/></row>' for n in range(2, size // 36))
    ),
    "columns by rows": _long_and_wide,
    "rows of one long text": lambda size: _workbook(
        '<row><c t="s"><v>0</v></c></row>' * (size // 68), text="x" * (size // 2)
    ),
    "a long formula that is shared": _formulas,
    "a long list of places": lambda size: _workbook(
        "", f'<conditionalFormatting sqref="{"A1 " * (size // 3)}"/>'
    ),
}
_YAML: Final = {
    "aliases of aliases": _laughs,
    "deep brackets": lambda size: "a: " + "[\n " * (size // 3),
    "a long key": lambda size: "k" * size + ": 1",
    "a long text": lambda size: "a: " + "k " * (size // 2),
    "keys twice": lambda size: "a: 1\n" * (size // 5),
    "a long list in brackets": lambda size: f"a: [{'abc def, ' * (size // 9)}]",
}
_CSV: Final = {
    "one line": lambda size: _csv("a\n" + "x" * size),
    "a quote that nothing closes": lambda size: _csv('a\n"' + "x,\n" * (size // 3)),
    "columns": _columns,
}
_JSON: Final = {
    "lists in lists": lambda size: _record(f"[{','.join(['[' * 55 + ']' * 55] * (size // 111))}]"),
    "keys that are alike": lambda size: _record(
        json.dumps({f"{'k' * 40}{each}": 1 for each in range(size // 50)})
    ),
    "numbers out of range": lambda size: _record(f"[{','.join(['1e400'] * (size // 6))}]"),
    "a number": lambda size: _record("1" * size),
}
CASES: Final = (
    *(Case(f"mail: {name}", make, parse_message) for name, make in _LETTERS.items()),
    *(Case(f"calendars: {name}", make, _item) for name, make in _CALENDARS.items()),
    *(Case(f"cards: {name}", make, _contact) for name, make in _CARDS.items()),
    *(Case(f"sheets: {name}", make, _sheets, _size_of_file) for name, make in _SHEETS.items()),
    *(Case(f"YAML: {name}", make, _yaml) for name, make in _YAML.items()),
    *(Case(f"CSV: {name}", make, _exported, _size_of_file) for name, make in _CSV.items()),
    *(Case(f"JSON: {name}", make, _tables) for name, make in _JSON.items()),
    Case("JSON: places by bytes", _flood, Pair.score, _size_of_pair),
    Case("JSON: members by bytes", _members, Pair.score, _size_of_pair),
    Case("JSON: an item taken out", _taken_out, Pair.score, _size_of_pair),
    *(
        Case(
            f"a row {name}{how}",
            partial(_fixed, section=where, clause=clause),
            read,
            _size_of_pair,
            CLAUSES,
            MOST_OF_CLAUSES,
        )
        for name, (where, clause) in _FIXED.items()
        for how, read in (("", Pair.score), (", once", Pair.judge_once))
    ),
    *(
        Case(
            f"changed rows, {name}",
            partial(_bulk, clause=clause),
            Pair.judge_once,
            _size_of_pair,
            CHANGED,
            MOST_OF_CLAUSES,
        )
        for name, clause in _BULK.items()
    ),
)


def points(case: Case, sizes: Sequence[int] = ()) -> Iterator[list[tuple[int, float]]]:
    """(bytes, seconds of the processor) of each size, the least so far, again and again.

    The sizes are measured in turn, so that what else the machine does meets all of them.
    """
    made = [case.make(size) for size in sizes or case.sizes]
    least = [math.inf] * len(made)
    gc.collect()
    gc.freeze()
    try:
        while True:
            for at, each in enumerate(made):
                began = time.process_time()
                case.read(each)
                least[at] = min(least[at], time.process_time() - began)
            yield [(case.size(each), took) for each, took in zip(made, least, strict=True)]
    finally:
        gc.unfreeze()


def exponent(found: Sequence[tuple[int, float]]) -> float:
    """The slope of the straight line through the logarithms.

    >>> round(exponent([(10, 1.0), (100, 100.0)]), 6)
    2.0
    """
    logs = [(math.log(size), math.log(max(seconds, 1e-6))) for size, seconds in found]
    middle = [sum(values) / len(logs) for values in zip(*logs, strict=True)]
    across = sum((x - middle[0]) ** 2 for x, _ in logs)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in logs) / across


def main(names: Sequence[str]) -> int:
    """Prints a line a case; 1 where one grows faster than is allowed."""
    is_worse = False
    for case in CASES:
        if names and not any(case.name.startswith(name) for name in names):
            continue
        *_, found = itertools.islice(points(case), REPEATS)
        slope = exponent(found)
        is_worse |= slope > case.most
        shown = "  ".join(f"{seconds * 1000:.1f}" for _, seconds in found)
        print(f"{case.name:42} exponent {slope:.2f}   ms: {shown}", flush=True)
    return int(is_worse)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
