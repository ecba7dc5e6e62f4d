import os
import subprocess
import sys
import time

import pytest

from statediff.systems.base.waiting import Patience, pids_with

CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
COMPUTE = "import time\nt = time.monotonic() + 60\nwhile time.monotonic() < t: sum(range(1000))"
NAP = "import time\nwhile True: time.sleep(0.2)"


def ends_within(patience: Patience, seconds: float) -> str | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (why := patience.is_over()) is not None:
            return why
        time.sleep(0.05)
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("program", "is_waited_for"), [(COMPUTE, True), (NAP, False)])
def test_what_a_grandchild_computes_counts_and_a_timer_does_not(
    program: str, is_waited_for: bool
) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, program], start_new_session=True) as run:
        try:
            time.sleep(1.0)  # both have begun
            why = ends_within(Patience(lambda: [run.pid], stall_seconds=1.5), 5.0)
            assert (why is None) == is_waited_for, why
        finally:
            os.killpg(run.pid, 9)


def test_one_that_works_for_ever_has_an_end() -> None:
    patience = Patience(list, time.monotonic, stall_seconds=9.0, most_seconds=1.0)
    assert ends_within(patience, 5.0) == "it is not ready after 1 s, though it works"


def test_what_a_command_left_behind_is_found_by_its_variable() -> None:
    word = f"{os.getpid()}-{time.monotonic_ns()}"
    run = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, "STATEDIFF_TEST_WORD": word}, start_new_session=True
    )
    try:
        until = time.monotonic() + 10.0  # a program has its environment a moment after it begins
        while not (found := pids_with("STATEDIFF_TEST_WORD", word)) and time.monotonic() < until:
            time.sleep(0.05)
        assert found == [run.pid]
    finally:
        run.kill()
        run.wait()
    assert pids_with("STATEDIFF_TEST_WORD", word) == []
