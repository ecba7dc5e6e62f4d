"""The published JSON Schema: current, valid, and true of every contract of the packs."""

from __future__ import annotations

import json
from collections.abc import Callable
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
PUBLISHED = [
    ("contract.schema.json", contract_schema, "contracts/*/*/contract.yaml"),
    ("state.schema.json", state_schema_schema, "sandboxes/*/schema.yaml"),
    ("sandbox.schema.json", sandbox_schema, "sandboxes/*/pack.yaml"),
]


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


@pytest.mark.parametrize(("name", "make", "pattern"), PUBLISHED)
def test_the_published_schema_is_the_one_of_the_code_and_true_of_what_is_shipped(
    name: str, make: Callable[[], dict[str, Any]], pattern: str
) -> None:
    published = json.loads((ROOT / "docs" / name).read_text())
    assert published == make(), f"write it again: statediff schema … > docs/{name}"
    jsonschema.Draft202012Validator.check_schema(published)
    shipped = sorted(ROOT.glob(pattern))
    assert shipped
    for path in shipped:
        jsonschema.Draft202012Validator(published).validate(read(path))


def test_a_misspelt_key_is_invalid_by_the_published_schema() -> None:
    contract = read(next(ROOT.glob(PUBLISHED[0][2])))
    contract["forbidd"] = contract.pop("forbid")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(contract_schema()).validate(contract)
