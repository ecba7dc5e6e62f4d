"""What each kind of clause says, sentence by sentence of docs/design.md §3 and §4."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import ContractError
from statediff.kernel import replay
from statediff.model.delta import Label, Op
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
    run,
    state,
    truths,
    user,
)

NOTHING: dict[str, Any] = {}


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


def test_a_forbid_clause_counts_entities_not_fields() -> None:
    body = "forbid: [{id: f, update: item, count: 2}]\nallow: [{update: item}]\n"
    once = judged(body, {"item": [item(1), item(2)]}, {"item": [item(1, 5, "z"), item(2)]})
    assert once.verdict is MATCH
    twice = judged(body, {"item": [item(1), item(2)]}, {"item": [item(1, 5), item(2, 5)]})
    assert truths(twice)["f"] is FAILS


def test_an_entity_with_plain_and_hidden_changes_counts_once() -> None:
    body = (
        "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
        "forbid: [{id: f, update: item, count: 2}]\nallow: [{update: item}]\n"
    )
    assert judged(body, {"item": [item(1)]}, {"item": [item(1, 2, "A")]}).verdict is MATCH


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


def test_that_holds_of_every_matched_entity_where_it_is_required() -> None:
    body = "require:\n  - {id: r, create: item, count: {min: 1}, that: 'it.n == 1'}\n"
    assert judged(body, NOTHING, {"item": [item(1)]}).verdict is MATCH
    found = judged(body, NOTHING, {"item": [item(1), item(2, 2)]})
    assert finding(found, "r").code == "requirement-failed"


def test_every_means_each_entity_before_that_satisfies_where() -> None:
    body = (
        "require:\n  - {id: r, update: item, where: 'it.t == \"a\"', set: {n: 9}, count: every}\n"
    )
    before = {"item": [item(1), item(2), item(3, t="b")]}
    done = {"item": [item(1, 9), item(2, 9), item(3, t="b")]}
    assert judged(body, before, done).verdict is MATCH
    half = judged(body, before, {"item": [item(1, 9), item(2), item(3, t="b")]})
    assert finding(half, "r").sentence == "item 2 not changed as required"
    wrong = judged(body, before, {"item": [item(1, 9), item(2, 8), item(3, t="b")]})
    assert truths(wrong)["r"] is FAILS
    undefined = judged(body.replace('it.t == "a"', "it.n > 0"), {"item": [item(1, None)]}, NOTHING)
    assert finding(undefined, "r").code == "undefined"


def test_every_has_no_new_version_to_qualify_an_entity_by() -> None:
    body = "require: [{id: r, update: item, where: 'new.n == 2', count: every}]\n"
    found = judged(body, {"item": [item(1)]}, {"item": [item(1, 2)]})
    assert (finding(found, "r").truth, finding(found, "r").code) == (FAILS, "undefined")


def test_every_also_judges_that() -> None:
    body = "require:\n  - {id: r, update: item, count: every, that: 'new.n == 9'}\n"
    assert judged(body, {"item": [item(1)]}, {"item": [item(1, 9)]}).verdict is MATCH
    assert judged(body, {"item": [item(1)]}, {"item": [item(1, 8)]}).verdict is DIVERGE


def test_an_agent_cannot_qualify_itself_by_the_change_it_makes() -> None:
    body = "forbid: [{delete: item}]\nallow:\n  - {update: user, where: 'it.role == \"admin\"'}\n"
    raised = judged(body, {"user": [user(1)]}, {"user": [user(1, "admin")]})
    assert truths(raised)["frame"] is FAILS
    lowered = judged(body, {"user": [user(1, "admin")]}, {"user": [user(1)]})
    assert lowered.verdict is MATCH


def test_set_reads_the_new_version_and_from_the_old() -> None:
    body = "require:\n  - {id: r, update: item, from: {n: 1}, set: {n: 2}}\n"
    assert judged(body, {"item": [item(1, 1)]}, {"item": [item(1, 2)]}).verdict is MATCH
    assert judged(body, {"item": [item(1, 2)]}, {"item": [item(1, 1)]}).verdict is DIVERGE
    computed = "require:\n  - id: r\n    update: item\n    set:\n      n:\n        is: it.n + 1\n"
    assert judged(computed, {"item": [item(1, 4)]}, {"item": [item(1, 5)]}).verdict is MATCH
    assert judged(computed, {"item": [item(1, 4)]}, {"item": [item(1, 6)]}).verdict is DIVERGE


def test_what_is_created_has_no_old_values() -> None:
    body = "forbid: [{id: f, any: item, from: {n: 1}}]\nallow: [{any: item}]\n"
    assert judged(body, NOTHING, {"item": [item(1)]}).verdict is MATCH
    assert judged(body, {"item": [item(1)]}, NOTHING).verdict is DIVERGE


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


def test_a_pattern_needs_one_selected_change() -> None:
    body = "require: [{id: r, update: item, fields: [t]}]\nallow: [{update: item}]\n"
    assert judged(body, {"item": [item(1)]}, {"item": [item(1, 2)]}).verdict is DIVERGE


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


def test_soft_deletion_is_a_deletion() -> None:
    body = "forbid: [{id: f, delete: doc}]\nallow: [{update: doc}]\n"
    found = judged(body, {"doc": [doc(1)]}, {"doc": [doc(1, deleted_at="now")]})
    assert truths(found)["f"] is FAILS
    assert [d.op for d in found.deltas] == [Op.DELETE]
    undone = judged("require: [{create: doc}]\n", {"doc": [doc(1, deleted_at="now")]},
                    {"doc": [doc(1)]})  # fmt: skip
    assert undone.verdict is MATCH


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


def test_link_and_unlink_are_rows_of_an_association() -> None:
    grant = {"grant": [{"user": 1, "item": 1}]}
    assert judged("require: [{link: grant}]\n", NOTHING, grant).verdict is MATCH
    assert judged("require: [{create: grant}]\n", NOTHING, grant).verdict is MATCH
    assert judged("require: [{unlink: grant}]\n", grant, NOTHING).verdict is MATCH
    assert judged("forbid: [{unlink: grant}]\nallow: [{any: grant}]\n", NOTHING,
                  grant).verdict is MATCH  # fmt: skip


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


def test_rows_without_a_key_are_counted() -> None:
    body = "require:\n  - {id: r, create: log, where: 'it.what == \"a\"', count: 2}\n"
    row = {"what": "a", "n": 1}
    assert judged(body, {"log": [row]}, {"log": [row, row, row]}).verdict is MATCH
    assert judged(body, {"log": [row]}, {"log": [row, row]}).verdict is DIVERGE


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


def test_a_source_whose_history_is_required_leaves_the_frame_open_without_one() -> None:
    body = "forbid: [{id: c, delete: user}]\nevidence: {db: {history: required}}\n"
    one = {"user": [user(1)]}
    assert truths(judged(body, one, one)) == {"c": HOLDS, "frame": UNKNOWN}


# ---------------------------------------------------------------- the frame


def test_an_unexplained_change_is_a_violation_of_a_closed_frame_only() -> None:
    body = "forbid: [{id: f, delete: user}]\n"
    closed = judged(body, NOTHING, {"item": [item(1)]})
    assert finding(closed, "frame").code == "unexplained-change"
    assert closed.verdict is DIVERGE
    opened = judged("frame: {open: others work here too}\n" + body, NOTHING, {"item": [item(1)]})
    assert opened.verdict is MATCH
    assert "frame" not in truths(opened)


def test_an_allow_clause_explains_no_more_than_its_count_and_its_that() -> None:
    body = "forbid: [{delete: user}]\nallow:\n  - {create: item, count: 1}\n"
    assert judged(body, NOTHING, {"item": [item(1)]}).verdict is MATCH
    assert judged(body, NOTHING, {"item": [item(1), item(2)]}).verdict is DIVERGE
    each = "forbid: [{delete: user}]\nallow:\n  - {create: item, that: 'it.n == 1'}\n"
    found = judged(each, NOTHING, {"item": [item(1), item(2, 2)]})
    assert finding(found, "frame").deltas == ("item[2]",)
    total = (
        "forbid: [{delete: user}]\nallow:\n  - {create: item, that: 'sum(i.n for i in them) < 3'}\n"
    )
    assert judged(total, NOTHING, {"item": [item(1), item(2)]}).verdict is MATCH
    assert judged(total, NOTHING, {"item": [item(1), item(2, 2)]}).verdict is DIVERGE


def test_an_allow_clause_with_fields_bounds_what_a_creation_may_fill_in() -> None:
    body = "forbid: [{delete: user}]\nallow: [{create: item, fields: [n]}]\n"
    assert judged(body, NOTHING, {"item": [item(1, 1, None)]}).verdict is MATCH
    assert judged(body, NOTHING, {"item": [item(1, 1, "z")]}).verdict is DIVERGE
    assert judged(body, NOTHING, {"item": [item(1, 1, HIDDEN)]}).verdict is INCONCLUSIVE


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


def test_a_doubted_effect_is_no_matter_where_it_would_be_authorized_in_any_case() -> None:
    body = (
        "effects:\n  - {on: update item, authorized_by: 'before.user[1].role == \"admin\"'}\n"
        "forbid: [{delete: user}]\nallow: [{update: item}]\n"
    )
    rows = {"item": [item(1, HIDDEN)], "user": [user(1, "admin")]}
    assert judged(body, rows, rows).verdict is MATCH
    rows["user"] = [user(1)]
    assert judged(body, rows, rows).verdict is INCONCLUSIVE


def test_an_effect_labels_its_deltas_and_the_riskier_label_counts() -> None:
    body = (
        "effects: [{on: create item, reversibility: irreversible},"
        " {on: any item, reversibility: reversible}]\nforbid: [{delete: user}]\n"
        "allow: [{any: item}]\n"
    )
    found = judged(body, {"item": [item(2)]}, {"item": [item(1), item(2, 2)]})
    assert [d.label for d in found.deltas] == [Label.IRREVERSIBLE, Label.REVERSIBLE]


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


def test_literals_go_through_the_rules_of_the_field_they_meet() -> None:
    body = (
        "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
        "require:\n  - {id: r, create: item, where: 'it.t == \"ABC\"', set: {t: aBc}}\n"
    )
    assert judged(body, NOTHING, {"item": [item(1, t="Abc")]}).verdict is MATCH


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


def test_that_nothing_may_change_is_a_contract_of_one_line() -> None:
    rows = {"user": [user(1)]}
    assert judged("", rows, rows).verdict is MATCH
    assert judged("", rows, {"user": [user(1), user(2)]}).verdict is DIVERGE


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
