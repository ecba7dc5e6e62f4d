"""A contract bound to a state schema: every name resolved, every expression typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from statediff.contract.clauses.alternatives import Alternatives, Branch
from statediff.contract.clauses.conduct import ActionRule, Asserted, BoundStep, Gate
from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.clauses.transition import BoundTransition
from statediff.contract.clauses.visibility import BoundAccess
from statediff.contract.document.contract import ContractDocument
from statediff.model.delta import Label
from statediff.model.schema import Schema
from statediff.model.values import Value


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
    effects: tuple[BoundEffect, ...]
    evidence: tuple[EvidenceRule, ...]
    frame_is_open: bool
    excluded: Callable[[str, str], str | None]
    """(type, field) → the rule that puts it outside Ω, or None; field "" asks for the type."""
    derived: tuple[Derived, ...] = ()
    alternatives: Alternatives | None = None
    steps: tuple[BoundStep, ...] = ()
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
        return bool(self.document.answer.asked or self.claims)
