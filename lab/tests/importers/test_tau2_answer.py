"""An agent's answer, and the claims about it."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
import re2
from statediff_lab.importers.tau2.answer import SILENT, answer_of, claim, claims

from statediff.model.values import Map


def said(text: str, role: str = "assistant") -> Map:
    found = answer_of([{"role": role, "text": text}])
    assert isinstance(found, Map)
    return found


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It costs $1,327.00.", ["1327.00"]),
        ("Order #W2378156, item 7706410293", ["7706410293"]),
        ("-16.63 or 16.63", ["-16.63", "16.63"]),
        ("on 2025-02-25", ["2", "25", "2025"]),
        ("64GB, v2, 1.2.3", []),
        ("10 T-shirts, ten more", ["10"]),
        ("twice 5 and 5", ["5"]),
    ],
)
def test_numbers_are_what_was_said_exactly(text: str, numbers: list[str]) -> None:
    found = said(text).get("numbers")
    assert isinstance(found, tuple)
    assert sorted(map(str, found)) == sorted(numbers)


@pytest.mark.parametrize(
    ("info", "text", "told"),
    [
        ("tactile", "The switch is Tactile.", True),
        ("white", "whiteboard", False),
        ("IL", "I will ship it", False),
        ("IL", "Chicago, IL 60621", True),
        ("64GB", "it has 64 GB of storage", True),
        ("20 hours", "it runs for 20  hours!", True),
        ("943 Maple Drive", "943 maple drive, suite 356", True),
        ("a.c", "abc", False),
        ("(.*", "anything", False),
    ],
)
def test_words_are_told_as_words(info: str, text: str, told: bool) -> None:
    found = re2.search(r'matches\(answer\.text, (".*")\)$', claim(info))
    assert found is not None
    pattern = json.loads(found[1])
    assert (re2.fullmatch(pattern, said(text).get("text")) is not None) is told


@pytest.mark.parametrize("info", ["327", "1,327", "$180.10", "-5"])
def test_a_number_is_claimed_by_its_value(info: str) -> None:
    value = info.replace(",", "").replace("$", "")
    assert claim(info) == f"any(n == {value} for n in answer.numbers)"


def test_a_number_that_stands_in_the_state_is_claimed_of_the_state() -> None:
    cells = {Decimal("22.55"): "-after.orders[1].difference"}
    assert (
        claim("$22.550", cells) == "any(n == -after.orders[1].difference for n in answer.numbers)"
    )
    assert claim("22.56", cells) == "any(n == 22.56 for n in answer.numbers)"
    assert "matches" in claim("white", cells)


def test_an_agent_that_said_nothing_has_no_answer() -> None:
    assert answer_of([]) is SILENT
    assert answer_of([{"role": "user", "text": "327"}]) is SILENT


def test_claims_are_named_and_none_stands_twice() -> None:
    assert [c["id"] for c in claims(["10", "10", "white", " "])] == ["told-1", "told-2"]
