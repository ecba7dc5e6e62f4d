"""A file that a run wrote in another form than it had is another state, whatever records it has."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import statediff
from statediff.model.verdict import Verdict

NOOP = "contract: t/none\nversion: 1.0.0\nowner: t\nintent: Change nothing here.\nnoop: true\n"
DAYS = [dt.datetime.fromisoformat(f"2026-01-0{day}T09:00:00") for day in (1, 2)]


def verdict(before: Path, after: Path) -> Verdict:
    """The verdict of the pair, and of a kept judge."""
    pair = statediff.judge(NOOP, before, after).verdict
    assert statediff.Judge(NOOP, before).score(after).verdict is pair
    return pair


def of_bytes(folder: Path, suffix: str, before: bytes, after: bytes) -> Verdict:
    for name, content in (("one", before), ("two", after)):
        (folder / f"{name}{suffix}").write_bytes(content)
    return verdict(folder / f"one{suffix}", folder / f"two{suffix}")


def of_columns(folder: Path, before: Any, after: Any) -> Verdict:
    for name, column in (("one", before), ("two", after)):
        table = pa.table({"id": list(range(len(column))), "v": column})
        parquet.write_table(table, folder / f"{name}.parquet")
    return verdict(folder / "one.parquet", folder / "two.parquet")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DAYS, [each.isoformat() for each in DAYS]),
        ([each.date() for each in DAYS], ["2026-01-01", "2026-01-02"]),
        ([each.time() for each in DAYS], ["09:00:00"] * 2),
        ([dt.timedelta(1)] * 2, ["1 day, 0:00:00"] * 2),
        ([b"abc"] * 2, ["YWJj"] * 2),
        ([float("nan")] * 2, ["nan"] * 2),
        ([True, False], [1, 0]),
        ([[b"abc"]] * 2, [["YWJj"]] * 2),
        ([{"at": DAYS[0]}] * 2, [{"at": DAYS[0].isoformat()}] * 2),
    ],
)
def test_a_column_of_parquet_that_holds_another_kind_is_a_change(
    before: list[Any], after: list[Any], tmp_path: Path
) -> None:
    assert of_columns(tmp_path, pa.array(before), pa.array(after)) is Verdict.DIVERGE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.array([1, 2], pa.int8()), pa.array([1.0, 2.0])),
        (pa.array([1.5, 2]), pa.array([Decimal("1.50"), Decimal("2.00")])),
        (pa.array(["a", "b"]), pa.array(["a", "b"], pa.large_string()).dictionary_encode()),
        (pa.array(DAYS, pa.timestamp("s")), pa.array(DAYS, pa.timestamp("ns"))),
        (pa.array([None, None], pa.date32()), pa.nulls(2)),
    ],
)
def test_how_wide_a_number_or_a_text_is_written_is_no_change(
    before: Any, after: Any, tmp_path: Path
) -> None:
    assert of_columns(tmp_path, before, after) is Verdict.MATCH


@pytest.mark.parametrize("after", [b"", b"id,n\n", b"id,n,t,u\n", b"id,n,T\n"])
def test_columns_of_a_table_without_records_are_state(after: bytes, tmp_path: Path) -> None:
    assert of_bytes(tmp_path, ".csv", b"id,n,t\n", after) is Verdict.DIVERGE
    assert of_bytes(tmp_path, ".csv", b"id,n,t\n", b"t,id,n\n") is Verdict.MATCH


def test_columns_of_parquet_without_records_are_state(tmp_path: Path) -> None:
    whole = pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())})
    parquet.write_table(whole, tmp_path / "one.parquet")
    parquet.write_table(whole.drop_columns("v"), tmp_path / "two.parquet")
    assert verdict(tmp_path / "one.parquet", tmp_path / "two.parquet") is Verdict.DIVERGE


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".csv", b"id,n\n1,2\n"), (".jsonl", b'{"id": 1}\n'), (".json", b'{"t": [{"id": 1}]}'),
        (".json", b'[{"id": 1}]'),
    ],
)  # fmt: skip
def test_a_byte_order_mark_is_spelling(suffix: str, content: bytes, tmp_path: Path) -> None:
    marked = b"\xef\xbb\xbf" + content
    for one, two in ((content, marked), (marked, marked), (marked, content)):
        assert of_bytes(tmp_path, suffix, one, two) is Verdict.MATCH


def test_a_record_that_a_carriage_return_cuts_is_none(tmp_path: Path) -> None:
    content = b'{"id": 1, "n": 2}\n'
    cut = content.replace(b", ", b",\r")
    assert of_bytes(tmp_path, ".jsonl", content, cut) is Verdict.DIVERGE
    assert of_bytes(tmp_path, ".jsonl", content, content.replace(b"\n", b"\r\n")) is Verdict.MATCH
