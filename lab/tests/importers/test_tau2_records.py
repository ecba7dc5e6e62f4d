"""How states of any domain become typed records, and what a run cannot make of them."""

from __future__ import annotations

from typing import Any

import pytest
from statediff_lab.importers.tau2.domain import infer_layout

from statediff.errors import InputError
from statediff.model.values import Map

SHOP: dict[str, Any] = {
    "users": {
        "u1": {
            "name": {"first": "Ann", "last": "Lee"},
            "cards": {"c1": {"id": "c1", "kind": "visa"}, "c2": {"id": "c2", "kind": "gift"}},
            "orders": ["o1"],
        },
        "u2": {"name": {"first": "Bo", "last": "Li"}, "cards": {}, "orders": []},
    },
    "orders": {
        "o1": {
            "user_id": "u1",
            "paid": [{"amount": 5}, {"amount": 7}],
            "options": {"color": "red"},
        },
        "o2": {"user_id": "u2", "paid": [], "options": {"size": "M"}},
    },
}
PHONES: dict[str, Any] = {
    "company": {"lines": [{"line_id": "L1", "plan_id": "P"}, {"line_id": "L2", "plan_id": "P"}]},
    "user": {"device": {"on": True, "apn": {"url": "x"}}, "place": {"abroad": False}},
}


def records(state: Any, rows: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    return dict(infer_layout(state, rows).document(state))


def edited(state: Any, after: Any, rows: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    return [
        (e.type, (e.before or {}).get("id"), (e.after or {}).get("id"))
        for e in infer_layout(state, rows).edits(state, after)
    ]


def with_(state: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    return {**state, path[0]: with_(state.get(path[0], {}), path[1:], value)}


def test_objects_that_all_entities_share_become_fields_and_others_stay_values() -> None:
    found = records(SHOP)
    assert found["users"][0]["name_first"] == "Ann"
    assert found["orders"][0]["options"] == Map.of({"color": "red"})


def test_objects_that_name_their_own_key_are_entities_of_their_own() -> None:
    assert records(SHOP)["users_cards"] == [
        {"id": "u1/c1", "kind": "visa", "users": "u1"},
        {"id": "u1/c2", "kind": "gift", "users": "u1"},
    ]


def test_a_list_called_like_a_type_is_no_reference() -> None:
    assert records(SHOP)["users"][0]["orders_list"] == ("o1",)


def test_lists_that_the_pack_calls_rows_are_entities_by_place() -> None:
    found = records(SHOP, ("orders.paid",))
    assert [(r["id"], r["amount"], r["orders"]) for r in found["orders_paid"]] == [
        ("o1/1", 5, "o1"),
        ("o1/2", 7, "o1"),
    ]
    assert "paid" not in found["orders"][0]


def test_databases_of_two_sides_lists_and_single_entities_are_told_apart() -> None:
    found = records(PHONES)
    assert {name: [r["id"] for r in rows] for name, rows in found.items()} == {
        "lines": ["L1", "L2"],
        "device": ["device"],
        "place": ["place"],
    }
    assert found["device"][0]["apn_url"] == "x"


def test_the_order_of_a_list_of_entities_is_no_change() -> None:
    turned = with_(PHONES, ("company", "lines"), PHONES["company"]["lines"][::-1])
    assert edited(PHONES, turned) == []


def test_nothing_in_a_place_and_no_place_are_two_states() -> None:
    bare = {k: v for k, v in SHOP["users"]["u2"].items() if k != "cards"}
    assert edited(SHOP, with_(SHOP, ("users", "u2"), bare)) == [("users", "u2", "u2")]
    other = {k: v for k, v in SHOP["orders"]["o2"].items() if k != "paid"}
    after = with_(SHOP, ("orders", "o2"), other)
    assert edited(SHOP, after, ("orders.paid",)) == [("orders", "o2", "o2")]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("users", "u2", "name"), {}, [("users", "u2", "u2")]),
        (("users", "u2", "name", "first"), "Bob", [("users", "u2", "u2")]),
        (("users", "u2", "name"), None, [("users", "u2", "u2")]),
        (("users", "u2", "name", "middle"), "X", [("users", "u2", "u2")]),
        (("users", "u1", "cards", "c1", "kind"), "amex", [("users_cards", "u1/c1", "u1/c1")]),
        (("users", "u2", "cards", "c9"), {"id": "c9"}, [("users_cards", None, "u2/c9")]),
        (("orders", "o3"), {"user_id": "u1"}, [("orders", None, "o3")]),
        (("orders", "o1", "options"), {}, [("orders", "o1", "o1")]),
        (("orders",), {}, [("orders", "o1", None), ("orders", "o2", None)]),
        (("orders",), None, [("orders", "o1", None), ("orders", "o2", None)]),
    ],
)
def test_every_change_is_an_edit(path: tuple[str, ...], value: Any, expected: list[Any]) -> None:
    assert edited(SHOP, with_(SHOP, path, value)) == expected


def test_rows_that_are_no_objects_any_more_are_a_change_of_the_list() -> None:
    after = with_(SHOP, ("orders", "o1", "paid"), [1])
    assert ("orders", "o1", "o1") in edited(SHOP, after, ("orders.paid",))


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("users", "u1", "name_first"), "Eve", "two fields are called name_first"),
        (("users", "u3"), "no entity", "expected an object"),
        (("audit",), {"a": {"id": "a"}}, "audit changed, but is no collection"),
        (("orders",), [1], "expected an object of entities"),
    ],
)
def test_what_could_hide_a_change_is_refused(path: tuple[str, ...], value: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        edited(SHOP, with_(SHOP, path, value))


@pytest.mark.parametrize("lines", [[{"line_id": "L1"}, {"line_id": "L1"}], [{"plan": "P"}], "none"])
def test_a_list_whose_entities_cannot_be_told_apart_after_a_run_is_refused(lines: Any) -> None:
    with pytest.raises(InputError, match=r"line_id|expected a list"):
        edited(PHONES, with_(PHONES, ("company", "lines"), lines))


@pytest.mark.parametrize(
    "state", [{}, {"a": {"x": [{"n": 1}, {"n": 2}]}}, {"a b": {"1": {"n": 1}}}]
)
def test_a_state_that_shows_no_collections_is_refused(state: Any) -> None:
    with pytest.raises(InputError):
        infer_layout(state).document(state)
