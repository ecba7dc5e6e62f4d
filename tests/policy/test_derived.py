"""Derived fields: what the system itself does beside the agent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statediff.kernel import replay
from statediff.model.schema import EntityType, Field, Kind
from tests.judging import (
    CUT,
    FAILS,
    HIDDEN,
    HOLDS,
    TYPES,
    UNKNOWN,
    USER,
    doc,
    document,
    finding,
    item,
    run,
    state,
    truths,
    user,
)

# The name of a user is the number of items that the user owns, and more exotic things.
DERIVE = """
require: [{create: item, count: {min: 1}}]
derive:
  - id: kept
    field: item.n
    is: count(i for i in after.item if i.owner == it.owner)
    because: the system counts the items of an owner
"""


def trial(body: str, before: Any, after: Any, **more: Any) -> Any:
    found = run(body, before, after, **more)
    assert document(replay(found.bundle)) == document(found.judgement)
    return found.judgement


def owned(*numbers: Any) -> list[Any]:
    return [item(key, n, owner=1) for key, n in enumerate(numbers, 1)]


@pytest.mark.parametrize(
    ("before", "after", "truth", "frame"),
    [
        ((1,), (2, 2), HOLDS, HOLDS),  # equal before and after
        ((5,), (6, 2), HOLDS, HOLDS),  # wrong before, and moved as the expression
        ((5,), (2, 2), HOLDS, HOLDS),  # wrong before, put right
        ((5,), (5, 2), FAILS, HOLDS),  # wrong before, and did not move
        ((1,), (1, 2), FAILS, HOLDS),  # forgotten
        ((1,), (3, 2), FAILS, FAILS),  # moved otherwise
        ((1,), (2, 3), FAILS, HOLDS),  # the created one is wrong
        ((1,), (HIDDEN, 2), UNKNOWN, UNKNOWN),
        ((HIDDEN,), (2, 2), HOLDS, UNKNOWN),
        ((HIDDEN,), (3, 2), UNKNOWN, UNKNOWN),
        ((None,), (2, 2), HOLDS, HOLDS),
        ((None,), (None, 2), FAILS, HOLDS),
    ],
)  # fmt: skip
def test_a_derived_field_equals_its_expression_or_moved_with_it(
    before: Any, after: Any, truth: Any, frame: Any
) -> None:
    judgement = trial(DERIVE, {"item": owned(*before)}, {"item": owned(*after)})
    found = truths(judgement)
    assert (found["kept"], found["frame"]) == (truth, frame)


def test_a_derivation_explains_that_field_of_that_entity_and_nothing_else() -> None:
    before = {"item": [*owned(1), item(9, 1, owner=2)]}
    moved = {"item": [*owned(2, 2), item(9, 2, owner=2)]}
    judgement = trial(DERIVE, before, moved)
    assert judgement.explained_by[0] == ("item[1].n", ("kept",))
    assert dict(judgement.explained_by)["item[9].n"] == ()
    assert finding(judgement, "kept").code == "derived-wrong"
    assert finding(judgement, "kept").sentence == "item 9: 2 ≠ 1"
    other = {"item": [{**owned(2)[0], "t": "b"}, owned(2, 2)[1], item(9, 1, owner=2)]}
    assert finding(trial(DERIVE, before, other), "frame").deltas == ("item[1].t",)


@pytest.mark.parametrize(
    ("before", "after", "frame"),
    [(5, 1, FAILS), (None, 1, FAILS), (1, 1, HOLDS), (HIDDEN, 1, UNKNOWN)],
)
def test_where_the_expression_did_not_move_the_field_may_not(
    before: Any, after: Any, frame: Any
) -> None:
    other = [item(7, 0, owner=2)]
    judgement = trial(DERIVE, {"item": owned(before)}, {"item": [*owned(after), *other]})
    found = truths(judgement)
    assert found["frame"] is frame


def test_a_derivation_is_no_requirement_in_the_numbers() -> None:
    metrics = trial(DERIVE, {"item": owned(1)}, {"item": owned(2, 2)}).metrics
    assert (metrics.precision, metrics.recall) == (1, 1)


def test_an_entity_nobody_saw_may_be_wrong() -> None:
    judgement = trial(DERIVE, {"item": owned(1)}, state({"item": owned(2, 2)}, {"item": CUT}))
    assert truths(judgement)["kept"] is UNKNOWN


ROW_LOCAL = """
allow: [{update: item, fields: [n]}]
derive: [{id: kept, field: item.owner, is: 'it.n', because: the system copies it}]
require: [{id: some, that: '1 == 1'}]
"""


@pytest.mark.parametrize(
    ("before", "after", "truth"),
    [
        (item(1, 1, owner=1), item(1, 2, owner=2), HOLDS),
        (item(1, 1, owner=1), item(1, 2, owner=1), FAILS),
        (item(1, 1, owner=5), item(1, 1, owner=5), HOLDS),
        (item(1, 1, owner=1), item(1, HIDDEN, owner=1), UNKNOWN),
    ],
)
def test_an_expression_over_the_entity_alone_is_asked_of_what_changed(
    before: Any, after: Any, truth: Any
) -> None:
    assert truths(trial(ROW_LOCAL, {"item": [before]}, {"item": [after]}))["kept"] is truth


UNDEFINED = """
require: [{id: some, that: '1 == 1'}]
derive: [{id: kept, field: item.n, is: 'after.user[it.owner].id + 1', because: the test says so}]
allow: [{update: item, fields: [owner, t]}, {any: user}]
"""


def test_what_is_undefined_before_and_after_may_only_stay() -> None:
    lost = {"item": [item(1, 4, owner=9)]}
    assert truths(trial(UNDEFINED, lost, lost))["kept"] is HOLDS
    moved = {"item": [item(1, 4, owner=9)], "user": [user(1)]}
    assert truths(trial(UNDEFINED, lost, moved))["kept"] is HOLDS
    known = {"item": [item(1, 2, owner=1)], "user": [user(1)]}
    assert finding(trial(UNDEFINED, known, lost), "kept").code == "undefined"
    # To stay is not enough where the expression has a value now, nor is that it has none still.
    stayed = trial(UNDEFINED, lost, {"item": [item(1, 4, owner=1)], "user": [user(1)]})
    assert finding(stayed, "kept").sentence == "item 1: 4 ≠ 2"
    other = trial(UNDEFINED, lost, {"item": [item(1, 5, owner=9)]})
    assert finding(other, "kept").code == "undefined"


OTHERS = """
require: [{id: some, that: '1 == 1'}]
allow: [{any: [doc, grant, user]}]
derive: [{id: kept, field: item.n, is: '%s', because: the system keeps it}]
"""
PEOPLE = "count(u for u in after.user)"
GRANTED = "count(g for g in after.grant if g.item == it.id)"
OWNED_BY = "count(i for i in after.item if i.owner == it.id)"
VAGUE = ("item.owner after: hidden", "whether an element counts is not known")
TWO = {"item": [item(1, 0), item(2, 0)]}
GRANT = {"grant": [{"user": 1, "item": 2}]}


@pytest.mark.parametrize(
    ("expression", "before", "after", "truth", "told"),
    [
        # Nothing of the entity itself changed, only what its expression counts.
        (PEOPLE, {"item": [item(1, 0)]}, {"item": [item(1, 0)], "user": [user(1)]}, FAILS,
         "item 1: 0 ≠ 1"),
        (PEOPLE, {"item": [item(1, 0)]},
         {"item": [item(1, 0)], "user": [user(1)], "doc": [doc(1)]}, FAILS, "item 1: 0 ≠ 1"),
        (PEOPLE, {"item": [item(1, 0)]}, {"item": [item(1, 1)], "user": [user(1)]}, HOLDS, None),
        (GRANTED, TWO, {**TWO, **GRANT}, FAILS, "item 2: 0 ≠ 1"),
        (GRANTED, TWO, {"item": [item(1, 0), item(2, 1)], **GRANT}, HOLDS, None),
        (GRANTED, {**TWO, **GRANT}, TWO, HOLDS, None),  # wrong before, and right now
        # A row of which nobody saw what it is tied to may be any entity's.
        (OWNED_BY, {"user": [user(1)], "item": []}, {"user": [user(1)], "item": [
            item(1, 1, owner=1), item(2, 1, owner=HIDDEN)]}, UNKNOWN,
         VAGUE),
        # Whoever it is, there is one more than the field says.
        (OWNED_BY, {"user": [user(1)], "item": []}, {"user": [user(1)], "item": [
            item(1, 0, owner=1), item(2, 1, owner=HIDDEN)]}, FAILS,
         "item 1: 0 ≠ 1 to 2"),
        (OWNED_BY, {"item": [item(7, 0)]}, {"item": [item(7, 0), item(8, 0, owner=HIDDEN)]},
         UNKNOWN, VAGUE),
        (OWNED_BY, {"item": [item(7, 0)]}, {"item": [item(7, 0), item(8, 0, owner=7)]}, FAILS,
         "item 7: 0 ≠ 1"),
        # What was not seen may have been counted, and an entity not seen may be wrong.
        (GRANTED, TWO, state(TWO, {"grant": CUT}), UNKNOWN, ("grant after: cut short",)),
        ("it.owner", {"item": [item(1, 0, owner=0)]},
         state({"item": [item(1, 0, owner=0)]}, {"item": CUT}), UNKNOWN, ("item: cut short",)),
        ("it.owner", state({}, {"item": CUT}), {"item": [item(1, 0, owner=5)]}, UNKNOWN,
         ("item 1", "item: cut short")),
        ("after.user[it.owner].id", state({}, {"item": CUT}), {"item": [item(1, 0, owner=5)]},
         UNKNOWN, ("item: cut short", "user is absent, so it has no id")),
        ("it.owner", {"item": [item(1, 0, owner=0)]}, {"item": [item(1, HIDDEN, owner=0)]},
         UNKNOWN, ("item.n after: hidden",)),
    ],
)  # fmt: skip
def test_every_entity_whose_expression_may_have_moved_is_asked(
    expression: str, before: Any, after: Any, truth: Any, told: Any
) -> None:
    found = finding(trial(OTHERS % expression, before, after), "kept")
    assert found.truth is truth
    if truth is FAILS:
        assert found.sentence == told
        assert {row.side for row in found.witness.rows} == {"after"}
    elif truth is UNKNOWN:
        assert found.missing == told


def _owned_type(name: str) -> EntityType:
    fields = [Field(f, Kind.INT, reference="user") for f in ("owner", "author")]
    kind = Field("kind", Kind.TEXT, is_immutable=True)
    return EntityType(name, ("id",), (Field("id", Kind.INT, is_nullable=False), *fields, kind))


OWNED = (_owned_type("note"), _owned_type("talk"), USER)


def noted(key: int, owner: Any = 1, author: Any = None, kind: Any = "x") -> dict[str, Any]:
    return {"id": key, "owner": owner, "author": author, "kind": kind}


TALKS = """
require: [{id: some, that: '1 == 1'}]
allow: [{any: talk}]
derive:
  - id: kept
    field: note.author
    is: count(t for t in after.talk if t.owner == it.id)
    because: the system counts them
"""


@pytest.mark.parametrize(("owner", "truth"), [(1, FAILS), (2, HOLDS), (HIDDEN, UNKNOWN)])
def test_a_row_of_which_nobody_saw_what_it_is_tied_to_may_be_any_entitys(
    owner: Any, truth: Any
) -> None:
    before = {"note": [noted(1, author=0)]}
    after = {**before, "talk": [noted(5, owner=owner)]}
    sides = (state(side, types=OWNED) for side in (before, after))
    assert truths(trial(TALKS, *sides))["kept"] is truth


def test_a_derivation_explains_no_field_of_that_name_of_another_type() -> None:
    box = EntityType("box", ("id",), (Field("id", Kind.INT, is_nullable=False),
                                      Field("n", Kind.INT)))  # fmt: skip
    kinds = (*TYPES, box)
    before, after = (
        state({"item": [item(1, n)], "box": [{"id": 1, "n": n}]}, types=kinds) for n in (1, 2)
    )
    judgement = trial(OTHERS % "it.n + 0", before, after)
    assert truths(judgement) == {"some": HOLDS, "kept": HOLDS, "frame": FAILS}
    assert dict(judgement.explained_by) == {"box[1].n": (), "item[1].n": ("kept",)}
    # Nor where the field of the entity itself is right, and was so before.
    before, after = (
        state({"item": [item(1, 2, owner=n)], "box": [{"id": 1, "n": n}]}, types=kinds)
        for n in (1, 2)
    )
    judgement = trial(OTHERS % "it.id + 1", before, after)
    assert dict(judgement.explained_by) == {"box[1].n": (), "item[1].owner": ()}


# --- what an expression ranges over may be tied to the entity ------------------------------------

TIED = """
require: [{any: item, count: {min: 0}}]
derive:
  - id: kept
    field: item.n
    is: count(i for i in after.item if %s i.owner == it.id)
    because: the system counts them
"""
NUMBERS = st.one_of(st.integers(0, 2), st.none(), st.just(HIDDEN))
ITEMS = st.dictionaries(st.integers(1, 4), st.tuples(NUMBERS, NUMBERS), max_size=4)


@settings(max_examples=50, deadline=None)
@given(ITEMS, ITEMS)
def test_asking_only_the_entities_that_changed_rows_are_tied_to_decides_alike(
    before: dict[int, Any], after: dict[int, Any]
) -> None:
    sides = [
        {"item": [item(key, n, owner=owner) for key, (n, owner) in rows.items()]}
        for rows in (before, after)
    ]
    # A first condition that always holds: nothing says any more that rows are tied to `it`.
    tied, loose = (trial(TIED % first, *sides) for first in ("", "i.id > 0 if"))
    assert truths(tied) == truths(loose)
    assert tied.explained_by == loose.explained_by
    assert finding(tied, "kept").sentence == finding(loose, "kept").sentence
