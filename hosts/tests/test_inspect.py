"""The tests of Inspect AI have a process of their own: it changes the asyncio of all of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import CHECKOUT, blocks, check, put_programs


@pytest.mark.slow
def test_inspect_runs_contracts_and_keeps_their_verdicts() -> None:
    pytest.importorskip("inspect_ai")
    tests = CHECKOUT / "hosts" / "tests" / "inspect_runs.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", str(tests)], cwd=CHECKOUT,
        check=False, capture_output=True, text=True,
        env=os.environ
        | {"PYTHONPATH": str(CHECKOUT), "PYTEST_ADDOPTS": "", "STATEDIFF_PART": "1/1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 passed" in done.stdout


@pytest.mark.slow
def test_the_example_of_any_sandbox_prints_what_is_shown(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    shutil.copytree(CHECKOUT / "docs/examples/hosts/inspect", tmp_path, dirs_exist_ok=True)
    put_programs(tmp_path, {"python": "-B -W ignore"})
    [text] = [text for kind, _, text in blocks(CHECKOUT / "docs/inspect.md") if kind == "console"]
    check(text, tmp_path)
