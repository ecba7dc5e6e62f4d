"""Findings of a forbid clause and an authorization, and their words where they cannot decide."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.kernel import replay
from statediff.model.values import Digested
from tests.judging import (
    CUT,
    DIVERGE,
    FAILS,
    HIDDEN,
    HOLDS,
    UNKNOWN,
    doc,
    document,
    finding,
    item,
    judged,
    run,
    state,
    truths,
    user,
)

ONE: Any = {"item": [item(1)]}
TWO: Any = {"item": [item(1), item(2)]}
STORED = Digested.of("some text that stayed in the source")
UNORDERED = "null, absent or values of different kinds have no order"
FORBIDDEN, OPEN, UNDEFINED = "forbidden-change", "unobserved", "undefined"


@pytest.mark.parametrize(
    ("clause", "before", "after", "code", "told"),
    [
        ("delete: item", TWO, TWO, "holds", "no such change"),
        ("delete: item", TWO, ONE, FORBIDDEN, "item 2 deleted"),
        ("delete: item", TWO, {}, FORBIDDEN, "item 1 deleted and 1 more"),
        # As many entities as `count` says; that nothing happened is never forbidden.
        ("delete: item, count: {min: 0}", TWO, TWO, "holds", "no such change"),
        ("delete: item, count: 2", TWO, ONE, "holds", "no such change"),
        ("delete: item, count: 2", TWO, {}, FORBIDDEN, "item 1 deleted and 1 more"),
        ("update: item, count: 2", TWO, {"item": [item(1, 5), item(2, t=HIDDEN)]}, OPEN,
         ("item[2].t: hidden",)),
        ("update: item, count: 3", TWO, {"item": [item(1, 5), item(2, t=HIDDEN)]}, "holds",
         "no such change"),
        ("delete: item, count: 2", TWO, state(ONE, {"item": CUT}), OPEN,
         ("item: cut short", "item[2]: cut short")),
        # Whose it was, and whether it moved a reference, nobody can say of what nobody saw.
        ("update: item, by: agent", ONE, {"item": [item(1, HIDDEN)]}, OPEN,
         ("item[1].n: hidden",)),
        ("link: item.owner", ONE, {"item": [item(1, owner=HIDDEN)]}, OPEN,
         ("item[1].owner: hidden",)),
        ("link: item.owner", ONE, {"item": [item(1, owner=STORED)]}, OPEN,
         (f"item.owner after: {STORED.cause}",)),
        # What does not match by its fields waits for nobody's name.
        ("update: item, where: 'it.n > 5 and it.t == \"z\"', by: user", {"item": [item(1, HIDDEN)]},
         {"item": [item(1, HIDDEN, owner=1)]}, OPEN, ("item.n before: hidden",
                                                      "item[1].n: hidden")),
        # ... nor for a field that it would have to be set to.
        ("update: item, where: 'it.n > 5 and it.t == \"z\"', set: {t: c, owner: 1}",
         {"item": [item(1, HIDDEN)]}, {"item": [item(1, HIDDEN, "c", HIDDEN)]}, OPEN,
         ("item.n before: hidden", "item[1].owner: hidden")),
        # `that` about each entity picks those that are meant, `that` about all judges them all.
        ("update: item, that: 'new.n < 0'", TWO, {"item": [item(1, -1), item(2, 7)]}, FORBIDDEN,
         "item 1 n 1 → -1"),
        ("update: item, that: 'new.n < 0'", TWO, {"item": [item(1, 7), item(2, 7)]}, "holds",
         "no such change"),
        ("update: item, that: 'new.n < 0', count: 2", TWO, {"item": [item(1, -1), item(2, 7)]},
         "holds", "no such change"),
        ("create: item, that: 'sum(i.n for i in them) > 3'", {}, TWO, "holds", "no such change"),
        ("create: item, that: 'sum(i.n for i in them) > 1'", {}, TWO, FORBIDDEN,
         "item 1 created and 1 more"),
        ("create: item, that: 'sum(i.n for i in them) > 3'", {}, {"item": [item(1, HIDDEN)]},
         OPEN, ("item.n after: hidden",)),
        ("create: item, where: 'it.n == 3', that: 'it.t == \"b\"'", {},
         {"item": [item(1, HIDDEN, "b")]}, OPEN, ("item.n after: hidden",)),
        ("create: item, where: 'it.n == 3', that: 'it.t == \"b\"'", {},
         {"item": [item(1, HIDDEN, "a")]}, "holds", "no such change"),
        # What was undefined before decides nothing, and says why; a value that nobody saw first.
        ("update: item, where: 'it.n > 0'", {"item": [item(1, None)]}, {"item": [item(1, 2)]},
         UNDEFINED, (UNORDERED,)),
        ("update: item, where: 'it.n > new.n'", {"item": [item(1, None), item(2)]},
         {"item": [item(1, 2), item(2, HIDDEN)]}, OPEN, ("item[2].n: hidden",)),
        # What the run left undefined is forbidden.
        ("create: item, that: 'it.n > 0'", {}, {"item": [item(1, None)]}, FORBIDDEN,
         "item 1 created"),
        ("create: item, that: 'sum(i.n for i in them) > 0'", {}, {"item": [item(1, None)]},
         FORBIDDEN, "item 1 created"),
        ("create: item, where: 'it.n > 0'", {}, {"item": [item(1, None), item(2, HIDDEN)]},
         FORBIDDEN, "item 1 created"),
    ],
)  # fmt: skip
def test_what_a_forbid_clause_finds(
    clause: str, before: Any, after: Any, code: str, told: str | tuple[str, ...]
) -> None:
    body = f"forbid:\n  - {{id: c, {clause}}}\nallow: [{{any: item}}]\n"
    found = finding(judged(body, before, after), "c")
    truth = {"holds": HOLDS, FORBIDDEN: FAILS}.get(code, UNKNOWN)
    assert (found.code, found.truth) == (code, truth)
    assert (found.missing if truth is UNKNOWN else found.sentence) == told
    if code == UNDEFINED:
        assert found.sentence == told[0]


MANAGED: Any = {"user": [user(1, "manager")]}
ROLE = "user.role before: hidden"
NO_MANAGER = (
    "doc 1 created without authorization: "
    'the one user does not meet the condition; user 1: "user" ≠ "manager"'
)
APPROVAL = "'any(a.role == \"manager\" for a in before.user)'"


@pytest.mark.parametrize(
    ("effect", "authorized_by", "before", "after", "truth", "told"),
    [
        ("create doc", "'false'", {}, {"doc": [doc(1)]}, FAILS,
         "doc 1 created without authorization"),
        ("create doc", "'it.title == \"y\"'", {}, {"doc": [doc(1), doc(2)]}, FAILS,
         'doc 1 created and 1 more without authorization: "x" ≠ "y"'),
        ("create doc", "'it.title == \"x\"'", {}, {"doc": [doc(1)]}, HOLDS,
         "every such effect is authorized"),
        # `it` is the version that is judged, `new` what became of it; of what went there is none.
        ("any item", "'new.n == 2 and it.n == 1'", ONE, {"item": [item(1, 2)]}, HOLDS,
         "every such effect is authorized"),
        ("any item", "'new.n == 2'", ONE, {"item": [item(1, 3)]}, FAILS,
         "item 1 n 1 → 3 without authorization: 3 ≠ 2"),
        ("any item", "'new.n == 2'", ONE, {}, FAILS, "item 1 deleted without authorization"),
        ("any item", "'new.n == 2'", {}, {"item": [item(1, 2), item(2, HIDDEN)]}, UNKNOWN,
         "item.n after: hidden; needed by authorized-any-item"),
        # An approval that stood before the run; what nobody saw of others is no matter.
        ("create doc", APPROVAL, MANAGED, {**MANAGED, "doc": [doc(1)]}, HOLDS,
         "every such effect is authorized"),
        ("create doc", APPROVAL, {"user": [user(1)]}, {"user": [user(1)], "doc": [doc(1)]}, FAILS,
         NO_MANAGER),
        ("create doc", APPROVAL, {**MANAGED, "item": [item(1, HIDDEN)]},
         {**MANAGED, **ONE, "doc": [doc(1)]}, HOLDS, "every such effect is authorized"),
        ("create doc", APPROVAL, {"user": [user(1, "manager"), user(2, HIDDEN)]},
         {"user": [user(1, "manager"), user(2, HIDDEN)], "doc": [doc(1)]}, HOLDS,
         "every such effect is authorized"),
        # One that may be an approval leaves it open, with what is not known of that one alone.
        ("create doc", APPROVAL, {"user": [user(1, HIDDEN)]},
         {"user": [user(1, HIDDEN)], "doc": [doc(1)]}, UNKNOWN, (ROLE,)),
        ("create doc", APPROVAL, {"user": [user(1, HIDDEN), user(2, "user", HIDDEN)]},
         {"user": [user(1, HIDDEN), user(2, "user", HIDDEN)], "doc": [doc(1)]}, UNKNOWN,
         (ROLE,)),
        # What was undefined before the run decides nothing.
        ("create doc", "'before.user[1].role == \"manager\"'", {}, {"doc": [doc(1)]}, UNKNOWN,
         ("user is absent, so it has no role",)),
        # Where approvals may be that nobody read, they decide.
        ("create doc", APPROVAL, state({}, {"user": CUT}), state({"doc": [doc(1)]}, {"user": CUT}),
         UNKNOWN, ("user before: cut short",)),
        # One approval that was seen decides, whatever was not.
        ("create doc", APPROVAL, state(MANAGED, {"user": CUT}),
         state({**MANAGED, "doc": [doc(1)]}, {}), HOLDS, "every such effect is authorized"),
        ("create doc", APPROVAL, state({}, {"user": CUT}), state({}, {"user": CUT, "doc": CUT}),
         UNKNOWN, ("doc: cut short",)),
        ("create doc", APPROVAL, {}, state({}, {"doc": CUT}), UNKNOWN, ("doc: cut short",)),
    ],
)  # fmt: skip
def test_what_an_authorization_finds(
    effect: str,
    authorized_by: str,
    before: Any,
    after: Any,
    truth: Any,
    told: str | tuple[str, ...],
) -> None:
    body = (
        f"effects:\n  - on: {effect}\n    authorized_by: {authorized_by}\n"
        "forbid: [{create: log}]\nallow: [{any: [doc, item]}]\n"
    )
    clause = f"authorized-{effect.replace(' ', '-')}"
    found = finding(judged(body, before, after), clause)
    assert found.truth is truth
    assert (found.missing if isinstance(told, tuple) else found.sentence) == told


HELD: Any = {"user": [user(1), user(2)], "item": [item(1, owner=1), item(2), item(3, owner=9)]}


@pytest.mark.parametrize(
    ("after", "linked", "unlinked"),
    [
        ({}, False, False),
        # Rows that come and go with it.
        ({"item": [*HELD["item"], item(4, owner=2)]}, True, False),
        ({"item": [*HELD["item"], item(4)]}, False, False),
        ({"item": HELD["item"][1:]}, False, True),
        ({"item": [item(1, owner=1), item(3, owner=9)]}, False, False),
        # A reference that is set, emptied, moved, or points at nothing.
        ({"item": [item(1, owner=1), item(2, owner=2), item(3, owner=9)]}, True, False),
        ({"item": [item(1), item(2), item(3, owner=9)]}, False, True),
        ({"item": [item(1, owner=2), item(2), item(3, owner=9)]}, True, True),
        ({"item": [item(1, owner=8), item(2), item(3, owner=9)]}, True, True),
        ({"item": [item(1, 5, owner=1), item(2, 5), item(3, 5, owner=9)]}, False, False),
        # What it names came, or went.
        ({"user": [user(2)]}, False, True),
        ({"user": [user(1)]}, False, False),
        ({"user": [user(1), user(2), user(9)]}, True, False),
        ({"user": [user(1, "admin"), user(2)]}, False, False),
    ],
)  # fmt: skip
def test_a_forbidden_relation_is_a_fact_about_two_states(
    after: Any, linked: bool, unlinked: bool
) -> None:
    body = (
        "forbid:\n  - {id: linked, link: item.owner}\n  - {id: unlinked, unlink: item.owner}\n"
        "allow: [{any: [item, user]}]\n"
    )
    done = run(body, HELD, {**HELD, **after})
    found = truths(done.judgement)
    assert (found["linked"], found["unlinked"]) == tuple(
        FAILS if each else HOLDS for each in (linked, unlinked)
    )
    assert document(replay(done.bundle)) == document(done.judgement)


@pytest.mark.parametrize(
    ("clause", "before", "after", "truth"),
    [
        ("link: item.owner, where: 'it.id != 3'", HELD, state(HELD, {"user": CUT}), HOLDS),
        ("link: item.owner", HELD, state(HELD, {"user": CUT}), UNKNOWN),
        ("unlink: item.owner", HELD, state({**HELD, "user": [user(2)]}, {"user": CUT}), UNKNOWN),
        ("unlink: item.owner", HELD, state({**HELD, "user": [user(1)]}, {"user": CUT}), HOLDS),
        ("unlink: item.owner, where: 'it.id == 2'", HELD, {**HELD, "user": []}, HOLDS),
        ("link: item.owner", {"item": [item(1, owner=HIDDEN)]}, {"item": [item(1, owner=1)]},
         UNKNOWN),
        ("unlink: item.owner", HELD, {**HELD, "item": [item(1, owner=HIDDEN), *HELD["item"][1:]]},
         UNKNOWN),
    ],
)  # fmt: skip
def test_a_relation_that_nobody_saw_end_is_open(
    clause: str, before: Any, after: Any, truth: Any
) -> None:
    body = f"forbid:\n  - {{id: c, {clause}}}\nallow: [{{any: [item, user]}}]\n"
    assert truths(judged(body, before, after))["c"] is truth


def test_an_allowed_or_required_link_is_the_reference_alone() -> None:
    after = {**HELD, "item": [item(1, owner=1), item(2, 7, owner=2), item(3, owner=9)]}
    found = judged("require: [{link: item.owner}]\n", HELD, after)
    assert [f.deltas for f in found.findings if f.clause == "frame"] == [("item[2].n",)]
    made = {**HELD, "item": [*HELD["item"], item(4, owner=2)]}
    assert judged("require: [{id: r, link: item.owner}]\n", HELD, made).verdict is DIVERGE
