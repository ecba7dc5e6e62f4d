"""`contract undo`: compensations run after right agents, and what they leave is shown."""

import json
import shutil
from pathlib import Path

import pytest

from statediff.cli.main import run

CONTRACTS = Path(__file__).parents[2] / "contracts"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A copy of a task, to be changed."""
    for shared in CONTRACTS.glob("*.py"):
        shutil.copy(shared, tmp_path)
    shutil.copytree(CONTRACTS / "accounts", tmp_path / "accounts")
    folder = tmp_path / "accounts" / "request-approval"
    (folder / "released.yaml").unlink()
    return folder


def test_what_a_compensation_leaves_or_cannot_do_ends_with_one(
    task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = task / "contract.yaml"
    right = contract.read_text()
    asked = ["contract", "undo", str(contract), "--reference", "careful", "--json"]

    def undone(statement: str) -> tuple[int, dict[str, object]]:
        said = "DELETE FROM approvals WHERE id = ?"
        assert said in right
        contract.write_text(right.replace(said, statement))
        code = run(asked)
        [found] = json.loads(capsys.readouterr().out)["runs"]
        return code, found

    code, found = undone("DELETE FROM approvals WHERE id = ?")
    assert (code, found["is_undone"], found["left"]) == (0, True, [])
    code, found = undone("UPDATE approvals SET state = 'withdrawn' WHERE id = ?")
    assert (code, found["is_undone"]) == (1, False)
    assert [left for left in found["left"] if left.startswith("approval[")]  # type: ignore[attr-defined]
    code, found = undone("DELETE FROM approvls WHERE id = ?")
    assert (code, found["is_undone"]) == (1, False)
    assert "approvls" in found["calls"][0]["failed"]  # type: ignore[index]


def test_a_contract_that_undoes_nothing_is_a_mistake_of_the_caller(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["contract", "undo", "shop/correct-address"]) == 2
    assert "a compensation with arguments" in capsys.readouterr().err
