"""Databases without a reader of their own: DuckDB and Firebird, by SQLAlchemy."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statediff_data.databases.source import DatabaseSource, observed

import statediff
from statediff.capture.source import SourceUnavailable
from statediff.errors import InputError, UsageError
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Map, Unobserved, decode, encode
from statediff.workspace.inputs import offline_clock, one_capture

duckdb = pytest.importorskip("duckdb")

TABLES = """
CREATE TABLE kinds (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, amount DECIMAL(10,2),
  moment TIMESTAMP, seen TIMESTAMPTZ, day DATE, hour TIME, content BLOB, ratio DOUBLE, big HUGEINT,
  tags INTEGER[], shape STRUCT(a INTEGER, b VARCHAR), ok BOOLEAN);
INSERT INTO kinds VALUES (1, 'Ada', 1.50, '2026-01-05 12:00:00', '2026-01-05 12:00:00+00',
  '2026-01-05', '12:00:01', 'abc', 0.1, 123456789012345678901234567890, [1, 2],
  {'a': 1, 'b': 'x'}, true);
CREATE TABLE pair (a INTEGER, b INTEGER, PRIMARY KEY (b, a));
CREATE TABLE plain (x INTEGER);
INSERT INTO plain VALUES (1), (1), (2);
CREATE VIEW named AS SELECT name FROM kinds;
CREATE SCHEMA other;
CREATE TABLE other.elsewhere (x INTEGER);
"""


def run(path: Path, statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(statements)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "app.duckdb"
    run(path, TABLES)
    return path


def read(url: str, like: State | None = None) -> State:
    return DatabaseSource("db", url).read(MemoryChunks(), offline_clock, like).state


def test_values_have_the_types_that_the_driver_gives_them(base: Path) -> None:
    state = read(f"duckdb:///{base}")
    kinds = state.tables["kinds"]
    assert (kinds.type.key, state.tables["pair"].type.key) == (("id",), ("b", "a"))
    assert state.tables["plain"].row_count == 3
    assert "elsewhere" not in state.tables
    [(_, row)] = kinds.rows()
    assert row == {
        "id": 1,
        "name": "Ada",
        "amount": Decimal("1.50"),
        "moment": datetime(2026, 1, 5, 12),  # noqa: DTZ001 - the column has no zone
        "seen": datetime(2026, 1, 5, 12, tzinfo=UTC),
        "day": date(2026, 1, 5),
        "hour": "12:00:01",
        "content": b"abc",
        "ratio": 0.1,
        "big": 123456789012345678901234567890,
        "tags": (1, 2),
        "shape": Map.of({"a": 1, "b": "x"}),
        "ok": True,
    }
    assert {name for (name,), _ in state.tables["db.view"].rows()} == {"named"}


def test_changes_of_rows_and_of_tables_are_seen(base: Path) -> None:
    with statediff.watch(db=f"duckdb:///{base}", settle_seconds=0) as watched:
        run(base, "UPDATE kinds SET tags = [1, 3]; DELETE FROM plain WHERE x = 2;"
                  "CREATE TABLE added (id INTEGER); DROP TABLE pair")  # fmt: skip
    seen = {(d["op"], d["type"], d.get("path")) for d in watched.changes}
    assert seen == {
        ("update", "kinds", "tags[1]"),
        ("delete", "plain", ""),
        ("create", "db.table", ""),
        ("delete", "db.table", ""),
    }


def test_a_schema_is_chosen_and_tables_by_pattern(base: Path) -> None:
    [part] = one_capture([f"db=duckdb:///{base}?schema=other"], lambda _: None).parts
    assert set(part.state.tables) == {"db.schema", "db.table", "db.view", "elsewhere"}
    [part] = one_capture([f"db=duckdb:///{base}?tables=p*"], lambda _: None).parts
    assert set(part.state.tables) == {"db.schema", "db.table", "db.view", "pair", "plain"}
    with pytest.raises(InputError, match=r"no table is called nosuch; correct `\?tables=`"):
        one_capture([f"db=duckdb:///{base}?tables=pair,nosuch"], lambda _: None)


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "none.duckdb"
    with pytest.raises(InputError, match="does not exist"):
        one_capture([f"db=duckdb:///{missing}"], lambda _: None)
    assert not missing.exists()


@pytest.mark.parametrize(
    ("url", "words"),
    [("snowflake://u:hidden@h/d", "pip install snowflake-sqlalchemy"),
     ("oracle://u:hidden@h/d", "pip install oracledb"),
     ("nosuch://u:hidden@h/d", "no installed system reads")],
)  # fmt: skip
def test_a_missing_driver_is_named(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        one_capture([f"db={url}"], lambda _: None)
    assert "hidden" not in str(caught.value)


def test_a_write_between_two_looks_leaves_no_reading(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's dialect promises no one moment, so that every reading is made twice."""
    looked = DatabaseSource._look
    count = iter(range(100))

    def look(source: DatabaseSource, connection: Any, *arguments: Any) -> Any:
        seen = looked(source, connection, *arguments)
        connection.engine.dispose()  # a file of DuckDB has one writer and then no reader
        connection.invalidate()
        run(base, f"UPDATE kinds SET amount = {next(count)}")
        return seen

    monkeypatch.setattr(DatabaseSource, "_look", look)
    with pytest.raises(SourceUnavailable, match="kept changing"):
        read(f"duckdb:///{base}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5)
    | st.decimals(allow_nan=False) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=25)
@given(JSON)
def test_a_value_of_a_driver_is_a_value_of_ours(raw: object) -> None:
    assert encode(decode(encode(observed(raw)))) == encode(observed(raw))


def test_what_has_no_exact_form_is_unobserved_and_named() -> None:
    assert observed(object()) == Unobserved("a value of the driver's type object")
    assert observed([1, {"a": {1, 2}}]) == Unobserved("a value of the driver's type set")


@pytest.mark.clients("isql-fb")
def test_firebird_is_read_by_its_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The default, one folder for the machine, belongs to whoever used Firebird first.
    monkeypatch.setenv("FIREBIRD_LOCK", str(tmp_path))
    fdb = pytest.importorskip("fdb")
    place = tmp_path / "app.fdb"
    account = {"dsn": str(place), "user": "SYSDBA", "password": "x", "charset": "UTF8"}
    connection = fdb.create_database(**account)
    connection.execute_immediate("CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(20))")
    connection.execute_immediate('CREATE TABLE "Mixed" (id INTEGER PRIMARY KEY, moment TIMESTAMP)')
    connection.commit()
    connection.cursor().execute("INSERT INTO users VALUES (1, 'Ada')")
    connection.commit()
    connection.close()
    url = f"firebird+fdb://SYSDBA:x@/{place}?charset=UTF8"
    with statediff.watch(db=url, settle_seconds=0) as watched:
        connection = fdb.connect(**account)
        connection.cursor().execute("UPDATE users SET name = 'Bob'")
        connection.cursor().execute("INSERT INTO \"Mixed\" VALUES (7, '2026-01-05 12:00:00')")
        connection.commit()
        connection.close()
    seen = {(d["op"], d["type"], d["key"]) for d in watched.changes}
    assert seen == {("update", "users", 1), ("create", "Mixed", 7)}
