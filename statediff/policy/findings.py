"""Findings in the making: what clauses of every kind share, and `that` over what matched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntitySet,
    Env,
    EvalContext,
    Seen,
    TooCostly,
)
from statediff.later import later
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Doubt, Label, Op
from statediff.model.explanation import Cause, Explanation, Reason, cause, causes
from statediff.model.values import ABSENT, key_order
from statediff.model.verdict import Finding, Stage, Truth
from statediff.policy.matching import (
    TOO_COSTLY,
    Change,
    JudgingContext,
    Match,
    both,
    doubt_cause,
    selected,
)
from statediff.policy.witness import cause_code, witness_of

Said: TypeAlias = Explanation | Callable[[], Explanation]
"""An explanation, or what makes it of deltas alone: it reads no view."""

_NOT_YET: Final = Reason.AS_ASKED()

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


def fails(
    clause: str,
    code: FindingCode,
    stage: Stage,
    explanation: Said,
    deltas: tuple[Delta, ...] = (),
    seen: Iterable[Seen] = (),
) -> Finding:
    """The finding of a violated clause."""
    trail = tuple(seen)
    found = _finding(clause, code, stage, Truth.FAILS, explanation, deltas)
    later(found, "witness", lambda: witness_of(trail, deltas))
    if any(entry.looked is not None for entry in trail):
        found.witness  # noqa: B018 - what it looks at is noted now
    return found


def unknown(
    clause: str,
    stage: Stage,
    waiting: Iterable[Cause],
    seen: Iterable[Seen] = (),
    deltas: tuple[Delta, ...] = (),
) -> Finding:
    """The finding of a clause that cannot be decided: what is missing, and who owns the gap."""
    found = causes(waiting) or (Reason.SOME_VALUE(),)
    return Finding(
        clause,
        cause_code(found),
        stage,
        Truth.UNKNOWN,
        Reason.NEEDED(cause=found[0], clause=clause),
        deltas=tuple(d.id for d in deltas),
        evidence=evidence_of(deltas),
        witness=witness_of(seen, deltas),
        causes=found,
        rank=risk(deltas),
    )


def undecided(
    clause: str,
    stage: Stage,
    reason: Cause,
    seen: Iterable[Seen] = (),
    deltas: tuple[Delta, ...] = (),
) -> Finding:
    """The finding of a forbid or effect clause that is undefined, which decides nothing."""
    found = unknown(clause, stage, [reason], seen, deltas)
    return replace(found, code=FindingCode.UNDEFINED, explanation=cause(reason))


def holds(clause: str, stage: Stage, explanation: Said, deltas: tuple[Delta, ...] = ()) -> Finding:
    """The finding of a clause with which nothing is wrong."""
    return _finding(clause, FindingCode.HOLDS, stage, Truth.HOLDS, explanation, deltas)


def _finding(
    clause: str,
    code: FindingCode,
    stage: Stage,
    truth: Truth,
    explanation: Said,
    deltas: tuple[Delta, ...],
) -> Finding:
    """A finding without a witness; what few ask of it waits until somebody does."""
    said = explanation if isinstance(explanation, Explanation) else _NOT_YET
    rank = risk(deltas) if truth is Truth.FAILS else 0
    found = Finding(clause, code, stage, truth, said, rank=rank)
    if not isinstance(explanation, Explanation):
        later(found, "explanation", explanation)
    if deltas:
        later(found, "deltas", lambda: tuple(d.id for d in deltas))
        later(found, "evidence", lambda: evidence_of(deltas))
    return found


def over_the_run(at_ends: Finding, within: Iterable[Finding], gaps: Iterable[Cause]) -> Finding:
    """One finding out of that at the ends and those at known places of the run in between.

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
    waiting = causes([*(cause for found in open_ for cause in found.causes), *gaps])
    if not waiting:
        return at_ends
    if open_ and not gaps:
        return replace(open_[0], causes=waiting)
    return unknown(at_ends.clause, at_ends.stage, waiting)


def at(finding: Finding, place: Explanation) -> Finding:
    """The finding with its place in the run."""
    return replace(finding, explanation=Reason.AT(place=place, what=finding.explanation))


def last(undefined: Sequence[Cause]) -> Explanation:
    """The reason of an undefined outcome."""
    return cause(undefined[-1]) if undefined else Reason.CLAUSE_UNDEFINED()


# ---------------------------------------------------------------- doubts


def relevant(pattern: Pattern, context: JudgingContext, outcome: int) -> list[Doubt]:
    """The doubts about changes on which the pattern can have one of the outcomes."""
    return [d for d in context.doubts if context.possible(pattern, d) & outcome]


def doubt_causes(doubts: Iterable[Doubt]) -> set[Cause]:
    """What the doubts wait for."""
    return {doubt_cause(d) for d in doubts}


def further(pattern: Pattern, matched: Iterable[Match], doubts: Iterable[Doubt]) -> int | None:
    """At most how many entities more the doubts can add to those matched; None if any number."""
    known = {_place(m.change.type, m.change) for m in matched}
    places: dict[object, int] = {}
    for doubt in doubts:
        if doubt.key is None:
            return None
        # An entity of which nothing is known may have been replaced: a deletion and a creation.
        twice = not doubt.path and pattern.operations >= {Op.DELETE, Op.CREATE}
        place = (doubt.type, key_order(doubt.key))
        number = 2 if twice else 1
        if place in known and not twice:
            continue
        places[place] = max(places.get(place, 0), number)
    return sum(places.values())


def _place(type_name: str, change: Change) -> object:
    return type_name, key_order(change.key)


# ---------------------------------------------------------------- that


@dataclass(frozen=True)
class That:
    """The outcomes of `that`, what was seen, and what they wait for."""

    mask: int
    seen: tuple[Seen, ...] = ()
    causes: frozenset[Cause] = frozenset()
    undefined: Cause = ""


def that_of_all(
    pattern: Pattern, context: JudgingContext, matches: list[Match], causes: set[Cause]
) -> That:
    """`that` over the matched entities; TRUE where the clause has none.

    `causes` say why further entities may match. Matches that are not certain count as such.
    """
    nodes = [node for node in pattern.that.values() if node is not None]
    if not nodes:
        return That(TRUE)
    eval_context = context.eval_context(pattern.reads)
    entity_set = _crowd(pattern, matches, causes)
    try:
        if pattern.speaks_of_each:
            mask = _each(pattern, matches, eval_context, entity_set)
        else:
            mask = outcomes(nodes[0], eval_context, {"them": entity_set})
    except TooCostly:
        eval_context.causes.add(TOO_COSTLY)
        mask = TRUE | FALSE | UNDEFINED
    return That(
        mask,
        tuple(eval_context.seen),
        frozenset(eval_context.causes | entity_set.incomplete),
        last(eval_context.undefined) if mask & UNDEFINED else "",
    )


def qualified(
    pattern: Pattern, context: JudgingContext, matches: list[Match], causes: set[Cause]
) -> list[Match]:
    """The matches with a `that` about each entity as one more of their conditions.

    For clauses that forbid or allow: there such a `that` qualifies each entity, as `where` does, so
    that one more forbidden change can never make another one acceptable.
    """
    if not pattern.speaks_of_each:
        return matches
    entity_set = _crowd(pattern, matches, causes)
    found = []
    for match in matches:
        eval_context = context.eval_context(pattern.reads)
        try:
            mask = both(match.mask, _one(pattern, match, eval_context, entity_set))
        except TooCostly:
            eval_context.causes.add(TOO_COSTLY)
            mask = match.mask | FALSE
        if mask != FALSE:
            found.append(
                replace(
                    match,
                    mask=mask,
                    seen=(*match.seen, *eval_context.seen),
                    causes=match.causes | eval_context.causes,
                    undefined=(*match.undefined, *eval_context.undefined),
                )
            )
    return found


def _crowd(pattern: Pattern, matches: list[Match], causes: set[Cause]) -> EntitySet:
    certain = [m for m in matches if m.holds]
    doubtful = causes.union(*(m.why for m in matches if not m.holds))
    return EntitySet(
        tuple(m.it for m in certain),
        pattern.types[0],
        certain[0].it.side if certain else "after",
        frozenset(doubtful),
    )


def _one(pattern: Pattern, match: Match, eval_context: EvalContext, entity_set: EntitySet) -> int:
    node = pattern.that[match.change.type]
    if node is None:
        return TRUE
    new = ABSENT if match.new is None else match.new
    env: Env = {"it": match.it, "new": new, "them": entity_set}
    return outcomes(node, eval_context, env)


def _each(
    pattern: Pattern, matches: list[Match], eval_context: EvalContext, entity_set: EntitySet
) -> int:
    """Whether `that` holds of every matched entity."""
    total = FALSE if entity_set.incomplete else 0
    passed = True
    for match in matches:
        if not match.holds:
            continue
        mask = _one(pattern, match, eval_context, entity_set)
        if not mask & TRUE:
            if mask == FALSE:
                return FALSE
            passed = False
        total |= mask & ~TRUE
    return total | TRUE if passed else total


def named(pattern: Pattern, matches: Iterable[Match]) -> tuple[Delta, ...]:
    """The deltas that the matches select."""
    return tuple(d for m in matches for d in selected(pattern, m.change))
