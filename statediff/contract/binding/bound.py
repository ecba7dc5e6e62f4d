"""A contract bound to a state schema: every name resolved, every expression typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from statediff.contract.clauses.alternatives import Alternatives, Branch
from statediff.contract.clauses.conduct import (
    ActionRule,
    AfterCalls,
    Always,
    Asserted,
    AtCalls,
    BoundStep,
    Gate,
    Occurrence,
    Order,
)
from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.clauses.visibility import BoundAccess
from statediff.contract.document.contract import ContractDocument
from statediff.model.codes import Stage
from statediff.model.delta import Label, Op
from statediff.model.schema import Schema
from statediff.model.values import Value

RISK: Final = list(Label)
"""Labels in rising order of risk."""


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
    access: BoundAccess | None = None
    at_end: Contract | None = None
    """The contract that judges the end, if this one judges a run that is not over."""

    @property
    def assertions(self) -> tuple[Asserted, ...]:
        """Every assertion about the run, in the order of judgement."""
        return (*self.steps, *self.turns, *self.actions)

    @property
    def name(self) -> str:
        return self.document.contract

    @cached_property
    def fields_read(self) -> dict[Any, Any]:
        """Keeps, by a clause's reads, the function that names the fields it reads of a type."""
        return {}

    @cached_property
    def authority(self) -> Mapping[str, str]:
        """The source that decides of a type where sources differ."""
        return {name: rule.source for rule in self.evidence for name in rule.authority}

    @cached_property
    def must_report(self) -> tuple[str, ...] | None:
        """The sources that must report; None: every source must."""
        return tuple([rule.source for rule in self.evidence]) or None

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """Every pattern of forbid, require and allow, in that order."""
        clauses = (*self.forbid, *self.require)
        return (*(c for c in clauses if isinstance(c, Pattern)), *self.allow)

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """The branches of `any_of`."""
        return () if self.alternatives is None else self.alternatives.branches

    @cached_property
    def explaining(self) -> tuple[Pattern, ...]:
        """The patterns that may explain a change: all that forbid nothing."""
        return tuple(p for p in self.patterns if p.section is not Stage.FORBID)

    @cached_property
    def branch_explaining(self) -> tuple[Pattern, ...]:
        """The patterns that may explain a change in some branch, or without one."""
        return self.explaining + tuple(p for b in self.branches for p in b.explaining)

    @cached_property
    def _over_states(self) -> tuple[Pattern | Condition, ...]:
        """The clauses of forbid, require and allow, those of branches too."""
        own = (*self.forbid, *self.require, *self.allow)
        return own + tuple(c for b in self.branches for c in (*b.forbid, *b.require, *b.allow))

    @property
    def asks_how_it_ended(self) -> bool:
        """True where a clause reads how the run ended."""
        return not self._read_of_run.isdisjoint(("ended", "exit_code"))

    @property
    def asks_when_it_was(self) -> bool:
        """True where a clause reads when the run began or ended."""
        return not self._read_of_run.isdisjoint(("start", "end"))

    @cached_property
    def _read_of_run(self) -> frozenset[str]:
        """The facts of the run itself that clauses read."""
        every = (*self._over_states, *self.claims, *self.effects, *self.assertions)
        reads = (read for clause in every for read in clause.reads)
        return frozenset(read.field for read in reads if read.root == "run")

    @cached_property
    def followed(self) -> frozenset[str]:
        """The sources of which some clause asks what was between the ends, or who changed it."""
        types: set[str] = set()
        for clause in self._over_states:
            if isinstance(clause, Pattern):
                types |= set(clause.types if clause.during_run or clause.by is not None else ())
            elif clause.during_run:
                types |= {read.type for read in clause.reads if read.root == "after"}
        for step in self.steps:
            if isinstance(step, (Order, Always, AfterCalls)):
                types |= step.states_read
        required = {rule.source for rule in self.evidence if rule.needs_history}
        return frozenset(required).union(*(self.schema.sources_of(name) for name in types))

    @cached_property
    def about_calls(self) -> frozenset[str]:
        """The steps that are about the calls alone."""
        return frozenset(s.id for s in self.steps if isinstance(s, AtCalls | Occurrence))

    @cached_property
    def asked(self) -> Mapping[str, str]:
        """The names that an answer must have, with their kinds."""
        return self.document.answer.asked

    @cached_property
    def labels(self) -> Mapping[tuple[Op, str], Label]:
        """The labels ℓ that the contract declares over the defaults, by operation and type."""
        declared: dict[tuple[Op, str], Label] = {}
        for rule in self.effects:
            if rule.label is None:
                continue
            for op in rule.operations:
                # Of two labels the riskier one counts, whatever their order.
                known = declared.get((op, rule.type), rule.label)
                declared[op, rule.type] = max(known, rule.label, key=RISK.index)
        return declared

    @property
    def needs_answer(self) -> bool:
        return bool(self.asked or self.claims)
