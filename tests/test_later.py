"""A field that is worked out later is, to everybody who asks, like any other."""

from __future__ import annotations

import pickle
from copy import copy
from dataclasses import dataclass, replace

import pytest

from statediff.later import Later, later


@dataclass(frozen=True)
class Sum(Later):
    name: str
    total: int | None


NOW = Sum("sum", 7)


def waiting(asked):
    def work():
        asked.append(1)
        return 7

    return later(Sum("sum", None), "total", work)


def work_of(found):
    return vars(found).get("_later") or None


def test_it_is_worked_out_once_and_only_when_it_is_asked_for():
    asked: list[int] = []
    found = waiting(asked)
    assert (found.is_later("total"), found.name, asked) == (True, "sum", [])
    other = copy(found)
    assert other.is_later("total")
    assert (found.total, found.total, asked) == (7, 7, [1])
    assert not found.is_later("total")
    assert work_of(found) is None
    assert other.is_later("total")
    assert not NOW.is_later("total")


@pytest.mark.parametrize(
    "use",
    [
        lambda sum_: sum_ == NOW,
        lambda sum_: hash(sum_) == hash(NOW),
        lambda sum_: repr(sum_) == repr(NOW),
        lambda sum_: replace(sum_, name="other") == Sum("other", 7),
        lambda sum_: copy(sum_) == NOW,
        lambda sum_: pickle.loads(pickle.dumps(sum_)) == NOW,
    ],
)
def test_what_looks_at_all_fields_asks(use):
    assert use(waiting([]))


def test_what_no_object_has_is_still_missing():
    for found in (NOW, waiting([])):
        with pytest.raises(AttributeError, match="Sum has no attribute 'mean'"):
            found.mean  # noqa: B018 - asking is what is tried
