"""What a contract asks a model about a run that matched; no verdict rests on the answer."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field, WithJsonSchema

from statediff.contract.document.parts import Identifier, Part

Criterion = Annotated[
    str,
    Field(
        min_length=10,
        max_length=1000,
        description="what must be true of the run, in 10 to 1000 characters",
    ),
]


class Rubric(Part):
    """What a model judges where every clause holds; it is shown and never changes a verdict."""

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
