"""From findings to a judgement: the fold of truths, the numbers, and one out of several matchings.

Several admissible matchings (docs/design.md §3, Identity is conservative) are judged one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.patterns import Pattern
from statediff.kernel.policy.frame import ExplainedDelta
from statediff.kernel.policy.matching import JudgingContext
from statediff.model.codes import FindingCode
from statediff.model.delta import Diff, Label
from statediff.model.explanation import Reason, cause
from statediff.model.verdict import (
    ClauseTruth,
    Finding,
    Judgement,
    Metrics,
    Result,
    Stage,
    Truth,
    Verdict,
)

WEIGHTS: Final = {Label.REVERSIBLE: 1, Label.CONDITIONAL: 3, Label.IRREVERSIBLE: 10}
"""The weight of a change in the forbidden-effect rate [SSD eq. 6]."""
_STAGES: Final = {stage: at for at, stage in enumerate(Stage)}
_TRUTHS: Final = {Truth.FAILS: 0, Truth.UNKNOWN: 1, Truth.HOLDS: 2}
_VERDICTS: Final = {
    Truth.FAILS: Verdict.DIVERGE,
    Truth.UNKNOWN: Verdict.INCONCLUSIVE,
    Truth.HOLDS: Verdict.MATCH,
}
_WHOLE: Final = ("any_of", "disputed")
"""Clauses that hold a frame of their own, which uses every identity."""


def report_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings as reports show them; those of branches follow what they are part of."""

    def order(finding: Finding) -> tuple[int, bool, int, int]:
        stage = _STAGES[finding.stage]
        return _TRUTHS[finding.truth], "/" in finding.clause, stage, finding.rank

    return tuple(sorted(findings, key=order))


def kleene(present: Collection[Truth]) -> Truth:
    """Violation beats unknown beats what holds."""
    if Truth.FAILS in present:
        return Truth.FAILS
    return Truth.UNKNOWN if Truth.UNKNOWN in present else Truth.HOLDS


def fold(clauses: Iterable[ClauseTruth]) -> Verdict:
    """Violation beats unknown beats match. No clause at all is no match."""
    truths = [entry.truth for entry in clauses]
    return _VERDICTS[kleene(truths)] if truths else Verdict.INCONCLUSIVE


def cleared(clauses: Sequence[ClauseTruth], findings: Iterable[Finding]) -> Sequence[ClauseTruth]:
    """The clauses without those that hold only as far as the log goes: they clear no call."""
    if Result.TOOL not in [clause.result for clause in clauses]:
        return clauses
    loose = {f.clause for f in findings if f.explanation.reason is Reason.NOTHING_ADMITTED}
    return tuple(clause for clause in clauses if clause.clause not in loose)


def result_of(clauses: Iterable[ClauseTruth], result: Result) -> Verdict | None:
    """What the clauses of one result come to; None where there are none."""
    truths = [c.truth for c in clauses if c.result is result]
    return _VERDICTS[kleene(truths)] if truths else None


def metrics(
    contract: Contract,
    diff: Diff,
    findings: tuple[Finding, ...],
    explanations: tuple[ExplainedDelta, ...],
    context: JudgingContext,
) -> Metrics:
    """Precision and recall over what was required, and the forbidden-effect rate.

    They are the numbers of [SSD eqs. 5–6], by the reading of docs/design.md §3. What is only
    allowed does not count against precision. An entity counts once for recall, up to the number
    required, however many of its fields changed.
    """
    required = {p.id for p in contract.require}
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
    wanted = reached = 0
    truths = {f.clause: f.truth for f in findings if f.stage is Stage.REQUIRE}
    for clause in contract.require:
        if isinstance(clause, Pattern) and not clause.is_every:
            wanted += clause.low
            reached += min(clause.low, sum(m.holds for m in context.matches(clause)))
        else:
            wanted += 1
            reached += truths.get(clause.id) is Truth.HOLDS
    recall = Fraction(reached, wanted) if wanted else None
    # What ν hides is no delta, unless a forbid clause matches it all the same.
    hidden = (h.delta for h in diff.hidden if not h.by_boundary and h.delta.id in violations)
    deltas = (*diff.deltas, *hidden)
    total = sum(WEIGHTS[d.label] for d in deltas)
    harmful = sum(WEIGHTS[d.label] for d in deltas if d.id in violations)
    return Metrics(precision, recall, Fraction(harmful, max(1, total)))


# ---------------------------------------------------------------- several matchings


def combine(
    contract: Contract,
    judgements: Sequence[Judgement],
    ambiguous: Sequence[tuple[str, str]],
    differ_only_in_opaque_ids: bool,
) -> Judgement:
    """The judgement over every admissible matching.

    FAILS in all → FAILS; HOLDS in all → HOLDS where the clause does not use the ambiguous identity
    or the candidates differ in opaque ids only; else UNKNOWN.
    """
    first = judgements[0]
    if len(judgements) == 1 and not ambiguous:
        return first
    clauses: list[ClauseTruth] = []
    findings = list(first.findings)
    for entry in first.clauses:
        truths = {j.truth_of(entry.clause) for j in judgements}
        used = [pair for pair in ambiguous if _uses(contract, entry, pair[0])]
        agreed = truths == {Truth.FAILS} or (
            len(truths) == 1 and (not used or differ_only_in_opaque_ids)
        )
        if agreed:
            clauses.append(entry)
            continue
        name, found = used[0] if used else ambiguous[0]
        why = Reason.IN(place=name, cause=cause(found))
        is_whole = entry.clause in _WHOLE
        findings = [
            f for f in findings if f.clause != entry.clause and not (is_whole and "/" in f.clause)
        ]
        findings.append(
            Finding(
                entry.clause,
                FindingCode.IDENTITY_AMBIGUOUS,
                entry.stage,
                Truth.UNKNOWN,
                Reason.NEEDED(cause=why, clause=entry.clause),
                causes=(why,),
            )
        )
        clauses.append(replace(entry, truth=Truth.UNKNOWN))
    said = replace(first.explained, findings=report_order(findings))
    return replace(
        first,
        verdict=fold(clauses),
        clauses=tuple(clauses),
        tool=result_of(cleared(clauses, findings), Result.TOOL),
        task=result_of(clauses, Result.TASK),
        outcome=result_of(clauses, Result.OUTCOME),
        explain=lambda: said,
        explain_open=None,
    )


def _uses(contract: Contract, entry: ClauseTruth, type_name: str) -> bool:
    """Whether the clause uses the identities of the type: only if its reads say that it does not.

    What an effect clause ranges over is the type it names, beside what it reads.
    """
    if entry.stage is Stage.FRAME or entry.clause in _WHOLE:
        return True
    if entry.stage is Stage.ANSWER and entry.clause == "answer":
        return False  # the form of the answer is no matter of any state
    for rule in contract.effects:
        if rule.retry_id == entry.clause:
            return rule.type == type_name
        if rule.id == entry.clause and rule.type == type_name:
            return True
    expressed = (*contract.forbid, *contract.require, *contract.claims, *contract.effects)
    for clause in (*contract.assertions, *expressed, *contract.derived):
        if clause.id == entry.clause:
            return any(read.type == type_name for read in clause.reads)
    return True
