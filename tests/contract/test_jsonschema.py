"""The published JSON Schema: current, valid, and true of every contract of the packs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from statediff.contract.document.jsonschema import (
    contract_schema,
    sandbox_schema,
    state_schema_schema,
)

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = sorted((ROOT / "contracts").glob("*/*/contract.yaml"))
SCHEMAS = sorted((ROOT / "sandboxes").glob("*/schema.yaml"))
SANDBOXES = sorted((ROOT / "sandboxes").glob("*/pack.yaml"))


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


@cache
def validator(schema: Callable[[], dict[str, Any]]) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("contract.schema.json", contract_schema),
        ("state.schema.json", state_schema_schema),
        ("sandbox.schema.json", sandbox_schema),
    ],
)
def test_the_published_schema_is_the_one_of_the_code(name: str, make: Any) -> None:
    published = json.loads((ROOT / "docs" / name).read_text())
    assert published == make(), f"write it again: statediff schema … > docs/{name}"
    jsonschema.Draft202012Validator.check_schema(published)


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda p: p.parent.name)
def test_every_contract_of_the_packs_is_valid_by_the_published_schema(path: Path) -> None:
    validator(contract_schema).validate(read(path))


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda p: p.parent.name)
def test_every_state_schema_of_the_packs_is_valid_by_the_published_schema(path: Path) -> None:
    validator(state_schema_schema).validate(read(path))


@pytest.mark.parametrize("path", SANDBOXES, ids=lambda p: p.parent.name)
def test_every_sandbox_of_the_packs_is_valid_by_the_published_schema(path: Path) -> None:
    validator(sandbox_schema).validate(read(path))


def test_a_misspelt_key_is_invalid_by_the_published_schema() -> None:
    contract = read(CONTRACTS[0])
    contract["forbidd"] = contract.pop("forbid")
    with pytest.raises(jsonschema.ValidationError):
        validator(contract_schema).validate(contract)
