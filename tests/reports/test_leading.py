"""The finding to read first: a near miss of what is required, else the frame."""

from __future__ import annotations

from statediff.model.trace import Trace
from statediff.reports.line import trial_line
from tests.judging import item, user
from tests.traces import judged

BODY = 'require:\n  - id: named\n    create: item\n    where: it.t == "US12"\n'


def line(after: object) -> str:
    return trial_line(judged(BODY, Trace(), {}, after).bundle)


def test_the_near_miss_of_what_is_required_is_the_headline() -> None:
    said = line({"item": [item(1, 1, "Apple")]})
    assert said.startswith("named: ")
    assert said.endswith('"Apple" \u2260 "US12"')


def test_without_a_near_miss_the_frame_is_the_headline() -> None:
    assert line({"user": [user(1)]}).startswith("frame: user 1 created")
