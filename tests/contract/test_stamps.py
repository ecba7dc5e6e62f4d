"""`lint` names the fields that go with a mark of deletion, and that no clause explains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statediff.contract.file import parse_contract
from statediff.kernel import lint
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Observed
from tests.judging import capture, contract, part, state

SOFT = EntityType(
    "doc",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("title", Kind.TEXT),
        Field("touched", Kind.TEXT),
        Field("is_deleted", Kind.BOOL),
        Field("deleted_by", Kind.TEXT),
        Field("reason", Kind.TEXT),
    ),
    deleted_when="is_deleted",
)
WHERE = "where: it.id == 1"
GONE = f"require: [{{id: gone, delete: doc, {WHERE}}}]\n"
ALIVE: dict[str, Observed] = {"id": 1, "title": "x", "touched": "then", "is_deleted": False}
DEAD: dict[str, Observed] = {
    "id": 2, "title": "y", "touched": "now", "is_deleted": True, "deleted_by": "ann",
    "reason": "old",
}  # fmt: skip
BOTH = ALIVE, DEAD


def said(body: str, *rows: dict[str, Observed], of: EntityType = SOFT) -> list[tuple[str, str]]:
    base = capture("before", part("before", state({"doc": rows}, types=[of])))
    problems = lint(parse_contract(contract(body, noop=False).encode(), "c.yaml"), None, base)
    return [(p.message, p.hint or "") for p in problems if p.code == "stamps-unexplained"]


def test_what_only_deleted_entities_have_goes_with_the_mark() -> None:
    [(message, hint)] = said(GONE, ALIVE, DEAD)
    assert message == (
        "`gone` explains that `is_deleted` marks a doc as deleted, and no clause explains what "
        "goes with it: deleted_by, reason"
    )
    assert "add `- {update: doc, fields: [deleted_by, reason]}` under `allow`" in hint


def test_without_a_deleted_entity_the_names_say_what_goes_with_the_mark() -> None:
    [(message, _)] = said(GONE, ALIVE)
    assert message.endswith("goes with it: deleted_by")


def test_what_is_as_the_mark_is_goes_with_it() -> None:
    marked = replace(SOFT, deleted_when="deleted_by")
    dead = {**DEAD, "touched": "ann", "is_deleted": None, "reason": None}
    [(message, _)] = said(GONE, ALIVE, dead, of=marked)
    assert message.endswith("goes with it: touched")


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        # All of them are explained, or nothing goes with the mark here.
        (GONE + f"allow: [{{update: doc, {WHERE}, fields: [deleted_by, reason]}}]\n", BOTH),
        (GONE + f"allow: [{{update: doc, {WHERE}}}]\n", BOTH),
        (GONE, (ALIVE, {**DEAD, "deleted_by": None, "reason": None})),
        # No deletion is explained.
        (f"require: [{{update: doc, {WHERE}, set: {{title: z}}}}]\n", BOTH),
        ("require: [{create: doc, where: it.id == 3}]\nforbid: [{delete: doc}]\n", BOTH),
    ],
)  # fmt: skip
def test_nothing_is_said_where_nothing_is_left_out(body: str, rows: Any) -> None:
    assert said(body, *rows) == []


def test_a_hard_deletion_has_no_stamps() -> None:
    assert said(GONE, ALIVE, DEAD, of=replace(SOFT, deleted_when=None)) == []


def test_what_is_outside_the_boundary_needs_no_clause() -> None:
    outside = "exclude:\n" + "".join(
        f"  - {{what: doc.{name}, because: nobody minds}}\n" for name in ("deleted_by", "reason")
    )
    assert said(outside + GONE, ALIVE) == []
    assert said(outside + GONE, ALIVE, DEAD) == []
