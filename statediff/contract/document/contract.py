"""The contract as a document: its keys, their shapes and defaults, before any schema is known.

These models are what the published JSON Schema is generated from. They check shape only; names,
types and expressions are checked against a state schema in `contract/binding/bind.py`. Nothing is
coerced: `1.0` is no text, `true` no number, `"5"` no count. A field's description completes the
sentence "expected …" in an error message (`contract/yaml/shape.py`) and is what an editor shows.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from statediff.contract.document.access import Access
from statediff.contract.document.conduct import Actions, Step, Turn
from statediff.contract.document.parts import (
    Count,
    Expression,
    Identifier,
    Part,
    Reason,
    TypeName,
    TypeNames,
    Version,
)
from statediff.contract.document.rubric import Rubric
from statediff.contract.document.sections import (
    Answer,
    Effect,
    Evidence,
    OpenFrame,
    Transition,
    Weights,
)

Scalar = bool | int | Decimal | str | None
OPERATIONS = ("create", "update", "delete", "link", "unlink", "any")


class Exclude(Part):
    """A field or type outside the observation boundary Ω, and why."""

    what: Annotated[str, Field(description="TYPE or TYPE.FIELD")]
    because: Reason


class Canonicalize(BaseModel):
    """One use of a versioned canonicalization rule. Further keys are the rule's parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    use: Annotated[
        str,
        Field(pattern=r"^[a-z][a-z0-9_-]*@[0-9]+$", description="rule@version, e.g. timestamp@1"),
    ]
    on: Annotated[
        tuple[str | tuple[str, ...], ...],
        Field(
            min_length=1,
            description="TYPE.FIELD, or a list of parallel TYPE.FIELDs zipped together",
        ),
    ]
    because: Reason

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Identify(Part):
    """A versioned rule that pairs entities of a type without a stable key by natural key."""

    type: TypeName
    match_on: Annotated[
        dict[str, str | None],
        Field(min_length=1, description="FIELD: rule@version, or nothing for raw equality"),
    ]
    version: Annotated[int, Field(ge=1, description="a whole number of at least 1")]
    because: Reason


class Cascade(Part):
    """How many rows of a type the system may add or remove with one matched entity."""

    max: Annotated[int, Field(ge=1, description="a whole number of at least 1")]


class Clause(Part):
    """A pattern over deltas, or (with `that` alone) an expression over the states."""

    id: Identifier | None = None
    create: TypeNames | None = None
    update: TypeNames | None = None
    delete: TypeNames | None = None
    link: TypeNames | None = None
    unlink: TypeNames | None = None
    any: TypeNames | None = None
    where: Expression | None = None
    set: Annotated[
        dict[str, Any] | None, Field(description="a mapping of fields to their values after")
    ] = None
    from_: Annotated[
        dict[str, Any] | None,
        Field(alias="from", description="a mapping of fields to their values before"),
    ] = None
    fields: Annotated[tuple[str, ...] | None, Field(description="a list of field names")] = None
    count: Annotated[
        Annotated[int, Field(ge=0)] | Literal["every"] | Count | None,
        Field(description="a whole number of at least 0, `every`, or a mapping of min and max"),
    ] = None
    that: Expression | None = None
    by: Literal["agent", "user", "system"] | None = None
    during: Literal["run"] | None = None
    distinct: Annotated[tuple[str, ...] | None, Field(description="a list of clause ids")] = None
    cascade: Annotated[
        dict[TypeName, Cascade] | None,
        Field(description="a mapping of entity types to `max`, the most rows for one entity"),
    ] = None
    because: Reason | None = None

    @property
    def operation(self) -> str | None:
        return next((op for op in OPERATIONS if getattr(self, op) is not None), None)

    @property
    def types(self) -> tuple[str, ...]:
        named = getattr(self, self.operation) if self.operation else ()
        return (named,) if isinstance(named, str) else tuple(named)

    @field_validator("fields")
    @classmethod
    def _some_field(
        cls, fields: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        # A guard that can never fire would pass every run.
        if fields == () and info.data.get("update") is not None:
            raise ValueError(
                "`fields` is empty, so no `update` is ever selected; name a field, or leave it out"
            )
        return fields

    @model_validator(mode="after")
    def _one_operation(self) -> Clause:
        named = [op for op in OPERATIONS if getattr(self, op) is not None]
        if len(named) > 1:
            raise ValueError(f"names both {named[0]} and {named[1]}; a clause has one operation")
        if not named and self.that is None:
            raise ValueError(f"needs one of {', '.join(OPERATIONS)}, or `that` with an expression")
        if not named:
            for key in ("where", "set", "from_", "fields", "count", "by", "distinct", "cascade"):
                if getattr(self, key) is not None:
                    raise ValueError(f"`{key.rstrip('_')}` needs an operation such as `update:`")
        return self


class Derive(Part):
    """A field that the system itself keeps equal to an expression over the same state."""

    id: Identifier | None = None
    field: Annotated[str, Field(description="TYPE.FIELD")]
    is_: Annotated[Expression, Field(alias="is")]
    because: Reason


class BranchClauses(Part):
    """One way that is right: clauses that are judged together, with a frame of their own."""

    forbid: Annotated[tuple[Clause, ...], Field(description="a list of clauses (Γ)")] = ()
    require: Annotated[tuple[Clause, ...], Field(description="a list of clauses (Φ)")] = ()
    allow: Annotated[tuple[Clause, ...], Field(description="a list of clauses")] = ()

    @model_validator(mode="after")
    def _has_a_clause(self) -> BranchClauses:
        if not (self.forbid or self.require):
            raise ValueError("a branch with no forbid or require would match anything; state one")
        return self


Branches = Annotated[
    dict[Identifier, BranchClauses],
    Field(min_length=2, description="a mapping of at least two names to require, allow, forbid"),
]


class Disputed(Part):
    """Readings of a task whose right outcome is itself unsettled, and why it is."""

    because: Reason
    readings: Branches


class ContractDocument(Part):
    """One contract: (Ω, Φ, ν, Γ, Λ, A) plus inputs and answer [SSD eq. 2]."""

    contract: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9_/.-]{0,199}$",
            description="a name in lower case, e.g. shop/refund-returned-order",
        ),
    ]
    version: Version
    owner: Annotated[
        str, Field(min_length=1, max_length=200, description="who answers for this contract")
    ]
    reviewed: Annotated[
        bool,
        Field(description="false while it is a draft that nobody has read clause by clause"),
    ] = True
    intent: Annotated[
        str,
        Field(
            min_length=10,
            max_length=4000,
            description="what the run must bring about, in 10 to 4000 characters",
        ),
    ]
    prompt: Annotated[
        str | None,
        Field(
            max_length=20000,
            description=("what the agent is told; {name} stands for an input. Default: the intent"),
        ),
    ] = None
    sandbox: Identifier | None = None
    inputs: dict[
        Annotated[
            str,
            Field(
                pattern=r"^[a-z_][a-z0-9_]*$",
                description="a name of lower-case letters, digits and `_`",
            ),
        ],
        Any,
    ] = {}
    noop: Annotated[bool, Field(description="true if doing nothing is right, else false")] = False
    frame: Annotated[
        Literal["closed"] | OpenFrame,
        Field(description="`closed`, or a mapping of open to a reason"),
    ] = "closed"
    exclude: Annotated[
        tuple[Exclude, ...], Field(description="a list of what lies outside Ω, with reasons")
    ] = ()
    canonicalize: Annotated[
        tuple[Canonicalize, ...], Field(description="a list of versioned rules (ν), with reasons")
    ] = ()
    identify: Annotated[
        tuple[Identify, ...],
        Field(description="a list of versioned rules of identity, with reasons"),
    ] = ()
    forbid: Annotated[
        tuple[Clause, ...], Field(description="a list of clauses (Γ), judged first")
    ] = ()
    require: Annotated[tuple[Clause, ...], Field(description="a list of clauses (Φ)")] = ()
    allow: Annotated[
        tuple[Clause, ...], Field(description="a list of clauses: permitted, not required")
    ] = ()
    derive: Annotated[
        tuple[Derive, ...], Field(description="a list of fields that the system itself keeps")
    ] = ()
    any_of: Branches | None = None
    disputed: Disputed | None = None
    transition: Transition | None = None
    effects: Annotated[
        tuple[Effect, ...],
        Field(description="a list of kinds of effect (Λ) and what holds for them"),
    ] = ()
    evidence: Annotated[
        dict[str, Evidence], Field(description="a mapping of the sources that must report (A)")
    ] = {}
    replayable: Annotated[
        dict[Literal["MATCH", "DIVERGE", "INCONCLUSIVE"], Literal["reviewer", "auditor"]],
        Field(
            description="a mapping of verdicts to the tier whose copy must suffice to replay them"
        ),
    ] = {}
    weights: Weights = Weights()
    steps: Annotated[
        tuple[Step, ...],
        Field(description="a list of what must hold along the run, whatever its path"),
    ] = ()
    actions: Actions | None = None
    turns: Annotated[
        tuple[Turn, ...],
        Field(description="a list of the user's messages and what must hold after each"),
    ] = ()
    answer: Answer = Answer()
    access: Access | None = None
    rubric: Rubric | None = None

    @model_validator(mode="after")
    def _has_a_clause(self) -> ContractDocument:
        conduct = self.steps or self.actions is not None or self.turns or self.access is not None
        stated = (self.forbid, self.require, self.answer.claims, self.any_of, self.disputed)
        if not any((*stated, self.transition)) and not conduct:
            raise ValueError(
                "a contract with no forbid, require or claim would match anything; state one"
            )
        if self.any_of and self.disputed:
            raise ValueError(
                "names both `any_of` and `disputed`; if each reading has alternatives, write every "
                "combination as a reading of its own"
            )
        return self


_UNITS = {
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
