"""`answer`: what the agent must say, and the claims that the states must confirm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
_FORM: Final = re.compile(
    r"(?:(?P<after>[^{}]*)\{)?(?P<read>number|comma number|quoted)(?(after)\}(?P<before>[^{}]*))"
)


@dataclass(frozen=True)
class Extractor:
    """One value that is read from an answer in prose, if it is there in one way only."""

    read: Literal["number", "quoted", "name"]
    of: tuple[str, ...] = ()
    """The names of which one is read."""
    after: str = ""
    """The words that are directly before the value."""
    before: str = ""
    """The words that are directly after it."""
    is_comma: bool = False
    """True if numbers are written as 1.234,5."""

    @staticmethod
    def of_written(written: str | tuple[str, ...]) -> Extractor:
        """The reader of `refunded {number} EUR` or a list of names; `ValueError` otherwise."""
        if isinstance(written, tuple):
            return Extractor("name", written)
        found = _FORM.fullmatch(written.strip())
        if found is None:
            raise ValueError(
                f"`extract` reads a list of names, or a text with one of {{number}}, "
                f"{{comma number}} and {{quoted}}, not {written[:60]!r}"
            )
        read: Literal["number", "quoted"] = "quoted" if found["read"] == "quoted" else "number"
        after, before = ((found[side] or "").strip() for side in ("after", "before"))
        return Extractor(read, (), after, before, found["read"].startswith("comma"))


class Answer(Part):
    """The answer that the agent must give: names and types, and claims the state must confirm.

    With `extract` the answer is prose; what it reads from the text has the names.
    """

    schema_: Annotated[
        dict[str, Literal["int", "decimal", "text", "bool", "list", "map", "any"]],
        Field(alias="schema"),
    ] = {}
    extract: Annotated[
        dict[
            _Name,
            Annotated[str, Field(min_length=1, max_length=500)]
            | Annotated[
                tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
                Field(min_length=1, max_length=200),
            ],
        ]
        | None,
        Field(
            max_length=50,
            description="a mapping of names to what is read from an answer in prose: a list of "
            "names, or words with {number}, {comma number} or {quoted}",
        ),
    ] = None
    claims: tuple[
        Annotated[
            Expression | Claim, Field(description="an expression, or a mapping of id and that")
        ],
        ...,
    ] = ()

    @model_validator(mode="after")
    def _one_form(self) -> Answer:
        if self.extract is not None and self.schema_:
            raise ValueError("an answer in prose has no `schema`; name what is read in `extract`")
        if TEXT in self.extractors:
            raise ValueError(f"`{TEXT}` is the whole answer; give what is read another name")
        return self

    @property
    def form(self) -> Literal["json", "text"]:
        """`text` for prose, `json` for an object with names."""
        return "json" if self.extract is None else "text"

    @property
    def extractors(self) -> dict[str, Extractor]:
        """The extractors of values from prose, by name."""
        return {name: Extractor.of_written(each) for name, each in (self.extract or {}).items()}

    @property
    def asked(self) -> Mapping[str, str]:
        """The names that an answer must have, with their kinds."""
        read = {name: _KINDS.get(e.read, "text") for name, e in self.extractors.items()}
        return self.schema_ if self.extract is None else read

    @property
    def names(self) -> Mapping[str, str]:
        """The names that claims may use, with their kinds."""
        return self.schema_ if self.extract is None else {**self.asked, TEXT: "text"}


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
    keys=("schema", "extract", "claims", "id", "that"),
    named_by_author=(("answer", "extract"),),
    heading="The answer",
    listed=("answer", "claims"),
    label="claim",
    reserved=("answer",),
    attributes={"node": "that"},
)
