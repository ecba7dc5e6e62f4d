"""What the records of a file do not say: how they are spelled, and what stands beside them.

A part that is left out says that the file is what a program writes by default. The order is left
out where the first column rises.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from statediff.systems.tables.shape import number_of

_WRITTEN: Final = re.compile(
    rb"pandas|huggingface|(ARROW|PARQUET):.*|org\.apache\.spark\..*|parquet\.avro\.schema|writer\..*"
)
"""What programs write into each file of Parquet about its columns."""


def residue_of(
    file: Path, header: Sequence[str], cells: Sequence[Sequence[str]], numbers: set[str]
) -> dict[str, str]:
    """The parts of a file of CSV: `ends`, `columns`, `order`, `numbers`; or all of it, `layout`."""
    raw, delimiter = file.read_bytes(), "\t" if file.suffix.lower() == ".tsv" else ","
    parts = {"columns": json.dumps(header)} if list(header) != sorted(header) else {}
    for ends, said in (("\n", {}), ("\r\n", {"ends": "\r\n"})):
        made = io.StringIO(newline="")
        csv.writer(made, delimiter=delimiter, lineterminator=ends).writerows([header, *cells])
        if made.getvalue().encode() == raw:
            parts |= said
            break
    else:
        return {"layout": _digest(raw)}
    parts |= _order(cells)
    at = [n for n, name in enumerate(header) if name in numbers]
    odd = [(row[0], n, row[n]) for row in cells for n in at if row[n] and not _is_plain(row[n])]
    return parts | ({"numbers": _digest(odd)} if odd else {})


def residue_of_lines(file: Path, lines: Sequence[Any]) -> dict[str, str]:
    """The parts of a file of JSON lines: `layout`, where it is not what Python writes."""
    raw = file.read_bytes()
    try:
        made = "".join(f"{json.dumps(each)}\n" for each in lines).encode()
    except TypeError:
        made = b""
    ids: list[Any] = [each.get("id") for each in lines if isinstance(each, dict)]
    are_whole = len(ids) == len(lines) and set(map(type, ids)) <= {int}
    is_rising = are_whole and all(one < other for one, other in pairwise(ids))
    return {} if made == raw and is_rising else {"layout": _digest(raw)}


def said_beside(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Name → digest of what a file of Parquet, and each of its columns, say beside the values."""
    places: dict[str, Mapping[bytes, bytes] | None] = {"": schema.metadata}
    places |= {f"{field.name}.": field.metadata for field in schema}
    for place, said in places.items():
        for name, value in (said or {}).items():
            if not _WRITTEN.fullmatch(name):
                yield place + name.decode(errors="replace"), _digest(value)


def _order(rows: Sequence[Sequence[str]]) -> dict[str, str]:
    order = [(len(row[0]), row[0]) for row in rows]
    if all(one < other for one, other in pairwise(order)):
        return {}
    return {"order": _digest(order if len(set(order)) == len(order) else rows)}


def _is_plain(text: str) -> bool:
    try:
        return str(number_of(text)) == text
    except (ValueError, ArithmeticError):
        return True  # no number: the text itself is the value


def _digest(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return hashlib.sha256(raw).hexdigest()
