"""The meaning of each kind of clause, sentence by sentence of docs/design.md §3 and §4."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import ContractError
from statediff.kernel import replay
from statediff.model.delta import Op
from statediff.model.sentences import sentence
from statediff.model.verdict import Stage
from tests.judging import (
    CUT,
    DIVERGE,
    DOC,
    FAILS,
    HIDDEN,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    USER,
    doc,
    document,
    finding,
    item,
    judged,
    outcome,
    run,
    state,
    truths,
    user,
)

NOTHING: dict[str, Any] = {}


# ---------------------------------------------------------------- one sentence, one contract

ADA: dict[str, Any] = {"user": [user(1)]}
ADMIN: dict[str, Any] = {"user": [user(1, "admin")]}
ONE: dict[str, Any] = {"item": [item(1)]}
TWO: dict[str, Any] = {"item": [item(1), item(2)]}
GRANT: dict[str, Any] = {"grant": [{"user": 1, "item": 1}]}
ROW = {"what": "a", "n": 1}
UNSEEN: dict[str, Any] = {"item": [item(1, HIDDEN)]}
FOLDED = "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
THIRD = [item(3, t="b")]
ALLOWED = "forbid: [{delete: user}]\nallow:\n  - "

SENTENCES: list[tuple[str, str, list[tuple[Any, Any, Any]]]] = [
    ("a forbid clause with no least number fires at the first",
     "forbid: [{delete: user, count: {min: 0}}]\nallow: [{delete: user}]",
     [(ADA, ADA, MATCH), (ADA, NOTHING, DIVERGE)]),
    ("a forbid clause counts entities, not fields",
     "forbid: [{id: c, update: item, count: 2}]\nallow: [{update: item}]",
     [(TWO, {"item": [item(1, 5, "z"), item(2)]}, MATCH),
      (TWO, {"item": [item(1, 5), item(2, 5)]}, FAILS)]),
    ("an entity with plain and hidden changes counts once",
     FOLDED + "forbid: [{update: item, count: 2}]\nallow: [{update: item}]",
     [(ONE, {"item": [item(1, 2, "A")]}, MATCH)]),
    ("a `that` about each entity qualifies each entity where it is forbidden",
     "forbid:\n  - {update: item, that: 'new.n < 0'}\nallow: [{update: item}]",
     [(TWO, {"item": [item(1, 2), item(2)]}, MATCH),
      (TWO, {"item": [item(1, -1), item(2)]}, DIVERGE),
      (TWO, {"item": [item(1, -1), item(2, 2)]}, DIVERGE)]),
    ("a `that` over them is about all that match",
     "forbid:\n  - {create: item, that: 'sum(i.n for i in them) > 3'}\nallow: [{create: item}]",
     [(NOTHING, {"item": [item(1, 2)]}, MATCH),
      (NOTHING, {"item": [item(1, 2), item(2, 2)]}, DIVERGE)]),
    ("`that` holds of every matched entity where it is required",
     "require:\n  - {id: c, create: item, count: {min: 1}, that: 'it.n == 1'}",
     [(NOTHING, ONE, MATCH), (NOTHING, {"item": [item(1), item(2, 2)]}, "requirement-failed")]),
    ("a `that` that is undefined fails the clause",
     "require:\n  - {id: c, create: item, that: 'it.n > 0'}",
     [(NOTHING, {"item": [item(1, None)]}, "undefined")]),
    ("every means each entity before that satisfies where",
     "require:\n  - {id: c, update: item, where: 'it.t == \"a\"', set: {n: 9}, count: every}",
     [({"item": TWO["item"] + THIRD}, {"item": [item(1, 9), item(2, 9), *THIRD]}, MATCH),
      ({"item": TWO["item"] + THIRD}, {"item": [item(1, 9), item(2), *THIRD]}, FAILS),
      ({"item": TWO["item"] + THIRD}, {"item": [item(1, 9), item(2, 8), *THIRD]}, FAILS)]),
    ("every is undefined where its `where` is",
     "require:\n  - {id: c, update: item, where: 'it.n > 0', set: {n: 9}, count: every}",
     [({"item": [item(1, None)]}, NOTHING, "undefined")]),
    ("every has no new version to qualify an entity by",
     "require: [{id: c, update: item, where: 'new.n == 2', count: every}]",
     [(ONE, {"item": [item(1, 2)]}, "undefined")]),
    ("every also judges `that`",
     "require:\n  - {update: item, count: every, that: 'new.n == 9'}",
     [(ONE, {"item": [item(1, 9)]}, MATCH), (ONE, {"item": [item(1, 8)]}, DIVERGE)]),
    ("an agent cannot qualify itself by the change it makes",
     "forbid: [{delete: item}]\nallow:\n  - {update: user, where: 'it.role == \"admin\"'}",
     [(ADA, ADMIN, DIVERGE), (ADMIN, ADA, MATCH)]),
    ("`set` reads the new version and `from` the old",
     "require:\n  - {update: item, from: {n: 1}, set: {n: 2}}",
     [(ONE, {"item": [item(1, 2)]}, MATCH), ({"item": [item(1, 2)]}, ONE, DIVERGE)]),
    ("`set` may compute from the old version",
     "require:\n  - update: item\n    set:\n      n:\n        is: it.n + 1",
     [({"item": [item(1, 4)]}, {"item": [item(1, 5)]}, MATCH),
      ({"item": [item(1, 4)]}, {"item": [item(1, 6)]}, DIVERGE)]),
    ("what is created has no old values",
     "forbid: [{any: item, from: {n: 1}}]\nallow: [{any: item}]",
     [(NOTHING, ONE, MATCH), (ONE, NOTHING, DIVERGE)]),
    ("a pattern needs one selected change",
     "require: [{update: item, fields: [t]}]\nallow: [{update: item}]",
     [(ONE, {"item": [item(1, 2)]}, DIVERGE)]),
    ("soft deletion is a deletion",
     "forbid: [{id: c, delete: doc}]\nallow: [{update: doc}]",
     [({"doc": [doc(1)]}, {"doc": [doc(1, deleted_at="now")]}, FAILS)]),
    ("the undoing of a soft deletion is a creation", "require: [{create: doc}]",
     [({"doc": [doc(1, deleted_at="now")]}, {"doc": [doc(1)]}, MATCH)]),
    ("a link is a row of an association that came", "require: [{link: grant}]",
     [(NOTHING, GRANT, MATCH)]),
    ("to create that row is a link", "require: [{create: grant}]", [(NOTHING, GRANT, MATCH)]),
    ("an unlink is a row of an association that went", "require: [{unlink: grant}]",
     [(GRANT, NOTHING, MATCH)]),
    ("a link is no unlink", "forbid: [{unlink: grant}]\nallow: [{any: grant}]",
     [(NOTHING, GRANT, MATCH)]),
    ("rows without a key are counted",
     "require:\n  - {create: log, where: 'it.what == \"a\"', count: 2}",
     [({"log": [ROW]}, {"log": [ROW] * 3}, MATCH), ({"log": [ROW]}, {"log": [ROW] * 2}, DIVERGE)]),
    ("attribution is never guessed to forbid", "forbid: [{id: c, update: item, by: agent}]",
     [(ONE, {"item": [item(1, 2)]}, UNKNOWN)]),
    ("attribution is never guessed to require", "require: [{id: c, update: item, by: agent}]",
     [(ONE, {"item": [item(1, 2)]}, UNKNOWN)]),
    ("attribution is never guessed to allow", ALLOWED + "{update: item, by: agent}",
     [(ONE, {"item": [item(1, 2)]}, INCONCLUSIVE)]),
    ("an allow clause explains no more than its count", ALLOWED + "{create: item, count: 1}",
     [(NOTHING, ONE, MATCH), (NOTHING, TWO, DIVERGE)]),
    ("an allow clause explains what its `that` is true of",
     ALLOWED + "{create: item, that: 'it.n == 1'}",
     [(NOTHING, TWO, MATCH), (NOTHING, {"item": [item(1), item(2, 2)]}, DIVERGE)]),
    ("an allow clause explains nothing where its `that` over all is false",
     ALLOWED + "{create: item, that: 'sum(i.n for i in them) < 3'}",
     [(NOTHING, TWO, MATCH), (NOTHING, {"item": [item(1), item(2, 2)]}, DIVERGE)]),
    ("an allow clause with fields bounds what a creation may fill in",
     ALLOWED + "{create: item, fields: [n]}",
     [(NOTHING, {"item": [item(1, 1, None)]}, MATCH), (NOTHING, ONE, DIVERGE),
      (NOTHING, {"item": [item(1, 1, HIDDEN)]}, INCONCLUSIVE)]),
    ("a doubt that an allow clause would explain in any case is no doubt",
     ALLOWED + "{update: item, fields: [n]}", [(UNSEEN, ONE, MATCH)]),
    ("a doubt beyond a number is one", ALLOWED + "{update: item, fields: [n], count: 1}",
     [(UNSEEN, ONE, INCONCLUSIVE)]),
    ("a doubt about another field is one", ALLOWED + "{update: item, fields: [t]}",
     [(UNSEEN, ONE, INCONCLUSIVE)]),
    ("a doubted effect is no matter where it would be authorized in any case",
     "effects:\n  - {on: update item, authorized_by: 'before.user[1].role == \"admin\"'}\n"
     + ALLOWED + "{update: item}",
     [({**UNSEEN, **ADMIN}, {**UNSEEN, **ADMIN}, MATCH),
      ({**UNSEEN, **ADA}, {**UNSEEN, **ADA}, INCONCLUSIVE)]),
    ("literals go through the rules of the field they meet",
     FOLDED + "require:\n  - {create: item, where: 'it.t == \"ABC\"', set: {t: aBc}}",
     [(NOTHING, {"item": [item(1, t="Abc")]}, MATCH)]),
    ("that nothing may change is a contract of one line", "",
     [(ADA, ADA, MATCH), (ADA, {"user": [user(1), user(2)]}, DIVERGE)]),
]  # fmt: skip
"""(sentence, contract, its runs): each run with its verdict, or with the truth or code of `c`."""


@pytest.mark.parametrize(
    ("body", "runs"), [each[1:] for each in SENTENCES], ids=[each[0] for each in SENTENCES]
)
def test_a_contract_judges_as_the_sentence_says(
    body: str, runs: list[tuple[Any, Any, Any]]
) -> None:
    for before, after, expected in runs:
        assert outcome(judged(body + "\n", before, after), expected) == expected


# ---------------------------------------------------------------- forbid


@pytest.mark.parametrize(
    ("clause", "verdict"),
    [
        ("delete: user", DIVERGE),
        ("delete: user, where: 'it.id == 2'", MATCH),
        ("delete: user, count: 2", MATCH),
        ("delete: [item, user]", DIVERGE),
        ("any: user", DIVERGE),
        ("any: item", MATCH),
        ("delete: user, from: {role: user}", DIVERGE),
        ("delete: user, from: {role: admin}", MATCH),
    ],
)
def test_a_forbid_clause_fires_on_what_it_matches_whatever_allows_it(
    clause: str, verdict: Any
) -> None:
    body = f"forbid:\n  - {{id: f, {clause}}}\nallow:\n  - {{delete: user}}\n"
    assert judged(body, {"user": [user(1)]}, NOTHING).verdict is verdict


def test_a_change_that_canonicalization_hides_is_still_forbidden_and_no_delta() -> None:
    body = (
        "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
        "forbid: [{id: f, update: item}]\n"
    )
    found = judged(body, {"item": [item(1)]}, {"item": [item(1, t="A")]})
    assert found.verdict is DIVERGE
    assert found.deltas == ()
    assert finding(found, "f").deltas == ("item[1].t",)
    assert truths(found)["frame"] is HOLDS


def test_what_lies_outside_the_boundary_is_shown_and_not_judged() -> None:
    body = "exclude: [{what: item.t, because: outside}]\nforbid: [{id: f, update: item}]\n"
    found = judged(body, {"item": [item(1)]}, {"item": [item(1, t="b")]})
    assert found.verdict is MATCH
    assert [(h.delta.id, h.by_boundary) for h in found.hidden] == [("item[1].t", True)]


def test_undefined_leaves_a_forbid_and_an_allow_open_and_fails_a_require() -> None:
    before, after = {"item": [item(1, None)]}, {"item": [item(1, 2)]}
    where = "update: item, where: 'it.n > 0'"
    forbid = judged(f"forbid: [{{id: c, {where}}}]\nallow: [{{update: item}}]\n", before, after)
    assert (truths(forbid)["c"], finding(forbid, "c").code) == (UNKNOWN, "undefined")
    assert forbid.verdict is INCONCLUSIVE
    require = judged(f"require: [{{id: c, {where}}}]\n", before, after)
    assert (truths(require)["c"], finding(require, "c").code) == (FAILS, "undefined")
    allow = judged(f"forbid: [{{delete: user}}]\nallow: [{{id: c, {where}}}]\n", before, after)
    assert truths(allow)["frame"] is UNKNOWN


@pytest.mark.parametrize(
    ("section", "value", "truth"),
    [
        ("forbid", 1, FAILS), ("forbid", 2, HOLDS), ("forbid", None, UNKNOWN),
        ("require", 1, HOLDS), ("require", 2, FAILS), ("require", None, FAILS),
    ],
)  # fmt: skip
def test_a_condition_must_hold_or_must_not(section: str, value: Any, truth: Any) -> None:
    body = f"{section}:\n  - {{id: c, that: 'after.item[1].n < 2'}}\n"
    rows = {"item": [item(1, value)]}
    found = finding(judged(body, rows, rows), "c")
    assert found.truth is truth
    codes = {"forbid": "forbidden-condition", "require": "requirement-failed"}
    assert found.code == (
        "undefined" if value is None else "holds" if truth is HOLDS else codes[section]
    )
    sides = [(sentence(c.left), sentence(c.right)) for c in found.witness.comparisons]
    assert sides == ([] if truth is HOLDS else [("null" if value is None else str(value), "2")])


# ---------------------------------------------------------------- require


@pytest.mark.parametrize(
    ("count", "made", "code"),
    [
        ("", 0, "missing-change"), ("", 1, "holds"), ("", 2, "too-many-changes"),
        (", count: 2", 1, "missing-change"), (", count: 2", 2, "holds"),
        (", count: {min: 1}", 3, "holds"), (", count: {max: 1}", 0, "holds"),
        (", count: {min: 1, max: 2}", 3, "too-many-changes"), (", count: 0", 0, "holds"),
        (", count: 0", 1, "too-many-changes"),
    ],
)  # fmt: skip
def test_a_require_clause_counts_entities(count: str, made: int, code: str) -> None:
    body = f"require:\n  - {{id: r, create: item{count}}}\n"
    found = judged(body, NOTHING, {"item": [item(k) for k in range(made)]})
    assert finding(found, "r").code == code


def test_too_many_is_its_own_finding_and_leaves_nothing_unexplained() -> None:
    found = judged("require: [{id: r, create: item}]\n", NOTHING, {"item": [item(1), item(2)]})
    assert truths(found) == {"frame": HOLDS, "r": FAILS}


def test_a_pattern_explains_only_the_paths_it_selects() -> None:
    before, after = {"item": [item(1)]}, {"item": [item(1, 2, "z")]}
    by_set = judged("require: [{id: r, update: item, set: {n: 2}}]\n", before, after)
    assert truths(by_set) == {"frame": FAILS, "r": HOLDS}
    assert finding(by_set, "frame").deltas == ("item[1].t",)
    by_fields = judged("require: [{id: r, update: item, set: {n: 2}, fields: [n, t]}]\n",
                       before, after)  # fmt: skip
    assert by_fields.verdict is MATCH
    whole = judged("require: [{id: r, update: item}]\n", before, after)
    assert whole.verdict is MATCH


LEAST = "create: item, count: {min: 2}, where: 'it.n == 1'"
EVERY = "update: item, count: every, set: {n: 9}"
SUM = "create: item, count: {min: 1}, that: 'sum(i.n for i in them) == 3'"
MORE = "item 0, item 1, item 2, item 3"


def some(*numbers: Any) -> dict[str, Any]:
    return {"item": [item(key, n) for key, n in enumerate(numbers)]}


@pytest.mark.parametrize(
    ("clause", "before", "after", "sentence", "deltas"),
    [
        ("create: item", {}, {}, "no item matches, 1 required", []),
        ("create: item", {}, some(1), "item 0", ["item[0]"]),
        ("create: item", {}, some(1, 1), "2 item entities match, at most 1 may: item 0, item 1",
         ["item[0]", "item[1]"]),
        ("create: item, count: 2", {}, some(1), "1 item matches, 2 required", []),
        ("create: item, count: {max: 4}", {}, some(1, 1, 1, 1), MORE,
         [f"item[{n}]" for n in range(4)]),
        ("create: item, count: {max: 4}", {}, {}, "as required", []),
        ("create: item, count: {max: 4}", {}, some(*[1] * 6),
         f"6 item entities match, at most 4 may: {MORE} and 2 more",
         [f"item[{n}]" for n in range(6)]),
        ("create: [item, user], count: 2", {}, {}, "no item or user matches, 2 required", []),
        (LEAST, {}, some(1, 5), "1 item matches, at least 2 required; item 1 does not: 5 ≠ 1",
         ["item[1]"]),
        (LEAST, {}, some(4, 5), "no item matches, at least 2 required; item 0 does not: 4 ≠ 1",
         ["item[0]", "item[1]"]),
        (EVERY, some(1, 1), {}, "item 0 and 1 more not changed as required", []),
        (EVERY, some(1, 1), some(1, 9), "item 0 not changed as required", []),
        (EVERY, some(1, 1), some(9, 9), "item 0, item 1", ["item[0].n", "item[1].n"]),
        (SUM, {}, some(1), "1 ≠ 3", ["item[0]"]),
        (SUM, {}, some(None), "sum over null or absent", ["item[0]"]),
        ("update: user, count: {min: 0}, that: 'after.item[0].n == 1'", some(2), some(2), "2 ≠ 1",
         []),
        ("update: user, count: {min: 0}, that: 'false'", {}, {}, "`that` fails over nothing", []),
        ("create: item, that: 'it.n > 0 and false'", {}, some(1), "`that` fails over item 0",
         ["item[0]"]),
    ],
)  # fmt: skip
def test_a_required_clause_says_how_many_match_and_which_come_near(
    clause: str, before: Any, after: Any, sentence: str, deltas: list[str]
) -> None:
    body = f"require:\n  - {{id: r, {clause}}}\nallow: [{{any: item}}]\n"
    found = finding(judged(body, before, after), "r")
    assert (found.sentence, list(found.deltas)) == (sentence, deltas)


# ---------------------------------------------------------------- operations


def test_delete_and_create_under_one_key_is_an_update_unless_an_immutable_field_changed() -> None:
    body = "forbid: [{id: f, delete: doc}]\nallow: [{any: doc}]\n"
    assert judged(body, {"doc": [doc(1)]}, {"doc": [doc(1, "y")]}).verdict is MATCH
    replaced = judged(body, {"doc": [doc(1)]}, {"doc": [doc(1, kind="bill")]})
    assert replaced.verdict is DIVERGE
    assert {d.op for d in replaced.deltas} == {Op.DELETE, Op.CREATE}


def test_a_key_that_is_reused_may_name_another_entity_unless_an_immutable_field_stayed() -> None:
    def under(of: Any, rows: Any) -> Any:
        return state({of.name: rows}, types=[of])

    for name, entity, rows in (
        ("user", replace(USER, keys_are_reused=True), [user(1), user(1, "admin")]),
        ("doc", replace(DOC, keys_are_reused=True), [doc(1), doc(1, "y")]),
        ("doc", replace(DOC, keys_are_reused=True), [doc(1, kind=None), doc(1, "y", kind=None)]),
    ):
        body = f"forbid: [{{id: f, delete: {name}}}]\nallow: [{{update: {name}}}]\n"
        found = judged(body, under(entity, rows[:1]), under(entity, rows[1:]))
        is_same = rows[0].get("kind") is not None
        assert truths(found)["f"] is (HOLDS if is_same else UNKNOWN)
        codes = {f.code for f in found.findings}
        assert codes == ({"holds"} if is_same else {"identity-ambiguous"})
        still = judged(body, under(entity, rows[:1]), under(entity, rows[:1]))
        assert truths(still) == {"f": HOLDS, "frame": HOLDS}


def test_an_unobserved_mark_of_deletion_leaves_open_what_was_not_seen() -> None:
    before = {"doc": [doc(1)]}
    for operation in ("delete", "update", "any", "create"):
        body = f"forbid: [{{id: f, {operation}: doc}}]\nallow: [{{any: doc}}]\n"
        still = judged(body, before, {"doc": [doc(1, deleted_at=HIDDEN)]})
        assert truths(still)["f"] is UNKNOWN, operation
        # An edit beside the mark is one, whatever the mark says.
        is_edit = operation in ("update", "any")
        edited = judged(body, before, {"doc": [doc(1, "y", deleted_at=HIDDEN)]})
        assert truths(edited)["f"] is (FAILS if is_edit else UNKNOWN), operation


GONE, BACK = (None, "now"), ("then", None)
BOTH_SEEN = "count(deleted.doc) == 1 and count(updated.doc) == 1"


@pytest.mark.parametrize(
    ("body", "mark", "verdict"),
    [
        # An edit beside a soft deletion, or its undoing, needs a clause of its own …
        ("require: [{delete: doc}]", GONE, DIVERGE),
        ("allow: [{delete: doc}]", GONE, DIVERGE),
        ("allow: [{create: doc}]", BACK, DIVERGE),
        ("allow: [{delete: doc}, {update: doc, fields: [deleted_at]}]", GONE, DIVERGE),
        ("require: [{delete: doc}]\nallow: [{update: doc, fields: [title]}]", GONE, MATCH),
        ("require: [{create: doc}]\nallow: [{update: doc, fields: [title]}]", BACK, MATCH),
        ("allow: [{any: doc, fields: [deleted_at]}]", GONE, DIVERGE),
        ("allow: [{any: doc, fields: [deleted_at, title]}]", GONE, MATCH),
        ("allow: [{any: doc, fields: [deleted_at, title]}]", BACK, MATCH),
        # … and is forbidden where an update is.
        ("forbid: [{update: doc, fields: [title]}]\nallow: [{any: doc}]", GONE, DIVERGE),
        ("forbid: [{update: doc, fields: [title]}]\nallow: [{any: doc}]", BACK, DIVERGE),
        ("forbid: [{delete: doc}]\nallow: [{any: doc}]", GONE, DIVERGE),
        ("forbid: [{create: doc}]\nallow: [{any: doc}]", BACK, DIVERGE),
        ("forbid: [{update: doc, fields: [deleted_at]}]\nallow: [{any: doc}]", GONE, MATCH),
        # Both are required, both are counted, and each is seen where sets of changes are.
        ("require: [{delete: doc}, {update: doc, set: {title: y}}]", GONE, MATCH),
        ("require: [{any: doc, count: 2}]", GONE, MATCH),
        ("require: [{any: doc, count: 1}]", GONE, DIVERGE),
        ("require: [{delete: doc, count: every}, {update: doc, count: every}]", GONE, MATCH),
        (f"require: [{{that: '{BOTH_SEEN}'}}]\nallow: [{{any: doc}}]", GONE, MATCH),
        ("effects: [{on: update doc, authorized_by: 'it.id == 2'}]\nallow: [{any: doc}]",
         GONE, DIVERGE),
    ],
)  # fmt: skip
def test_an_edit_and_a_soft_deletion_of_one_row_are_two_operations(
    body: str, mark: Any, verdict: Any
) -> None:
    before = {"doc": [doc(1, deleted_at=mark[0])]}
    after = {"doc": [doc(1, "y", deleted_at=mark[1])]}
    found = run(body + "\n", before, after)
    assert found.judgement.verdict is verdict
    assert document(replay(found.bundle)) == document(found.judgement)


def test_a_soft_deletion_is_of_its_mark_alone() -> None:
    """So no clause about other fields explains it, and nothing else is needed."""
    before, after = {"doc": [doc(1)]}, {"doc": [doc(1, deleted_at="now")]}
    for body, verdict in (
        ("require: [{delete: doc}]", MATCH), ("allow: [{any: doc, fields: [deleted_at]}]", MATCH),
        ("allow: [{any: doc, fields: [title, kind]}]", DIVERGE),
    ):  # fmt: skip
        assert judged(body + "\n", before, after).verdict is verdict, body


@pytest.mark.parametrize(
    ("old", "new", "link", "unlink"),
    [(None, 1, HOLDS, FAILS), (1, None, FAILS, HOLDS), (1, 2, HOLDS, FAILS),
     (HIDDEN, 1, UNKNOWN, FAILS), (1, HIDDEN, UNKNOWN, UNKNOWN), (HIDDEN, None, FAILS, UNKNOWN)],
)  # fmt: skip
def test_a_reference_links_what_has_a_target_and_unlinks_what_had_one(
    old: Any, new: Any, link: Any, unlink: Any
) -> None:
    before, after = {"item": [item(1, owner=old)]}, {"item": [item(1, owner=new)]}
    for name, truth in (("link", link), ("unlink", unlink)):
        found = judged(f"require: [{{id: r, {name}: item.owner}}]\n", before, after)
        assert truths(found)["r"] is truth, name
        assert len(found.deltas) == (0 if HIDDEN in (old, new) else 1)


@pytest.mark.parametrize(
    "clause", ["forbid: [{id: c, delete: user, during: run}]",
               "forbid:\n  - {id: c, that: 'count(u for u in after.user) > 1', during: run}",
               "require:\n  - {id: c, that: 'count(u for u in after.user) == 1', during: run}"],
)  # fmt: skip
def test_during_the_run_holds_only_over_a_history_and_fails_at_the_endpoints(clause: str) -> None:
    one = {"user": [user(1)]}
    calm = judged(clause + "\n", one, one)
    assert (truths(calm)["c"], finding(calm, "c").code) == (UNKNOWN, "history-unobserved")
    worse = NOTHING if "delete" in clause else {"user": [user(1), user(2)]}
    assert truths(judged(clause + "\n", one, worse))["c"] is FAILS


# ---------------------------------------------------------------- the frame


IN_SUM = "create: item, that: 'sum(i.n for i in them) < 3'"
IN_PART = state({"item": [item(1)]}, {"item": CUT})


@pytest.mark.parametrize(
    ("allowed", "after", "missing"),
    [
        ([IN_SUM], {"item": [item(1, HIDDEN)]}, ["item 1 created: item.n after: hidden"]),
        (["create: item, where: 'it.n < 3'"], {"item": [item(1, HIDDEN)]},
         ["item 1 created: item.n after: hidden"]),
        (["create: item, fields: [n]"], {"item": [item(1, 1, HIDDEN)]},
         ["item 1 created: item[1].t: hidden"]),
        (["create: item, count: 1"], IN_PART,
         ["item 1 created: item: cut short", "item: cut short"]),
        (["create: item"], IN_PART, ["item: cut short"]),
        (["any: item"], IN_PART, []),
        (["any: item, that: 'true'"], IN_PART, ["item: cut short"]),
        (["create: item, where: 'it.n == 1', count: 1"], {"item": [item(1), item(2, HIDDEN)]},
         [f"item {n} created: item.n after: hidden" for n in (1, 2)]),
        (["create: item, where: 'it.n == 1', count: 2"], {"item": [item(1), item(2, HIDDEN)]},
         ["item 2 created: item.n after: hidden"]),
        (["create: item, where: 'it.n == 1'", "create: item, where: 'it.t == \"b\"'"],
         {"item": [item(1, HIDDEN, HIDDEN)]},
         ["item 1 created: item.n after: hidden", "item 1 created: item.t after: hidden"]),
        (["create: item, where: 'it.n == 1'", "create: item, where: 'it.t == \"b\"'"],
         {"item": [item(1, HIDDEN, "a")]}, ["item 1 created: item.n after: hidden"]),
        (["create: item, where: 'it.n == 1'", "create: item, where: 'it.t == \"b\"'"],
         {"item": [item(1, HIDDEN, "b")]}, []),
        # `set` bounds what an update may change, and nothing that a creation fills in.
        (["any: item, set: {n: 1}"], {"item": [item(1)]}, []),
        (["create: item, where: 'it.n == 1', fields: [n]"], {"item": [item(1, HIDDEN, HIDDEN)]},
         ["item 1 created: item.n after: hidden", "item 1 created: item[1].t: hidden"]),
        (["create: item, fields: [n], count: 1"],
         state({"item": [item(1, 1, HIDDEN)]}, {"item": CUT}),
         ["item 1 created: item: cut short", "item 1 created: item[1].t: hidden",
          "item: cut short"]),
        (["create: item, by: user"], {"item": [item(1)]},
         ["item 1 created: attribution: no history says who made the change"]),
    ],
)  # fmt: skip
def test_a_change_that_may_or_may_not_be_explained_says_what_that_waits_for(
    allowed: list[str], after: Any, missing: list[str]
) -> None:
    body = "forbid: [{delete: user}]\nallow:\n" + "".join(
        f"  - {{id: a{n}, {clause}}}\n" for n, clause in enumerate(allowed)
    )
    found = judged(body, NOTHING, after)
    assert finding(found, "frame").missing == tuple(missing)
    assert truths(found)["frame"] is (UNKNOWN if missing else HOLDS)


def test_absence_and_upper_counts_need_the_whole_enumeration() -> None:
    body = "require: [{id: r, create: item}]\nforbid: [{id: f, delete: user}]\n"
    cut = state({"item": [item(1)]}, {"item": CUT})
    found = judged(body, NOTHING, cut)
    assert truths(found) == {"f": HOLDS, "frame": UNKNOWN, "r": UNKNOWN}
    assert (
        truths(judged(body.replace("item}", "item, count: {min: 1}}"), NOTHING, cut))["r"] is HOLDS
    )
    gone = judged("forbid: [{id: f, delete: item}]\n", {"item": [item(1)]},
                  state({}, {"item": CUT}))  # fmt: skip
    assert truths(gone)["f"] is UNKNOWN


# ---------------------------------------------------------------- effects


def test_every_unauthorized_effect_is_named() -> None:
    body = (
        "effects:\n  - {on: create item, authorized_by: 'it.n == 1'}\n"
        "forbid: [{delete: user}]\nallow: [{create: item}]\n"
    )
    found = judged(body, NOTHING, {"item": [item(1), item(2, 2), item(3, 3)]})
    assert finding(found, "authorized-create-item").deltas == ("item[2]", "item[3]")


def test_canonicalization_hides_no_effect_that_lacks_authorization() -> None:
    body = (
        "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
        "effects:\n  - {on: update item, authorized_by: 'it.n == 2'}\nforbid: [{delete: user}]\n"
    )
    found = judged(body, {"item": [item(1)]}, {"item": [item(1, t="A")]})
    assert finding(found, "authorized-update-item").code == "unauthorized-effect"


# ---------------------------------------------------------------- answer, results, order


CLAIM = "answer:\n  schema: {n: int}\n  claims:\n    - answer.n == after.item[1].n\n"


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        ({"n": 1}, {"holds"}),
        ({"n": 2}, {"claim-refuted", "holds"}),
        ({"n": "1"}, {"claim-refuted", "answer-invalid"}),
        ({"n": True}, {"claim-refuted", "answer-invalid"}),
        ({}, {"claim-refuted", "answer-invalid"}),
        (None, {"answer-missing"}),
    ],
)
def test_claims_are_confirmed_or_refuted_by_the_state(answer: Any, codes: set[str]) -> None:
    rows = {"item": [item(1)]}
    rest = {} if answer is None else {"answer": answer}
    found = judged("forbid: [{delete: user}]\n" + CLAIM, rows, rows, **rest)
    assert {f.code for f in found.findings if f.stage is Stage.ANSWER} == codes
    assert found.verdict is (MATCH if codes == {"holds"} else DIVERGE)


def test_a_claim_about_the_unobserved_is_open() -> None:
    rows = {"item": [item(1, HIDDEN)]}
    found = judged("forbid: [{delete: user}]\nallow: [{update: item}]\n" + CLAIM, rows, rows,
                   answer={"n": 1})  # fmt: skip
    assert truths(found)["claim-1"] is UNKNOWN


def test_the_three_results_fold_their_own_clauses() -> None:
    rows = {"item": [item(1)]}
    lie = judged("forbid: [{delete: user}]\n" + CLAIM, rows, rows, answer={"n": 7})
    assert (lie.tool, lie.task, lie.outcome, lie.verdict) == (None, DIVERGE, MATCH, DIVERGE)
    harm = judged("forbid: [{delete: user}]\n" + CLAIM, {**rows, "user": [user(1)]}, rows,
                  answer={"n": 1})  # fmt: skip
    assert (harm.task, harm.outcome) == (MATCH, DIVERGE)
    mute = judged("forbid: [{delete: user}]\n", rows, rows)
    assert (mute.tool, mute.task) == (None, None)


def test_findings_come_in_the_order_of_the_report() -> None:
    body = (
        "effects: [{on: update item, reversibility: reversible}]\n"
        "forbid: [{id: changed, update: item}, {id: made, create: log},"
        " {id: deleted, delete: user}]\n"
        "require: [{id: wanted, create: doc}]\n" + CLAIM
    )
    before = {"user": [user(1)], "item": [item(1)]}
    found = judged(body, before, {"item": [item(1, 2)], "log": [{"what": "a", "n": 1}]})
    failing = [f.clause for f in found.findings if f.truth is FAILS]
    assert failing[:3] == ["deleted", "made", "changed"]
    assert failing[3:6] == ["frame"] * 3
    assert failing[6:] == ["wanted", "answer", "claim-1"]


# ---------------------------------------------------------------- ν


TYPED = {
    "t": [("casefold@1", "Ab", "aB"), ("nfkc@1", "\u2460", "1"), ("trim@1", "a ", "a"),
          ("ignore@1", "a", "b"), ("opaque@1", "a", "b")],
    "n": [("decimal@1, scale: 0", 1, 1)],
}  # fmt: skip


@given(st.sampled_from(TYPED["t"]), st.booleans())
def test_no_rule_hides_a_forbidden_delta(rule: Any, any_field: bool) -> None:
    use, old, new = rule
    where = "" if any_field else ", fields: [t]"
    if use == "ignore@1":
        where = ""
    body = (
        f"canonicalize: [{{use: {use}, on: [item.t], because: noise}}]\n"
        f"forbid: [{{id: f, update: item{where}}}]\n"
    )
    found = judged(body, {"item": [item(1, t=old)]}, {"item": [item(1, t=new)]})
    assert truths(found)["f"] is FAILS
    assert found.deltas == ()


# ---------------------------------------------------------------- what a contract may not say


def test_a_contract_that_the_null_run_matches_says_noop() -> None:
    rows = {"user": [user(1)]}
    with pytest.raises(ContractError, match="nothing happens would MATCH"):
        judged("forbid: [{delete: user}]\n", rows, rows, noop=False)
    with pytest.raises(ContractError, match="nothing happens would MATCH"):
        judged("forbid: [{delete: user}]\n", rows, NOTHING, noop=False)
    assert judged("require: [{create: item}]\n", rows, rows, noop=False).verdict is DIVERGE


@pytest.mark.parametrize(
    ("clause", "verdict"),
    [
        ("forbid: [{delete: doc}]", DIVERGE),
        ("forbid: [{delete: doc, where: 'it.kind == \"memo\"'}]", DIVERGE),
        ("forbid: [{delete: doc, where: 'it.kind == \"bill\"'}]", MATCH),
        ("require: [{that: 'any(d.kind == \"memo\" for d in deleted.doc)'}]", MATCH),
        ("require: [{that: 'any(d.kind == \"bill\" for d in deleted.doc)'}]", DIVERGE),
    ],
)
def test_what_is_born_deleted_is_judged_by_what_it_was(clause: str, verdict: Any) -> None:
    allowed = "\nallow: [{any: doc}]\n"
    found = run(clause + allowed, {"doc": []}, {"doc": [doc(1, deleted_at="now")]})
    assert found.judgement.verdict is verdict
    assert document(replay(found.bundle)) == document(found.judgement)
    alone = "forbid: [{delete: user}]\nallow: [{create: doc}]\n"
    assert judged(alone, {"doc": []}, {"doc": [doc(1, deleted_at="now")]}).verdict is DIVERGE


@pytest.mark.parametrize(
    ("clause", "truth"),
    [
        ("forbid: [{id: c, delete: doc}]\nallow: [{any: doc}]", HOLDS),
        ("require: [{id: c, delete: doc}]\nallow: [{any: doc}]", FAILS),
        ("require: [{id: c, that: 'count(deleted.doc) == 0'}]\nallow: [{any: doc}]", HOLDS),
        ("require: [{id: c, update: doc, fields: [deleted_at]}]", HOLDS),
        ("require: [{id: c, update: doc, where: 'it.kind == \"memo\"'}]", HOLDS),
        ("require: [{id: c, update: doc, set: {deleted_at: null}}]\nallow: [{any: doc}]", FAILS),
        ("forbid: [{id: c, update: doc, where: 'it.id == 1'}]\nallow: [{any: doc}]", FAILS),
    ],
)
def test_what_was_deleted_before_is_purged_and_not_deleted_again(clause: str, truth: Any) -> None:
    before = {"doc": [doc(1, deleted_at="then"), doc(2)]}
    found = run(clause + "\n", before, {"doc": [doc(2)]})
    assert truths(found.judgement)["c"] is truth
    assert document(replay(found.bundle)) == document(found.judgement)


@pytest.mark.parametrize("clause", ["delete: doc", "create: doc", "update: doc, fields: [title]"])
def test_a_purge_is_explained_by_no_clause_about_something_else(clause: str) -> None:
    body = f"forbid: [{{delete: user}}]\nallow: [{{{clause}}}]\n"
    before = {"doc": [doc(1, deleted_at="then"), doc(2)]}
    assert truths(judged(body, before, {"doc": [doc(2)]}))["frame"] is FAILS
