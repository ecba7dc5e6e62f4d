"""One judgement from one per admissible matching (docs/design.md §3, Identity is conservative)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from statediff.contract.binding.bound import Contract
from statediff.model.codes import FindingCode
from statediff.model.explanation import Reason, cause
from statediff.model.verdict import (
    ClauseTruth,
    Finding,
    Judgement,
    Result,
    Stage,
    Truth,
)
from statediff.policy.judge import cleared, fold, report_order

_WHOLE: Final = ("any_of", "disputed")
"""Clauses that hold a frame of their own, which uses every identity."""


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
    if len(judgements) == 1:
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
    results = {r: [c for c in clauses if c.result is r] for r in Result}
    results[Result.TOOL] = list(cleared(results[Result.TOOL], findings))
    return replace(
        first,
        verdict=fold(clauses),
        clauses=tuple(clauses),
        tool=fold(results[Result.TOOL]) if results[Result.TOOL] else None,
        task=fold(results[Result.TASK]) if results[Result.TASK] else None,
        outcome=fold(results[Result.OUTCOME]) if results[Result.OUTCOME] else None,
        findings=report_order(findings),
    )


def _uses(contract: Contract, entry: ClauseTruth, type_name: str) -> bool:
    """Whether the clause uses the identities of the type: only if its reads say that it does not.

    What an effect clause ranges over is the type it names, beside what it reads.
    """
    if entry.stage is Stage.FRAME or entry.clause in (*_WHOLE, "transition"):
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
