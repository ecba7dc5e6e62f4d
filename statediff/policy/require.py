"""Φ: what must change, in how many entities, and what must hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.evaluation.ranges import not_enumerated
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, EntityRef, TooCostly
from statediff.contract.language.syntax import FieldIs
from statediff.model.codes import FindingCode
from statediff.model.explanation import Cause, Explanation, Reason, cause
from statediff.model.values import ABSENT, Key, key_order
from statediff.model.verdict import Finding, Stage
from statediff.policy.findings import (
    That,
    at,
    doubt_causes,
    fails,
    further,
    holds,
    last,
    named,
    over_the_run,
    relevant,
    that_of_all,
    unknown,
)
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.matching import TOO_COSTLY, Change, JudgingContext, Match
from statediff.policy.witness import deciding, shown_entity

_STAGE = Stage.REQUIRE
_SHOWN = 4
"""How many entities an explanation names."""


def require_pattern(
    pattern: Pattern,
    context: JudgingContext,
    by_id: Mapping[str, Pattern],
    moments: IntermediateStates,
) -> Finding:
    """Φ: the number of matching entities and what must hold of them.

    With `during: run` there are never more of them, at no moment.
    """
    at_ends = _required(pattern, context, by_id)
    if not pattern.during_run:
        return at_ends
    gaps = moments.gaps(pattern.types)
    if pattern.high is None or pattern.is_every:
        return over_the_run(at_ends, (), gaps)
    if len(moments.moving(pattern.types)) > 1:
        gaps |= {Reason.ORDER_OF_SOURCES()}
    within = (
        at(_bounded(pattern, s.context, s.standing), s.where)
        for s in moments.stretches(pattern.types, context)
        if not s.is_own
    )
    return over_the_run(at_ends, within, gaps)


def _bounded(pattern: Pattern, context: JudgingContext, standing: tuple[Change, ...]) -> Finding:
    """Whether there were not too many by then."""
    counted = _counted(replace(pattern, low=0), context, context.matches(pattern, standing))
    if isinstance(counted, Finding):
        return counted
    if counted:
        return unknown(pattern.id, _STAGE, counted)
    return holds(pattern.id, _STAGE, Reason.ENOUGH())


def _required(pattern: Pattern, context: JudgingContext, by_id: Mapping[str, Pattern]) -> Finding:
    matches = context.matches(pattern)
    broken = next((m for m in matches if m.mask == UNDEFINED), None)
    if broken is not None:
        return fails(
            pattern.id,
            FindingCode.UNDEFINED,
            _STAGE,
            last(broken.undefined),
            broken.change.deltas,
            broken.seen,
        )
    counted = _every(pattern, context) if pattern.is_every else _counted(pattern, context, matches)
    if isinstance(counted, Finding):
        return counted
    definite = [m for m in matches if m.holds]
    deltas = named(pattern, definite)
    doubts = relevant(pattern, context, ~FALSE)
    that = that_of_all(pattern, context, matches, doubt_causes(doubts))
    if not that.mask & TRUE:
        return _that_fails(pattern, that, definite)
    # An undefined condition fails the whole clause, so that it may not even be possible.
    breakable = [m for m in matches if not m.holds and m.mask & UNDEFINED]
    perhaps = [d for d in doubts if context.possible(pattern, d) & UNDEFINED]
    causes = counted | doubt_causes(perhaps)
    causes = causes.union(*(m.why for m in breakable))
    if that.mask != TRUE:
        causes |= that.causes or {that.undefined or Reason.WHETHER_THAT_OF_ALL()}
    if causes:
        return unknown(pattern.id, _STAGE, causes, that.seen, deltas)
    shared = _shares(pattern, context, by_id)
    if shared is not None:
        return shared
    return holds(pattern.id, _STAGE, lambda: _names(definite) or Reason.AS_REQUIRED(), deltas)


def _counted(
    pattern: Pattern, context: JudgingContext, matches: list[Match]
) -> Finding | set[Cause]:
    """A finding if there are too few or too many; else what keeps the number from being known."""
    definite = [m for m in matches if m.holds]
    possible = [m for m in matches if not m.holds and m.mask & TRUE]
    doubts = relevant(pattern, context, TRUE)
    number = len(definite)
    more = further(pattern, matches, doubts)
    most = None if more is None else number + len(possible) + more
    high = pattern.high
    if high is not None and number > high:
        return fails(
            pattern.id,
            FindingCode.TOO_MANY_CHANGES,
            _STAGE,
            lambda: Reason.TOO_MANY(
                number=number,
                types=pattern.types,
                most=high,
                entities=_some(_names(definite)),
            ),
            named(pattern, definite),
        )
    if most is not None and most < pattern.low:
        return _missing(pattern, context, number)
    enough = number >= pattern.low
    bounded = pattern.high is None or (most is not None and most <= pattern.high)
    if enough and bounded:
        return set()
    return doubt_causes(doubts).union(*(m.why for m in possible))


def _that_fails(pattern: Pattern, that: That, definite: list[Match]) -> Finding:
    deltas = named(pattern, definite)
    over = _some(_names(definite))
    if that.mask == UNDEFINED:
        undefined = cause(that.undefined) if that.undefined else Reason.THAT_UNDEFINED(over=over)
        return fails(pattern.id, FindingCode.UNDEFINED, _STAGE, undefined, deltas, that.seen)
    why = deciding(that.seen, FALSE) or Reason.THAT_FAILS(over=over)
    return fails(pattern.id, FindingCode.REQUIREMENT_FAILED, _STAGE, why, deltas, that.seen)


# ---------------------------------------------------------------- every


def _every(pattern: Pattern, context: JudgingContext) -> Finding | set[Cause]:
    """`count: every`: each entity before that satisfies `where` has a selected change.

    A finding if one has not; else what keeps that from being known.
    """
    by_entity = {
        (c.type, key_order(c.key)): c for c in context.changes if c.op in pattern.operations
    }
    causes: set[Cause] = set()
    failing: list[Explanation] = []
    for name in pattern.types:
        enumeration = context.before.enumeration(name)
        if not enumeration.is_complete:
            causes.add(not_enumerated(name, "before", enumeration))
        fields = context.eval_context(pattern.reads).fields_of(name)
        for key, row in context.before.rows(name, fields):
            change = by_entity.get((name, key_order(key)))
            mask, why = _performed(pattern, context, EntityRef("before", name, key, row), change)
            if mask == UNDEFINED:
                return fails(pattern.id, FindingCode.UNDEFINED, _STAGE, cause(why[-1]))
            if mask == FALSE:
                failing.append(shown_entity(name, key))
            elif mask != TRUE:
                causes.update(why)
    if failing:
        left = Reason.NOT_CHANGED(entity=failing[0], more=len(failing) - 1)
        return fails(pattern.id, FindingCode.MISSING_CHANGE, _STAGE, left)
    return causes


def _performed(
    pattern: Pattern, context: JudgingContext, it: EntityRef, change: Change | None
) -> tuple[int, list[Cause]]:
    """Whether one entity is changed as required, if it is one that has to be; and why not known."""
    eval_context = context.eval_context(pattern.reads)
    where = pattern.where[it.type]
    try:
        meant = TRUE if where is None else outcomes(where, eval_context, {"it": it, "new": ABSENT})
    except TooCostly:
        return TRUE | FALSE, [TOO_COSTLY]
    if meant == FALSE:
        return TRUE, []
    if meant == UNDEFINED:
        return UNDEFINED, [last(eval_context.undefined)]
    match = None if change is None else context.match(pattern, change)
    met = FALSE if match is None else match.mask
    why: list[Cause] = [*eval_context.causes, *(() if match is None else match.why)]
    if met != TRUE:
        doubts = _about(pattern, context, it.type, it.key)
        if doubts:
            met |= TRUE
            why += doubts
    if meant == TRUE:
        return (FALSE if met == UNDEFINED else met), why or [Reason.WHETHER_CHANGED()]
    undefined = meant & UNDEFINED
    return (TRUE if met == TRUE else TRUE | met) | undefined, why or [Reason.WHETHER_TO_CHANGE()]


def _about(pattern: Pattern, context: JudgingContext, type_name: str, key: Key) -> set[Cause]:
    return doubt_causes(
        d
        for d in context.doubts
        if d.type == type_name
        and (d.key is None or key_order(d.key) == key_order(key))
        and context.possible(pattern, d) & TRUE
    )


# ---------------------------------------------------------------- distinct


def _shares(
    pattern: Pattern, context: JudgingContext, by_id: Mapping[str, Pattern]
) -> Finding | None:
    """`distinct`: enough different entities exist for this clause and the ones it names."""
    if not pattern.distinct:
        return None
    others = [by_id[name] for name in pattern.distinct]
    group = [pattern, *(other for other in others if other.id != pattern.id)]
    import networkx as nx  # noqa: PLC0415 - a tenth of a second, for the few clauses that need it

    graph: nx.Graph[object] = nx.Graph()
    slots: list[object] = [(member.id, slot) for member in group for slot in range(member.low)]
    graph.add_nodes_from(slots)
    causes: set[Cause] = set()
    for member in group:
        for match in context.matches(member):
            if match.holds:
                place = (match.change.type, key_order(match.change.key), match.change.op)
                graph.add_edges_from(((member.id, n), place) for n in range(member.low))
            elif match.mask & TRUE:
                causes |= match.why
        causes |= doubt_causes(relevant(member, context, TRUE))
    pairs = nx.bipartite.hopcroft_karp_matching(graph, slots)
    if all(slot in pairs for slot in slots):
        return None
    if causes:
        return unknown(pattern.id, _STAGE, causes)
    twice = Reason.COUNTED_TWICE(clause=pattern.id, others=tuple(pattern.distinct))
    return fails(pattern.id, FindingCode.NOT_DISTINCT, _STAGE, twice)


# ---------------------------------------------------------------- explanations


def _missing(pattern: Pattern, context: JudgingContext, number: int) -> Finding:
    """Too few: shows the changes of the right type that came closest."""
    near: list[Match] = []
    for change in context.changes:
        match = context.match(pattern, change)
        if match is not None and match.fails:
            near.append(match)
    # Nearest is what `where` means, with another value than `set` or `from` asks for.
    nearest = sorted(near, key=lambda m: not any(isinstance(s.node, FieldIs) for s in m.seen))
    why = Reason.TOO_FEW(
        number=number,
        types=pattern.types,
        least=pattern.low,
        most=() if pattern.high is None else (pattern.high,),
        nearest=_some(
            Reason.NOT_MATCHED(
                entity=shown_entity(nearest[0].change.type, nearest[0].change.key),
                because=_some(deciding(nearest[0].seen, FALSE)),
            )
            if nearest
            else None
        ),
    )
    return fails(
        pattern.id,
        FindingCode.MISSING_CHANGE,
        _STAGE,
        why,
        tuple(d for m in near for d in m.change.deltas),
        (s for m in nearest for s in sorted(m.seen, key=lambda seen: seen.mask == TRUE)),
    )


def _names(matches: list[Match]) -> Explanation | None:
    """The first of the matched entities; None where nothing matched."""
    if not matches:
        return None
    entities = tuple(shown_entity(m.change.type, m.change.key) for m in matches[:_SHOWN])
    return Reason.ENTITIES(entities=entities, more=max(0, len(matches) - _SHOWN))


def _some(explanation: Explanation | None) -> tuple[Explanation, ...]:
    """An argument that may be missing."""
    return () if explanation is None else (explanation,)
