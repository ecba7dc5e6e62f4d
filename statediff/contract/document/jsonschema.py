"""JSON Schemas (draft 2020-12) of the documents people write, for editors to complete and check.

They say what the models say about shape. Names, types and expressions are checked by `lint`.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from statediff.contract.document.contract import ContractDocument
from statediff.contract.document.sandboxfile import SandboxDocument
from statediff.contract.document.schemafile import StateSchemaDocument

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def contract_schema() -> dict[str, Any]:
    """The JSON Schema of a contract."""
    return _publish(ContractDocument, "contract", "statediff contract")


def state_schema_schema() -> dict[str, Any]:
    """The JSON Schema of a state schema file."""
    return _publish(StateSchemaDocument, "state-schema", "statediff state schema")


def sandbox_schema() -> dict[str, Any]:
    """The JSON Schema of a sandbox file."""
    return _publish(SandboxDocument, "sandbox", "statediff sandbox")


class _Untitled(GenerateJsonSchema):
    """Without a title on every field: an editor shows its description instead."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _publish(model: type[BaseModel], name: str, title: str) -> dict[str, Any]:
    generated = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    for mapping in (generated, *generated["$defs"].values()):
        properties = mapping.get("properties", {})
        properties.update({key: _never_null(shape) for key, shape in properties.items()})
    return {
        "$schema": DIALECT,
        "$id": f"urn:statediff:schema:{name}:1",
        **generated,
        "title": title,
    }


def _never_null(shape: dict[str, Any]) -> dict[str, Any]:
    """A key is left out or has a value; `None` is only how the model says that it was left out."""
    choices = [choice for choice in shape.get("anyOf", ()) if choice != {"type": "null"}]
    if not choices or len(choices) == len(shape["anyOf"]):
        return shape
    rest = {name: said for name, said in shape.items() if name not in ("anyOf", "default")}
    return {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}
