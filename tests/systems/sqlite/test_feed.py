import fcntl
import os
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from statediff.capture.feed import Seen
from statediff.capture.source import SourceUnavailable
from statediff.capture.take import unobserved_state
from statediff.model.explanation import BY_RUN, by_run
from statediff.model.schema import Schema
from statediff.model.state import MemoryChunks, State
from statediff.systems.sqlite import catalogue
from statediff.systems.sqlite import feed as sqlite_feed
from statediff.systems.sqlite import replay as sqlite_replay
from statediff.systems.sqlite import wal as sqlite_wal
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.scan import Scan
from statediff.systems.sqlite.source import SqliteSource
from tests.systems.sqlite.sqlite_databases import clock, database

SHOP = """
CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE privilege (person INT, role TEXT, PRIMARY KEY (person, role));
CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT);
INSERT INTO person VALUES (1, 'Ada'), (2, 'Bo');
INSERT INTO privilege VALUES (1, 'admin');
INSERT INTO note VALUES (1, 'first'), (2, 'second');
"""


@dataclass
class Run:
    """A database under watch; every connection is its own, none begins transactions by itself."""

    path: Path
    connections: list[sqlite3.Connection] = field(default_factory=list)
    store: MemoryChunks = field(default_factory=MemoryChunks)

    def __post_init__(self) -> None:
        self.source = SqliteSource("shop-db", self.path)
        self.feed = SqliteFeed("shop-db", self.path)
        self.feed.attach()
        self.before = self.scan(None)

    def scan(self, like: State | None) -> State:
        return self.source.read(self.store, clock, like).state

    def connect(self) -> sqlite3.Connection:
        self.connections.append(sqlite3.connect(self.path, isolation_level=None, timeout=0))
        return self.connections[-1]

    def write(self, *statements: str) -> None:
        connection = self.connect()
        for statement in statements:
            connection.execute(statement)

    def beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def seen(self) -> Seen:
        return self.feed.finish(self.store, clock, self.before)


@pytest.fixture
def run(tmp_path):
    made = Run(database(tmp_path / "shop.db", SHOP))
    yield made
    made.feed.detach()
    for connection in made.connections:
        with suppress(sqlite3.Error):
            connection.close()


def keys(state: State, name: str):
    return [key for key, _ in state.tables[name].rows()]


def agent(path: Path, code: str) -> None:
    """Another process that does this to the database and ends as it says."""
    opened = f"db = sqlite3.connect({str(path)!r}, isolation_level=None, timeout=0)"
    program = f"import os, sqlite3\n{opened}\n"
    subprocess.run([sys.executable, "-c", program + code], check=False)


# What happened in between


def test_a_privilege_that_was_granted_and_revoked_is_seen_with_its_transactions(run):
    run.write("INSERT INTO privilege VALUES (2, 'admin')", "DELETE FROM privilege WHERE person = 2")
    seen = run.seen()
    assert seen.gap is None
    assert [t.id for t in seen.transactions] == ["shop-db/1", "shop-db/2"]
    assert keys(seen.transactions[0].state, "privilege") == [(1, "admin"), (2, "admin")]
    assert seen.transactions[1].state == run.before == run.scan(run.before)
    assert all(t.committed_at is None and t.source == "shop-db" for t in seen.transactions)
    positions = [int(t.position) for t in seen.transactions]
    assert positions == sorted(positions)


def test_a_row_that_was_deleted_and_put_back_is_seen(run):
    run.write("DELETE FROM note WHERE id = 2", "INSERT INTO note VALUES (2, 'second')")
    states = [t.state for t in run.seen().transactions]
    assert [keys(s, "note") for s in states] == [[(1,)], [(1,), (2,)]]
    assert states[1] == run.before


def test_a_quiet_run_has_no_transaction_and_no_gap(run):
    assert run.seen() == Seen(())


def test_tables_that_nobody_touched_are_those_of_the_state_before(run):
    run.write("UPDATE note SET body = 'x' WHERE id = 1")
    (transaction,) = run.seen().transactions
    shared = {
        name for name, table in transaction.state.tables.items() if table is run.before.tables[name]
    }
    assert set(run.before.tables) - shared == {"note"}


def test_what_other_processes_commit_is_seen_in_the_order_of_commits(run):
    run.write("INSERT INTO note VALUES (3, 'ours')")
    agent(run.path, "db.execute(\"INSERT INTO note VALUES (4, 'theirs')\")")
    run.write("INSERT INTO note VALUES (5, 'ours')")
    states = [t.state for t in run.seen().transactions]
    assert [len(keys(s, "note")) for s in states] == [3, 4, 5]


def test_work_that_was_rolled_back_or_died_is_no_transaction(run):
    spill = (
        "db.execute('PRAGMA cache_size = 1'); db.execute('BEGIN')\n"
        "db.executemany('INSERT INTO note VALUES (?, ?)', [(n, 'x' * 999) for n in range(9, 99)])\n"
    )
    agent(run.path, spill + "db.execute('ROLLBACK')")
    assert run.beside("-wal").stat().st_size > 80_000  # its pages were written before it gave up
    agent(run.path, spill + "os._exit(0)")
    run.write("INSERT INTO note VALUES (3, 'third')")
    agent(run.path, spill + "os._exit(0)")
    (transaction,) = run.seen().transactions
    assert keys(transaction.state, "note") == [(1,), (2,), (3,)]


def test_schema_changes_are_transactions_like_any_other(run):
    run.write(
        "CREATE TABLE extra (id INTEGER PRIMARY KEY)",
        "INSERT INTO extra VALUES (7)",
        "CREATE TRIGGER g AFTER DELETE ON note BEGIN SELECT 1; END",
        "DROP TABLE extra",
        "PRAGMA user_version = 9",
    )
    seen = run.seen()
    states = [t.state for t in seen.transactions]
    assert seen.gap is None
    assert ["extra" in s.tables for s in states] == [True, True, True, False, False]
    assert keys(states[1], "extra") == [(7,)]
    assert [len(keys(s, "db.trigger")) for s in states] == [0, 0, 1, 1, 1]
    assert states[-1] == run.scan(run.before)


def test_a_part_of_a_large_value_that_is_overwritten_in_place_is_seen(tmp_path):
    script = SHOP + "INSERT INTO note VALUES (3, zeroblob(50000))"
    run = Run(database(tmp_path / "shop.db", script))
    with run.connect().blobopen("note", "body", 3) as blob:
        blob.seek(40_000)
        blob.write(b"here")
    (transaction,) = run.seen().transactions
    row = dict(transaction.state.tables["note"].rows())[(3,)]
    assert row["body"][40_000:40_004] == b"here"
    run.feed.detach()


def test_what_the_log_held_at_the_start_belongs_to_the_state_before(tmp_path):
    path = database(tmp_path / "shop.db", SHOP)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO note VALUES (3, 'earlier')")
        run = Run(path)
        writer.execute("INSERT INTO note VALUES (4, 'later')")
        seen = run.seen()
        assert seen.gap is None
        assert [keys(t.state, "note") for t in seen.transactions] == [[(1,), (2,), (3,), (4,)]]
        run.feed.detach()


# What the held transaction prevents


def test_no_checkpoint_vacuum_or_change_of_mode_loses_a_transaction(run):
    writer = run.connect()
    writer.execute("INSERT INTO note VALUES (3, 'third')")
    assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 1  # busy
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        writer.execute("PRAGMA journal_mode = DELETE")
    writer.execute("PRAGMA page_size = 8192")
    writer.execute("VACUUM")
    writer.execute("DELETE FROM note WHERE id = 3")
    writer.close()  # the last to close folds the log, but for us
    seen = run.seen()
    assert seen.gap is None
    assert [len(keys(t.state, "note")) for t in seen.transactions] == [3, 3, 2]


def test_nothing_this_process_closes_gives_the_locks_up(run):
    for suffix in ("", "-wal", "-shm"):
        run.beside(suffix).read_bytes()
    run.scan(None)
    fold = "PRAGMA wal_checkpoint(TRUNCATE)"
    agent(run.path, f"db.execute('DELETE FROM note'); db.execute('{fold}')")
    agent(
        run.path,
        "db.execute('PRAGMA journal_mode = DELETE')",
    )
    seen = run.seen()
    assert (len(seen.transactions), seen.gap) == (1, None)


def test_watching_changes_no_byte_of_the_file(run):
    content = run.path.read_bytes()
    run.seen()
    run.feed.detach()
    assert run.path.read_bytes() == content
    assert run.beside("-wal").stat().st_size == 0


def test_a_feed_that_was_detached_holds_nothing_and_can_be_attached_again(run):
    run.feed.detach()
    run.feed.detach()
    with closing(run.connect()) as writer:
        assert writer.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
        assert writer.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    with pytest.raises(SourceUnavailable, match="no feed of shop-db is attached"):
        run.seen()
    run.feed.attach()
    run.write("DELETE FROM note")
    assert [keys(t.state, "note") for t in run.seen().transactions] == [[]]


def test_who_makes_the_log_ready_or_drops_it_is_waited_for(tmp_path, monkeypatch):
    path = database(tmp_path / "shop.db", SHOP)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    locked = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 128, 1, 0)
    with path.with_name("shop.db-shm").open("w+b") as other:
        fcntl.fcntl(other, fcntl.F_OFD_SETLK, locked)
        monkeypatch.setattr(sqlite_feed, "LOCKED_SECONDS", 0.1)
        with pytest.raises(SourceUnavailable, match="cannot be held: Resource temporarily"):
            SqliteFeed("shop-db", path).attach()
        monkeypatch.setattr(sqlite_feed, "LOCKED_SECONDS", 30.0)
        ended = threading.Timer(0.2, other.close)
        ended.start()
        waiting = SqliteFeed("shop-db", path)
        waiting.attach()
        ended.join()
    waiting.detach()


# Gaps


def overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        file.write(content)


def put_back(path: Path) -> None:
    content, status = path.read_bytes(), path.stat()
    overwrite(path, 5000, b"elsewhere")
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def exchange(path: Path) -> None:
    path.with_name("other").write_bytes(path.read_bytes())
    path.with_name("other").replace(path)


def there_and_back(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.with_name("away").rename(path)


def exclusive_without_locks(path: Path) -> None:
    with closing(
        sqlite3.connect(f"file:{path}?vfs=unix-none", uri=True, isolation_level=None)
    ) as blind:
        blind.execute("PRAGMA locking_mode = EXCLUSIVE")
        blind.execute("DELETE FROM person")
        blind.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        blind.execute("INSERT INTO person VALUES (1, 'Ada'), (2, 'Bo')")


WAL, SHM = (lambda p: p.with_name(p.name + "-wal")), (lambda p: p.with_name(p.name + "-shm"))
TAMPERING: dict[str, tuple[Callable[[Path], object], str]] = {
    "log cut to nothing": (lambda p: os.truncate(WAL(p), 0), "cut off or overwritten"),
    "log cut by a transaction": (
        lambda p: os.truncate(WAL(p), WAL(p).stat().st_size - 4120),
        "committed frames, its index says",
    ),
    "log cut to half a frame": (
        lambda p: os.truncate(WAL(p), WAL(p).stat().st_size - 99),
        "committed frames, its index says",
    ),
    "log removed": (lambda p: WAL(p).unlink(), "shop.db-wal was removed or exchanged"),
    "log exchanged": (lambda p: exchange(WAL(p)), "shop.db-wal was removed or exchanged"),
    "log made a link": (
        lambda p: (WAL(p).rename(p.with_name("x")), WAL(p).symlink_to(p.with_name("x"))),
        "shop.db-wal was removed or exchanged",
    ),
    "log made a pipe": (
        lambda p: (WAL(p).unlink(), os.mkfifo(WAL(p))),
        "shop.db-wal was removed or exchanged",
    ),
    "log overwritten": (lambda p: overwrite(WAL(p), 0, bytes(99)), "cut off or overwritten"),
    "bit in the log": (lambda p: overwrite(WAL(p), 300, b"?"), "its index says"),
    "frame of the log": (lambda p: overwrite(WAL(p), -20, b"?"), "its index says"),
    "index zeroed": (lambda p: overwrite(SHM(p), 0, bytes(136)), "index of its write-ahead log"),
    "index says less": (lambda p: overwrite(SHM(p), 16, b"\1"), "index of its write-ahead log"),
    "index removed": (lambda p: SHM(p).unlink(), "shop.db-shm was removed or exchanged"),
    "file removed": (lambda p: p.unlink(), "shop.db was removed or exchanged"),
    "file exchanged": (exchange, "shop.db was removed or exchanged"),
    "file linked": (
        lambda p: (p.rename(p.with_name("x")), p.symlink_to(p.with_name("x"))),
        "shop.db was removed or exchanged",
    ),
    "file cut off": (lambda p: os.truncate(p, 4096), "written past its log"),
    "page of the file": (lambda p: overwrite(p, 5000, b"direct"), "written past its log"),
    "page written and put back": (put_back, "written past its log"),
    "file gone and back": (there_and_back, "written past its log, or its mode changed"),
    "written without locks": (exclusive_without_locks, "shop.db"),
    "folder moved": (lambda p: p.parent.rename(p.parent.with_name("moved")), "was removed"),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_whoever_goes_past_the_log_makes_a_gap(tmp_path, name):
    (tmp_path / "folder").mkdir()
    run = Run(database(tmp_path / "folder" / "shop.db", SHOP))
    run.write("INSERT INTO note VALUES (3, 'third')", "INSERT INTO note VALUES (4, 'fourth')")
    tamper, cause = TAMPERING[name]
    tamper(run.path)
    seen = run.seen()
    assert seen.gap is not None
    assert seen.gap.startswith(BY_RUN)
    assert cause in seen.gap or name == "written without locks"
    # What is told nevertheless was really committed, in this order.
    told = [keys(t.state, "note") for t in seen.transactions]
    assert told == [[(1,), (2,), (3,)], [(1,), (2,), (3,), (4,)]][: len(told)]
    run.feed.detach()
    for connection in run.connections:
        with suppress(sqlite3.Error):
            connection.close()


def test_an_index_that_is_cut_off_kills_nobody_and_is_a_gap(run):
    agent(run.path, "db.execute('DELETE FROM note')")
    os.truncate(run.beside("-shm"), 0)
    cause = "its write-ahead log has 1 committed frames, its index says nothing"
    assert run.seen().gap == by_run(cause)
    assert keys(run.scan(run.before), "note") == []


def test_a_log_that_is_cut_off_while_nobody_has_it_open_is_a_gap(run):
    agent(run.path, "db.execute('DELETE FROM note WHERE id = 1')")
    size = run.beside("-wal").stat().st_size
    agent(run.path, "db.execute('DELETE FROM note WHERE id = 2')")
    os.truncate(run.beside("-wal"), size)
    run.scan(run.before)  # whoever opens it now might believe what is left
    cause = "its write-ahead log has 1 committed frames, its index says 2"
    assert run.seen().gap == by_run(cause)


def test_a_log_that_is_cut_off_under_its_readers_is_a_change(run):
    run.write("INSERT INTO note VALUES (3, 'third')")
    os.truncate(run.beside("-wal"), 0)
    part = run.source.read(run.store, clock, run.before)
    assert any("note: " in spoiled for spoiled in part.spoiled)


def test_what_follows_the_last_commit_in_the_log_is_no_gap(run):
    run.write("INSERT INTO note VALUES (3, 'third')")
    with run.beside("-wal").open("ab") as log:
        log.write(os.urandom(9999))
    seen = run.seen()
    assert seen.gap is None
    assert [keys(t.state, "note") for t in seen.transactions] == [[(1,), (2,), (3,)]]


def test_a_database_that_is_reset_under_the_feed_is_a_gap(run):
    beside = database(run.path.with_name("new"), SHOP)
    for suffix in ("-wal", "-shm"):
        run.beside(suffix).unlink()
    beside.replace(run.path)
    assert run.seen() == Seen((), by_run("shop.db was removed or exchanged"))


def test_a_capture_taken_after_a_commit_or_not_at_all_is_not_the_state_before(run):
    run.write("INSERT INTO note VALUES (3, 'third')")
    gap = "the capture before does not show the state in which the feed was attached"
    unread = Schema("shop-db", "0", (), (("shop-db", ()),))
    for before in (
        run.scan(None),
        unobserved_state(run.before.schema, run.store, "it was locked"),
        unobserved_state(unread, run.store, "it was locked"),
    ):
        run.before = before
        assert run.seen() == Seen((), gap)


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'person')", "person"),
        ("type = 'TABLE'", "note"),
    ],
    ids=["it shares its pages with another", "its kind is spelled otherwise"],
)
def test_rows_are_followed_whatever_the_catalogue_says_of_their_table(run, change, table):
    run.write(
        "PRAGMA writable_schema = ON", f"UPDATE sqlite_schema SET {change} WHERE name = 'note'"
    )
    run.write(f"INSERT INTO {table} VALUES (9, 'later')")
    seen = run.seen()
    assert seen.gap is None
    assert [(9,) in keys(t.state, "note") for t in seen.transactions] == [False, True]
    assert seen.transactions[-1].state == run.scan(run.before)


def test_a_catalogue_that_nobody_can_read_is_a_gap_from_there_on(run):
    run.write("INSERT INTO note VALUES (3, 'third')")
    run.write(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = 'nonsense' WHERE name = 'person'",
    )
    seen = run.seen()
    assert len(seen.transactions) == 1
    assert seen.gap is not None
    assert "the database is damaged" in seen.gap


CAPS = {
    "transactions": (sqlite_feed, "MAX_TRANSACTIONS", 2, "more than 2 transactions", 2),
    "log": (sqlite_feed, "MAX_LOG_BYTES", 9999, "log holds more than 0 MiB", 0),
    "reading": (sqlite_replay, "MAX_READ_BYTES", 9999, "more than 0 MiB of reading", 2),
    "commit": (sqlite_wal, "MAX_COMMIT_BYTES", 4097, "wrote more than 0 MiB", 3),
}


@pytest.mark.parametrize("name", CAPS)
def test_beyond_each_limit_there_is_a_gap_and_what_was_told_stands(run, monkeypatch, name):
    module, constant, limit, cause, told = CAPS[name]
    for n in range(3, 6):
        run.write(f"INSERT INTO note VALUES ({n}, 'more')")
    run.write("INSERT INTO note SELECT id + 9, printf('%.9999c', 'x') FROM note")
    monkeypatch.setattr(module, constant, limit)
    seen = run.seen()
    assert seen.gap is not None
    assert seen.gap.startswith(BY_RUN)
    assert cause in seen.gap
    assert [len(keys(t.state, "note")) for t in seen.transactions] == [3, 4, 5][:told]


def test_a_commit_that_makes_a_table_reads_no_other_again(run, monkeypatch):
    read: list[str] = []
    table = Scan.table

    def reading(scan, entity, like):
        read.append(entity.name)
        return table(scan, entity, like)

    for n in range(4):
        run.write(
            f"CREATE TABLE t{n} (id INTEGER PRIMARY KEY, x)", f"INSERT INTO t{n} VALUES (1, 2)"
        )
    last = run.scan(run.before)
    monkeypatch.setattr(Scan, "table", reading)
    seen = run.seen()
    assert seen.gap is None
    assert seen.transactions[-1].state.digest() == last.digest()
    assert [read.count(f"t{n}") for n in range(4)] == [1] * 4, (
        "when it is made; what it is filled with is in the pages"
    )
    assert read.count("note") <= 2
    monkeypatch.setattr(sqlite_replay, "MAX_READ_TABLES", 9)
    assert "the catalogue of more than 9 tables" in (run.seen().gap or "")


def test_a_table_is_described_again_where_the_catalogue_says_something_else(run, monkeypatch):
    described: list[str] = []
    table = catalogue._table

    def describing(connection, name, *rest):
        described.append(name)
        return table(connection, name, *rest)

    monkeypatch.setattr(catalogue, "_table", describing)
    for n in range(4):
        run.write(f"CREATE TABLE t{n} (id INTEGER PRIMARY KEY, x)")
    run.write("ALTER TABLE t1 ADD COLUMN y")
    last = run.scan(run.before)
    described.clear()
    seen = run.seen()
    assert seen.gap is None
    assert seen.transactions[-1].state.digest() == last.digest()
    assert [described.count(f"t{n}") for n in range(4)] == [1, 2, 1, 1]


def test_short_rows_that_are_read_again_and_again_end_the_history(run, monkeypatch):
    many = "WITH RECURSIVE n (i) AS (SELECT 9 UNION ALL SELECT i + 1 FROM n LIMIT 100)"
    run.write(f"{many} INSERT INTO note SELECT i, '' FROM n")
    for n in range(9):
        run.write(f"UPDATE note SET body = '{n}'")
    assert run.seen().gap is None
    monkeypatch.setattr(sqlite_replay, "ROW_BYTES", sqlite_replay.MAX_READ_BYTES // 900)
    assert "MiB of reading" in (run.seen().gap or "")


# What cannot be watched


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_pipe_or_a_link_in_place_of_a_file_is_never_waited_for(tmp_path, suffix):
    for kind in (os.mkfifo, lambda path: path.symlink_to("/etc/passwd")):
        path = database(tmp_path / f"{kind.__name__}.db", SHOP)
        beside = path.with_name(path.name + suffix)
        beside.unlink(missing_ok=True)
        kind(beside)
        with pytest.raises(SourceUnavailable, match=r"is not a file|cannot be held"):
            SqliteFeed("shop-db", path).attach()


@pytest.mark.parametrize("content", [b"", b"nonsense" * 999, None])
def test_what_is_no_database_with_a_log_has_no_feed(tmp_path, content):
    path = tmp_path / "shop.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceUnavailable):
        SqliteFeed("shop-db", path).attach()


def test_a_database_without_a_log_says_so(tmp_path):
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SHOP)
    with pytest.raises(SourceUnavailable, match="keeps no write-ahead log: PRAGMA journal_mode"):
        SqliteFeed("shop-db", path).attach()


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_log_that_was_put_back_is_a_gap(run, is_begun):
    if is_begun:
        run.write("INSERT INTO note VALUES (8, 'first')")
    run.connect().execute("SELECT * FROM note").fetchall()
    saved = {name: run.beside(name).read_bytes() for name in ("-wal", "-shm")}
    run.write("INSERT INTO note VALUES (9, 'granted')", "DELETE FROM note WHERE id = 9")
    for name, content in saved.items():
        run.beside(name).write_bytes(content)
    assert run.seen().gap is not None
    assert run.seen().gap is not None


def test_an_index_that_sqlite_lets_grow_is_none(run):
    run.write("PRAGMA wal_autocheckpoint = 0")
    many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1500)"
    for n in range(6):
        run.write(f"{many} INSERT INTO note SELECT {n} * 1500 + 9 + i, zeroblob(3900) FROM n")
    assert run.beside("-shm").stat().st_size > 2 * 32768
    assert run.seen().gap is None
