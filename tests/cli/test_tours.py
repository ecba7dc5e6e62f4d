"""Commands that go through several sandboxes or tasks: one that fails costs the others nothing."""

import json
import shlex
import sqlite3
import sys
from pathlib import Path

import pytest
from statediff_trackers.roundup.sandbox import EmbeddedTracker

from statediff.errors import SandboxError
from tests.cli.conftest import Call

CONTRACT = """\
contract: t/{name}
version: 1.0.0
owner: desk
intent: Close 1 and nothing else.
sandbox: ./{name}.sandbox.yaml
require:
  - {{id: closed, update: t, where: it.id == 1, set: {{s: closed}}}}
"""
AGENT = """\
import os, sqlite3
with sqlite3.connect(os.environ["STATEDIFF_DB_URL"].removeprefix("sqlite:///")) as c:
    c.execute("UPDATE t SET s = 'closed' WHERE id = 1")
"""
COMMAND = f"{shlex.quote(sys.executable)} agent.py"


def database(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT);"
            "INSERT INTO t VALUES (1, 'open'), (2, 'open');" + ";".join(statements)
        )
    connection.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """`a-broken` has a sandbox that never starts, `good` one that does."""
    (tmp_path / "agent.py").write_text(AGENT)
    database(tmp_path / "good.sqlite")
    sources = {
        "a-broken": {"kind": "external", "url": "none.sqlite", "reset": "sh -c 'echo no; exit 3'"},
        "good": {"kind": "sqlite", "file": "good.sqlite"},
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.yaml").write_text(CONTRACT.format(name=name))
        described = json.dumps({"sources": {"db": source}})
        (tmp_path / f"{name}.sandbox.yaml").write_text(described)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_run_and_mutate_go_on_without_a_sandbox_that_does_not_start(statediff: Call) -> None:
    contracts = ["a-broken.yaml", "good.yaml"]
    said = statediff("run", *contracts, "--agent-cmd", COMMAND, "--retries", "0")
    assert said.code == 4, said.out + said.err
    assert "t-good-1  MATCH" in said.out
    assert "its trials will have no verdict" in said.err
    assert "exit code 3: no" in " ".join(said.out.split())
    alone = statediff("run", "a-broken.yaml", "--agent-cmd", COMMAND)
    assert (alone.code, alone.out) == (4, "")
    mutated = statediff("mutate", *contracts, "--agent-cmd", COMMAND)
    assert mutated.code == 4, mutated.out + mutated.err
    assert "✔ t/good 1.0.0" in mutated.out
    assert "error: t/a-broken: db: reset" in mutated.err.splitlines()[-1]


def test_audit_has_the_figures_of_the_tasks_that_it_can_audit(
    statediff: Call, tmp_path: Path
) -> None:
    database(tmp_path / "before.sqlite")
    database(tmp_path / "one.sqlite", "UPDATE t SET s = 'closed' WHERE id = 1")
    (tmp_path / "one.sql").write_text("SELECT s = 'closed' FROM t WHERE id = 1;\n")
    (tmp_path / "tasks.yaml").write_text(
        "tasks:\n"
        "  - {task: two, before: before.sqlite, after: none.sqlite, verifier: 'sql:one.sql'}\n"
        "  - {task: one, before: before.sqlite, after: one.sqlite, verifier: 'sql:one.sql'}\n"
    )
    said = statediff("lab", "audit", "tasks.yaml", "--each", "1")
    assert said.code == 4, said.out + said.err
    assert "one  1 of 1 task audited" in " ".join(said.out.split("\n")).replace("   ", "  ")
    assert "none.sqlite" in said.out


def test_demo_shows_what_it_judged_where_a_system_does_not_start(
    statediff: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: EmbeddedTracker) -> None:
        raise SandboxError("the tracker did not start: no room")

    monkeypatch.setattr(EmbeddedTracker, "start", start)
    said = statediff("demo")
    assert said.code == 4, said.out + said.err
    lines = said.out.splitlines()
    verdicts = {line.split()[0]: line.split()[1] for line in lines if line and line[0] != "✔"}
    shown = {name: verdicts[name] for name in ("careful", "hasty", "unplugged", "repo")}
    assert shown == {
        "careful": "MATCH",
        "hasty": "DIVERGE",
        "unplugged": "INCONCLUSIVE",
        "repo": "DIVERGE",
    }
    assert "helpdesk    fault: the tracker did not start: no room" in said.out
    assert "without a verdict: helpdesk; look at" in said.out.replace("\n", " ")
