"""Every word of the language is known to the JSON Schema, the reference and `explain`."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from statediff.contract.document.jsonschema import contract_schema
from statediff.contract.language.english import operand
from statediff.contract.language.names import FUNCTIONS
from statediff.contract.language.parser import Scope, parse
from tests.contract.mutants import EVERY_WORD
from tests.contract.test_evaluation import SCHEMA

BUILD = Path(__file__).parents[2] / "docs" / "build_reference.py"
REFERENCE = runpy.run_path(str(BUILD))["reference"]()
SAID = {
    "all": "all(x.n > 0 for x in after.item)",
    "any": "any(x.n > 0 for x in after.item)",
    "unique": "unique(x.n for x in after.item)",
    "sum": "sum(x.n for x in after.item) == 1",
    "min": "min(x.n for x in after.item) == 1",
    "max": "max(x.n for x in after.item) == 1",
    "count": "count(x for x in after.item) == count(ONE.t, 'a')",
    "exists": "exists(ONE)",
    "len": "len(ONE.t) == 1",
    "within": "within(ONE.n, 2, 1)",
    "matches": "matches(ONE.t, 'a+')",
    "contains": "contains(ONE.t, 'a')",
    "starts_with": "starts_with(ONE.t, 'a')",
    "ends_with": "ends_with(ONE.t, 'a')",
    "timestamp": "timestamp(ONE.t) == timestamp('2026-01-31T12:00:00Z')",
    "date": "date(ONE.t) == date('2026-01-31')",
    "search": "search(ONE.t, 'a+')",
    "mentions": "mentions(ONE.t, 'a')",
    "lower": "lower(ONE.t) == 'a'",
    "same_items": "same_items(ONE.tags, ['a'])",
}


def test_every_key_of_the_json_schema_is_in_the_reference() -> None:
    shape = contract_schema()
    keys = {key for part in (shape, *shape["$defs"].values()) for key in part.get("properties", ())}
    assert {"use", "extract", "actor", "leaves", "over"} <= keys
    assert keys <= set(re.findall(r"^\| `([a-z_0-9]+)` \|", REFERENCE, re.MULTILINE))


def test_every_function_is_in_the_reference_and_has_words_of_its_own() -> None:
    assert {*SAID, "reaches"} == FUNCTIONS.keys()
    assert all(f"| `{name}(" in REFERENCE for name in FUNCTIONS)
    for name, text in SAID.items():
        assert f"{name}(" not in operand(parse(text.replace("ONE", "after.item[1]"), Scope(SCHEMA)))


def document(data: bytes) -> Any:
    return YAML(typ="safe", pure=True).load(data)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("date(ONE.t) < date('2026-01-31')", "is before 2026-01-31"),
        ("date(ONE.t) >= date('2026-01-31')", "is not before 2026-01-31"),
        ("timestamp(ONE.t) > timestamp('2026-01-31T12:00:00Z')", "is after 2026-01-31T12:00"),
        ("timestamp(ONE.t) <= timestamp('2026-01-31T12:00:00Z')", "is not after 2026-01-31T12:00"),
        ("ONE.n > 3", "is more than 3"),
    ],
)
def test_of_two_times_one_is_before_the_other(expression: str, words: str) -> None:
    text = expression.replace("ONE", "after.item[1]")
    assert words in operand(parse(text, Scope(SCHEMA)))


def test_the_language_is_valid_by_the_published_schema() -> None:
    jsonschema.validate(document(EVERY_WORD), contract_schema())
