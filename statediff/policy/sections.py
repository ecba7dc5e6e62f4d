"""The clauses of one section, judged one after the other: forbidden or required."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from statediff.contract.clauses.patterns import Condition, Pattern
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

    def known(self, clause: str) -> Finding | None:
        """The finding of a clause that the run left as it was; None of others."""
        reuse = self.context.reuse
        return None if reuse is None else reuse.findings.get(clause)

    def forbidden(self, clauses: tuple[Pattern | Condition, ...]) -> Iterator[Finding]:
        """The finding of each clause of Γ."""
        for clause in clauses:
            self.begin(clause.id)
            if (known := self.known(clause.id)) is not None:
                yield known
            elif isinstance(clause, Condition):
                yield condition(clause, self.context, self.moments)
            else:
                yield forbid_pattern(clause, self.context, self.everything, self.moments)

    def required(
        self, clauses: tuple[Pattern | Condition, ...], by_id: Mapping[str, Pattern]
    ) -> Iterator[Finding]:
        """The finding of each clause of Φ."""
        for clause in clauses:
            self.begin(clause.id)
            if (known := self.known(clause.id)) is not None:
                yield known
            elif isinstance(clause, Condition):
                yield condition(clause, self.context, self.moments)
            else:
                yield require_pattern(clause, self.context, by_id, self.moments)
