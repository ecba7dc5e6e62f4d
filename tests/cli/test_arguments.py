"""One agent, one contract, many folders: the words of a command are the program's to read."""

import json
import os
import shlex
import sqlite3
import sys
from pathlib import Path

import pytest

from statediff.cli.main import run
from tests.cli.conftest import Call

AGENT = """\
import os, sqlite3, sys
assert sys.argv[1:] == ["cancel", "--reason", "orders/7", "run"], sys.argv
with sqlite3.connect(os.environ["STATEDIFF_DB_URL"].removeprefix("sqlite:///")) as connection:
    connection.execute("UPDATE orders SET state = ? WHERE id = 7", (sys.argv[1],))
"""
ARGUMENTS = "cancel --reason orders/7 run"
CONTRACT = """\
contract: shop/cancel
version: 1.0.0
owner: desk
intent: Cancel order 7 and change nothing else.
sandbox: ./shop.sandbox.yaml
require:
  - {id: cancelled, update: orders, where: it.id == 7, set: {state: cancel}}
"""
FOLDERS = (
    "plain",
    "two words",
    "it's",
    'a "quoted" one',
    "ünïcode ✓",
    "日本語",
    "token",
    "token=x",
    "password=hunter2",
    "-x",
    "--out",
    "cancel",
    "run",
    "python",
    "$HOME",
    "`true`",
    "a;b",
    "tab\tand\nnewline",
    "[bracket]*",
    "agent.py",
)


def project(folder: Path) -> Path:
    """An agent, a contract and its sandbox, beside folders that are called like arguments."""
    folder.mkdir(parents=True)
    for name in ("cancel", "run", "orders/7", "python", sys.executable.rpartition("/")[2]):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "agent.py").write_text(AGENT)
    (folder / "contract.yaml").write_text(CONTRACT)
    (folder / "shop.sandbox.yaml").write_text("sources:\n  db: {kind: sqlite, file: db.sqlite}\n")
    with sqlite3.connect(folder / "db.sqlite") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
        connection.execute("INSERT INTO orders VALUES (7, 'open'), (8, 'open')")
    return folder


def ends_in(folder: Path, out: str) -> tuple[object, ...]:
    """The trial, its agent and its verdict, as `run --json` says them."""
    lines = [json.loads(line) for line in out.splitlines()]
    (trial,) = (each for each in lines if each.get("schema") == "statediff/trial/1")
    (kept,) = folder.glob("runs/*/trials/*/agent.json")
    assert json.loads(kept.read_text())["command"][2:] == ARGUMENTS.split()
    return trial["trial"], trial["agent"], trial["verdict"]


@pytest.mark.slow
def test_twenty_folders_make_one_verdict_and_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = Path(sys.executable).name
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    ends = set()
    for name in FOLDERS:
        folder = project(tmp_path / "places" / name)
        monkeypatch.chdir(folder)
        code = run(
            ["run", "contract.yaml", "--json", "--agent-cmd", f"{python} agent.py {ARGUMENTS}"]
        )
        said = capsys.readouterr()
        assert code == 0, (name, said.out, said.err)
        ends.add(ends_in(folder, said.out))
    assert ends == {("shop-cancel-1", "agent.py", "MATCH")}


def test_a_folder_whose_name_is_no_text_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project(tmp_path / os.fsdecode(b"caf\xe9")))
    command = f"{shlex.quote(sys.executable)} agent.py {ARGUMENTS}"
    assert run(["run", "contract.yaml", "--agent-cmd", command]) == 2
    assert "is not UTF-8, and a run records it" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["cancel", "it's", "-x"])
def test_watch_mutate_and_retry_find_the_same_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(tmp_path / name)
    monkeypatch.chdir(folder)
    command = f"{shlex.quote(sys.executable)} agent.py {ARGUMENTS}"
    words = shlex.split(command)
    kept = ["--contract", "contract.yaml", "--state", "db=db.sqlite", "--out", "watched"]
    assert run(["mutate", "contract.yaml", "--json", "--agent-cmd", command]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["references"] == ["agent.py"]
    assert run(["run", "contract.yaml", "--agent-cmd", command]) == 0, capsys.readouterr()
    (made,) = folder.glob("runs/run-*")
    monkeypatch.chdir(tmp_path)  # where no agent is
    capsys.readouterr()
    assert run(["retry", str(made), "--ended", "MATCH", "--json"]) == 0, capsys.readouterr()
    assert '"agent":"agent.py"' in capsys.readouterr().out.replace(": ", ":")
    monkeypatch.chdir(folder)
    assert run(["watch", *kept, "--", *words]) == 0, capsys.readouterr()
    trial = json.loads((folder / "watched" / "trial.json").read_text())
    assert trial["agent"] == "agent.py"


def test_two_agents_of_one_script_are_told_apart_and_show_says_what_was_run(
    statediff: Call, tmp_path: Path
) -> None:
    folder = project(tmp_path / "place")
    first, other = f"{sys.executable} agent.py {ARGUMENTS}", f"{sys.executable} agent.py cancel"
    said = statediff("run", "contract.yaml", "--agent-cmd", first, "--agent-cmd", other, cwd=folder)
    assert said.code == 1, said.out + said.err
    head = said.out.replace(str(folder), "…")
    assert "shop-cancel-agent.py-1-1" in head
    assert "shop-cancel-agent.py-2-1" in head
    assert "`cancel` is passed as written; if it is a file of yours, write its" in head
    shown = statediff("show", str(next(folder.glob("runs/*/trials/*-2-1"))))
    assert f"{folder}/agent.py cancel" in "".join(shown.out.split("\n"))
    assert "agent agent.py-2" in shown.out
