"""CSV and Parquet kept: many states after are judged as each pair alone is, whatever is in them."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import statediff
from statediff.errors import StatediffError
from statediff.systems.base.plugin import StateInput
from statediff.systems.tables.plugin import kept
from statediff.workspace.inputs import offline_clock

NOOP = "contract: t/none\nversion: 1.0.0\nowner: t\nintent: Change nothing here.\nnoop: true\n"
CELLS = st.sampled_from(
    [
        "1",
        "2",
        "-0",
        "-3",
        "1.5",
        "1.50",
        "007",
        "",
        "x",
        "é",
        "1e3",
        "9" * 30,
        "a\nb",
        '"q"',
        "NaN",
    ]
)
ROWS = st.lists(st.tuples(st.integers(1, 4).map(str), CELLS, CELLS), max_size=4)
VALUES = st.one_of(
    st.none(), st.integers(-5, 5), st.floats(width=32), st.text("aé", max_size=2), st.booleans()
)


def put(path: Path, rows: list[Any], header: tuple[str, ...] = ("id", "a", "b")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def alike(before: Path, afters: list[Path]) -> None:
    """One kept judge says of each what a judgement of the pair says."""
    try:
        judge = statediff.Judge(NOOP, before)
    except StatediffError as error:
        with pytest.raises(type(error)):
            statediff.judge(NOOP, before, afters[0])
        return
    for after in [*afters, *afters]:
        try:
            one = statediff.judge(NOOP, before, after)
        except StatediffError as error:
            with pytest.raises(type(error)):
                judge.judge(after)
            continue
        assert judge.judge(after).bundle.digest == one.bundle.digest
        assert judge.score(after).verdict is one.verdict


@settings(max_examples=25)
@given(ROWS, st.lists(ROWS, min_size=1, max_size=2))
def test_a_kept_csv_is_judged_as_each_pair_is(before: Any, afters: Any) -> None:
    with TemporaryDirectory() as folder:
        one = put(Path(folder, "t.csv"), before)
        alike(one, [put(Path(folder, f"a{n}.csv"), rows) for n, rows in enumerate(afters)])


@settings(max_examples=15)
@given(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3))
def test_a_kept_parquet_is_judged_as_each_pair_is(before: Any, after: Any) -> None:
    with TemporaryDirectory() as folder:
        paths = []
        for name, values in (("t", before), ("u", after)):
            try:
                column = pa.array(values)
            except (pa.ArrowException, TypeError):
                column = pa.array([None if value is None else str(value) for value in values])
            table = pa.table({"id": list(range(len(values))), "v": column})
            paths.append(Path(folder, f"{name}.parquet"))
            parquet.write_table(table, paths[-1])
        alike(paths[0], [paths[1], paths[0]])


@pytest.mark.parametrize(
    "damage",
    [b"id,id\n1,2\n", b"id,a,b\n1,\xff,3\n", b"id,a,b\n1,2\n", b'id,a,b\n1,"2,3\n', b"", b"\x00"],
)
def test_what_a_run_damaged_is_said_as_of_the_pair(tmp_path: Path, damage: bytes) -> None:
    one = put(tmp_path / "t.csv", [("1", "x", "y")])
    (tmp_path / "u.csv").write_bytes(damage)
    alike(one, [tmp_path / "u.csv"])
    alike(tmp_path / "u.csv", [one])


def test_a_column_that_parquet_names_twice_is_refused(tmp_path: Path) -> None:
    two = tmp_path / "twice.parquet"
    parquet.write_table(pa.table([[1], [2]], names=["id", "id"]), two)
    with pytest.raises(StatediffError, match="a column is named twice"):
        statediff.judge(NOOP, two, two)


def test_rows_that_did_not_change_are_never_read_as_values(tmp_path: Path) -> None:
    rows = [(str(n), "x", str(n)) for n in range(50)]
    before = put(tmp_path / "t.csv", rows)
    rows[7] = ("7", "changed", "7")
    after = put(tmp_path / "u.csv", rows)
    pairs = kept("tables", StateInput(before, "t"), None, offline_clock)
    assert pairs is not None
    first, second = pairs(StateInput(after, "u")) or (None, None)
    assert first is not None
    assert second is not None
    changed = second.parts[0].state.tables["t"]
    assert [row["a"] for _, row in changed.rows()].count("changed") == 1
    os.utime(before, (0, 0))
    before.write_text("id\n")  # what was kept stays what it was
    assert statediff.Judge(NOOP, after).score(after).reward == 1.0
    assert pairs(StateInput(after, "u")) is not None
