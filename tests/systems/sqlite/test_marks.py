"""A connection says which transactions of the log it made, and never claims another's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from statediff.capture.feed import Seen
from statediff.model.state import MemoryChunks
from statediff.model.trace import Mark
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.source import SqliteSource
from statediff.systems.sqlite.wal import LogMarks
from tests.systems.sqlite.sqlite_databases import clock, database


class Shop:
    """A watched database with a marked connection and somebody else's."""

    def __init__(self, path: Path) -> None:
        self.path = database(path, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INT)")
        self.feed = SqliteFeed("db", self.path)
        self.feed.attach()
        self.store = MemoryChunks()
        self.before = SqliteSource("db", self.path).read(self.store, clock, None).state
        self.own, self.other = (sqlite3.connect(self.path, isolation_level=None) for _ in "ab")
        self.marks = LogMarks("db", self.path)

    def does(self, statement: str) -> tuple[Mark, ...]:
        return self.marks.execute(self.own, statement)[1]

    def seen(self) -> Seen:
        return self.feed.finish(self.store, clock, self.before)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop.db")
    with closing(made.own), closing(made.other):
        yield made
        made.feed.detach()


def test_what_is_marked_is_what_the_feed_tells(shop: Shop) -> None:
    first = shop.does("INSERT INTO t VALUES (1, 1)")
    shop.other.execute("INSERT INTO t VALUES (2, 2)")
    second = shop.does("UPDATE t SET n = 5")
    third = shop.does("CREATE TABLE u (id INTEGER PRIMARY KEY)")
    positions = [t.position for t in shop.seen().transactions]
    assert [m.name for m in (*first, *second, *third)] == [positions[n] for n in (0, 2, 3)]


@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM t", "UPDATE t SET n = 1 WHERE 0", "PRAGMA user_version",
     "CREATE TABLE IF NOT EXISTS t (id)"],
)  # fmt: skip
def test_what_writes_nothing_made_nothing(shop: Shop, statement: str) -> None:
    shop.other.execute("INSERT INTO t VALUES (2, 2)")
    assert shop.does(statement) == ()


def test_what_fails_made_nothing_and_leaves_nothing_open(shop: Shop) -> None:
    for statement in (
        "INSERT INTO t VALUES (1, 1), (1, 2)",
        "INSERT INTO x VALUES (1)",
        "nonsense",
    ):
        with pytest.raises(sqlite3.Error):
            shop.does(statement)
        assert not shop.own.in_transaction
    assert shop.seen().transactions == ()


def test_a_transaction_is_made_by_the_call_that_commits_it(shop: Shop) -> None:
    assert shop.does("BEGIN") == ()
    assert shop.does("INSERT INTO t VALUES (1, 1)") == ()
    (mark,) = shop.does("COMMIT")
    assert [t.position for t in shop.seen().transactions] == [mark.name]
    assert shop.does("BEGIN") == shop.does("INSERT INTO t VALUES (2, 2)") == ()
    assert shop.does("ROLLBACK") == ()


def test_what_others_commit_meanwhile_is_never_claimed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = shop.marks.since

    def interrupted() -> list[Mark]:
        shop.other.execute("INSERT INTO t VALUES (NULL, 7)")
        return since()

    monkeypatch.setattr(shop.marks, "since", interrupted)
    assert shop.does("UPDATE t SET n = 1 WHERE 0") == (Mark("db"),)
    (mark,) = shop.does("INSERT INTO t VALUES (90, 1)")
    told = shop.seen().transactions
    assert mark.name == told[1].position
    assert [key for key, _ in told[1].state.tables["t"].rows()] == [(1,), (90,)]


def test_rows_of_a_table_of_the_connections_own_are_no_transaction(shop: Shop) -> None:
    shop.does("INSERT INTO t VALUES (1, 1)")
    shop.does("CREATE TEMP TABLE mine (n INT)")
    assert shop.does("INSERT INTO mine VALUES (1)") == ()


def test_a_database_without_a_log_does_not_know_what_was_made(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "plain.db", isolation_level=None)) as connection:
        marks = LogMarks("db", tmp_path / "plain.db")
        assert marks.execute(connection, "CREATE TABLE t (id)") == ([], (Mark("db"),))
        assert marks.execute(connection, "SELECT * FROM t") == ([], ())
