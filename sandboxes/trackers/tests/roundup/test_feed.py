"""Every state of a tracker between two captures, told from its database's log."""

import contextlib
import sqlite3
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from statediff_trackers.roundup.api import ApiAccount
from statediff_trackers.roundup.feed import RoundupFeed

from statediff.capture.feed import Seen
from statediff.capture.source import clock
from statediff.model.explanation import by_run
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Unobserved
from statediff.systems.base.sandbox import EmbeddedSandbox

CASE, ROBIN = 21, 4


class Run:
    """A run between `attach` and `end`, seen by the feed and by a scan at either end."""

    def __init__(self, running: EmbeddedSandbox) -> None:
        running.reset()
        self.tracker = running.system("tracker")
        self.home: Path = self.tracker.home
        self.source = running.sources()[0]
        (self.feed,) = self.tracker.feeds()
        assert isinstance(self.feed, RoundupFeed)
        self.store = MemoryChunks()
        self.feed.attach()
        self.before = self.scan()
        url = urlsplit(self.tracker.url)
        base = f"http://{url.hostname}:{url.port}{url.path}"
        self.client = ApiAccount(base, url.username or "", unquote(url.password or "")).client()

    def scan(self) -> State:
        like = getattr(self, "before", None)
        return self.source.read(self.store, clock, like).state

    def change(self, **values: object) -> None:
        item = f"issue/{CASE}"
        tag = self.client.get(item).json()["data"]["@etag"]
        self.client.put(item, json=values, headers={"If-Match": tag}).raise_for_status()

    def execute(self, *statements: str) -> None:
        with contextlib.closing(sqlite3.connect(self.home / "db" / "db")) as connection:
            connection.executescript("; ".join(statements))

    def end(self) -> Seen:
        return self.feed.finish(self.store, clock, self.before)


@pytest.fixture
def run(running):
    made = Run(running)
    yield made
    made.client.close()
    made.feed.detach()


def cell(state: State, kind: str, key: int, field: str) -> object:
    row = state.tables[kind].row((key,))
    return None if row is None else row[field]


def test_the_last_moment_is_the_scan_and_all_of_them_are_in_order(run):
    run.change(title="One")
    run.change(title="Two")
    seen = run.end()
    assert seen.gap is None
    assert seen.transactions[-1].state.digest() == run.scan().digest()
    titles = [cell(t.state, "issue", CASE, "title") for t in seen.transactions]
    assert list(dict.fromkeys(titles))[-2:] == ["One", "Two"]
    for transaction in seen.transactions:
        for table in transaction.state.tables.values():
            assert table.enumeration.is_complete, table.type.name


def test_a_session_that_came_meanwhile_is_seen_at_the_end_and_unknown_before(run):
    run.change(title="One")
    with contextlib.closing(sqlite3.connect(run.home / "db" / "db-session")) as store, store:
        store.execute("INSERT INTO sessions VALUES ('k', '{''user'': ''admin''}', 1.0)")
    run.change(title="Two")
    seen = run.end()
    *between, last = [t.state.tables["session"] for t in seen.transactions]
    assert last.row_count == 1
    assert between
    assert not any(table.enumeration.is_complete for table in between)


def test_a_case_closed_and_opened_again_is_witnessed_with_its_transaction(run):
    was = cell(run.before, "issue", CASE, "status")
    run.change(status="closed")
    run.change(status=str(was))
    seen = run.end()
    assert seen.gap is None
    assert cell(run.scan(), "issue", CASE, "status") == was
    (closed,) = {
        cell(t.state, "issue", CASE, "status") for t in seen.transactions
    } - {was}  # fmt: skip
    first = next(t for t in seen.transactions if cell(t.state, "issue", CASE, "status") == closed)
    assert first.id.startswith("tracker/")


def test_a_watcher_added_and_removed_past_the_interface_is_witnessed(run):
    rows = run.before.tables["watcher"].row_count
    run.execute(f"INSERT INTO issue_nosy (nodeid, linkid) VALUES ({CASE}, 1)")
    run.execute(f"DELETE FROM issue_nosy WHERE nodeid = {CASE} AND linkid = 1")
    seen = run.end()
    assert seen.gap is None
    assert [t.state.tables["watcher"].row_count - rows for t in seen.transactions] == [1, 0]
    assert seen.transactions[-1].state.digest() == run.before.digest() == run.scan().digest()


def test_the_text_of_a_comment_made_in_the_run_is_known_at_its_end_only(run):
    made = run.client.post("msg", json={"content": "so it was", "author": str(ROBIN)})
    made.raise_for_status()
    number = int(made.json()["data"]["id"])
    run.change(title="after it")
    seen = run.end()
    assert seen.gap is None
    texts = [cell(t.state, "comment", number, "body") for t in seen.transactions]
    assert texts[-1] == "so it was"
    assert any(isinstance(text, Unobserved) for text in texts[:-1])
    assert seen.transactions[-1].state.digest() == run.scan().digest()


@pytest.mark.parametrize("name", ["config.ini", "db/files/msg/0/msg1", "html/new.html"])
def test_files_that_were_written_in_the_run_are_a_gap_though_put_back(run, name):
    path = run.home / name
    old = path.read_bytes() if path.exists() else None
    path.write_bytes(b"something else")
    if old is not None:
        path.write_bytes(old)
    run.change(title="One")
    cause = f"files beside its database were changed, and no log tells when: {name}"
    assert run.end().gap == by_run(cause)


def test_a_program_that_was_there_for_a_while_leaves_the_programs_of_all_moments_open(run):
    path = run.home / "html" / "brief.html"
    path.write_text("pass")
    path.unlink()
    run.change(title="One")
    run.change(title="Two")
    seen = run.end()
    assert seen.gap is None
    assert not seen.transactions[0].state.tables["program"].enumeration.is_complete
    assert seen.transactions[-1].state.digest() == run.scan().digest()


def test_a_capture_before_that_is_of_another_moment_is_a_gap(run):
    run.change(title="One")
    run.before = run.scan()
    run.change(title="Two")
    assert "capture before" in str(run.end().gap)


def test_a_run_that_changed_nothing_has_no_moment_and_no_gap(run):
    assert run.end() == Seen(())
