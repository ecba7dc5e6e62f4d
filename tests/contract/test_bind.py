"""The binding of each clause, and the words for what cannot be bound: read against two fixtures.

Each holds contracts without their head, and below each, after `=>`, what comes of it. Where one
differs, the test shows what it is now; read it, and put it there if it is right.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from statediff.contract.binding.bound import Contract
from statediff.contract.file import parse_contract
from statediff.contract.language.english import operand
from statediff.contract.language.syntax import Canonical, Node, Read, walk
from statediff.errors import ContractError
from statediff.kernel import compile_contract
from statediff.model.paths import FieldPath
from statediff.model.schema import EntityType, Field, Kind, Schema
from tests.judging import TYPES, contract

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "binding"
EVENT = EntityType(
    "event",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("at", Kind.TIMESTAMP),
        Field("local", Kind.LOCAL_TIMESTAMP),
        Field("day", Kind.DATE),
        Field("rate", Kind.FLOAT),
        Field("sum", Kind.DECIMAL),
        Field("more", Kind.MAP),
        Field("item", Kind.INT, reference="item"),
        Field("from", Kind.TEXT),
    ),
)
NOTE = EntityType("note", (), (), is_open=True)
ROLE = EntityType("db.role", ("name",), (Field("name", Kind.TEXT, is_nullable=False),))
SCHEMA = Schema("world", "1", tuple(sorted((*TYPES, EVENT, NOTE, ROLE), key=lambda t: t.name)))
PARTS = (
    "forbid", "require", "allow", "claims", "effects", "evidence", "derived", "alternatives",
    "steps", "actions", "turns",
)  # fmt: skip


def bound(body: str) -> Contract:
    file = parse_contract(contract(body).encode(), "c.yaml")
    return compile_contract(file, SCHEMA).contract


def cases(name: str) -> list[tuple[str, str]]:
    text = (FIXTURES / name).read_text(encoding="utf-8")
    found = [case.partition("=>\n") for case in text.split("---\n")[1:]]
    return [(body, expected) for body, _, expected in found]


def shown(value: Any) -> Any:
    """A bound thing as one line: nodes in words, what is as by default left out."""
    match value:
        case Node():
            ruled = (part for part in walk(value) if isinstance(part, Canonical))
            rules = "".join(f", by the rules of {r.entity_type}.{r.field}" for r in ruled)
            return f"<{operand(value)}{rules}>"
        case FieldPath():
            return str(value)
        case Read():
            return f"{value.root}.{value.type}.{value.field}"
        case Enum():
            return value.value
        case frozenset():
            return sorted(shown(each) for each in value)
        case tuple():
            return [shown(each) for each in value]
        case Mapping():
            return {name: shown(each) for name, each in value.items()}
        case _ if is_dataclass(value):
            told = ((f, getattr(value, f.name)) for f in fields(value))
            return {f.name: shown(v) for f, v in told if f.default is MISSING or v != f.default}
        case _:
            return value


def told(error: ContractError) -> Iterator[str]:
    """Every problem, behind its code."""
    for problem in error.problems:
        yield f"{problem.code} {str(problem).removeprefix('c.yaml:')}"


def lines(of: Contract) -> Iterator[str]:
    for part in PARTS:
        found = getattr(of, part)
        for each in found if isinstance(found, tuple) else (found,) if found else ():
            yield f"{part}: {shown(each)}"


@pytest.mark.parametrize(("body", "expected"), cases("bound.txt"))
def test_what_is_bound_is_what_was_read_and_agreed(body: str, expected: str) -> None:
    assert "".join(f"{line}\n" for line in lines(bound(body))) == expected


@pytest.mark.parametrize(("body", "expected"), cases("problems.txt"))
def test_every_problem_is_told_at_its_place_with_the_way_out(body: str, expected: str) -> None:
    with pytest.raises(ContractError) as caught:
        bound(body)
    assert "".join(f"{line}\n" for line in told(caught.value)) == expected
