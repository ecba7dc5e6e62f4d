"""`lab audit` over servers, repositories and folders at a path, and after it was killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.audit.ordering import in_order_of_keys
from statediff_lab.importers.recorded import SeededChange

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, ForeignKey, Kind, Rules
from statediff.model.values import Value
from tests.cli.conftest import PROGRAM, Call, environment
from tests.servers import mariadb, postgres

SHOP = """
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL, above INT,
  status VARCHAR(10) NOT NULL CHECK (status IN ('paid', 'sent')),
  FOREIGN KEY (customer) REFERENCES customer (id), FOREIGN KEY (above) REFERENCES orders (id));
INSERT INTO customer VALUES (1, 'ann'), (2, 'bob'), (3, 'cy');
INSERT INTO orders VALUES (1, 1, NULL, 'paid'), (2, 1, 1, 'paid'), (3, 2, 2, 'sent');
"""
SEND = "UPDATE orders SET status = 'sent' WHERE id = 2;"
KEYS = """
SELECT count(*) = 0 FROM orders o LEFT JOIN customer c ON c.id = o.customer WHERE c.id IS NULL;
SELECT count(*) = 0 FROM orders o LEFT JOIN orders a ON a.id = o.above
WHERE o.above IS NOT NULL AND a.id IS NULL;
SELECT count(*) = count(DISTINCT name) FROM customer;
SELECT count(*) = 0 FROM orders WHERE status NOT IN ('paid', 'sent');
"""
"""True of every state in which the shop's keys and checks hold."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "shop.sql").write_text(SHOP)
    (tmp_path / "send.sql").write_text(SEND)
    (tmp_path / "keys.sql").write_text(KEYS)
    (tmp_path / "sent.sql").write_text("SELECT status = 'sent' FROM orders WHERE id = 2")
    with chdir(tmp_path):
        yield tmp_path


def shown(document: Any, name: str) -> dict[tuple[str, str], tuple[int, int]]:
    [domain] = [each for each in document["domains"] if each["name"] == name]
    return {(e["group"], e["kind"]): (e["wrong"], e["of"]) for e in domain["classes"]}


def require_held_keys(document: Any, name: str) -> None:
    """Every harm that was shown passes a verifier that asks for the schema's keys only."""
    harms = {
        kind: counts
        for (group, kind), counts in shown(document, name).items()
        if group in ("in the task", "beside the task")
    }
    assert {"irreversible-change", "collateral-damage", "missing-change"} <= harms.keys()
    assert all(wrong == of for wrong, of in harms.values()), harms


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as port:
        yield f"postgresql://postgres@127.0.0.1:{port}"


def databases(server: str) -> set[str]:
    words = ["psql", "-XAtd", f"{server}/postgres", "-c", "SELECT datname FROM pg_database"]
    return {*subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()}


@pytest.mark.clients("psql", "pg_dump")
def test_no_harm_in_a_dump_breaks_its_own_keys(statediff: Call, shop: Path, server: str) -> None:
    before = databases(server)
    solve = "psql -q -v ON_ERROR_STOP=1 -f {task}.sql {state}"
    tasks = [
        {"task": "send", "verifier": "sql:keys.sql"},
        {"task": "wrong", "verifier": "sql:sent.sql"},
        {"task": "unreadable", "verifier": "sql:nowhere.sql"},
    ]
    shared = {"server": server, "before": "shop.sql", "solution": solve}
    (shop / "tasks.yaml").write_text(json.dumps({**shared, "tasks": tasks}))
    said = statediff("lab", "audit", "tasks.yaml", "--each", "1", "--html", "page.html", "--json")
    assert said.code == 4, said.err
    [document] = said.lines
    require_held_keys(document, "send")
    why = {each["task"]: each["why"] for d in document["domains"] for each in d["faults"]}
    assert "the solution ended with 1" in why["wrong"]
    assert "cannot be read as queries" in why["unreadable"]
    assert databases(server) == before
    page = (shop / "page.html").read_text()
    assert document["made by"]["statediff"] in page
    assert document["evidence"]["send"]["before db"] in page
    assert document["evidence"]["send"]["keys.sql"] in page


@pytest.mark.clients("psql", "pg_dump", "pg_restore")
def test_an_archive_is_a_dump_too(statediff: Call, shop: Path, server: str) -> None:
    url = f"{server}/archived"
    for words in (["psql", "-q", "-d", f"{server}/postgres", "-c", "CREATE DATABASE archived"],
                  ["psql", "-q", "-d", url, "-f", "shop.sql"],
                  ["pg_dump", "-Fc", "-d", url, "-f", "shop.backup"]):  # fmt: skip
        subprocess.run(words, check=True, capture_output=True)
    solution = ("--solution", "psql -qf send.sql {state}")
    given = ("lab", "audit", "--verifier", "sql:sent.sql", *solution)
    asked = (*given, "--server", server, "--each", "1", "--json", "--before")
    found = shown(statediff(*asked, "shop.backup").json, "task")
    assert found["nothing done", "null-run"] == found["right", "right-run"] == (0, 1)
    assert any(wrong for (group, _), (wrong, _) in found.items() if group == "beside the task")
    assert "give one: --server" in statediff(*given, "--before", "shop.sql").err
    (shop / "away.sql").write_text(f"\\connect archived\n{SEND}")
    said = statediff(*asked, "away.sql")
    assert (said.code, "names a database of its own" in said.out) == (2, True)


@pytest.mark.clients("mariadb")
@pytest.mark.usefixtures("shop")
def test_a_dump_of_mariadb_is_audited(statediff: Call) -> None:
    with mariadb() as (port, _):
        solve = f"mariadb --protocol=tcp -h 127.0.0.1 -P {port} -u root -e"
        given = ("--before", "shop.sql", "--server", f"mysql://root@127.0.0.1:{port}")
        solution = ("--solution", f'{solve} "{SEND}" {{state.database}}')
        asked = ("lab", "audit", "--verifier", "sql:keys.sql", *given, *solution, "--each", "1")
        said = statediff(*asked, "--json")
    assert said.code == 1, said.err
    require_held_keys(said.json, "task")


@pytest.mark.usefixtures("shop")
def test_a_file_that_holds_its_keys_is_shown_with_none_broken(statediff: Call) -> None:
    for name, script in (("before", SHOP), ("after", SHOP + SEND)):
        with sqlite3.connect(f"{name}.db") as connection:
            connection.executescript(script)
    given = ("--before", "before.db", "--after", "after.db", "--each", "0")
    said = statediff("lab", "audit", "--verifier", "sql:keys.sql", *given, "--json")
    require_held_keys(said.json, "task")
    reasons = [each["why"] for each in said.json["untried"]]
    assert any("not reachable by statements" in why for why in reasons)


def test_what_refers_is_written_after_what_it_refers_to_and_goes_before_it() -> None:
    key = ForeignKey(("above",), "node", ("id",))
    fields = (Field("id", Kind.INT), Field("above", Kind.INT), Field("name", Kind.TEXT))
    node = EntityType("node", ("id",), fields, rules=Rules((key,), (("name",),)))

    def change(key: int, before: Value, after: Value, name: str = "") -> SeededChange:
        def row(above: Value) -> Row | None:
            return None if above is None else {"id": key, "above": above, "name": name or str(key)}

        return SeededChange("node", (key,), row(before), row(after))

    gone = [change(1, 0, None), change(2, 1, None), change(3, 2, None)]
    assert [each.key for each in in_order_of_keys(gone, [node])] == [(3,), (2,), (1,)]
    made = [change(3, None, 2), change(2, None, 1), change(1, None, 0)]
    assert [each.key for each in in_order_of_keys(made, [node])] == [(1,), (2,), (3,)]
    renamed = [change(5, None, 0, "same"), change(4, 0, None, "same")]
    assert [each.key for each in in_order_of_keys(renamed, [node])] == [(4,), (5,)]


@pytest.mark.slow
def test_tests_that_name_a_path_find_the_folder_there(statediff: Call, tmp_path: Path) -> None:
    at = "/statediff-app/data"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "note.txt").write_text("buy milk")
    (tmp_path / "test_done.py").write_text(
        f"def test_done():\n    assert open('{at}/upper.txt').read() == 'BUY MILK'\n"
    )
    with chdir(tmp_path):
        solve = f"sh -c 'tr a-z A-Z < {at}/note.txt > {at}/upper.txt'"
        given = ("--before", "work", "--at", at, "--solution", solve, "--each", "1", "--json")
        said = statediff("lab", "audit", "--verifier", "pytest:test_done.py", *given)
    if "no folder can be put at another path here" in said.out:
        pytest.skip("user namespaces are closed")
    found = shown(said.json, "task")
    assert found["right", "right-run"] == found["nothing done", "null-run"] == (0, 1)
    assert found["evidence removed", "state-removed"] == (0, 1)
    assert found["beside the task", "irreversible-change"][0] > 0
    assert not Path(at).parent.exists()
    assert {each.name for each in (tmp_path / "work").iterdir()} == {"note.txt"}


@pytest.mark.clients("git")
def test_harm_in_a_repository_is_made_by_git(statediff: Call, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "kept.txt").write_text("kept\n")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, "-C", str(tmp_path / "repo"), *words], check=True)
    with chdir(tmp_path):
        own = " ".join(git)
        solve = f"env -C {{state}} sh -c 'echo more > note.txt; git add -A; {own} commit -qm more'"
        given = ("--before", "repo", "--solution", solve, "--each", "0", "--holes", "holes")
        check = "git -C {state} grep -q more main -- note.txt"
        said = statediff("lab", "audit", "--verifier", check, *given, "--json")
        [hole, *_] = [each for each in said.json["wrong"] if "kept.txt" in each["sentence"]]
        assert statediff("replay", f"holes/{hole['bundle']}").code == 1


@pytest.mark.slow
def test_a_killed_audit_goes_on_and_comes_to_the_same_figures(statediff: Call, shop: Path) -> None:
    for name, script in (("before", SHOP), ("after", SHOP + SEND)):
        with sqlite3.connect(f"{name}.db") as connection:
            connection.executescript(script)
    (shop / "slow.py").write_text(
        "import os, sqlite3, sys, time\ntime.sleep(0.05)\n"
        "db = sqlite3.connect(os.environ['STATEDIFF_STATE'])\n"
        "sys.exit(db.execute('SELECT status FROM orders WHERE id = 2').fetchone() != ('sent',))\n"
    )
    tasks = [{"task": f"task {number}"} for number in range(3)]
    shared = {"verifier": f"{sys.executable} slow.py", "before": "before.db", "after": "after.db"}
    (shop / "tasks.yaml").write_text(json.dumps({**shared, "domain": "shop", "tasks": tasks}))
    asked = ("lab", "audit", "tasks.yaml", "--each", "2", "--json", "--keep")
    whole = statediff(*asked, "other", "--holes", "elsewhere")
    own = [*PROGRAM, *asked, "kept", "--holes", "holes", "-j", "2"]
    nowhere, own_environment = subprocess.DEVNULL, environment()
    process = subprocess.Popen(own, env=own_environment, stdout=nowhere, start_new_session=True)
    while not [*(shop / "kept").glob("*.json")]:
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in (shop / "kept").glob("*.json")}
    assert 0 < len(kept) < len(tasks)
    resumed = statediff(*asked, "kept", "--holes", "holes")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert (resumed.code, resumed.out) == (whole.code, whole.out)
    for wrong in resumed.json["wrong"]:
        assert (shop / "holes" / wrong["bundle"] / "manifest.json").exists()


def test_a_task_whose_process_dies_is_a_row(statediff: Call, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "ends.py").write_text("import os\n\n\ndef ends():\n    os.kill(os.getpid(), 9)\n")
    shared = {"before": "work", "solution": "touch {state}/done"}
    verifiers = {"dies": "python:ends:ends", "lives": "test -e {state}/done"}
    tasks = [{"task": name, "verifier": verifier} for name, verifier in verifiers.items()]
    (tmp_path / "tasks.yaml").write_text(json.dumps({**shared, "tasks": tasks}))
    with chdir(tmp_path):
        said = statediff("lab", "audit", "tasks.yaml", "--each", "1", "--json", "-j", "2")
    why = [each["faults"] for each in said.json["domains"]]
    assert why == [[{"task": "dies", "why": "its process was ended"}], []]
