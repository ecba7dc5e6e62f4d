"""Keys and references that nobody declared, from what exports of databases look like."""

from __future__ import annotations

from statediff_lab.importers.states import Base

DOCUMENT = {
    "users": [{"user_id": "U1", "name": "a"}, {"user_id": "U2", "name": "b"}],
    "channels": [{"channel_id": "C1", "owner_id": "U1", "kind": "x"}],
    "channel_members": [
        {"channel_id": "C1", "user_id": "U1"},
        {"channel_id": "C1", "user_id": "U2"},
    ],
    "user_teams": [{"user_id": "U1", "team_id": "T1", "role": "owner"}],
    "categories": [{"id": 1, "parentId": 1, "categoryId": None}],
    "tries": [{"id": 1, "note_id": 1}],
    "log": [{"text": "x"}, {"text": "x"}],
    "empty": [],
}


def types():
    return Base("app", DOCUMENT).schema.by_name


def test_a_key_is_called_id_or_like_its_type_or_is_all_that_identifies_a_row():
    found = {name: entity.key for name, entity in types().items()}
    assert found == {
        "users": ("user_id",),
        "channels": ("channel_id",),
        "channel_members": ("channel_id", "user_id"),
        "user_teams": ("team_id", "user_id"),
        "categories": ("id",),
        "tries": ("id",),
        "log": (),
        "empty": ("id",),
    }


def test_rows_that_only_join_two_others_are_an_association():
    assert {n for n, e in types().items() if e.is_association} == {"channel_members"}


def test_a_column_refers_by_its_name_or_by_text_that_is_a_key_of_one_type_only():
    found = {
        (name, f.name): f.reference for name, e in types().items() for f in e.fields if f.reference
    }
    assert found == {
        ("channels", "owner_id"): "users",
        ("channel_members", "channel_id"): "channels",
        ("channel_members", "user_id"): "users",
        ("user_teams", "user_id"): "users",
        ("categories", "categoryId"): "categories",
    }


def test_a_key_that_is_not_unique_is_none():
    rows = [{"user_id": "U1"}, {"user_id": "U1"}]
    assert Base("app", {"users": rows}).schema.by_name["users"].is_keyless
