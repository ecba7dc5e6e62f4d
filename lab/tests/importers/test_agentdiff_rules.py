"""Agent-Diff's own rules: its operators, counts, ignore rules and journal, one by one."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pytest
from statediff_lab.importers.agentdiff.format import Journal, TaskSuite, journal_from, suite_from
from statediff_lab.importers.agentdiff.rules import Score, Undecided, holds, score

from statediff.errors import InputError

BOOK = {"id": "b1", "title": "Dune", "copies": 2, "shelf": None}


def suite(*assertions: dict[str, Any], **more: Any) -> TaskSuite:
    test = {"id": "t", "prompt": "p", "seed_template": "s", "assertions": list(assertions)}
    return suite_from({"tests": [test], **more}, "library", "suite")


def judged(the_suite: TaskSuite, **diff: Any) -> Score:
    return score(the_suite, the_suite.tests[0], journal_from(diff))


def added(**row: Any) -> dict[str, Any]:
    return {"__table__": "books", **row}


def update(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {"__table__": "books", "before": before, "after": after}


@pytest.mark.parametrize(
    ("value", "predicate", "expected"),
    [
        (2, {"eq": Decimal("2.0")}, True),
        (None, {"eq": None}, True),
        ("2", {"eq": 2}, False),
        (1, {"ne": 2}, True),
        (1, {"not_eq": 1}, False),
        ("a", {"in": ["a", "b"]}, True),
        ("a", {"in": 5}, False),
        ("c", {"not_in": ["a", "b"]}, True),
        ("c", {"not_in": None}, False),
        ("Login bug", {"contains": "bug"}, True),
        (None, {"contains": "bug"}, False),
        (None, {"not_contains": "bug"}, False),
        ("Login", {"not_contains": "bug"}, True),
        ("LOGIN", {"i_contains": "log"}, True),
        ("LOGIN", {"contains": "log"}, False),
        ("abc", {"starts_with": "ab"}, True),
        ("abc", {"ends_with": "bc"}, True),
        ("ABC", {"i_starts_with": "ab"}, True),
        ("ABC", {"i_ends_with": "bc"}, True),
        ("ABC", {"starts_with": "ab"}, False),
        ("D123", {"regex": "^D"}, True),
        ("xD", {"regex": "^D"}, False),
        ("xDx", {"regex": "D"}, True),
        (5, {"regex": "5"}, False),
        ("a", {"regex": "("}, False),
        (3, {"gt": 2}, True),
        (2, {"gte": 2}, True),
        (1, {"lt": 2}, True),
        (2, {"lte": 2}, True),
        (None, {"gt": 2}, False),
        ("b", {"gt": "a"}, True),
        (None, {"exists": False}, True),
        (0, {"exists": True}, True),
        (None, {"exists": True}, False),
        (["a", "b"], {"has_any": ["b", "z"]}, True),
        (["a"], {"has_any": []}, False),
        (["a", "b"], {"has_all": ["a", "b"]}, True),
        (["a"], {"has_all": ["a", "b"]}, False),
        (None, {"has_all": []}, False),
        (3, {"gt": 1, "lt": 3}, False),
        (3, {}, True),
        (3, {"greater": 1}, False),
        (True, {"eq": 1}, True),
        (Decimal("0.1"), {"eq": Decimal("0.1000000000000000055511151231257827")}, True),
    ],
)
def test_an_operator_says_what_the_benchmark_says(
    value: Any, predicate: dict[str, Any], expected: bool
) -> None:
    assert holds(value, predicate) is expected


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ("aaaa", r"(a+)\1"),
        ("x", "(?=x)"),
        ("a٣", r"\d"),
        ("end\n", "end$"),
        ("STRASSE", "[[:upper:]]"),
        ("aa", "a{,2}"),
        ("a", "a" * 2000),
    ],
)
def test_a_pattern_that_re2_reads_otherwise_is_undecided_not_guessed(
    value: str, pattern: str
) -> None:
    with pytest.raises(Undecided):
        holds(value, {"regex": pattern})


def test_no_pattern_freezes_the_judgement() -> None:
    began = time.monotonic()
    assert holds("a" * 50_000 + "!", {"regex": "^(a+)+$"}) is False
    assert time.monotonic() - began < 2


def test_an_undecided_assertion_is_neither_passed_nor_failed() -> None:
    odd = {"diff_type": "added", "entity": "books", "where": {"title": {"regex": "(?=x)"}}}
    plain = {"diff_type": "added", "entity": "books"}
    assert judged(suite(odd, plain), inserts=[added(title="x")]).passes is None
    found = judged(suite(odd, {**plain, "expected_count": 2}), inserts=[added(title="x")])
    assert found.passes is False
    assert "RE2 refuses" in found.failures[0]


def test_a_bare_assertion_expects_at_least_one_match() -> None:
    bare = suite({"diff_type": "added", "entity": "books"})
    assert judged(bare, inserts=[]).passes is False
    assert judged(bare, inserts=[added(), added()]).passes is True


@pytest.mark.parametrize(
    ("count", "rows", "expected"),
    [
        (1, 2, False),
        (2, 2, True),
        (0, 0, True),
        (0, 1, False),
        ({"min": 2}, 3, True),
        ({"min": 2}, 1, False),
        ({"max": 1}, 2, False),
        ({"min": 1, "max": 2}, 2, True),
    ],
)
def test_a_count_is_exact_or_between_bounds(count: Any, rows: int, expected: bool) -> None:
    counted = suite({"diff_type": "added", "entity": "books", "expected_count": count})
    assert judged(counted, inserts=[added()] * rows).passes is expected


def test_other_tables_and_other_rows_are_not_looked_at() -> None:
    only = suite({"diff_type": "removed", "entity": "books", "where": {"title": "Dune"}})
    other = {"__table__": "loans", "title": "Dune"}
    assert judged(only, deletes=[other]).passes is False
    assert judged(only, deletes=[other, added(title="Dune"), added(title="Ubik")]).passes is True


MOVED = {
    "diff_type": "changed",
    "entity": "books",
    "where": {"title": {"eq": "Dune"}},
    "expected_changes": {"shelf": {"from": {"exists": False}, "to": "A"}},
}


def test_a_change_may_be_found_by_the_row_before_or_after() -> None:
    renamed = {
        "diff_type": "changed",
        "entity": "books",
        "where": {"title": "Dune"},
        "expected_changes": {"title": {"to": {"contains": "D"}}},
    }
    away = update(BOOK, {**BOOK, "title": "Dx"})
    back = update({**BOOK, "title": "Ubik"}, BOOK)
    elsewhere = update({**BOOK, "title": "Ubik"}, {**BOOK, "title": "Dx"})
    assert judged(suite(renamed), updates=[away]).passes is True
    assert judged(suite(renamed), updates=[back]).passes is True
    assert judged(suite(renamed), updates=[elsewhere]).passes is False


def test_a_field_beside_those_expected_fails_a_matched_row_unless_ignored() -> None:
    both = [update(BOOK, {**BOOK, "shelf": "A", "copies": 3})]
    assert judged(suite(MOVED), updates=both).passes is False
    assert judged(suite({**MOVED, "ignore": ["copies"]}), updates=both).passes is True
    for ignored in ({"global": ["copies"]}, {"books": ["copies"]}):
        assert judged(suite(MOVED, ignore_fields=ignored), updates=both).passes is True
    assert judged(suite(MOVED, ignore_fields={"loans": ["copies"]}), updates=both).passes is False
    assert judged(suite(MOVED, strict=False), updates=both).passes is True


def test_an_expected_field_that_did_not_change_is_no_match() -> None:
    same = {"diff_type": "changed", "entity": "books", "expected_changes": {"shelf": {}}}
    assert judged(suite(same), updates=[update(BOOK, {**BOOK, "title": "x"})]).passes is False
    assert judged(suite({**same, "expected_count": 0}), updates=[]).passes is True


def test_each_row_of_the_journal_is_judged_by_itself() -> None:
    there = update(BOOK, {**BOOK, "shelf": "A"})
    back = update({**BOOK, "shelf": "A"}, BOOK)
    assert judged(suite({**MOVED, "expected_count": 1}), updates=[there, back]).passes is True
    assert judged(suite({**MOVED, "expected_count": 1}), updates=[there, there]).passes is False


def test_unchanged_counts_whatever_happened_to_matching_rows() -> None:
    still = suite({"diff_type": "unchanged", "entity": "books", "where": {"title": "Dune"}})
    assert judged(still, inserts=[added(title="Ubik")]).passes is True
    for diff in ({"inserts": [added(**BOOK)]}, {"deletes": [added(**BOOK)]}):
        assert judged(still, **diff).passes is False
    assert judged(still, updates=[update(BOOK, {**BOOK, "copies": 0})]).passes is False


def test_a_path_leads_into_an_object() -> None:
    deep = suite({"diff_type": "added", "entity": "books", "where": {"meta.lang": "en"}})
    assert judged(deep, inserts=[added(meta={"lang": "en"})]).passes is True
    assert judged(deep, inserts=[added(meta="en")]).passes is False


@pytest.mark.parametrize(
    ("assertion", "reason"),
    [
        ({"diff_type": "adde", "entity": "books"}, "diff_type: expected one of added"),
        ({"diff_type": "added"}, "entity: expected text"),
        ({"diff_type": "added", "entity": "b", "where": []}, None),
        ({"diff_type": "added", "entity": "b", "where": ["x"]}, "where: expected an object"),
        ({"diff_type": "added", "entity": "b", "expected_count": "1"}, "expected_count"),
        ({"diff_type": "added", "entity": "b", "ignore": "x"}, "ignore: expected a list"),
    ],
)
def test_a_misshapen_assertion_is_named(assertion: dict[str, Any], reason: str | None) -> None:
    if reason is None:
        assert suite(assertion).tests[0].assertions[0].where == ()
        return
    with pytest.raises(InputError, match=f"test t: assertion 1.*{reason}"):
        suite(assertion)


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        (None, "diff: expected an object"),
        ({"inserts": [{}]}, r"diff.inserts\[0\].__table__: expected text"),
        ({"deletes": {}}, None),
        ({"deletes": "x"}, "diff.deletes: expected a list"),
        ({"updates": [{"__table__": "t"}]}, r"diff.updates\[0\].before: expected a row"),
    ],
)
def test_a_diff_that_is_none_says_where(diff: Any, reason: str | None) -> None:
    if reason is None:
        assert journal_from(diff) == Journal()
        return
    with pytest.raises(InputError, match=reason):
        journal_from(diff)
