"""Tools on real servers: the same agent that works on the embedded systems works on these."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from statediff.agents.recorder import Recorder
from statediff.agents.tools.of import tool_table
from statediff.evaluate import load_contract
from statediff.harness import TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.packs import contract_folder, sandbox_pack
from statediff.sandbox.embedded import EmbeddedSandbox
from tests.agents.tools.by_tools import TASKS, Toolsmith

WHERE = {"shop": ("postgres", "mariadb"), "repo": ("git",), "helpdesk": ("redmine",)}
CASES = [
    pytest.param(variant, [task for task in TASKS if task.startswith(pack)], id=variant,
                 marks=pytest.mark.docker(variant))
    for pack, variants in WHERE.items() for variant in variants
]  # fmt: skip


def clock() -> datetime:
    return datetime.now(UTC)


@pytest.mark.parametrize(("variant", "tasks"), CASES)
def test_every_task_is_done_by_tools_alone(variant: str, tasks: list[str], tmp_path: Path) -> None:
    pack = tasks[0].partition("/")[0]
    with EmbeddedSandbox(sandbox_pack(pack, variant), tmp_path / "work") as sandbox:
        for number, task in enumerate(tasks):
            done = run_trial(
                sandbox, load_contract(contract_folder(task).contract), Toolsmith(TASKS[task]),
                TrialPlan("t", tmp_path / f"t{number}"), clock=clock, store=MemoryChunks(),
            )  # fmt: skip
            judgement = done.evaluated.judgement
            found = [f.message for f in judgement.findings if f.truth.name != "HOLDS"]
            assert judgement.verdict is Verdict.MATCH, (task, found)
            assert done.observed.run.trace.gap is None
        if pack == "shop":
            check_database(sandbox, tmp_path)


def check_database(sandbox: EmbeddedSandbox, folder: Path) -> None:
    """What the server's own dialect lets one try is refused, and bounded."""
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
