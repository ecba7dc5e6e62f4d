"""Φ: what must change, in how many entities, and what must hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from statediff.contract.binding.bound import Pattern
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, EntityRef, TooCostly
from statediff.model.codes import FindingCode
from statediff.model.values import ABSENT, Key, key_order, show_key
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
from statediff.policy.witness import deciding

_STAGE = Stage.REQUIRE


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
        gaps |= {"no history: the order of the commits of several sources is not known"}
    within = (
        at(_bounded(pattern, s.context, s.standing), s.where)
        for s in moments.stretches(pattern.types, context) if not s.is_own
    )  # fmt: skip
    return over_the_run(at_ends, within, gaps)


def _bounded(pattern: Pattern, context: JudgingContext, standing: tuple[Change, ...]) -> Finding:
    """Whether there were not too many by then."""
    counted = _counted(replace(pattern, low=0), context, context.matches(pattern, standing))
    if isinstance(counted, Finding):
        return counted
    return unknown(pattern.id, _STAGE, counted) if counted else holds(pattern.id, _STAGE, "enough")


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
        causes |= that.causes or {that.undefined or "whether it holds of all that match"}
    if causes:
        return unknown(pattern.id, _STAGE, causes, that.seen, deltas)
    shared = _shares(pattern, context, by_id)
    if shared is not None:
        return shared
    return holds(pattern.id, _STAGE, _names(definite) or "as required", deltas)


def _counted(pattern: Pattern, context: JudgingContext, matches: list[Match]) -> Finding | set[str]:
    """A finding if there are too few or too many; else what keeps the number from being known."""
    definite = [m for m in matches if m.holds]
    possible = [m for m in matches if not m.holds and m.mask & TRUE]
    doubts = relevant(pattern, context, TRUE)
    number = len(definite)
    more = further(pattern, matches, doubts)
    most = None if more is None else number + len(possible) + more
    if pattern.high is not None and number > pattern.high:
        return fails(
            pattern.id,
            FindingCode.TOO_MANY_CHANGES,
            _STAGE,
            f"{_number_of(number, pattern)}, at most {pattern.high} may: {_names(definite)}",
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
    over = _names(definite) or "nothing"
    if that.mask == UNDEFINED:
        text = that.undefined or f"`that` is undefined over {over}"
        return fails(pattern.id, FindingCode.UNDEFINED, _STAGE, text, deltas, that.seen)
    text = deciding(that.seen, FALSE) or f"`that` fails over {over}"
    return fails(pattern.id, FindingCode.REQUIREMENT_FAILED, _STAGE, text, deltas, that.seen)


# ---------------------------------------------------------------- every


def _every(pattern: Pattern, context: JudgingContext) -> Finding | set[str]:
    """`count: every`: each entity before that satisfies `where` has a selected change.

    A finding if one has not; else what keeps that from being known.
    """
    by_entity = {
        (c.type, key_order(c.key)): c for c in context.changes if c.op in pattern.operations
    }
    causes: set[str] = set()
    failing: list[str] = []
    for name in pattern.types:
        enumeration = context.before.enumeration(name)
        if not enumeration.is_complete:
            causes.add(f"{name} before: {enumeration.cause}")
        fields = context.eval_context(pattern.reads).fields_of(name)
        for key, row in context.before.rows(name, fields):
            change = by_entity.get((name, key_order(key)))
            mask, why = _performed(pattern, context, EntityRef("before", name, key, row), change)
            if mask == UNDEFINED:
                return fails(pattern.id, FindingCode.UNDEFINED, _STAGE, why[-1])
            if mask == FALSE:
                failing.append(f"{name} {show_key(key)}")
            elif mask != TRUE:
                causes.update(why)
    if failing:
        more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
        return fails(
            pattern.id,
            FindingCode.MISSING_CHANGE,
            _STAGE,
            f"{failing[0]}{more} not changed as required",
        )
    return causes


def _performed(
    pattern: Pattern, context: JudgingContext, it: EntityRef, change: Change | None
) -> tuple[int, list[str]]:
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
    why = [*eval_context.causes, *(() if match is None else match.why)]
    if met != TRUE:
        doubts = _about(pattern, context, it.type, it.key)
        if doubts:
            met |= TRUE
            why += doubts
    if meant == TRUE:
        return (FALSE if met == UNDEFINED else met), why or ["whether it is changed"]
    undefined = meant & UNDEFINED
    return (TRUE if met == TRUE else TRUE | met) | undefined, why or ["whether it has to change"]


def _about(pattern: Pattern, context: JudgingContext, type_name: str, key: Key) -> set[str]:
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
    causes: set[str] = set()
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
    return fails(
        pattern.id,
        FindingCode.NOT_DISTINCT,
        _STAGE,
        f"one change would have to count for both {pattern.id} and {', '.join(pattern.distinct)}",
    )


# ---------------------------------------------------------------- words


def _missing(pattern: Pattern, context: JudgingContext, number: int) -> Finding:
    """Too few: shows the changes of the right type that came closest."""
    near: list[Match] = []
    for change in context.changes:
        match = context.match(pattern, change)
        if match is not None and match.fails:
            near.append(match)
    wanted = f"at least {pattern.low}" if pattern.high != pattern.low else f"{pattern.low}"
    found = f"{_number_of(number, pattern)}, {wanted} required"
    if near:
        reason = deciding(near[0].seen, FALSE)
        found += f"; {near[0].change.type} {show_key(near[0].change.key)} does not" + (
            f": {reason}" if reason else ""
        )
    return fails(
        pattern.id,
        FindingCode.MISSING_CHANGE,
        _STAGE,
        found,
        tuple(d for m in near for d in m.change.deltas),
        (s for m in near for s in m.seen),
    )


def _number_of(number: int, pattern: Pattern) -> str:
    noun = " or ".join(pattern.types)
    if number > 1:
        return f"{number} {noun} entities match"
    return f"{number or 'no'} {noun} matches"


def _names(matches: list[Match]) -> str:
    shown = [f"{m.change.type} {show_key(m.change.key)}" for m in matches[:4]]
    more = f" and {len(matches) - 4} more" if len(matches) > 4 else ""
    return ", ".join(shown) + more
