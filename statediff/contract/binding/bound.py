"""A contract bound to a state schema: every name resolved, every expression typed.

`bind` is where a contract meets a schema; what it cannot resolve is a `Problem` with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from statediff.contract.binding.assertions import ActionRule, Asserted, Gate, Step
from statediff.contract.binding.bound_access import BoundAccess
from statediff.contract.document.contract import ContractDocument
from statediff.contract.language.syntax import Compare, Node, Read
from statediff.model.delta import Label, Op
from statediff.model.schema import Schema
from statediff.model.values import Observed, Value
from statediff.model.verdict import Stage


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A clause over deltas. `where` and `that` are bound once per type it names.

    `sets` and `froms` are (path, expression) pairs that the new and the old entity must equal.
    `fields` are the selected paths, None for all. `high` None means unbounded.
    """

    id: str
    section: Stage | None
    """FORBID, REQUIRE, or None for an allow clause, which explains and never fails by itself."""
    operations: frozenset[Op]
    types: tuple[str, ...]
    where: Mapping[str, Node | None]
    sets: Mapping[str, tuple[tuple[str, Node], ...]]
    froms: Mapping[str, tuple[tuple[str, Node], ...]]
    fields: tuple[str, ...] | None
    low: int
    high: int | None
    is_every: bool
    that: Mapping[str, Node | None]
    by: str | None
    during_run: bool
    sentence: str
    reads: frozenset[Read]
    distinct: tuple[str, ...] = ()
    relation: str | None = None
    """For `link: TYPE.field`: the to-one reference whose re-pointing it selects."""
    names_fields: bool = False
    """Whether `fields:` was written out (then it also bounds what a create may fill in)."""
    cascade: tuple[tuple[str, int], ...] = ()
    """(type, most): rows of it the system may add or remove with one matched entity."""


@dataclass(frozen=True)
class Condition:
    """A clause that is one expression over the states or the answer."""

    id: str
    section: Stage
    node: Node
    text: str
    sentence: str
    reads: frozenset[Read]
    during_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A field that the system keeps equal to an expression: `after` and `before` compare the two.

    Both are `it.FIELD == EXPRESSION`, one over the state after the run, one over that before it.
    """

    id: str
    type: str
    field: str
    after: Compare
    before: Compare
    sentence: str
    reads: frozenset[Read]
    is_row_local: bool
    """Whether the expression reads nothing but the entity's own fields."""
    ties: tuple[tuple[str, str], ...] | None = None
    """(type, field) of the rows that the expression ranges over, each for the entity it refers to.

    Every one is taken only where that field equals the entity's key. None: it reads others too.
    """


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
    """`any_of` (one branch must hold) or `disputed` (they are readings; all should agree)."""

    id: str
    branches: tuple[Branch, ...]
    sentence: str
    because: str = ""

    @property
    def is_disputed(self) -> bool:
        return self.id == "disputed"


@dataclass(frozen=True)
class New:
    """The key of an entity created in the run, whatever it is: the same name, the same key."""

    name: str


@dataclass(frozen=True)
class Expected:
    """One expected change of one entity. `values` of a creation are all it has that is not null.

    For an update each of `values` is one delta; `olds` says what was there, where that is stated.
    """

    op: Op
    type: str
    key: tuple[Value | New, ...]
    values: Mapping[str, Observed | New]
    olds: Mapping[str, Observed]
    key_fields: tuple[str, ...]


@dataclass(frozen=True)
class BoundTransition:
    """Every change that is expected, and nothing else is."""

    changes: tuple[Expected, ...]
    sentence: str
    reads: frozenset[Read]

    @property
    def count(self) -> int:
        """How many deltas that makes."""
        return sum(len(c.values) if c.op is Op.UPDATE else 1 for c in self.changes)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Λ for an operation on a type. `authorized_by` None means that no authorization is needed."""

    id: str
    operations: frozenset[Op]
    type: str
    label: Label | None
    authorized_by: Node | None
    text: str
    compensation: str | None
    is_retry_safe: bool | None
    sentence: str
    reads: frozenset[Read]
    approval: str | None = None
    """The type of the approvals that `authorized_by` is about, one by one; None: it says itself."""
    tool: str | None = None
    """The tool each of whose calls has one such effect; None: any that does not only read."""

    @property
    def is_judged_for_retries(self) -> bool:
        """Whether a retried call must not have brought the effect about twice."""
        return self.is_retry_safe is False and bool(self.operations & {Op.CREATE, Op.LINK})

    @property
    def retry_id(self) -> str:
        """The clause that no retried call repeated the effect."""
        return self.id.replace("authorized-", "retried-", 1)


@dataclass(frozen=True)
class EvidenceRule:
    """One source that must report. `max_age_seconds` None means any age."""

    source: str
    max_age_seconds: Decimal | None
    authority: tuple[str, ...]
    acknowledgement_suffices: bool
    needs_history: bool


@dataclass(frozen=True, kw_only=True)
class Contract:
    """A contract as the judging stages use it."""

    document: ContractDocument
    digest: str
    """SHA-256 of the file as read, hex."""
    schema: Schema
    inputs: Mapping[str, Value]
    forbid: tuple[Pattern | Condition, ...]
    require: tuple[Pattern | Condition, ...]
    allow: tuple[Pattern, ...]
    claims: tuple[Condition, ...]
    effects: tuple[Effect, ...]
    evidence: tuple[EvidenceRule, ...]
    frame_is_open: bool
    excluded: Callable[[str, str], str | None]
    """(type, field) → the rule that puts it outside Ω, or None; field "" asks for the type."""
    derived: tuple[Derived, ...] = ()
    alternatives: Alternatives | None = None
    steps: tuple[Step, ...] = ()
    actions: tuple[ActionRule, ...] = ()
    turns: tuple[Gate, ...] = ()
    transition: BoundTransition | None = None
    access: BoundAccess | None = None

    @property
    def assertions(self) -> tuple[Asserted, ...]:
        """Every assertion about the run, in the order of judgement."""
        return (*self.steps, *self.turns, *self.actions)

    @property
    def name(self) -> str:
        return self.document.contract

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Every pattern of forbid, require and allow, in that order."""
        clauses = (*self.forbid, *self.require)
        return (*(c for c in clauses if isinstance(c, Pattern)), *self.allow)

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches of `any_of` or the readings of `disputed`."""
        return () if self.alternatives is None else self.alternatives.branches

    @property
    def weights(self) -> Mapping[Label, int]:
        w = self.document.weights
        return {
            Label.REVERSIBLE: w.reversible,
            Label.CONDITIONAL: w.conditional,
            Label.IRREVERSIBLE: w.irreversible,
        }

    @property
    def needs_answer(self) -> bool:
        return bool(self.document.answer.schema_ or self.claims)
