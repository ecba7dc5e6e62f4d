"""An MCP client whose writes go through the gate, over standard input and output."""

import sys
from pathlib import Path

import anyio
import pytest

from gate.tests.conftest import rows

pytest.importorskip("mcp")
PROGRAM = "import sys; from statediff.cli.main import run; sys.exit(run(sys.argv[1:]))"


def test_a_client_changes_what_the_contract_allows_and_reads_why_not(
    shop: Path, keys: Path, contract: Path
) -> None:
    from mcp.client.session import ClientSession  # noqa: PLC0415 - an extra
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415 - as above

    words = [
        "gate", str(contract), "--state", f"db={shop}", "--key", str(keys / "gate.pem"),
        "--records", str(keys / "records"), "--mcp",
    ]  # fmt: skip
    given = StdioServerParameters(command=sys.executable, args=["-c", PROGRAM, *words])
    said: list[tuple[bool, str]] = []

    async def client() -> None:
        async with stdio_client(given) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            for statement in (
                "UPDATE orders SET status = 'refunded' WHERE id = 7", "DELETE FROM customer",
            ):  # fmt: skip
                found = await session.call_tool("db_execute", {"statements": [statement]})
                said.append((bool(found.is_error), found.content[0].text))  # type: ignore[union-attr]  # a text

    anyio.run(client)
    assert [is_error for is_error, _ in said] == [False, True]
    assert "denied: nothing-deleted" in said[1][1]
    assert rows(shop, "SELECT status FROM orders WHERE id = 7") == [("refunded",)]
    assert rows(shop, "SELECT count(*) FROM customer") == [(3,)]
