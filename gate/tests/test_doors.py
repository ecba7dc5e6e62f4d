"""The commands, the MCP server's tools, and the undo."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from statediff_gate.serving import gated_tools
from statediff_gate.undo import to_undo

from gate.tests.conftest import rows, write
from statediff.agents.recorder import Recorder
from statediff.agents.tools import ToolTable
from statediff.capture.source import clock
from statediff.cli.main import run
from statediff.evidence.package import load

AGENT = """
import os, sqlite3, sys
db = sqlite3.connect(os.environ["STATEDIFF_DB_URL"].removeprefix("sqlite:///"))
with db:
    for statement in sys.argv[1:]:
        db.execute(statement)
"""
REFUND = "UPDATE orders SET status = 'refunded' WHERE id = 7"


@pytest.fixture
def call(keys: Path, shop: Path, contract: Path, monkeypatch, capsys) -> Any:
    assert shop.exists()
    assert contract.exists()
    monkeypatch.chdir(keys)
    (keys / "agent.py").write_text(AGENT)

    def called(*words: str) -> tuple[int, list[Any]]:
        code = run([*words, "--json"] if "--" not in words else list(words))
        out = capsys.readouterr().out
        return code, [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    return called


def by_gate(call: Any, *statements: str) -> tuple[int, Any]:
    code, [said] = call(
        "gate", "contract.yaml", "--state", "db=shop.sqlite", "--key", "gate.pem", "--json",
        "--", sys.executable, "agent.py", *statements,
    )  # fmt: skip
    return code, said


def test_a_run_on_copies_is_committed_where_it_is_a_match(call, shop: Path) -> None:
    assert by_gate(call, REFUND)[0] == 0
    assert rows(shop, "SELECT status FROM orders WHERE id = 7") == [("refunded",)]


@pytest.mark.parametrize(("statement", "code"), [
    ("DELETE FROM customer WHERE id = 1", 1),
    ("UPDATE orders SET note = 'x' WHERE id = 7", 3),
    ("CREATE TABLE more (id INTEGER)", 3),
    ("PRAGMA user_version = 4", 3),
])  # fmt: skip
def test_every_other_run_leaves_the_system_as_it_was(call, shop, statement: str, code: int) -> None:
    before = shop.read_bytes()
    assert by_gate(call, statement)[0] == code
    assert shop.read_bytes() == before


def test_a_hold_is_listed_shown_approved_and_committed_by_commands(call, shop: Path) -> None:
    code, said = by_gate(call, REFUND, "INSERT INTO orders (status) VALUES ('new')")
    assert code == 3
    assert [each["name"] for each in call("hold", "list", "--records", ".statediff/gate")[1]] == [
        said["record"]
    ]
    [shown] = call("hold", "show", said["record"])[1]
    assert {each["op"] for each in shown["changes"]} == {"update", "create"}
    assert call("approve", said["record"], "--key", "ada.pem")[0] == 0
    commit = (
        "hold", "commit", said["record"], "contract.yaml", "--approval", "approval.json",
        "--trust", "trust.json", "--state", "db=shop.sqlite", "--key", "gate.pem",
    )  # fmt: skip
    assert call(*commit)[0] == 0
    assert rows(shop, "SELECT status FROM orders ORDER BY id") == [
        ("refunded",),
        ("paid",),
        ("new",),
    ]
    assert call(*commit)[0] != 0
    assert call("approve", said["record"], "--key", "ada.pem")[0] == 2
    assert call("approve", "../../etc/passwd", "--key", "ada.pem")[0] == 2


def test_tools_of_a_client_write_through_the_gate(opened, shop: Path) -> None:
    with opened() as gate, Recorder(None, clock) as recorder:
        table = ToolTable(gated_tools(gate), recorder)
        read = table.call("db_query", {"sql": "SELECT name FROM customer WHERE id = 1"})
        wrote = table.call("db_execute", {"statements": [REFUND]})
        denied = table.call("db_execute", {"statements": ["DELETE FROM customer"]})
        hidden = table.call("db_query", {"sql": "DELETE FROM customer"})
        table.close()
    assert "Ada" in read.text
    assert [each.is_error for each in (read, wrote, denied)] == [False, False, True]
    assert "denied: nothing-deleted" in denied.text
    assert not hidden.text.startswith("committed")
    assert rows(shop, "SELECT count(*) FROM customer") == [(3,)]


# ---------------------------------------------------------------- undo


@pytest.fixture
def harmed(call: Any, shop: Path, keys: Path) -> Path:
    """The bundle of a run that did what it should, and harm of three kinds."""
    before = keys / "before.sqlite"
    before.write_bytes(shop.read_bytes())
    write(
        shop, REFUND, "DELETE FROM customer WHERE id = 17",
        "UPDATE orders SET cents = 1, note = 'x' WHERE id = 8",
        "INSERT INTO customer VALUES (3, 'Eve')",
    )  # fmt: skip
    states = ("--before", "db=before.sqlite", "--after", "db=shop.sqlite")
    assert call("judge", "contract.yaml", *states, "--out", "bundle")[0] == 1
    return keys / "bundle"


def test_harm_is_undone_and_what_is_right_stays(call, harmed: Path, shop: Path) -> None:
    assert len(to_undo(load(harmed))) == 4
    before = shop.read_bytes()
    assert call("undo", "bundle", "--state", "db=shop.sqlite", "--plan")[0] == 0
    assert shop.read_bytes() == before
    assert call("undo", "bundle", "--state", "db=shop.sqlite")[0] == 0
    states = ("--before", "db=before.sqlite", "--after", "db=shop.sqlite")
    assert call("judge", "contract.yaml", *states, "--out", "again")[0] == 0


@pytest.mark.parametrize("since", [
    "UPDATE orders SET cents = 2 WHERE id = 8",
    "INSERT INTO customer VALUES (17, 'another')",
    "UPDATE customer SET name = 'theirs' WHERE id = 3",
    "CREATE TRIGGER t AFTER INSERT ON customer BEGIN INSERT INTO log VALUES ('more'); END",
])  # fmt: skip
def test_an_undo_that_would_do_other_than_its_plan_does_nothing(
    call, harmed: Path, shop: Path, since: str
) -> None:
    assert harmed.exists()
    write(shop, since)
    before = shop.read_bytes()
    code, said = call("undo", "bundle", "--state", "db=shop.sqlite")
    assert code == 1
    assert said[-1]["why"]
    assert shop.read_bytes() == before


def test_a_bundle_that_was_changed_undoes_nothing(call, harmed: Path) -> None:
    path = harmed / "fragments.json"
    path.write_bytes(path.read_bytes().replace(b"Cy", b"Cz"))
    assert call("undo", "bundle", "--state", "db=shop.sqlite")[0] not in (0, 1)
