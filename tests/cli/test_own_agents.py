"""Agents as people have them: relative paths, names, crashes, coroutines, odd answers."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call, Files

REFUND = "shop/refund-returned-order"
CRASH = """\
import sys
print("cannot reach the model", file=sys.stderr)
sys.exit(2)
"""
HARM_THEN_CRASH = """\
import os, sqlite3, sys
path = os.environ["STATEDIFF_SHOP_DB_URL"].removeprefix("sqlite://")
with sqlite3.connect(path) as db:
    db.execute("DELETE FROM customers WHERE id = (SELECT max(id) FROM customers)")
sys.exit("lost the thread")
"""


def run(statediff: Call, agent: str, option: str = "--agent") -> tuple[int, str, str]:
    said = statediff("run", REFUND, option, agent)
    return said.code, said.out, said.err


def test_a_program_is_found_by_its_relative_path_and_its_crash_is_on_the_run_line(
    statediff: Call, files: Files, tmp_path: Path
) -> None:
    files.write("idle.py", CRASH)
    code, out, err = run(statediff, f"mine={sys.executable} idle.py", "--agent-cmd")
    line = "changed nothing, the agent ended with exit code 2: cannot reach the model"
    assert (code, line in out) == (1, True), out + err
    (trial,) = (tmp_path / "runs").glob("*/trials/*")
    said = statediff("show", str(trial))
    assert "agent mine" in said.out
    assert (
        "The agent failed: the agent ended with exit code 2\n  cannot reach the model" in said.out
    )
    page = (trial / "report.html").read_text()
    assert "cannot reach the model" in page
    assert (
        "agent_error"
        in statediff("retry", str(trial.parents[1]), "--ended", "DIVERGE", "--json").out
    )


def test_a_crash_after_harm_does_not_hide_what_was_changed(statediff: Call, files: Files) -> None:
    files.write("harm.py", HARM_THEN_CRASH)
    code, out, _ = run(statediff, f"{sys.executable} harm.py")
    assert code == 2  # no name, so neither a function nor one of the contract's agents
    code, out, _ = run(statediff, f"harm={sys.executable} harm.py", "--agent-cmd")
    assert code == 1
    assert "changed nothing" not in out
    assert "; the agent ended with exit code 1: lost the thread" in out


FUNCTIONS = """\
import asyncio


async def waits(trial):
    await asyncio.sleep(0)
    assert asyncio.get_running_loop().is_running()
    return {"refunded_cents": 0}


async def fails(trial):
    raise RuntimeError("no model")


def confused(trial):
    return {1, 2}


def infinite(trial):
    return float("nan")
"""


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("waits", 1, "refunded: no refund matches"),
        ("fails", 1, "changed nothing, the agent raised RuntimeError: no model"),
        ("confused", 1, "refunded: no refund matches"),
    ],
)
def test_coroutines_are_awaited_and_what_fails_is_on_the_run_line(
    name: str, code: int, words: str, statediff: Call, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("agents_of_mine.py", FUNCTIONS)
    monkeypatch.syspath_prepend(str(files.folder))
    found, out, err = run(statediff, f"agents_of_mine:{name}")
    assert (found, words in out) == (code, True), out + err


@pytest.mark.parametrize("name", ["confused", "infinite"])
def test_a_run_that_is_right_but_for_an_answer_that_can_be_none_is_a_fault(
    name: str, statediff: Call, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("agents_of_mine.py", FUNCTIONS)
    monkeypatch.syspath_prepend(str(files.folder))
    said = statediff("run", "accounts/access-review", "--agent", f"agents_of_mine:{name}")
    assert (said.code, "which is no answer" in said.out) == (4, True), said.out + said.err


@pytest.mark.parametrize(("flag", "shown"), [("-q", False), ("-v", True), (None, False)])
def test_clauses_that_hold_are_listed_or_in_one_line(
    flag: str | None,
    shown: bool,
    statediff: Call,
    files: Files,  # noqa: ARG001 - writes them
) -> None:
    options = ["judge", "c.yaml", "--before", "a.json", "--after", "b.json"]
    out = statediff(*options, *([flag] if flag else [])).out
    assert ("No ticket or user may be deleted" in out) == shown
    assert out.startswith("MATCH")
    assert (len(out.splitlines()) == 1) == (flag == "-q")
    assert ("3 hold: nothing-deleted" in out) == (flag is None)
    assert max(map(len, out.splitlines())) < 1000


def test_tasks_lists_what_is_shipped_and_what_is_in_a_folder(statediff: Call, files: Files) -> None:
    said = {task["name"]: task for task in statediff("tasks", "--json").json["tasks"]}
    assert said[REFUND]["sandbox"] == "shop"
    assert "careful" in said[REFUND]["agents"]
    (files.folder / "mine.contract.yaml").write_bytes((files.folder / "c.yaml").read_bytes())
    assert "mine.contract.yaml  1.0.0" in statediff("tasks", str(files.folder)).out


def test_a_folder_that_we_make_is_not_for_git_and_one_that_was_there_is(
    statediff: Call, files: Files, tmp_path: Path
) -> None:
    judge = ("judge", "c.yaml", "--before", "a.json", "--after", "b.json")
    assert statediff(*judge).code == 0
    assert (tmp_path / ".statediff" / ".gitignore").read_text() == "*\n"
    (tmp_path / "runs").mkdir()
    files.write("idle.py", "")
    assert statediff("run", REFUND, "--agent-cmd", f"idle={sys.executable} idle.py").code == 1
    assert not (tmp_path / "runs" / ".gitignore").exists()


def test_the_shell_completes_commands(statediff: Call) -> None:
    words = {
        "_STATEDIFF_COMPLETE": "complete_bash",
        "COMP_WORDS": "statediff ju",
        "COMP_CWORD": "1",
    }
    assert statediff(env=words).out == "judge\n"
