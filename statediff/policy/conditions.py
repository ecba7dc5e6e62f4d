"""Clauses that are one expression, and the form of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

from statediff.contract.clauses.patterns import Condition
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, TooCostly
from statediff.model.codes import FindingCode
from statediff.model.explanation import Reason
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Observed, Unobserved
from statediff.model.verdict import Finding, Stage, Truth
from statediff.policy.findings import (
    at,
    fails,
    holds,
    last,
    over_the_run,
    truth_of_mask,
    undecided,
    unknown,
)
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.matching import TOO_COSTLY, JudgingContext
from statediff.policy.witness import deciding

_UNMET: Final = {
    Stage.FORBID: FindingCode.FORBIDDEN_CONDITION,
    Stage.ANSWER: FindingCode.CLAIM_REFUTED,
}


def condition(clause: Condition, context: JudgingContext, moments: IntermediateStates) -> Finding:
    """An expression clause: must hold (require, claims) or must not (forbid).

    With `during: run`, also if the run had ended at any of its moments.
    """
    at_ends = _condition(clause, context)
    if not clause.during_run:
        return at_ends
    types = {read.type for read in clause.reads if read.root == "after"}
    within = [_as_of(clause, context, side) for side in moments.sides(types)]
    gaps = moments.gaps(types)
    if not gaps and len(moments.moving(types)) > 1:
        gaps = {Reason.ORDER_OF_SOURCES()}
    return over_the_run(at_ends, within, gaps)


def _as_of(clause: Condition, context: JudgingContext, side: str) -> Finding:
    found = at(_condition(clause, context.as_of(side)), Reason.SIDE(side=side))
    rows = tuple(
        replace(row, side=side) if row.side == "after" else row for row in found.witness.rows
    )
    return replace(found, witness=replace(found.witness, rows=rows))


def _condition(clause: Condition, context: JudgingContext) -> Finding:
    eval_context = context.eval_context(clause.reads)
    stage = clause.section
    answers = any(r.root == "answer" for r in clause.reads)
    if stage is Stage.ANSWER and answers and isinstance(context.answer, NoAnswer):
        none = Reason.NO_ANSWER(words=context.answer.cause)
        return fails(clause.id, FindingCode.ANSWER_MISSING, stage, none)
    try:
        mask = outcomes(clause.node, eval_context, {})
    except TooCostly:
        return unknown(clause.id, stage, [TOO_COSTLY])
    seen = tuple(eval_context.seen)
    if stage is Stage.FORBID:
        if mask == UNDEFINED:
            return undecided(clause.id, stage, last(eval_context.undefined), seen)
        truth = {TRUE: Truth.FAILS, FALSE: Truth.HOLDS}.get(mask, Truth.UNKNOWN)
    elif mask == UNDEFINED:
        return fails(
            clause.id, FindingCode.UNDEFINED, stage, last(eval_context.undefined), (), seen
        )
    else:
        # Undefined fails such a clause as false does.
        truth = truth_of_mask(mask if mask & TRUE else FALSE)
    if truth is Truth.UNKNOWN:
        return unknown(clause.id, stage, eval_context.causes or set(eval_context.undefined), seen)
    if truth is Truth.HOLDS:
        return holds(clause.id, stage, Reason.AS_ASKED())
    code = _UNMET.get(stage, FindingCode.REQUIREMENT_FAILED)
    decided = deciding(seen, TRUE if stage is Stage.FORBID else FALSE)
    return fails(clause.id, code, stage, decided or Reason.WRITTEN(text=clause.text), (), seen)


_ANSWER_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "int": int,
    "decimal": (int, Decimal),
    "text": str,
    "bool": bool,
    "list": tuple,
    "map": Map,
    "any": object,
}


def answer_shape(schema: Mapping[str, str], answer: Mapping[str, Observed] | NoAnswer) -> Finding:
    """The answer has the names and types that the contract asks for."""
    if isinstance(answer, NoAnswer):
        none = Reason.NO_ANSWER(words=answer.cause)
        return fails("answer", FindingCode.ANSWER_MISSING, Stage.ANSWER, none)
    for name, kind in schema.items():
        if name not in answer:
            lacks = Reason.ANSWER_LACKS(name=name)
            return fails("answer", FindingCode.ANSWER_INVALID, Stage.ANSWER, lacks)
        value = answer[name]
        if isinstance(value, Unobserved):
            return unknown("answer", Stage.ANSWER, [Reason.ANSWER_UNCLEAR(words=value.cause)])
        if not _is_kind(value, kind):
            other = Reason.ANSWER_KIND(name=name, kind=kind)
            return fails("answer", FindingCode.ANSWER_INVALID, Stage.ANSWER, other)
    return holds("answer", Stage.ANSWER, Reason.ANSWER_HAS_FORM())


def _is_kind(value: Observed, kind: str) -> bool:
    if isinstance(value, bool):
        return kind in ("bool", "any")
    return isinstance(value, _ANSWER_KINDS[kind])
