"""Expressions are parsed in several threads at once."""

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from statediff.contract.language.fieldnames import parsed


class Garbage:
    """Its end gives another thread the turn, in the middle of whatever this one was doing."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture
def many_turns() -> Iterator[None]:
    was, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50, 5, 5)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*was)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("many_turns")
def test_threads_that_take_turns_while_they_parse_all_get_their_trees() -> None:
    text = "all(x.b == y.c + 1 for x in before.item if x.d in [1, 2, 3, (4 + 5)])"
    trees: list[str] = []

    def parse_often() -> None:
        for _ in range(300):
            [Garbage() for _ in range(20)]
            trees.append(type(parsed(text).body).__name__)

    threads = [threading.Thread(target=parse_often) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trees == ["Call"] * 2400
