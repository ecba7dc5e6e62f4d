"""`answer`: what the agent must say, and the claims that the states must confirm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from statediff.contract.clauses.kind import Binder, ClauseKind, JudgedAs, Path
from statediff.contract.clauses.patterns import Condition, bind_condition
from statediff.contract.parts import Expression, Identifier, Part
from statediff.model.verdict import Stage


class Claim(Part):
    """One claim with a name of its own."""

    id: Identifier | None = None
    that: Expression


TEXT: Final = "text"
"""The name of the whole answer, where it is prose."""
_Name = Annotated[
    str,
    Field(
        pattern=r"^[a-z_][a-z0-9_]{0,99}$",
        description="a name of lower-case letters, digits and `_`",
    ),
]
_Words = Annotated[str, Field(min_length=1, max_length=200, description="words of the answer")]


class Extractor(Part):
    """One value that is read from an answer in prose, if it is there in one way only."""

    read: Literal["number", "quoted", "name"]
    of: Annotated[
        tuple[_Words, ...],
        Field(max_length=200, description="the names of which one is read, with `read: name`"),
    ] = ()
    after: Annotated[
        _Words | None, Field(description="the words that are directly before the value")
    ] = None
    before: Annotated[
        _Words | None, Field(description="the words that are directly after the value")
    ] = None
    decimal: Annotated[
        Literal["point", "comma"], Field(description="how numbers are written: 1,234.5 or 1.234,5")
    ] = "point"

    @model_validator(mode="after")
    def _of_names(self) -> Extractor:
        if (self.read == "name") != bool(self.of):
            raise ValueError(
                "`read: name` takes the names `of` which one is read, nothing else does"
            )
        return self


class Answer(Part):
    """What the agent must answer: names and types, and claims the state must confirm.

    `form: text` is an answer in prose; what `extract` reads from it has the names.
    """

    form: Annotated[
        Literal["json", "text"], Field(description="`json`, an object with names, or `text`, prose")
    ] = "json"
    schema_: Annotated[
        dict[str, Literal["int", "decimal", "text", "bool", "list", "map", "any"]],
        Field(alias="schema"),
    ] = {}
    extract: Annotated[
        dict[_Name, Literal["number", "quoted"] | Extractor],
        Field(
            max_length=50,
            description="a mapping of names to `number`, `quoted` or a mapping of `read`, of what "
            "is read from a text",
        ),
    ] = {}
    claims: tuple[
        Annotated[
            Expression | Claim, Field(description="an expression, or a mapping of id and that")
        ],
        ...,
    ] = ()

    @model_validator(mode="after")
    def _one_form(self) -> Answer:
        if self.form == "text" and self.schema_:
            raise ValueError("an answer in prose has no `schema`; name what is read in `extract`")
        if self.form != "text" and self.extract:
            raise ValueError("`extract` reads prose; say `form: text`, or name values in `schema`")
        if TEXT in self.extract:
            raise ValueError(f"`{TEXT}` is the whole answer; give what is read another name")
        return self

    @property
    def extractors(self) -> dict[str, Extractor]:
        """What is read from prose, by name."""
        return {
            name: Extractor(read=each) if isinstance(each, str) else each
            for name, each in self.extract.items()
        }

    @property
    def asked(self) -> Mapping[str, str]:
        """The names that an answer must have, with their kinds."""
        read = {name: _KINDS.get(e.read, "text") for name, e in self.extractors.items()}
        return read if self.form == "text" else self.schema_

    @property
    def names(self) -> Mapping[str, str]:
        """The names that claims may use, with their kinds."""
        return {**self.asked, TEXT: "text"} if self.form == "text" else self.schema_


_KINDS: Final = {"number": "decimal"}


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
    keys=("form", "schema", "extract", "claims", "id", "read", "of", "after", "before", "that"),
    named_by_author=(("answer", "extract"),),
    heading="The answer",
    listed=("answer", "claims"),
    label="claim",
    reserved=("answer",),
    attributes={"node": "that"},
)
