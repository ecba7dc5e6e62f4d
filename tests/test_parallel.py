"""Work by several processes: the same as by one, in order, and stoppable between pieces."""

import importlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.parallel import Inline, Processes, Start, as_done, in_order, work_through

PROGRAM = """
import sys
from functools import partial
from pathlib import Path
from statediff.parallel import work_through
from tests.test_parallel import leave_marks

if __name__ == "__main__":
    work_through(partial(leave_marks, Path(sys.argv[1])), range(9), 2, lambda *_: None)
"""


def double(number: int) -> tuple[int, int]:
    return 2 * number, os.getpid()


def interrupt_at_two(number: int) -> int:
    if number == 2:
        raise KeyboardInterrupt
    return number


def die_at_two(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leave_marks(folder: Path, number: int) -> None:
    (folder / f"{number} begun").touch()
    time.sleep(3)
    (folder / f"{number} ended").touch()


def wait_to_be_asked(folder: Path) -> None:
    (folder / "begun").touch()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        (folder / "ended").touch()
        raise


def sleep_and_give(number: int) -> int:
    time.sleep(1)
    return number


def close(folder: Path) -> None:
    (folder / "closed").touch()


def await_marks(folder: Path, number: int, kind: str) -> None:
    until = time.monotonic() + 60
    while len(marks(folder, kind)) < number:
        assert time.monotonic() < until
        time.sleep(0.02)


def marks(folder: Path, kind: str) -> set[str]:
    return {path.name.split()[0] for path in folder.glob(f"*{kind}")}


@given(st.lists(st.integers()), st.integers(0, 5))
def test_pieces_come_back_in_order_and_few_are_drawn_ahead(pieces: list[int], ahead: int) -> None:
    drawn: list[int] = []

    def drawing():
        for piece in pieces:
            drawn.append(piece)
            yield piece

    for at, done in enumerate(in_order(Inline(), ahead, str, drawing())):
        assert done == str(pieces[at])
        assert len(drawn) <= at + ahead + 1
    assert drawn == pieces


@given(st.lists(st.integers()), st.integers(1, 5))
def test_each_piece_is_done_once_and_comes_with_its_place(pieces: list[int], number: int) -> None:
    found = list(as_done(Inline(), number, str, pieces))
    assert sorted(found) == [(at, str(piece)) for at, piece in enumerate(pieces)]


def test_pieces_come_back_in_order_whichever_process_did_them() -> None:
    heard: list[int] = []
    done = work_through(double, range(7), 2, lambda piece, _: heard.append(piece))
    assert [number for number, _ in done] == [0, 2, 4, 6, 8, 10, 12]
    assert sorted(heard) == list(range(7))
    assert os.getpid() not in {process for _, process in done}
    alone = work_through(double, range(7), 1, lambda *_: None)
    assert alone == [(2 * number, os.getpid()) for number in range(7)]


def test_what_was_done_before_an_interrupt_was_reported() -> None:
    heard: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        work_through(interrupt_at_two, range(5), 1, lambda piece, _: heard.append(piece))
    assert heard == [0, 1]


def test_a_process_that_dies_costs_its_call_and_the_next_call_gets_another() -> None:
    with Processes(1) as processes:
        assert processes.submit(die_at_two, 1).result() == 1
        [dead] = processes.pids()
        with pytest.raises(BrokenExecutor):
            processes.submit(die_at_two, 2).result()
        assert processes.submit(die_at_two, 3).result() == 3
        assert processes.pids() != [dead]


def test_work_on_pieces_ends_with_the_process_that_died() -> None:
    with pytest.raises(BrokenExecutor):
        work_through(die_at_two, range(4), 2, lambda *_: None)


def test_who_is_to_end_soon_is_interrupted_and_closes_what_it_keeps(tmp_path: Path) -> None:
    start = Start("forkserver", end_seconds=20, close=partial(close, tmp_path))
    processes = Processes(1, start)
    future = processes.submit(wait_to_be_asked, tmp_path)
    await_marks(tmp_path, 1, "begun")
    processes.shutdown()
    assert isinstance(future.exception(), BrokenExecutor)
    assert {path.name for path in tmp_path.iterdir()} == {"begun", "ended", "closed"}


def await_begun(processes: Processes, number: int) -> list[int]:
    until = time.monotonic() + 60
    while len(pids := processes.pids()) < number:
        assert time.monotonic() < until
        time.sleep(0.02)
    return pids


def test_whoever_waits_for_the_end_finds_each_call_done_and_no_process_left() -> None:
    processes = Processes(2)
    calls = [processes.submit(sleep_and_give, number) for number in range(2)]
    pids = await_begun(processes, 2)
    processes.shutdown(wait=True)
    assert [(call.done(), call.result()) for call in calls] == [(True, 0), (True, 1)]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_end_that_nobody_waited_for_can_be_waited_for_later() -> None:
    processes = Processes(1)
    call = processes.submit(sleep_and_give, 1)
    await_begun(processes, 1)
    processes.shutdown(wait=False)
    assert not call.done()
    processes.shutdown(wait=True)
    assert call.done()


def test_a_process_that_begins_after_its_time_is_up_is_ended_all_the_same(tmp_path: Path) -> None:
    processes = Processes(1, Start(end_seconds=0))
    call = processes.submit(wait_to_be_asked, tmp_path)
    processes.shutdown(wait=True)
    assert isinstance(call.exception(timeout=0), BrokenExecutor)


def test_nothing_begins_after_the_end_where_a_process_had_died() -> None:
    processes = Processes(1)
    with pytest.raises(BrokenExecutor):
        processes.submit(die_at_two, 2).result()
    processes.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        processes.submit(die_at_two, 1)


def begun_program(folder: Path) -> "subprocess.Popen[bytes]":
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return subprocess.Popen(
        [sys.executable, str(program), str(folder)], stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )  # fmt: skip


def test_ctrl_c_lets_the_pieces_in_hand_end_and_begins_no_other(tmp_path: Path) -> None:
    program = begun_program(tmp_path)
    await_marks(tmp_path, 2, "begun")
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to everybody
    _, err = program.communicate(timeout=60)
    assert err.count(b"Traceback") == 1
    assert err.rstrip().endswith(b"KeyboardInterrupt")
    assert marks(tmp_path, "begun") == marks(tmp_path, "ended") == {"0", "1"}


def test_processes_of_a_killed_parent_end_when_their_piece_has(tmp_path: Path) -> None:
    program = begun_program(tmp_path)
    await_marks(tmp_path, 2, "begun")
    program.kill()
    program.communicate(timeout=60)  # its standard error is theirs, too, until the last has ended
    assert marks(tmp_path, "begun") == marks(tmp_path, "ended") == {"0", "1"}


def test_a_process_that_is_started_imports_no_pandas_until_something_asks_for_it() -> None:
    """To import it takes longer than all else at the start, and the first array would do it."""
    pytest.importorskip("pandas")
    processes = Processes(1)
    try:
        assert processes.submit(rows_and_pandas, is_asked_for=False).result() == (2, False)
        assert processes.submit(rows_and_pandas, is_asked_for=True).result() == (2, True)
    finally:
        processes.shutdown()


def rows_and_pandas(*, is_asked_for: bool) -> tuple[int, bool]:
    """How many rows pyarrow says that there are, and whether pandas is imported then."""
    arrow: Any = importlib.import_module("pyarrow")
    table = arrow.table({"a": [1, 2]})
    rows = len(table.to_pandas() if is_asked_for else table)
    return rows, "pandas" in sys.modules
