"""Derived fields: kept by the system, so that a field equals its expression or moved as it moved.

A clause of its own, which fails of any entity whose field did neither; and an explanation for the
change of exactly that field, entity by entity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from statediff.contract.clauses.derive import Derived
from statediff.contract.evaluation.evaluate import evaluate, outcomes
from statediff.contract.evaluation.operations import comparison_key, equal, exact, finite
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    Result,
    Undefined,
    Unknown,
)
from statediff.kernel.policy.findings import Outcome
from statediff.kernel.policy.frame import NEVER, SURE, ExplanationVote
from statediff.kernel.policy.history import IntermediateStates
from statediff.kernel.policy.matching import JudgingContext, doubt_causes
from statediff.kernel.policy.relation import COME, GONE
from statediff.kernel.policy.witness import deciding, shown_entity
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Doubt, Op
from statediff.model.explanation import Explanation, Reason, cause
from statediff.model.values import ABSENT, Key, is_value, key_order
from statediff.model.verdict import Finding, Stage

_STAGE = Stage.REQUIRE


def derived_clause(
    rule: Derived, context: JudgingContext
) -> tuple[Finding, tuple[ExplanationVote, ...]]:
    """The finding of a derived field, and what it says of the deltas of that field."""
    own = [c for c in context.changes if c.type == rule.type]
    deltas = {
        key_order(change.key): found
        for change in own
        if change.op is Op.UPDATE
        if (found := tuple(d for d in change.deltas if rule.keeps(d)))
    }
    every = tuple(delta for found in deltas.values() for delta in found)
    created = {key_order(c.key) for c in own if c.op in COME}
    gone = {key_order(c.key) for c in own if c.op in GONE} - created - deltas.keys()
    doubts = [d for d in context.doubts if d.type in {read.type for read in rule.reads}]
    waiting = doubt_causes(d for d in doubts if d.type == rule.type and d.key is None)
    kept: dict[Any, Outcome] = {}
    wrong: Finding | None = None
    for key, now in _entities(rule, context, doubts, gone):
        order = key_order(key)
        outcome = _kept(rule, context, key, now, order in created)
        mask, kept[order] = outcome.mask, outcome
        if mask == TRUE and order in deltas and order not in created:
            kept[order] = _may_move(rule, context, key, now)
        elif mask != TRUE and mask & TRUE:
            waiting |= outcome.causes or {outcome.undefined or shown_entity(rule.type, key)}
        elif mask != TRUE and wrong is None:
            code, why = _why_wrong(rule, key, outcome)
            changed = deltas.get(order, ())
            wrong = context.tell.fails(rule.id, code, _STAGE, why, changed, outcome.seen)
    said = tuple(
        _vote(rule, delta, kept.get(order, NEVER))
        for order, changed in deltas.items()
        for delta in changed
    )
    if wrong is not None:
        return wrong, said
    if waiting:
        return context.tell.unknown(rule.id, _STAGE, waiting, (), every), said
    return context.tell.holds(rule.id, _STAGE, Reason.FIELD_KEPT(), every), said


def _vote(rule: Derived, delta: Delta, found: Outcome) -> ExplanationVote:
    """The vote of the clause on a change; an undefined outcome explains nothing."""
    mask = found.mask & ~UNDEFINED | (FALSE if found.mask & UNDEFINED else 0)
    return ExplanationVote(delta, rule.id, mask, found.causes)


def _why_wrong(rule: Derived, key: Key, found: Outcome) -> tuple[FindingCode, Explanation]:
    if found.mask == UNDEFINED:
        return FindingCode.UNDEFINED, cause(found.undefined)
    decided = deciding(found.seen, FALSE)
    because = () if decided is None else (decided,)
    entity = shown_entity(rule.type, key)
    return FindingCode.DERIVED_WRONG, Reason.WRONG_FIELD(entity=entity, because=because)


def _entities(
    rule: Derived, context: JudgingContext, doubts: list[Doubt], gone: set[Any]
) -> Iterator[tuple[Key, EntityRef]]:
    """The entities after the run of which the clause could fail.

    Where nothing that the expression reads changed, only the changed entities could. Those that
    are `gone`, softly deleted, could not.
    """
    reads = {read.type for read in rule.reads}
    touched = {key_order(c.key): c.key for c in context.changes if c.type == rule.type}
    touched |= {key_order(d.key): d.key for d in doubts if d.type == rule.type and d.key}
    moved = any(c.type in reads for c in context.changes) or bool(doubts)
    if moved and not rule.is_row_local:
        fields = context.eval_context(rule.reads).fields_of(rule.type)
        named = None if doubts else _named_by_changes(rule, context)
        for key, row in context.after.rows(rule.type, fields):
            if named is not None and not named & {comparison_key(part) for part in key}:
                continue  # nothing that its expression ranges over changed
            touched.pop(key_order(key), None)
            if key_order(key) not in gone:
                yield key, EntityRef("after", rule.type, key, row)
    for order in sorted(touched.keys() - gone):
        yield touched[order], context.entity_ref("after", rule.type, touched[order])


def _named_by_changes(rule: Derived, context: JudgingContext) -> frozenset[object] | None:
    """The values of the changed rows in the fields that tie them to an entity, before and after.

    An entity whose key is not among them has the value it had: its field may only stay. None where
    the expression reads more than rows that are tied to the entity.
    """
    if rule.ties is None:
        return None
    named: set[object] = set()
    for change in context.changes:
        for tie in (tie for name, tie in rule.ties if name == change.type):
            for entity_ref in context.sides(change):
                if entity_ref is None:
                    continue
                if entity_ref.row is None or not is_value(entity_ref.row.get(tie, ABSENT)):
                    return None
                named.add(comparison_key(entity_ref.row[tie]))
    return frozenset(named)


def _kept(
    rule: Derived, context: JudgingContext, key: Key, now: EntityRef, is_created: bool
) -> Outcome:
    """The truth of whether the field equals the expression after the run, or moved as it moved."""
    eval_context = context.eval_context(rule.reads)
    mask = outcomes(rule.after, eval_context, {"it": now})
    seen = tuple(eval_context.seen)
    then = None if is_created else _then(context, rule.type, key)
    if mask != TRUE and then is not None:
        old, new = ({"it": then}, {"it": now})
        moved = _moved_alike(
            evaluate(rule.before.left, eval_context, old),
            evaluate(rule.after.left, eval_context, new),
            evaluate(rule.before.right, eval_context, old),
            evaluate(rule.after.right, eval_context, new),
        )
        mask = TRUE if moved == TRUE else mask | (moved & TRUE)
    return replace(Outcome.of(mask, eval_context), seen=seen)


def _may_move(rule: Derived, context: JudgingContext, key: Key, now: EntityRef) -> Outcome:
    """The truth of whether the field's change follows from the expression: it moved, too.

    Where it did not, the field was not kept before the run, and the one who put it right was not
    the system.
    """
    then = _then(context, rule.type, key)
    if then is None:
        return SURE
    eval_context = context.eval_context(rule.reads)
    was = evaluate(rule.before.right, eval_context, {"it": then})
    is_now = evaluate(rule.after.right, eval_context, {"it": now})
    if isinstance(was, Unknown) or isinstance(is_now, Unknown):
        return Outcome(TRUE | FALSE, causes=frozenset(eval_context.causes))
    if isinstance(was, Undefined) or isinstance(is_now, Undefined):
        return SURE
    return NEVER if equal(was, is_now) else SURE


def may_show(
    context: JudgingContext, moments: IntermediateStates, rule: Derived, key: Key, side: str
) -> bool:
    """True if the field may show, at a moment of the run, what the system keeps.

    It shows what the expression is at that moment or at another one, or moved since the run began
    as the expression had by then: a system may write the two in different transactions. Only a
    field of which that is surely wrong of every moment is not shown by the system.
    """
    now = _as_of(context, side)
    others = moments.sides({rule.type, *(read.type for read in rule.reads)})
    sides = dict.fromkeys((side, *others, "after"))
    return any(_may_show(rule, key, now, _as_of(context, each)) for each in sides)


def _as_of(context: JudgingContext, side: str) -> JudgingContext:
    return context if side == "after" else context.as_of(side)


def _may_show(rule: Derived, key: Key, now: JudgingContext, there: JudgingContext) -> bool:
    """True if the field as it is `now` may be, or have moved as, the expression is `there`."""
    field_now = {"it": now.entity_ref("after", rule.type, key)}
    at, by = now.eval_context(rule.reads), there.eval_context(rule.reads)
    then = _then(there, rule.type, key)
    shown = evaluate(rule.after.left, at, field_now)
    value = evaluate(rule.after.right, by, {"it": there.entity_ref("after", rule.type, key)})
    if isinstance(shown, Unknown) or isinstance(value, Unknown):
        return True
    if not isinstance(value, Undefined) and equal(shown, value):
        return True
    if then is None:
        return False
    old = [evaluate(each, by, {"it": then}) for each in (rule.before.left, rule.before.right)]
    return _moved_alike(old[0], shown, old[1], value) != FALSE


def _then(context: JudgingContext, type_name: str, key: Key) -> EntityRef | None:
    """The entity before the run; None where it was not there."""
    then = context.entity_ref("before", type_name, key)
    is_known = then.row is not None or context.before.enumeration(type_name).may_miss(key)
    return then if is_known else None


def _moved_alike(field_0: Result, field_1: Result, value_0: Result, value_1: Result) -> int:
    """True if the field moved exactly as the expression did; what is undefined can only stay."""
    if any(isinstance(part, Unknown) for part in (field_0, field_1, value_0, value_1)):
        return TRUE | FALSE
    if isinstance(value_0, Undefined) or isinstance(value_1, Undefined):
        both = isinstance(value_0, Undefined) and isinstance(value_1, Undefined)
        return TRUE if both and equal(field_0, field_1) else FALSE
    if all(finite(part) for part in (field_0, field_1, value_0, value_1)):
        alike = exact(field_1) - exact(field_0) == exact(value_1) - exact(value_0)
    else:
        alike = equal(field_0, field_1) and equal(value_0, value_1)
    return TRUE if alike else FALSE
