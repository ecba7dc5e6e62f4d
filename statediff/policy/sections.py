"""The clauses of one section, judged one after the other: forbidden or required."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from statediff.contract.binding.bound import Condition, Pattern
from statediff.model.verdict import Finding
from statediff.policy.conditions import condition
from statediff.policy.forbid import forbid_pattern
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.matching import Change, JudgingContext
from statediff.policy.require import require_pattern


@dataclass(frozen=True)
class ClauseRunner:
    """What clauses are judged by: the context, all changes that Γ may match, and the moments."""

    context: JudgingContext
    everything: tuple[Change, ...]
    """The changes with those that ν hides: ν may not hide what Γ matches."""
    moments: IntermediateStates
    begin: Callable[[str], None]

    def forbidden(self, clauses: tuple[Pattern | Condition, ...]) -> Iterator[tuple[Finding, str]]:
        """The finding of each clause of Γ, with the clause's sentence."""
        for clause in clauses:
            self.begin(clause.id)
            if isinstance(clause, Condition):
                yield condition(clause, self.context, self.moments), clause.sentence
            else:
                found = forbid_pattern(clause, self.context, self.everything, self.moments)
                yield found, clause.sentence

    def required(
        self, clauses: tuple[Pattern | Condition, ...], by_id: Mapping[str, Pattern]
    ) -> Iterator[tuple[Finding, str]]:
        """The finding of each clause of Φ, with the clause's sentence."""
        for clause in clauses:
            self.begin(clause.id)
            if isinstance(clause, Condition):
                yield condition(clause, self.context, self.moments), clause.sentence
            else:
                found = require_pattern(clause, self.context, by_id, self.moments)
                yield found, clause.sentence
