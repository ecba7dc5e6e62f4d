"""Actions: which calls the agent may make, and within how many attempts one must succeed [TV §3.6].

A call whose class nobody knows is in no allowed class, and may be in any forbidden one. A rule over
what is recorded judges neither such a call by its class nor a call that the log may lack.
"""

from __future__ import annotations

from typing import Final

from statediff.contract.clauses.conduct import ActionRule, Attempts, Permission
from statediff.contract.language.context import EntityRef
from statediff.kernel.policy.findings import WHOLE
from statediff.kernel.policy.run import CallContext, at_call, decided
from statediff.kernel.policy.steps import shown_call
from statediff.model.codes import FindingCode
from statediff.model.explanation import Cause, Reason
from statediff.model.trace import Action, ActionClass
from statediff.model.verdict import MAX_CALLS_SHOWN, Finding, Stage

_STAGE: Final = Stage.ACTIONS
"""How many calls outside get a finding of their own; the last one says how many more there are."""


def actions(rule: ActionRule, run: CallContext) -> tuple[Finding, ...]:
    """The findings of one rule: one for each call that breaks it, or one that holds."""
    found = _permission(rule, run) if isinstance(rule, Permission) else _attempts(rule, run)
    if isinstance(rule, Permission) and rule.recorded_only:
        return found
    return tuple(run.own_word(finding, rule) for finding in found)


def _permission(rule: Permission, run: CallContext) -> tuple[Finding, ...]:
    causes: set[Cause] = set()
    unsaid = run.gap is not None or run.trace.is_agent_influenced
    outside: list[tuple[EntityRef, Action]] = []
    for call, action in zip(run.calls, run.trace.actions, strict=True):
        listed = action.tool in rule.tools or action.action_class in rule.classes
        is_unclassified = bool(rule.classes) and action.action_class is ActionClass.UNKNOWN
        if rule.recorded_only and is_unclassified and not listed:
            unsaid = True
        elif listed == rule.forbids:
            outside.append((call, action))
        elif (
            rule.forbids
            and rule.classes
            and action.action_class is ActionClass.UNKNOWN
            and action.tool not in rule.excepted
        ):
            causes.add(Reason.CLASS_MAY_BE_FORBIDDEN(call=shown_call(call)))
    if outside:
        return _outside(rule, outside)
    if rule.recorded_only and unsaid:
        return (WHOLE.holds(rule.id, _STAGE, Reason.NOTHING_ADMITTED(number=len(run.calls))),)
    if run.gap is not None:
        causes.add(run.gap)
    reason = Reason.NO_FORBIDDEN_CALL if rule.forbids else Reason.ALL_CALLS_ALLOWED
    return (decided(rule.id, _STAGE, causes, reason(number=len(run.calls))),)


def _outside(rule: Permission, outside: list[tuple[EntityRef, Action]]) -> tuple[Finding, ...]:
    code = FindingCode.ACTION_FORBIDDEN if rule.forbids else FindingCode.ACTION_OUTSIDE
    reason = Reason.CALL_FORBIDDEN if rule.forbids else Reason.CALL_OUTSIDE
    found = []
    for index, (call, action) in enumerate(outside[:MAX_CALLS_SHOWN], start=1):
        more = len(outside) - MAX_CALLS_SHOWN if index == MAX_CALLS_SHOWN else 0
        why = reason(call=shown_call(call), action_class=action.action_class.value, more=more)
        found.append(at_call(WHOLE.fails(rule.id, code, _STAGE, why), call))
    return tuple(found)


def _attempts(rule: Attempts, run: CallContext) -> tuple[Finding, ...]:
    """A failed call is repaired by one of the same tool that succeeds, in the same turn.

    Its arguments may differ: a corrected call is another call.
    """
    open_: dict[tuple[int, str], tuple[int, EntityRef]] = {}
    exhausted = attempts_exhausted(rule, run, open_)
    if exhausted is not None:
        return (exhausted,)
    causes: set[Cause] = set()
    if run.gap is not None:
        causes = {run.gap}
    elif open_:
        tries, call = next(iter(open_.values()))
        return (_unrepaired(rule, call, tries),)
    right = Reason.ALL_CALLS_RIGHT(number=len(run.calls))
    return (decided(rule.id, _STAGE, causes, right),)


def attempts_exhausted(
    rule: Attempts, run: CallContext, open_: dict[tuple[int, str], tuple[int, EntityRef]]
) -> Finding | None:
    """The finding of a call that failed once more than the rule grants; None where there is none.

    `open_` gets the calls that failed and are not repaired yet, by their turn and tool.
    """
    for position, (call, action) in enumerate(zip(run.calls, run.trace.actions, strict=True)):
        place = (run.calls.turn(position), action.tool)
        if action.error is None:
            open_.pop(place, None)
            continue
        tries = open_.get(place, (0, call))[0] + 1
        open_[place] = tries, call
        # Between recorded calls there may be others, but the number of an attempt is its own.
        certain = max(action.attempt, tries if run.gap is None else 1)
        if certain >= rule.most:
            return _unrepaired(rule, call, certain)
    return None


def _unrepaired(rule: Attempts, call: EntityRef, tries: int) -> Finding:
    why = Reason.NOT_REPAIRED(call=shown_call(call), attempt=tries, most=rule.most)
    return at_call(WHOLE.fails(rule.id, FindingCode.ACTION_UNREPAIRED, _STAGE, why), call)
