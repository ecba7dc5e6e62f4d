"""Projects with a sandbox of their own, one of each kind that needs no server.

In each, the source is called `db`, the right agent `right`, and what the task asks for
is a change that the agent `wrong` makes together with another one.
"""

from __future__ import annotations

import shlex
import sqlite3
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pygit2
import pytest
from mcp import Client

from statediff.packs import agent_command

DUMP = """\
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE tasks (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT, owner REFERENCES people(id));
INSERT INTO tasks VALUES(1,'Water the plants; twice',1);
INSERT INTO tasks VALUES(2,'It''s a -- title
over two lines',1);
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, tasks INTEGER DEFAULT 0);
INSERT INTO people VALUES(1,'Ada',2);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('tasks',2);
CREATE TRIGGER counted AFTER INSERT ON tasks BEGIN
  UPDATE people SET tasks = tasks + 1 WHERE id = NEW.owner; SELECT 1;
END;
COMMIT;
"""
RENAMED = "  - {id: renamed, update: tasks, where: it.id == 1, set: {title: Done}}"
SQL = """\
import sqlite3
with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
    connection.execute("UPDATE tasks SET title = 'Done' WHERE id = 1")
    if wrong:
        connection.execute("UPDATE people SET name = 'Eve'")
"""
CSV = """\
from pathlib import Path
table = Path(url.removeprefix("file://"), "tasks.csv")
text = table.read_text().replace("Water", "Done")
table.write_text(text + "3,More,1\\n" if wrong else text)
"""
FILES = """\
from pathlib import Path
Path(url.removeprefix("file://"), "note.txt").write_text("done")
if wrong:
    Path(url.removeprefix("file://"), "old.txt").unlink()
"""
GIT = """\
import pygit2
repository = pygit2.Repository(url.removeprefix("file://"))
who = pygit2.Signature("Ada", "ada@example.org", 1, 0)
tree, tip = repository.head.peel().tree_id, repository.head.target
repository.create_tag("v1", tip, pygit2.enums.ObjectType.COMMIT, who, "One")
if wrong:
    repository.references.create("refs/heads/more", tip)
"""
MAIL = """\
import smtplib
from email.message import EmailMessage
host, port = url.removeprefix("smtp://").split(":")
with smtplib.SMTP(host, int(port)) as server:
    for to in ("ada@example.org", "eve@example.org")[: 2 if wrong else 1]:
        letter = EmailMessage()
        letter["From"], letter["To"], letter["Subject"] = "us@example.org", to, "Done"
        letter.set_content("It is done.")
        server.send_message(letter)
"""
RESET = """\
import shutil
shutil.copyfile("base.sqlite", "live.sqlite")
"""


@dataclass(frozen=True)
class OwnKind:
    """How a kind is described, what its agent does, and what the task asks for."""

    source: str
    act: str
    require: str
    call: tuple[str, dict[str, object]]
    """The tool call that does the task."""


DONE: tuple[str, dict[str, object]] = (
    "db_execute",
    {"statements": ["UPDATE tasks SET title = 'Done' WHERE id = 1"]},
)
KINDS = {
    "file": OwnKind("{kind: sqlite, file: app.sqlite}", SQL, RENAMED, DONE),
    "dump": OwnKind("{kind: sqlite, dump: app.sql}", SQL, RENAMED, DONE),
    "tables": OwnKind(
        "{kind: tables, tree: tables}",
        CSV,
        RENAMED,
        ("db_write", {"path": "tasks.csv", "content": "id,title,owner\n1,Done,1\n2,B,1\n"}),
    ),
    "folder": OwnKind(
        "{kind: files, tree: files}",
        FILES,
        '  - {id: noted, create: file, where: it.path == "note.txt"}',
        ("db_write", {"path": "note.txt", "content": "done"}),
    ),
    "git": OwnKind(
        "{kind: git, repository: repo.git}",
        GIT,
        '  - {id: tagged, create: git.ref, where: it.name == "refs/tags/v1"}\n'
        "  - {id: annotated, create: git.tag}",
        (
            "db_create_tag",
            {
                "name": "v1",
                "at": "main",
                "message": "One",
                "tagger": {"name": "Ada", "email": "ada@example.org"},
            },
        ),
    ),
    "checkout": OwnKind(
        "{kind: git-checkout, repository: checkout}",
        FILES,
        '  - {id: noted, create: checkout.work_file, where: it.path == "note.txt"}',
        ("db_write", {"path": "note.txt", "content": "done"}),
    ),
    "mail": OwnKind(
        "{kind: smtp}",
        MAIL,
        '  - {id: sent, create: message, where: it.to == "ada@example.org"}',
        (
            "db_send",
            {
                "to": ["ada@example.org"],
                "sender": "us@example.org",
                "subject": "Done",
                "body": "It is done.",
            },
        ),
    ),
    "external": OwnKind(
        f"{{kind: external, url: live.sqlite, reset: '{sys.executable} reset.py'}}",
        SQL,
        RENAMED,
        DONE,
    ),
}
CONTRACT = """\
contract: own/{name}
version: 1.0.0
owner: us
intent: Do what the task asks for, and nothing else.
sandbox: app
require:
{require}
"""


def make_project(folder: Path, name: str) -> Path:
    """The contract of a project in the folder, whose sandbox `app` is of that kind."""
    kind, sandbox = KINDS[name], folder / "sandboxes" / "app"
    (sandbox / "tables").mkdir(parents=True)
    (sandbox / "files").mkdir()
    for database in ("app.sqlite", "base.sqlite"):
        with sqlite3.connect(sandbox / database) as connection:
            connection.executescript(DUMP)
        connection.close()
    (sandbox / "app.sql").write_text(DUMP)
    (sandbox / "tables" / "tasks.csv").write_text("id,title,owner\n1,Water,1\n2,B,1\n")
    (sandbox / "files" / "old.txt").write_text("old")
    (sandbox / "reset.py").write_text(RESET)
    repository = pygit2.init_repository(str(sandbox / "repo.git"), bare=True, initial_head="main")
    who = pygit2.Signature("Ada", "ada@example.org", 0, 0)
    tree = repository.TreeBuilder()
    tree.insert("a.txt", repository.create_blob(b"a"), pygit2.enums.FileMode.BLOB)
    repository.create_commit("refs/heads/main", who, who, "One", tree.write(), [])
    pygit2.clone_repository(repository.path, str(sandbox / "checkout"))
    (sandbox / "checkout" / "old.txt").write_text("old")
    (sandbox / "sandbox.yaml").write_text(f"sources:\n  db: {kind.source}\n")
    acts = [
        f"def {name}():\n    url, wrong = os.environ['STATEDIFF_DB_URL'], {name == 'wrong'}\n"
        f"{textwrap.indent(kind.act, '    ')}\n"
        for name in ("right", "wrong")
    ]
    (folder / "agents.py").write_text("\n\n".join(["import os", *acts]))
    contract = folder / "contract.yaml"
    contract.write_text(CONTRACT.format(name=name, require=kind.require))
    return contract


def through_the_commands(
    statediff: Any, folder: Path, call: tuple[str, dict[str, object]], patch: pytest.MonkeyPatch
) -> None:
    """`run`, `metatest`, `mutate`, `record` and `mcp` in the sandbox of the project in the folder.

    `statediff` runs in the folder, where the agent `right` does the task and the agent `wrong`
    more. The client of `mcp` is in this process: its programs are in tests/agents.
    """
    done = statediff("run", ".", "--agent", "right", "--agent", "wrong", "--json")
    ended = {line["trial"].split("-")[-2]: line.get("verdict") for line in done.lines[:-1]}
    assert ended == {"right": "MATCH", "wrong": "DIVERGE"}, done.out + done.err
    right = "cases:\n  - {agent: right, verdict: MATCH, why: it is right}\n"
    (folder / "cases.yaml").write_text(right)
    tried = statediff("metatest", "contract.yaml", "--sample", "4", "--seed", "1", "--json")
    assert tried.code in (0, 1), tried.err
    [counts] = tried.lines
    assert counts["caught"] > 0, tried.out
    mutated = statediff("mutate", "contract.yaml", "--reference", "right", "--json")
    assert mutated.code in (0, 1), mutated.err
    assert mutated.lines[0]["caught"] > 0, mutated.out
    shell = folder / "shell"
    command = shlex.join(agent_command(folder, "wrong"))
    shell.write_text(f"#!/bin/sh\nexec {command}\n")
    shell.chmod(0o755)
    patch.setenv("SHELL", str(shell))
    recorded = statediff("record", "app", "--shell", "--out", "recorded", "--json")
    assert recorded.code == 0, recorded.err
    assert recorded.json["changes"] > 1, recorded.out
    assert "sandbox: app" in (folder / "recorded" / "contract.yaml").read_text()

    async def act(server: Any) -> None:
        async with Client(server, cache=None) as client:
            assert call[0] in {tool.name for tool in (await client.list_tools()).tools}
            answered = await client.call_tool(*call)
            assert not answered.is_error, answered.content[0].text

    serve = "statediff_hosts.serving._serve"

    def served(server: Any, *_: Any, **__: Any) -> None:
        with ThreadPoolExecutor(1) as apart:  # whatever loop a test before this one left running
            apart.submit(anyio.run, act, server).result()

    patch.setattr(serve, served)
    assert statediff("mcp", "app", "--trace", "calls.jsonl").code == 0
    assert call[0] in (folder / "calls.jsonl").read_text()


def project_tests(contracts: list[str]) -> str:
    """A test for each contract: the right agent of its folder passes, the wrong one does not."""
    return f"""
import pytest

def marked(contract):
    return pytest.param(marks=pytest.mark.statediff(contract), id=contract)

@pytest.mark.parametrize((), [marked(contract) for contract in {contracts!r}])
def test_it(statediff_run):
    statediff_run("right")
    with pytest.raises(AssertionError):
        statediff_run("wrong")
"""
