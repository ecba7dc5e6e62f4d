"""A run's unknowns are its own doing, or the environment's, as live runs show."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from statediff.agents.recorder import recording
from statediff.capture.feed import Watch
from statediff.capture.guard import capture_after
from statediff.capture.source import unread
from statediff.capture.take import take, unobserved_state
from statediff.contract.file import parse_contract
from statediff.kernel import Evaluated, evaluate
from statediff.model.codes import FindingCode
from statediff.model.explanation import Reason, by_run, cause, is_by_agent
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.reports.wording.worded import worded_judgement
from statediff.systems.files.source import FilesSource
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.source import SqliteSource
from statediff.workspace.inputs import offline_clock
from tests.judged_files import database
from tests.judging import contract

HISTORY: Final = """\
evidence: {s: {history: required}}
forbid:
  - {id: kept, delete: user}
allow:
  - create: log
  - update: log
"""
MOMENTS: Final = """\
forbid:
  - {id: kept, delete: user, during: run}
allow:
  - create: log
  - update: log
"""


def _origins(done: Evaluated) -> set[str | None]:
    worded = worded_judgement(done.bundle)["findings"]
    return {each["origin"] for each in worded if each["truth"] == "UNKNOWN"}


def _followed(place: Path, body: str, *runs: Callable[[sqlite3.Connection], object]) -> Evaluated:
    """A run in a database that is followed, judged with its history."""
    path, store = place / "db", MemoryChunks()
    database(
        path,
        "PRAGMA journal_mode = WAL",
        "CREATE TABLE user (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO user VALUES (1, 'Ada'), (2, 'Bob')",
        "CREATE TABLE log (id INTEGER PRIMARY KEY, what TEXT)",
        "INSERT INTO log VALUES (1, 'x')",
    )
    source = SqliteSource("s", path)
    with Watch([SqliteFeed("s", path)], offline_clock) as watch:
        before = take([source], store, offline_clock, None, "before")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for run in runs:
                run(db)
        after = capture_after([source], watch, store, offline_clock, before).capture
    return evaluate(parse_contract(contract(body).encode(), "contract.yaml"), before, after)


def _harm(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM user WHERE id = 2")


def _undo(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO user VALUES (2, 'Bob')")


def _flood(db: sqlite3.Connection) -> None:
    for number in range(2, 6):
        db.execute("INSERT INTO log VALUES (?, 'y')", (number,))
    db.execute("UPDATE log SET what = what || 'z'")


def _new_tables(db: sqlite3.Connection) -> None:
    for number in range(5):
        db.executescript(f"CREATE TABLE log{number} (id); DROP TABLE log{number}")


ENDS: Final = {
    "transactions": (_flood, "statediff.systems.sqlite.feed.MAX_TRANSACTIONS", 2),
    "changes": (_flood, "statediff.capture.feed.MAX_CHANGES", 5),
    "log": (_flood, "statediff.systems.sqlite.feed.MAX_LOG_BYTES", 9999),
    "reading": (_flood, "statediff.systems.sqlite.replay.MAX_READ_BYTES", 20_000),
    "tables": (_new_tables, "statediff.systems.sqlite.replay.MAX_READ_TABLES", 5),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_the_run_broke_of_a_required_history_is_its_violation(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, bound, limit = ENDS[name]
    monkeypatch.setattr(bound, limit)
    found = _followed(tmp_path, HISTORY, run)
    assert found.judgement.verdict is Verdict.DIVERGE
    assert FindingCode.HISTORY_BROKEN in {each.code for each in found.judgement.findings}
    (tmp_path / "undone").mkdir()
    undone = _followed(tmp_path / "undone", HISTORY, run, _harm, _undo)
    assert undone.judgement.verdict is Verdict.DIVERGE
    # Whoever asks for moments only, and not for the history, learns that the run hid them.
    (tmp_path / "loose").mkdir()
    loose = _followed(tmp_path / "loose", MOMENTS, run)
    assert loose.judgement.verdict is Verdict.INCONCLUSIVE
    assert _origins(loose) == {"agent"}


def _judged_folder(place: Path, body: str, run: Callable[[], object]) -> Evaluated:
    source, store = FilesSource("s", place), MemoryChunks()
    before = take([source], store, offline_clock, None, "before")
    run()
    after = take([source], store, offline_clock, before, "after")
    return evaluate(parse_contract(contract(body).encode(), "contract.yaml"), before, after)


WRITTEN: Final = """\
allow:
  - any: file
require:
  - {id: said, that: 'any(f.path == "a" and f.text == "x" for f in after.file)'}
"""


def test_a_value_too_large_to_know_is_whose_who_wrote_it(tmp_path: Path) -> None:
    large = tmp_path / "a"
    large.write_text("x")
    grown = _judged_folder(tmp_path, WRITTEN, lambda: os.truncate(large, 1 << 40))
    assert grown.judgement.verdict is Verdict.INCONCLUSIVE
    assert _origins(grown) == {"agent"}
    as_it_was = _judged_folder(tmp_path, WRITTEN, lambda: None)
    assert _origins(as_it_was) == {"environment"}


def test_a_reading_that_fails_after_the_run_is_the_environments(tmp_path: Path) -> None:
    source = SqliteSource("s", tmp_path / "db")
    database(source.path, "CREATE TABLE user (id INTEGER PRIMARY KEY)")
    store = MemoryChunks()
    before = take([source], store, offline_clock, None, "before")
    part = replace(before.parts[0], state=unobserved_state(before.parts[0].state.schema, store, ""))
    reading = unread("after/s", "s", offline_clock(), "connection refused")
    after = Capture((replace(part, reading=reading),))
    body = "forbid:\n  - {id: kept, delete: user}\n"
    found = evaluate(parse_contract(contract(body).encode(), "contract.yaml"), before, after)
    assert _origins(found) == {"environment"}


def test_calls_beyond_those_that_are_recorded_are_the_agents(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("statediff.agents.recorder.MAX_CALLS", 2)
    (tmp_path / "a").write_text("x")
    source, store = FilesSource("s", tmp_path), MemoryChunks()
    before = take([source], store, offline_clock, None, "before")
    after = take([source], store, offline_clock, before, "after")
    body = "actions:\n  forbid: {tool: [rm]}\n"
    file = parse_contract(contract(body).encode(), "contract.yaml")
    for tools, verdict in ((["ls"] * 4, "INCONCLUSIVE"), (["rm", *["ls"] * 4], "DIVERGE")):
        recorder = recording(offline_clock)
        for tool in tools:
            recorder.end(recorder.begin(tool, {}))
        recorder.close()
        found = evaluate(file, before, after, trace=recorder.trace())
        assert found.judgement.verdict.value == verdict
        assert _origins(found) <= {"agent"}


def test_a_word_of_the_run_stands_wherever_it_was_tried() -> None:
    assert is_by_agent(cause(f"s: the feed could not be read: {by_run('more')}"))
    assert is_by_agent(Reason.NO_HISTORY(cause=Reason.IN(place="s", cause=cause(by_run("more")))))
    assert not is_by_agent(cause("s: the feed could not be read: connection refused"))
