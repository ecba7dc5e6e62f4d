"""Makes findings, with all that explains them or with their truth alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from statediff.contract.language.context import (
    FALSE,
    TRUE,
    Seen,
)
from statediff.kernel.policy.witness import cause_code, witness_of
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Label
from statediff.model.explanation import Cause, Explanation, Reason, cause, causes
from statediff.model.verdict import Finding, Stage, Truth

Said: TypeAlias = Explanation | Callable[[], Explanation]
"""An explanation, or what makes it."""

_RISK = {Label.IRREVERSIBLE: 0, Label.CONDITIONAL: 1, Label.REVERSIBLE: 2}


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
        found, said = tuple(deltas), _made(explanation)
        return Finding(
            clause,
            code,
            stage,
            Truth.FAILS,
            said,
            deltas=tuple(d.id for d in found),
            evidence=evidence_of(found),
            witness=witness_of(seen, found),
            rank=risk(found),
        )

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
        found, changed = causes(waiting) or (Reason.SOME_VALUE(),), tuple(deltas)
        return Finding(
            clause,
            cause_code(found),
            stage,
            Truth.UNKNOWN,
            Reason.NEEDED(cause=found[0], clause=clause),
            deltas=tuple(d.id for d in changed),
            evidence=evidence_of(changed),
            witness=witness_of(seen, changed),
            causes=found,
            rank=risk(changed),
        )

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
