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
