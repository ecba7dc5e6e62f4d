"""Agent-Diff's runs under closed contracts: a domain never seen, conditions, frames, least runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.importers.agentdiff.contract import contract_for
from statediff_lab.importers.agentdiff.suite import AgentDiff, open_cases
from statediff_lab.importers.pack import DomainPack
from statediff_lab.importers.recorded import Half, NotARun, RunLine, SeededChange, TaskId
from statediff_lab.importers.rejudge import (
    LineChunk,
    Mode,
    RejudgedRun,
    Wanted,
    judge_chunk,
    judge_trial,
)

from statediff.errors import StatediffError, UsageError
from statediff.kernel import evaluate
from statediff.model.verdict import Judgement, Truth, Verdict

SEED: dict[str, list[dict[str, Any]]] = {
    "books": [
        {"id": "b1", "title": "Dune", "copies": 2, "lent": False, "tags": ["sf"], "price": 9.5},
        {"id": "b2", "title": "Ubik", "copies": 1, "lent": True, "tags": [], "price": 8},
        {"id": "b3", "title": "Emma", "copies": 1, "lent": True, "note": "worn", "price": 1},
    ],
    "readers": [{"reader_id": "r1", "name": "Ada"}, {"reader_id": "r2", "name": "Bob"}],
    "book_readers": [{"book_id": "b1", "reader_id": "r1"}],
}
TASK = TaskId("library", "test_3")
Made = Callable[..., AgentDiff]


@pytest.fixture
def library(tmp_path: Path) -> Made:
    """A folder of a domain nobody has a pack for, with one task of these assertions."""

    def make(*assertions: dict[str, Any], **more: Any) -> AgentDiff:
        test = {
            "id": "test_3",
            "prompt": "Do it",
            "seed_template": "s",
            "impersonate_user_id": "r1",
            "assertions": list(assertions),
        }
        (tmp_path / "suite-library.json").write_text(json.dumps({"tests": [test], **more}))
        (tmp_path / "seed-s.json").write_text(json.dumps(SEED))
        return open_cases(tmp_path)

    return make


def line(**diff: Any) -> dict[str, Any]:
    return {"run_id": "one", "prompt": "Do it", "diff": diff}


def both(cases: AgentDiff, **diff: Any) -> tuple[bool, Judgement]:
    """True if the benchmark's rules pass the diff, and what the closed contract says of it."""
    run, _ = cases.run("library", line(**diff))
    trial = cases.prepare(run)
    judgement = judge_trial(trial).judgement
    return cases.compat(run).passes, judgement


def book(**row: Any) -> dict[str, Any]:
    return {"__table__": "books", "id": "b9", "title": "New", "copies": 1, "price": 2.5, **row}


def update(at: int, **changed: Any) -> dict[str, Any]:
    row = SEED["books"][at]
    return {"__table__": "books", "before": row, "after": {**row, **changed}}


def unexplained(judgement: Judgement) -> set[str]:
    return {
        delta
        for finding in judgement.findings
        if finding.truth is Truth.FAILS and finding.clause == "frame"
        for delta in finding.deltas
    }


# --- conditions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "values"),
    [
        ({"title": "New"}, ["New", "new", None]),
        ({"title": {"eq": None}}, [None, ""]),
        ({"title": {"ne": "New"}}, ["New", "Old", None]),
        ({"title": {"in": ["a", "b", None]}}, ["a", "c", None]),
        ({"title": {"in": []}}, ["a"]),
        ({"title": {"not_in": ["a", "b"]}}, ["a", "c", None]),
        ({"title": {"contains": 'say "so"\n'}}, ['I say "so"\n', "so", None]),
        ({"title": {"not_contains": "x"}}, ["axb", "ab", None]),
        ({"title": {"i_contains": "Dün.e"}}, ["xdÜN.Ey", "dünxe", None]),
        ({"title": {"starts_with": "Ne"}}, ["New", "new", None]),
        ({"title": {"ends_with": "ew"}}, ["New", "NEW"]),
        ({"title": {"i_starts_with": "nE"}}, ["New", "xnew"]),
        ({"title": {"i_ends_with": "EW"}}, ["New", "news", None]),
        ({"title": {"regex": "^D[0-9]|x$"}}, ["D1", "aD1", "ax", "xa", None]),
        ({"title": {"exists": True}}, ["a", None]),
        ({"title": {"exists": False}}, ["a", None]),
        ({"title": {"gt": "b"}}, ["c", "b", None]),
        ({"title": {"gt": 4}}, ["c", None]),
        ({"title": {"has_any": ["a", "z"]}}, ["abc", "xyz", "m", None]),
        ({"title": {"contains": "a", "ne": "abc"}}, ["abc", "abcd"]),
        ({"title": {"louder": "a"}}, []),
        ({"title": {"has_any": 5}}, []),
        ({"title": {"in": "abc"}}, []),
        ({"title": {"contains": "x" * 500}}, ["x" * 501, "x"]),
        ({"copies": 1}, [1, 1.0, 2, None]),
        ({"copies": 1.0}, [1, 2]),
        ({"copies": {"gte": 2}}, [2, 1, None]),
        ({"copies": {"lt": 2}}, [2, 1, None]),
        ({"copies": {"lte": 1.5}}, [2, 1]),
        ({"copies": True}, [1, 0]),
        ({"copies": "1"}, [1]),
        ({"price": {"eq": 2.5}}, [2.5, 2.50, 3, None]),
        ({"lent": True}, [True, False, None]),
        ({"lent": 1}, [True, False]),
        ({"lent": {"ne": False}}, [True, False, None]),
        ({"tags": {"has_any": ["a", "b"]}}, [["b"], ["c"], [], None]),
        ({"tags": {"has_all": ["a", "b"]}}, [["b", "a"], ["a"], None]),
        ({"tags": {"has_all": []}}, [[], None]),
        ({"tags": {"eq": ["a"]}}, [["a"], ["b"], None]),
        ({"tags": {"contains": "a"}}, [["a"]]),
        ({"meta.lang": {"eq": "en"}}, [{"lang": "en"}, {"lang": "de"}]),
    ],
)
def test_a_condition_means_what_it_means_to_the_benchmark(
    library: Made, predicate: dict[str, Any], values: list[Any]
) -> None:
    asked = {"diff_type": "added", "entity": "books", "where": predicate, "expected_count": 1}
    cases = library(asked)
    name = next(iter(predicate)).partition(".")[0]
    if not values:
        with pytest.raises(StatediffError, match="no condition for the operator"):
            cases.contract(TASK)
    for value in values:
        passes, judgement = both(cases, inserts=[book(**{name: value})])
        assert passes is (judgement.verdict is Verdict.MATCH), value


@pytest.mark.parametrize(
    ("count", "rows"),
    [(None, 0), (None, 2), (1, 1), (2, 1), ({"min": 2}, 1), ({"min": 1, "max": 2}, 3), (0, 1)],
)
def test_a_count_means_what_it_means_to_the_benchmark(library: Made, count: Any, rows: int) -> None:
    asked = {"diff_type": "added", "entity": "books", "expected_count": count}
    also = {"diff_type": "changed", "entity": "books", "expected_changes": {"lent": {"to": True}}}
    inserts = [book(id=f"n{at}") for at in range(rows)]
    passes, judgement = both(library(asked, also), inserts=inserts, updates=[update(0, lent=True)])
    assert passes is (judgement.verdict is Verdict.MATCH)


LENT = {
    "diff_type": "changed",
    "entity": "books",
    "where": {"title": "Dune"},
    "expected_changes": {"lent": {"from": False, "to": True}, "note": {"to": {"contains": "Ada"}}},
    "ignore": ["price"],
}


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({"lent": True, "note": "to Ada"}, Verdict.MATCH),
        ({"lent": True, "note": "to Ada", "price": 3}, Verdict.MATCH),
        ({"lent": True}, Verdict.DIVERGE),
        ({"lent": True, "note": "to Bob"}, Verdict.DIVERGE),
        ({"lent": True, "note": "to Ada", "copies": 3}, Verdict.DIVERGE),
        ({"lent": True, "note": "to Ada", "title": "Dune II"}, Verdict.DIVERGE),
        ({}, Verdict.DIVERGE),
    ],
)
def test_a_change_is_right_in_the_fields_that_were_expected_and_in_no_other(
    library: Made, changed: dict[str, Any], verdict: Verdict
) -> None:
    passes, judgement = both(library(LENT), updates=[update(0, **changed)] if changed else [])
    assert judgement.verdict is verdict
    assert passes is (verdict is Verdict.MATCH)


def test_rows_are_removed_and_left_alone_as_the_assertions_say(library: Made) -> None:
    gone = {"diff_type": "removed", "entity": "book_readers", "where": {"book_id": "b1"}}
    still = {"diff_type": "unchanged", "entity": "books", "where": {"title": "Dune"}}
    cases = library(gone, still)
    link = {"__table__": "book_readers", **SEED["book_readers"][0]}
    assert both(cases, deletes=[link])[1].verdict is Verdict.MATCH
    for more in ({"updates": [update(0, copies=0)]}, {"inserts": [book(title="Dune")]}):
        passes, judgement = both(cases, deletes=[link], **more)
        assert not passes
        assert any(f.clause.startswith("assertion-2") for f in judgement.findings)


# --- the frame -----------------------------------------------------------------------------------

ADDED = {"diff_type": "added", "entity": "books", "where": {"title": "New"}, "expected_count": 1}


def test_what_no_assertion_names_is_seen_and_named(library: Made) -> None:
    harm = {
        "inserts": [book(), {"__table__": "book_readers", "book_id": "b2", "reader_id": "r2"}],
        "updates": [update(1, copies=5)],
        "deletes": [{"__table__": "readers", **SEED["readers"][1]}],
    }
    passes, judgement = both(library(ADDED), **harm)
    assert passes
    assert judgement.verdict is Verdict.DIVERGE
    assert unexplained(judgement) == {"books[b2].copies", "readers[r2]", "book_readers[(b2, r2)]"}


def test_fields_that_the_suite_ignores_are_ignored_beside_a_change_and_nowhere_else(
    library: Made,
) -> None:
    cases = library({**LENT, "ignore": []}, ignore_fields={"global": ["copies"]})
    right = {"lent": True, "note": "Ada", "copies": 7}
    assert both(cases, updates=[update(0, **right)])[1].verdict is Verdict.MATCH
    found = both(cases, updates=[update(0, **right), update(1, copies=7)])[1]
    assert unexplained(found) == {"books[b2].copies"}


def test_a_pack_may_say_what_is_ignored_in_place_of_the_suite(library: Made) -> None:
    cases = library({**LENT, "ignore": ["price"]})
    ground = cases._domain("library").ground("s")
    strict = DomainPack("library", settings={"ignored": []})
    contract = contract_for(ground.domain, cases._tests[TASK], strict)
    run, _ = cases.run("library", line(updates=[update(0, lent=True, note="Ada", price=3)]))
    trial = cases.prepare(run)
    found = evaluate(contract, trial.before, trial.after).judgement
    assert unexplained(found) == {"books[b1].price"}


def test_an_agent_that_does_nothing_matches_a_declared_noop_and_nothing_else(library: Made) -> None:
    trial = library(ADDED).still(TASK)
    assert judge_trial(trial).judgement.verdict is Verdict.DIVERGE
    never = {"diff_type": "removed", "entity": "books", "expected_count": 0}
    trial = library(never).still(TASK)
    assert trial.contract.content.noop
    assert judge_trial(trial).judgement.verdict is Verdict.MATCH


def test_a_row_of_a_table_that_no_file_names_is_collateral_too(library: Made) -> None:
    stray = {"__table__": "admins", "id": "a1", "power": "all"}
    passes, judgement = both(library(ADDED), inserts=[book(), stray])
    assert passes
    assert unexplained(judgement) == {"admins[a1]"}


# --- the door ------------------------------------------------------------------------------------


def test_runs_join_their_task_by_prompt_and_labels_stay_apart(library: Made) -> None:
    cases = library(ADDED)
    run, labels = cases.run("library", {**line(), "model": "m", "passed": True})
    assert (run.task, run.agent, labels.compat, labels.official) == (TASK, "m", True, True)
    for bad in (
        {**line(), "prompt": "Something else"},
        {**line(), "run_id": None},
        {**line(), "diff": []},
        {**line(), "passed": "yes"},
    ):
        with pytest.raises(NotARun):
            cases.run("library", bad)


def test_a_run_whose_diff_is_none_says_so(library: Made) -> None:
    cases = library(ADDED)
    run, _ = cases.run("library", line(inserts=[{"id": "x"}]))
    with pytest.raises(StatediffError, match="__table__"):
        cases.prepare(run)
    with pytest.raises(StatediffError, match="__table__"):
        cases.compat(run)


def test_a_folder_without_a_suite_or_seed_says_what_is_missing(
    library: Made, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"expected suite-NAME\.json"):
        open_cases(tmp_path)
    cases = library(ADDED)
    (tmp_path / "seed-s.json").unlink()
    with pytest.raises(UsageError, match=r"seed-s\.json"):
        cases.contract(TASK)


def test_a_seed_of_another_folder_is_not_read(library: Made, tmp_path: Path) -> None:
    library(ADDED)
    text = (tmp_path / "suite-library.json").read_text()
    (tmp_path / "suite-library.json").write_text(text.replace('"s"', '"../../s"'))
    with pytest.raises(UsageError, match="not the name of a seed"):
        open_cases(tmp_path).contract(TASK)


def test_halves_are_told_by_number(library: Made) -> None:
    cases = library(ADDED)
    numbers = {"test_2": Half.DEVELOPED, "test_6b": Half.DEVELOPED, "test_11": Half.HELD_OUT}
    assert {n: cases.half(TaskId("library", n)) for n in numbers} == numbers
    assert cases.half(TaskId("library", "other")) is Half.HELD_OUT


def test_a_seeded_change_counts_as_made_by_the_run_and_is_named_where_a_check_looks(
    library: Made,
) -> None:
    cases = library(ADDED, LENT)
    run, _ = cases.run(
        "library", line(inserts=[book()], updates=[update(0, lent=True, note="Ada")])
    )
    assert cases.compat(run).passes
    row: dict[str, Any] = {"id": "n", "title": "New"}
    copy = SeededChange("books", ("n",), None, row)
    assert cases.is_named(run, copy)
    assert not cases.compat(run, [copy]).passes
    stray = SeededChange("books", ("b2",), {"id": "b2", "title": "Ubik"}, None)
    assert not cases.is_named(run, stray)
    assert cases.compat(run, [stray]).passes


def test_what_the_benchmarks_own_rules_leave_open_is_inconclusive(library: Made) -> None:
    cases = library({**ADDED, "where": {"title": {"regex": "(?=N)New"}}})
    raw = json.dumps(line(inserts=[book()])).encode()
    chunk = LineChunk("library", [RunLine("runs", 1, raw)], Wanted(mode=Mode.COMPAT))
    [judged] = judge_chunk(cases, chunk)
    assert isinstance(judged, RejudgedRun)
    assert (judged.verdict, judged.passes) == (Verdict.INCONCLUSIVE, False)
    assert "RE2 refuses" in judged.why[0].sentence


# --- least runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assertions",
    [
        [ADDED],
        [LENT],
        [{"diff_type": "removed", "entity": "books", "where": {"lent": True}, "expected_count": 2}],
        [
            {**ADDED, "where": {"title": {"contains": "New"}}},
            {**ADDED, "where": {"title": {"contains": "Order"}}},
            {**ADDED, "where": {"id": {"regex": "^D"}}},
        ],
        [
            {"diff_type": "added", "entity": "book_readers", "expected_count": 1},
            {**ADDED, "where": {"copies": {"gt": 4}, "tags": {"has_all": ["x"]}}},
        ],
        [
            {**ADDED, "where": {"title": "A"}},
            {**ADDED, "where": {"title": "B"}},
            {"diff_type": "added", "entity": "books", "expected_count": 2},
        ],
        [
            {
                "diff_type": "added",
                "entity": "book_readers",
                "where": {"reader_id": {"in": ["r1", "r2"]}},
                "expected_count": 2,
            }
        ],
    ],
)
def test_the_least_run_passes_its_checks_and_matches_the_closed_contract(
    library: Made, assertions: list[dict[str, Any]]
) -> None:
    cases = library(*assertions)
    run = cases.minimal(TASK)
    assert run is not None
    assert cases.compat(run).passes
    trial = cases.prepare(run)
    assert judge_trial(trial).judgement.verdict is Verdict.MATCH


@pytest.mark.parametrize(
    "where",
    [
        {"title": {"lt": ""}},
        {"title": {"in": 5}},
        {"copies": {"gt": []}},
        {"tags": {"has_any": 5}},
    ],
)
def test_what_no_run_is_known_to_pass_has_no_least_run(
    library: Made, where: dict[str, Any]
) -> None:
    assert library({**LENT, "where": {"title": "Nowhere"}}).minimal(TASK) is None
    assert library({**ADDED, "where": where}).minimal(TASK) is None


# --- the whole cases -----------------------------------------------------------------------------


@pytest.mark.slow
def test_of_all_94_tasks_each_has_a_contract_that_the_null_run_does_not_match(whole: Path) -> None:
    cases = open_cases(whole / "agent-diff")
    tasks = cases.tasks()
    assert len(tasks) == 94
    for task in tasks:
        trial = cases.still(task)
        found = judge_trial(trial).judgement.verdict
        assert (found is Verdict.MATCH) is trial.contract.content.noop, task
