"""Which entities a clause speaks of: by old and new fields, and as what came, went or moved."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.operations import both
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, EntityRef, Result, Unknown
from statediff.contract.language.syntax import Read
from statediff.kernel.policy.matching import JudgingContext
from statediff.kernel.policy.relation import field_of
from statediff.model.delta import Doubt
from statediff.model.explanation import Reason
from statediff.model.values import ABSENT, Digested, Excluded, Observed
from statediff.model.view import StateView
from tests.explaining import result_in_words
from tests.judging import (
    CUT,
    FAILS,
    HIDDEN,
    HOLDS,
    SILENT,
    UNKNOWN,
    finding,
    item,
    judged,
    run,
    state,
    user,
)

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


def number(entity_set: str, wanted: int) -> str:
    return f"count(x for x in {entity_set}) == {wanted}"


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


OPEN = TRUE | FALSE


@pytest.mark.parametrize(
    ("one", "other", "mask"),
    [
        (TRUE, TRUE, TRUE), (TRUE, FALSE, FALSE), (TRUE, OPEN, OPEN), (TRUE, UNDEFINED, UNDEFINED),
        (FALSE, TRUE, FALSE), (FALSE, UNDEFINED, FALSE), (UNDEFINED, FALSE, UNDEFINED),
        (OPEN, TRUE, OPEN), (OPEN, FALSE, FALSE), (OPEN, UNDEFINED, FALSE | UNDEFINED),
    ],
)  # fmt: skip
def test_of_two_conditions_the_second_is_asked_only_where_the_first_may_hold(
    one: int, other: int, mask: int
) -> None:
    assert both(one, other) == mask


LONG = Digested("text", 7, "0" * 64)


def row(value: Observed) -> EntityRef:
    return EntityRef("after", "item", (1,), {"n": value})


@pytest.mark.parametrize(
    ("entity_ref", "result"),
    [
        (row(5), 5),
        (row(None), None),
        (EntityRef("after", "item", (1,), {}), ABSENT),
        (row(HIDDEN), Unknown(frozenset({"item.n after: hidden"}), True)),
        (row(Excluded("the rule")), Unknown(frozenset({"item.n after: the rule"}), True)),
        (row(LONG), Unknown(frozenset({f"item.n after: {LONG.cause}"}), False, digest=LONG)),
        (EntityRef("after", "item", (1,), None, "why"), Unknown(frozenset({"why"}))),
        (Unknown(frozenset({"what"}), maybe_null=False), Unknown(frozenset({"what"}))),
    ],
)  # fmt: skip
def test_what_is_known_of_a_field_is_its_value_or_why_there_is_none(
    entity_ref: EntityRef | Unknown, result: Result
) -> None:
    assert result_in_words(field_of(entity_ref, "n")) == result


@pytest.mark.parametrize(
    ("clause", "doubt", "mask"),
    [
        ("update: item, where: 'it.n == 1'", Doubt("item", (9,), "n", "why", "capture"), OPEN),
        ("update: item, where: 'it.n == 1'", Doubt("item", (1,), "t", "why", "capture"), TRUE),
        ("update: item, where: 'it.n == 2'", Doubt("item", (1,), "t", "why", "capture"), FALSE),
        ("update: item", Doubt("item", None, None, "why", "capture"), OPEN),
        ("any: item", Doubt("item", None, None, "why", "capture"), TRUE),
        ("any: item, where: 'exists(it)'", Doubt("item", None, None, "why", "capture"), OPEN),
        ("any: item", Doubt("user", None, None, "why", "capture"), FALSE),
    ],
)
def test_a_doubted_change_is_asked_as_every_change_that_it_can_be(
    clause: str, doubt: Doubt, mask: int
) -> None:
    (pattern,) = run(f"forbid:\n  - {{{clause}}}\n", {}, {}).contract.forbid
    assert isinstance(pattern, Pattern)
    view = StateView(state({"item": [item(1)]}))
    assert JudgingContext(view, view, (), (doubt,), SILENT).possible(pattern, doubt) == mask


def test_a_field_that_must_be_set_is_compared_only_where_the_condition_holds() -> None:
    body = "require:\n  - {id: c, create: item, where: 'it.t == \"b\"', set: {n: 2}}\n"
    found = finding(judged(body, {}, {"item": [item(1)]}), "c")
    assert found.sentence == 'no item matches, 1 required; item 1 does not: "a" ≠ "b"'


def test_an_entity_is_read_on_its_side_and_without_a_row_says_that_it_is_not_known() -> None:
    before, after = (StateView(state({"item": [item(1, n)]})) for n in (1, 2))
    context = JudgingContext(before, after, (), (), SILENT)
    for side, n in (("before", 1), ("after", 2)):
        known = context.entity_ref(side, "item", (1,))
        assert (known.side, known.row and known.row["n"], known.cause) == (side, n, "")
        unread = context.entity_ref(side, "item", (9,))
        assert (unread.side, unread.row, unread.cause) == (side, None, Reason.ROW_UNKNOWN())


def test_of_rows_only_the_key_and_the_fields_that_a_clause_names_on_a_side_are_read() -> None:
    view = StateView(state({}))
    reads = {
        Read("before", "item", "t"), Read("after", "item", "n"), Read("delta", "item", "owner"),
        Read("before", "user", "role"), Read("after", "doc", ""),
    }  # fmt: skip
    fields_of = JudgingContext(view, view, (), (), SILENT).eval_context(frozenset(reads)).fields_of
    known = {name: fields_of(name) for name in ("item", "user", "doc", "grant")}
    assert known == {
        "item": ("id", "n", "t"), "user": ("id", "role"), "doc": ("id",),
        "grant": ("user", "item"),
    }  # fmt: skip
