"""Λ: what must not change without authorization."""

from __future__ import annotations

from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.evaluation.by_run import undefined_as
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.evaluation.relations import both
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    Env,
    EvalContext,
    Result,
)
from statediff.contract.language.syntax import Node
from statediff.kernel.policy.findings import last
from statediff.kernel.policy.matching import JudgingContext, doubt_causes
from statediff.kernel.policy.relation import Changes
from statediff.kernel.policy.witness import deciding, first_change
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta
from statediff.model.explanation import Cause, Explanation, Reason
from statediff.model.values import ABSENT
from statediff.model.verdict import Finding, Stage


def effect(rule: BoundEffect, context: JudgingContext, candidates: Changes) -> Finding | None:
    """Λ: every matching effect is authorized. None where the rule asks for no authorization."""
    if rule.authorized_by is None and rule.actor is None:
        return None
    refused: list[tuple[tuple[Delta, ...], Explanation | None]] = []
    causes: set[Cause] = set()
    reasons: list[Cause] = []
    unsure: list[Delta] = []

    def decide(eval_context: EvalContext, it: Result, new: Result) -> int:
        """The outcomes of an authorization: it is approved, and in the right name."""
        env: Env = {"it": it, "new": ABSENT if new is None else new}
        found = TRUE
        for node in (rule.authorized_by, rule.actor):
            if node is not None and found != FALSE:
                found = both(found, _authorizes(node, eval_context, env))
        return found

    for change in candidates.of(rule.type, rule.operations):
        eval_context = context.eval_context(rule.reads)
        mask = decide(eval_context, *context.sides(change))
        if mask == FALSE:
            refused.append((change.deltas, deciding(tuple(eval_context.seen), FALSE)))
        elif mask != TRUE:
            unsure += change.deltas
            causes |= eval_context.causes
            reasons.append(last(eval_context.undefined))
    if refused:
        deltas = tuple(d for group, _ in refused for d in group)
        shown = refused[0][1]
        return context.tell.fails(
            rule.id,
            FindingCode.UNAUTHORIZED_EFFECT,
            Stage.FORBID,
            Reason.NOT_AUTHORIZED(
                changes=first_change(deltas), because=() if shown is None else (shown,)
            ),
            deltas,
        )

    doubts = [d for d in context.doubts if context.possible_effect(rule, decide, d) != TRUE]
    causes |= doubt_causes(doubts)
    if unsure and not causes:
        return context.tell.undecided(rule.id, Stage.FORBID, last(reasons), (), tuple(unsure))
    if unsure or doubts:
        return context.tell.unknown(rule.id, Stage.FORBID, causes, (), tuple(unsure))
    return context.tell.holds(rule.id, Stage.FORBID, Reason.ALL_AUTHORIZED)


def _authorizes(node: Node, context: EvalContext, env: Env) -> int:
    """The outcomes of a condition; what the run left undefined authorizes nothing."""
    mask = outcomes(node, context, env)
    return undefined_as(FALSE, node, context, env) if mask == UNDEFINED else mask
