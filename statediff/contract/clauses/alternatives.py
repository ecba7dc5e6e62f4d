"""`any_of` and `disputed`: several right outcomes, each with clauses and a frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field, model_validator

from statediff.contract.clauses.kind import Binder, ClauseKind, JudgedAs, Path
from statediff.contract.clauses.patterns import (
    FORBID,
    Clauses,
    Condition,
    Pattern,
    bind_clauses,
    bind_patterns,
)
from statediff.contract.language.english import words
from statediff.contract.parts import Identifier, Part
from statediff.model.values import printable
from statediff.model.verdict import Stage

# ---------------------------------------------------------------- as written


class BranchClauses(Part):
    """One way that is right: clauses that are judged together, with a frame of their own."""

    forbid: Annotated[Clauses, Field(description="a list of clauses")] = ()
    require: Annotated[Clauses, Field(description="a list of clauses")] = ()
    allow: Annotated[Clauses, Field(description="a list of clauses")] = ()

    @model_validator(mode="after")
    def _has_a_clause(self) -> BranchClauses:
        if not (self.forbid or self.require):
            raise ValueError("a branch with no forbid or require would match anything; state one")
        return self


Branches = Annotated[
    dict[Identifier, BranchClauses],
    Field(min_length=2, description="a mapping of at least two names to require, allow, forbid"),
]


# ---------------------------------------------------------------- as bound


@dataclass(frozen=True)
class Branch:
    """One way that is right: clauses judged together, with a frame of their own."""

    name: str
    forbid: tuple[Pattern | Condition, ...]
    require: tuple[Pattern | Condition, ...]
    allow: tuple[Pattern, ...]

    @property
    def explaining(self) -> tuple[Pattern, ...]:
        """The patterns that explain changes."""
        return (*(c for c in self.require if isinstance(c, Pattern)), *self.allow)


@dataclass(frozen=True)
class Alternatives:
    """`any_of`: one branch must hold; where it is `disputed`, all should agree."""

    id: str
    branches: tuple[Branch, ...]
    sentence: str
    because: str = ""

    @property
    def is_disputed(self) -> bool:
        return self.id == "disputed"


# ---------------------------------------------------------------- binding


def _bind(
    binder: Binder, written: Mapping[str, BranchClauses] | None, disputed: str | None
) -> Iterator[Alternatives]:
    if written is None:
        return
    at: Path = ("any_of",)
    branches = tuple(
        Branch(
            name,
            tuple(
                bind_clauses(binder, (*at, name, "forbid"), Stage.FORBID, branch.forbid, f"{name}/")
            ),
            tuple(
                bind_clauses(
                    binder, (*at, name, "require"), Stage.REQUIRE, branch.require, f"{name}/"
                )
            ),
            bind_patterns(binder, (*at, name, "allow"), branch.allow, f"{name}/"),
        )
        for name, branch in written.items()
    )
    listed = ", ".join(map(words, written))
    if disputed:
        sentence = f"By every reading ({listed}) this is right; {printable(disputed)}."
        yield Alternatives("disputed", branches, sentence, disputed)
    else:
        sentence = f"One of these is done, and nothing else: {listed}."
        yield Alternatives("any_of", branches, sentence)


ALTERNATIVES: Final = ClauseKind(
    name="alternatives",
    sections=("any_of", "disputed"),
    judged=JudgedAs.ALTERNATIVES,
    bind=_bind,
    keys=("forbid", "require", "allow", *FORBID.keys),
    reserved=("any_of", "disputed"),
)
