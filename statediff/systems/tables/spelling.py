"""The residue of a file of records: how they are spelled, and what stands beside them.

A part that is left out says that the file is what a program writes by default. The order is left
out where the first column rises.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final

import pyarrow as pa

_WRITTEN: Final = re.compile(rb"ARROW:schema|PARQUET:field_id|writer\.(?!time\.zone).*")
"""What programs write into each file of Parquet, whatever its columns mean."""
_BLANKS: Final = ("", '""')
_SHORT: Final = frozenset({"columns", "ends"})
_IS_ODD: Final = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]*0|-0").fullmatch
_FIXED: Final = re.compile(r"(?!-0\.0*\Z)-?[0-9]+\.[0-9]+").fullmatch
_QUOTED: Final = re.compile(r'[",\t\r\n]')
"""The characters because of which a cell is quoted."""
_INDEX: Final = {"kind": "range", "name": None, "start": 0, "step": 1}
_NO_INDEX: Final[tuple[list[Any], ...]] = ([[], [_INDEX]], [[], [[None, "unicode"]]], [None, {}])
"""What pandas says of rows that are only counted, and of columns that only have names."""


def residue_of(
    raw: bytes, delimiter: str, rows: Sequence[Sequence[str]], numbers: set[str]
) -> dict[str, bytes]:
    """The parts of a file of CSV: `ends`, `columns`, `order`, `numbers`; or all of it, `layout`."""
    header, ends = rows[0], "\r\n" if raw.endswith(b"\r\n") else "\n"
    made = io.StringIO(newline="")
    csv.writer(made, delimiter=delimiter, lineterminator=ends).writerows(rows)
    if not header or made.getvalue().encode() != raw:
        return {"layout": raw}
    odd = [each for n, name in enumerate(header) if name in numbers for each in _odd(n, rows[1:])]
    parts = {"ends": ends.encode()} if ends != "\n" else {}
    parts |= {} if list(header) == sorted(header) else {"columns": json.dumps(header).encode()}
    parts |= _order(rows[1:], are_numbers=header[0] in numbers)
    return parts | ({"numbers": json.dumps(odd).encode()} if odd else {})


def shown(parts: Mapping[str, bytes]) -> dict[str, str]:
    """The parts as a record has them: short ones as they are, the others by their digest."""
    return {n: said.decode() if n in _SHORT else _digest(said) for n, said in parts.items()}


def odd_blanks(text: str, delimiter: str) -> str | None:
    """The digest of the empty cells that are quoted where their column is not, or the reverse.

    Some programs read a quoted one as an empty text, and the other as none. A row of one column
    that has no quotes is none at all.
    """
    rows: list[list[str]] = [[]]
    cells = rf'("[^"]*(?:""[^"]*)*"|[^\n\r{delimiter}]*)({delimiter}|\r?\n|\Z)'
    for spelled, end in re.findall(cells, text):
        rows[-1].append(spelled)
        if end != delimiter:
            rows.append([])
    header, width = rows[0], len(rows[0])
    rows = [row for row in rows[1:] if len(row) == width > 1]
    odd = []
    for name, column in zip(header, zip(*rows, strict=True), strict=False):
        free = [cell for cell in column if cell.strip('"') and not re.search(_QUOTED, cell[1:-1])]
        usual = _BLANKS[all(cell[:1] == '"' for cell in free or [name])]
        blank = [n for n, cell in enumerate(column) if cell in _BLANKS and cell != usual]
        odd += [(rows[n][0].strip('"'), name.strip('"')) for n in blank]
    return _digest(sorted(odd)) if odd else None


def residue_of_lines(raw: bytes, lines: Sequence[Any]) -> dict[str, bytes]:
    """The parts of a file of JSON lines: `columns`, the order of names; or all of it, `layout`."""
    made = "".join(f"{json.dumps(each, default=str)}\n" for each in lines).encode()
    ids: list[Any] = [each.get("id") if isinstance(each, dict) else None for each in lines]
    is_rising = set(map(type, ids)) <= {int} and all(one < other for one, other in pairwise(ids))
    if made != raw or not is_rising:
        return {"layout": raw}
    orders = dict.fromkeys(_orders(lines))
    place = {name: n for n, name in enumerate(dict.fromkeys(chain.from_iterable(orders)))}
    if not all(place[one] < place[other] for names in orders for one, other in pairwise(names)):
        return {"layout": raw}
    return {} if list(place) == sorted(place) else {"columns": json.dumps([*place]).encode()}


def _orders(values: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """The names of each object among the values and in them, in their order."""
    for each in values:
        if isinstance(each, dict):
            yield tuple(each)
            yield from _orders(each.values())
        elif isinstance(each, list):
            yield from _orders(each)


def said_beside(schema: pa.Schema) -> dict[str, str]:
    """Name → digest of what a file of Parquet, and each of its columns, say beside the values."""
    found: dict[str, str] = {}
    beside = [("", schema.metadata or {}), *(each for f in schema for each in _of_field("", f))]
    for place, said in beside:
        for name, value in said.items():
            meant = None if _WRITTEN.fullmatch(name) else _meant(name, value)
            if meant is not None:
                at = place + name.decode(errors="replace")
                digest = _digest(meant)
                found[at] = _digest([found[at], digest]) if at in found else digest
    return found


def _of_field(within: str, field: pa.Field) -> Iterator[tuple[str, Mapping[bytes, bytes]]]:
    """A column's own words about itself, and each field in it."""
    place, of = f"{within}{field.name}.", field.type
    yield place, field.metadata or {}
    if isinstance(of, pa.BaseExtensionType):
        yield place, {b"ARROW:extension": str(of).encode()}
        of = of.storage_type
    for at in range(of.num_fields):
        yield from _of_field(place, of.field(at))


def _meant(name: bytes, value: bytes) -> bytes | None:
    """The part that stays while the columns do; None where it says nothing."""
    if name not in (b"huggingface", b"pandas"):
        return value
    try:
        said = json.loads(value)
        if name == b"pandas":
            rows = [_without_end(index) for index in said["index_columns"]]
            columns = [[each["name"], each["pandas_type"]] for each in said["column_indexes"]]
            meant = (rows, columns, said.get("attributes"))
            if all(one in usual for one, usual in zip(meant, _NO_INDEX, strict=True)):
                return None
            return json.dumps(meant, sort_keys=True).encode()
        return json.dumps(said["info"]["features"], sort_keys=True).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return value


def _without_end(index: Any) -> Any:
    """The index; that of counted rows without where it ends, which new rows move."""
    is_range = isinstance(index, dict) and index.get("kind") == "range"
    return {n: v for n, v in index.items() if n != "stop"} if is_range else index


def _order(rows: Sequence[Sequence[str]], *, are_numbers: bool) -> dict[str, bytes]:
    """How rows that are no set are sorted; all of them where the first cell does not tell each."""
    order = [(len(row[0]), row[0]) for row in rows]
    names = {n.rstrip("0").rstrip(".") if are_numbers and "." in n else n for _, n in order}
    if len(names) < len(rows):
        return {"order": json.dumps(rows).encode()}
    is_rising = all(one < other for one, other in pairwise(order))
    return {} if is_rising else {"order": json.dumps(order).encode()}


def _odd(at: int, rows: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    """How the numbers of a column are spelled: each with so many places, or those with zeros."""
    odd = [(row[0], at, row[at]) for row in rows if _IS_ODD(row[at])]
    places = {len(row[at].partition(".")[2]) for row in rows if row[at]} if odd else ()
    is_even = len(places) == 1 and all(_FIXED(row[at]) for row in rows if row[at])
    return [(at, *places)] if is_even else odd


def _digest(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return hashlib.sha256(raw).hexdigest()
