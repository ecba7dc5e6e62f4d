"""The tests of Inspect AI have a process of their own: it changes the asyncio of all of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def test_inspect_runs_contracts_and_keeps_their_verdicts() -> None:
    pytest.importorskip("inspect_ai")
    tests = CHECKOUT / "tests" / "integrations" / "inspect_runs.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", str(tests)], cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTEST_ADDOPTS": ""},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout
