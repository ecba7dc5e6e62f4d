"""The reads of an expression: of which side, of which type, which field."""

from __future__ import annotations

import pytest

from statediff.contract.language.calls import CALLS
from statediff.contract.language.names import Scope
from statediff.contract.language.parser import parse
from statediff.contract.language.syntax import ANY, CollectionT, EntityT, footprint
from statediff.model.schema import EntityType, Field, Kind, Schema

ITEM = EntityType(
    "item",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("n", Kind.INT),
        Field("next", Kind.INT, reference="item"),
    ),
)
SCOPE = Scope(
    Schema("reads", "1", (ITEM,)),
    {"n": 1},
    {"m": "int"},
    {
        "it": EntityT("item"),
        "new": EntityT("item"),
        "them": CollectionT("item"),
        "reply": ANY,
        **CALLS,
    },
    has_now=True,
)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("1 == 2", []),
        ("input.n == 1", ["input .n"]),
        ("answer.m == 1", ["answer .m"]),
        ("reply == 'a'", ["trace reply."]),
        ("it.n == 1", ["after item.n", "before item.n"]),
        ("new.n == 1", ["after item.n"]),
        ("count(before.item) == 1", ["before item."]),
        ("count(after.item) == 1", ["after item."]),
        ("count(now.item) == 1", ["after item.", "before item."]),
        ("count(created.item) == 1", ["after item.", "delta item."]),
        ("count(linked.item) == 1", ["after item.", "delta item."]),
        ("count(updated.item) == 1", ["after item.", "delta item."]),
        ("count(deleted.item) == 1", ["before item.", "delta item."]),
        ("count(unlinked.item) == 1", ["before item.", "delta item."]),
        ("before.item[1].n == 1", ["before item.", "before item.n"]),
        ("after.item[1].n == 1", ["after item.", "after item.n"]),
        ("now.item[1].n == 1", ["after item.", "after item.n", "before item.", "before item.n"]),
        ("before.item[input.n].n == 1", ["before item.", "before item.n", "input .n"]),
        (
            "before.item[1].next.n == 1",
            ["before item.", "before item.n", "before item.next"],
        ),
        ("new.next.n == 1", ["after item.", "after item.n", "after item.next"]),
        (
            "it.next.n == 1",
            ["after item.", "after item.n", "after item.next", "before item.", "before item.n",
             "before item.next"],
        ),
        (
            "all(x.n > 0 for x in before.item if x.id > 1 for y in them if y.n == 2)",
            ["after item.n", "before item.", "before item.id", "before item.n", "after item.id"],
        ),
        ("call.tool == 'a'", ["trace @call.", "trace @call.tool"]),
        ("count(calls) == 1", ["trace @call."]),
        ("all(c.attempt == 1 for c in calls)", ["trace @call.", "trace @call.attempt"]),
        ("count(them) == 1", []),
    ],
)  # fmt: skip
def test_an_expression_reads_this(text: str, reads: list[str]) -> None:
    found = footprint(parse(text, SCOPE))
    assert sorted(f"{read.root} {read.type}.{read.field}" for read in found) == sorted(reads)
