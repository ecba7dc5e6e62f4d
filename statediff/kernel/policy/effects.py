"""Λ: effects without authorization, effects that a retry repeated, and calls that undo effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from statediff.contract.clauses.effects import Argument, BoundEffect, Computed
from statediff.contract.clauses.kind import plain_value
from statediff.contract.evaluation.by_run import settled
from statediff.contract.evaluation.evaluate import evaluate, outcomes
from statediff.contract.evaluation.operations import both
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    EntityRef,
    Env,
    EvalContext,
    Result,
)
from statediff.contract.language.syntax import Node
from statediff.kernel.policy.findings import WHOLE, last
from statediff.kernel.policy.matching import JudgingContext, doubt_causes
from statediff.kernel.policy.relation import COME, Change, Changes
from statediff.kernel.policy.run import CallContext
from statediff.kernel.policy.witness import deciding, first_change
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Doubt
from statediff.model.explanation import Cause, Explanation, Reason, cause, shown, shown_key
from statediff.model.schema import Kind
from statediff.model.trace import Action, ActionClass
from statediff.model.values import ABSENT, Map, Unobserved, encode
from statediff.model.verdict import Finding, Stage, Truth


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

    def is_sure(doubt: Doubt) -> bool:
        """True if every change of the kind that the doubted one can be is authorized."""
        ways = context.ways(doubt, rule.operations)
        masks = [decide(context.eval_context(rule.reads), *way) for way in ways]
        return all(mask == TRUE for mask in masks)

    doubts = [d for d in context.doubts if d.type == rule.type and not is_sure(d)]
    causes |= doubt_causes(doubts)
    if unsure and not causes:
        return context.tell.undecided(rule.id, Stage.FORBID, last(reasons), (), tuple(unsure))
    if unsure or doubts:
        return context.tell.unknown(rule.id, Stage.FORBID, causes, (), tuple(unsure))
    return context.tell.holds(rule.id, Stage.FORBID, Reason.ALL_AUTHORIZED)


def _authorizes(node: Node, context: EvalContext, env: Env) -> int:
    """The outcomes of a condition; what the run left undefined or unread authorizes nothing."""
    return settled(outcomes(node, context, env), FALSE, node, context, env)


class NotComputable(Exception):
    """An argument has no value, or none that is known."""


def arguments_of(rule: BoundEffect, context: JudgingContext, change: Change) -> Mapping[str, Any]:
    """The arguments of the call that undoes the change, as JSON.

    An instant is a text in UTC, `2026-04-20 09:00:00`. `NotComputable` where one is not known.
    """
    if rule.undoing is None:
        raise NotComputable(f"{rule.id} has no compensation with arguments")
    it, new = context.sides(change)
    env: Env = {"it": it, "new": ABSENT if new is None else new}
    seen = context.eval_context(rule.reads)
    return {name: _filled(value, seen, env) for name, value in rule.undoing.arguments.items()}


def _filled(value: Argument, seen: EvalContext, env: Env) -> Any:
    match value:
        case Computed(node=node):
            return _plain(evaluate(node, seen, env))
        case Mapping():
            return {name: _filled(each, seen, env) for name, each in value.items()}
        case tuple():
            return [_filled(each, seen, env) for each in value]
        case _:
            return _plain(value)


def _plain(value: Result) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case Fraction() | Decimal():
            return int(value) if value == int(value) else str(value)
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ")
        case date():
            return value.isoformat()
        case EntityRef(key=(part,)):
            return _plain(part)
        case tuple():
            return [_plain(each) for each in value]
        case Map(items=items):
            return {name: _plain(each) for name, each in items}
        case _:
            raise NotComputable(f"an argument is {type(value).__name__}, no value that JSON has")


_STAGE: Final = Stage.FORBID
_SHOWN: Final = 3
"""How many like effects an explanation names."""
_TIMES: Final = (Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP, Kind.DATE)


def repeated(rule: BoundEffect, run: CallContext, candidates: Changes) -> Finding:
    """FAILS if a call was made again and left more such effects than there were different calls.

    Effects are alike if only key and time tell them apart; two calls of one tool are one call
    retried if their arguments are the same. Whether like effects were meant is for a complete log
    to say; without one it is UNKNOWN.
    """
    groups: dict[str, list[Change]] = {}
    number = 0
    vague: set[Cause] = set()
    for change in candidates.of(rule.type, rule.operations & set(COME)):
        number += 1
        likeness, unread = _likeness(run, change)
        vague |= unread
        if not unread:
            groups.setdefault(likeness, []).append(change)
    doubts = [d for d in run.context.doubts if d.type == rule.type and not d.path]
    vague |= doubt_causes(doubts)
    alike = max(groups.values(), key=len, default=[])
    calls = _tried(run.trace.actions, rule.tool)
    told = _as_attributed(rule, run, groups, calls) if not vague else None
    if told is not None:
        return told
    retried = next((tries for tries in calls.values() if len(tries) > 1), None)
    if len(alike) > len(calls) and retried is not None and run.gap is None:
        # Which of them is the repetition cannot be known; that many of them are is certain.
        deltas: tuple[Delta, ...] = tuple(d for c in alike[len(calls) :] for d in c.deltas)
        why = _repeated(rule, alike, retried[1].id, retried[0].id, retried[0].tool)
        found = WHOLE.fails(rule.retry_id, FindingCode.DUPLICATE_EFFECT, _STAGE, why, deltas)
        return replace(found, evidence=(*found.evidence, *(a.id for a in retried[:2])))
    causes: set[Cause] = {run.gap} if run.gap is not None else set()
    if retried is not None:
        causes.add(Reason.WHICH_CALL())
    elif len(calls) > 1:
        causes |= {
            Reason.ARGUMENTS_UNKNOWN(call=tries[0].id)
            for tries in calls.values()
            if isinstance(tries[0].arguments, Unobserved)
        }
    some = bool(vague) and (number > 1 or bool(doubts))
    if causes and (len(alike) > 1 or some):
        return WHOLE.unknown(rule.retry_id, _STAGE, causes | vague)
    return WHOLE.holds(rule.retry_id, _STAGE, Reason.NO_RETRY())


def _as_attributed(
    rule: BoundEffect,
    run: CallContext,
    groups: dict[str, list[Change]],
    calls: dict[str, list[Action]],
) -> Finding | None:
    """The finding where it is known which call left each of several like effects; else None.

    Then a call that was made again and left another one is distinguished from two calls that
    differ.
    """
    likeness = {action.id: name for name, tries in calls.items() for action in tries}
    for alike in (group for group in groups.values() if len(group) > 1):
        left: dict[str, dict[str, Change]] = {}
        for change in alike:
            maker = run.context.attribution.maker(change.deltas[0])
            if maker is None or maker not in likeness:
                return None
            left.setdefault(likeness[maker], {}).setdefault(maker, change)
        for made in left.values():
            if len(made) > 1:
                first, second = list(made)[:2]
                deltas = tuple(d for change in list(made.values())[1:] for d in change.deltas)
                tool = next(a.tool for a in run.trace.actions if a.id == second)
                why = _repeated(rule, list(made.values()), second, first, tool)
                found = WHOLE.fails(
                    rule.retry_id, FindingCode.DUPLICATE_EFFECT, _STAGE, why, deltas
                )
                return replace(found, evidence=(*found.evidence, first, second))
    return WHOLE.holds(rule.retry_id, _STAGE, Reason.NO_RETRY())


def _repeated(
    rule: BoundEffect, alike: Sequence[Change], again: str, first: str, tool: str
) -> Explanation:
    return Reason.REPEATED(
        entity_type=rule.type,
        keys=tuple(shown_key(change.key) for change in alike[:_SHOWN]),
        times=len(alike),
        again=again,
        first=first,
        tool=shown(tool),
    )


def _likeness(run: CallContext, change: Change) -> tuple[str, set[Cause]]:
    """The likeness of two effects of one retried call, and what of it is not known."""
    row = run.context.entity_ref("after", change.type, change.key).row or {}
    spec = run.context.after.schema.by_name[change.type]
    own = set(spec.key) | {f.name for f in spec.fields if f.kind in _TIMES}
    cells: list[Any] = []
    unread: set[Cause] = set()
    for name, value in sorted(row.items()):
        if name in own:
            continue
        if isinstance(value, Unobserved):
            unread.add(
                Reason.FIELD(
                    entity_type=change.type, field=name, side="after", cause=cause(value.cause)
                )
            )
        cells.append((name, encode(value)))
    return repr(cells), unread


def _tried(actions: Iterable[Action], tool: str | None) -> dict[str, list[Action]]:
    """The calls that may have had the effect, those with the same tool and arguments together."""
    calls: dict[str, list[Action]] = {}
    for action in actions:
        if action.action_class is not ActionClass.READ and tool in (None, action.tool):
            is_known = not isinstance(action.arguments, Unobserved)
            likeness = encode(action.arguments) if is_known else action.id
            calls.setdefault(repr((action.tool, likeness)), []).append(action)
    return calls


def with_compensation(finding: Finding, rule: BoundEffect, run: CallContext) -> Finding:
    """A violation that names the call which undid it. That never makes it less of one."""
    if finding.truth is not Truth.FAILS or rule.compensation is None:
        return finding
    wanted = _undoing_arguments(finding, rule, run)
    undone = [
        action.id
        for action in run.trace.actions
        if action.tool == rule.compensation
        and action.error is None
        and (wanted is None or encode(action.arguments) in wanted)
    ]
    if not undone:
        return finding
    return replace(
        finding,
        explanation=Reason.COMPENSATED(
            what=finding.explanation, call=undone[-1], tool=rule.compensation
        ),
        evidence=(*finding.evidence, undone[-1]),
    )


def _undoing_arguments(finding: Finding, rule: BoundEffect, run: CallContext) -> list[Any] | None:
    """The arguments of each call that undoes what was found; None where the contract has none."""
    if rule.undoing is None:
        return None
    found = []
    for change in run.context.changes:
        if any(delta.id in finding.deltas for delta in change.deltas):
            try:
                found.append(encode(plain_value(arguments_of(rule, run.context, change))))
            except NotComputable:
                continue
    return found
