"""Steps: invariants and transition assertions along the run, whatever its path [STA].

Without a history nothing is known of the states between the two ends: a violation at an end is a
violation, that there was none in between is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Any, Final

from statediff.contract.assertions import AfterCalls, Always, AtCalls, Happens, Occurrence, Order
from statediff.contract.assertions import Step as StepClause
from statediff.contract.world import FALSE, TRUE, UNDEFINED, Env, Thing
from statediff.model.delta import Op
from statediff.model.state import Row
from statediff.model.trace import ActionClass
from statediff.model.values import Unobserved, key_order, same, show_key
from statediff.model.verdict import Finding, Stage
from statediff.model.view import View
from statediff.policy.findings import fails
from statediff.policy.matching import COME, GONE
from statediff.policy.run import Run, at_call, broken, decided
from statediff.policy.witness import render

_STAGE: Final = Stage.STEPS


def step(clause: StepClause, run: Run) -> Finding:
    """The finding of one step."""
    return run.own_word(_step(clause, run), clause)


def _step(clause: StepClause, run: Run) -> Finding:
    match clause:
        case Always():
            return _always(clause, run)
        case AtCalls():
            return _at_calls(clause, run)
        case AfterCalls():
            return _after_calls(clause, run)
        case Occurrence():
            return _occurrence(clause, run)
        case Order():
            return _order(clause, run)


def _always(clause: Always, run: Run) -> Finding:
    """FAILS on any state in which it does not hold; HOLDS only over all of them."""
    between = ((f"moment {n}", view) for n, view in enumerate(run.moments.states, start=1))
    points = (("before", run.judge.before), *between, ("after", run.judge.after))
    causes: set[str] = set()
    if run.moments.gap is not None:
        causes.add(f"no history: {run.moments.gap}")
    for side, view in points:
        found = run.outcome(clause.node, clause.reads, {}, (side, view))
        if not found.mask & TRUE:
            where = {"before": "already before the run", "after": "after the run"}.get(side, side)
            return broken(clause.id, _STAGE, "invariant-broken", where, found, clause.text)
        if found.mask != TRUE:
            causes |= found.why
    return decided(clause.id, _STAGE, causes, f"in all {len(points)} states of the run")


def _at_calls(clause: AtCalls, run: Run) -> Finding:
    causes: set[str] = set()
    number = 0
    for position, call in enumerate(run.calls):
        meant = _is_meant(clause, call, run.trace.actions[position].action_class)
        if meant == FALSE:
            continue
        number += 1
        env = {"call": call, "calls": run.so_far(position)}
        found = run.outcome(clause.node, clause.reads, env)
        if not found.mask & TRUE and meant == TRUE:
            finding = broken(clause.id, _STAGE, "step-failed", name(call), found, clause.text)
            return at_call(finding, call)
        if not found.mask & TRUE:
            causes.add(f"in {show_key(call.key)}, the log does not say its class")
        elif found.mask != TRUE:
            causes |= found.why
    other = run.unrecorded()
    if other is not None:
        found = run.outcome(clause.node, clause.reads, run.anywhere(other))
        causes |= set() if found.mask == TRUE else {other.cause}
    return decided(clause.id, _STAGE, causes, f"at each of {number} such calls")


def _is_meant(clause: AtCalls, call: Thing, action_class: ActionClass) -> int:
    if clause.tool is not None and (call.row or {}).get("tool") != clause.tool:
        return FALSE
    if clause.action_class is None or clause.action_class is action_class:
        return TRUE
    return TRUE | FALSE if action_class is ActionClass.UNKNOWN else FALSE


def _after_calls(clause: AfterCalls, run: Run) -> Finding:
    """The state after the last call is the one after the run; the others take a history."""
    causes: set[str] = set()
    for position, call in enumerate(run.calls):
        is_last = run.gap is None and position == len(run.calls) - 1
        now = run.view_after(str(call.key[0]), is_last)
        env = {"call": call, "calls": run.so_far(position)}
        found = run.outcome(clause.node, clause.reads, env, now)
        if not found.mask & TRUE:
            where = f"after {name(call)}"
            finding = broken(clause.id, _STAGE, "step-failed", where, found, clause.text)
            return at_call(finding, call)
        if found.mask != TRUE:
            causes |= found.why
    other = run.unrecorded()
    if other is not None:
        # Whichever call was the last, recorded or not, the run ended in the state it left.
        now = ("after", run.judge.after)
        number = len(run.calls)
        env = {"call": other, "calls": run.so_far(number)}
        found = run.outcome(clause.node, clause.reads, env, now)
        if not found.mask & TRUE and number:
            env = {"call": run.calls.call(number - 1), "calls": run.so_far(number - 1)}
            found = run.outcome(clause.node, clause.reads, env, now)
        if not found.mask & TRUE and number:
            return broken(
                clause.id, _STAGE, "step-failed", "after the last call", found, clause.text
            )
        causes.add(other.cause)
    return decided(clause.id, _STAGE, causes, f"after each of {len(run.calls)} calls")


def _occurrence(clause: Occurrence, run: Run) -> Finding:
    counted: list[Thing] = []
    possible = 0
    causes: set[str] = set()
    for position, call in enumerate(run.calls):
        env = {"call": call, "calls": run.so_far(position)}
        found = run.outcome(clause.node, clause.reads, env)
        if found.mask == UNDEFINED:
            return at_call(broken(clause.id, _STAGE, "", name(call), found, ""), call)
        if found.mask == TRUE:
            counted.append(call)
        elif found.mask != FALSE:
            possible += bool(found.mask & TRUE)
            causes |= found.why
    if clause.high is not None and len(counted) > clause.high:
        text = f"{_number(len(counted))}, at most {clause.high} may: {_names(counted)}"
        return at_call(fails(clause.id, "too-many-calls", _STAGE, text), counted[-1])
    most: int | None = len(counted) + possible
    other = run.unrecorded()
    if other is not None:
        mask = run.outcome(clause.node, clause.reads, run.anywhere(other)).mask
        most = None if mask & TRUE else most
        causes |= {other.cause} if mask != FALSE else set()
    if most is not None and most < clause.low:
        text = f"{_number(len(counted))}, {clause.low} required"
        return fails(clause.id, "too-few-calls", _STAGE, text)
    enough = len(counted) >= clause.low
    if enough and clause.high is None and not _may_be_undefined(clause, run):
        causes = set()
    return decided(clause.id, _STAGE, causes, _number(len(counted)))


def _may_be_undefined(clause: Occurrence, run: Run) -> bool:
    recorded = ({"call": c, "calls": run.so_far(n)} for n, c in enumerate(run.calls))
    other = run.unrecorded()
    places: Iterable[Env] = chain(recorded, () if other is None else (run.anywhere(other),))
    return any(run.outcome(clause.node, clause.reads, env).mask & UNDEFINED for env in places)


def _order(clause: Order, run: Run) -> Finding:
    """What came in one commit came together, and nobody saw one without the other."""
    if run.moments.gap is not None:
        return decided(clause.id, _STAGE, [f"no history: {run.moments.gap}"], "")
    views = (run.judge.before, *run.moments.states, run.judge.after)
    done = FALSE
    causes: set[str] = set()
    for number, (one, two) in enumerate(pairwise(views), start=1):
        first, then = _happened(clause.first, one, two), _happened(clause.then, one, two)
        done = TRUE if TRUE in (done, first) else done | first
        if then == TRUE and done == FALSE:
            text = f"commit {number}: {clause.then.type} came first"
            return fails(clause.id, "effects-out-of-order", _STAGE, text)
        if then & TRUE and done != TRUE:
            causes.add(f"{clause.first.type} and {clause.then.type}: not all of them were observed")
    return decided(clause.id, _STAGE, causes, "in that order")


def _happened(what: Happens, one: View, two: View) -> int:
    """Whether the effect happened between two consecutive states."""
    spec = two.schema.by_name[what.type]
    fields = tuple(f.name for f in spec.fields)
    sides = [_present(view, what.type, fields, spec.deleted_when) for view in (one, two)]
    old, new = sides
    mask = FALSE
    if not all(view.enumeration(what.type).is_complete for view in (one, two)):
        mask |= TRUE
    came, gone = new.keys() - old.keys(), old.keys() - new.keys()
    if (came and what.operations & set(COME)) or (gone and what.operations & set(GONE)):
        return TRUE
    if Op.UPDATE in what.operations:
        for key in old.keys() & new.keys():
            changed = _changed(old[key], new[key])
            if changed == TRUE:
                return TRUE
            mask |= changed
    return mask


def _present(
    view: View, type_name: str, fields: tuple[str, ...], deleted_when: str | None
) -> dict[Any, Row]:
    return {
        key_order(key): row
        for key, row in view.rows(type_name, fields)
        if deleted_when is None or row.get(deleted_when) is None
    }


def _changed(old: Row, new: Row) -> int:
    mask = FALSE
    for field in old.keys() | new.keys():
        a, b = old.get(field), new.get(field)
        if isinstance(a, Unobserved) or isinstance(b, Unobserved):
            mask |= TRUE
        elif not same(a, b):
            return TRUE
    return mask


def name(call: Thing) -> str:
    """The call in words: its id and its tool."""
    return f"{show_key(call.key)} ({render((call.row or {}).get('tool'))})"


def _number(number: int) -> str:
    return f"{number or 'no'} call{'s' * (number > 1)} {'match' if number > 1 else 'matches'}"


def _names(calls: Iterable[Thing]) -> str:
    known = list(calls)
    more = f" and {len(known) - 4} more" if len(known) > 4 else ""
    return ", ".join(name(call) for call in known[:4]) + more
