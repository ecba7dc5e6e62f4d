"""Γ and Λ: what must not change, and what must not change without authorization."""

from __future__ import annotations

from typing import Any

from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.evaluation.ranges import not_enumerated
from statediff.contract.evaluation.relations import combine
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    EntityRef,
    Env,
    EvalContext,
    Result,
    TooCostly,
)
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta
from statediff.model.explanation import Cause, Explanation, Reason
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
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.matching import TOO_COSTLY, Change, JudgingContext, both
from statediff.policy.witness import deciding, first_change


def forbid_pattern(
    pattern: Pattern,
    context: JudgingContext,
    candidates: tuple[Change, ...],
    moments: IntermediateStates,
) -> Finding:
    """Γ: fires on as many matching entities as `count` says, whatever explains them.

    `candidates` are the changes with those that ν hides; ν may not hide what Γ matches. With
    `during: run` it fires on any transaction too, and on what the run had changed after one.
    """
    at_ends = _forbidden(pattern, context, candidates)
    if not pattern.during_run:
        return at_ends
    gaps = moments.gaps(pattern.types)
    counts = pattern.low > 1 or (any(pattern.that.values()) and not pattern.speaks_of_each)
    if counts and len(moments.moving(pattern.types)) > 1:
        gaps |= {Reason.ORDER_OF_SOURCES()}
    within = (
        at(
            _forbidden(pattern, s.context, s.standing if counts and s.standing else s.candidates),
            s.where,
        )
        for s in moments.stretches(pattern.types, context)
    )
    return over_the_run(at_ends, within, gaps)


def _forbidden(
    pattern: Pattern, context: JudgingContext, candidates: tuple[Change, ...]
) -> Finding:
    doubts = relevant(pattern, context, ~FALSE)
    waiting = doubt_causes(doubts)
    matches = qualified(pattern, context, context.matches(pattern, candidates), waiting)
    definite = [m for m in matches if m.holds]
    uncertain = [m for m in matches if not m.holds]
    more = further(pattern, matches, doubts)
    threshold = max(pattern.low, 1)
    if more is not None and len(matches) + more < threshold:
        return holds(pattern.id, Stage.FORBID, Reason.NO_SUCH_CHANGE())
    # A `that` about each entity has already decided which of them match.
    each = pattern.speaks_of_each
    that = That(TRUE) if each else that_of_all(pattern, context, matches, waiting)
    if that.mask == FALSE:
        return holds(pattern.id, Stage.FORBID, Reason.NO_SUCH_CHANGE())
    trail = (*(s for m in definite for s in m.seen), *that.seen)
    if len(definite) >= threshold and that.mask == TRUE:
        deltas = named(pattern, definite)
        return fails(
            pattern.id,
            FindingCode.FORBIDDEN_CHANGE,
            Stage.FORBID,
            lambda: first_change(deltas),
            deltas,
            trail,
        )
    deltas = named(pattern, matches)
    causes = waiting.union(*(m.causes for m in uncertain))
    if that.mask != TRUE:
        causes |= that.causes
    if not causes:  # what waits for nothing is undefined
        reasons: list[Cause] = [last(m.undefined) for m in uncertain] or [that.undefined]
        return undecided(pattern.id, Stage.FORBID, last(reasons), trail, deltas)
    return unknown(pattern.id, Stage.FORBID, causes, trail, deltas)


def effect(
    rule: BoundEffect, context: JudgingContext, candidates: tuple[Change, ...]
) -> Finding | None:
    """Λ: every matching effect is authorized. None where the rule asks for no authorization."""
    if rule.authorized_by is None and rule.actor is None:
        return None
    refused: list[tuple[tuple[Delta, ...], Explanation | None]] = []
    causes: set[Cause] = set()
    reasons: list[Cause] = []
    unsure: list[Delta] = []
    touched = {(c.type, key_order(c.key)) for c in (*candidates, *context.changes)}
    for change in candidates:
        if change.type != rule.type or change.op not in rule.operations:
            continue
        eval_context = context.eval_context(rule.reads)
        mask = authorized(rule, context, eval_context, touched, *context.sides(change))
        if mask == FALSE:
            refused.append((change.deltas, deciding(tuple(eval_context.seen), FALSE)))
        elif mask != TRUE:
            unsure += change.deltas
            causes |= eval_context.causes
            reasons.append(last(eval_context.undefined))
    if refused:
        deltas = tuple(d for group, _ in refused for d in group)
        shown = refused[0][1]
        return fails(
            rule.id,
            FindingCode.UNAUTHORIZED_EFFECT,
            Stage.FORBID,
            Reason.NOT_AUTHORIZED(
                changes=first_change(deltas), because=() if shown is None else (shown,)
            ),
            deltas,
        )

    def decide(eval_context: EvalContext, it: Result, new: Result) -> int:
        return authorized(rule, context, eval_context, touched, it, new)

    doubts = [d for d in context.doubts if context.possible_effect(rule, decide, d) != TRUE]
    causes |= doubt_causes(doubts)
    if unsure and not causes:
        return undecided(rule.id, Stage.FORBID, last(reasons), (), tuple(unsure))
    if unsure or doubts:
        return unknown(rule.id, Stage.FORBID, causes, (), tuple(unsure))
    return holds(rule.id, Stage.FORBID, Reason.ALL_AUTHORIZED())


def authorized(
    rule: BoundEffect,
    context: JudgingContext,
    eval_context: EvalContext,
    touched: set[Any],
    it: Result,
    new: Result,
) -> int:
    """The outcomes of an authorization on one change: it is approved, and in the right name."""
    approved = _approved(rule, context, eval_context, touched, it, new)
    if rule.actor is None or approved == FALSE:
        return approved
    try:
        env: Env = {"it": it, "new": ABSENT if new is None else new}
        in_name = outcomes(rule.actor, eval_context, env)
    except TooCostly:
        eval_context.causes.add(TOO_COSTLY)
        return approved | TRUE | FALSE
    return both(approved, in_name)


def _approved(
    rule: BoundEffect,
    context: JudgingContext,
    eval_context: EvalContext,
    touched: set[Any],
    it: Result,
    new: Result,
) -> int:
    """The outcomes of the approval of one change.

    By an approval: some approval from before the run, which the run (`touched`) left alone,
    satisfies the condition. So the agent neither made nor changed it, and it came first.
    """
    node = rule.authorized_by
    if node is None:
        return TRUE
    env: Env = {"it": it, "new": ABSENT if new is None else new}
    try:
        if rule.approval is None:
            return outcomes(node, eval_context, env)
        total = FALSE
        name = rule.approval
        doubted = [d for d in context.doubts if d.type == name]
        for key, row in context.before.rows(name, eval_context.fields_of(name)):
            if (name, key_order(key)) in touched:
                continue
            mask = outcomes(
                node, eval_context, {**env, "approval": EntityRef("before", name, key, row)}
            )
            near = [d for d in doubted if d.key is None or key_order(d.key) == key_order(key)]
            if near and mask & TRUE:
                eval_context.causes |= doubt_causes(near)
                mask |= FALSE
            total = combine(TRUE, FALSE, total, mask)
    except TooCostly:
        eval_context.causes.add(TOO_COSTLY)
        return TRUE | FALSE
    enumeration = context.before.enumeration(name)
    if not enumeration.is_complete and total != TRUE:
        eval_context.causes.add(not_enumerated(name, "before", enumeration))
        total |= TRUE
    return total
