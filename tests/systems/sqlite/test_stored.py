"""SQLite's NUMERIC columns hold the decimal that was written, and nothing is lost."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.model.values import same
from statediff.scoring import Judge
from statediff.systems.sqlite.stored import decimal_scale, written_decimal
from tests.judged_files import database, judged, sentences

KEPT = "forbid:\n  - {id: kept, delete: item}\n"
PRICED = """
require:
  - id: priced
    update: item
    where: it.id == 1
    set: {price: 98.70}
"""


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 6))
def test_a_double_and_its_decimal_name_each_other(stored: float, scale: int) -> None:
    read = written_decimal(stored, scale)
    assert isinstance(read, Decimal)
    assert float(read) == stored


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 6))
def test_integers_stay_exact(stored: int, scale: int) -> None:
    assert written_decimal(stored, scale) == stored


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.integers(0, 4))
def test_two_doubles_never_become_one(one: float, other: float, scale: int) -> None:
    read = written_decimal(one, scale), written_decimal(other, scale)
    assert same(*read) == same(one, other)


@pytest.mark.parametrize(
    ("declared", "scale"),
    [("DECIMAL(12,2)", 2), ("numeric", 0), ("Dec (5 , 3)", 3), ("NUMBER(10)", 0), ("REAL", None),
     ("DECIMAL TEXT", None), ("", None), ("DOUBLE", None)],
)  # fmt: skip
def test_the_scale_is_the_declared_one(declared: str, scale: int | None) -> None:
    assert decimal_scale(declared) == scale


@pytest.mark.parametrize("declared", ["DECIMAL(12,2)", "NUMERIC", "numeric(10, 2)", "MONEY"])
def test_a_required_amount_holds_however_sqlite_stores_it(tmp_path: Path, declared: str) -> None:
    rows = (
        f"CREATE TABLE item (id INTEGER PRIMARY KEY, price {declared})",
        "INSERT INTO item VALUES (1, 5), (2, 9007199254740993)",
    )
    paid = "UPDATE item SET price = '98.70' WHERE id = 1"
    before = database(tmp_path / "a.db", *rows)
    after = database(tmp_path / "b.db", *rows, paid)
    assert judged(tmp_path, PRICED, before, after).verdict.value == "MATCH"
    wrong = database(tmp_path / "c.db", *rows, "UPDATE item SET price = 98.71 WHERE id = 1")
    assert judged(tmp_path, PRICED, before, wrong).verdict.value == "DIVERGE"
    other = "UPDATE item SET price = 9007199254740992 WHERE id = 2"
    done = judged(tmp_path, PRICED, before, database(tmp_path / "d.db", *rows, paid, other))
    assert done.verdict.value == "DIVERGE"
    assert any("9007199254740992" in sentence for sentence in sentences(done))


def test_findings_show_amounts_with_the_declared_scale(tmp_path: Path) -> None:
    rows = (
        "CREATE TABLE item (id INTEGER PRIMARY KEY, price DECIMAL(12,2))",
        "INSERT INTO item VALUES (1, 5), (2, 98.7)",
    )
    before = database(tmp_path / "a.db", *rows)
    after = database(tmp_path / "b.db", *rows, "UPDATE item SET price = 100.0 WHERE id = 2")
    shown = sentences(judged(tmp_path, "forbid:\n  - {id: no, delete: item}\n", before, after))
    assert "item 2 price 98.70 \u2192 100.00" in shown


@pytest.mark.parametrize("declared", ["REAL", "FLOAT", "DOUBLE"])
def test_columns_of_floats_hold_the_double(tmp_path: Path, declared: str) -> None:
    rows = (
        f"CREATE TABLE item (id INTEGER PRIMARY KEY, price {declared})",
        "INSERT INTO item VALUES (1, 5)",
    )
    before = database(tmp_path / "a.db", *rows)
    after = database(tmp_path / "b.db", *rows, "UPDATE item SET price = 98.70 WHERE id = 1")
    assert judged(tmp_path, PRICED, before, after).verdict.value == "DIVERGE"


def test_a_text_in_a_decimal_column_is_that_text(tmp_path: Path) -> None:
    rows = (
        "CREATE TABLE item (id INTEGER PRIMARY KEY, price DECIMAL(12,2))",
        "INSERT INTO item VALUES (1, 5)",
    )
    before = database(tmp_path / "a.db", *rows)
    after = database(tmp_path / "b.db", *rows, "UPDATE item SET price = 'a lot' WHERE id = 1")
    done = judged(tmp_path, PRICED, before, after)
    assert done.verdict.value == "DIVERGE"


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        ("DROP TABLE item", "item 1 deleted"),
        ("UPDATE item SET price = 'five' WHERE id = 1", 'item 1 price 5 \u2192 "five"'),
        ("UPDATE item SET price = x'00' WHERE id = 1", "item 1 price 5 \u2192 1 bytes"),
        ("UPDATE item SET price = 9e999 WHERE id = 1", "item 1 price 5 \u2192 inf"),
    ],
)
def test_what_a_run_writes_in_another_kind_is_a_change(
    run: str, shown: str, tmp_path: Path
) -> None:
    rows = (
        "CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER)",
        "INSERT INTO item VALUES (1, 5)",
    )
    body = "forbid:\n  - id: dear\n    that: any(i.price > 100 for i in after.item)\n"
    before = database(tmp_path / "a.db", *rows)
    done = judged(tmp_path, body, before, database(tmp_path / "b.db", *rows, run))
    assert done.verdict.value == "DIVERGE"
    assert shown in sentences(done)


def test_a_row_that_its_table_would_refuse_is_a_row_like_any_other(tmp_path: Path) -> None:
    """A file that may not be written shows no `CHECK`; what a row holds is for the contract."""
    rows = ("CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER CHECK (price > 0))",)
    run = ("PRAGMA ignore_check_constraints = ON", "INSERT INTO item VALUES (2, -5)")
    before = database(tmp_path / "a.db", *rows)
    after = database(tmp_path / "b.db", *rows, *run)
    body = "allow:\n  - {create: item, where: it.price > 0}\n"
    assert judged(tmp_path, body, before, after).verdict.value == "DIVERGE"
    assert judged(tmp_path, "allow:\n  - create: item\n", before, after).verdict.value == "MATCH"


def test_a_file_that_is_no_database_any_more_is_a_change(tmp_path: Path) -> None:
    rows = ("CREATE TABLE item (id INTEGER PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    before = database(tmp_path / "a.db", *rows)
    after = tmp_path / "b.db"
    after.write_bytes(b"\x00\xff no database")
    done = judged(tmp_path, "forbid:\n  - {id: kept, delete: item}\n", before, after)
    assert done.verdict.value == "DIVERGE"


@pytest.mark.parametrize(
    ("declared", "value", "run"),
    [
        ("DECIMAL(12,2)", "98.7", "CAST('98.70' AS BLOB)"),
        ("NUMERIC", "5", "CAST('5' AS BLOB)"),
        ("BLOB", "x'8f00ff'", "CAST(x'8f00ff' AS TEXT)"),
        ("TEXT", "CAST(x'41ff' AS TEXT)", "x'41ff'"),
        ("", "CAST(zeroblob(2000000) || x'ff' AS TEXT)", "CAST(v AS BLOB)"),
        ("JSON", "'{\"a\": 1}'", "CAST(v AS BLOB)"),
    ],
)
def test_the_same_bytes_stored_as_another_kind_are_a_change(
    tmp_path: Path, declared: str, value: str, run: str
) -> None:
    """SQL finds, adds and orders a blob otherwise than a text or a number."""
    for key in (f"id INTEGER PRIMARY KEY, v {declared}", f"id INTEGER, v {declared} UNIQUE"):
        rows = (f"CREATE TABLE item ({key})", f"INSERT INTO item VALUES (1, {value}), (2, NULL)")
        before = database(tmp_path / "a.db", *rows)
        after = database(tmp_path / "b.db", *rows, f"UPDATE item SET v = {run} WHERE id = 1")
        assert judged(tmp_path, KEPT, before, before).verdict.value == "MATCH"
        assert judged(tmp_path, KEPT, before, after).verdict.value == "DIVERGE"
        assert Judge(tmp_path / "contract.yaml", before).score(after).verdict == "DIVERGE"


def test_a_key_of_other_bytes_of_the_same_kind_is_another_row(tmp_path: Path) -> None:
    rows = ("CREATE TABLE item (k PRIMARY KEY)", "INSERT INTO item VALUES (CAST(x'ff' AS TEXT))")
    before = database(tmp_path / "a.db", *rows)
    after = database(tmp_path / "b.db", *rows, "UPDATE item SET k = x'ff'")
    both = database(tmp_path / "c.db", *rows, "INSERT INTO item VALUES (x'ff')")
    kept = KEPT + "allow:\n  - {create: item}\n"
    assert judged(tmp_path, kept, before, after).verdict.value == "DIVERGE"
    assert judged(tmp_path, kept, before, both).verdict.value == "MATCH"


def test_decimals_that_were_kept_as_digits_are_decimals_after_the_run_too(tmp_path: Path) -> None:
    rows = (
        "CREATE TABLE item (id INTEGER PRIMARY KEY, price NUMERIC)",
        "CREATE TABLE line (id INTEGER PRIMARY KEY, price NUMERIC)",
        "INSERT INTO item VALUES (1, CAST('5.10' AS BLOB)), (2, CAST('3' AS BLOB))",
    )
    before = database(tmp_path / "a.db", *rows)
    paid = (
        "UPDATE item SET price = CAST('98.70' AS BLOB) WHERE id = 1",
        "INSERT INTO line VALUES (1, CAST('98.7' AS BLOB))",
    )
    after = database(tmp_path / "b.db", *rows, *paid)
    lined = PRICED + "  - {id: lined, create: line, set: {price: 98.7}}\n"
    assert judged(tmp_path, lined, before, after).verdict.value == "MATCH"


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_what_is_no_utf_16_is_not_the_text_that_sqlite_makes_of_it(
    tmp_path: Path, encoding: str
) -> None:
    """SQLite shows half of a pair before an `A` as it shows a whole one, and finds neither so."""
    pair, half = ("\U0001f441".encode(encoding).hex(), "d83d0041")
    half = half if encoding == "UTF-16be" else "3dd84100"
    rows = (
        f"PRAGMA encoding = '{encoding}'",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)",
        f"INSERT INTO item VALUES (1, 'A'), (2, CAST(x'{pair}' AS TEXT)), (3, NULL), (4, x'41')",
    )
    before = database(tmp_path / "a.db", *rows)
    for value, verdict in ((pair, "MATCH"), (half, "DIVERGE")):
        run = f"UPDATE item SET name = CAST(x'{value}' AS TEXT) WHERE id = 2"
        after = database(tmp_path / "b.db", *rows, run)
        assert judged(tmp_path, KEPT, before, after).verdict.value == verdict
        assert Judge(tmp_path / "contract.yaml", before).score(after).verdict == verdict
    named = "require:\n  - {id: r, update: item, where: it.id == 1, set: {name: \u00e9t\u00e9}}\n"
    after = database(
        tmp_path / "b.db", *rows, "UPDATE item SET name = '\u00e9t\u00e9' WHERE id = 1"
    )
    assert judged(tmp_path, named, before, after).verdict.value == "MATCH"
