"""One base for many runs: what is edited is exactly what was asked, the rest is shared."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_lab.importers.states import Base, Edit, record_of

from statediff.contract.document.schemafile import parse_schema_file
from statediff.errors import InputError
from statediff.model.schema import Kind

DOCUMENT = {
    "user": [{"id": f"u{i:03}", "name": f"n{i}", "age": i} for i in range(300)],
    "team": [{"id": 1, "user": "u000"}],
    "note": [],
}


def user(number, **other):
    return {"id": f"u{number:03}", "name": f"n{number}", "age": number, **other}


def rows(capture, name):
    return dict(capture.parts[0].state.tables[name].rows())


def test_an_edit_changes_its_row_and_shares_every_other_chunk():
    base = Base("app", DOCUMENT)
    before, after = base.pair([], [Edit("user", user(5), user(5, name="new"))])
    assert rows(after, "user")[("u005",)]["name"] == "new"
    one, other = (c.parts[0].state.tables["user"].chunks for c in (before, after))
    assert [a == b for a, b in zip(one, other, strict=True)] == [i != 0 for i in range(10)]
    assert rows(base.capture(), "user")[("u005",)]["name"] == "n5"


@given(st.dictionaries(st.integers(0, 320), st.one_of(st.none(), st.text(max_size=3)), max_size=12))
def test_a_run_made_of_the_base_is_the_state_built_from_nothing(changes):
    known = {i: user(i) for i in range(300)}
    edits = []
    for number, name in changes.items():
        after = None if name is None else user(number, name=name)
        if number in known or after is not None:
            edits.append(Edit("user", known.get(number), after))
            known[number] = after
    _, after = SHARED.pair([], edits)
    whole = {**DOCUMENT, "user": [u for u in known.values() if u is not None]}
    fresh = {u["id"]: u for u in whole["user"]}
    assert {k[0]: dict(r) for k, r in rows(after, "user").items()} == fresh


SHARED = Base("app", DOCUMENT)


def test_what_the_run_found_already_changed_is_in_the_capture_before():
    base = Base("app", DOCUMENT)
    moved = [Edit("user", user(1), user(1, age=99))]
    before, after = base.pair(moved, [Edit("user", user(1, age=99), None)])
    assert rows(before, "user")[("u001",)]["age"] == 99
    assert ("u001",) not in rows(after, "user")


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Edit("user", None, user(3)), "u003 is created, and is there already"),
        (Edit("user", user(400), user(400)), "u400 is changed, and is not there"),
        (Edit("user", None, {"id": None, "name": "x", "age": 1}), "has no id"),
        (Edit("user", None, {"id": ("x",), "name": "x", "age": 1}), "has no id"),
    ],
)
def test_an_edit_that_contradicts_the_base_is_refused(edit, why):
    with pytest.raises(InputError, match=why):
        Base("app", DOCUMENT).pair([], [edit])


def test_a_field_a_kind_and_a_type_that_only_a_run_has_widen_the_schema_for_both_sides():
    base = Base("app", DOCUMENT)
    before, after = base.pair(
        [],
        [
            Edit("user", user(1), user(1, age=Decimal("1.5"), nick="z")),
            Edit("note", None, {"id": 1, "text": "hi"}),
            Edit("fresh", None, {"id": 1}),
        ],
    )
    for capture in (before, after):
        types = capture.parts[0].state.schema.by_name
        assert types["user"].by_name["age"].kind is Kind.DECIMAL
        assert types["user"].by_name["nick"].is_nullable
        assert types["note"].key == ("id",)
        assert "fresh" in types
    assert base.schema.by_name["user"].by_name["age"].kind is Kind.INT


def test_references_are_inferred_and_the_file_refines_what_was():
    base = Base("app", DOCUMENT)
    assert base.schema.by_name["team"].by_name["user"].reference == "user"
    refined = parse_schema_file(
        b"schema: app\nversion: 1.0.0\nentities:\n  person: {table: user}\n", "schema.yaml"
    )
    capture = Base("app", DOCUMENT, refined).pair([], [Edit("user", user(2), None)])[1]
    assert len(rows(capture, "person")) == 299


def test_a_record_without_a_key_is_one_of_a_multiset():
    base = Base("app", {"line": [{"x": 1}, {"x": 1}]})
    _, after = base.pair([], [Edit("line", {"x": 1}, {"x": 2})])
    assert sorted(row["x"] for row in rows(after, "line").values()) == [1, 2]
    with pytest.raises(InputError, match="is not there"):
        base.pair([], [Edit("line", {"x": 3}, None)])


def test_hints_tell_what_a_type_without_records_looks_like():
    base = Base("app", {"note": []}, hints={"note": [{"id": 4, "text": "t"}]})
    assert base.schema.by_name["note"].key == ("id",)
    assert not rows(base.capture(), "note")


def test_json_becomes_values_of_the_model():
    assert record_of({"a": [1, {"b": None}]})["a"][0] == 1
