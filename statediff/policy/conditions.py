"""Clauses that are one expression, and the form of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

from statediff.contract.binding.bound import Condition
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, TooCostly
from statediff.model.codes import FindingCode
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Value
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
        gaps = {"no history: the order of the commits of several sources is not known"}
    return over_the_run(at_ends, within, gaps)


def _as_of(clause: Condition, context: JudgingContext, side: str) -> Finding:
    found = at(_condition(clause, context.as_of(side)), side)
    rows = tuple(
        replace(row, side=side) if row.side == "after" else row for row in found.witness.rows
    )
    return replace(found, witness=replace(found.witness, rows=rows))


def _condition(clause: Condition, context: JudgingContext) -> Finding:
    eval_context = context.eval_context(clause.reads)
    stage = clause.section
    answers = any(r.root == "answer" for r in clause.reads)
    if stage is Stage.ANSWER and answers and isinstance(context.answer, NoAnswer):
        text = f"there is no answer: {context.answer.cause}"
        return fails(clause.id, FindingCode.ANSWER_MISSING, stage, text)
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
        return holds(clause.id, stage, clause.sentence)
    code = _UNMET.get(stage, FindingCode.REQUIREMENT_FAILED)
    shown = deciding(seen, TRUE if stage is Stage.FORBID else FALSE) or clause.text
    return fails(clause.id, code, stage, shown, (), seen)


_ANSWER_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "int": int,
    "decimal": (int, Decimal),
    "text": str,
    "bool": bool,
    "list": tuple,
    "map": Map,
    "any": object,
}


def answer_shape(schema: Mapping[str, str], answer: Mapping[str, Value] | NoAnswer) -> Finding:
    """The answer has the names and types that the contract asks for."""
    if isinstance(answer, NoAnswer):
        text = f"there is no answer: {answer.cause}"
        return fails("answer", FindingCode.ANSWER_MISSING, Stage.ANSWER, text)
    for name, kind in schema.items():
        if name not in answer:
            text = f"the answer lacks `{name}`"
            return fails("answer", FindingCode.ANSWER_INVALID, Stage.ANSWER, text)
        if not _is_kind(answer[name], kind):
            text = f"`{name}` of the answer is not {kind}"
            return fails("answer", FindingCode.ANSWER_INVALID, Stage.ANSWER, text)
    return holds("answer", Stage.ANSWER, "the answer has the form asked for")


def _is_kind(value: Value, kind: str) -> bool:
    if isinstance(value, bool):
        return kind in ("bool", "any")
    return isinstance(value, _ANSWER_KINDS[kind])
