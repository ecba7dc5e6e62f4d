"""The frame over a history that is required: each transaction's changes, and what explains them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.histories import course
from tests.judging import (
    CUT,
    FAILS,
    HOLDS,
    ITEM,
    TIMELINE,
    UNKNOWN,
    USER,
    capture,
    item,
    part,
    run,
    state,
    truths,
    user,
)

HISTORY = "evidence: {db: {history: required}}\n"
FRAME = "forbid: [{id: x, delete: user}]\n" + HISTORY
NONE: Any = {"user": [user(1)], "item": [item(1)]}
COMES = "allow: [{create: user}, {delete: user}]\n"
DERIVED = "derive: [{id: d, field: item.n, is: 'count(u for u in after.user)', because: kept}]\n"


def counted(users: int, n: int) -> Any:
    """So many users, and an item that says how many."""
    return {"user": [user(each) for each in range(1, users + 1)], "item": [item(1, n)]}


def framed(body: str, *states: Any) -> Any:
    done = course(FRAME + body, states[0], states[1:-1], states[-1]).judgement
    return [f for f in done.findings if f.clause == "frame"]


def test_a_transaction_is_explained_by_what_the_system_keeps_and_by_the_net_change_alone() -> None:
    one, two, late = counted(1, 1), counted(2, 2), counted(2, 1)
    held = framed(DERIVED + COMES, one, two, one)
    assert [(f.truth, f.sentence) for f in held] == [
        (HOLDS, "all 0 changes are explained"), (HOLDS, "all transactions are explained"),
    ]  # fmt: skip
    assert {f.truth for f in framed(DERIVED + COMES, one, late, two)} == {HOLDS}
    # What was made, undone and made again was undone by nobody's leave.
    made = {**NONE, "item": [item(1), item(2)]}
    allowed = "allow: [{create: item}]\n"
    assert [f.truth for f in framed(allowed, NONE, made)] == [HOLDS, HOLDS]
    assert [f.sentence for f in framed(allowed, NONE, made, NONE, made)] == [
        "in transaction 2 of db (position 20): item 2 deleted"
    ]


@pytest.mark.parametrize(
    ("states", "wrong"),
    [
        # It moved and moved back, while nothing moved that it is derived from.
        ([(1, 1), (1, 0), (1, 1)], [1]),
        ([(1, 1), (2, 2), (2, 9), (2, 2)], [2]),
        # It was another than its expression before, and moved as that did, or as that did not.
        ([(1, 5), (2, 6), (1, 5)], []),
        ([(1, 5), (1, 6), (1, 5)], [1]),
        # The system writes it a transaction later, or earlier; in between it is none of both.
        ([(1, 1), (2, 1), (2, 2), (1, 2), (1, 1)], []),
        ([(1, 1), (1, 2), (2, 2), (2, 1), (1, 1)], []),
        ([(1, 1), (1, 2), (3, 2), (1, 3), (1, 1)], [1]),
    ],
)
def test_a_derived_field_shows_in_each_transaction_what_its_expression_is_at_some_moment(
    states: list[tuple[int, int]], wrong: list[int]
) -> None:
    found = framed(DERIVED + COMES, *(counted(*each) for each in states))
    places = [f.sentence.partition(" (")[0] for f in found if f.truth is FAILS]
    assert places == [f"in transaction {number} of db" for number in wrong]


def test_a_derived_field_whose_expression_is_not_known_at_a_moment_is_not_held_against_it() -> None:
    one, other = counted(1, 1), counted(1, 7)
    unseen = state(other, {"user": CUT})
    found = framed(DERIVED + COMES, one, unseen, one)
    assert not any("item" in f.sentence and f.truth is FAILS for f in found)


def test_a_transaction_brings_a_net_change_of_a_field_by_its_very_value() -> None:
    # `that` reads what the items had been: it is true of both together, and of neither alone.
    body = "allow:\n  - {update: item, fields: [n], that: 'sum(i.n for i in them) == 3'}\n"
    start, half, other, end = (
        {**NONE, "item": [item(1, a), item(2, b)]} for a, b in ((2, 1), (1, 1), (True, 1), (1, 8))
    )
    assert {f.truth for f in framed(body, start, half, end)} == {HOLDS}
    assert {f.truth for f in framed(body, start, other, end)} == {FAILS}


LOST = {**NONE, "item": [item(1), item(2)]}


@pytest.mark.parametrize(
    ("body", "states", "found"),
    [
        # A change that nothing explains at the end is unexplained where it was made, too.
        ("", [NONE, LOST], [(FAILS, "item 2 created"),
                            (FAILS, "in transaction 1 of db (position 10): item 2 created")]),
        # Of what fails and what is open that which fails is told, each by its transaction.
        ("allow: [{update: item, fields: [n]}]\n",
         [NONE, state(NONE, {"item": CUT}), LOST, NONE],
         [(FAILS, "in transaction 3 of db (position 30): item 2 deleted")]),
        ("allow: [{update: item, fields: [n]}]\n", [NONE, state(NONE, {"item": CUT}), NONE],
         [(UNKNOWN, "in transaction 1 of db (position 10): item: cut short; needed by frame")]),
    ],
)  # fmt: skip
def test_what_each_transaction_changed_is_found_by_its_place(
    body: str, states: list[Any], found: list[Any]
) -> None:
    assert [(f.truth, f.sentence) for f in framed(body, *states)] == found


def test_an_open_frame_still_waits_for_one_history_among_sources_that_need_none() -> None:
    body = (
        "frame: {open: others work here}\nforbid: [{id: f, delete: user}]\n"
        "evidence: {a: {history: required}, b: {max_age: 1h}}\n"
    )
    items = state({"item": [item(1)]}, types=[ITEM], source="a")
    users = state({"user": [user(1)]}, types=[USER], source="b")
    sides = [
        capture(moment, part(moment, items, "a"), part(moment, users, "b"))
        for moment in ("before", "after")
    ]
    judgement = run(body, *sides, timeline=TIMELINE).judgement
    assert truths(judgement) == {"f": HOLDS, "frame": UNKNOWN}
    (found,) = [f for f in judgement.findings if f.clause == "frame"]
    assert found.missing == ("no history: a: no change feed was attached",)
