"""Each place that makes something unknown says whose doing that is, and it is so in live runs."""

from __future__ import annotations

import ast
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
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
from tests.code import CHECKOUT, CORE
from tests.judged_files import database
from tests.judging import contract

_MAKERS: Final = {
    "SourceUnavailable": "environment",
    "SourceRuined": "ruin",
    "SourceUnfollowed": "agent",
    "Unobserved": "content",
    "Enumeration": "content",
    "NotRead": "content",
    "NotRun": "content",
    "Inexact": "content",
    "_Incomplete": "content",
    "_Moved": "environment",
    "unobserved": "content",
    "fail": "content",
    "Seen": "environment",
    "unseen": "environment",
    "Trace": "environment",
    "Doubt": "content",
}
"""What makes a cause → whose doing it is, where the cause itself does not say.

* *agent*: the run did it, and the cause says so (`by_run`, `SourceUnfollowed`).
* *ruin*: what is there cannot be read any more: a change of the run, DIVERGE (`SourceRuined`).
* *environment*: a lock, a network, a machine; a cause made of something else says `unread_because`.
* *content*: what is there is the reason. Where it was known before, the run did it
  (`reports.wording.origins`).
"""
_MARKS: Final = {
    "by_run": "agent",
    "gap_of": "agent",
    "BY_AGENT": "agent",
    "unread_because": "environment",
}
EXPECTED: Final = {
    "agents/handover.py": "agent 3, content 2, environment 2",
    "agents/otel.py": "content 3",
    "agents/own_log.py": "content 4",
    "agents/recorder.py": "agent 7",
    "capture/acknowledged.py": "content 2",
    "capture/bounds.py": "content 1, environment 1",
    "capture/feed.py": "content 1, environment 2",
    "capture/source.py": "agent 2, environment 2",
    "capture/take.py": "environment 1",
    "capture/unread.py": "environment 3",
    "kernel/resolve/__init__.py": "content 1",
    "cloud/statediff_cloud/source.py": "agent 1",
    "systems/base/kept.py": "agent 1, environment 3",
    "office/statediff_office/calendars/dav.py": "environment 1",
    "office/statediff_office/calendars/source.py": "content 1, environment 3",
    "office/statediff_office/calendars/store.py": "environment 1",
    "systems/captured/statefile.py": "environment 1",
    "data/statediff_data/databases/catalogue.py": "content 1, environment 1",
    "data/statediff_data/databases/source.py": "content 1, environment 2",
    "systems/external/sandbox.py": "environment 2",
    "systems/files/owners.py": "environment 1",
    "systems/files/tree.py": "content 6, environment 5",
    "git/statediff_git/index_caches.py": "content 4",
    "git/statediff_git/folder.py": "content 1",
    "git/statediff_git/history.py": "content 7",
    "git/statediff_git/index.py": "content 11",
    "git/statediff_git/objects.py": "content 22",
    "git/statediff_git/refs.py": "content 4",
    "git/statediff_git/server.py": "agent 3, environment 3",
    "git/statediff_git/source.py": "environment 1",
    "git/statediff_git/store.py": "content 11",
    "git/statediff_git/testruns/outside.py": "content 8",
    "git/statediff_git/testruns/process.py": "content 15, environment 3",
    "git/statediff_git/testruns/source.py": "content 1, environment 1",
    "git/statediff_git/types.py": "content 8",
    "office/statediff_office/mail/sandbox.py": "agent 1, environment 2",
    "office/statediff_office/mail/source.py": "environment 5",
    "office/statediff_office/mailbox/held.py": "environment 1",
    "office/statediff_office/mailbox/session.py": "environment 3",
    "office/statediff_office/mailbox/source.py": "content 2, environment 2",
    "mariadb/statediff_mariadb/changes.py": "content 17, environment 1",
    "mariadb/statediff_mariadb/feed.py": "agent 1, environment 3",
    "mariadb/statediff_mariadb/log.py": "agent 3, environment 11",
    "mariadb/statediff_mariadb/replay.py": "agent 2, content 1",
    "mariadb/statediff_mariadb/source.py": "environment 3, ruin 4",
    "data/statediff_data/objects/source.py": "content 2, environment 4",
    "payments/statediff_payments/source.py": "environment 2",
    "postgres/statediff_postgres/feed.py": "environment 6",
    "postgres/statediff_postgres/intermediate.py": "agent 3",
    "postgres/statediff_postgres/past.py": "agent 8, environment 6",
    "postgres/statediff_postgres/source.py": "content 2, environment 4, ruin 1",
    "postgres/statediff_postgres/values.py": "content 1",
    "postgres/statediff_postgres/wal.py": "environment 3",
    "trackers/statediff_trackers/redmine/api.py": "environment 7, ruin 1",
    "trackers/statediff_trackers/redmine/source.py": "content 3, ruin 1",
    "trackers/statediff_trackers/redmine/tables.py": "content 1",
    "systems/relational/schema.py": "content 4",
    "systems/relational/structure.py": "content 2",
    "trackers/statediff_trackers/roundup/api.py": "content 5, environment 4, ruin 1",
    "trackers/statediff_trackers/roundup/source.py": "environment 1, ruin 1",
    "systems/sqlite/feed.py": "agent 13, environment 8",
    "systems/sqlite/pages.py": "environment 2, ruin 2",
    "systems/sqlite/replay.py": "agent 2",
    "systems/sqlite/scan.py": "content 2, environment 1",
    "systems/sqlite/source.py": "environment 3, ruin 3",
    "systems/sqlite/wal.py": "agent 1",
    "chat/statediff_chat/endpoint.py": "environment 1, ruin 1",
    "cloud/statediff_cloud/asked.py": "environment 1",
    "cloud/statediff_cloud/endpoint.py": "environment 1",
    "cloud/statediff_cloud/listed_buckets.py": "content 1",
    "erp/statediff_erp/endpoint.py": "environment 4, ruin 1",
    "payments/statediff_payments/endpoint.py": "environment 1, ruin 1",
    "systems/hosted/api.py": "environment 3",
    "systems/hosted/listed.py": "agent 2, environment 1",
    "trackers/statediff_trackers/redmine/endpoint.py": "environment 1, ruin 1",
    "chat/statediff_chat/source.py": "content 1, ruin 1",
    "systems/tables/shape.py": "content 1",
    "systems/hosted/folder.py": "content 3, environment 2",
    "systems/hosted/rest.py": "environment 3, ruin 1",
    "systems/hosted/retold.py": "agent 2, environment 1",
}
"""Module → how many causes it words, by whose doing they are."""


def _literal(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    )


def _owners(path: Path) -> Iterator[str]:
    """Of each cause that is worded in the file, whose doing it is."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        called = node.func.id if isinstance(node.func, ast.Name) else called
        within = [each for part in (*node.args, *node.keywords) for each in ast.walk(part)]
        names = [each.id for each in within if isinstance(each, ast.Name)]
        marks = [_MARKS[name] for name in names if name in _MARKS]
        if called in ("by_run", "unread_because"):
            yield _MARKS[called]
        elif called in _MAKERS and not marks and any(map(_literal, within)):
            yield _MAKERS[called]


def _counted() -> dict[str, str]:
    found = {}
    own = [CORE / folder for folder in ("agents", "capture", "kernel/resolve", "systems")]
    for folder in (*own, *sorted(CHECKOUT.glob("sandboxes/*/statediff_*"))):
        for path in sorted(folder.rglob("*.py")):
            counts = Counter(_owners(path))
            if counts:
                said = ", ".join(f"{owner} {count}" for owner, count in sorted(counts.items()))
                found[
                    path.relative_to(
                        CORE if CORE in path.parents else CHECKOUT / "sandboxes"
                    ).as_posix()
                ] = said
    return found


def test_whose_doing_it_is_is_decided_of_every_cause() -> None:
    """One that is new is counted here once its owner is right, by the way it is raised."""
    assert _counted() == EXPECTED


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
