"""Which entities a clause speaks of: by old and new fields, and as what came, went or moved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judging import CUT, FAILS, HIDDEN, HOLDS, UNKNOWN, finding, item, judged, state, user

OLD: Any = {"item": [item(1, 1), item(2, 2)]}
NEW: Any = {"item": [item(1, 5), item(2, 2)]}
ADMIN, PLAIN = {"user": [user(1, "admin")]}, {"user": [user(1)]}
GRANT: Any = {"grant": [{"user": 1, "item": 1}]}


@pytest.mark.parametrize(
    ("clause", "before", "after", "truth"),
    [
        ("update: item, where: 'it.n == 1'", OLD, NEW, FAILS),
        ("update: item, where: 'it.n == 5'", OLD, NEW, HOLDS),
        ("update: item, where: 'new.n == 5'", OLD, NEW, FAILS),
        ("update: item, from: {n: 1}, set: {n: 5}", OLD, NEW, FAILS),
        ("update: item, from: {n: 5}", OLD, NEW, HOLDS),
        ("update: item, set: {n: 1}", OLD, NEW, HOLDS),
        ("update: item, that: 'new.n == 5'", OLD, NEW, FAILS),
        ("update: item, that: 'new.n == 1'", OLD, NEW, HOLDS),
        ("delete: item, where: 'it.n == 1'", OLD, {}, FAILS),
        ("create: item, where: 'it.n == 1'", {}, OLD, FAILS),
        # A condition may read other entities, on the side that it names.
        ("update: user, where: 'any(u.role == \"admin\" for u in before.user)'", ADMIN, PLAIN,
         FAILS),
        ("update: user, where: 'any(u.role == \"admin\" for u in before.user)'", PLAIN, ADMIN,
         HOLDS),
        ("update: user, that: 'any(u.role == \"admin\" for u in after.user)'", PLAIN, ADMIN,
         FAILS),
        ("update: user, that: 'any(u.role == \"admin\" for u in after.user)'", ADMIN, PLAIN,
         HOLDS),
    ],
)  # fmt: skip
def test_it_is_the_version_that_is_judged_and_new_what_became_of_it(
    clause: str, before: Any, after: Any, truth: Any
) -> None:
    body = f"forbid:\n  - {{id: c, {clause}}}\n"
    assert finding(judged(body, before, after), "c").truth is truth


def number(crowd: str, wanted: int) -> str:
    return f"count(x for x in {crowd}) == {wanted}"


@pytest.mark.parametrize(
    ("condition", "before", "after", "truth", "told"),
    [
        (number("created.item", 2), {}, OLD, HOLDS, ()),
        (number("updated.item", 1), OLD, NEW, HOLDS, ()),
        (number("deleted.item", 2), OLD, {}, HOLDS, ()),
        (number("created.item", 0), OLD, NEW, HOLDS, ()),
        (number("linked.grant", 1), {}, GRANT, HOLDS, ()),
        (number("created.grant", 1), {}, GRANT, HOLDS, ()),
        (number("unlinked.grant", 1), GRANT, {}, HOLDS, ()),
        (number("deleted.grant", 1), GRANT, {}, HOLDS, ()),
        (number("updated.grant", 0), GRANT, {}, HOLDS, ()),
        # What went is read as it was, what came or moved as it is now.
        ("any(i.n == 5 for i in updated.item)", OLD, NEW, HOLDS, ()),
        ("all(i.n != 5 for i in updated.item)", OLD, NEW, FAILS, ("after",)),
        ("all(i.n != 1 for i in deleted.item)", OLD, {}, FAILS, ("before",)),
        ("any(i.n == 2 for i in deleted.item)", OLD, {}, HOLDS, ()),
        ("any(i.n == 2 for i in created.item)", {}, OLD, HOLDS, ()),
        # A field that nobody saw may have moved; it made no entity come or go.
        (number("updated.item", 0), OLD, {"item": [item(1, HIDDEN), item(2, 2)]}, UNKNOWN,
         ("item[1].n: hidden",)),
        (number("created.item", 0), OLD, {"item": [item(1, HIDDEN), item(2, 2)]}, HOLDS, ()),
        (number("deleted.item", 0), OLD, {"item": [item(1, HIDDEN), item(2, 2)]}, HOLDS, ()),
        (number("created.item", 0), {}, state({}, {"item": CUT}), UNKNOWN, ("item: cut short",)),
        (number("created.user", 0), {}, state({}, {"item": CUT}), HOLDS, ()),
    ],
)  # fmt: skip
def test_what_came_went_or_moved_in_the_run(
    condition: str, before: Any, after: Any, truth: Any, told: tuple[str, ...]
) -> None:
    body = f"require:\n  - {{id: c, that: '{condition}'}}\nframe: {{open: it is not asked}}\n"
    found = finding(judged(body, before, after), "c")
    assert found.truth is truth
    if truth is UNKNOWN:
        assert found.missing == told
    elif truth is FAILS:
        assert {row.side for row in found.witness.rows} == set(told)
