"""The contract as a document: its keys, their shapes and defaults, before any schema is known.

These models are what the published JSON Schema is generated from. They check shape only; names,
types and expressions are checked against a state schema in `contract/binding/bind.py`. Nothing is
coerced: `1.0` is no text, `true` no number, `"5"` no count. A field's description completes the
sentence "expected …" in an error message (`contract/yaml/shape.py`) and is what an editor shows.

A kind of clause is a key of `ContractDocument` and an entry of `KINDS`; the rest is in its module.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from statediff.contract.clauses.access import READS, Access
from statediff.contract.clauses.alternatives import ALTERNATIVES, Branches
from statediff.contract.clauses.answer import CLAIMS, Answer
from statediff.contract.clauses.conduct import ACTIONS, STEPS, TURNS, Actions, Step, Turn
from statediff.contract.clauses.derive import DERIVE, Derive
from statediff.contract.clauses.effects import EFFECTS, Effect
from statediff.contract.clauses.kind import ClauseKind
from statediff.contract.clauses.patterns import ALLOW, FORBID, REQUIRE, Clauses
from statediff.contract.document.profiles import Profile, ProfileName
from statediff.contract.parts import (
    BESIDE,
    Duration,
    Part,
    Reason,
    TypeName,
    Version,
)

KINDS: Final[tuple[ClauseKind, ...]] = (
    FORBID,
    REQUIRE,
    ALLOW,
    CLAIMS,
    EFFECTS,
    DERIVE,
    ALTERNATIVES,
    STEPS,
    ACTIONS,
    TURNS,
    READS,
)
"""Every kind of clause, in the order of binding: an id belongs to what is bound first."""


Tier = Literal["public", "reviewer", "auditor"]


class Exclude(Part):
    """A field or type outside the observation boundary, and why."""

    what: Annotated[str, Field(description="TYPE or TYPE.FIELD")]
    because: Reason


class Unread(Part):
    """A type or field of which the reader's account may not read all, and why.

    What of it is read is judged as ever; what is not is no part of the verdict, which says so.
    """

    what: Annotated[str, Field(description="TYPE or TYPE.FIELD")]
    because: Reason


RULE: Final = r"^[a-z][a-z0-9_-]*@[0-9]+$"
"""A rule and its version."""


class Canonicalize(BaseModel):
    """One use of a versioned canonicalization rule. Further keys are the rule's parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    use: Annotated[
        str,
        Field(pattern=RULE, description="rule@version, e.g. timestamp@1"),
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
        dict[str, Annotated[str, Field(pattern=RULE, description="rule@version")] | None],
        Field(min_length=1, description="FIELD: rule@version, or nothing for raw equality"),
    ]
    version: Annotated[int, Field(ge=1, description="a whole number of at least 1")]
    because: Reason


class Evidence(Part):
    """A source that must report, and how fresh its readings must be."""

    max_age: Duration | None = None
    authority: Annotated[
        tuple[str, ...],
        Field(description="types for which this source decides when sources differ"),
    ] = ()
    over: Literal["acknowledged"] | None = None
    history: Literal["required"] | None = None
    retain: Duration | None = None
    disclose: Tier = "auditor"


class OpenFrame(Part):
    """A frame that leaves unexplained changes alone, and why."""

    open: Reason


SandboxName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_./][^\x00-\x1f\x7f]{0,399}$",
        description="the name of a sandbox, or its path from this file, e.g. ./sandboxes/app",
    ),
]


class ContractDocument(Part):
    """One contract, with inputs and answer [SSD eq. 2]."""

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
            description=(
                "what the agent is given; {name} stands for an input, {{name}} for {name} itself. "
                "Default: the intent"
            ),
        ),
    ] = None
    sandbox: SandboxName | None = None
    use: Annotated[
        tuple[ProfileName, ...], Field(description="a profile, or a list: name@version")
    ] = ()
    profiles: Annotated[
        dict[ProfileName, Profile], Field(description="a mapping of profiles of your own")
    ] = {}
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
    cases: Annotated[
        str | None,
        Field(
            pattern=BESIDE,
            max_length=200,
            description="a file of inputs beside the contract (JSON lines, CSV, TSV): a case a row",
        ),
    ] = None
    noop: Annotated[bool, Field(description="true if doing nothing is right, else false")] = False
    frame: Annotated[
        Literal["closed"] | OpenFrame,
        Field(description="`closed`, or a mapping of open to a reason"),
    ] = "closed"
    exclude: Annotated[
        tuple[Exclude, ...],
        Field(description="a list of what is outside the boundary, with reasons"),
    ] = ()
    unread: Annotated[
        tuple[Unread, ...],
        Field(description="a list of what the reader's account may not read whole, with causes"),
    ] = ()
    canonicalize: Annotated[
        tuple[Canonicalize, ...], Field(description="a list of versioned rules, with reasons")
    ] = ()
    identify: Annotated[
        tuple[Identify, ...],
        Field(description="a list of versioned rules of identity, with reasons"),
    ] = ()
    forbid: Annotated[Clauses, Field(description="a list of clauses, judged first")] = ()
    require: Annotated[Clauses, Field(description="a list of clauses")] = ()
    allow: Annotated[Clauses, Field(description="a list of clauses: permitted, not required")] = ()
    derive: Annotated[
        tuple[Derive, ...], Field(description="a list of fields that the system itself keeps")
    ] = ()
    any_of: Branches | None = None
    disputed: Annotated[
        str | None,
        Field(
            min_length=3,
            max_length=2000,
            description="why nobody knows which branch of `any_of` is meant: all should agree",
        ),
    ] = None
    effects: Annotated[
        tuple[Effect, ...],
        Field(description="a list of kinds of effect and what holds for them"),
    ] = ()
    evidence: Annotated[
        dict[str, Evidence], Field(description="a mapping of the sources that must report (A)")
    ] = {}
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

    @field_validator("use", mode="before")
    @classmethod
    def _one_or_several(cls, used: Any) -> Any:
        return (used,) if isinstance(used, str) else used

    @model_validator(mode="after")
    def _has_a_clause(self) -> ContractDocument:
        is_still = self.noop and self.frame == "closed"  # "change nothing" is a contract
        if not is_still and not any(kind.can_fail and kind.written(self) for kind in KINDS):
            raise ValueError(
                "a contract with no forbid, require or claim would match anything; state one, or "
                "say `noop: true` under a closed frame if nothing must change"
            )
        if self.disputed is not None and self.any_of is None:
            raise ValueError("`disputed` says why nobody knows which branch of `any_of` is meant")
        return self
