"""What a contract says of the run itself: steps, actions and turns, as the document states them.

Steps are invariants and transition assertions, never a prescribed path [STA].
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from statediff.contract.document.parts import Count, Expression, Identifier, Part, Reason

Tool = Annotated[
    str, Field(min_length=1, max_length=200, description="the name of a tool, as the trace has it")
]
ActionClassName = Literal[
    "read",
    "reversible-update",
    "conditional-update",
    "irreversible-deletion",
    "permission-change",
    "schema-change",
    "notification",
    "unknown",
]
Happening = Annotated[
    str,
    Field(
        pattern=r"^(create|update|delete|link|unlink|any) [A-Za-z_][\w.]*$",
        description="an operation and a type, e.g. `create refund`",
    ),
]
FORMS = ("always", "on", "after_every_call", "effect", "calls")


class OnCall(Part):
    """The calls that a step is about: of a tool, of a class, or both."""

    tool: Tool | None = None
    class_: Annotated[ActionClassName | None, Field(alias="class")] = None

    @model_validator(mode="after")
    def _names_something(self) -> OnCall:
        if self.tool is None and self.class_ is None:
            raise ValueError("needs `tool`, `class` or both")
        return self


class Step(Part):
    """One assertion along the run, in one form: `always`, `on`, `after_every_call` and so on."""

    id: Identifier | None = None
    always: Annotated[
        Expression | None, Field(description="a condition over `now`, in every state of the run")
    ] = None
    on: Annotated[
        Tool | OnCall | None, Field(description="a tool, or a mapping of tool and class")
    ] = None
    that: Annotated[
        Expression | None,
        Field(description="what holds at each such call: a condition over `call` and `calls`"),
    ] = None
    after_every_call: Annotated[
        Expression | None, Field(description="a condition over `now`, `call` and `calls`")
    ] = None
    effect: Happening | None = None
    before: Happening | None = None
    calls: Annotated[
        Expression | None, Field(description="a condition that says which calls are counted")
    ] = None
    count: Annotated[
        Annotated[int, Field(ge=0)] | Count | None,
        Field(description="a whole number of at least 0, or a mapping of min and max"),
    ] = None
    because: Reason | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Step:
        named = [form for form in FORMS if getattr(self, form) is not None]
        if len(named) > 1:
            raise ValueError(f"names both {named[0]} and {named[1]}; a step has one form")
        if not named:
            raise ValueError(f"needs one of {', '.join(FORMS)}")
        partners = {"on": "that", "effect": "before", "calls": "count"}
        for form, partner in partners.items():
            if (form in named) != (getattr(self, partner) is not None):
                raise ValueError(
                    f"`{form}` needs `{partner}`"
                    if form in named
                    else f"`{partner}` belongs to `{form}`"
                )
        return self


class Permits(Part):
    """Calls by the class of their effect, by the name of their tool."""

    classes: Annotated[
        tuple[ActionClassName, ...], Field(description="a list of classes of action")
    ] = ()
    tools: Annotated[tuple[Tool, ...], Field(description="a list of tools")] = ()

    @model_validator(mode="after")
    def _names_something(self) -> Permits:
        if not (self.classes or self.tools):
            raise ValueError("needs `classes`, `tools` or both")
        return self


class Actions(Part):
    """Which calls the agent may make, and how often it may try one until it is right."""

    allow: Annotated[
        Permits | None, Field(description="a mapping of classes and tools; no call may be outside")
    ] = None
    forbid: Annotated[
        Permits | None, Field(description="a mapping of classes and tools; no call may be inside")
    ] = None
    attempts: Annotated[
        int | None,
        Field(ge=1, description="within how many attempts a call must succeed, a number from 1"),
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> Actions:
        if self.allow is None and self.forbid is None and self.attempts is None:
            raise ValueError("needs `allow`, `forbid` or `attempts`")
        return self


class Turn(Part):
    """One message of the user, and the predicates that hold once the agent is done with it."""

    id: Identifier | None = None
    user: Annotated[
        str, Field(min_length=1, max_length=20000, description="what the user says in this turn")
    ]
    then: Annotated[
        tuple[Expression, ...],
        Field(min_length=1, description="a list of conditions over `now`, `calls` and `reply`"),
    ]
