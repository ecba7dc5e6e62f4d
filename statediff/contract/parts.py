"""Common parts of every document: names, durations, expressions, and strict mappings."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

Identifier = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$",
        description="a name of letters, digits, `_`, `.` and `-`, at most 100",
    ),
]
BESIDE: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
"""The name of a file in the contract's folder or below it."""
TypeName = Annotated[
    str,
    Field(
        pattern=r"^[^\x00-\x1f\x7f]{1,200}$",
        description="the name of an entity type, at most 200 characters",
    ),
]
TypeNames = Annotated[
    TypeName | Annotated[tuple[TypeName, ...], Field(min_length=1)],
    Field(description="the name of an entity type, or a list of them"),
]
Happening = Annotated[
    str,
    Field(
        pattern=r"^(create|update|delete|link|unlink|any) [^\x00-\x1f\x7f]{1,200}$",
        description="an operation and a type, e.g. `create refund`",
    ),
]
Duration = Annotated[
    str,
    Field(
        pattern=r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$",
        description="a number and its unit (ms, s, m, h or d), e.g. `5s`",
    ),
]
Expression = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4000,
        description="an expression, at most 4000 characters",
    ),
]
Reason = Annotated[
    str, Field(min_length=3, max_length=2000, description="a reason in words, 3 to 2000 characters")
]
Version = Annotated[
    str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", description="three numbers, e.g. 1.0.0")
]


class Part(BaseModel):
    """The base of all mappings with fixed keys: nothing extra, nothing coerced, nothing changed."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, strict=True, defer_build=True
    )


class Count(Part):
    """How many entities a pattern may match."""

    min: Annotated[int, Field(ge=0, description="a whole number of at least 0")] = 0
    max: Annotated[int, Field(ge=0, description="a whole number of at least 0")] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        if self.max is not None and self.max < self.min:
            raise ValueError("max is below min")
        return self


PLACEHOLDER: Final = re.compile(r"\{\{([a-z_][a-z0-9_]*)\}\}|\{([a-z_][a-z0-9_]*)\}")
"""Group 2 is the name of an input; `{{word}}`, group 1, is `{word}` as it stands."""


def placeholders(text: str) -> list[str]:
    """The names between braces in a prompt, those escaped by doubled braces left out."""
    return [name for _, name in PLACEHOLDER.findall(text) if name]


_UNITS: Final = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}


def seconds(duration: str) -> Decimal:
    """A duration such as `250ms` or `5s` in seconds, exact; `ValueError` for anything else."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)", duration)
    if found is None:
        raise ValueError(f"not a duration: {duration!r}; write e.g. 5s, 250ms, 2h")
    return Decimal(found[1]) * _UNITS[found[2]]
