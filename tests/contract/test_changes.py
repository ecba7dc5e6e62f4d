"""A new version's changes of a contract, schema or pack, and how far its number must rise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from statediff.contract.authoring.changes import (
    Change,
    Comparison,
    Touches,
    compare_contracts,
    compare_packs,
    compare_schemas,
)

SEMANTICS, EVIDENCE, PRESENTATION = Touches
HEAD: dict[str, Any] = {"contract": "a/b", "version": "1.0.0"}


def changes(old: dict[str, Any], new: dict[str, Any]) -> tuple[Change, ...]:
    return compare_contracts(HEAD | old, HEAD | new, False).changes


@pytest.mark.parametrize(
    ("old", "new", "where", "touches"),
    [
        ({"owner": "me"}, {"owner": "you"}, "owner", PRESENTATION),
        ({"frame": {"open": "a"}}, {"frame": {"open": "b"}}, "frame.open", PRESENTATION),
        ({"frame": "closed"}, {"frame": {"open": "b"}}, "frame", SEMANTICS),
        ({"intent": "a"}, {"intent": "b"}, "intent", SEMANTICS),
        ({"noop": True}, {"noop": False}, "noop", SEMANTICS),
        ({"disputed": "a"}, {"disputed": "b"}, "disputed", SEMANTICS),
        ({"inputs": {"because": 1}}, {"inputs": {"because": 2}}, "inputs.because", SEMANTICS),
        ({"require": [{"id": "r", "set": {"id": 1}}]}, {"require": [{"id": "r", "set": {"id": 2}}]},
         "require.r.set.id", SEMANTICS),
        ({"require": [{"id": "r", "from": {"id": 1}}]},
         {"require": [{"id": "r", "from": {"id": 2}}]}, "require.r.from.id", SEMANTICS),
        ({"answer": {"schema": {"id": "int"}}}, {"answer": {"schema": {"id": "text"}}},
         "answer.schema.id", SEMANTICS),
        ({"identify": [{"type": "mail", "match_on": {"id": "nfc@1"}}]},
         {"identify": [{"type": "mail", "match_on": {"id": "nfkc@1"}}]},
         "identify.mail.match_on.id", SEMANTICS),
        ({"evidence": {"db": {"max_age": "5s"}}}, {"evidence": {"db": {"max_age": "9s"}}},
         "evidence.db.max_age", EVIDENCE),
        ({"forbid": [{"on": "x", "count": 1}]}, {"forbid": [{"on": "x", "count": 2}]},
         "forbid.x.count", SEMANTICS),
    ],
)  # fmt: skip
def test_every_change_of_a_contract_is_of_one_class(
    old: dict[str, Any], new: dict[str, Any], where: str, touches: Touches
) -> None:
    (change,) = changes(old, new)
    assert (change.where, change.kind, change.touches) == (where, "changed", touches)


def test_an_intent_is_for_people_where_both_versions_have_a_prompt() -> None:
    said = {"intent": "a", "prompt": "do it"}
    (change,) = changes(said, said | {"intent": "b"})
    assert change.touches is PRESENTATION
    for one, other in ((said, {"intent": "b"}), ({"intent": "b"}, said)):
        assert {c.where: c.touches for c in changes(one, other)} == {
            "intent": SEMANTICS, "prompt": SEMANTICS,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("section", "area"),
    [("canonicalize", "canonicalize"), ("identify", "resolver"), ("exclude", "boundary"),
     ("sandbox", "pack"), ("require", "require")],
)  # fmt: skip
def test_a_change_names_the_part_of_the_evaluation_it_belongs_to(section: str, area: str) -> None:
    assert changes({}, {section: "x"}) == (Change(area, section, "added", SEMANTICS, None, "x"),)
    assert changes({section: "x"}, {}) == (Change(area, section, "removed", SEMANTICS, "x", None),)


def places(old: Any, new: Any) -> list[tuple[str, str, str | None, str | None]]:
    found = changes({"require": old}, {"require": new})
    return [(c.where, c.kind, c.before, c.after) for c in found]


def test_lists_of_named_things_are_compared_by_name_whatever_their_order() -> None:
    one, two = {"id": "one", "count": 1}, {"id": "two", "count": 1}
    assert places([one, two], [two, one]) == []
    assert places([one, two], [{**two, "count": 2}, one]) == [
        ("require.two.count", "changed", "1", "2")
    ]
    assert places([one], [one, {"what": "x.y"}]) == [
        ("require.x.y", "added", None, '{"what": "x.y"}')
    ]
    assert places([one, two], [one]) == [
        ("require.two", "removed", '{"id": "two", "count": 1}', None)
    ]
    rule = {"use": "nfc@1", "on": ["a.b"], "because": "accents"}
    assert places([rule], [{**rule, "because": "ü"}]) == [
        ('require.nfc@1 on ["a.b"].because', "changed", "accents", "ü")
    ]
    assert places([{"type": "mail", "version": 1}], [{"type": "mail", "version": 2}]) == [
        ("require.mail.version", "changed", "1", "2")
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([{"id": "a"}, {"id": "a"}], [{"id": "a"}]),
        ([1, 2], [2, 1]),
        ([{"count": 1}], [{"count": 2}]),
        ([{"id": 1}], [{"id": 2}]),
        ([{"id": "a"}, 7], [{"id": "a"}, 8]),
        ([{"id": "a"}], "a"),
        ({"id": "a"}, [{"id": "a"}]),
        ("a", {"id": "a"}),
        (1, True), ([1], [True]),
        (1, Decimal(1)), (Decimal("1.0"), Decimal("1.00")), ("1", 1), (None, False),
    ],
)  # fmt: skip
def test_what_has_no_names_of_its_own_is_changed_as_a_whole(old: Any, new: Any) -> None:
    assert [c[:2] for c in places(old, new)] == [("require", "changed")]
    assert places(old, old) == places(new, new) == []


def test_values_are_shown_as_they_were_written() -> None:
    assert places(Decimal("1.50"), {"ü": Decimal("1.50")}) == [
        ("require", "changed", '"1.50"', '{"ü": "1.50"}')
    ]


def compared(
    old: str, new: str, changed: dict[str, Any], same_bytes: bool = False, name: str = "a/b"
) -> Comparison:
    return compare_contracts(
        {"contract": "a/b", "version": old}, {"contract": name, "version": new} | changed,
        same_bytes,
    )  # fmt: skip


WORDS, READ, TASK = {"owner": "me"}, {"evidence": {"db": {}}}, {"noop": True}


@pytest.mark.parametrize(
    ("changed", "touches", "bump", "least"),
    [
        (WORDS, PRESENTATION, "patch", "1.2.4"),
        (READ, EVIDENCE, "minor", "1.3.0"),
        (TASK, SEMANTICS, "major", "2.0.0"),
        (WORDS | READ, EVIDENCE, "minor", "1.3.0"),
        (WORDS | READ | TASK, SEMANTICS, "major", "2.0.0"),
        ({}, PRESENTATION, "patch", "1.2.4"),
    ],
)
def test_the_gravest_change_says_which_part_of_the_version_must_rise(
    changed: dict[str, Any], touches: Touches, bump: str, least: str
) -> None:
    found = compared("1.2.3", "1.2.4", changed)
    assert (found.touches, found.bump, found.least_version) == (touches, bump, least)


def test_the_same_bytes_demand_no_other_version() -> None:
    found = compared("1.2.3", "1.2.3", {}, same_bytes=True)
    assert (found.touches, found.bump, found.least_version) == (None, None, "1.2.3")
    assert found.is_raised_enough
    assert compared("1.2.3", "1.2.4", {}, same_bytes=True).is_raised_enough
    assert not compared("1.2.3", "1.2.2", {}, same_bytes=True).is_raised_enough


@pytest.mark.parametrize(
    ("changed", "enough", "not_enough"),
    [
        (WORDS, ("1.2.4", "1.3.0", "2.0.0"), ("1.2.3", "1.2.2", "1.1.9", "0.9.9", "draft")),
        (READ, ("1.3.0", "1.3.9", "2.0.0"), ("1.2.3", "1.2.4", "1.1.9", "0.9.9")),
        (TASK, ("2.0.0", "2.9.9", "3.0.0"), ("1.2.3", "1.2.4", "1.9.9", "0.9.9")),
    ],
)
def test_a_version_is_raised_enough_if_the_part_that_must_rise_did(
    changed: dict[str, Any], enough: tuple[str, ...], not_enough: tuple[str, ...]
) -> None:
    for version in enough:
        assert compared("1.2.3", version, changed).is_raised_enough, version
    for version in not_enough:
        assert not compared("1.2.3", version, changed).is_raised_enough, version


def test_another_contract_has_versions_of_its_own() -> None:
    found = compared("1.2.3", "0.1.0", TASK, name="a/c")
    assert (found.old, found.new, found.old_version, found.new_version) == (
        "a/b", "a/c", "1.2.3", "0.1.0",
    )  # fmt: skip
    assert found.is_raised_enough
    assert found.kind == "contract"
    assert [c.where for c in found.changes] == ["contract", "noop"]


SCHEMA: dict[str, Any] = {
    "schema": "shop", "version": "1.0.0",
    "types": [{"type": "order", "table": "t", "source": "db",
               "fields": {"cents": {"kind": "int", "column": "c"}}}],
}  # fmt: skip


def test_where_a_schema_is_read_is_evidence_and_what_it_means_is_the_task() -> None:
    new = {
        "schema": "shop", "version": "1.1.0",
        "types": [{"type": "order", "table": "u", "source": "replica",
                   "fields": {"cents": {"kind": "text", "column": "d"}}}],
    }  # fmt: skip
    found = compare_schemas(SCHEMA, new, False)
    assert {c.where: (c.area, c.touches) for c in found.changes} == {
        "types.order.table": ("schema", EVIDENCE),
        "types.order.source": ("schema", EVIDENCE),
        "types.order.fields.cents.column": ("schema", EVIDENCE),
        "types.order.fields.cents.kind": ("schema", SEMANTICS),
    }
    assert (found.kind, found.old, found.new) == ("state schema", "shop", "shop")
    assert (found.old_version, found.new_version, found.same_bytes) == ("1.0.0", "1.1.0", False)
    assert compare_schemas(SCHEMA, SCHEMA, True).touches is None


def test_what_had_no_version_has_its_first_one() -> None:
    assert compare_schemas({"schema": "a"}, {"schema": "b"}, False).least_version == "1.0.0"
    assert compare_packs({"about": "a"}, {"about": "b"}, ({}, {})).least_version == "0.0.1"


PACK: dict[str, Any] = {
    "sandbox": "shop", "version": "1.0.0", "about": "a shop", "real": ["db"],
    "simulated": ["mail"], "sources": {"db": "sqlite"}, "agent": {"role": "clerk"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "touches"),
    [("about", "b", PRESENTATION), ("real", [], PRESENTATION), ("simulated", [], PRESENTATION),
     ("sources", {}, EVIDENCE), ("agent", {}, SEMANTICS)],
)  # fmt: skip
def test_what_a_pack_says_of_itself_is_for_people_and_its_sources_are_evidence(
    key: str, value: Any, touches: Touches
) -> None:
    found = compare_packs(PACK, PACK | {key: value, "version": "1.0.1"}, ({}, {}))
    assert {(c.area, c.touches) for c in found.changes} == {("pack", touches)}
    assert (found.kind, found.old, found.new) == ("pack", "shop", "shop")
    assert (found.old_version, found.new_version) == ("1.0.0", "1.0.1")
    assert not found.same_bytes


def test_the_files_of_a_pack_are_its_base_state_and_its_schemas_are_compared_as_such() -> None:
    schema = compare_schemas(SCHEMA, SCHEMA | {"types": []}, False)
    found = compare_packs(PACK, PACK, ({"base.sql": "1"}, {"base.sql": "2"}), (schema,))
    assert found.changes == (
        Change("base state", "files.base.sql", "changed", SEMANTICS, "1", "2"), *schema.changes,
    )  # fmt: skip
    assert not found.same_bytes
    assert compare_packs(PACK, PACK, ({"a": "1"}, {"a": "1"})).touches is None
