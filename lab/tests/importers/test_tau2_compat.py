"""τ²'s own rules, on a small domain that nobody has seen before, written here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.importers.recorded import NotARun, RunLine, parse
from statediff_lab.importers.tau2.format import (
    Criteria,
    Expectation,
    apply,
    delta_of,
    read_tree,
    same_json,
)
from statediff_lab.importers.tau2.suite import components, open_cases

from statediff.errors import InputError

LIBRARY = {
    "books": {
        "b1": {"book_id": "b1", "title": "Emma", "copies": 2, "price": 5.0},
        "b2": {"book_id": "b2", "title": "Ulysses", "copies": 1, "price": 9.5},
    },
    "loans": {"l1": {"loan_id": "l1", "book_id": "b1", "reader": "ann", "days": ["mo", "tu"]}},
}
LENT = [
    {"op": "replace", "path": ["books", "b2", "copies"], "old": 1, "new": 0},
    {
        "op": "add",
        "path": ["loans", "l2"],
        "new": {"loan_id": "l2", "book_id": "b2", "reader": "bob", "days": []},
    },
]


def line(**other: Any) -> dict[str, Any]:
    return {
        "run_id": "run-1",
        "task_id": "2",
        "before": {"init_delta": []},
        "after": {"delta": LENT},
        "trace": [{"name": "lend", "args": {"book": "b2", "reader": "bob"}, "error": False}],
        "texts": [{"role": "assistant", "text": "Done: it is due in 1,327 hours."}],
        "gold_actions": [{"name": "lend", "kwargs": {"book": "b2", "reader": "bob"}}],
        "outputs": ["327"],
        "labels": {"recorded_task": {"gold_key": "g", "db_match": True}},
        "official": {"reward": 1.0},
        **other,
    }


def folder(path: Path, *lines: dict[str, Any], gold: Any = LENT) -> Path:
    def put(name: str, data: bytes) -> None:
        (path / name).write_bytes(gzip.compress(data))

    put("initial_library.json.gz", json.dumps(LIBRARY).encode())
    golds = [{"gold_key": "g", "task_id": "2", "delta": gold, "gold_action_errors": []}]
    put("gold_library.json.gz", json.dumps(golds).encode())
    put("runs_library.jsonl.gz", b"\n".join(json.dumps(x).encode() for x in lines or [line()]))
    return path


def parsed(tree: dict[str, Any]) -> Any:
    return parse(RunLine("runs", 1, json.dumps(tree).encode()))


def compat(path: Path, tree: dict[str, Any], **kind: Any) -> Any:
    suite = open_cases(folder(path, tree, **kind))
    run, _ = suite.run("library", parsed(tree))
    return suite.compat(run), suite.components(run)


def test_a_run_that_leaves_the_state_of_the_reference_passes(tmp_path: Path) -> None:
    outcome, found = compat(tmp_path, line())
    assert outcome.passes
    assert not outcome.reasons
    assert found.reward(("DB", "COMMUNICATE", "ACTION")) == 1.0


def test_any_other_state_fails_and_the_place_is_named(tmp_path: Path) -> None:
    more = [*LENT, {"op": "replace", "path": ["books", "b1", "copies"], "old": 2, "new": 9}]
    outcome, _ = compat(tmp_path, line(after={"delta": more}))
    assert not outcome.passes
    assert outcome.reasons == ("differs at books/b1/copies",)


def test_what_was_done_and_undone_is_the_state_of_the_reference(tmp_path: Path) -> None:
    there = {"op": "replace", "path": ["books", "b1", "copies"], "old": 2, "new": 9}
    back = {"op": "replace", "path": ["books", "b1", "copies"], "old": 9, "new": 2}
    assert compat(tmp_path, line(after={"delta": [there, *LENT, back]}))[0].passes


def test_one_replaced_entity_and_its_replaced_field_are_one_state(tmp_path: Path) -> None:
    whole = {**LIBRARY["books"]["b2"], "copies": 0}
    delta = [{"op": "replace", "path": ["books", "b2"], "new": whole}, LENT[1]]
    assert compat(tmp_path, line(after={"delta": delta}))[0].passes


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [("5.0", "5.00", True), ("5", "5.0", False), ("1", "true", False), ("[1, 2]", "[2, 1]", False)],
)
def test_states_are_one_where_their_json_is(a: str, b: str, same: bool) -> None:
    left, right = (parse(RunLine("", 1, f'{{"v": {text}}}'.encode())) for text in (a, b))
    assert same_json(left, right) is same


@pytest.mark.parametrize(
    ("info", "said", "met"),
    [
        ("327", "it costs $1327.00", True),
        ("1327", "it costs $1,327.00", True),
        ("180.10", "it costs $180.1", False),
        ("Emma", "you asked for EMMA", True),
    ],
)
def test_texts_are_looked_for_as_the_benchmark_looks_for_them(
    info: str, said: str, met: bool
) -> None:
    criteria = Criteria(("COMMUNICATE",), (), (info,))
    texts = [{"role": "user", "text": info}, {"role": "assistant", "text": said}]
    assert components({}, (), (), criteria, [], texts).communicate == (met,)


@pytest.mark.parametrize(
    ("compare", "made", "met"),
    [
        (None, {"book": "b2", "reader": "bob"}, True),
        (None, {"book": "b2", "reader": "ann"}, False),
        (None, {}, True),  # only the arguments of the call are compared
        ((), {"book": "b9"}, True),
        (("book",), {"book": "b2", "reader": "ann"}, True),
    ],
)
def test_calls_are_compared_by_the_arguments_that_count(
    compare: tuple[str, ...] | None, made: dict[str, str], met: bool
) -> None:
    wanted = Expectation("lend", {"book": "b2", "reader": "bob"}, "assistant", compare)
    criteria = Criteria(("ACTION",), (wanted,))
    found = components({}, (), (), criteria, [{"name": "lend", "args": made}], [])
    assert found.actions == (met,)


def test_a_reward_that_rests_on_more_than_the_files_is_not_computed() -> None:
    found = components({}, (), (), Criteria((), ()), [], [])
    assert found.reward(("DB", "NL_ASSERTION")) is None
    assert found.reward(("DB", "COMMUNICATE")) == 1.0


@pytest.mark.parametrize(
    ("delta", "why"),
    [
        ([{"op": "replace", "path": ["books", "b9", "copies"], "new": 1}], "is not there"),
        ([{"op": "add", "path": ["books", "b1"], "new": {}}], "is there already"),
        ([{"op": "remove", "path": ["books", "b9"]}], "is not there"),
        ([{"op": "replace", "path": ["books", "b1", "copies", "x"], "new": 1}], "is no object"),
        ([{"op": "move", "path": ["books"]}], "expected one of"),
        ([{"op": "add", "path": []}], "expected 1 to 16 names"),
        ([{"op": "add", "path": ["books", "b3"]}], "without `new`"),
        ({"op": "add"}, "expected a list of operations"),
    ],
)
def test_a_delta_that_does_not_fit_the_state_is_refused(delta: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        apply(LIBRARY, delta_of(delta, "after.delta"))


def test_applying_a_delta_leaves_the_state_before_as_it_was() -> None:
    before = json.dumps(LIBRARY)
    after = apply(LIBRARY, delta_of(LENT, "delta"))
    assert json.dumps(LIBRARY) == before
    assert after["books"]["b1"] is LIBRARY["books"]["b1"]


@pytest.mark.parametrize("lacking", ["run_id", "task_id", "labels"])
def test_a_line_that_is_no_run_is_refused(tmp_path: Path, lacking: str) -> None:
    suite = open_cases(folder(tmp_path))
    tree = line()
    del tree[lacking]
    with pytest.raises(NotARun):
        suite.run("library", parsed(tree))


def test_a_run_with_a_reference_that_is_not_there_is_refused(tmp_path: Path) -> None:
    suite = open_cases(folder(tmp_path))
    other = line(labels={"recorded_task": {"gold_key": "h"}})
    run, _ = suite.run("library", parsed(other))
    with pytest.raises(InputError, match="no reference with the gold_key h"):
        suite.compat(run)


@pytest.mark.parametrize(
    "broken",
    [
        {"labels": {"recorded_task": {"gold_key": "h"}}},
        {"before": {"init_delta": [{"op": "remove", "path": ["books", "b9"]}]}},
        {"task_id": 2},
        {"trace": [7, {"name": None, "args": "x", "delta": []}], "texts": "none"},
    ],
)
def test_a_broken_run_spoils_no_other(tmp_path: Path, broken: dict[str, Any]) -> None:
    path = folder(tmp_path, line(**broken), line(run_id="run-2", outputs=[]))
    suite = open_cases(path)
    run, _ = suite.run("library", parsed(line(run_id="run-2")))
    assert suite.compat(run).passes
    assert suite.prepare(run).contract.content.require


@pytest.mark.parametrize("data", [b"[1, 2", b'[1], "x": 2', b'{"a": 1, "a": 2}', b"\x1f\x8bno"])
def test_a_broken_file_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "gold_x.json.gz"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"gold_x\.json\.gz"):
        read_tree(path)
