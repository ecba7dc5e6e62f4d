"""The base of a system that commands put back: kept once, and for every later command."""

import json
import os
import shlex
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from statediff.errors import SandboxError, UnprovenBase
from statediff.packs import read_pack
from statediff.systems.base.known_bases import place_of_base
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.cli.conftest import Call
from tests.cli.conftest import statediff as statediff  # noqa: PLC0414 - a fixture

RESET = """\
import sqlite3
with sqlite3.connect("live.sqlite") as c:
    c.executescript(
        "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, s TEXT);"
        "CREATE TABLE IF NOT EXISTS rights (id INTEGER PRIMARY KEY, who TEXT);"
        "INSERT OR REPLACE INTO t VALUES (1, 'open'), (2, 'open');"
    )
"""
CONTRACT = """\
contract: t/{name}
version: 1.0.0
owner: desk
intent: Close 1 and nothing else.
sandbox: ./{name}.sandbox.yaml
require:
  - {{id: closed, update: t, where: it.id == 1, set: {{s: closed}}}}
"""
CLOSES = """\
import os, sqlite3
with sqlite3.connect(os.environ["STATEDIFF_DB_URL"].removeprefix("sqlite:///")) as c:
    c.execute("UPDATE t SET s = 'closed' WHERE id = 1")
"""
TAKES = CLOSES + "    c.execute(\"INSERT OR IGNORE INTO rights VALUES (9, 'agent')\")\n"
PYTHON = shlex.quote(sys.executable)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "reset.py").write_text(RESET)
    (tmp_path / "closes.py").write_text(CLOSES)
    (tmp_path / "takes.py").write_text(TAKES)
    describe(tmp_path)
    with sqlite3.connect(tmp_path / "plain.sqlite") as connection:
        connection.executescript(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT); INSERT INTO t VALUES (1, 'open');"
            "CREATE TABLE rights (id INTEGER PRIMARY KEY, who TEXT)"
        )
    connection.close()
    (tmp_path / "plain.sandbox.yaml").write_text(
        "sources: {db: {kind: sqlite, file: plain.sqlite}}\n"
    )
    for name in ("live", "plain"):
        (tmp_path / f"{name}.yaml").write_text(CONTRACT.format(name=name))
    return tmp_path


def describe(folder: Path, **more: str) -> None:
    source = {"kind": "external", "url": "live.sqlite", "reset": f"{PYTHON} reset.py", **more}
    (folder / "live.sandbox.yaml").write_text(json.dumps({"sources": {"db": source}}))


def ends(said: Any) -> list[str]:
    lines = [json.loads(line) for line in said.out.splitlines()]
    return [x["verdict"] or x["cause"] for x in lines if x.get("schema") == "statediff/trial/1"]


def run(statediff: Call, *more: str, agent: str = "takes.py") -> Any:
    return statediff("run", *more, "--agent-cmd", f"{PYTHON} {agent}", "--json")


def test_what_a_reset_leaves_is_no_base_in_a_retry_a_resumed_run_or_a_second_command(
    statediff: Call, project: Path
) -> None:
    said = run(statediff, "live.yaml", "plain.yaml", "-k", "3")
    assert ends(said) == ["DIVERGE", "base", "base", *["DIVERGE"] * 3]
    assert "rights: expected 0 rows, found 1 rows; 9 is new" in said.out
    (folder,) = (project / "runs").glob("run-*")
    again = statediff("retry", str(folder), "--json")
    said = " ".join((again.err + again.out).split())
    assert (again.code, "db.rights: expected 0 rows, found 1 row" in said) == (1, True)
    other = run(statediff, "live.yaml", "--out", "other", agent="closes.py")
    assert other.code == 4
    assert "kept before its first trial: db.rights: expected 0 rows, found 1 row" in other.out
    beside = run(statediff, "live.yaml", "plain.yaml", "--out", "other", agent="closes.py")
    assert (beside.code, ends(beside)) == (4, ["base", "MATCH"])
    rebased = run(statediff, "live.yaml", "--out", "other", "--rebase", agent="closes.py")
    assert (rebased.code, ends(rebased)) == (0, ["MATCH"])
    pins = json.loads(next((project / "other").glob("*/run.json")).read_text())["sandboxes"]
    assert pins


def test_a_run_has_one_base_and_a_retry_takes_no_other(statediff: Call, project: Path) -> None:
    assert ends(run(statediff, "live.yaml", agent="closes.py")) == ["MATCH"]
    (folder,) = (project / "runs").glob("run-*")
    with sqlite3.connect(project / "live.sqlite") as connection:
        connection.execute("INSERT INTO rights VALUES (1, 'owner')")
    connection.close()
    assert ends(run(statediff, "live.yaml", "--rebase", agent="closes.py")) == ["MATCH"]
    refused = statediff("retry", str(folder), "--ended", "MATCH")
    assert (refused.code, "another base of it" in " ".join(refused.err.split())) == (2, True), (
        refused.err
    )


def test_a_seed_that_changes_during_a_run_ends_its_trials(statediff: Call, project: Path) -> None:
    spoils = (
        "import sqlite3\n"
        f"with sqlite3.connect({str(project / 'plain.sqlite')!r}) as c:\n"
        "    c.execute(\"INSERT INTO rights VALUES (9, 'agent')\")\n"
        "c.close()\nraise SystemExit(1)\n"
    )
    (project / "spoils.py").write_text(spoils)
    command = ["run", "plain.yaml", "--agent-cmd", f"{PYTHON} spoils.py", "--isolation", "none"]
    first = statediff(*command, "--json")
    assert ends(first) == ["DIVERGE"]
    (folder,) = (project / "runs").glob("run-*")
    refused = statediff("retry", str(folder), "--ended", "DIVERGE")
    assert (refused.code, "began with another plain" in " ".join(refused.err.split())) == (
        2,
        True,
    ), refused.err


def opened(folder: Path) -> EmbeddedSandbox:
    return EmbeddedSandbox(read_pack(folder / "live.sandbox.yaml"), folder / "work")


def test_another_description_makes_another_base_unless_it_came_during_a_command(
    project: Path,
) -> None:
    with opened(project):
        pass
    with sqlite3.connect(project / "live.sqlite") as connection:
        connection.execute("INSERT INTO rights VALUES (1, 'owner')")
    connection.close()
    with pytest.raises(UnprovenBase, match=r"db\.rights: expected 0 rows, found 1 row"):
        opened(project).start()
    describe(project, timeout="50s")  # as its owner says it
    with opened(project):
        describe(project, timeout="51s")  # as an agent may say it
    for _ in range(2):
        with pytest.raises(UnprovenBase, match="changed while a command used the system"):
            opened(project).start()
    describe(project, timeout="50s")
    with opened(project):
        pass


def test_a_record_that_cannot_be_read_or_written_is_no_base(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(project):
        pass
    place = place_of_base(project / "live.sandbox.yaml", "db")
    assert not place.is_relative_to(project)
    place.write_text("{}")
    with pytest.raises(UnprovenBase, match="the base that was kept cannot be read"):
        opened(project).start()
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    with pytest.raises(SandboxError, match=r"cannot be (kept|read)"):
        opened(project).start()


def test_a_record_that_an_agent_changes_without_isolation_is_the_commands_own_again(
    statediff: Call, project: Path
) -> None:
    assert ends(run(statediff, "live.yaml", agent="closes.py")) == ["MATCH"]
    place = place_of_base(project / "live.sandbox.yaml", "db")
    kept = place.read_bytes()
    for number, harm in enumerate(("write_text('{}')", "unlink()")):
        agent = f"agent-{number}.py"
        forged = f"import pathlib\npathlib.Path({str(place)!r}).{harm}\n"
        (project / agent).write_text(f"{TAKES}\n{forged}")
        more = ("--isolation", "none", "--out", f"out-{number}")
        run(statediff, "live.yaml", *more, agent=agent)
        assert place.read_bytes() == kept
        after = run(statediff, "live.yaml", "--out", "next", agent="closes.py")
        assert (after.code, "kept before its first trial: db.rights" in after.out) == (4, True)
        with sqlite3.connect(project / "live.sqlite") as connection:
            connection.execute("DELETE FROM rights")
        connection.close()


def test_a_pin_is_a_persons_word_too(statediff: Call, project: Path) -> None:
    describe(project, base="base.json")
    assert statediff("sandbox", "pin", "./live.sandbox.yaml").code == 0
    with sqlite3.connect(project / "live.sqlite") as connection:
        connection.execute("INSERT INTO rights VALUES (1, 'owner')")
    connection.close()
    assert run(statediff, "live.yaml", agent="closes.py").code == 4
    assert statediff("sandbox", "pin", "./live.sandbox.yaml").code == 0
    assert ends(run(statediff, "live.yaml", agent="closes.py")) == ["MATCH"]
