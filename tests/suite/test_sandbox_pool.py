"""Sandboxes that a process keeps: one user each, and none is left, whatever ends the process."""

import contextlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from statediff.conformance import clock
from statediff.errors import AdapterError, SandboxError
from statediff.suite.campaign import SandboxPool
from statediff.systems.base.folders import inhabitants
from tests.cli.conftest import environment

KILLED = """
import os, subprocess, sys
from statediff.suite.campaign import POOL
with POOL.lease("shop", "embedded") as sandbox:
    # An agent in a session of its own, as the harness begins them.
    subprocess.Popen(["sleep", "600"], cwd=sandbox.agent_folder, start_new_session=True)
    print(sandbox.work.parent, flush=True)
    sys.stdin.read()
"""


def test_a_process_that_is_killed_leaves_no_sandbox_and_no_agent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], env=environment({"TMPDIR": str(tmp_path)}),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        root = process.stdout.readline().strip()
        assert Path(root).parent == tmp_path
        assert inhabitants(root)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    until = time.monotonic() + 60
    while Path(root).exists() or inhabitants(root):
        assert time.monotonic() < until, "left behind"
        time.sleep(0.05)


def test_a_sandbox_is_handed_on_unless_something_failed_in_it() -> None:
    standing = SandboxPool()
    try:
        with (
            standing.lease("shop", "embedded") as first,
            standing.lease("shop", "embedded") as beside,
        ):
            assert beside is not first
        with standing.lease("shop", "embedded") as again:
            assert again in (first, beside)
        with pytest.raises(AdapterError), standing.lease("shop", "embedded") as sound:
            raise AdapterError("the agent's own trouble")
        with pytest.raises(SandboxError), standing.lease("shop", "embedded") as broken:
            raise SandboxError("the outbox ended")
        assert broken is sound
        with standing.lease("shop", "embedded") as other:
            assert other is not broken
            assert not standing.close(), "one is leased"
        root = other.work.parent
    finally:
        assert standing.close()
    assert not root.exists()


def test_nobody_shares_a_sandbox_and_everybody_can_put_theirs_back() -> None:
    standing, lock = SandboxPool(), threading.Lock()
    taken: set[int] = set()

    def trial(_: int) -> int:
        with standing.lease("shop", "embedded") as sandbox:
            with lock:
                assert id(sandbox) not in taken
                taken.add(id(sandbox))
            sandbox.reset()
            assert sandbox.verify(clock).ok
            file = sandbox.access().urls["shop-db"].removeprefix("sqlite:///")
            with contextlib.closing(sqlite3.connect(file)) as connection, connection:
                connection.execute("DELETE FROM refunds")
                left: int = connection.execute("SELECT count(*) FROM refunds").fetchone()[0]
            with lock:
                taken.remove(id(sandbox))
        return left

    try:
        with ThreadPoolExecutor(3) as workers:
            assert list(workers.map(trial, range(12))) == [0] * 12
    finally:
        standing.close()
