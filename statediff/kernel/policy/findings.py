"""Makes findings, with all that explains them or with their truth alone, and folds them.

Several admissible matchings (docs/design.md §3, Identity is conservative) are judged one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EvalContext,
    Seen,
)
from statediff.kernel.policy.witness import cause_code, witness_of
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Label
from statediff.model.explanation import Cause, Explanation, Reason, cause, causes
from statediff.model.verdict import (
    ClauseTruth,
    Finding,
    Judgement,
    Result,
    Stage,
    Truth,
    Verdict,
)

Said: TypeAlias = Explanation | Callable[[], Explanation]
"""An explanation, or what makes it."""

_RISK = {Label.IRREVERSIBLE: 0, Label.CONDITIONAL: 1, Label.REVERSIBLE: 2}


@dataclass(frozen=True)
class Outcome:
    """The outcomes of one condition, what was seen, and what they wait for."""

    mask: int
    seen: tuple[Seen, ...] = ()
    causes: frozenset[Cause] = frozenset()
    undefined: Cause = ""

    @staticmethod
    def of(mask: int, context: EvalContext) -> Outcome:
        """The outcomes, with what their evaluation left in its context."""
        undefined = last(context.undefined) if mask & UNDEFINED else ""
        return Outcome(mask, tuple(context.seen), frozenset(context.causes), undefined)

    @property
    def why(self) -> frozenset[Cause]:
        """Why it is not decided; never empty."""
        return self.causes or frozenset({self.undefined or Reason.SOME_CONDITION()})


def truth_of_mask(mask: int) -> Truth:
    """A decided mask as HOLDS or FAILS, anything else as UNKNOWN."""
    return {TRUE: Truth.HOLDS, FALSE: Truth.FAILS}.get(mask, Truth.UNKNOWN)


def risk(deltas: Iterable[Delta]) -> int:
    """Order of report: 0 if any delta is irreversible, 1 conditional, 2 reversible."""
    return min((_RISK[d.label] for d in deltas), default=1)


def evidence_of(deltas: Iterable[Delta]) -> tuple[str, ...]:
    """The readings behind the deltas, sorted."""
    return tuple(sorted({e for d in deltas for e in d.evidence}))


@dataclass(frozen=True)
class Telling:
    """Makes findings: whole ones, or ones that have a truth and no explanation.

    A caller passes a function where an explanation takes work; only a whole finding calls it.
    """

    is_whole: bool

    def fails(
        self,
        clause: str,
        code: FindingCode,
        stage: Stage,
        explanation: Said,
        deltas: Iterable[Delta] = (),
        seen: Iterable[Seen] = (),
    ) -> Finding:
        """The finding of a violated clause."""
        if not self.is_whole:
            return _unexplained(clause, code, stage, Truth.FAILS)
        found = Finding(clause, code, stage, Truth.FAILS, _made(explanation))
        return _shown(found, deltas, seen)

    def unknown(
        self,
        clause: str,
        stage: Stage,
        waiting: Iterable[Cause],
        seen: Iterable[Seen] = (),
        deltas: Iterable[Delta] = (),
    ) -> Finding:
        """The finding of a clause that cannot be decided: what is missing, and who owns the gap."""
        if not self.is_whole:
            return _unexplained(clause, FindingCode.UNOBSERVED, stage, Truth.UNKNOWN)
        known = causes(waiting) or (Reason.SOME_VALUE(),)
        needed = Reason.NEEDED(cause=known[0], clause=clause)
        found = Finding(clause, cause_code(known), stage, Truth.UNKNOWN, needed, causes=known)
        return _shown(found, deltas, seen)

    def undecided(
        self,
        clause: str,
        stage: Stage,
        reason: Cause,
        seen: Iterable[Seen] = (),
        deltas: Iterable[Delta] = (),
    ) -> Finding:
        """The finding of a forbid or effect clause that is undefined, which decides nothing."""
        found = self.unknown(clause, stage, [reason], seen, deltas)
        return replace(found, code=FindingCode.UNDEFINED, explanation=cause(reason))

    def holds(
        self, clause: str, stage: Stage, explanation: Said, deltas: Iterable[Delta] = ()
    ) -> Finding:
        """The finding of a clause with which nothing is wrong."""
        if not self.is_whole:
            return _unexplained(clause, FindingCode.HOLDS, stage, Truth.HOLDS)
        found = tuple(deltas)
        return Finding(
            clause,
            FindingCode.HOLDS,
            stage,
            Truth.HOLDS,
            _made(explanation),
            deltas=tuple(d.id for d in found),
            evidence=evidence_of(found),
        )

    def over_the_run(
        self, at_ends: Finding, within: Iterable[Finding], gaps: Iterable[Cause]
    ) -> Finding:
        """One finding of that at the ends and those at known places of the run in between.

        FAILS where any of them does; HOLDS only where all do and the history is complete.
        """
        if at_ends.truth is Truth.FAILS:
            return at_ends
        open_: list[Finding] = [at_ends] if at_ends.truth is Truth.UNKNOWN else []
        for found in within:
            if found.truth is Truth.FAILS:
                return found
            if found.truth is Truth.UNKNOWN:
                open_.append(found)
        gaps = set(gaps)
        if not open_ and not gaps:
            return at_ends
        waiting = causes([*(cause for found in open_ for cause in found.causes), *gaps])
        if open_ and not gaps:
            return replace(open_[0], causes=waiting)
        return self.unknown(at_ends.clause, at_ends.stage, waiting)


UNEXPLAINED: Final = Reason.AS_ASKED()
WHOLE: Final = Telling(True)
BRIEF: Final = Telling(False)


@lru_cache(4096)  # the same clauses have the same truths in most runs
def _unexplained(clause: str, code: FindingCode, stage: Stage, truth: Truth) -> Finding:
    return Finding(clause, code, stage, truth, UNEXPLAINED)


def _shown(found: Finding, deltas: Iterable[Delta], seen: Iterable[Seen]) -> Finding:
    """The finding with the changes that it is about, and what was seen."""
    changed = tuple(deltas)
    return replace(
        found,
        deltas=tuple(d.id for d in changed),
        evidence=evidence_of(changed),
        witness=witness_of(seen, changed),
        rank=risk(changed),
    )


def _made(explanation: Said) -> Explanation:
    return explanation if isinstance(explanation, Explanation) else explanation()


def at(finding: Finding, place: Explanation) -> Finding:
    """The finding with its place in the run."""
    return replace(finding, explanation=Reason.AT(place=place, what=finding.explanation))


def last(undefined: Sequence[Cause]) -> Explanation:
    """The reason of an undefined outcome."""
    return cause(undefined[-1]) if undefined else Reason.CLAUSE_UNDEFINED()


def by_run_as(section: Stage | None) -> int:
    """The outcome that a condition undefined by the run counts as in a clause of the section."""
    return TRUE if section is Stage.FORBID else FALSE


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
    """The verdict that the clauses of one result fold to; None where there are none."""
    truths = [c.truth for c in clauses if c.result is result]
    return _VERDICTS[kleene(truths)] if truths else None


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
    """True if the clause uses the identities of the type, unless its reads say otherwise."""
    if entry.stage is Stage.FRAME or entry.clause in _WHOLE:
        return True
    if entry.stage is Stage.ANSWER and entry.clause == "answer":
        return False  # the form of the answer is no matter of any state
    read = dict(types_read(contract)).get(entry.clause)
    return read is None or type_name in read


def types_read(contract: Contract) -> Iterator[tuple[str, frozenset[str]]]:
    """(clause, types that it reads); of clauses about all that changed, all types.

    What an effect or a derived field ranges over is the type it names, beside what it reads.
    """
    expressed = (*contract.forbid, *contract.require, *contract.claims, *contract.assertions)
    for clause in expressed:
        yield clause.id, frozenset(read.type for read in clause.reads)
    for derived in contract.derived:
        yield derived.id, frozenset({derived.type, *(read.type for read in derived.reads)})
    for rule in contract.effects:
        yield rule.id, frozenset({rule.type, *(read.type for read in rule.reads)})
        yield rule.retry_id, frozenset({rule.type})
    every = frozenset(contract.schema.by_name)
    access = () if contract.access is None else (contract.access, *contract.access.clauses)
    whole = () if contract.alternatives is None else (contract.alternatives,)
    for each in (*access, *whole):
        yield each.id, every
