"""CSV, JSON lines, Parquet and folders of them, as states."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import statediff
from statediff.errors import InputError
from statediff.systems.tables.exports import exported
from statediff.systems.tables.inference import RESIDUE
from tests.judging import contract


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def changed(before: Path, after: Path) -> list[tuple[object, ...]]:
    found = statediff.changes(f"t=tables://{before}", f"t=tables://{after}")
    names = ("op", "type", "key", "path", "before", "after")
    return [tuple(d[name] for name in names) for d in found if d["type"] != RESIDUE]


USERS = "id,name,zip,balance\n1,Ada,01234,10.50\n2,Bob,,7\n"


def test_a_folder_has_one_table_a_file(tmp_path: Path) -> None:
    one = write(tmp_path / "one", users_csv=USERS, log_jsonl='{"id": 1, "what": {"a": [1]}}\n')
    after = USERS.replace("7\n", "8\n")
    two = write(tmp_path / "two", users_csv=after, log_jsonl='{"id": 1, "what": {"a": [2]}}\n')
    assert changed(one, two) == [
        ("update", "log", 1, "what.a[0]", 1, 2),
        ("update", "users", 2, "balance", 7, 8),
    ]


def test_kinds_are_those_of_the_first_state(tmp_path: Path) -> None:
    tables = exported(write(tmp_path, users_csv=USERS) / "users.csv")[0].tree
    assert tables["users"] == [
        {"id": 1, "name": "Ada", "zip": "01234", "balance": Decimal("10.50")},
        {"id": 2, "name": "Bob", "zip": "", "balance": 7},
    ]
    one = write(tmp_path / "one", users_csv=USERS)
    two = write(tmp_path / "two", users_csv=USERS.replace("7\n", "seven\n"))
    assert changed(one, two) == [("update", "users", 2, "balance", 7, "seven")]
    three = write(tmp_path / "three", users_csv=USERS.replace("7\n", "\n"))
    assert changed(one, three) == [("update", "users", 2, "balance", 7, None)]


def test_a_number_spelled_otherwise_is_the_same_and_another_text_is_not(tmp_path: Path) -> None:
    one = write(tmp_path / "one", users_csv=USERS)
    same = write(tmp_path / "two", users_csv=USERS.replace("10.50", "10.5"))
    assert changed(one, same) == []
    [seen] = statediff.changes(f"t=tables://{one}", f"t=tables://{same}")
    assert (seen["type"], seen["path"]) == (RESIDUE, "numbers")  # outside by default
    other = write(tmp_path / "three", users_csv=USERS.replace("01234", "1234"))
    assert changed(one, other) == [("update", "users", 1, "zip", "01234", "1234")]


def test_parquet_keeps_its_kinds(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, 2],
            "price": pa.array([Decimal("9.90"), None], pa.decimal128(8, 2)),
            "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None],
            "tags": [["a", "b"], []],
            "ratio": [0.1, float("nan")],
            "raw": [b"\x00\xff", None],
        }
    )
    parquet.write_table(table, tmp_path / "goods.parquet")
    found = exported(tmp_path / "goods.parquet")[0].tree
    assert found["goods"] == [
        {
            "id": 1, "price": Decimal("9.90"), "at": "2026-01-01T00:00:00+00:00",
            "tags": ["a", "b"], "ratio": Decimal("0.1"), "raw": "AP8=",
        },
        {"id": 2, "price": None, "at": None, "tags": [], "ratio": "nan", "raw": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,id\n1,2\n", "line 1: a column is named twice"),
        ("a.csv", "id,n\n1\n", "line 2: expected 2 values, found 1"),
        ("a.csv", "id;n\n1;1,5\n", "found 2; are its columns separated by `;`?"),
        ("a.csv", "id;n\n1;A\n", "line 1: expected columns, found one; are its columns sep"),
        ("a.csv", "id\tn\n1\tA\n", "separated by a tab?"),
        ("a.csv", 'id,n\n1,"x\n', "line 2"),
        ("a.jsonl", '{"id": 1}, {"id": 2}\n', "line 1: expected one JSON object"),
        ("a.jsonl", '{"id": 1}\n], "user": [{"id": 1}\n', "line 2: expected one JSON object"),
        ("a.jsonl", "[1]\n", "line 1: expected one JSON object"),
        ("a.parquet", "no", "cannot be read as Parquet"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        exported(tmp_path / name)


def test_a_date_that_python_has_not_is_an_error_of_the_file(tmp_path: Path) -> None:
    days = pa.array([1, 2**31 - 1], pa.int32()).cast(pa.date32())
    parquet.write_table(pa.table({"day": days}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        exported(tmp_path / "a.parquet")


def test_a_column_of_another_length_than_its_file_is_an_error_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": [1] * 20, "b": ["x"] * 20}), path, compression="none")
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    refused = 0
    for at in range(footer, len(content) - 8):
        path.write_bytes(content[:at] + bytes([content[at] ^ 8]) + content[at + 1 :])
        try:
            whole = parquet.read_table(path, partitioning=None).to_pylist()
        except (pa.ArrowException, OSError, ValueError):
            refused += 1
            with pytest.raises(InputError):
                exported(path)
        else:
            assert len(exported(path)[0].tree["a"]) == len(whole)
    assert refused > 0


def test_two_files_of_one_table_and_other_bytes_are_refused(tmp_path: Path) -> None:
    write(tmp_path, a_csv="id\n1\n", a_tsv="id\n1\n")
    with pytest.raises(InputError, match="holds a table of that name"):
        exported(tmp_path)
    (tmp_path / "b.csv").write_bytes(b"id\n\xff\n")
    with pytest.raises(InputError, match="byte 3: not UTF-8"):
        exported(tmp_path / "b.csv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("user.csv", "id,name\n1,Ada\n2\n"),
        ("user.csv", "id,id\n1,Ada\n"),
        ("user.jsonl", '{"id": 1, "name": "Ada"}\n{"id": 2'),
        ("user.parquet", "PAR1 no more"),
        ("more.jsonl", '{"id": 1}\nno more'),
        ("more.csv", "id,name\n1\n"),
    ],
)
def test_a_table_that_a_run_left_unreadable_is_a_change(
    name: str, content: str, tmp_path: Path
) -> None:
    one = write(tmp_path / "one", user_csv="id,name\n1,Ada\n2,Bo\n", note_csv="id\n1\n")
    two = write(tmp_path / "two", note_csv="id\n1\n")
    if not name.startswith("user"):
        write(tmp_path / "two", user_csv="id,name\n1,Ada\n2,Bo\n")
    (two / name).write_text(content)
    file = tmp_path / "c.yaml"
    file.write_text(contract("forbid:\n  - {id: kept, delete: user}\n", noop=True))
    states = [f"t=tables://{folder}" for folder in (one, two)]
    done = statediff.judge(file, before=states[0], after=states[1])
    assert (done.verdict.value, done.document["findings"][0]["clause"]) == ("DIVERGE", "frame")
    with pytest.raises(InputError):
        statediff.judge(file, before=states[1], after=states[0])


def test_a_folder_of_tables_is_watched(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", user_csv="id,name\n1,Ada\n")
    with statediff.watch(t=f"tables://{folder}", settle_seconds=0) as run:
        (folder / "user.csv").write_text("id,name\n1,Eve\n")
    assert [(d["type"], d["path"]) for d in run.changes] == [("user", "name")]
    with statediff.watch(t=f"tables://{folder}", settle_seconds=0) as run:
        shutil.rmtree(folder)
    assert [d["type"] for d in run.changes] == ["source.t"]


def test_two_files_of_any_name_are_two_states_of_one_table(tmp_path: Path) -> None:
    for name, text in (("before.csv", "id,a\n1,x\n"), ("after.tsv", "id\ta\n1\ty\n")):
        (tmp_path / name).write_text(text)
    before, after = (f"t={tmp_path / name}" for name in ("before.csv", "after.tsv"))
    [changed] = statediff.changes(before, after)
    assert (changed["op"], changed["type"]) == ("update", "before")
