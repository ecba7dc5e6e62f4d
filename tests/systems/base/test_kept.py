"""The states that a server keeps of those it was in, and where that ends."""

from __future__ import annotations

import json

import pytest

from statediff.systems.base import kept
from statediff.systems.base.kept import KeptStates

FIRST, SECOND = json.dumps({"a": 1}).encode(), json.dumps({"a": 2}).encode()


def test_a_state_is_kept_once_and_only_if_it_is_another() -> None:
    states = KeptStates(7, FIRST)
    for each in (FIRST, SECOND, SECOND, FIRST):
        states.keep(each)
    answer = states.answer(0, FIRST)
    assert [state for _, state in answer["states"]] == [{"a": 2}, {"a": 1}]
    assert (answer["server"], answer["count"], answer["gap"]) == (7, 2, None)
    assert len(states.answer(1, FIRST)["states"]) == 1


def test_what_no_request_left_is_a_gap() -> None:
    states = KeptStates(7, FIRST)
    assert states.answer(0, SECOND)["gap"] == "it was changed between two requests"


@pytest.mark.parametrize("bound", [("MAX_KEPT", 1), ("MAX_KEPT_BYTES", 10)])
def test_more_than_is_kept_is_a_gap(
    monkeypatch: pytest.MonkeyPatch, bound: tuple[str, int]
) -> None:
    monkeypatch.setattr(kept, *bound)
    states = KeptStates(7, FIRST)
    states.keep(SECOND)
    assert states.gap is None
    states.keep(FIRST)
    assert "more than" in (states.gap or "")
    assert len(states.answer(0, FIRST)["states"]) == 1
