"""Γ and Λ: what must not change, and what must not change without authorization."""

from __future__ import annotations

from typing import Any

from statediff.contract.bound import Effect, Pattern
from statediff.contract.evaluation import outcomes
from statediff.contract.relations import combine
from statediff.contract.world import (
    FALSE,
    TRUE,
    Env,
    Result,
    Thing,
    TooCostly,
    World,
)
from statediff.model.delta import Delta
from statediff.model.values import ABSENT, key_order
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
    qualified,
    relevant,
    that_of_all,
    undecided,
    unknown,
)
from statediff.policy.matching import TOO_COSTLY, Change, Judge, speaks_of_each
from statediff.policy.moments import Moments
from statediff.policy.witness import deciding, deltas_text


def forbid_pattern(
    pattern: Pattern, judge: Judge, candidates: tuple[Change, ...], moments: Moments
) -> Finding:
    """Γ: fires on as many matching entities as `count` says, whatever explains them.

    `candidates` are the changes with those that ν hides; ν may not hide what Γ matches. With
    `during: run` it fires on any transaction too, and on what the run had changed after one.
    """
    at_ends = _forbidden(pattern, judge, candidates)
    if not pattern.during_run:
        return at_ends
    gaps = moments.gaps(pattern.types)
    counts = pattern.low > 1 or (any(pattern.that.values()) and not speaks_of_each(pattern))
    if counts and len(moments.moving(pattern.types)) > 1:
        gaps |= {"no history: the order of the commits of several sources is not known"}
    within = (
        at(_forbidden(pattern, s.room, s.standing if counts and s.standing else s.candidates),
           s.where)
        for s in moments.stretches(pattern.types, judge)
    )  # fmt: skip
    return over_the_run(at_ends, within, gaps)


def _forbidden(pattern: Pattern, judge: Judge, candidates: tuple[Change, ...]) -> Finding:
    doubts = relevant(pattern, judge, ~FALSE)
    waiting = doubt_causes(doubts)
    matches = qualified(pattern, judge, judge.matches(pattern, candidates), waiting)
    definite = [m for m in matches if m.holds]
    uncertain = [m for m in matches if not m.holds]
    more = further(pattern, matches, doubts)
    threshold = max(pattern.low, 1)
    if more is not None and len(matches) + more < threshold:
        return holds(pattern.id, Stage.FORBID, "no such change")
    # A `that` about each entity has already decided which of them match.
    each = speaks_of_each(pattern)
    that = That(TRUE) if each else that_of_all(pattern, judge, matches, waiting)
    if that.mask == FALSE:
        return holds(pattern.id, Stage.FORBID, "no such change")
    trail = (*(s for m in definite for s in m.seen), *that.seen)
    if len(definite) >= threshold and that.mask == TRUE:
        deltas = named(pattern, definite)
        return fails(
            pattern.id, "forbidden-change", Stage.FORBID, deltas_text(deltas), deltas, trail
        )
    deltas = named(pattern, matches)
    causes = waiting.union(*(m.causes for m in uncertain))
    if that.mask != TRUE:
        causes |= that.causes
    if not causes:  # what waits for nothing is undefined
        reasons = [last(m.undefined) for m in uncertain] or [that.undefined]
        return undecided(pattern.id, Stage.FORBID, last(reasons), trail, deltas)
    return unknown(pattern.id, Stage.FORBID, causes, trail, deltas)


def effect(rule: Effect, judge: Judge, candidates: tuple[Change, ...]) -> Finding | None:
    """Λ: every matching effect is authorized. None where the rule asks for no authorization."""
    node = rule.authorized_by
    if node is None:
        return None
    refused: list[tuple[tuple[Delta, ...], str]] = []
    causes: set[str] = set()
    reasons: list[str] = []
    unsure: list[Delta] = []
    touched = {(c.type, key_order(c.key)) for c in (*candidates, *judge.changes)}
    for change in candidates:
        if change.type != rule.type or change.op not in rule.operations:
            continue
        world = judge.world(rule.reads)
        mask = authorized(rule, judge, world, touched, *judge.sides(change))
        if mask == FALSE:
            refused.append((change.deltas, deciding(tuple(world.seen), FALSE)))
        elif mask != TRUE:
            unsure += change.deltas
            causes |= world.causes
            reasons.append(last(world.undefined))
    if refused:
        deltas = tuple(d for group, _ in refused for d in group)
        shown = refused[0][1]
        return fails(
            rule.id,
            "unauthorized-effect",
            Stage.FORBID,
            f"{deltas_text(deltas)} without authorization" + (f": {shown}" if shown else ""),
            deltas,
        )

    def decide(world: World, it: Result, new: Result) -> int:
        return authorized(rule, judge, world, touched, it, new)

    doubts = [d for d in judge.doubts if judge.possible_effect(rule, decide, d) != TRUE]
    causes |= doubt_causes(doubts)
    if unsure and not causes:
        return undecided(rule.id, Stage.FORBID, last(reasons), (), tuple(unsure))
    if unsure or doubts:
        return unknown(rule.id, Stage.FORBID, causes, (), tuple(unsure))
    return holds(rule.id, Stage.FORBID, "every such effect is authorized")


def authorized(
    rule: Effect, judge: Judge, world: World, touched: set[Any], it: Result, new: Result
) -> int:
    """The outcomes of an authorization on one change.

    By an approval: some approval from before the run, which the run (`touched`) left alone,
    satisfies the condition. So the agent neither made nor changed it, and it came first.
    """
    node = rule.authorized_by
    if node is None:
        return TRUE
    env: Env = {"it": it, "new": ABSENT if new is None else new}
    try:
        if rule.approval is None:
            return outcomes(node, world, env)
        total = FALSE
        name = rule.approval
        doubted = [d for d in judge.doubts if d.type == name]
        for key, row in judge.before.rows(name, world.fields_of(name)):
            if (name, key_order(key)) in touched:
                continue
            mask = outcomes(node, world, {**env, "approval": Thing("before", name, key, row)})
            near = [d for d in doubted if d.key is None or key_order(d.key) == key_order(key)]
            if near and mask & TRUE:
                world.causes |= doubt_causes(near)
                mask |= FALSE
            total = combine(TRUE, FALSE, total, mask)
    except TooCostly:
        world.causes.add(TOO_COSTLY)
        return TRUE | FALSE
    enumeration = judge.before.enumeration(name)
    if not enumeration.is_complete and total != TRUE:
        world.causes.add(f"{name} before: {enumeration.cause}")
        total |= TRUE
    return total
