"""A contract that pins one path inside a JSON object: all else in the object is in the frame."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from statediff import api
from statediff.errors import ContractError
from tests.json_harms import BEFORE, CASES, CLAUSE, DOUBLED
from tests.judging import contract

DECLARED = {
    "declared JSON": ("CREATE TABLE user (id INTEGER PRIMARY KEY, settings JSON)", ""),
    "declared jsonb": ("CREATE TABLE user (id INTEGER PRIMARY KEY, settings JSONB)", ""),
    "with a check": (
        'CREATE TABLE user (id INTEGER PRIMARY KEY, "settings" TEXT, CHECK (Json_Valid(settings)))',
        "",
    ),
    "typed by the schema": (
        "CREATE TABLE user (id INTEGER PRIMARY KEY, settings TEXT)",
        "schema: s\nversion: 1.0.0\nentities: {user: {fields: {settings: {type: json}}}}\n",
    ),
    "a map by the schema": (
        "CREATE TABLE user (id INTEGER PRIMARY KEY, settings TEXT)",
        "schema: s\nversion: 1.0.0\nentities: {user: {fields: {settings: {type: map}}}}\n",
    ),
}


def database(path: Path, ddl: str, settings: str) -> Path:
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute(ddl)
        connection.executemany(
            "INSERT INTO user VALUES (?, ?)", [(1, json.dumps(BEFORE)), (3, settings)]
        )
    connection.close()
    return path


def tables(path: Path, settings: str) -> Path:
    path.write_text(
        f'{{"user": [{{"id": 1, "settings": {json.dumps(BEFORE)}}},'
        f' {{"id": 3, "settings": {settings}}}]}}'
    )
    return path


def judged(
    folder: Path, before: Path, after: Path, schema: str = "", clause: str = CLAUSE
) -> api.Judged:
    file = folder / "contract.yaml"
    file.write_text(contract(clause))
    more = {}
    if schema:
        (folder / "schema.yaml").write_text(schema)
        more["schema"] = folder / "schema.yaml"
    return api.judge(file, before=before, after=after, **more)


NAMES = [(case, name) for case in CASES for name in (*case[2], *case[3])]


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize(
    ("case", "name"), [*NAMES, *((CASES[0], name) for name in DOUBLED)], ids=lambda v: str(v)[:60]
)
def test_in_sqlite(case: Any, name: str, declared: str, tmp_path: Path) -> None:
    clause, settings, right, wrong = case
    ddl, schema = DECLARED[declared]
    before = database(tmp_path / "before.sqlite", ddl, json.dumps(settings))
    after = database(tmp_path / "after.sqlite", ddl, (right | wrong | DOUBLED)[name])
    wanted = "MATCH" if name in right else "DIVERGE"
    assert judged(tmp_path, before, after, schema, clause).verdict.value == wanted


@pytest.mark.parametrize(("case", "name"), NAMES, ids=lambda v: str(v)[:60])
def test_in_json_tables(case: Any, name: str, tmp_path: Path) -> None:
    clause, settings, right, wrong = case
    before = tables(tmp_path / "before.json", json.dumps(settings))
    after = tables(tmp_path / "after.json", (right | wrong)[name])
    wanted = "MATCH" if name in right else "DIVERGE"
    assert judged(tmp_path, before, after, clause=clause).verdict.value == wanted


def test_where_nothing_says_json_a_text_is_a_text(tmp_path: Path) -> None:
    ddl = "CREATE TABLE user (id INTEGER PRIMARY KEY, settings TEXT)"
    before = database(tmp_path / "before.sqlite", ddl, json.dumps(BEFORE))
    with pytest.raises(ContractError, match=r"there is nothing inside it.*type: json"):
        judged(tmp_path, before, before)


@pytest.mark.parametrize(
    ("that", "verdict"),
    [
        ('["c", "a"]', "MATCH"),
        ('["a", "c"]', "MATCH"),
        ('["a"]', "DIVERGE"),
        ('["a", "a"]', "DIVERGE"),
    ],
)
@pytest.mark.parametrize("guests", [["a", "c"], ["c", "a"]])
def test_a_list_that_is_written_out_is_a_multiset_where_the_field_is(
    guests: list[str], that: str, verdict: str, tmp_path: Path
) -> None:
    body = (
        "canonicalize: [{use: unordered@1, on: [event.guests], because: a set}]\n"
        f"require:\n  - id: invited\n    that: after.event[1].guests == {that}\n"
    )
    file = tmp_path / "contract.yaml"
    file.write_text(contract(body))
    state = {"event": [{"id": 1, "guests": guests}]}
    assert api.judge(file, before=state, after=state).verdict.value == verdict


@pytest.mark.parametrize(
    ("field", "value"),
    [("cents", "many"), ("cents", True), ("cents", [5]), ("tags", "b"), ("tags", {"b": 1}),
     ("paid", "no"), ("note", 5)],
)  # fmt: skip
@pytest.mark.parametrize(
    "where",
    ["it.cents - 1 > 100", 'any(t == "a" for t in it.tags)', "not it.paid and it.id == 1",
     'starts_with(it.note, "x")'],
)  # fmt: skip
def test_a_value_of_another_kind_is_a_change_and_the_contract_stays_valid(
    where: str, field: str, value: object, tmp_path: Path
) -> None:
    file = tmp_path / "contract.yaml"
    body = f"require:\n- id: paid\n  update: bill\n  where: {where}\n  set: {{paid: true}}\n"
    file.write_text(contract(body))
    bills = [
        {"id": 1, "cents": 199, "paid": False, "tags": ["a"], "note": "x"},
        {"id": 2, "cents": 50, "paid": False, "tags": ["b"], "note": "y"},
    ]
    before, right = {"bill": bills}, {"bill": [{**bills[0], "paid": True}, bills[1]]}
    assert api.judge(file, before=before, after=right).verdict.value == "MATCH"
    wrong = {"bill": [right["bill"][0], {**bills[1], field: value}]}
    assert api.judge(file, before=before, after=wrong).verdict.value == "DIVERGE"
    found = api.changes(before, wrong)
    assert [delta["path"] for delta in found if delta["key"] == 2] == [field]
