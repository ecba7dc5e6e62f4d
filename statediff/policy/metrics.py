"""The numbers beside a verdict [SSD eqs. 5–6], by the reading of docs/design.md §3."""

from __future__ import annotations

from fractions import Fraction

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.patterns import Pattern
from statediff.model.delta import Diff
from statediff.model.verdict import Finding, Metrics, Stage, Truth
from statediff.policy.frame import ExplainedDelta
from statediff.policy.matching import JudgingContext
from statediff.policy.transition import ID as TRANSITION


def metrics(
    contract: Contract,
    diff: Diff,
    findings: tuple[Finding, ...],
    explanations: tuple[ExplainedDelta, ...],
    context: JudgingContext,
    recorded: int = 0,
) -> Metrics:
    """Precision and recall over what was required, and the forbidden-effect rate.

    What is only allowed does not count against precision. An entity counts once for recall, up to
    the number required, however many of its fields changed. `recorded` deltas of a transition were
    found; each counts for itself.
    """
    required = {p.id for p in contract.require} | {TRANSITION}
    explained = [e for e in explanations if required & set(e.by)]
    violations = {
        i
        for f in findings
        if f.truth is Truth.FAILS and f.stage in (Stage.FORBID, Stage.FRAME)
        for i in f.deltas
    }
    counted = [
        e for e in explanations if required & set(e.by) or not e.by or e.delta.id in violations
    ]
    precision = Fraction(len(explained), len(counted)) if counted else None
    wanted = 0 if contract.transition is None else contract.transition.count
    reached = recorded
    truths = {f.clause: f.truth for f in findings if f.stage is Stage.REQUIRE}
    for clause in contract.require:
        if isinstance(clause, Pattern) and not clause.is_every:
            wanted += clause.low
            reached += min(clause.low, sum(m.holds for m in context.matches(clause)))
        else:
            wanted += 1
            reached += truths.get(clause.id) is Truth.HOLDS
    recall = Fraction(reached, wanted) if wanted else None
    weights = contract.weights
    # What ν hides is no delta, unless a forbid clause matches it all the same.
    hidden = (h.delta for h in diff.hidden if not h.by_boundary and h.delta.id in violations)
    deltas = (*diff.deltas, *hidden)
    total = sum(weights[d.label] for d in deltas)
    harmful = sum(weights[d.label] for d in deltas if d.id in violations)
    return Metrics(precision, recall, Fraction(harmful, max(1, total)))
