"""Sections of a contract beside its clauses: recorded changes, transitions, effects, answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from statediff.contract.document.parts import (
    Duration,
    Expression,
    Identifier,
    Part,
    Reason,
    TypeName,
    Weight,
)


class Approval(Part):
    """An authorization by an approval that was there before the run and that the run let be."""

    approval: TypeName
    where: Annotated[
        Expression,
        Field(description="a condition over `approval`, the approval, and `it`, what was done"),
    ]


class RecordedChange(Part):
    """One change of a recorded reference. `{new: NAME}` stands for the key of a created entity."""

    create: TypeName | None = None
    update: TypeName | None = None
    delete: TypeName | None = None
    key: Annotated[Any, Field(description="a key, or a list of its parts")]
    set: Annotated[
        dict[str, Any] | None, Field(description="a mapping of fields to their values after")
    ] = None
    from_: Annotated[
        dict[str, Any] | None,
        Field(alias="from", description="a mapping of fields to their values before"),
    ] = None

    @property
    def operation(self) -> str:
        return next(op for op in ("create", "update", "delete") if getattr(self, op) is not None)

    @model_validator(mode="after")
    def _one_operation(self) -> RecordedChange:
        if sum(op is not None for op in (self.create, self.update, self.delete)) != 1:
            raise ValueError("needs one of create, update, delete")
        return self


class RecordedChanges(Part):
    """What a file beside the contract holds for `transition`."""

    changes: Annotated[tuple[RecordedChange, ...], Field(description="a list of changes")]


class Transition(Part):
    """Exactly the deltas of a recorded reference, written here or in a file beside the contract."""

    changes: Annotated[
        tuple[RecordedChange, ...] | None, Field(description="a list of changes")
    ] = None
    file: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$",
            max_length=200,
            description="the name of a file in the contract's folder or below it",
        ),
    ] = None
    sha256: Annotated[
        str | None,
        Field(pattern=r"^[0-9a-f]{64}$", description="the SHA-256 of the file, 64 digits"),
    ] = None
    because: Reason | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Transition:
        if (self.changes is None) == (self.file is None):
            raise ValueError("needs either `changes` or `file`")
        if (self.file is None) != (self.sha256 is None):
            raise ValueError("`file` and `sha256` stand together: the digest pins what is expected")
        return self


class Effect(Part):
    """Λ for one kind of effect: reversibility, authorization, compensation, retry safety."""

    on: Annotated[
        str,
        Field(
            pattern=r"^(create|update|delete|link|unlink|any) [A-Za-z_][\w.]*$",
            description="an operation and a type, e.g. `create refund`",
        ),
    ]
    reversibility: Literal["reversible", "conditional", "irreversible"] | None = None
    authorized_by: Annotated[
        Expression | Approval | None,
        Field(description="an expression, or a mapping of approval and where"),
    ] = None
    tool: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="the tool whose call has such an effect"),
    ] = None
    compensation: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="the tool that undoes such an effect"),
    ] = None
    retry_safe: bool | None = None


class Evidence(Part):
    """A source that must report, and how fresh its readings must be."""

    max_age: Duration | None = None
    authority: Annotated[
        tuple[str, ...],
        Field(description="types for which this source decides when sources differ"),
    ] = ()
    acknowledgement: Literal["sufficient"] | None = None
    history: Literal["required"] | None = None
    retain: Duration | None = None
    disclose: Literal["public", "reviewer", "auditor"] = "auditor"


class Claim(Part):
    """One claim with a name of its own."""

    id: Identifier | None = None
    that: Expression


class Answer(Part):
    """What the agent must answer: names and types, and claims the state must confirm."""

    schema_: Annotated[
        dict[str, Literal["int", "decimal", "text", "bool", "list", "map", "any"]],
        Field(alias="schema"),
    ] = {}
    claims: tuple[
        Annotated[
            Expression | Claim, Field(description="an expression, or a mapping of id and that")
        ],
        ...,
    ] = ()


class OpenFrame(Part):
    """A frame that leaves unexplained changes alone, and why."""

    open: Reason


class Weights(Part):
    """w(ℓ): what a delta of each reversibility weighs in the forbidden-effect rate [SSD eq. 6]."""

    reversible: Weight = 1
    conditional: Weight = 3
    irreversible: Weight = 10
