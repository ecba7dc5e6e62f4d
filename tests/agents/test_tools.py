"""Refusals and bounds of tools, and what they leave alone: real systems, hostile arguments."""

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pygit2
import pytest

from statediff.agents.recorder import Recorder
from statediff.agents.tools import ToolTable, tool_table
from statediff.capture.source import clock
from statediff.errors import UsageError
from statediff.model.trace import ActionClass
from statediff.systems.base.tool import MAX_RESULT_BYTES
from statediff.systems.sqlite import tools as sqlite

Ask = Callable[..., Any]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("INSERT INTO people VALUES (1, 'Ada')")
    db.close()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "note.txt").write_text("hello")
    (tmp_path / "secret").write_text("the evaluator's")
    (tmp_path / "files" / "way-out").symlink_to(tmp_path)
    (tmp_path / "files" / "alias").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "files" / "pipe")
    origin = pygit2.init_repository(str(tmp_path / "origin.git"), bare=True)
    tree = origin.TreeBuilder().write()
    who = pygit2.Signature("Ines", "ines@example")
    origin.create_commit("refs/heads/main", who, who, "first", tree, [])
    return tmp_path


@pytest.fixture
def table(world: Path) -> Iterator[ToolTable]:
    urls = {
        "db": f"sqlite:///{world}/db",
        "files": (world / "files").as_uri(),
        "origin": (world / "origin.git").as_uri(),
    }
    with Recorder(world / "calls.jsonl", clock) as recorder:
        yield tool_table(urls, recorder)


@pytest.fixture
def ask(table: ToolTable) -> Ask:
    def call(tool: str, **arguments: Any) -> Any:
        reply = table.call(tool, arguments)
        return reply.text if reply.is_error else json.loads(reply.text)

    return call


def test_reading_cannot_write_and_writing_holds_whole_or_not_at_all(ask: Ask) -> None:
    for statement in (
        "DELETE FROM people",
        "INSERT INTO people VALUES (2, 'Bob')",
        "DROP TABLE people",
        "COMMIT",
        " commit;",
        "PRAGMA user_version = 7",
    ):
        said = ask("db_query", sql=statement)
        assert isinstance(said, str), statement
    good, bad = "UPDATE people SET name = 'Eve'", "INSERT INTO people VALUES (1, 'twice')"
    assert "UNIQUE" in ask("db_execute", statements=[good, bad])
    assert "none may begin or end one" in ask("db_execute", statements=[good, "COMMIT", bad])
    assert ask("db_query", sql="SELECT name FROM people") == {"rows": [{"name": "Ada"}]}
    done = ask("db_execute", statements=[good])
    assert done == {"committed": True, "results": [{"rows_touched": 1}]}
    assert "one statement at a time" in ask("db_query", sql="SELECT 1; SELECT 2")


def test_no_statement_opens_another_file(ask: Ask, world: Path) -> None:
    for statement in (f"ATTACH '{world}/new' AS n", f"VACUUM INTO '{world}/new'"):
        assert isinstance(ask("db_query", sql=statement), str)
        assert isinstance(ask("db_execute", statements=[statement]), str)
    assert not (world / "new").exists()


def test_a_statement_is_bounded_in_time_rows_and_bytes(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_SECONDS", 0.2)
    forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    assert "interrupted" in ask("db_query", sql=f"{forever} SELECT count(*) FROM n")
    found = ask("db_query", sql=f"{forever} SELECT i FROM n", max_rows=3)
    assert found == {"rows": [{"i": 1}, {"i": 2}, {"i": 3}], "more": True}
    wide = ask("db_query", sql=f"{forever} SELECT printf('%.*c', 9000, 'x') AS x FROM n")
    assert wide["more"]
    assert len(json.dumps(wide)) < MAX_RESULT_BYTES
    assert "too big" in ask("db_query", sql="SELECT zeroblob(500000000)")
    twice = ask("db_query", sql="SELECT 1 AS a, 2 AS a, 9e999 AS b, x'00ff' AS c")
    assert twice["rows"] == [{"a": 1, "a_2": 2, "b": "inf", "c": {"base64": "AP8="}}]


def test_the_class_of_a_call_is_that_of_its_statements(ask: Ask, table: ToolTable) -> None:
    ask("db_query", sql="SELECT * FROM people")
    ask("db_query", sql="DELETE FROM people")
    ask("db_execute", statements=["UPDATE people SET name = 'x'"])
    ask("db_execute", statements=["UPDATE people SET name = 'y'", "DELETE FROM people"])
    told = [(a.action_class, a.transactions) for a in table.recorder.trace().actions]
    delete = ActionClass.IRREVERSIBLE_DELETION
    assert [kind for kind, _ in told] == [
        ActionClass.READ,
        delete,
        ActionClass.CONDITIONAL_UPDATE,
        delete,
    ]
    assert told[0][1] == ()
    assert [mark.source for mark in told[3][1]] == ["db"]


@pytest.mark.parametrize(
    "path",
    ["../secret", "/etc/passwd", "way-out/secret", "alias", "a/../../secret", "", "pipe", ".git/x"],
)
def test_no_path_leads_out_of_a_folder(path: str, ask: Ask, world: Path) -> None:
    assert isinstance(ask("files_read", path=path), str)
    assert isinstance(ask("files_write", path=path, content="mine"), str)
    if path not in ("alias", "pipe"):
        assert isinstance(ask("files_delete", path=path), str)
    assert isinstance(ask("files_move", path="note.txt", to=path), str)
    assert (world / "secret").read_text() == "the evaluator's"
    assert (world / "files" / "note.txt").read_text() == "hello"


def test_files_are_listed_read_written_moved_and_removed(ask: Ask, world: Path) -> None:
    assert ask("files_write", path="deep/er/new.txt", content="über") == {
        "written": "deep/er/new.txt",
        "bytes": 5,
    }
    assert ask("files_read", path="deep/er/new.txt") == {"content": "über"}
    assert ask("files_move", path="deep/er/new.txt", to="moved.txt")["to"] == "moved.txt"
    assert "exists already" in ask("files_move", path="moved.txt", to="note.txt")
    kinds = {entry["name"]: entry["kind"] for entry in ask("files_list")["entries"]}
    assert kinds == {
        "alias": "link",
        "deep": "folder",
        "moved.txt": "file",
        "note.txt": "file",
        "pipe": "other",
        "way-out": "link",
    }
    ask("files_delete", path="moved.txt")
    assert not (world / "files" / "moved.txt").exists()
    (world / "files" / "big").write_bytes(b"\xff" * 200_000)
    assert ask("files_read", path="big")["truncated"]


def test_a_repository_is_changed_by_pushes_that_overwrite_nothing(ask: Ask) -> None:
    who = {"name": "Ada", "email": "ada@example"}
    made = ask("origin_commit", branch="main", message="m", author=who, write={"a.txt": "1"})
    assert ask("origin_read_file", path="a.txt") == {"content": "1"}
    assert ask("origin_show", revision=made["commit"])["changed"] == [
        {"path": "a.txt", "status": "A"}
    ]
    assert "exists already" in ask("origin_create_branch", name="main", at="main")
    assert "there is no branch" in ask("origin_delete_branch", name="nope")
    for path in ("../x", ".git/config", "a/../../x", "/x"):
        said = ask("origin_commit", branch="main", message="m", author=who, write={path: "x"})
        assert isinstance(said, str), path
    for revision in ("main~1", "HEAD", "@{-1}", ":/m", "--all"):
        assert "there is no branch, tag or commit" in ask("origin_show", revision=revision)
    assert [c["message"] for c in ask("origin_log")["commits"]] == ["m", "first"]


def test_calls_are_refused_once_the_trial_is_over(table: ToolTable, world: Path) -> None:
    table.close()
    reply = table.call("files_write", {"path": "late.txt", "content": "x"})
    assert reply.is_error
    assert not (world / "files" / "late.txt").exists()


def test_mail_takes_no_header_that_an_argument_smuggles_in(tmp_path: Path) -> None:
    with Recorder(tmp_path / "calls.jsonl", clock) as recorder:
        table = tool_table({"outbox": "smtp://127.0.0.1:9"}, recorder)
        given = {"sender": "a@x", "to": ["b@x"], "subject": "hi\nBcc: c@x", "body": "b"}
        assert "this makes no message" in table.call("outbox_send", given).text
        given["subject"] = "hi"
        assert "did not take it" in table.call("outbox_send", given).text


def test_a_system_without_tools_is_refused(tmp_path: Path) -> None:
    with (
        Recorder(tmp_path / "calls.jsonl", clock) as recorder,
        pytest.raises(UsageError, match="no tools for 'x', a system reached by ldap://"),
    ):
        tool_table({"x": "ldap://127.0.0.1"}, recorder)


DANGEROUS = (
    "PRAGMA writable_schema = ON",
    "PRAGMA main.writable_schema(1)",
    "PRAGMA schema_version = 7",
    "PRAGMA journal_mode = OFF",
    "PRAGMA journal_mode = 'off'",
    "DELETE FROM sqlite_schema",
    "UPDATE words_content SET c0 = 'gone'",
    "DELETE FROM words_data",
    "WITH n AS (SELECT 1) INSERT INTO words_config VALUES ('version', 1)",
)


@pytest.mark.parametrize("statement", DANGEROUS)
def test_no_statement_of_an_agent_writes_past_what_sqlite_keeps_in_order(ask, world, statement):
    assert ask("db_execute", statements=["CREATE VIRTUAL TABLE words USING fts5(word)"])
    before = (world / "db").read_bytes()
    assert "refuses it" in ask("db_execute", statements=[statement])
    assert (world / "db").read_bytes() == before


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python has the switch from 3.12 on")
@pytest.mark.parametrize("writes", [False, True])
def test_a_connection_of_an_agent_is_defensive_by_its_own_switch(world, writes):
    with sqlite.SqliteDatabase(f"sqlite:///{world / 'db'}").session(writes=writes) as session:
        assert session.connection.getconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE)


def test_a_virtual_table_keeps_its_own_tables(ask):
    ask("db_execute", statements=["CREATE VIRTUAL TABLE words USING fts5(word)"])
    ask("db_execute", statements=["INSERT INTO words VALUES ('apple pie')", "REINDEX"])
    assert ask("db_query", sql="SELECT count(*) AS n FROM words")["rows"] == [{"n": 1}]
    ask("db_execute", statements=["DELETE FROM words WHERE words MATCH 'pie'"])
    assert ask("db_query", sql="SELECT count(*) AS n FROM words")["rows"] == [{"n": 0}]
    assert ask("db_query", sql="PRAGMA schema_version")["rows"]
    ask("db_execute", statements=["DROP TABLE words"])
    assert "no such table" in ask("db_query", sql="SELECT * FROM words")
