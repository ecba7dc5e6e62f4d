"""The calls that undo effects, as a contract's `compensation` says they are made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from statediff.contract.clauses.effects import Argument, BoundEffect, Computed
from statediff.contract.evaluation.evaluate import evaluate
from statediff.contract.language.context import EntityRef, Env, EvalContext, Result
from statediff.kernel.policy.matching import JudgingContext
from statediff.kernel.policy.relation import Change
from statediff.model.values import ABSENT, Map


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
