"""Tasks in the shape of Terminal-Bench's, of our own making: a service's database, or a file tree.

    python -m lab.benchmarks.harbor_like DIR
    cd DIR && statediff lab audit tasks.yaml

Each has an instruction, a state, a solution and tests that look at what was asked, as tests of such
tasks do. `test_TASK.py` is an ordinary pytest module (`STATEDIFF_STATE=… pytest test_TASK.py`); its
`passes` calls the same tests in one process. A file tree is one JSON table: path, mode and content.

The tests are ours, written before anything was audited: what an audit finds says how tests of this
shape fail, and nothing of anybody's benchmark.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SERVICE: Final = """
CREATE TABLE account (id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, plan TEXT NOT NULL,
    seats INTEGER NOT NULL);
CREATE TABLE token (id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL REFERENCES account(id),
    scope TEXT NOT NULL, revoked INTEGER NOT NULL);
CREATE TABLE invoice (id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES account(id), cents INTEGER NOT NULL,
    state TEXT NOT NULL, due TEXT NOT NULL);
CREATE TABLE job (id INTEGER PRIMARY KEY, name TEXT NOT NULL, every_minutes INTEGER NOT NULL,
    enabled INTEGER NOT NULL);
INSERT INTO account VALUES (1,'ada@example.org','team',5),(2,'bob@example.org','free',1),(3,
    'cy@example.org','team',9),(4,'dee@example.org','free',2);
INSERT INTO token VALUES (1,1,'read',0),(2,1,'write',0),(3,2,'read',0),(4,3,'admin',0),(5,3,
    'read',1);
INSERT INTO invoice VALUES (1,1,4900,'paid','2026-01-31'),(2,1,4900,'open','2026-02-28'),(3,3,
    8900,'open','2026-01-31'),(4,3,8900,'open','2026-03-31'),(5,4,900,'paid','2026-02-28');
INSERT INTO job VALUES (1,'backup',60,1),(2,'report',1440,1),(3,'sync',5,1);
"""
TREE: Final = {
    "app/config.ini": "[server]\nport = 8080\ndebug = true\n[db]\nurl = sqlite:///prod.db\n",
    "app/main.py": "from app import config\n\nprint(config.port)\n",
    "app/util/strings.py": "def shout(text):\n    return text.upper()\n",
    "data/sales.csv": "day,cents\n2026-01-01,1200\n2026-01-02,800\n2026-01-03,2500\n",
    "logs/app-1.log": "start\nerror: disk\nstop\n",
    "logs/app-2.log": "start\nstop\n",
    "notes/todo.txt": "- rotate the keys\n- back up\n",
    "secrets/key.pem": "-----BEGIN KEY-----\nMIIB\n-----END KEY-----\n",
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task; of a database with `sql`, else of the tree."""

    name: str
    instruction: str
    tests: str
    sql: str = ""
    files: dict[str, str | None] = field(default_factory=dict)
    """Path → content after the solution; None where it is gone."""


TASKS: Final = (
    Task(
        name="revoke_tokens",
        instruction="Revoke every token of ada@example.org.",
        sql="UPDATE token SET revoked = 1 WHERE account_id = 1",
        tests=(
            "def test_revoked():\n"
            "    assert not rows('SELECT id FROM token WHERE account_id = 1 AND revoked = 0')\n"
        ),
    ),
    Task(
        name="upgrade_plan",
        instruction="Move bob@example.org to the plan team with three seats.",
        sql="UPDATE account SET plan = 'team', seats = 3 WHERE id = 2",
        tests=(
            "def test_plan():\n"
            "    assert rows('SELECT plan, seats FROM account WHERE id = 2') == [('team', 3)]\n"
        ),
    ),
    Task(
        name="dun_overdue",
        instruction="Mark the open invoices that were due before 2026-03-01 as overdue.",
        sql="UPDATE invoice SET state = 'overdue' WHERE state = 'open' AND due < '2026-03-01'",
        tests=(
            "def test_overdue():\n"
            "    found = rows(\"SELECT id FROM invoice WHERE state = 'overdue' ORDER BY id\")\n"
            "    assert found == [(2,), (3,)]\n"
        ),
    ),
    Task(
        name="add_job",
        instruction="Add a job named vacuum that runs once a day and is enabled.",
        sql="INSERT INTO job VALUES (4, 'vacuum', 1440, 1)",
        tests=(
            "def test_job():\n"
            "    found = rows(\"SELECT every_minutes, enabled FROM job WHERE name = 'vacuum'\")\n"
            "    assert found == [(1440, 1)]\n"
        ),
    ),
    Task(
        name="close_account",
        instruction="Delete the account of dee@example.org with its invoices.",
        sql="DELETE FROM invoice WHERE account_id = 4; DELETE FROM account WHERE id = 4",
        tests=(
            "def test_gone():\n"
            "    assert rows('SELECT * FROM account WHERE id = 4') == []\n"
            "\n"
            "\n"
            "def test_no_invoice():\n"
            "    assert rows('SELECT * FROM invoice WHERE account_id = 4') == []\n"
        ),
    ),
    Task(
        name="change_port",
        instruction="Let the server listen on port 9090, without debugging.",
        files={
            "app/config.ini": TREE["app/config.ini"]
            .replace("8080", "9090")
            .replace("true", "false")
        },
        tests=(
            "def test_port():\n"
            "    assert 'port = 9090' in files()['app/config.ini']\n"
            "\n"
            "\n"
            "def test_debug():\n"
            "    assert 'debug = false' in files()['app/config.ini']\n"
        ),
    ),
    Task(
        name="sum_sales",
        instruction="Write the sum of data/sales.csv in cents to data/total.txt.",
        files={"data/total.txt": "4500\n"},
        tests=("def test_total():\n    assert files()['data/total.txt'].strip() == '4500'\n"),
    ),
    Task(
        name="archive_logs",
        instruction="Move the logs to archive/, and leave logs/ empty.",
        files={
            "archive/app-1.log": TREE["logs/app-1.log"],
            "archive/app-2.log": TREE["logs/app-2.log"],
            "logs/app-1.log": None,
            "logs/app-2.log": None,
        },
        tests=(
            "def test_moved():\n"
            "    assert {'archive/app-1.log', 'archive/app-2.log'} <= files().keys()\n"
            "\n"
            "\n"
            "def test_empty():\n"
            "    assert not any(path.startswith('logs/') for path in files())\n"
        ),
    ),
    Task(
        name="list_errors",
        instruction="Write the lines of logs/ that begin with error to errors.txt.",
        files={"errors.txt": "error: disk\n"},
        tests=(
            "def test_errors():\n    assert files()['errors.txt'].splitlines() == ['error: disk']\n"
        ),
    ),
    Task(
        name="drop_todo",
        instruction="Take the keys off notes/todo.txt: they were rotated.",
        files={"notes/todo.txt": "- back up\n"},
        tests=("def test_todo():\n    assert 'rotate' not in files()['notes/todo.txt']\n"),
    ),
)
_MODULE: Final = '''"""{instruction}"""

import json
import os
import sqlite3
from contextlib import closing

STATE = os.environ.get("STATEDIFF_STATE")


def rows(query):
    with closing(sqlite3.connect(STATE)) as db:
        return db.execute(query).fetchall()


def files():
    with open(STATE) as file:
        return {{each["path"]: each["content"] for each in json.load(file)["file"]}}


{tests}

def passes(state):
    global STATE
    STATE = str(state)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
'''


def write(folder: Path) -> int:
    """The tasks are in a new folder; how many."""
    folder.mkdir(parents=True)
    listed = []
    for task in TASKS:
        module = f"test_{task.name}"
        text = _MODULE.format(instruction=task.instruction, tests=task.tests)
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
        ending = "db" if task.sql else "json"
        before, after = (f"{task.name}/{moment}.{ending}" for moment in ("before", "after"))
        (folder / task.name).mkdir()
        if task.sql:
            with closing(sqlite3.connect(folder / before)) as database:
                database.executescript(SERVICE)
            shutil.copyfile(folder / before, folder / after)
            with closing(sqlite3.connect(folder / after)) as database:
                database.executescript(task.sql)
        else:
            after_tree = {p: c for p, c in {**TREE, **task.files}.items() if c is not None}
            (folder / before).write_text(_tree(TREE), encoding="utf-8")
            (folder / after).write_text(_tree(after_tree), encoding="utf-8")
        kind = "database" if task.sql else "tree"
        listed.append(
            {
                "task": task.name,
                "domain": f"harbor-like {kind}",
                "verifier": f"python:{module}:passes",
                "before": before,
                "after": after,
            }
        )
    (folder / "tasks.yaml").write_text(json.dumps({"tasks": listed}), encoding="utf-8")
    return len(listed)


def _tree(files: dict[str, str]) -> str:
    listed = [
        {"path": path, "mode": "600" if path.startswith("secrets/") else "644", "content": content}
        for path, content in sorted(files.items())
    ]
    return json.dumps({"file": listed})


def main() -> None:
    """The tasks are in a new folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(write(parser.parse_args().folder), "tasks")


if __name__ == "__main__":
    main()
