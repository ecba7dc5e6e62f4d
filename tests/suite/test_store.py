"""A store of run folders: indexed again and again, by many at once, and after a crash."""

import json
import multiprocessing
import os
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.package import save
from statediff.suite.indexing import index_run
from statediff.suite.records import Ended
from statediff.suite.store import FORM, file_url, open_store
from statediff.workspace.runfolders import run_facts
from statediff.workspace.stores import look
from tests.suite.folders import Folders, indexed, reissued, write_at_once


def test_every_scheduled_trial_is_known_with_how_it_ended(folders: Folders, tmp_path: Path) -> None:
    ends = ["MATCH", "DIVERGE", "fault", "damaged", "unfinished", ""]
    folder = folders.run("r", {"notes/close": ends}, times=7)
    with open_store(file_url(tmp_path / "s.db")) as store:
        found = indexed(store, folder)
        (listed,) = store.runs()
    assert [trial.ended.value for trial in found.values()] == [*ends[:5], "not_run", "not_run"]
    assert sum(listed.counts.values()) == 7
    assert found["notes-close-2"].loose[0].code == "missing-change"
    assert found["notes-close-3"].why == "the tracker did not start"
    assert {trial.agent for trial in found.values()} == {"careful"}


def test_indexing_again_changes_nothing_and_reads_no_bundle(
    folders: Folders, tmp_path: Path
) -> None:
    folder = folders.run("r", {"notes/close": ["MATCH", "DIVERGE"]})
    with open_store(file_url(tmp_path / "s.db")) as store:
        first = indexed(store, folder)

        def unread(trial: Path) -> None:
            raise AssertionError(f"{trial} was read again")

        index_run(store, folder, run_facts(folder), unread)  # type: ignore[arg-type]
        assert indexed(store, folder) == first


def test_what_changed_in_the_folder_changes_in_the_store(folders: Folders, tmp_path: Path) -> None:
    folder = folders.run("r", {"notes/close": ["MATCH", "", "DIVERGE"]})
    with open_store(file_url(tmp_path / "s.db")) as store:
        indexed(store, folder)
        folders.end(folder, "notes/close", 2, "DIVERGE")
        for path in sorted((folder / "trials" / "notes-close-1" / "bundle").iterdir()):
            path.unlink()
        (folder / "trials" / "notes-close-3").rename(tmp_path / "gone")
        found = indexed(store, folder)
    assert [t.ended for t in found.values()] == [Ended.DAMAGED, Ended.DIVERGE, Ended.NOT_RUN]
    assert found["notes-close-3"].loose == ()


def test_a_bundle_of_another_trial_never_counts_as_this_one(
    folders: Folders, tmp_path: Path
) -> None:
    """A MATCH that is copied over the trials that failed."""
    folder = folders.run("r", {"notes/close": ["MATCH"], "notes/other": ["MATCH"]}, times=4)
    passed = folders.bundle("notes/close", "MATCH")
    made = {
        "notes-close-2": reissued(passed, "notes-close-1", "1"),
        "notes-close-3": reissued(passed, "notes-close-3", "1"),
        "notes-close-4": reissued(passed, "notes-close-4", "4", contract_version="2.0.0"),
        "notes-other-2": reissued(passed, "notes-other-2", "2"),
        "notes-other-3": reissued(
            folders.bundle("notes/other", "DIVERGE"), "notes-other-3", "3", verdict="MATCH"
        ),
    }
    for name, bundle in made.items():
        save(bundle, folder / "trials" / name / "bundle")
    with open_store(file_url(tmp_path / "s.db")) as store:
        found = indexed(store, folder)
    assert {found[name].ended for name in made} == {Ended.DAMAGED}
    assert found["notes-close-2"].why.endswith("of trial notes-close-1, expected notes-close-2")
    assert found["notes-close-1"].ended is Ended.MATCH


def test_hostile_names_are_spelled_out_before_they_are_kept(
    folders: Folders, tmp_path: Path
) -> None:
    folder = folders.run("r", {"notes/close": []}, times=1)
    bundle = folders.bundle("notes/close", "MATCH")
    save(
        reissued(bundle, "notes-close-1", "1", agent="a\x00\x1b[2J" + "x" * 5000),
        folder / "trials" / "notes-close-1" / "bundle",
    )
    with open_store(file_url(tmp_path / "s.db")) as store:
        (trial,) = indexed(store, folder).values()
    assert trial.agent.startswith("a\\x00\\x1b[2J")
    assert len(trial.agent) == 1000


@pytest.mark.parametrize(
    "wrong",
    [
        {"settings": {"trials": 10**9}},
        {"settings": {"trials": "2"}},
        {"settings": []},
        {"contracts": {"notes/close": "0"}},
        {"contracts": {"a/b-c@1": "0", "a-b/c@1": "0"}},
        {"contracts": []},
    ],
)
def test_a_run_that_contradicts_itself_is_refused(
    folders: Folders, tmp_path: Path, wrong: dict[str, object]
) -> None:
    folder = folders.run("r", {"notes/close": ["MATCH"]})
    facts = {**run_facts(folder), **wrong}
    with open_store(file_url(tmp_path / "s.db")) as store, pytest.raises(BundleError):
        index_run(store, folder, facts, look)


def test_another_run_at_the_same_place_takes_the_place_of_the_first(
    folders: Folders, tmp_path: Path
) -> None:
    folder = folders.run("r", {"notes/close": ["DIVERGE"]})
    with open_store(file_url(tmp_path / "s.db")) as store:
        indexed(store, folder)
        facts = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(
            json.dumps({**facts, "kernel": "0"}, separators=(",", ":"), sort_keys=True)
        )
        indexed(store, folder)
        (listed,) = store.runs()
    assert listed.kernel == "0"


def test_what_is_no_store_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    other, theirs = tmp_path / "other.db", tmp_path / "theirs.db"
    other.write_bytes(b"not a database, but somebody's\n" * 100)
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute("CREATE TABLE runs (id TEXT)")
    for path, kind in ((other, StorageError), (theirs, UsageError)):
        before = path.read_bytes()
        with pytest.raises(kind, match=path.name), open_store(file_url(path)):
            pass
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "url",
    [
        "mysql://root:secret@host/x", "nonsense", "sqlite+aiosqlite:///x", "sqlite+pysqlite:///x",
        "sqlite:x", "sqlite://secret/x", "postgresql+psycopg://ada:secret@host/x", "postgres://x",
    ],
)  # fmt: skip
def test_no_other_url_names_a_store(url: str) -> None:
    with pytest.raises(UsageError, match="expected sqlite:///FILE") as refused, open_store(url):
        pass
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["postgresql://ada:secret@127.0.0.1:1/x", "postgresql://a:secret@[x"]
)
def test_a_server_that_cannot_be_reached_is_named_without_the_password(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StorageError, match="cannot be used") as refused, open_store(url):
        pass
    assert "postgresql://a" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_without_the_driver_of_postgresql_it_is_said_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with (
        pytest.raises(UsageError, match=r"pip install statediff\[postgres\]") as refused,
        open_store("postgresql://ada:secret@host/x"),
    ):
        pass
    assert "secret" not in str(refused.value)


def test_a_store_of_another_form_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with open_store(file_url(path)):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={FORM + 1}")
    before = path.read_bytes()
    with (
        pytest.raises(UsageError, match=f"form {FORM}, found form {FORM + 1}"),
        open_store(file_url(path)),
    ):
        pass
    assert path.read_bytes() == before


@pytest.mark.slow
def test_many_who_index_at_once_make_one_whole_index(folders: Folders, tmp_path: Path) -> None:
    runs = [folders.run(f"r{n}", {"notes/close": ["MATCH", "DIVERGE"] * 10}) for n in range(2)]
    url = file_url(tmp_path / "s.db")
    write_at_once(url, runs)
    with open_store(url) as store:
        counts = [(each.counts[Ended.MATCH], each.counts[Ended.DIVERGE]) for each in store.runs()]
    assert counts == [(10, 10), (10, 10)]


def killed(database: Path, folder: Path) -> None:
    """Dies in the middle of a write, after half of it."""
    with open_store(file_url(database)) as store:
        run = index_run(store, folder, run_facts(folder), look)
        trials = store.trials(run.id)
        with store._transaction(writes=True) as connection:
            connection.put("UPDATE trials SET ended = 'MATCH'", [()])
            os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(trials)


def test_a_writer_that_is_killed_leaves_the_store_as_it_was(
    folders: Folders, tmp_path: Path
) -> None:
    folder = folders.run("r", {"notes/close": ["DIVERGE"] * 5})
    database = tmp_path / "s.db"
    victim = multiprocessing.get_context("spawn").Process(target=killed, args=(database, folder))
    victim.start()
    victim.join(60)
    assert victim.exitcode == -signal.SIGKILL
    began = time.monotonic()
    with open_store(file_url(database)) as store:
        assert {t.ended for t in indexed(store, folder).values()} == {Ended.DIVERGE}
    assert time.monotonic() - began < 10, "the dead writer's lock was waited for"
