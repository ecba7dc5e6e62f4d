"""The clauses of forbid and require, and claims: patterns over changes, and single expressions.

A pattern is decided by what it matches, by what it may match of the doubts, and by `that` over all
of these; a condition is one expression over the states or the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.evaluation.by_run import DECIDED, settled
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.evaluation.operations import both
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntitySet,
    Env,
    EvalContext,
)
from statediff.contract.language.syntax import FieldIs, Node
from statediff.kernel.policy.every import every
from statediff.kernel.policy.findings import Outcome, Telling, at, by_run_as, last, truth_of_mask
from statediff.kernel.policy.history import IntermediateStates
from statediff.kernel.policy.matching import (
    JudgingContext,
    Match,
    doubt_causes,
    relevant,
    selected,
)
from statediff.kernel.policy.relation import Changes
from statediff.kernel.policy.witness import deciding, first_change, shown_entity
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Doubt, Op
from statediff.model.explanation import Cause, Explanation, Reason, cause
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT, key_order
from statediff.model.verdict import Finding, Stage, Truth

_SHOWN: Final = 4
"""How many entities an explanation names."""
_UNMET: Final = {
    Stage.FORBID: FindingCode.FORBIDDEN_CONDITION,
    Stage.ANSWER: FindingCode.CLAIM_REFUTED,
}


@dataclass(frozen=True)
class ClauseRunner:
    """Judges single clauses: holds the context, all changes that Γ may match, and the moments."""

    context: JudgingContext
    everything: Changes
    """The changes with those that ν hides: ν may not hide what Γ matches."""
    moments: IntermediateStates
    begin: Callable[[str], None]
    held: Mapping[str, Finding]
    """Clauses that are known to hold."""

    def findings(self, clauses: Iterable[Pattern | Condition]) -> Iterator[Finding]:
        """The finding of each clause of Γ or Φ."""
        for clause in clauses:
            self.begin(clause.id)
            yield self.held.get(clause.id) or self.finding(clause)

    def finding(self, clause: Pattern | Condition) -> Finding:
        """The finding of one clause: at the ends and, with `during: run`, at each moment between.

        A condition is held against each state, as if the run had ended there; Γ against each
        transaction, and what the run had changed after it; Φ asks that there are never more.
        """
        context, moments = self.context, self.moments
        if isinstance(clause, Condition):
            at_ends = condition_at_end(clause, context)
        elif clause.section is Stage.FORBID:
            at_ends = forbidden_at_end(clause, context, self.everything)
        else:
            at_ends = required_at_end(clause, context)
        if not clause.during_run:
            return at_ends
        types = states_read(clause)
        gaps = moments.gaps(types)
        if isinstance(clause, Condition):
            asks_order = not gaps
        else:
            asks_order = is_bounded(clause) or _counts(clause)
        if asks_order and len(moments.moving(types)) > 1:
            gaps |= {Reason.ORDER_OF_SOURCES()}
        return context.tell.over_the_run(at_ends, within(clause, context, moments), gaps)


def within(
    clause: Pattern | Condition, context: JudgingContext, moments: IntermediateStates
) -> Iterator[Finding]:
    """The findings of the clause at each known moment of the run."""
    if isinstance(clause, Condition):
        for side in moments.sides(states_read(clause)):
            yield _as_of(clause, context, side)
        return
    is_forbidden = clause.section is Stage.FORBID
    asks = is_forbidden or is_bounded(clause)
    for stretch in moments.stretches(clause.types, context) if asks else ():
        if is_forbidden:
            is_of_all = _counts(clause) and stretch.standing
            among = stretch.standing if is_of_all else stretch.candidates
            yield at(forbidden_at_end(clause, stretch.context, among), stretch.where)
        elif not stretch.is_own:
            yield at(exceeded(clause, stretch.context, stretch.standing), stretch.where)


def states_read(clause: Pattern | Condition) -> frozenset[str]:
    """The types that the clause reads after the run, or at a moment of it."""
    if isinstance(clause, Pattern):
        return frozenset(clause.types)
    return frozenset(read.type for read in clause.reads if read.root == "after")


def is_bounded(pattern: Pattern) -> bool:
    """True if Φ says how many changes there may be at most."""
    is_required = pattern.section is Stage.REQUIRE
    return is_required and pattern.high is not None and not pattern.is_every


def _counts(pattern: Pattern) -> bool:
    """True if Γ is about all that the pattern matches, and not about each of it."""
    if pattern.section is not Stage.FORBID:
        return False
    return pattern.low > 1 or (any(pattern.that.values()) and not pattern.speaks_of_each)


# ---------------------------------------------------------------- one expression


def _as_of(clause: Condition, context: JudgingContext, side: str) -> Finding:
    found = at(condition_at_end(clause, context.as_of(side)), Reason.SIDE(side=side))
    rows = tuple(
        replace(row, side=side) if row.side == "after" else row for row in found.witness.rows
    )
    return replace(found, witness=replace(found.witness, rows=rows))


def condition_at_end(clause: Condition, context: JudgingContext) -> Finding:
    """An expression clause over two states: must hold (require, claims) or must not (forbid)."""
    eval_context = context.eval_context(clause.reads)
    stage = clause.section
    answer = context.answer if stage is Stage.ANSWER else None
    if isinstance(answer, NoAnswer) and any(read.root == "answer" for read in clause.reads):
        if answer.is_unread:
            return context.tell.unknown(clause.id, stage, [answer.cause])
        none = Reason.NO_ANSWER(words=answer.cause)
        return context.tell.fails(clause.id, FindingCode.ANSWER_MISSING, stage, none)
    is_forbidden = stage is Stage.FORBID
    mask = outcomes(clause.node, eval_context, {})
    if mask not in DECIDED:
        by_run = TRUE if is_forbidden else UNDEFINED
        mask = settled(mask, by_run, clause.node, eval_context, {})
    seen = tuple(eval_context.seen)
    if is_forbidden:
        if mask == UNDEFINED:
            return context.tell.undecided(clause.id, stage, last(eval_context.undefined), seen)
        truth = {TRUE: Truth.FAILS, FALSE: Truth.HOLDS}.get(mask, Truth.UNKNOWN)
    elif mask == UNDEFINED:
        return context.tell.fails(
            clause.id, FindingCode.UNDEFINED, stage, last(eval_context.undefined), (), seen
        )
    else:
        # Undefined fails such a clause as false does.
        truth = truth_of_mask(mask if mask & TRUE else FALSE)
    if truth is Truth.UNKNOWN:
        waiting = eval_context.causes or eval_context.undefined
        return context.tell.unknown(clause.id, stage, waiting, seen)
    if truth is Truth.HOLDS:
        return context.tell.holds(clause.id, stage, Reason.AS_ASKED)
    code = _UNMET.get(stage, FindingCode.REQUIREMENT_FAILED)
    against = TRUE if is_forbidden else FALSE
    return context.tell.fails(
        clause.id,
        code,
        stage,
        lambda: deciding(seen, against) or _undefined_by_run(eval_context, clause.text),
        (),
        seen,
    )


def _undefined_by_run(eval_context: EvalContext, text: str) -> Explanation:
    """Why a forbidden condition counts as one that holds; the condition where it does."""
    undefined = eval_context.undefined
    return (
        Reason.UNDEFINED_BY_RUN(because=cause(undefined[-1]))
        if undefined
        else Reason.WRITTEN(text=text)
    )


# ---------------------------------------------------------------- Γ: what must not change


def forbidden_at_end(pattern: Pattern, context: JudgingContext, candidates: Changes) -> Finding:
    """Γ: fires on as many matching entities as `count` says, whatever explains them.

    `candidates` are the changes with those that ν hides; ν may not hide what Γ matches.
    """
    doubts = relevant(pattern, context, ~FALSE)
    waiting = doubt_causes(doubts)
    matches = qualified(pattern, context, context.matches(pattern, candidates), waiting)
    definite = [m for m in matches if m.holds]
    uncertain = [m for m in matches if not m.holds]
    more = further(pattern, matches, doubts)
    threshold = max(pattern.low, 1)
    if more is not None and len(matches) + more < threshold:
        return context.tell.holds(pattern.id, Stage.FORBID, Reason.NO_SUCH_CHANGE)
    # A `that` about each entity has already decided which of them match.
    each = pattern.speaks_of_each
    that = Outcome(TRUE) if each else that_of_all(pattern, context, matches, waiting)
    if that.mask == FALSE:
        return context.tell.holds(pattern.id, Stage.FORBID, Reason.NO_SUCH_CHANGE)
    trail = (*(s for m in definite for s in m.seen), *that.seen)
    if len(definite) >= threshold and that.mask == TRUE:
        deltas = tuple(named(pattern, definite))
        return context.tell.fails(
            pattern.id,
            FindingCode.FORBIDDEN_CHANGE,
            Stage.FORBID,
            lambda: first_change(deltas),
            deltas,
            trail,
        )
    deltas = tuple(named(pattern, matches))
    causes = waiting.union(*(m.causes for m in uncertain))
    if that.mask != TRUE:
        causes |= that.causes
    if not causes:  # what waits for nothing is undefined
        reasons: list[Cause] = [last(m.undefined) for m in uncertain] or [that.undefined]
        return context.tell.undecided(pattern.id, Stage.FORBID, last(reasons), trail, deltas)
    return context.tell.unknown(pattern.id, Stage.FORBID, causes, trail, deltas)


# ---------------------------------------------------------------- Φ: what must change


def exceeded(pattern: Pattern, context: JudgingContext, standing: Changes) -> Finding:
    """FAILS where there are too many of them; HOLDS where there are not."""
    counted = _counted(replace(pattern, low=0), context, context.matches(pattern, standing))
    if isinstance(counted, Finding):
        return counted
    if counted:
        return context.tell.unknown(pattern.id, Stage.REQUIRE, counted)
    return context.tell.holds(pattern.id, Stage.REQUIRE, Reason.ENOUGH)


def required_at_end(pattern: Pattern, context: JudgingContext) -> Finding:
    """Φ: the number of matching entities and what must hold of them."""
    matches = context.matches(pattern)
    broken = next((m for m in matches if m.mask == UNDEFINED), None)
    if broken is not None:
        return context.tell.fails(
            pattern.id,
            FindingCode.UNDEFINED,
            Stage.REQUIRE,
            last(broken.undefined),
            broken.change.deltas,
            broken.seen,
        )
    counted = every(pattern, context) if pattern.is_every else _counted(pattern, context, matches)
    if isinstance(counted, Finding):
        return counted
    definite = [m for m in matches if m.mask == TRUE]
    deltas = named(pattern, definite)
    doubts = relevant(pattern, context, ~FALSE)
    that = that_of_all(pattern, context, matches, doubt_causes(doubts))
    if not that.mask & TRUE:
        return _that_fails(pattern, that, definite, context.tell)
    # An undefined condition fails the whole clause, so that it may not even be possible.
    breakable = [m for m in matches if m.mask != TRUE and m.mask & UNDEFINED]
    perhaps = [d for d in doubts if context.possible(pattern, d) & UNDEFINED]
    causes = counted | doubt_causes(perhaps)
    causes = causes.union(*(m.why for m in breakable))
    if that.mask != TRUE:
        causes |= that.causes or {that.undefined or Reason.WHETHER_THAT_OF_ALL()}
    if causes:
        return context.tell.unknown(pattern.id, Stage.REQUIRE, causes, that.seen, deltas)
    return context.tell.holds(
        pattern.id, Stage.REQUIRE, lambda: _names(definite) or Reason.AS_REQUIRED(), deltas
    )


def _counted(
    pattern: Pattern, context: JudgingContext, matches: list[Match]
) -> Finding | set[Cause]:
    """A finding if there are too few or too many; else what keeps the number from being known."""
    definite = [m for m in matches if m.mask == TRUE]
    possible = [m for m in matches if m.mask != TRUE and m.mask & TRUE]
    doubts = relevant(pattern, context, TRUE)
    number = len(definite)
    more = further(pattern, matches, doubts)
    most = None if more is None else number + len(possible) + more
    high = pattern.high
    if high is not None and number > high:
        return context.tell.fails(
            pattern.id,
            FindingCode.TOO_MANY_CHANGES,
            Stage.REQUIRE,
            lambda: Reason.TOO_MANY(
                number=number,
                types=pattern.types,
                most=high,
                entities=_some(_names(definite)),
            ),
            named(pattern, definite),
        )
    if most is not None and most < pattern.low:
        return _missing(pattern, context, matches, number)
    enough = number >= pattern.low
    bounded = pattern.high is None or (most is not None and most <= pattern.high)
    if enough and bounded:
        return set()
    return doubt_causes(doubts).union(*(m.why for m in possible))


def _that_fails(pattern: Pattern, that: Outcome, definite: list[Match], tell: Telling) -> Finding:
    over, deltas = _some(_names(definite)), named(pattern, definite)
    if that.mask == UNDEFINED:
        code = FindingCode.UNDEFINED
        why = cause(that.undefined) if that.undefined else Reason.THAT_UNDEFINED(over=over)
    else:
        code = FindingCode.REQUIREMENT_FAILED
        why = deciding(that.seen, FALSE) or Reason.THAT_FAILS(over=over)
    return tell.fails(pattern.id, code, Stage.REQUIRE, why, deltas, that.seen)


def _missing(
    pattern: Pattern, context: JudgingContext, matches: list[Match], number: int
) -> Finding:
    """Too few: shows the changes of the right type that came closest."""
    near = context.unmatched(pattern, matches) if context.tell.is_whole else []
    # Nearest is what `where` means, with another value than `set` or `from` asks for.
    nearest = sorted(near, key=lambda m: not any(isinstance(s.node, FieldIs) for s in m.seen))

    def why() -> Explanation:
        first = next(iter(nearest), None)
        shown = None
        if first is not None:
            entity = shown_entity(first.change.type, first.change.key)
            because = _some(deciding(first.seen, FALSE))
            shown = Reason.NOT_MATCHED(entity=entity, because=because)
        return Reason.TOO_FEW(
            number=number,
            types=pattern.types,
            least=pattern.low,
            most=() if pattern.high is None else (pattern.high,),
            nearest=_some(shown),
        )

    by_truth = (sorted(m.seen, key=lambda seen: seen.mask == TRUE) for m in nearest)
    trail = (seen for part in by_truth for seen in part)
    deltas = tuple(d for match in near for d in match.change.deltas)
    code = FindingCode.MISSING_CHANGE
    return context.tell.fails(pattern.id, code, Stage.REQUIRE, why, deltas, trail)


def _names(matches: list[Match]) -> Explanation | None:
    """The first of the matched entities; None where nothing matched."""
    if not matches:
        return None
    entities = tuple(shown_entity(m.change.type, m.change.key) for m in matches[:_SHOWN])
    return Reason.ENTITIES(entities=entities, more=max(0, len(matches) - _SHOWN))


def _some(explanation: Explanation | None) -> tuple[Explanation, ...]:
    """An argument that may be missing."""
    return () if explanation is None else (explanation,)


# ---------------------------------------------------------------- all that a pattern matches


def further(pattern: Pattern, matched: Iterable[Match], doubts: Collection[Doubt]) -> int | None:
    """At most how many entities more the doubts can add to those matched; None if any number."""
    if not doubts:
        return 0
    matched = tuple(matched)
    known = {(m.change.type, key_order(m.change.key)) for m in matched}
    updates = (m.change for m in matched if m.change.op is Op.UPDATE)
    updated = {(change.type, key_order(change.key)) for change in updates}
    places: dict[object, int] = {}
    for doubt in doubts:
        if doubt.key is None:
            return None
        # An entity of which nothing is known may have been replaced: a deletion and a creation. One
        # that was softly deleted may have been changed, too.
        twice = not doubt.path and pattern.operations >= {Op.DELETE, Op.CREATE}
        place = (doubt.type, key_order(doubt.key))
        number = 2 if twice else 1
        if place in (updated if doubt.path else known) and not twice:
            continue
        places[place] = max(places.get(place, 0), number)
    return sum(places.values())


def that_of_all(
    pattern: Pattern, context: JudgingContext, matches: list[Match], causes: set[Cause]
) -> Outcome:
    """`that` over the matched entities; TRUE where the clause has none.

    `causes` say why further entities may match. Matches that are not certain count as such.
    """
    nodes = list(filter(None, pattern.that.values()))
    if not nodes:
        return Outcome(TRUE)
    eval_context = context.eval_context(pattern.reads)
    entity_set = _crowd(pattern, context, matches, causes)
    if pattern.speaks_of_each:
        mask = _each(pattern, context, matches, eval_context, entity_set)
    else:
        mask = _that(pattern, nodes[0], eval_context, {"them": entity_set})
    found = Outcome.of(mask, eval_context)
    return replace(found, causes=found.causes | entity_set.incomplete)


def qualified(
    pattern: Pattern, context: JudgingContext, matches: list[Match], causes: set[Cause]
) -> list[Match]:
    """The matches with a `that` about each entity as one more of their conditions.

    For clauses that forbid or allow: there such a `that` qualifies each entity, as `where` does, so
    that one more forbidden change can never make another one acceptable.
    """
    if not pattern.speaks_of_each:
        return matches
    entity_set = _crowd(pattern, context, matches, causes)
    found = []
    for match in matches:
        eval_context = context.eval_context(pattern.reads)
        mask = both(match.mask, _one(pattern, context, match, eval_context, entity_set))
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


def _crowd(
    pattern: Pattern, context: JudgingContext, matches: list[Match], causes: set[Cause]
) -> EntitySet:
    certain = [context.versions(m)[0] for m in matches if m.holds]
    doubtful = causes.union(*(m.why for m in matches if not m.holds))
    return EntitySet(
        tuple(certain),
        pattern.types[0],
        certain[0].side if certain else "after",
        frozenset(doubtful),
    )


def _one(
    pattern: Pattern,
    context: JudgingContext,
    match: Match,
    eval_context: EvalContext,
    them: EntitySet,
) -> int:
    node = pattern.that[match.change.type]
    if node is None:
        return TRUE
    it, new = context.versions(match)
    env: Env = {"it": it, "new": ABSENT if new is None else new, "them": them}
    return _that(pattern, node, eval_context, env)


def _that(pattern: Pattern, node: Node, eval_context: EvalContext, env: Env) -> int:
    """The outcomes of `that`; what is undefined fails a required clause with its own code."""
    is_required = pattern.section is Stage.REQUIRE
    by_run = UNDEFINED if is_required else by_run_as(pattern.section)
    return settled(outcomes(node, eval_context, env), by_run, node, eval_context, env)


def _each(
    pattern: Pattern, context: JudgingContext, matches: list[Match], eval_context: EvalContext,
    entity_set: EntitySet,
) -> int:  # fmt: skip
    """The truth of `that` over every matched entity."""
    total = FALSE if entity_set.incomplete else 0
    passed = True
    for match in matches:
        if not match.holds:
            continue
        mask = _one(pattern, context, match, eval_context, entity_set)
        if not mask & TRUE:
            if mask == FALSE:
                return FALSE
            passed = False
        total |= mask & ~TRUE
    return total | TRUE if passed else total


def named(pattern: Pattern, matches: Iterable[Match]) -> Iterator[Delta]:
    """The deltas that the matches select."""
    for match in matches:
        yield from selected(pattern, match.change)
