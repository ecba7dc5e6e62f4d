"""Long work in pieces: the same by one process or two, in order, and stoppable between pieces."""

import os

import pytest

from statediff.cli.pieces import worked


def _doubled(number: int) -> tuple[int, int]:
    return 2 * number, os.getpid()


def _refused(number: int) -> int:
    if number == 2:
        raise KeyboardInterrupt
    return number


def test_pieces_come_back_in_order_whoever_did_them() -> None:
    heard: list[int] = []
    done = worked(_doubled, range(7), 2, lambda piece, _: heard.append(piece))
    assert [number for number, _ in done] == [0, 2, 4, 6, 8, 10, 12]
    assert sorted(heard) == list(range(7))
    assert os.getpid() not in {process for _, process in done}
    alone = worked(_doubled, range(7), 1, lambda *_: None)
    assert alone == [(2 * number, os.getpid()) for number in range(7)]


def test_what_was_done_before_an_interrupt_was_told() -> None:
    heard: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        worked(_refused, range(5), 1, lambda piece, _: heard.append(piece))
    assert heard == [0, 1]
