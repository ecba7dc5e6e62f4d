"""A journal becomes net changes over a seed: chains, contradictions, and a seed that moved on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from statediff_lab.importers.agentdiff.domain import Domain, Ground
from statediff_lab.importers.agentdiff.format import journal_from, suite_from
from statediff_lab.importers.agentdiff.suite import fold_journal
from statediff_lab.importers.pack import DomainPack
from statediff_lab.importers.states import Edit

from statediff.errors import InputError

SEED: dict[str, list[Mapping[str, Any]]] = {
    "books": [
        {
            "id": "b1",
            "title": "Dune",
            "copies": 2,
            "tags": ["sf"],
            "added_at": "2025-01-01T00:00:00",
        },
        {"id": "b2", "title": "Ubik", "copies": 1, "tags": [], "shelf": None},
    ],
    "book_shelves": [{"book_id": "b1", "shelf_id": "s1"}],
    "shelves": [{"id": "s1", "name": "A"}, {"id": "s2", "name": "B"}],
    "visits": [{"day": "Monday"}, {"day": "Monday"}],
}


@pytest.fixture(scope="module")
def ground() -> Ground:
    test = {"id": "t", "prompt": "p", "seed_template": "s", "assertions": []}
    suite = suite_from({"tests": [test]}, "library", "suite")
    return Domain(suite, {"s": SEED}, DomainPack("none")).ground("s")


def fold(ground: Ground, **diff: Any) -> tuple[list[Any], list[Any]]:
    found = fold_journal(ground, journal_from(diff))
    return [short(e) for e in found.moved], [short(e) for e in found.made]


def short(edit: Edit) -> tuple[Any, Any]:
    """The parts that are told apart: the key columns and `copies`."""

    def row(record: Any) -> Any:
        if record is None:
            return None
        return {k: v for k, v in record.items() if v is not None and k in ("id", "copies", "day")}

    return row(edit.before), row(edit.after)


def book(**row: Any) -> dict[str, Any]:
    return {"__table__": "books", "id": "b1", "title": "Dune", **row}


def update(before: dict[str, Any], after: dict[str, Any], table: str = "books") -> dict[str, Any]:
    return {"__table__": table, "before": before, "after": after}


DUNE = {"id": "b1", "title": "Dune", "copies": 2, "tags": ["sf"], "added_at": "2025-01-01T00:00:00"}


def test_several_updates_of_one_row_are_one_change(ground: Ground) -> None:
    chain = [
        update(DUNE, {**DUNE, "copies": 3}),
        update({**DUNE, "copies": 3}, {**DUNE, "copies": 4}),
    ]
    moved, made = fold(ground, updates=chain)
    assert moved == []
    assert made == [({"id": "b1", "copies": 2}, {"id": "b1", "copies": 4})]


def test_what_was_undone_is_no_change(ground: Ground) -> None:
    there, back = {**DUNE, "copies": 3}, DUNE
    assert fold(ground, updates=[update(DUNE, there), update(there, back)]) == ([], [])


def test_the_journal_knows_better_than_the_seed_what_was_there(ground: Ground) -> None:
    moved, made = fold(ground, updates=[update({**DUNE, "copies": 7}, {**DUNE, "copies": 8})])
    assert moved == [({"id": "b1", "copies": 2}, {"id": "b1", "copies": 7})]
    assert made == [({"id": "b1", "copies": 7}, {"id": "b1", "copies": 8})]
    moved, made = fold(ground, deletes=[book(id="b9", copies=1)])
    assert moved == [(None, {"id": "b9", "copies": 1})]
    assert made == [({"id": "b9", "copies": 1}, None)]
    moved, made = fold(ground, inserts=[book(copies=5)])
    assert moved == [({"id": "b1", "copies": 2}, None)]
    assert made == [(None, {"id": "b1", "copies": 5})]


@pytest.mark.parametrize("inserted", [1, 3])
def test_an_insert_shows_the_row_as_made_or_as_it_ended(ground: Ground, inserted: int) -> None:
    new = {"id": "b9", "title": "x", "copies": 1}
    diff = {"inserts": [{"__table__": "books", **new, "copies": inserted}]}
    _, made = fold(ground, **diff, updates=[update(new, {**new, "copies": 3})])
    assert made == [(None, {"id": "b9", "copies": 3})]


def test_spellings_of_one_value_are_no_change(ground: Ground) -> None:
    text = {**DUNE, "tags": '["sf"]', "added_at": "2025-01-01 00:00:00", "shelf": None}
    found = fold_journal(ground, journal_from({"updates": [update(text, {**text, "copies": 3})]}))
    before, after = ground.base.pair(found.moved, found.made)
    plain = ground.base.capture()
    rows = [
        dict(capture.parts[0].state.tables["books"].rows())[("b1",)]
        for capture in (plain, before, after)
    ]
    assert rows[0] == rows[1]
    assert {name for name in rows[1] if rows[1][name] != rows[2][name]} == {"copies"}


def test_made_and_deleted_within_the_run_is_no_change(ground: Ground) -> None:
    row = book(id="b9", copies=1)
    assert fold(ground, inserts=[row], deletes=[row]) == ([], [])
    link = {"__table__": "book_shelves", "book_id": "b1", "shelf_id": "s1"}
    assert fold(ground, inserts=[link], deletes=[link]) == ([], [])
    _, made = fold(ground, inserts=[book(copies=9)], deletes=[book(copies=2)])
    assert made == [({"id": "b1", "copies": 2}, {"id": "b1", "copies": 9})]


def test_rows_without_a_key_are_counted(ground: Ground) -> None:
    visit = {"__table__": "visits", "day": "Monday"}
    moved, made = fold(ground, deletes=[visit, visit, visit])
    assert moved == [(None, {"day": "Monday"})]
    assert len(made) == 3


@pytest.mark.parametrize(
    ("diff", "said"),
    [
        (
            {"updates": [update(DUNE, {**DUNE, "copies": 3}), update(DUNE, {**DUNE, "copies": 4})]},
            "leaves copies at 3, the next finds 2",
        ),
        ({"inserts": [book(id="b9"), book(id="b9")]}, "inserted 2 times"),
        ({"deletes": [book(copies=2), book(copies=2)]}, "deleted 2 times"),
        (
            {
                "updates": [update(DUNE, {**DUNE, "copies": 3})],
                "deletes": [book(**{**DUNE, "copies": 9})],
            },
            "leaves copies at 3, the next finds 9",
        ),
        ({"updates": [update(DUNE, {**DUNE, "id": "b7"})]}, "changes the key"),
        (
            {
                "inserts": [book(id="b9")],
                "updates": [update({"id": "b9"}, {"id": "b9", "copies": 1})],
                "deletes": [book(id="b9", copies=1)],
            },
            "in an order nobody recorded",
        ),
    ],
)
def test_a_journal_that_contradicts_itself_has_no_reading(
    ground: Ground, diff: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        fold_journal(ground, journal_from(diff))
