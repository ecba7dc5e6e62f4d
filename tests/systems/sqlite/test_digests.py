"""Wide values of SQLite: told by digest in bounded memory, by scan and by feed."""

import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import parse_schema_file
from statediff.errors import ContractError
from statediff.kernel.diff import diff
from statediff.model.schema import Schema
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Digested, Observed, Unobserved
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.source import SqliteSource

SECRET = b"\x89PNG the bytes that stay where they are"
TABLE = "CREATE TABLE doc (id INTEGER PRIMARY KEY, name TEXT, body BLOB, note TEXT)"


def schema_of(fields: str, table: str = "doc") -> Callable[[Schema], Schema]:
    text = f"schema: docs\nversion: 1.0.0\nentities:\n  {table}:\n    fields: {{{fields}}}\n"
    return refine(parse_schema_file(text.encode(), "schema.yaml"), "db")


BY_DIGEST = schema_of("body: {digest_above_bytes: 0}, note: {digest_above_bytes: 8}")


def written(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


def read(
    path: Path, how: Callable[[Schema], Schema] | None = None, like: State | None = None
) -> State:
    source = SqliteSource("db", path, how)
    return source.read(MemoryChunks(), lambda: datetime.now(UTC), like).state


def cells(state: State, field: str, table: str = "doc") -> list[Observed]:
    return [row[field] for _, row in state.tables[table].rows()]


def test_a_binary_column_is_told_by_digest_where_the_schema_says_so(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.db", TABLE,
        f"INSERT INTO doc VALUES (1, 'a', x'{SECRET.hex()}', 'short')",
        "INSERT INTO doc VALUES (2, 'b', NULL, 'long enough')",
        "INSERT INTO doc VALUES (3, 'c', 'text', CAST(x'ff00000000000000ff' AS TEXT))",
    )  # fmt: skip
    state = read(path, BY_DIGEST)
    assert cells(state, "body") == [Digested.of(SECRET), None, Digested.of("text")]
    assert cells(state, "note") == [
        "short", Digested.of("long enough"),
        replace(Digested.of(b"\xff\0\0\0\0\0\0\0\xff"), kind="text"),
    ]  # fmt: skip
    written(
        path, "UPDATE doc SET body = body WHERE id = 1", "UPDATE doc SET body = x'00' WHERE id = 3"
    )
    found = diff(state, read(path, BY_DIGEST, state))
    assert [d.id for d in found.deltas] == ["doc[3].body"]
    assert not found.doubts


def test_a_feed_tells_digests_as_a_scan_does(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", "PRAGMA journal_mode = WAL", TABLE,
                   f"INSERT INTO doc VALUES (1, 'a', x'{SECRET.hex()}', 'kept')")  # fmt: skip
    store, feed = MemoryChunks(), SqliteFeed("db", path, BY_DIGEST)
    feed.attach()
    try:
        source = SqliteSource("db", path, BY_DIGEST)
        before = source.read(store, lambda: datetime.now(UTC), None).state
        written(path, "UPDATE doc SET body = zeroblob(9000)")
        written(path, f"UPDATE doc SET body = x'{SECRET.hex()}', name = 'b'")
        seen = feed.finish(store, lambda: datetime.now(UTC), before)
    finally:
        feed.detach()
    assert seen.gap is None
    during = [cells(t.state, "body") for t in seen.transactions]
    assert during == [[Digested.of(bytes(9000))], [Digested.of(SECRET)]]
    assert seen.transactions[-1].state.digest() == read(path, BY_DIGEST, before).digest()


def test_a_wide_value_takes_no_more_memory_than_a_piece_of_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", TABLE,
                   "INSERT INTO doc VALUES (1, 'a', zeroblob(40000000), NULL)")  # fmt: skip
    tracemalloc.start()
    try:
        state = read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cells(state, "body") == [Digested.of(bytes(40_000_000))]
    assert peak < 16_000_000


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE doc (id TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID",
        "CREATE TABLE doc (id TEXT, body BLOB, rowid, _rowid_, oid)",
    ],
)
def test_a_wide_value_of_a_row_without_a_number_is_known_by_its_digest(
    tmp_path: Path, table: str
) -> None:
    path = written(tmp_path / "a.db", table, "INSERT INTO doc (id, body) VALUES ('a', zeroblob(9))")
    (cell,) = cells(read(path, schema_of("body: {digest_above_bytes: 0}")), "body")
    assert cell == Digested.of(bytes(9))


def test_a_column_that_takes_the_name_of_the_row_id_misleads_nobody(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", "CREATE TABLE doc (rowid TEXT, body BLOB)",
                   "INSERT INTO doc VALUES ('2', x'01'), ('1', x'02')")  # fmt: skip
    found = cells(read(path, schema_of("body: {digest_above_bytes: 0}")), "body")
    assert sorted(found, key=str) == sorted([Digested.of(b"\1"), Digested.of(b"\2")], key=str)


def test_text_in_another_encoding_is_left_open_and_blobs_are_not(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", "PRAGMA encoding = 'UTF-16le'", TABLE,
                   "INSERT INTO doc VALUES (1, 'a', x'01', 'a long text')")  # fmt: skip
    state = read(path, BY_DIGEST)
    assert cells(state, "body") == [Digested.of(b"\1")]
    assert cells(state, "note") == [Unobserved("value of 22 bytes exceeds the capture limit")]


@pytest.mark.parametrize("field", ["id", "size"])
def test_a_key_or_a_number_is_never_told_by_digest(tmp_path: Path, field: str) -> None:
    path = written(tmp_path / "a.db", "CREATE TABLE doc (id TEXT PRIMARY KEY, size INT)")
    with pytest.raises(ContractError, match="digest_above_bytes"):
        read(path, schema_of(f"{field}: {{digest_above_bytes: 0}}"))
