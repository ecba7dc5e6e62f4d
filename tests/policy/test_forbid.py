"""What a forbid clause and an authorization find, and what they say of what they cannot decide."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.model.values import Digested
from tests.judging import (
    CUT,
    FAILS,
    HIDDEN,
    HOLDS,
    UNKNOWN,
    doc,
    finding,
    item,
    judged,
    state,
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
        # What is undefined decides nothing, and says why; what waits for a value names that first.
        ("update: item, where: 'it.n > 0'", {"item": [item(1, None)]}, {"item": [item(1, 2)]},
         UNDEFINED, (UNORDERED,)),
        ("create: item, that: 'it.n > 0'", {}, {"item": [item(1, None)]}, UNDEFINED,
         (UNORDERED,)),
        ("create: item, that: 'sum(i.n for i in them) > 0'", {}, {"item": [item(1, None)]},
         UNDEFINED, ("sum over null or absent",)),
        ("create: item, where: 'it.n > 0'", {}, {"item": [item(1, None), item(2, HIDDEN)]}, OPEN,
         ("item.n after: hidden",)),
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
APPROVAL = "{approval: user, where: 'approval.role == \"manager\"'}"


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
        ("any item", "'new.n == 2'", ONE, {}, UNKNOWN, "item is absent, so it has no n"),
        ("any item", "'new.n == 2'", {}, {"item": [item(1, 2), item(2, HIDDEN)]}, UNKNOWN,
         "item.n after: hidden; needed by authorized-any-item"),
        # An approval that stood before the run; what nobody saw of others is no matter.
        ("create doc", APPROVAL, MANAGED, {**MANAGED, "doc": [doc(1)]}, HOLDS,
         "every such effect is authorized"),
        ("create doc", APPROVAL, {"user": [user(1)]}, {"user": [user(1)], "doc": [doc(1)]}, FAILS,
         'doc 1 created without authorization: "user" ≠ "manager"'),
        ("create doc", APPROVAL, {**MANAGED, "item": [item(1, HIDDEN)]},
         {**MANAGED, **ONE, "doc": [doc(1)]}, HOLDS, "every such effect is authorized"),
        ("create doc", APPROVAL, {"user": [user(1, "manager", HIDDEN)]},
         {"user": [user(1, "manager", HIDDEN)], "doc": [doc(1)]}, UNKNOWN,
         "user[1].name: hidden; needed by authorized-create-doc"),
        ("create doc", APPROVAL, {"user": [user(1, "manager"), user(2, HIDDEN)]},
         {"user": [user(1, "manager"), user(2, HIDDEN)], "doc": [doc(1)]}, HOLDS,
         "every such effect is authorized"),
        # One that may be an approval leaves it open, with what is not known of that one alone.
        ("create doc", APPROVAL, {"user": [user(1, HIDDEN)]},
         {"user": [user(1, HIDDEN)], "doc": [doc(1)]}, UNKNOWN, (ROLE, "user[1].role: hidden")),
        ("create doc", APPROVAL, {"user": [user(1, HIDDEN), user(2, "user", HIDDEN)]},
         {"user": [user(1, HIDDEN), user(2, "user", HIDDEN)], "doc": [doc(1)]}, UNKNOWN,
         (ROLE, "user[1].role: hidden")),
        # Where approvals may stand that nobody read, it is for them to say, of what was seen ...
        ("create doc", APPROVAL, state({}, {"user": CUT}), state({"doc": [doc(1)]}, {"user": CUT}),
         UNKNOWN, ("user before: cut short",)),
        ("create doc", APPROVAL, state(MANAGED, {"user": CUT}),
         state({**MANAGED, "doc": [doc(1)]}, {}), UNKNOWN,
         ("user before: cut short", "user: cut short")),
        # ... and of what was not.
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
