"""Episodes on workers: told as they end, tried again where that helps, ended together."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from statediff.errors import UsageError
from statediff.suite.campaign import CampaignRules, Workers, carry_out, in_this_process, processes


def rules(play: Callable[[Any], Any], **more: Any) -> CampaignRules[Any, Any]:
    return CampaignRules(play, lambda episode, _: ("lost", episode), lambda _, __: None, **more)


def nothing() -> None:
    pass


def with_pid(number: int) -> tuple[int, int]:
    time.sleep(0.05)
    return number, os.getpid()


def dies_at_first(marker: Path) -> str:
    """The first process that is at it is killed."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return "done"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def begins_and_waits(marker: Path) -> None:
    marker.touch()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        marker.with_suffix(".ended").touch()
        raise


def test_every_episode_has_an_outcome_whoever_made_it() -> None:
    with processes(2) as workers:
        found = list(carry_out(range(12), workers, rules(with_pid)))
    assert sorted(number for number, _ in found) == list(range(12))
    assert len({pid for _, pid in found}) == 2
    assert os.getpid() not in {pid for _, pid in found}


def test_a_worker_that_is_killed_costs_one_attempt_at_its_episode_and_no_other(
    tmp_path: Path,
) -> None:
    again: list[Any] = []

    def repeat(episode: Any, outcome: Any) -> Any:
        if isinstance(outcome, tuple) and not again:
            again.append(episode)
            return episode
        return None

    rule = CampaignRules(dies_at_first, lambda episode, _: ("lost", episode), repeat)
    with processes(2) as workers:
        episodes = [tmp_path / "a", tmp_path / "a", tmp_path / "b"]
        (tmp_path / "b").touch()
        found = list(carry_out(episodes, workers, rule))
    assert found == ["done"] * 3
    assert again == [tmp_path / "a"]


def test_what_runs_in_a_process_is_ended_in_order_by_an_interrupt(tmp_path: Path) -> None:
    marker = tmp_path / "begun"

    def looked() -> None:
        if marker.exists():
            raise KeyboardInterrupt

    with processes(1) as workers:
        results = carry_out([marker, marker], workers, rules(begins_and_waits, looked=looked))
        with pytest.raises(KeyboardInterrupt):
            next(results)
    assert marker.with_suffix(".ended").exists()


@pytest.fixture
def two() -> Iterator[tuple[Workers, threading.Event]]:
    halted = threading.Event()
    with in_this_process(2, halted.set) as workers:
        yield workers, halted


def test_no_more_are_handed_over_than_there_is_room_for(
    two: tuple[Workers, threading.Event],
) -> None:
    drawn: list[int] = []

    def episodes() -> Iterator[int]:
        for number in range(9):
            drawn.append(number)
            yield number

    results = carry_out(episodes(), two[0], rules(lambda n: n))
    next(results)
    assert len(drawn) <= 4
    assert len(list(results)) == 8


def test_whoever_stops_listening_ends_what_runs_and_begins_no_other(
    two: tuple[Workers, threading.Event],
) -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number:
            assert two[1].wait(20)
        return number

    results = carry_out(range(9), two[0], rules(work))
    next(results)
    results.close()
    assert two[1].is_set()
    assert len(begun) <= 4


def test_nothing_begins_once_it_may_not_go_on() -> None:
    made: list[int] = []
    with in_this_process(1, nothing) as workers:
        rule = rules(lambda n: made.append(n) or n, goes_on=lambda: len(made) < 3)
        assert list(carry_out(range(9), workers, rule)) == [0, 1, 2]


def test_nobody_waits_for_a_worker_once_nothing_is_left(
    two: tuple[Workers, threading.Event],
) -> None:
    # What waits for room: a trial that is to come, not one that is done.
    rooms = iter([1, 0, 0, 1])
    asked: list[int] = []

    def slots() -> int:
        asked.append(next(rooms, 0))
        assert len(asked) < 20, "it waits for ever"
        return asked[-1]

    workers = Workers(two[0].executor, slots, two[0].halt)
    assert list(carry_out([1, 2], workers, rules(lambda n: n))) == [1, 2]


def test_a_mistake_of_who_began_the_run_is_raised(two: tuple[Workers, threading.Event]) -> None:
    def refuse(number: int) -> int:
        raise UsageError(f"{number} is wrong")

    with pytest.raises(UsageError, match="1 is wrong"):
        list(carry_out([1], two[0], rules(refuse)))


def test_all_else_that_is_raised_befell_a_worker(two: tuple[Workers, threading.Event]) -> None:
    found = list(carry_out([1, 0], two[0], rules(lambda n: 1 // n)))
    assert sorted(found, key=str) == [("lost", 0), 1]
