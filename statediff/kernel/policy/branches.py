"""Alternatives: branches judged whole, each with its own frame (docs/design.md §4).

`any_of` HOLDS if one branch HOLDS and FAILS if all FAIL. `disputed` HOLDS only if all readings do,
FAILS only if all FAIL; where they are decided and differ it is UNKNOWN, `contract-ambiguity`. A
branch is the conjunction of its clauses and its frame, in which the contract's own patterns and the
branch's explain. Findings of a branch are named `BRANCH/CLAUSE`; they are parts of the one clause
`any_of` or `disputed`, which alone counts for the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.alternatives import Alternatives, Branch
from statediff.kernel.policy.clauses import ClauseRunner
from statediff.kernel.policy.derived import may_show
from statediff.kernel.policy.findings import WHOLE, kleene
from statediff.kernel.policy.frame import (
    ExplainedDelta,
    ExplanationVote,
    explain,
    frame,
    frame_within,
)
from statediff.model.codes import FindingCode
from statediff.model.explanation import Explanation, Reason
from statediff.model.verdict import Finding, Stage, Truth

_STAGE: Final = Stage.REQUIRE
_BEST: Final = {Truth.HOLDS: 0, Truth.UNKNOWN: 1, Truth.FAILS: 2}


@dataclass(frozen=True)
class Judged:
    """One branch with what was found of it."""

    branch: Branch
    truth: Truth
    findings: tuple[Finding, ...]
    explanations: tuple[ExplainedDelta, ...]

    def of(self, truth: Truth) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.truth is truth)

    @property
    def first(self) -> Finding:
        """The violation that says best why it is not this branch.

        What is unexplained comes last: where a required change is missing, whatever was done
        instead is unexplained.
        """
        return min(self.of(Truth.FAILS), key=lambda f: f.stage is Stage.FRAME)


def judge_branch(
    contract: Contract, branch: Branch, bench: ClauseRunner, more: tuple[ExplanationVote, ...]
) -> Judged:
    """One branch, judged whole; `more` explains beside its patterns and the contract's."""
    explaining = (*contract.explaining, *branch.explaining)
    findings = list(bench.findings(branch.forbid))
    bench.begin(f"{branch.name}/frame")
    explanations = explain(explaining, bench.context, more)
    if not contract.frame_is_open:
        kept = partial(may_show, bench.context, bench.moments)
        framed = list(frame(explanations, explaining, bench.context))
        if contract.at_end is None:
            framed += frame_within(
                contract, explaining, explanations, bench.context, bench.moments, kept
            )
        findings += [replace(f, clause=f"{branch.name}/frame") for f in framed]
    findings += bench.findings(branch.require)
    return Judged(branch, kleene([f.truth for f in findings]), tuple(findings), explanations)


def without_required(judged: Judged) -> Judged:
    """The branch as it is judged where what it requires may still come."""
    findings = tuple(f for f in judged.findings if f.stage is not _STAGE)
    return replace(judged, findings=findings, truth=kleene([f.truth for f in findings]))


def best(judged: Sequence[Judged]) -> Judged:
    """The branch the numbers are about: the first that holds, else the one nearest to it.

    Nearest: undecided before failed, then fewest failing clauses, then the contract's order.
    """
    return min(judged, key=lambda j: (_BEST[j.truth], len({f.clause for f in j.of(Truth.FAILS)})))


def combined(alternatives: Alternatives, judged: Sequence[Judged]) -> tuple[Finding, ...]:
    """The finding of the whole, first, and those findings of branches that belong to its truth."""
    truths = {j.truth for j in judged}
    right = [j for j in judged if j.truth is Truth.HOLDS]
    if truths == {Truth.FAILS}:
        return _all_fail(alternatives, judged)
    if truths == {Truth.HOLDS} or (right and not alternatives.is_disputed):
        told = right if alternatives.is_disputed else right[:1]
        held = Reason.BRANCHES_HOLD(names=tuple(j.branch.name for j in told))
        return WHOLE.holds(alternatives.id, _STAGE, held), *(f for j in told for f in j.findings)
    if alternatives.is_disputed and truths >= {Truth.HOLDS, Truth.FAILS}:
        return (_differ(alternatives, judged, right),)
    return _open(alternatives, judged)


def _differ(
    alternatives: Alternatives, judged: Sequence[Judged], right: Sequence[Judged]
) -> Finding:
    wrong = next(j for j in judged if j.truth is Truth.FAILS)
    first = wrong.first
    differ = Reason.READINGS_DIFFER(
        right=tuple(j.branch.name for j in right),
        wrong=_why(wrong),
        because=alternatives.because or "",
    )
    return Finding(
        alternatives.id,
        FindingCode.CONTRACT_AMBIGUITY,
        _STAGE,
        Truth.UNKNOWN,
        differ,
        deltas=first.deltas,
        evidence=first.evidence,
        witness=first.witness,
        causes=(Reason.WHICH_READING(names=tuple(j.branch.name for j in judged)),),
        rank=first.rank,
    )


def _all_fail(alternatives: Alternatives, judged: Sequence[Judged]) -> tuple[Finding, ...]:
    nearest = best(judged)
    ordered = (nearest, *(j for j in judged if j is not nearest))
    first = nearest.first
    none = Reason.NO_BRANCH(branches=tuple(map(_why, ordered)))
    found = replace(
        WHOLE.fails(alternatives.id, FindingCode.NO_BRANCH_HOLDS, _STAGE, none),
        deltas=first.deltas,
        evidence=first.evidence,
        witness=first.witness,
        rank=first.rank,
    )
    return found, *(f for j in ordered for f in j.of(Truth.FAILS))


def _why(judged: Judged) -> Explanation:
    return Reason.NOT_BRANCH(clause=judged.first.clause, what=judged.first.explanation)


def _open(alternatives: Alternatives, judged: Sequence[Judged]) -> tuple[Finding, ...]:
    waiting = [f for j in judged if j.truth is Truth.UNKNOWN for f in j.of(Truth.UNKNOWN)]
    causes = {cause for f in waiting for cause in f.causes}
    return WHOLE.unknown(alternatives.id, _STAGE, causes), *waiting
