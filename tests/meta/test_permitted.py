"""Null fields of created rows, allow clauses that no reference needs, and what is left untried."""

from __future__ import annotations

import pytest

from statediff.meta.faults import filled_nulls
from statediff.meta.metatest import metatest, tally
from statediff.meta.mutate import Argued, MutationReport, mutate
from statediff.meta.reference import Reference
from statediff.meta.world import World
from statediff.model.values import ABSENT
from tests.judging import (
    HIDDEN,
    TYPES,
    item,
    user,
)
from tests.meta import test_mutate

BEFORE = {
    "user": [user(1), user(2, name="Bo"), user(3, role="admin", name="Cy")],
    "item": [item(1, n=5, owner=1), item(2, n=7, t="b", owner=2), item(3, n=9, owner=1)],
    "doc": [{"id": 1, "title": "x", "kind": "memo", "deleted_at": None}],
    "log": [{"what": "made", "n": 1}, {"what": "seen", "n": 2}],
}
RAISED = {**BEFORE, "item": [item(1, n=6, owner=1), *BEFORE["item"][1:]]}
RAISE = "require:\n  - {id: raised, update: item, where: 'it.id == 1', set: {n: 6}}\n"


def reference(body: str, after=RAISED, before=BEFORE, types=TYPES) -> Reference:
    return test_mutate.reference(body, after, types=types, before=before)


def survivors(found: MutationReport) -> dict[str, tuple[str, ...]]:
    return {each.id: each.fields for each in found.survivors}


def permitted(found: MutationReport) -> dict[str, tuple[str, ...]]:
    return {name: f for name, f in survivors(found).items() if name.startswith("permitted")}


def numbers(found: MutationReport) -> dict[str, int]:
    return {each.what: each.number for each in found.untried}


# ---------------------------------------------------------------- null fields of created rows

MADE = {
    **BEFORE,
    "item": [*BEFORE["item"], item(4, n=None, t=None, owner=None)],
    "doc": [*BEFORE["doc"], {"id": 2, "title": "y", "kind": None, "deleted_at": None}],
}
MAKE = """\
require:
  - {id: made, create: item, where: 'it.id == 4'}
  - {id: written, create: doc, set: {title: y}}
"""
NULLS = ", set: {n: null, t: null, owner: null}}"


def test_a_value_where_the_run_left_null_is_a_fault_of_its_own() -> None:
    found = mutate([reference(MAKE, MADE)], 0, {})
    seeded = {o.fault.target for o in found.outcomes if o.fault.operator == "filled-null"}
    assert seeded == {"item.n", "item.t", "item.owner", "doc.kind", "doc.deleted_at"}
    # A document that is created and marked as deleted is deleted as well: the frame sees that.
    assert survivors(found) == {"unsaid item": ("n", "owner", "t"), "unsaid doc": ("kind",)}
    assert "    owner: null" in next(s for s in found.survivors if s.id == "unsaid item").closing


def test_a_contract_that_says_what_is_null_leaves_nothing() -> None:
    tight = MAKE.replace("where: 'it.id == 4'}", "where: 'it.id == 4'" + NULLS)
    tight = tight.replace("set: {title: y}", "set: {title: y, kind: null}")
    assert survivors(mutate([reference(tight, MADE)], 0, {})) == {}


@pytest.mark.parametrize("seed", range(5))
def test_what_is_filled_in_is_of_the_column_and_a_reference_is_a_strangers(seed: int) -> None:
    owned = {**MADE, "item": [*MADE["item"][:3], item(4, owner=None), item(5, owner=2, n=None)]}
    body = "allow: [{create: item}, {create: doc}]\nrequire: [{id: m, create: item, count: 2}]\n"
    whole = reference(body, owned)
    found = {f.target: f.mutant for f in filled_nulls(World(whole, whole.judged(), seed))}
    assert found["item.owner"].rows("item")[(4,)]["owner"] in (1, 3)  # 2 is who item 5 is for
    assert found["item.n"].rows("item")[(5,)]["n"] in (1, 5, 7, 9)
    assert found["doc.deleted_at"].rows("doc")[(2,)]["deleted_at"]


def test_a_null_that_no_fault_fills_is_counted_with_the_reason() -> None:
    alone = {"item": [item(n, owner=None, n=1, t="a") for n in range(1, 6)]}
    body = "require: [{id: made, create: item, count: 5}]\n"
    found = mutate([reference(body, alone, {})], 0, {})
    told = {(u.what, u.why): u.number for u in found.untried}
    nulls = "null fields of created rows"
    assert told[nulls, "there is no entity to refer to"] == 3
    assert told[nulls, "of each field, 3 rows are tried"] == 2
    assert told["written values", "of each field, 3 rows are tried"] == 4


def test_a_row_that_lacks_a_column_is_seeded_like_any_other() -> None:
    lacking = [{**row, "t": ABSENT} for row in BEFORE["item"]]
    before = {**BEFORE, "item": lacking}
    after = {**BEFORE, "item": [{**lacking[0], "n": 6}, *lacking[1:]]}
    found = mutate([reference(RAISE, after, before)], 0, {})
    seeded = {o.fault.id for o in found.outcomes}
    assert {"extra-delete item", "wrong-entity item", "off-by-one item.n"} <= seeded
    assert not {name for name in seeded if name.endswith("item.t")}
    unread = [{**row, "t": HIDDEN} for row in BEFORE["item"]]
    rows = {**BEFORE, "item": [{**unread[0], "n": 6}, *unread[1:]]}
    body = f"exclude: [{{what: item.t, because: a test}}]\n{RAISE}"
    found = mutate([reference(body, rows, {**BEFORE, "item": unread})], 0, {})
    assert numbers(found)["changed entities"] == 1


# ---------------------------------------------------------------- allow clauses nobody needs

LOOKED_UP = (
    "create: item, count: 1, "
    "where: 'it.n == before.item[2].n and it.t == null and it.owner.role == \"admin\"'"
)
EITHER = (
    "update: item, fields: [t, n], "
    "where: 'it.id == 2 and new.t in [it.t, \"done\"] and (new.n == it.n or new.n == 0)'"
)


@pytest.mark.parametrize(
    ("allow", "left"),
    [
        # Nothing pinned, one thing pinned, all of it pinned.
        ("create: log", {"permitted-value a": ("n", "what"), "permitted-again a": ()}),
        ("create: log, set: {what: made}", {"permitted-value a": ("n",), "permitted-again a": ()}),
        ("create: log, set: {what: made, n: 7}, count: 1", {}),
        (LOOKED_UP, {}),
        (
            "create: item, count: 1, where: 'it.n == 3 and it.t in [\"p\"]'",
            {"permitted-value a": ("owner",)},
        ),
        # An update: of any entity, of one, with alternatives, of several fields.
        ("update: item, fields: [t]", {"permitted-value a": ("t",), "permitted-again a": ()}),
        ("update: item, fields: [t], where: 'it.id == 2'", {"permitted-value a": ("t",)}),
        (EITHER, {}),
        ("update: item, fields: [n], where: 'new.n == it.n + 1'", {"permitted-again a": ()}),
        # A deletion, a row of an association, a reference.
        ("delete: item", {"permitted-again a": ()}),
        ("delete: item, where: 'it.id == 3'", {}),
        ("link: grant, where: 'it.user == 3'", {"permitted-again a": ()}),
        ("link: item.owner, where: 'it.id == 2'", {"permitted-value a": ("owner",)}),
        ("link: item.owner, from: {owner: 2}, set: {owner: 3}", {}),
        ("unlink: item.owner", {"permitted-again a": ()}),
    ],
)
def test_an_allow_that_no_reference_needs_survives_where_it_pins_too_little(
    allow: str, left: dict[str, tuple[str, ...]]
) -> None:
    plain = mutate([reference(RAISE)], 0, {})
    assert plain.survivors == ()
    body = f"{RAISE}allow:\n  - {{id: a, {allow}}}\n"
    found = mutate([reference(body)], 0, {})
    assert permitted(found) == left
    assert found.diverged == ()
    assert "allow clauses that no reference needs" not in numbers(found)
    # Seeded at all: what the clause permits is there, and one thing of it made otherwise.
    assert found.faults > plain.faults or allow.startswith("delete: item, where")


def test_such_a_survivor_is_argued_for_by_its_fields_and_has_a_proposal() -> None:
    whole = reference(f"{RAISE}allow: [{{id: a, create: log, count: 1}}]\n")
    report = mutate([whole], 0, {})
    (found,) = [each for each in report.survivors if each.id.startswith("permitted")]
    assert found.sentence == "no reference needs `a`: any value passes in n, what"
    assert found.closing.splitlines() == [
        "forbid:",
        "  # a lets it pass: nothing else may change so",
        "  - id: no-other-log",
        "    create: log",
    ]
    for fields, is_open in ((("n",), True), (("n", "what"), False)):
        argued = {"permitted-value a": Argued("the words are the agent's own", fields)}
        left = {each.id for each in mutate([whole], 0, argued).open_survivors}
        assert ("permitted-value a" in left) is is_open


def test_an_allow_that_any_reference_needs_is_tried_by_the_faults_around_its_use() -> None:
    body = f"{RAISE}allow: [{{id: a, create: log, count: 1}}]\n"
    logged = {**RAISED, "log": [*BEFORE["log"], {"what": "made", "n": 5}]}
    found = mutate([reference(body), reference(body, logged)], 0, {})
    assert survivors(found)["unsaid log"] == ("n", "what")
    assert permitted(found) == {}


def test_an_allow_of_a_branch_is_tried_in_the_reference_that_took_it() -> None:
    body = """\
any_of:
  up:
    require: [{id: raised, update: item, where: 'it.id == 1', set: {n: 6}}]
    allow: [{id: a, create: log, count: 1}]
  down: {require: [{id: lowered, update: item, where: 'it.id == 1', set: {n: 4}}]}
"""
    assert set(permitted(mutate([reference(body)], 0, {}))) == {"permitted-value up/a"}


@pytest.mark.parametrize(
    ("allow", "why"),
    [
        ("{id: a, update: item, by: agent, fields: [t]}", "the clause asks who made the change"),
        ("{id: a, create: item, where: 'it.n == 1 and it.n == 2'}", "no change was found"),
        ("{id: a, create: user}", "no change was found"),
    ],
)
def test_an_allow_for_which_no_change_is_found_is_counted(allow: str, why: str) -> None:
    body = f"{RAISE}allow:\n  - {allow}\nforbid: [{{create: user}}]\n"
    found = mutate([reference(body)], 0, {})
    (told,) = [u for u in found.untried if u.what == "allow clauses that no reference needs"]
    assert told.number == 1
    assert told.why.startswith(why)


# ---------------------------------------------------------------- where the claim is made


def test_a_meta_test_counts_what_it_did_not_try_and_what_an_allow_permits() -> None:
    body = f"{RAISE}allow: [{{id: a, create: log, set: {{what: other}}, count: 1}}]\n"
    whole = reference(body)
    cases = metatest([whole], 0, {})
    found = tally(cases)
    assert found.caught == found.faults
    told = {u.what: u.number for u in found.untried}
    assert told["allow clauses that a run does not use"] == 1
    assert told["fields of rows left alone"] > 1
    few = tally(metatest([whole], 0, {}, sample=2))
    assert {u.what: u.number for u in few.untried}["seeded cases"] > 10
    assert tally([*cases, *cases]).faults == found.faults
    assert {u.what: u.number // 2 for u in tally([*cases, *cases]).untried} == told
