"""Whatever is edited in a file of tables is seen, as a change of its records or beside them."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import statediff
from statediff.conformance import ResidueSuite
from statediff.model.strictjson import Flaw
from statediff.systems.tables.exports import delimited, exported
from statediff.systems.tables.inference import BESIDE, RESIDUE
from statediff.systems.tables.spelling import residue_of, residue_of_lines, shown
from tests.systems.tables.test_workbooks import ROWS, save


class OfFiles(ResidueSuite):
    noise = frozenset({"layout", "columns", "ends", "order", "numbers"})
    suffix: str

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.place = tmp_path / f"t{self.suffix}"
        self.place.write_bytes(self.samples[0])
        self.forms = exported(self.place)[1]

    def read(self, content: bytes) -> tuple[Any, Mapping[str, bytes]]:
        self.place.write_bytes(content)
        tree = exported(self.place, self.forms)[0].tree
        if isinstance(tree["t"], str) or any(isinstance(each, Flaw) for each in tree["t"]):
            raise ValueError(tree["t"])
        parts = self.parts(content, tree["t"])
        assert [{"id": "t", **shown(parts)}] * bool(parts) == tree.get(RESIDUE, [])
        return sorted(map(shortest, tree["t"]), key=repr), parts

    def parts(self, content: bytes, rows: list[Any]) -> Mapping[str, bytes]:
        raise NotImplementedError


def shortest(value: Any) -> Any:
    """A value without the order of names and the spelling of numbers."""
    if isinstance(value, dict):
        return {name: shortest(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return list(map(shortest, value))
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == int(value) else value.normalize()


class TestCsv(OfFiles):
    suffix = ".csv"
    samples = (
        b'id,name,n\n1,Ada,1.5\n2,"Bob, jr",2\n3,Cleo,\n',
        b"id,name,n\r\n2,x,1.50\r\n1,y,3\r\n",
        b"n,name,id\n1.50,x,1\n1.5,y,2\n",
        b"id,n,name\n1,1.50,x\n10,2.00,\n",
        b"id,n\n1,0.00\n2,-0.00\n",
    )

    def parts(self, content: bytes, rows: list[Any]) -> Mapping[str, bytes]:
        header, cells = delimited(self.place, content.decode("utf-8-sig"), ",")
        numbers = {name for _, name in self.forms.numbers}
        return residue_of(content, ",", [header, *(row for _, row in cells)], numbers)

    def write(self, view: Any, residue: Mapping[str, bytes]) -> bytes:
        said = {n: json.loads(residue.get(n, b"[]")) for n in ("columns", "order", "numbers")}
        header = said["columns"] or sorted(view[0] if view else self.forms.columns["t"])
        fixed = {each[0]: each[1] for each in said["numbers"] if len(each) == 2}
        single = [each for each in said["numbers"] if len(each) == 3]
        odd = {(at, first, Decimal(text)): text for first, at, text in single}
        firsts = {value: text for (at, _, value), text in odd.items() if not at}

        def cell(at: int, first: str | None, value: Any) -> str:
            if value is None or isinstance(value, str):
                return value or ""
            number = Decimal(value)
            spelled = firsts.get(number) if first is None else odd.get((at, first, number))
            return spelled or (f"{number:.{fixed[at]}f}" if at in fixed else f"{number:f}")

        rows = []
        for record in view:
            first = cell(0, None, record[header[0]])
            others = [cell(at, first, record[name]) for at, name in enumerate(header) if at]
            rows.append([first, *others])
        rows.sort(key=lambda row: (len(row[0]), row[0]))
        order = said["order"]
        if order and isinstance(order[0][0], int):
            rows.sort(key=lambda row: order.index([len(row[0]), row[0]]))
        made, ends = io.StringIO(newline=""), residue.get("ends", b"\n").decode()
        writer = csv.writer(made, lineterminator=ends)
        writer.writerows([header, *(rows if not order or isinstance(order[0][0], int) else order)])
        return residue.get("layout", made.getvalue().encode())

    def meaning(self, content: bytes) -> Any:
        rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        return sorted(sorted((n, _plain(each)) for n, each in row.items()) for row in rows)


def _plain(cell: str) -> str:
    is_number = re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", cell)
    return f"{Decimal(cell).normalize() + 0:f}" if is_number else cell


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (b"id,a,b\n1,x,\n", b'id,a,b\n1,x,""\n', {BESIDE, RESIDUE}),
        (b'id,a,b\n1,x,""\n2,"",y\n', b'id,a,b\n1,x,""\n2,,y\n', {BESIDE, RESIDUE}),
        (b'id,a,b\n1,"x","y"\n2,"",""\n', b'id,a,b\n1,"x","y"\n2,"",\n', {BESIDE, RESIDUE}),
        (b"id,a,b\n1,x,y\n2,,\n", b'"id","a","b"\n"1","x","y"\n"2","",""\n', {RESIDUE}),
        (b'id,a\n"1","x"\n"2",""\n', b'id,a\n"1","x"\n"2",\n', {BESIDE, RESIDUE}),
        (b'id,a\n1,"x,y"\n2,\n', b'id,a\n1,"x,y"\n2,', {RESIDUE}),
        (b"id,a\n1,\n", b'"id","a"\n"1",""\n', {RESIDUE}),
        (b"\n", b"\n\n", {RESIDUE}),
        (b"id,a\n1,x\n2,y\n", b"id,a\r1,x\r2,y\r", None),
        (b"id,a\n1,x\n2,y\n", b"id,a\n1,x\n2,y\r", None),
        (b"id,a\n1,x\n2,y\n", b"id,a\n1,x\r\r\n2,y\n", None),
        (b"id,a\n1,x\n2,y\n", b"id,a\n1,x\n\r\r\n2,y\n", None),
        (b'id,a\n1,"x\ry"\n2,"\r"\n', b'id,a\r\n1,"x\ry"\r\n2,"\r"\r\n', {RESIDUE}),
    ],
)
def test_blanks_that_are_spelled_oddly_are_changes_and_lone_carriage_returns_faults(
    tmp_path: Path, before: bytes, after: bytes, seen: set[str] | None
) -> None:
    one, two = tmp_path / "one" / "t.csv", tmp_path / "two" / "t.csv"
    for path, content in ((one, before), (two, after)):
        path.parent.mkdir()
        path.write_bytes(content)
    tree = exported(two, exported(one)[1])[0].tree
    if seen is None:
        assert "carriage return" in str(tree["t"]) or "new-line" in str(tree["t"])
    else:
        assert {each["type"] for each in statediff.changes(f"t={one}", f"t={two}")} == seen


class TestLines(OfFiles):
    suffix = ".jsonl"
    samples = (
        b'{"id": 1, "n": "x"}\n{"id": 2, "n": [1, 2.5]}\n',
        b'{"n":1}\n{"n":1}\n',
        b'{"n": {"b": 1, "a": null}, "id": 1}\n{"n": {"a": 2}, "id": 2}\n',
        b'{"n": {"b": 1}, "id": 1}\n{"n": 1, "id": 2, "b": true}\n',
    )

    def parts(self, content: bytes, rows: list[Any]) -> Mapping[str, bytes]:
        return residue_of_lines(content, rows)

    def write(self, view: Any, residue: Mapping[str, bytes]) -> bytes:
        names = json.loads(residue.get("columns", b"[]"))

        def ordered(value: Any) -> Any:
            if isinstance(value, list):
                return list(map(ordered, value))
            if isinstance(value, Decimal):
                return f"\0{value:f}"
            if not isinstance(value, dict):
                return value
            return {n: ordered(value[n]) for n in names or sorted(value) if n in value}

        rows = sorted(view, key=lambda row: row["id"] if type(row.get("id")) is int else 0)
        made = "".join(json.dumps(ordered(row)) + "\n" for row in rows)
        made = re.sub(r'"\\u0000([0-9.-]+)"', r"\1", made)
        return residue.get("layout", made.encode())

    def meaning(self, content: bytes) -> Any:
        lines = [line for line in content.decode("utf-8-sig").split("\n") if line.strip(" \t\r")]
        read = partial(json.loads, parse_float=Decimal, parse_int=Decimal)
        return sorted(repr(shortest(read(line))) for line in lines)


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        ("xl/vbaProject.bin", BESIDE), ("anything", BESIDE), ("docProps/custom.xml", BESIDE),
        ("xl/media/image1.png", RESIDUE),
    ],
)  # fmt: skip
def test_a_part_of_a_workbook_that_nobody_knows_is_a_change(
    tmp_path: Path, member: str, kind: str
) -> None:
    one, two = (save(tmp_path / f"{name}.xlsx", ROWS) for name in "ab")
    with zipfile.ZipFile(two, "a") as archive:
        archive.writestr(member, b"<a/>")
    assert {each["type"] for each in statediff.changes(f"b={one}", f"b={two}")} == {kind}


def test_what_parquet_says_beside_its_values_is_a_change(tmp_path: Path) -> None:
    labels = '{{"info": {{"features": {{"n": {}}}}}, "fingerprint": "{}"}}'
    rows = '{{"index_columns": [{{"kind": "range", "name": null, "start": 0, "stop": {}, "step": 1}}], "column_indexes": [], "attributes": {}, "pandas_version": "{}"}}'  # noqa: E501 - as it is
    sides: list[tuple[dict[str, str], dict[str, str], bool]] = [
        ({}, {"owner": "other"}, True),
        ({"huggingface": labels.format(1, 2)}, {"huggingface": labels.format(1, 3)}, False),
        ({"huggingface": labels.format(1, 2)}, {"huggingface": labels.format(2, 2)}, True),
        ({"pandas": rows.format(1, "{}", 1)}, {"pandas": rows.format(9, "{}", 2)}, False),
        ({}, {"pandas": rows.format(1, "{}", 1)}, False),
        ({}, {"pandas": rows.format(1, '{"unit": "t"}', 1)}, True),
        ({}, {"writer.time.zone": "UTC"}, True),
        ({"ARROW:extension:name": "a"}, {"ARROW:extension:name": "b"}, True),
        ({"writer.date": "1"}, {"writer.date": "2", "PARQUET:field_id": "7"}, False),
    ]
    for place in ("file", "column", "within"):
        for before, after, is_seen in sides:
            for name, said in (("a", before), ("b", after)):
                n = pa.field("n", pa.string(), metadata=said if place == "column" else None)
                inner = pa.field("m", pa.string(), metadata=said if place == "within" else None)
                fields = [pa.field("id", pa.int64()), n, pa.field("s", pa.struct([inner]))]
                schema = pa.schema(fields, metadata=said if place == "file" else None)
                table = pa.table([[1], ["x"], [{"m": "y"}]], schema=schema)
                parquet.write_table(table, tmp_path / f"{name}.parquet")
            one, two = (f"t={tmp_path / name}.parquet" for name in "ab")
            found = {each["type"] for each in statediff.changes(one, two)}
            assert found == ({BESIDE} if is_seen else set()), (place, before, after)
