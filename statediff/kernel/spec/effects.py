"""Effects that need an authorization or were repeated, and fields that the system keeps."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.effects import BoundEffect
from statediff.kernel.spec.by_run import settled
from statediff.kernel.spec.changes import (
    COME,
    GONE,
    HOLDS,
    UNKNOWN,
    Case,
    Decided,
    fails,
    ways,
)
from statediff.kernel.spec.expressions import outcomes, value
from statediff.kernel.spec.frame import Vote
from statediff.kernel.spec.values import (
    FALSE,
    NO_VALUE,
    OPEN,
    TRUE,
    UNDEFINED,
    Env,
    Result,
    Some,
    Thing,
    Truths,
    both,
    is_finite,
    likeness,
    without_undefined,
)
from statediff.model.codes import FindingCode
from statediff.model.delta import Op
from statediff.model.values import ABSENT, Key, key_order

# ---------------------------------------------------------------- effects and derived fields


def decide_effect(rule: BoundEffect, case: Case) -> Decided | None:
    """Λ: every such change is authorized; None where the rule asks for no authorization."""
    if rule.authorized_by is None and rule.actor is None:
        return None
    kind = [c for c in case.everything if c.type == rule.type and c.op in rule.operations]
    certain = [_is_approved(rule, case, *case.sides(c)) for c in kind]
    doubted = [d for d in case.doubts if d.type == rule.type]
    perhaps = [
        _is_approved(rule, case, *w) for d in doubted for w in ways(d, rule.operations, case)
    ]
    if FALSE in certain:
        return fails(FindingCode.UNAUTHORIZED_EFFECT)
    return HOLDS if all(mask == TRUE for mask in (*certain, *perhaps)) else UNKNOWN


def _is_approved(rule: BoundEffect, case: Case, it: Result, new: Result | None) -> Truths:
    """The effect is authorized, and in the right name."""
    env: Env = {"it": it, "new": ABSENT if new is None else new}
    found = TRUE
    for node in (rule.authorized_by, rule.actor):
        if node is not None and found != FALSE:
            found = both(found, settled(node, case.world, env, FALSE))
    return found


def decide_derived(rule: Derived, case: Case) -> tuple[Decided, list[Vote]]:
    """A field that the system keeps equals its expression, or moved exactly as that moved.

    Its change is explained where it is kept and, of what was there before, the expression moved.
    """
    own = [c for c in case.changes if c.type == rule.type]
    come = {key_order(c.key) for c in own if c.op in COME}
    kept: dict[Any, Truths] = {}
    for key in _derived_of(rule, case):
        is_new = key_order(key) in come
        then = None if is_new else then_of(rule.type, key, case)
        kept[key_order(key)] = _is_kept(rule, case, case.thing(1, rule.type, key), then)
    votes = []
    for change in own:
        mask = kept.get(key_order(change.key), FALSE)
        then = then_of(rule.type, change.key, case)
        if mask == TRUE and then is not None and key_order(change.key) not in come:
            mask = _has_moved(rule, case, then, case.thing(1, rule.type, change.key))
        mask = without_undefined(mask)
        is_update = change.op is Op.UPDATE
        votes += [Vote(d, mask) for d in change.deltas if is_update and rule.keeps(d)]
    wrong = [mask for _, mask in sorted(kept.items()) if not mask & TRUE]
    if wrong:
        is_undefined = wrong[0] == UNDEFINED
        return fails(FindingCode.UNDEFINED if is_undefined else FindingCode.DERIVED_WRONG), votes
    is_open = any(d.type == rule.type and d.key is None for d in case.doubts)
    is_known = not is_open and all(mask == TRUE for mask in kept.values())
    return (HOLDS if is_known else UNKNOWN), votes


def _derived_of(rule: Derived, case: Case) -> Iterator[Key]:
    """The entities after the run of which something that the rule reads changed, or may have."""
    reads = {read.type for read in rule.reads}
    doubts = [d for d in case.doubts if d.type in reads]
    own = [c for c in case.changes if c.type == rule.type]
    gone = {key_order(c.key) for c in own if c.op in GONE}
    gone -= {key_order(c.key) for c in own if c.op in COME or any(map(rule.keeps, c.deltas))}
    touched = {key_order(c.key): c.key for c in own}
    touched |= {key_order(d.key): d.key for d in doubts if d.type == rule.type and d.key}
    if not rule.is_row_local and (doubts or any(c.type in reads for c in case.changes)):
        table = case.world.table(case.ends[1], rule.type)
        touched |= {order: key for order, (key, _) in table.rows.items()}
    yield from (key for order, key in touched.items() if order not in gone)


def then_of(name: str, key: Key, case: Case) -> Thing | None:
    """The entity before the run; None where it was not there."""
    found = case.thing(0, name, key)
    may_be = found.row is not None or case.world.table(case.ends[0], name).may_miss(key)
    return found if may_be else None


def _is_kept(rule: Derived, case: Case, now: Thing, then: Thing | None) -> Truths:
    mask = outcomes(rule.after, case.world, {"it": now})
    if mask == TRUE or then is None:
        return mask
    new = [value(n, case.world, {"it": now}) for n in (rule.after.left, rule.after.right)]
    old = [value(n, case.world, {"it": then}) for n in (rule.before.left, rule.before.right)]
    moved = moved_alike((old[0], new[0]), (old[1], new[1]))
    return TRUE if moved == TRUE else mask | moved & TRUE


def moved_alike(of_field: tuple[Result, Result], of_rule: tuple[Result, Result]) -> Truths:
    """The field moved exactly as the expression did; where that is undefined, it stayed."""
    every = (*of_field, *of_rule)
    if any(isinstance(part, Some) for part in every):
        return OPEN
    stayed = likeness(of_field[0]) == likeness(of_field[1])
    if NO_VALUE in of_rule:
        alike = stayed and of_rule == (NO_VALUE, NO_VALUE)
    elif all(map(is_finite, every)):
        (a, b), (x, y) = (tuple(map(Fraction, pair)) for pair in (of_field, of_rule))
        alike = b - a == y - x
    else:
        alike = stayed and likeness(of_rule[0]) == likeness(of_rule[1])
    return TRUE if alike else FALSE


def _has_moved(rule: Derived, case: Case, then: Thing, now: Thing) -> Truths:
    """The expression moved: who put right a field that was not kept was not the system."""
    was = value(rule.before.right, case.world, {"it": then})
    is_now = value(rule.after.right, case.world, {"it": now})
    if isinstance(was, Some) or isinstance(is_now, Some):
        return OPEN
    is_same = NO_VALUE not in (was, is_now) and likeness(was) == likeness(is_now)
    return FALSE if is_same else TRUE
