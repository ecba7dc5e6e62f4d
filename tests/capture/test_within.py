"""A run's writes are read for so long, and no longer; they are then unobserved, by the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from statediff.capture import within
from statediff.capture.take import take
from statediff.capture.within import OutOfTime, in_time, readings_within
from statediff.model.state import MemoryChunks
from statediff.systems.tables.source import TablesSource

FEW = json.dumps({"user": [{"id": 1}]}).encode()
MANY = json.dumps({"user": [{"id": n, "t": [n] * 20} for n in range(60_000)]}).encode()


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    monkeypatch.setattr(within, "LEAST_SECONDS", 0.1)
    monkeypatch.setattr(within, "LOOK_SECONDS", 0.02)


def clock() -> datetime:
    return datetime(2024, 5, 1, 12, tzinfo=UTC)


def read(before: bytes, after: bytes):
    first = take([TablesSource("db", before)], MemoryChunks(), clock, None, "before")
    with readings_within(0.1):
        return take(
            [TablesSource("db", after, companion=before, is_after=True)],
            MemoryChunks(),
            clock,
            first,
            "after",
        )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_run_makes_too_slow_to_read_is_unobserved_by_the_run():
    [part] = read(FEW, MANY).parts
    [(_, row)] = part.state.tables["source.db"].rows()
    assert row["problem"].startswith(
        "it takes more than 0 s of the processor to read, and took 0.0"
    )
    assert not part.state.tables["user"].enumeration.is_complete


def test_what_was_as_slow_before_the_run_is_read():
    [part] = read(MANY, MANY).parts
    assert part.state.tables["user"].enumeration.is_complete


def stubborn() -> None:
    """Run on, ended by no error of a kind that programs expect."""
    while True:
        with suppress(Exception):  # as libraries do
            sum(range(1000))


@pytest.mark.parametrize("times", [1, 2])
def test_a_step_that_takes_every_error_for_its_own_ends(times: int) -> None:
    for _ in range(times):
        with readings_within(0.1), pytest.raises(OutOfTime):
            in_time(stubborn)
    assert in_time(lambda: sum(range(1_000_000))) == 499999500000


def test_only_the_time_of_the_processor_counts() -> None:
    with readings_within(0.1):
        assert in_time(lambda: time.sleep(0.5)) is None


def test_a_forked_process_is_watched_too() -> None:
    def in_child() -> None:
        child = os.fork()
        if child == 0:
            try:
                in_time(stubborn)
            except OutOfTime:
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

    with readings_within(0.1):
        in_time(in_child)


def test_a_traced_program_reads_as_any_other() -> None:
    """One that measures coverage, or a debugger: it went round in a circle at the next call."""
    asked = (
        "import sys\n"
        "from statediff.capture.within import in_time\n"
        "sys.setprofile(lambda *_: None)\n"
        "for _ in range(3):\n"
        "    in_time(lambda: sum(range(10)))\n"
        "(lambda: None)()\n"
    )
    subprocess.run([sys.executable, "-c", asked], check=True, timeout=60)
