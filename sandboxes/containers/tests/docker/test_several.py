"""Trials on several real servers at once, from the command line."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from statediff_containers.engine import connect

from lab.benchmarks.crashes import GONE_SECONDS, things_of


@pytest.mark.docker("postgres")
def test_trials_at_once_have_a_server_each_and_leave_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "statediff", "run", "shop/refund-returned-order", "--json",
         "--agent", "careful", "-k", "2", "-j", "2", "--sandbox", "postgres"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    most = 0
    while process.poll() is None:
        made = connect().api.containers(filters={"label": "statediff.owner"})
        owners = [found["Labels"]["statediff.owner"] for found in made]
        most = max(most, sum(owner.startswith(f"{process.pid}-") for owner in owners))
        time.sleep(0.05)
    said = process.communicate()[0].splitlines()
    told = [json.loads(line) for line in said if line.startswith("{")]
    trials = [line for line in told if "trial" in line]
    assert [line["verdict"] for line in trials] == ["MATCH"] * 2
    assert most == 2, "one server for each worker"
    deadline = time.monotonic() + GONE_SECONDS
    while left := things_of(connect(), process.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
