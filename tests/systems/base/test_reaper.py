"""A reaper cleans up once its process is gone, whatever ended that, and at no other time."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from statediff.systems.base import reaper
from statediff.systems.base.reaper import Reaper, attempts

PATIENCE_SECONDS = 30.0
CLEANING = """
import os, time
from pathlib import Path

def clean(folder, word="cleaned"):
    place = Path(folder) / "part"
    place.write_text(f"{word} {os.getpid()} {os.getcwd()} {os.getsid(0) == os.getpid()}")
    place.rename(Path(folder) / "cleaned")

def slow(folder):
    Path(folder, "begun").touch()
    time.sleep(20)
    clean(folder)
"""
BEGIN = """
{first}
import os, sys, time
import cleaning
from statediff.systems.base.reaper import Reaper
reaper = Reaper(cleaning.{function}, sys.argv[1])
print(reaper.pid, flush=True)
{then}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "cleaning.py").write_text(CLEANING)
    return tmp_path


Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin(place: Path) -> Iterator[Begin]:
    """Starts a process that has a reaper; its first line is the reaper's number."""
    begun: list[subprocess.Popen[str]] = []

    def start(
        then: str, function: str = "clean", first: str = "", **options: Any
    ) -> "subprocess.Popen[str]":
        path = os.pathsep.join([str(place), *filter(None, sys.path)])
        script = BEGIN.format(then=then, function=function, first=first)
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(place)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path}, **options,
        )  # fmt: skip
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def said(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def await_true(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in ("Z", "X")


def open_files(pid: int) -> set[str]:
    return {each.name for each in Path(f"/proc/{pid}/fd").iterdir() if each.exists()}


def check_cleaned(place: Path, pid: int) -> None:
    await_true((place / "cleaned").exists, "nothing was cleaned")
    assert (place / "cleaned").read_text() == f"cleaned {pid} / True"
    await_true(lambda: has_ended(pid), "the reaper goes on")


WAIT = "sys.stdin.read()"


def test_it_cleans_after_a_process_that_was_killed(begin: Begin, place: Path) -> None:
    process = begin(WAIT)
    pid = said(process)
    time.sleep(0.3)
    assert not (place / "cleaned").exists()
    process.kill()
    check_cleaned(place, pid)


@pytest.mark.parametrize("then", ["", "sys.exit(3)", "raise ValueError", "os._exit(0)"])
def test_it_cleans_after_a_process_that_ended_by_itself(
    begin: Begin, place: Path, then: str
) -> None:
    process = begin(then, stderr=subprocess.DEVNULL)
    check_cleaned(place, said(process))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_strikes_the_group_leaves_it_to_clean(
    begin: Begin, place: Path, number: signal.Signals
) -> None:
    process = begin(WAIT, start_new_session=True, stderr=subprocess.DEVNULL)
    pid = said(process)
    os.killpg(process.pid, number)
    check_cleaned(place, pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_of_its_own_does_not_end_it(
    begin: Begin, place: Path, number: signal.Signals
) -> None:
    process = begin(WAIT)
    pid = said(process)
    time.sleep(0.3)  # Python has begun, and ignores what it is sent from now on
    os.kill(pid, number)
    time.sleep(0.1)
    assert not has_ended(pid)
    process.kill()
    await_true((place / "cleaned").exists, "nothing was cleaned")


def test_it_ends_and_cleans_nothing_when_it_is_released(begin: Begin, place: Path) -> None:
    process = begin("reaper.release(); reaper.release(); print(reaper.is_running())")
    pid = said(process)
    rest, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (rest.split(), process.returncode) == (["False"], 0)
    assert has_ended(pid)
    assert not (place / "cleaned").exists()


def test_a_pipe_that_is_closed_is_not_the_end_of_a_process(begin: Begin, place: Path) -> None:
    process = begin(f"os.closerange(3, 1000); print('closed', flush=True); {WAIT}")
    pid = said(process)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.5)
    assert not (place / "cleaned").exists()
    assert not has_ended(pid)
    process.kill()
    check_cleaned(place, pid)


def test_a_fork_that_lives_on_does_not_keep_it_waiting(begin: Begin, place: Path) -> None:
    process = begin("if os.fork() == 0: time.sleep(60)\nelse: os._exit(0)", start_new_session=True)
    pid = said(process)
    try:
        check_cleaned(place, pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def test_a_fork_can_neither_release_it_nor_take_it_for_its_own(begin: Begin, place: Path) -> None:
    then = (
        "if os.fork() == 0: reaper.release(); print(reaper.is_running(), flush=True); os._exit(0)\n"
        f"os.wait(); print(reaper.is_running(), flush=True); {WAIT}"
    )
    process = begin(then)
    pid = said(process)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["False\n", "True\n"]
    process.kill()
    check_cleaned(place, pid)


def test_where_there_are_no_handles_the_end_of_the_pipe_is_the_end(
    begin: Begin, place: Path
) -> None:
    process = begin(WAIT, first="import os; del os.pidfd_open")
    pid = said(process)
    assert open_files(pid) >= {"0", "1", "2"}
    time.sleep(0.3)
    assert "3" not in open_files(pid)
    assert not (place / "cleaned").exists()
    process.kill()
    check_cleaned(place, pid)


def test_a_pipeline_does_not_wait_for_it(begin: Begin, place: Path) -> None:
    reads, writes = os.pipe()
    os.set_inheritable(writes, True)
    process = begin("", function="slow", pass_fds=(writes,))
    os.close(writes)
    pid = said(process)
    assert process.stdout is not None
    assert process.stdout.read() == ""  # else this waits until it has cleaned
    assert os.read(reads, 1) == b""
    os.close(reads)
    await_true((place / "begun").exists, "it did not begin")
    assert not has_ended(pid)
    for number in (1, 2):
        assert Path(f"/proc/{pid}/fd/{number}").readlink() == Path(os.devnull)
    os.kill(pid, signal.SIGKILL)


def test_one_that_was_killed_is_seen_and_can_be_released(place: Path) -> None:
    waiting = Reaper(reaper_test_clean, str(place))
    assert waiting.is_running()
    os.kill(waiting.pid, signal.SIGKILL)
    os.waitid(os.P_PID, waiting.pid, os.WEXITED | os.WNOWAIT)
    assert not waiting.is_running()
    waiting.release()


def test_it_holds_no_file_of_this_process(place: Path) -> None:
    before = open_files(os.getpid())
    with (place / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        waiting = Reaper(reaper_test_clean, str(place))
    await_true(lambda: open_files(waiting.pid) == {"0", "1", "2", "3"}, "it holds files")
    waiting.release()
    assert open_files(os.getpid()) == before


def reaper_test_clean(place: str) -> None:
    Path(place, "cleaned").touch()


def test_a_function_that_no_other_process_can_import_is_refused() -> None:
    def inner() -> None: ...

    with pytest.raises(ValueError, match="not a function that another process can import"):
        Reaper(inner)


def test_tries_are_as_many_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "_PAUSE_SECONDS", 0.0)
    assert len(list(attempts())) == reaper.TRIES
