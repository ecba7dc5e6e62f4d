"""What a contract says of reads: for whom, as of when, what may be seen and what must have been.

Everything fails closed [GE §3.1]: what no role grants is not seen, what has no time did not exist
yet, and a call that nobody can tie to artifacts leaves open what was read.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from statediff.contract.document.conduct import Tool
from statediff.contract.document.parts import Expression, Identifier, Part, Reason, TypeName

Person = Annotated[
    str, Field(min_length=1, max_length=200, description="a name of at most 200 characters")
]
Subsystems = Annotated[tuple[Identifier, ...], Field(description="a list of subsystems")]
Path = Annotated[
    str,
    Field(
        pattern=r"^(arguments|result)(\[\])?(\.[A-Za-z_][A-Za-z0-9_]*(\[\])?)*$",
        max_length=200,
        description="a path in a call, e.g. arguments.issue or result.issues[].issue",
    ),
]


class Subsystem(Part):
    """The entities that lie in one subsystem, and when each came to be."""

    type: TypeName
    where: Annotated[
        Expression | None, Field(description="a condition over `it`: which of them lie there")
    ] = None
    at: Annotated[
        Expression | None,
        Field(description="the instant at which `it` came to be, e.g. it.sent_at"),
    ] = None
    recorded_at: Annotated[
        Expression | None,
        Field(description="the instant from which `it` could be read, where that is later"),
    ] = None
    timeless: Reason | None = None
    participation: Annotated[
        Expression | None,
        Field(description="a condition over `it` that grants reading it, whatever the role"),
    ] = None
    title: Annotated[
        str | None, Field(max_length=200, description="the field that a search shows")
    ] = None
    text: Annotated[
        tuple[str, ...], Field(description="the fields that a search looks through")
    ] = ()

    @model_validator(mode="after")
    def _has_one_time(self) -> Subsystem:
        if self.at is not None and self.timeless is not None:
            raise ValueError("names both `at` and `timeless`; what came to be at a time has one")
        return self


class Place(Part):
    """Artifacts of a subsystem: all, or those that satisfy a condition."""

    in_: Annotated[Identifier, Field(alias="in", description="the name of a subsystem")]
    where: Annotated[Expression | None, Field(description="a condition over `it`")] = None


class Absence(Part):
    """What must have been looked at before something may be said not to be."""

    id: Identifier | None = None
    when: Annotated[
        Expression | None,
        Field(description="the claim, e.g. answer.exists == false; always where it is left out"),
    ] = None
    space: Annotated[
        tuple[Place, ...], Field(min_length=1, description="a list of places to look through")
    ]
    because: Reason | None = None


class ToRetrieve(Part):
    """Evidence that an answer must rest on: fetched and, where asked for, cited."""

    id: Identifier | None = None
    when: Annotated[
        Expression | None, Field(description="a condition over `answer`; else it is always needed")
    ] = None
    in_: Annotated[Identifier, Field(alias="in", description="the name of a subsystem")]
    where: Annotated[Expression | None, Field(description="a condition over `it`")] = None
    count: Annotated[
        int | None,
        Field(ge=1, description="how many suffice, from 1; all of them where it is left out"),
    ] = None
    cite: Annotated[bool, Field(description="true if each must be cited too")] = False
    because: Reason | None = None


class Reader(Part):
    """Another tool that reads: which artifacts a call of it names or delivers."""

    tool: Tool
    fetches: Identifier | None = None
    finds: Identifier | None = None
    key: Path

    @model_validator(mode="after")
    def _one_kind(self) -> Reader:
        if (self.fetches is None) == (self.finds is None):
            raise ValueError("needs either `fetches` or `finds`, with the name of a subsystem")
        if self.finds is not None and not self.key.startswith("result"):
            raise ValueError("what a search finds stands in its `result`")
        return self


class Aside(Part):
    """Tools that show nothing of any subsystem, and why that is so."""

    tools: Annotated[tuple[Tool, ...], Field(min_length=1, description="a list of tools")]
    because: Reason


class Access(Part):
    """For whom the agent acts, what may be read then, and what must have been."""

    actor: Person
    as_of: Annotated[
        str | None,
        Field(
            max_length=40,
            description="an instant with its zone, or a day; where left out, the run's begin",
        ),
    ] = None
    actors: Annotated[
        dict[Person, Identifier], Field(min_length=1, description="a mapping of actors to roles")
    ]
    roles: Annotated[
        dict[Identifier, Subsystems],
        Field(description="a mapping of roles to the subsystems that each may read"),
    ]
    broadcast: Annotated[
        tuple[Identifier, ...],
        Field(description="subsystems that every known actor may read"),
    ] = ()
    subsystems: Annotated[
        dict[Identifier, Subsystem],
        Field(min_length=1, description="a mapping of subsystems to what lies in them"),
    ]
    absence: Annotated[
        tuple[Absence, ...], Field(description="a list of what to search before denying it")
    ] = ()
    evidence: Annotated[
        tuple[ToRetrieve, ...], Field(description="a list of evidence to retrieve")
    ] = ()
    citations: Annotated[
        str | None, Field(description="the name in the answer under which it lists its sources")
    ] = None
    reads: Annotated[
        tuple[Reader, ...], Field(description="a list of other tools that read, and what")
    ] = ()
    aside: Aside | None = None
    submitted_by: Tool | None = None
