import os
import smtplib
import socket
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from statediff.capture.source import SourceUnavailable, clock
from statediff.capture.take import take
from statediff.errors import SandboxError, UsageError
from statediff.model.state import MemoryChunks
from statediff.packs import read_pack, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox


@pytest.fixture
def sandbox(tmp_path: Path):
    with EmbeddedSandbox(sandbox_pack("shop"), tmp_path / "work") as running:
        yield running


def database_of(sandbox: EmbeddedSandbox) -> Path:
    return Path(sandbox.access().urls["shop-db"].removeprefix("sqlite:///"))


def execute(sandbox: EmbeddedSandbox, *statements: str) -> None:
    connection = sqlite3.connect(database_of(sandbox), isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def send_mail(sandbox: EmbeddedSandbox, to: str = "someone@mail.example") -> None:
    host, port = sandbox.access().urls["outbox"].removeprefix("smtp://").split(":")
    with smtplib.SMTP(host, int(port), timeout=5) as server:
        server.sendmail("care@hearthside.example", [to], "Subject: hello\r\n\r\nhello\r\n")


def drift_of(sandbox: EmbeddedSandbox) -> list[tuple[str, str]]:
    receipt = sandbox.verify(clock)
    assert receipt.ok == (not receipt.drift)
    return [(entry.source, entry.what) for entry in receipt.drift]


def entities(sandbox: EmbeddedSandbox) -> int:
    capture = take(sandbox.sources(), MemoryChunks(), clock, None, "before")
    return sum(
        table.row_count
        for part in capture.parts
        for name, table in part.state.tables.items()
        if not name.startswith("db.")
    )


def test_a_fresh_sandbox_proves_412_entities_in_2_sources(sandbox):
    receipt = sandbox.verify(clock)
    assert receipt.ok
    assert [proof.source for proof in receipt.proofs] == ["outbox", "shop-db"]
    assert receipt.entities == entities(sandbox) == 412


def test_reset_and_verify_stay_within_tens_of_milliseconds(sandbox):
    times = []
    for _ in range(5):
        began = time.perf_counter()
        sandbox.reset()
        assert sandbox.verify(clock).ok
        times.append(time.perf_counter() - began)
    assert min(times) < 0.05


def test_an_unknown_source_is_refused(sandbox):
    with pytest.raises(SandboxError):
        sandbox.unplug("no such source")


def test_two_sandboxes_have_the_same_base(sandbox, tmp_path):
    with EmbeddedSandbox(sandbox_pack("shop"), tmp_path / "other") as other:
        digests = [[p.expected for p in s.verify(clock).proofs] for s in (sandbox, other)]
    assert digests[0] == digests[1]


def test_a_changed_row_is_drift_that_names_its_table(sandbox):
    execute(sandbox, "UPDATE products SET stock = stock + 1 WHERE id = 301")
    assert drift_of(sandbox) == [("shop-db", "table products")]


def test_a_table_that_came_and_went_is_drift_of_the_file(sandbox):
    execute(sandbox, "CREATE TABLE passing (x)", "DROP TABLE passing")
    assert drift_of(sandbox) == [("shop-db", "page 1 of shop-db.sqlite")]


def test_an_added_table_and_a_trigger_are_drift(sandbox):
    execute(
        sandbox,
        "CREATE TABLE extra (a)",
        "CREATE TRIGGER quiet AFTER INSERT ON refunds BEGIN SELECT 1; END",
    )
    found = drift_of(sandbox)
    assert ("shop-db", "table extra") in found
    assert ("shop-db", "table sqlite_schema (trigger quiet)") in found


def test_a_changed_file_mode_is_drift(sandbox):
    database_of(sandbox).chmod(0o666)
    receipt = sandbox.verify(clock)
    assert [str(entry) for entry in receipt.drift] == [
        "shop-db: file shop-db.sqlite: expected mode 0600, found mode 0666"
    ]


def test_a_leftover_write_ahead_log_is_drift(sandbox):
    connection = sqlite3.connect(database_of(sandbox), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("DELETE FROM notes WHERE id = 901")
    found = drift_of(sandbox)
    connection.close()
    assert ("shop-db", "file shop-db.sqlite-wal") in found


def test_reading_is_no_drift_but_a_log_that_is_not_empty_or_no_file_is(sandbox):
    entities(sandbox)
    file = database_of(sandbox)
    log, index = (file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))
    assert log.exists()
    assert sandbox.verify(clock).ok
    log.write_bytes(b"x")
    assert ("shop-db", f"file {log.name}") in drift_of(sandbox)
    log.write_bytes(b"")
    index.unlink()
    index.symlink_to(file)
    assert ("shop-db", f"file {index.name}") in drift_of(sandbox)


def test_a_message_in_the_outbox_is_drift(sandbox):
    send_mail(sandbox)
    receipt = sandbox.verify(clock)
    assert not receipt.ok
    assert [(d.source, d.found) for d in receipt.drift] == [("outbox", "1 deliveries")]


def test_a_file_in_the_agents_folder_is_drift(sandbox):
    (sandbox.agent_folder / "plan.txt").write_text("next time")
    assert drift_of(sandbox) == [("agent", "file agent/plan.txt")]


def test_a_file_that_is_no_database_any_more_is_drift(sandbox):
    database_of(sandbox).write_bytes(b"gone")
    assert drift_of(sandbox) == [("shop-db", "page 1 of shop-db.sqlite")]


def test_a_missing_database_is_drift(sandbox):
    sandbox.unplug("shop-db")
    assert drift_of(sandbox) == [("shop-db", "file shop-db.sqlite")]


def test_reset_mends_every_kind_of_drift(sandbox):
    send_mail(sandbox)
    file = database_of(sandbox)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("DELETE FROM customers")
    (file.parent / "sub").mkdir()
    (file.parent / "sub" / "deep").write_text("x")
    (file.parent.parent / "stray").symlink_to("/etc/passwd")
    (sandbox.agent_folder / "locked").mkdir(mode=0o000)
    sandbox.unplug("outbox")
    sandbox.reset()
    assert sandbox.verify(clock).ok
    connection.execute("INSERT INTO tags VALUES ('late', 'written by an old handle')")
    connection.close()
    assert not [d for d in drift_of(sandbox) if d[1].startswith("table")]


def test_a_database_exchanged_for_a_link_is_drift_and_its_target_survives_reset(sandbox, tmp_path):
    target = tmp_path / "precious"
    target.write_text("keep me")
    database_of(sandbox).unlink()
    database_of(sandbox).symlink_to(target)
    assert ("shop-db", "file shop-db.sqlite") in drift_of(sandbox)
    sandbox.reset()
    assert sandbox.verify(clock).ok
    assert target.read_text() == "keep me"


def test_an_unplugged_outbox_refuses_connections_until_the_next_reset(sandbox):
    sandbox.unplug("outbox")
    outbox = next(source for source in sandbox.sources() if source.name == "outbox")
    with pytest.raises(SourceUnavailable, match="connection refused"):
        outbox.read(MemoryChunks(), clock, None)
    assert drift_of(sandbox) == [("outbox", "the outbox")]
    sandbox.reset()
    send_mail(sandbox)
    assert entities(sandbox) == 413


def test_a_quiet_sandbox_is_settled_and_settling_changes_nothing(sandbox):
    before = database_of(sandbox).read_bytes()
    assert sandbox.settle(clock).unsettled == ()
    assert database_of(sandbox).read_bytes() == before
    assert sandbox.verify(clock).ok


def test_settling_does_not_fold_a_write_ahead_log_into_the_file(sandbox):
    file = database_of(sandbox)
    log = file.with_name(file.name + "-wal")
    agent = sqlite3.connect(file, isolation_level=None)
    agent.execute("PRAGMA journal_mode = WAL")
    agent.execute("DELETE FROM notes WHERE id = 901")
    copies = {path: path.read_bytes() for path in (file, log)}
    agent.close()  # folds the log; put back what a crash would have left
    for path, content in copies.items():
        path.write_bytes(content)
    assert sandbox.settle(clock).unsettled == ()
    assert {path: path.read_bytes() for path in (file, log)} == copies


def test_an_open_write_transaction_is_waited_for_and_then_named(sandbox):
    agent = sqlite3.connect(database_of(sandbox), isolation_level=None)
    agent.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    settled = sandbox.settle(clock, wait_seconds=0.1)
    assert 0.1 <= time.monotonic() - began < 1
    assert settled.unsettled == (("shop-db", "a write transaction is still open"),)
    agent.execute("ROLLBACK")
    agent.close()


def test_settle_ends_as_soon_as_the_transaction_does(sandbox):
    agent = sqlite3.connect(database_of(sandbox), isolation_level=None, check_same_thread=False)
    agent.execute("BEGIN IMMEDIATE")
    committing = threading.Timer(0.1, lambda: agent.execute("COMMIT"))
    committing.start()
    began = time.monotonic()
    assert sandbox.settle(clock, wait_seconds=5).unsettled == ()
    assert time.monotonic() - began < 2
    committing.join()  # the lock is gone before the call has returned
    agent.close()


def test_a_message_half_sent_is_unsettled(sandbox):
    host, port = sandbox.access().urls["outbox"].removeprefix("smtp://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as line:
        replies = line.makefile("rb")
        replies.readline()
        line.sendall(b"HELO agent\r\n")
        replies.readline()
        line.sendall(b"MAIL FROM:<a@b.example>\r\n")
        replies.readline()
        settled = sandbox.settle(clock, wait_seconds=0.05)
        replies.close()
    assert settled.unsettled == (("outbox", "1 messages still in flight"),)


def test_an_outbox_that_is_gone_is_unsettled_at_once(sandbox):
    sandbox.unplug("outbox")
    began = time.monotonic()
    assert sandbox.settle(clock).unsettled == (("outbox", "connection refused"),)
    assert time.monotonic() - began < 1


def test_stop_leaves_no_process_and_may_be_called_twice(tmp_path):
    sandbox = EmbeddedSandbox(sandbox_pack("shop"), tmp_path / "work")
    sandbox.start()
    sandbox.start()
    pid = sandbox.system("outbox").process.pid
    sandbox.stop()
    sandbox.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(SandboxError, match="not running"):
        sandbox.reset()


def test_a_stopped_sandbox_can_be_started_again(tmp_path):
    sandbox = EmbeddedSandbox(sandbox_pack("shop"), tmp_path / "work")
    for _ in range(2):
        with sandbox:
            assert sandbox.verify(clock).ok


def test_no_file_of_the_evaluator_lies_in_the_work_folder(sandbox):
    files = [path for path in sandbox.work.rglob("*") if path.is_file()]
    assert files == [database_of(sandbox)]
    assert sandbox.work.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kind: sqlite", "kind: oracle"), "of kind 'oracle'; there are: .*sqlite"),
        ((", ddl: schema.sql, seed: seed.sql", ""), "one of `file`, `dump` or `ddl`"),
        (("seed: seed.sql", "sed: seed.sql"), "takes no 'sed'.*did you mean `seed`"),
        (("kind: sqlite", "kind: sqlite, home: seed.sql"), "takes no 'home'"),
        (("kind: smtp", "kind: smtp, of: db"), "kinds that look at a sqlite system: none"),
    ],
)
def test_a_pack_that_asks_for_what_its_kind_does_not_take_is_a_usage_error(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "schema.sql").write_text("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    (pack / "seed.sql").write_text("INSERT INTO t VALUES (1)")
    text = (
        "sandbox: tiny\nversion: 1.0.0\nabout: A tiny pack.\nreal: []\nsimulated: []\nsources:\n"
        "  db: {kind: sqlite, ddl: schema.sql, seed: seed.sql}\n  mail: {kind: smtp}\n"
    )
    (pack / "pack.yaml").write_text(text.replace(*change))
    with pytest.raises(UsageError, match=message):
        EmbeddedSandbox(read_pack(pack), tmp_path / "work").start()


def test_a_reset_removes_folders_however_deep_an_agent_nested_them(
    sandbox: EmbeddedSandbox,
) -> None:
    outer = Path.cwd()
    try:
        os.chdir(sandbox.agent_folder)
        for _ in range(1500):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(outer)
    sandbox.reset()
    assert sandbox.verify(clock).ok


def test_the_feeds_of_a_sandbox_tell_what_happened_and_a_reset_is_proven_after_them(sandbox):
    feeds = {
        feed.source: feed for name in ("shop-db", "outbox") for feed in sandbox.system(name).feeds()
    }
    assert list(feeds) == ["shop-db", "outbox"]
    store = MemoryChunks()
    for feed in feeds.values():
        feed.attach()
    before = take(sandbox.sources(), store, clock, None, "before")
    execute(sandbox, "UPDATE products SET stock = 0 WHERE id = 301", "DELETE FROM notes")
    send_mail(sandbox)
    assert sandbox.settle(clock).unsettled == ()
    after = take(sandbox.sources(), store, clock, before, "after")
    ends = {part.reading.source: part.state for part in after.parts}
    for part in before.parts:
        seen = feeds[part.reading.source].finish(store, clock, part.state)
        assert seen.gap is None
        assert len(seen.transactions) == (2 if part.reading.source == "shop-db" else 1)
        assert seen.transactions[-1].state == ends[part.reading.source]
        feeds[part.reading.source].detach()
    sandbox.reset()
    assert sandbox.verify(clock).ok
