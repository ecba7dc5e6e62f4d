"""A name that only a run made changes no meaning of a contract, and makes none refused.

A field or type of the state after may be called as a contract writes a place inside a field, and a
field that had no value before may get one of any kind.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import statediff
from statediff import Verdict
from statediff.model.paths import FieldPath, PathError, parse

MATCH, DIVERGE = Verdict.MATCH, Verdict.DIVERGE
HEAD = """
contract: notes/late
version: 1.0.0
owner: support
intent: Do what is asked and change nothing else.
"""
ADA: dict[str, Any] = {"id": 3, "settings": {"limits": {"gb": 5}, "is_superuser": False}}
RAISED = """
require:
  - {id: raised, update: user, where: it.id == 3, set: {settings.limits.gb: 9}}
"""
NO_SUPERUSER = """
forbid:
  - {id: no-superuser, update: user, fields: [settings.is_superuser]}
allow:
  - {id: settings, update: user, fields: [settings]}
require:
  - {id: made, create: user}
"""
CARDS: dict[str, Any] = {
    "card": [{"id": 1, "owner": 1, "note": "a", "cents": None}],
    "owner": [{"id": 1}, {"id": 2}],
    "refund": [],
}
KEPT = """
forbid:
  - {id: kept, link: card.owner}
allow:
  - {id: cards, update: card}
require:
  - {id: made, create: owner}
"""
PLACE = "settings.limits.tb"
MADE = [*CARDS["owner"], {"id": 3}]


def verdict(body: str, before: Any, after: Any) -> Verdict:
    judged = statediff.judge(HEAD + body, before, after)
    assert statediff.replay(judged) is judged.verdict
    return judged.verdict


@pytest.mark.parametrize("decoy", [{}, {"settings.limits.gb": 9}, {"settings.limits": {"gb": 9}}])
def test_a_field_that_is_called_like_a_place_is_not_that_place(decoy: dict[str, Any]):
    raised = {**ADA, "settings": {**ADA["settings"], "limits": {"gb": 9}}}
    assert verdict(RAISED, {"user": [ADA]}, {"user": [raised]}) is MATCH
    assert verdict(RAISED, {"user": [ADA]}, {"user": [{**ADA, **decoy}]}) is DIVERGE
    power = {**ADA, "settings": {**ADA["settings"], "is_superuser": True}}
    for right, person in ((MATCH, ADA), (DIVERGE, power)):
        made = {"id": 4, "settings": {}, **decoy, "settings.is_superuser": None}
        assert verdict(NO_SUPERUSER, {"user": [ADA]}, {"user": [person, made]}) is right


def test_deltas_distinguish_a_field_from_the_place_that_it_is_called_like():
    body = """
require:
  - {id: more, update: user, where: it.id == 3, set: {settings.limits.tb: 9}}
"""
    judge = statediff.Judge(HEAD + body, {"user": [ADA]})
    more = {**ADA["settings"], "limits": {"gb": 5, "tb": 9}}
    for right, after in ((MATCH, {**ADA, "settings": more}), (DIVERGE, {**ADA, PLACE: 9})):
        deltas = statediff.changes({"user": [ADA]}, {"user": [after]})
        assert judge.score({"user": [after]}).verdict is right
        assert judge.score(list(deltas)).verdict is right


@pytest.mark.parametrize("decoy", [{}, {"card.owner": []}, {"card.owner": [{"id": 1}]}])
def test_a_type_that_is_called_like_a_reference_is_not_that_reference(decoy: dict[str, Any]):
    given = [{**CARDS["card"][0], "owner": 2}]
    after = {**CARDS, "owner": MADE, "card": given, **decoy}
    assert verdict(KEPT, CARDS, after) is DIVERGE


def test_a_type_that_is_called_like_a_field_is_not_excluded_with_it():
    body = """
exclude:
  - {what: card.note, because: the server writes it}
require:
  - {id: made, create: owner}
"""
    right = {**CARDS, "owner": MADE, "card": [{**CARDS["card"][0], "note": "b"}]}
    assert verdict(body, CARDS, right) is MATCH
    assert verdict(body, CARDS, {**CARDS, "owner": MADE, "card.note": [{"id": 1}]}) is DIVERGE


def test_a_table_that_is_called_like_a_reference_is_a_change(tmp_path: Path):
    made = """
        CREATE TABLE owner(id INTEGER PRIMARY KEY);
        CREATE TABLE card(id INTEGER PRIMARY KEY, owner INTEGER REFERENCES owner(id));
        INSERT INTO owner VALUES (1), (2);
        INSERT INTO card VALUES (1, 1);
    """
    run = """
        INSERT INTO owner VALUES (3);
        UPDATE card SET owner = 2;
        CREATE TABLE "card.owner"(id INTEGER PRIMARY KEY);
    """
    for name, script in (("before", made), ("after", made + run)):
        with sqlite3.connect(tmp_path / f"{name}.db") as db:
            db.executescript(script)
    before, after = (f"d={tmp_path / name}.db" for name in ("before", "after"))
    judged = statediff.judge(HEAD + KEPT, before, after)
    assert judged.verdict is DIVERGE
    assert judged.line.startswith("kept: ")


@pytest.mark.parametrize("written", ["10", True, [10], {"a": 10}, float("nan"), None, 9])
def test_a_value_of_another_kind_is_no_mistake_of_the_contract(written: object):
    """Neither in a field that had none before, nor in the first record of a type."""
    refunded = """
require:
  - {id: refunded, create: refund, where: it.card == 1 and it.cents >= 10}
"""
    asked = """
require:
  - {id: asked, update: card, where: it.id == 1, that: new.cents >= 10}
"""
    refund = {"id": 1, "card": 1, "cents": 10}
    card = CARDS["card"][0]
    assert verdict(refunded, CARDS, {**CARDS, "refund": [refund]}) is MATCH
    assert verdict(refunded, CARDS, {**CARDS, "refund": [{**refund, "cents": written}]}) is DIVERGE
    assert verdict(refunded, CARDS, {**CARDS, "refund": [{**refund, "card": written}]}) is DIVERGE
    assert verdict(asked, CARDS, {**CARDS, "card": [{**card, "cents": 10}]}) is MATCH
    assert verdict(asked, CARDS, {**CARDS, "card": [{**card, "cents": written}]}) is DIVERGE


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([{"id": 1, "cents": 10}], MATCH),
        ([{"cents": 10}], DIVERGE),
        ([{"id": None, "cents": 10}], DIVERGE),
        ([{"id": 1, "cents": 10}, {"cents": 10}], DIVERGE),
        ([], DIVERGE),
    ],
)
def test_records_without_a_key_are_no_mistake_of_the_contract(left: list[Any], right: Verdict):
    body = """
require:
  - {id: made, create: refund}
  - id: ten
    that: after.refund[1].cents == 10
"""
    assert verdict(body, CARDS, {**CARDS, "refund": left}) is right


def test_a_type_that_only_the_run_made_is_no_type_that_a_field_refers_to():
    body = """
require:
  - {id: dear, update: card, where: it.id == 1, that: new.cents + 0 == 10}
"""
    after = {**CARDS, "card": [{**CARDS["card"][0], "cents": 10}]}
    assert verdict(body, CARDS, after) is MATCH
    assert verdict(body, CARDS, {**after, "cents": [{"id": 10}]}) is DIVERGE


@pytest.mark.parametrize(
    ("text", "early", "late", "path"),
    [
        ("a.b", ["a"], ["a.b"], FieldPath("a", ("b",))),
        ("a.b.c", ["a"], ["a.b"], FieldPath("a", ("b", "c"))),
        ("a.b", ["a", "a.b"], [], FieldPath("a.b")),
        ("a.b", ["a", "a.b"], ["a.b.c"], FieldPath("a.b")),
        ("a.b", ["c"], ["a.b"], FieldPath("a.b")),
        ("a.b", [], ["a", "a.b"], FieldPath("a", ("b",))),
        ("a", ["c"], ["a"], FieldPath("a")),
        ("a[0]", ["c"], ["a", "a[0]"], FieldPath("a", (0,))),
        ("my field", ["c"], ["my field"], FieldPath("my field")),
        ("a.b", ["c"], ["d"], FieldPath("a", ("b",))),
    ],
)
def test_what_a_text_means_over_the_state_before_it_means_afterwards(
    text: str, early: list[str], late: list[str], path: FieldPath
):
    assert parse(text, [*late, *early], late) == path


def test_a_text_that_no_field_begins_is_refused_with_late_fields_too():
    with pytest.raises(PathError, match="does not begin with a field"):
        parse("9 lives", ["a"], ["b"])
