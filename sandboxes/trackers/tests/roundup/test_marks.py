"""A tracker's connection names the transactions of its own request, whoever writes besides."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from statediff_trackers.roundup.server import NotedConnection, noting

from statediff.model.state import MemoryChunks
from statediff.model.trace import Mark
from statediff.model.values import Key
from statediff.systems.hosted.headers import UNKNOWN, marks_of
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.source import SqliteSource
from tests.systems.sqlite.sqlite_databases import clock, database


class Tracker:
    """A watched database, with whatever connections a test opens."""

    def __init__(self, path: Path) -> None:
        self.path = database(path, "CREATE TABLE t (id INTEGER PRIMARY KEY, who TEXT)")
        self.feed = SqliteFeed("tracker", self.path)
        self.feed.attach()
        self.store = MemoryChunks()
        self.before = SqliteSource("tracker", self.path).read(self.store, clock, None).state

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30, factory=NotedConnection)

    def foreign(self) -> None:
        with closing(sqlite3.connect(self.path, timeout=30)) as other, other:
            other.execute("INSERT INTO t (who) VALUES ('foreign')")

    def writers(self) -> dict[str, str]:
        """The position of each transaction → who it says wrote the row that it made."""
        found: dict[str, str] = {}
        seen: set[Key] = set()
        told = self.feed.finish(self.store, clock, self.before)
        assert told.gap is None
        for transaction in told.transactions:
            rows = {key: str(row["who"]) for key, row in transaction.state.tables["t"].rows()}
            (new,) = rows.keys() - seen
            seen |= rows.keys()
            found[transaction.position] = rows[new]
        return found


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[Tracker]:
    made = Tracker(tmp_path / "db")
    yield made
    made.feed.detach()


def test_each_of_several_requests_at_once_names_its_own_transactions(tracker: Tracker) -> None:
    named: dict[str, list[str]] = {}
    start = threading.Barrier(4)

    def serve(who: str) -> None:
        with closing(tracker.connect()) as connection, noting() as made:
            start.wait()
            for _ in range(10):
                connection.execute("INSERT INTO t (who) VALUES (?)", (who,))
                connection.commit()
            named[who] = made

    requests = [threading.Thread(target=serve, args=(f"request {n}",)) for n in range(3)]
    for request in requests:
        request.start()
    start.wait()
    for _ in range(10):
        tracker.foreign()
    for request in requests:
        request.join()
    writers = tracker.writers()
    assert len(writers) == 40
    for who, made in named.items():
        assert [writers[name] for name in made] == [who] * 10


def test_what_commits_by_itself_is_named_as_well(tracker: Tracker) -> None:
    with closing(tracker.connect()) as connection, noting() as made:
        connection.execute("INSERT INTO t (who) VALUES ('numbered')")
        connection.isolation_level = None  # as Roundup does before it takes a number
        assert not connection.in_transaction
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (who) VALUES ('number')")
        connection.isolation_level = ""
        connection.commit()
    writers = tracker.writers()
    assert [writers[name] for name in made] == ["numbered", "number"]


def test_what_changed_nothing_or_was_rolled_back_is_no_transaction(tracker: Tracker) -> None:
    with closing(tracker.connect()) as connection, noting() as made:
        connection.execute("SELECT * FROM t").fetchall()
        connection.commit()
        connection.execute("INSERT INTO t (who) VALUES ('nobody')")
        connection.rollback()
        connection.execute("DELETE FROM t WHERE id = 0")
        connection.commit()
        tracker.foreign()
    assert made == []
    assert list(tracker.writers().values()) == ["foreign"]


def test_what_cannot_be_counted_has_no_name(tracker: Tracker) -> None:
    with closing(tracker.connect()) as connection, noting() as made:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE u (id INTEGER)")
        connection.commit()
    assert made == [UNKNOWN]


def test_what_is_done_outside_a_request_or_beside_the_database_is_not_noted(
    tracker: Tracker, tmp_path: Path
) -> None:
    with closing(tracker.connect()) as connection:
        connection.execute("INSERT INTO t (who) VALUES ('the server')")
        connection.commit()
    beside = sqlite3.connect(tmp_path / "db-otk", factory=NotedConnection)
    with closing(beside), noting() as made:
        beside.execute("CREATE TABLE t (who TEXT)")
        beside.execute("INSERT INTO t VALUES ('a session')")
        beside.commit()
    assert made == []


@pytest.mark.parametrize("said", [(), ("1", "2"), ("1,2",), ("0",), ("-1",), ("1" * 20,), ("a",)])
def test_words_that_the_server_does_not_use_name_nothing(said: tuple[str, ...]) -> None:
    assert marks_of("tracker", said) is None
    assert marks_of("tracker", ("12 ?",)) == (Mark("tracker", "12"), Mark("tracker"))
    assert marks_of("tracker", ("",)) == ()
