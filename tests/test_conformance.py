"""Our own systems, feeds and sources do what the kit asks; the kit finds who lies."""

import atexit
import contextlib
import os
import shutil
import smtplib
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

import httpx
import pygit2
import pytest

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, Source, SourceUnavailable
from statediff.conformance import Change, FeedSuite, SourceSuite, SystemSuite, Way, captured
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.packs import SandboxPack, read_pack, sandbox_pack
from statediff.systems.base.protocol import Drift, SourceProof, System
from statediff.systems.sqlite.source import SqliteSource
from tests.own_sandboxes import make_project


def place(system: System) -> Path:
    return Path(urlsplit(system.url).path)


def execute(statement: str) -> Callable[[System], None]:
    def apply(system: System) -> None:
        with contextlib.closing(sqlite3.connect(place(system))) as connection:
            connection.execute(statement)
            connection.commit()

    return apply


def send(system: System) -> None:
    parts = urlsplit(system.url)
    with smtplib.SMTP(parts.hostname or "", parts.port or 0) as server:
        server.sendmail("a@shop.example", ["b@mail.example"], "Subject: Hello\r\n\r\nHello.\r\n")


def write(name: str) -> Callable[[System], None]:
    return lambda system: (place(system) / name).write_text("left", encoding="utf-8")


def chmod(name: str) -> Callable[[System], None]:
    return lambda system: (place(system) / name).chmod(0o755)


def tag(system: System) -> None:
    repository = pygit2.Repository(str(place(system)))
    repository.references.create("refs/tags/mine", repository.revparse_single("main").id)


def comment(system: System) -> None:
    parts = urlsplit(system.url)
    base = f"http://{parts.hostname}:{parts.port}{parts.path}"
    headers = {"X-Requested-With": "rest", "Origin": base.rstrip("/"), "Referer": base}
    credentials = (parts.username or "", parts.password or "")
    with httpx.Client(base_url=base, auth=credentials, headers=headers, timeout=20) as client:
        answer = client.post("rest/data/msg", json={"content": "mine"})
        assert answer.status_code == 201, answer.text


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


class TestDatabase(SystemSuite):
    source = "shop-db"
    ways: ClassVar = {
        "a row is gone": Way(execute("DELETE FROM refunds")),
        "a table is added": Way(execute("CREATE TABLE mine (x)")),
        "a file is beside it": Way(lambda s: write("x")(_Parent(s)), is_state=False),
        "its mode is changed": Way(lambda s: place(s).chmod(0o644), is_state=False),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("shop")


def own_pack(kind: str) -> SandboxPack:
    """That of a project of its own, whose folder goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="statediff-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_project(folder, kind)
    return read_pack(folder / "sandboxes" / "app")


class TestTables(SystemSuite):
    source = "db"
    ways: ClassVar = {
        "a row is added": Way(lambda s: append(place(s) / "tasks.csv", "3,C,1\n")),
        "a table is added": Way(lambda s: append(place(s) / "more.csv", "id\n1\n")),
        "a file is added": Way(write("new.txt"), is_state=False),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return own_pack("tables")


class TestExternal(SystemSuite):
    source = "db"
    ways: ClassVar = {
        "a row is gone": Way(execute("DELETE FROM tasks WHERE id = 2")),
        "a table is added": Way(execute("CREATE TABLE mine (x)")),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return own_pack("external")


class TestMail(SystemSuite):
    source = "outbox"
    ways: ClassVar = {"a message is sent": Way(send)}

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("shop")


class TestFiles(SystemSuite):
    source = "exports"
    ways: ClassVar = {
        "a file is added": Way(write("new.txt")),
        "a file is changed": Way(write("README.txt")),
        "a mode is changed": Way(chmod("README.txt")),
        "a link stands there": Way(lambda s: (place(s) / "etc").symlink_to("/etc")),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("accounts")


class TestRepository(SystemSuite):
    source = "origin"
    ways: ClassVar = {
        "a tag is added": Way(tag),
        "a hook is added": Way(write("hooks/post-receive")),
        "its settings are changed": Way(
            lambda s: pygit2.Repository(str(place(s))).config.set_multivar("core.mine", "^$", "1")
        ),
        "a branch is gone": Way(
            lambda s: pygit2.Repository(str(place(s))).references.delete("refs/heads/main")
        ),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("repo")


class TestCheckout(SystemSuite):
    source = "checkout"
    ways: ClassVar = {"a file is added": Way(write("mine.txt")), "a tag is added": Way(tag)}

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("repo")


class TestTracker(SystemSuite):
    source = "tracker"
    ways: ClassVar = {"a comment is written": Way(comment)}
    secrets = frozenset({("user", "password_digest")})
    traces = frozenset({"file db/db-otk", "file db/db-session"})

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("helpdesk")


class _Parent:
    """The folder around a system's file, with what lies beside it."""

    def __init__(self, system: System) -> None:
        self.url = f"file://{place(system).parent}"


# ---------------------------------------------------------------- feeds


def beside(suffix: str, lose: Callable[[Path], object]) -> Callable[[System], object]:
    return lambda system: lose(place(system).with_name(place(system).name + suffix))


def exchange(path: Path) -> None:
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def in_tracker(statement: str) -> Callable[[System], None]:
    def apply(system: Any) -> None:
        with contextlib.closing(sqlite3.connect(system.home / "db" / "db")) as connection:
            connection.execute(statement)
            connection.commit()

    return apply


class TestDatabaseFeed(FeedSuite):
    source = "shop-db"
    changes: ClassVar = {
        "a role is added": Change(
            execute("INSERT INTO roles VALUES ('auditor', 'Reads all')"),
            execute("DELETE FROM roles WHERE name = 'auditor'"),
        ),
        "somebody is an admin": Change(
            execute("UPDATE staff SET role = 'admin' WHERE id = 4"),
            execute("UPDATE staff SET role = 'support' WHERE id = 4"),
        ),
        "a table is added": Change(execute("CREATE TABLE mine (x)"), execute("DROP TABLE mine")),
    }
    losses: ClassVar = {
        "the log is cut off": beside("-wal", lambda path: os.truncate(path, 0)),
        "the log is removed": beside("-wal", Path.unlink),
        "the file is exchanged": beside("", exchange),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("shop")


class TestMailFeed(FeedSuite):
    source = "outbox"
    changes: ClassVar = {"a message is sent": Change(send)}
    losses: ClassVar = {"the outbox is emptied": lambda system: system.reset()}
    only_adds = True

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("shop")


@pytest.mark.slow
class TestTrackerFeed(FeedSuite):
    source = "tracker"
    changes: ClassVar = {
        "somebody watches": Change(
            in_tracker("INSERT INTO issue_nosy (nodeid, linkid) VALUES (21, 1)"),
            in_tracker("DELETE FROM issue_nosy WHERE nodeid = 21 AND linkid = 1"),
        )
    }
    losses: ClassVar = {
        "a file is written": lambda system: (system.home / "config.ini").touch(),
        "the log is cut off": lambda system: os.truncate(system.home / "db" / "db-wal", 0),
    }
    traces = TestTracker.traces

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("helpdesk")


# ---------------------------------------------------------------- sources that stand alone


class TestSqliteSource(SourceSuite):
    def make(self, folder: Path) -> Source:
        self._execute(
            folder, "CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 2)"
        )
        return SqliteSource("db", folder / "a.db")

    def change(self, folder: Path) -> None:
        self._execute(folder, "UPDATE t SET x = 3")

    def end(self, folder: Path) -> None:
        (folder / "a.db").unlink()

    def _execute(self, folder: Path, script: str) -> None:
        with contextlib.closing(sqlite3.connect(folder / "a.db")) as connection:
            connection.executescript(script)


# ---------------------------------------------------------------- systems that lie


class Liar:
    """A sound system, but for what is given."""

    def __init__(self, sound: System, **lies: Callable[..., Any]) -> None:
        self._sound = sound
        self._lies = lies

    def __getattr__(self, name: str) -> Any:
        return self._lies.get(name) or getattr(self._sound, name)


class _Empty:
    """A source that shows an empty system where it cannot look."""

    def __init__(self, sound: Source) -> None:
        self.name, self.schema = sound.name, sound.schema
        self._first = captured((sound,)).parts[0]

    def read(self, *_: object) -> Any:
        tables = {n: t for n, t in self._first.state.tables.items() if not t.row_count}
        return type(self._first)(self._first.reading, State(self._first.state.schema, tables))


def proven() -> tuple[SourceProof, tuple[Drift, ...]]:
    return SourceProof("shop-db", "none", "0" * 64, "0" * 64, 1), ()


def blind(system: System) -> dict[str, Callable[..., Any]]:
    kept = tuple(_Empty(source) for source in system.sources())
    return {"sources": lambda: kept}


LIES: dict[str, tuple[str, Callable[[System], dict[str, Callable[..., Any]]]]] = {
    "a proof that looks at nothing": ("every_way_is_drift", lambda _: {"verify": proven}),
    "a look that mends": (
        "every_way_is_drift", lambda s: {"verify": lambda: (s.reset(), s.verify())[1]}
    ),
    "a reset that does nothing": ("every_way_is_drift", lambda _: {"reset": lambda: None}),
    "a system that never settles": (
        "every_way_is_drift", lambda _: {"unsettled": lambda _until: "in flight"}
    ),
    "a source that never sees a change": ("the_sources_show_every_change", blind),
    "a source that reads on when it is unplugged": (
        "an_unplugged_source", lambda _: {"unplug": lambda _name: None}
    ),
    "a source that is empty when it is unplugged": ("an_unplugged_source", blind),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_the_kit_finds_a_system_that_lies(lie: str, tmp_path: Path) -> None:
    suite = TestDatabase()
    where, lies = LIES[lie]
    [name] = [name for name in dir(suite) if name.startswith(f"test_{where}")]
    sound = suite.make(tmp_path / "own")
    sound.start()
    sound.reset()
    getattr(suite, name)(sound)
    sound.reset()
    with pytest.raises(AssertionError):
        getattr(suite, name)(Liar(sound, **lies(sound)))


def test_the_kit_finds_an_account_that_outlives_its_trial(tmp_path: Path) -> None:
    from statediff.conformance import AccountSuite  # noqa: PLC0415 - pytest would collect it here

    class Lasting(AccountSuite):
        def lets_in(self, url: str) -> bool:
            return bool(url)

    sound = TestDatabase().make(tmp_path / "own")
    with pytest.raises(AssertionError):
        Lasting().test_an_account_is_for_one_trial(sound)


# ---------------------------------------------------------------- feeds that lie


class SoundFeed:
    """Another feed's word; a feed that lies inherits it, or gives another one of what was seen."""

    def __init__(self, system: System, shown: Callable[[Seen], Seen] = lambda seen: seen) -> None:
        self.system = system
        [self.sound] = system.feeds()
        self.source = self.sound.source
        self.shown = shown

    def attach(self) -> None:
        self.sound.attach()

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        return self.shown(self.sound.finish(store, clock, before))

    def detach(self) -> None:
        self.sound.detach()


class Compares(SoundFeed):
    """It looks at both ends only."""

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        seen = self.sound.finish(store, clock, before)
        last = seen.transactions[-1:]
        return replace(seen, transactions=last if last and last[0].state != before else ())


class SeesThePast(SoundFeed):
    """It shows the state in which it was attached as a commit."""

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        seen = super().finish(store, clock, before)
        start = Transaction("start", self.source, "0", None, before)
        return replace(seen, transactions=(start, *seen.transactions))


class KeepsARun(SoundFeed):
    """Shows again what it saw in an earlier run."""

    kept: tuple[Transaction, ...] = ()

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        seen = super().finish(store, clock, before)
        self.kept = tuple({t.state.digest(): t for t in self.kept + seen.transactions}.values())
        return replace(seen, transactions=self.kept)


class HidesGaps(SoundFeed):
    """Claims that what it could not see did not happen."""

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        try:
            return Seen(super().finish(store, clock, before).transactions)
        except SourceUnavailable:
            return Seen(())


class Writes(SoundFeed):
    """It marks in the system that it watches."""

    def attach(self) -> None:
        execute("INSERT INTO roles VALUES ('watcher', '')")(self.system)
        super().attach()


class LetsGo(SoundFeed):
    """It can be read once."""

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        seen = super().finish(store, clock, before)
        self.detach()
        return seen


class StaysOn(SoundFeed):
    """It is never detached."""

    def detach(self) -> None:
        pass


Wrapped: TypeAlias = Callable[[System], SoundFeed]


def showing(of: Callable[[tuple[Transaction, ...]], Iterable[Transaction]]) -> Wrapped:
    """A feed that shows other transactions than those that it saw."""
    return lambda system: SoundFeed(
        system, lambda seen: replace(seen, transactions=tuple(of(seen.transactions)))
    )


FEEDS: dict[str, tuple[Wrapped, tuple[str, ...]]] = {
    "it lies in nothing": (SoundFeed, ()),
    "it misses a commit in the middle": (
        showing(lambda seen: seen[:1] + seen[2:]), ("every_commit", "a_change_that_is_undone")
    ),
    "it shows the last commit twice": (
        showing(lambda seen: seen + seen[-1:]),
        ("every_commit", "a_change_that_is_undone", "after_a_reset"),
    ),
    "it shows the last commit first": (
        showing(lambda seen: seen[::-1]), ("every_commit", "a_change_that_is_undone")
    ),
    "all commits have one id": (
        showing(lambda seen: (replace(each, id="t") for each in seen)),
        ("every_commit", "a_change_that_is_undone"),
    ),
    "its commits are those of a source beside it": (
        showing(lambda seen: (replace(each, source="outbox") for each in seen)),
        ("every_commit", "a_change_that_is_undone", "after_a_reset"),
    ),
    "it does not see the last commit": (
        showing(lambda seen: seen[:-1]),
        ("every_commit", "after_a_reset", "nothing_that_was_done_before"),
    ),
    "it always says that there may have been more": (
        lambda system: SoundFeed(system, lambda seen: replace(seen, gap="who knows")),
        ("a_run_without", "every_commit", "watching_and_reading"),
    ),
    "it compares": (Compares, ("every_commit", "a_change_that_is_undone")),
    "it sees the past": (
        SeesThePast, ("a_run_without", "every_commit", "nothing_that_was_done_before")
    ),
    "it keeps a run": (KeepsARun, ("after_a_reset", "every_commit")),
    "it hides gaps": (
        HidesGaps, ("a_feed_that_lost", "of_an_unplugged_source", "a_reset_under_it")
    ),
    "it writes": (Writes, ("watching_and_reading",)),
    "it lets go": (LetsGo, ("watching_and_reading", "every_commit")),
    "it stays on": (StaysOn, ("it_is_read_while",)),
}  # fmt: skip
FEED_CHECKS = [name for name in dir(FeedSuite) if name.startswith("test_")]


@pytest.mark.parametrize("lie", FEEDS)
def test_the_kit_finds_a_feed_that_lies(lie: str, tmp_path: Path) -> None:
    suite = TestDatabaseFeed()
    wrapped, wanted = FEEDS[lie]
    starts = tuple(f"test_{start}" for start in wanted or ("",))
    checks = [n for n in FEED_CHECKS if n.startswith(starts) and "there_are" not in n]
    assert len(checks) >= len(wanted)
    for name in checks:
        sound = suite.make(tmp_path / name)
        sound.reset()
        feed = wrapped(sound)
        fails = pytest.raises((AssertionError, pytest.fail.Exception))
        try:
            with fails if wanted else contextlib.nullcontext():
                getattr(suite, name)(Liar(sound, feeds=lambda feed=feed: (feed,)))
        finally:
            sound.feeds()[0].detach()


def test_every_check_of_a_feed_fails_for_some_feed() -> None:
    starts = tuple(f"test_{start}" for _, found in FEEDS.values() for start in found)
    missing = [name for name in FEED_CHECKS if not name.startswith(starts)]
    assert missing == ["test_there_are_changes_and_losses_and_one_change_is_undone"]


def test_a_suite_of_a_feed_without_changes_fails() -> None:
    class Nothing(FeedSuite):
        changes: ClassVar = {}
        losses: ClassVar = {}

    with pytest.raises(AssertionError):
        Nothing().test_there_are_changes_and_losses_and_one_change_is_undone()
