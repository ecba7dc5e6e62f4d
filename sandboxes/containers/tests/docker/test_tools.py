"""Tools on real servers: the same agent that works on the embedded systems works on these."""

from pathlib import Path
from typing import Any

import pytest

from statediff.agents.recorder import Recorder
from statediff.agents.tools import tool_table
from statediff.capture.source import clock
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox


@pytest.mark.parametrize(
    "variant", [pytest.param(v, marks=pytest.mark.docker(v)) for v in ("postgres", "mariadb")]
)
def test_what_a_servers_own_dialect_lets_one_try_is_refused_and_bounded(
    variant: str, tmp_path: Path
) -> None:
    with EmbeddedSandbox(sandbox_pack("shop", variant), tmp_path / "work") as sandbox:
        check_database(sandbox, tmp_path)


def check_database(sandbox: EmbeddedSandbox, folder: Path) -> None:
    """Check that what the server's own dialect lets one try is refused, and bounded."""
    sandbox.reset()
    with Recorder(folder / "calls.jsonl", clock) as recorder:
        table = tool_table(sandbox.access().urls, recorder)

        def ask(tool: str, **arguments: Any) -> str:
            return table.call(f"shop_db_{tool}", arguments).text

        for statement in (
            "DELETE FROM customers", "SELECT 1; DELETE FROM customers", "COMMIT",
            "DO $$ BEGIN EXECUTE 'SET TRANSACTION READ WRITE'; DELETE FROM tags; END $$",
            "SET TRANSACTION READ WRITE", "CREATE TABLE mine (id INT)",
        ):  # fmt: skip
            ask("query", sql=statement)
        whole = ask("query", sql="SELECT count(*) AS n FROM customers")
        assert '"n": 60' in whole
        good, bad = "DELETE FROM notes", "SELECT nothing FROM nowhere"
        before = ask("query", sql="SELECT count(*) AS n FROM notes")
        assert table.call("shop_db_execute", {"statements": [good, bad]}).is_error
        assert ask("query", sql="SELECT count(*) AS n FROM notes") == before
        rows = ask("query", sql="SELECT a.id FROM customers a, customers b", max_rows=5)
        assert '"more": true' in rows
        like = ask("query", sql="SELECT count(*) AS n FROM customers WHERE email LIKE '%@%'")
        assert like == whole
        several = ["SELECT id FROM customers", "SELECT id FROM customers"]
        assert not table.call("shop_db_execute", {"statements": several}).is_error
        table.close()
