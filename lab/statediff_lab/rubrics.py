"""A rubric: what a model is asked about runs that matched, from a file beside contracts."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import Field, WithJsonSchema

from statediff.contract.document.load import read_bytes
from statediff.contract.parts import Identifier, Part
from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model

Criterion = Annotated[
    str,
    Field(
        min_length=10,
        max_length=1000,
        description="what must be true of the run, in 10 to 1000 characters",
    ),
]


class Rubric(Part):
    """A model's criteria where every clause holds; they are shown and never change a verdict."""

    criteria: Annotated[
        dict[Identifier, Criterion],
        Field(
            min_length=1,
            max_length=20,
            description="a mapping of names to what must be true of the run, in words",
        ),
    ]
    floor: Annotated[
        Decimal | int,
        Field(ge=0, le=1),
        WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
        Field(
            description="the least precision at which the answer is used, 0 to 1",
            json_schema_extra={"default": 0.9},  # else it is published as text
        ),
    ] = Decimal("0.9")


def read_rubric(path: Path) -> Rubric:
    """The rubric in a file. `UsageError`, or `ContractError` with the place."""
    return as_model(read_document(read_bytes(path), str(path)), Rubric)
