"""Every state of a chat between two captures, told from its database's log."""

import time
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from statediff_chat.feed import SynapseFeed
from statediff_chat.sandbox import SynapseChat

from sandboxes.chat.tests.chats import SERVER, ask, execute, room, say, set_state
from statediff.capture.feed import Seen
from statediff.model.explanation import by_run
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Unobserved

pytestmark = pytest.mark.pack("statediff[chat]")


def clock() -> datetime:
    return datetime.now(UTC)


class Run:
    """A run between `attach` and `end`, seen by the feed and by a scan at either end."""

    def __init__(self, chat: SynapseChat) -> None:
        chat.reset()
        self.chat = chat
        (self.feed,) = chat.feeds()
        assert isinstance(self.feed, SynapseFeed)
        self.store = MemoryChunks()
        self.feed.attach()
        self.before: State | None = None
        self.before = self.scan()

    def scan(self) -> State:
        [source] = self.chat.sources()
        return source.read(self.store, clock, self.before).state

    def end(self) -> Seen:
        assert self.chat.unsettled(time.monotonic() + 20) is None
        return self.feed.finish(self.store, clock, self.before)


@pytest.fixture
def run(running):
    made = Run(running)
    yield made
    made.feed.detach()


def changed(run: Run, seen: Seen) -> list[set[str]]:
    """The types that changed, of each moment in which some did."""
    found, last = [], run.before
    for transaction in seen.transactions:
        tables = transaction.state.tables
        found.append({n for n, t in tables.items() if t.chunks != last.tables[n].chunks})
        last = transaction.state
    return [each for each in found if each]


def test_the_last_moment_is_the_scan_and_all_of_them_are_in_order(run):
    say(run.chat, "one")
    set_state(run.chat, "m.room.topic", {"topic": "two"}, "gull")
    seen = run.end()
    assert seen.gap is None
    assert seen.transactions[-1].state.digest() == run.scan().digest()
    assert changed(run, seen) == [{"post"}, {"room", "room_event"}]
    for transaction in seen.transactions:
        for table in transaction.state.tables.values():
            assert table.enumeration.is_complete, table.type.name


def test_an_alias_that_is_taken_back_leaves_nothing_and_is_witnessed(run):
    alias = f"/directory/room/{quote(f'#for-a-while:{SERVER}')}"
    ask(run.chat, "PUT", alias, {"room_id": room(run.chat, "gull")})
    ask(run.chat, "DELETE", alias)
    seen = run.end()
    assert seen.gap is None
    assert run.scan().digest() == run.before.digest()
    assert changed(run, seen) == [{"alias"}, {"alias"}]


def test_what_is_done_and_undone_behind_the_server_is_witnessed(run):
    execute(run.chat, "UPDATE users SET admin = 1 WHERE name = ?", f"@robin:{SERVER}")
    execute(run.chat, "UPDATE users SET admin = 0 WHERE name = ?", f"@robin:{SERVER}")
    seen = run.end()
    assert seen.gap is None
    assert changed(run, seen) == [{"user"}, {"user"}]


def test_an_upload_that_was_exchanged_and_put_back_is_a_gap(run):
    [file] = (p for p in (run.chat.home / "media").rglob("*") if p.is_file())
    old = file.read_bytes()
    file.write_bytes(b"other")
    file.write_bytes(old)
    say(run.chat, "one")
    seen = run.end()
    name = file.relative_to(run.chat.home / "media")
    cause = f"files beside its database were changed, and no log tells when: {name}"
    assert seen.gap == by_run(cause)


def test_of_an_upload_that_is_made_meanwhile_the_content_is_known_at_the_end(run):
    media = run.chat.home / "media" / "local_content" / "Ab" / "Cd"
    media.mkdir(parents=True)
    (media / "EfGhIjKl").write_bytes(b"new")
    execute(
        run.chat,
        "INSERT INTO local_media_repository (media_id, media_type, media_length, user_id)"
        " VALUES ('AbCdEfGhIjKl', 'text/plain', 3, ?)",
        f"@robin:{SERVER}",
    )
    say(run.chat, "after it")
    seen = run.end()
    assert seen.gap is None
    assert seen.transactions[-1].state.digest() == run.scan().digest()
    digests = [
        row["digest"]
        for transaction in seen.transactions
        for _, row in transaction.state.tables["media"].rows()
        if "AbCdEfGhIjKl" in str(row["id"])
    ]
    assert isinstance(digests[0], Unobserved)
    assert isinstance(digests[-1], str)


def test_what_the_server_commits_while_the_log_is_read_is_after_the_end(run, monkeypatch):
    say(run.chat, "one")
    assert run.chat.unsettled(time.monotonic() + 20) is None
    told, plain = [], SynapseFeed.told

    def while_it_is_read(feed, *asked):
        if not told:
            told.append(1)
            execute(run.chat, "UPDATE user_ips SET last_seen = last_seen + 1")
        return plain(feed, *asked)

    monkeypatch.setattr(SynapseFeed, "told", while_it_is_read)
    seen = run.end()
    assert told
    assert seen.gap is None
    assert changed(run, seen) == [{"post"}]
