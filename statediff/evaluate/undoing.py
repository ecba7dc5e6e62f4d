"""What a contract's compensations would call after a run, and whether the calls undid it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statediff.contract.clauses.effects import BoundEffect
from statediff.evaluate.along import compared
from statediff.evaluate.contracts import Compiled, ContractFile, Scoped, compile_contract, schema_of
from statediff.model.delta import Delta, Op
from statediff.model.readings import Capture
from statediff.model.schema import Purpose
from statediff.model.timelines import Matching
from statediff.model.trace import NoAnswer
from statediff.model.values import key_order, show_key
from statediff.model.view import StateView
from statediff.policy.matching import Change, JudgingContext
from statediff.policy.undoing import NotComputable, arguments_of
from statediff.resolve import resolve

_NO_ANSWER = NoAnswer("nothing is asked")


@dataclass(frozen=True, kw_only=True)
class UndoingCall:
    """One call that undoes one effect. `problem` says why it cannot be made; empty if it can."""

    clause: str
    effect: str
    """What is undone, e.g. `link grant (19, oncall-admin)`."""
    tool: str
    arguments: Mapping[str, Any]
    problem: str = ""


@dataclass(frozen=True)
class _Compared:
    compiled: Compiled
    matching: Matching
    deltas: tuple[Delta, ...]
    context: JudgingContext


def undoing_calls(file: ContractFile, before: Capture, after: Capture) -> tuple[UndoingCall, ...]:
    """The call for each effect of the run that a compensation with arguments is for.

    The last change comes first. Every effect of a rule counts, whether the contract wanted it.
    """
    seen = _compared(file, before, after)
    calls = []
    for change, rule in reversed(_effects(seen)):
        made: Mapping[str, Any] = {}
        problem = ""
        try:
            made = arguments_of(rule, seen.context, change)
        except NotComputable as error:
            problem = str(error)
        effect = f"{change.op.value} {change.type} {show_key(change.key)}"
        calls.append(
            UndoingCall(
                clause=rule.id,
                effect=effect,
                tool=rule.compensation or "",
                arguments=made,
                problem=problem,
            )
        )
    return tuple(calls)


def left_by_undoing(
    file: ContractFile, before: Capture, after: Capture, undone: Capture
) -> tuple[Delta, ...]:
    """What the undoing did not undo, or did beside it; nothing where every compensation is true.

    `before` and `after` are the ends of the run, `undone` is the state after the calls. Effects
    that no compensation is for may still be there; history may have grown, and the types that a
    compensation `leaves` may have changed.
    """
    run, final = _compared(file, before, after), _compared(file, before, undone)
    meant = {(change.type, change.op, key_order(change.key)) for change, _ in _effects(run)}
    known = {(delta.id, delta.op, repr(delta.after)) for delta in run.deltas}
    rules = [rule for rule in final.compiled.contract.effects if rule.undoing is not None]
    leaves = {name for rule in rules for name in (rule.undoing.leaves if rule.undoing else ())}
    types = final.compiled.contract.schema.by_name

    def is_left(delta: Delta) -> bool:
        if delta.type in leaves:
            return False
        if types[delta.type].purpose is Purpose.HISTORY and delta.op in (Op.CREATE, Op.LINK):
            return False
        if (delta.type, delta.op, key_order(delta.key)) in meant:
            return True
        return (delta.id, delta.op, repr(delta.after)) not in known

    return tuple(delta for delta in final.deltas if is_left(delta))


def _effects(seen: _Compared) -> list[tuple[Change, BoundEffect]]:
    rules = [rule for rule in seen.compiled.contract.effects if rule.undoing is not None]
    return [
        (change, rule)
        for change in seen.context.changes
        for rule in rules
        if change.type == rule.type and change.op in rule.operations
    ]


def _compared(file: ContractFile, before: Capture, after: Capture) -> _Compared:
    compiled = compile_contract(file, schema_of(before, after))
    authority = {
        name: rule.source for rule in compiled.contract.evidence for name in rule.authority
    }
    resolution = resolve(before, after, compiled.identities, authority)
    matching = resolution.matchings[0]
    found = compared(compiled, matching.before, matching.after, resolution.readings_of)
    scoped = Scoped(compiled.book, compiled.boundary, matching.before.schema)
    context = JudgingContext(
        StateView(matching.before, scoped),
        StateView(matching.after, scoped),
        found.deltas,
        found.doubts,
        _NO_ANSWER,
    )
    return _Compared(compiled, matching, found.deltas, context)
