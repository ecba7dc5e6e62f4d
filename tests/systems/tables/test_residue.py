"""Whatever is edited in a file of tables is seen, as a change of its records or beside them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import statediff
from statediff.conformance import ResidueSuite
from statediff.systems.tables.exports import exported
from statediff.systems.tables.inference import BESIDE, RESIDUE
from tests.systems.tables.test_workbooks import ROWS, save


class OfFiles(ResidueSuite):
    noise = frozenset({RESIDUE})
    suffix: str

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.place = tmp_path / f"t{self.suffix}"
        self.place.write_bytes(self.samples[0])
        self.forms = exported(self.place)[1]

    def seen(self, content: bytes) -> Mapping[str, Any]:
        self.place.write_bytes(content)
        tree = dict(exported(self.place, self.forms)[0].tree)
        if isinstance(tree["t"], str):
            raise ValueError(tree["t"])
        tree["t"] = sorted(map(repr, (sorted(each.items()) for each in tree["t"])))
        return tree

    def meaning(self, content: bytes) -> Any:
        return self.seen(content)["t"]


class TestCsv(OfFiles):
    suffix = ".csv"
    samples = (
        b'id,name,n\n1,Ada,1.5\n2,"Bob, jr",2\n3,Cleo,\n',
        b"id,name,n\r\n2,x,1.50\r\n1,y,3\r\n",
    )


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
    samples = (b'{"id": 1, "n": "x"}\n{"id": 2, "n": [1, 2.5]}\n', b'{"n":1}\n{"n":1}\n')


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
