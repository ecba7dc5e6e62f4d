"""The published JSON Schema: current, valid, and true of every contract of the packs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from statediff.contract.document.contract import ContractDocument
from statediff.contract.document.jsonschema import (
    contract_schema,
    sandbox_schema,
    state_schema_schema,
)
from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model

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


BY_IMPORTERS = {"by"}
"""Two of the imported packs, `tau2/mock` and `tau2/telecom`, say what the simulated user may do."""


def test_each_of_eighty_keys_is_used_by_two_contracts_or_a_whole_example() -> None:
    shape = contract_schema()
    known = {key for x in (shape, *shape["$defs"].values()) for key in x.get("properties", ())}
    assert len(known) <= 80
    shipped = Counter(key for path in ROOT.glob(PUBLISHED[0][2]) for key in set(used(path)))
    whole = [*ROOT.glob("docs/examples/*/contract.yaml"), *ROOT.glob("docs/examples/reads/[cp]*")]
    shown = {key for path in whole if path.suffix == ".yaml" for key in used(path)}
    assert known == {key for key in shipped if shipped[key] > 1} | shown | BY_IMPORTERS


def used(path: Path) -> Iterator[str]:
    """The keys of the language that a contract says, and none of its author's names."""
    yield from said(as_model(read_document(path.read_bytes(), path.name), ContractDocument))


def said(part: Any) -> Iterator[str]:
    if isinstance(part, BaseModel):
        for name in part.model_fields_set & type(part).model_fields.keys():
            yield type(part).model_fields[name].alias or name
            yield from said(getattr(part, name))
    elif isinstance(part, dict | tuple):
        for each in part.values() if isinstance(part, dict) else part:
            yield from said(each)


def test_a_misspelt_key_is_invalid_by_the_published_schema() -> None:
    contract = read(next(ROOT.glob(PUBLISHED[0][2])))
    contract["forbidd"] = contract.pop("forbid")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(contract_schema()).validate(contract)
