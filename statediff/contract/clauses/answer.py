"""`answer`: what the agent must say, and the claims that the states must confirm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from statediff.contract.clauses.kind import Binder, ClauseKind, JudgedAs, Path
from statediff.contract.clauses.patterns import Condition, bind_condition
from statediff.contract.parts import Expression, Identifier, Part
from statediff.model.verdict import Stage


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


def _bind(binder: Binder, answer: Answer) -> Iterator[Condition]:
    for index, claim in enumerate(answer.claims):
        given, text = (None, claim) if isinstance(claim, str) else (claim.id, claim.that)
        path: Path = ("answer", "claims", index)
        place = path if isinstance(claim, str) else (*path, "that")
        name = binder.name(("claim", index), given)
        bound = bind_condition(binder, name, Stage.ANSWER, place, text)
        if bound is not None:
            yield bound


CLAIMS: Final = ClauseKind(
    name="claims",
    sections=("answer",),
    judged=JudgedAs.CLAIM,
    bind=_bind,
    keys=("schema", "claims", "id", "that"),
    heading="What the answer must say",
    listed=("answer", "claims"),
    label="claim",
    reserved=("answer",),
    attributes={"node": "that"},
)
