"""Jobs on several sandboxes at once: told in order, each alone in its sandbox, ended together."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from statediff.packs import sandbox_pack
from statediff.sandbox.embedded import EmbeddedSandbox
from statediff.sandbox.pool import SandboxPool
from statediff.suite.workers import Job, in_order

Pools = dict[str, SandboxPool[EmbeddedSandbox]]


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[Pools]:
    with SandboxPool(
        lambda folder: EmbeddedSandbox(sandbox_pack("shop"), folder), 2, tmp_path
    ) as pool:
        yield {"shop": pool}


def nothing() -> None:
    pass


def test_results_stand_in_the_order_of_the_jobs_however_long_each_takes(pools: Pools) -> None:
    def work(number: int) -> int:
        time.sleep(0.2 if number == 0 else 0.0)
        return number

    jobs = [Job("shop", lambda _, n=n: work(n)) for n in range(8)]  # type: ignore[misc]
    assert list(in_order(jobs, pools, 2, nothing)) == list(range(8))


def test_two_workers_are_at_work_at_once_and_never_in_one_sandbox(pools: Pools) -> None:
    meeting = threading.Barrier(2, timeout=20)

    def work(sandbox: EmbeddedSandbox) -> Path:
        meeting.wait()
        return sandbox.work

    places = list(in_order([Job("shop", work)] * 6, pools, 2, nothing))
    assert len(set(places)) == 2


def test_whoever_stops_listening_ends_the_jobs_that_run_and_begins_no_other(pools: Pools) -> None:
    halted, begun = threading.Event(), []

    def work(_: EmbeddedSandbox) -> int:
        begun.append(1)
        if len(begun) > 1:
            assert halted.wait(20)
        return len(begun)

    results = in_order([Job("shop", work)] * 9, pools, 2, halted.set)
    next(results)
    results.close()  # type: ignore[attr-defined]  # a generator
    assert halted.is_set()
    assert len(begun) <= 4


def test_after_an_interrupt_what_was_done_is_told_and_the_interrupt_goes_on(pools: Pools) -> None:
    done = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert done.wait(20)
            raise KeyboardInterrupt
        done.set()
        return number

    jobs = [Job("shop", lambda _, n=n: work(n)) for n in range(2)]  # type: ignore[misc]
    results = in_order(jobs, pools, 2, nothing)
    assert next(results) == 1
    with pytest.raises(KeyboardInterrupt):
        next(results)


def test_what_a_job_raises_is_raised_in_its_place(pools: Pools) -> None:
    def fail(_: EmbeddedSandbox) -> int:
        raise ZeroDivisionError

    results = in_order([Job("shop", lambda _: 1), Job("shop", fail)], pools, 2, nothing)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
