"""The commands, the MCP server's tools, and the undo."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from gate.tests.conftest import approve_and_commit, rows
from statediff.cli.main import run

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
    name, state = said["record"], "db=shop.sqlite"
    assert approve_and_commit(name, state, "contract.yaml", ".statediff/gate") == 0
    assert rows(shop, "SELECT status FROM orders ORDER BY id")[::2] == [("refunded",), ("new",)]
    given = ("--approval", f"{name}.json", "--trust", "trust.json", "--state", state)
    assert call("hold", "commit", name, "contract.yaml", *given, "--key", "gate.pem")[0] != 0
    assert call("approve", name, "--key", "ada.pem", "--out", f"{name}.json")[0] == 2
    assert call("approve", "../../etc/passwd", "--key", "ada.pem")[0] == 2


PROGRAM = "import sys; from statediff.cli.main import run; sys.exit(run(sys.argv[1:]))"


def test_a_client_changes_what_the_contract_allows_and_reads_why_not(
    shop: Path, keys: Path, contract: Path
) -> None:
    pytest.importorskip("mcp")
    from mcp.client.session import ClientSession  # noqa: PLC0415 - an extra
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415 - as above

    words = [
        "gate", str(contract), "--state", f"db={shop}", "--key", str(keys / "gate.pem"),
        "--records", str(keys / "records"), "--mcp",
    ]  # fmt: skip
    at = StdioServerParameters(command=sys.executable, args=["-c", PROGRAM, *words])
    said: list[tuple[bool, str]] = []

    async def client() -> None:
        async with stdio_client(at) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            for tool, given in (
                ("execute", {"statements": ["UPDATE orders SET status = 'refunded' WHERE id = 7"]}),
                ("execute", {"statements": ["DELETE FROM customer"]}),
                ("query", {"sql": "SELECT name FROM customer WHERE id = 1"}),
                ("query", {"sql": "DELETE FROM customer"}),
            ):
                found = await session.call_tool(f"db_{tool}", given)
                said.append((bool(found.is_error), found.content[0].text))  # type: ignore[union-attr]  # a text

    anyio.run(client)
    assert [is_error for is_error, _ in said[:3]] == [False, True, False]
    assert "Ada" in said[2][1]
    assert not said[3][1].startswith("committed")
    assert "denied: nothing-deleted" in said[1][1]
    assert rows(shop, "SELECT status FROM orders WHERE id = 7") == [("refunded",)]
    assert rows(shop, "SELECT count(*) FROM customer") == [(3,)]
