"""Steps, turns and actions: what holds along a run, whatever its path [STA], [TV §3.6], [TV §3.8].

Without a history nothing is known of the states between the two ends: a violation at an end is a
violation, that there was none in between is UNKNOWN. The predicates of a turn hold once the agent
is done with a message of the user; their conjunction is the turn's gate. The last turn's gate is
read at the end of the run; an earlier one's `now` takes a history.

A call whose class nobody knows is in no allowed class, and may be in any forbidden one. A rule over
what is recorded judges neither such a call by its class nor a call that the log may lack.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from statediff.contract.clauses.conduct import (
    ActionRule,
    AfterCalls,
    Always,
    AtCalls,
    Attempts,
    Gate,
    Happens,
    Occurrence,
    Order,
    Permission,
)
from statediff.contract.clauses.conduct import BoundStep as StepClause
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, EntityRef, Env, Unknown
from statediff.kernel.policy.findings import WHOLE, Outcome
from statediff.kernel.policy.history import IntermediateStates
from statediff.kernel.policy.run import CallContext, at_call, decided
from statediff.kernel.policy.witness import deciding
from statediff.model.codes import FindingCode
from statediff.model.explanation import Cause, Explanation, Reason, cause, shown
from statediff.model.trace import Action, ActionClass, NoAnswer, Turn
from statediff.model.values import Value, show_key
from statediff.model.verdict import MAX_CALLS_SHOWN, Finding, Stage

_STAGE: Final = Stage.STEPS
_SHOWN: Final = 4
"""How many calls an explanation names."""


def step(clause: StepClause, run: CallContext) -> Finding:
    """The finding of one step."""
    return run.own_word(_step(clause, run), clause)


def _step(clause: StepClause, run: CallContext) -> Finding:
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


def _always(clause: Always, run: CallContext) -> Finding:
    """FAILS on any state in which it does not hold; HOLDS only over all of them.

    Where several sources moved, each of their moments is tried with nothing known of the others,
    and, if that leaves it open, every state that a possible order of their commits leads through.
    """
    types = clause.states_read
    ends = (("before", run.context.before), ("after", run.context.after))
    between = [(side, run.context.moments[side]) for side in run.moments.sides(types)]
    causes = run.moments.gaps(types)
    is_complete = not causes
    within: set[Cause] = set()
    for side, view in (ends[0], *between, ends[1]):
        found = run.outcome(clause.node, clause.reads, {}, (side, view))
        if not found.mask & TRUE:
            ends_of = {"before": Reason.BEFORE_RUN(), "after": Reason.AFTER_RUN()}
            where = ends_of.get(side, Reason.SIDE(side=side))
            return _broken(clause.id, FindingCode.INVARIANT_BROKEN, where, found, clause.text)
        if found.mask != TRUE:
            (causes if side in ("before", "after") else within).update(found.why)
    if within and is_complete and len(run.moments.moving(types)) > 1:
        every = run.moments.together(types) or ()
        tried = [
            (cut, run.outcome(clause.node, clause.reads, {}, (cut.side, cut.view))) for cut in every
        ]
        for cut, found in tried:
            if cut.is_certain and not found.mask & TRUE:
                where = Reason.SIDE(side=cut.side)
                return _broken(clause.id, FindingCode.INVARIANT_BROKEN, where, found, clause.text)
        if tried and all(found.mask == TRUE for _, found in tried):
            within = set()
    number = len(between) + len(ends)
    return decided(clause.id, _STAGE, causes | within, Reason.IN_ALL_STATES(number=number))


def _broken(
    clause: str, code: FindingCode, place: Explanation, found: Outcome, text: str
) -> Finding:
    """The finding of a condition that does not hold at one point; undefined is its own code."""
    if found.mask == UNDEFINED:
        return _undefined(clause, place, found)
    what = deciding(found.seen, FALSE) or Reason.WRITTEN(text=text)
    return WHOLE.fails(clause, code, _STAGE, Reason.AT(place=place, what=what), (), found.seen)


def _undefined(clause: str, place: Explanation, found: Outcome) -> Finding:
    """The finding of a condition that is undefined at one point."""
    why = Reason.AT(place=place, what=cause(found.undefined))
    return WHOLE.fails(clause, FindingCode.UNDEFINED, _STAGE, why, (), found.seen)


def _at_calls(clause: AtCalls, run: CallContext) -> Finding:
    causes: set[Cause] = set()
    number = 0
    for position, call in enumerate(run.calls):
        meant = _is_meant(clause, call, run.trace.actions[position].action_class)
        if meant == FALSE:
            continue
        number += 1
        found = run.outcome(clause.node, clause.reads, run.at(position))
        if not found.mask & TRUE and meant == TRUE:
            where = shown_call(call)
            finding = _broken(clause.id, FindingCode.STEP_FAILED, where, found, clause.text)
            return at_call(finding, call)
        if not found.mask & TRUE:
            causes.add(Reason.CLASS_UNKNOWN(call=show_key(call.key)))
        elif found.mask != TRUE:
            causes |= found.why
    other = run.unrecorded()
    if other is not None:
        found = run.outcome(clause.node, clause.reads, run.anywhere(other))
        causes |= set() if found.mask == TRUE else {other.cause}
    return decided(clause.id, _STAGE, causes, Reason.AT_EACH_CALL(number=number))


def _is_meant(clause: AtCalls, call: EntityRef, action_class: ActionClass) -> int:
    if clause.tool is not None and (call.row or {}).get("tool") != clause.tool:
        return FALSE
    if not clause.classes or action_class in clause.classes:
        return TRUE
    return TRUE | FALSE if action_class is ActionClass.UNKNOWN else FALSE


def _after_calls(clause: AfterCalls, run: CallContext) -> Finding:
    """The state after the last call is the one after the run; the others take a history."""
    causes: set[Cause] = set()
    for position, call in enumerate(run.calls):
        is_last = run.gap is None and position == len(run.calls) - 1
        now = run.view_after(str(call.key[0]), is_last, clause)
        found = run.outcome(clause.node, clause.reads, run.at(position), now)
        if not found.mask & TRUE:
            where = Reason.AFTER_CALL(call=shown_call(call))
            finding = _broken(clause.id, FindingCode.STEP_FAILED, where, found, clause.text)
            return at_call(finding, call)
        if found.mask != TRUE:
            causes |= found.why
    other = run.unrecorded()
    if other is not None:
        # Whichever call was the last, recorded or not, the run ended in the state it left.
        now = ("after", run.context.after)
        number = len(run.calls)
        said = run.calls.turn(number - 1)  # what was said later may have come after that call
        env = {"call": other, **run.until(number, said)}
        found = run.outcome(clause.node, clause.reads, env, now)
        if not found.mask & TRUE and number:
            found = run.outcome(clause.node, clause.reads, run.at(number - 1), now)
        if not found.mask & TRUE and number:
            where = Reason.AFTER_LAST_CALL()
            return _broken(clause.id, FindingCode.STEP_FAILED, where, found, clause.text)
        causes.add(other.cause)
    return decided(clause.id, _STAGE, causes, Reason.AFTER_EACH_CALL(number=len(run.calls)))


def _occurrence(clause: Occurrence, run: CallContext) -> Finding:
    counted: list[EntityRef] = []
    possible = open_ = 0
    causes: set[Cause] = set()
    for position, call in enumerate(run.calls):
        found = run.outcome(clause.node, clause.reads, run.at(position))
        if found.mask == UNDEFINED:
            return at_call(_undefined(clause.id, shown_call(call), found), call)
        if found.mask == TRUE:
            counted.append(call)
        elif found.mask != FALSE:
            possible += bool(found.mask & TRUE)
            open_ |= found.mask
            causes |= found.why
    if clause.high is not None and len(counted) > clause.high:
        many = Reason.TOO_MANY_CALLS(number=len(counted), most=clause.high, calls=_names(counted))
        return at_call(
            WHOLE.fails(clause.id, FindingCode.TOO_MANY_CALLS, _STAGE, many), counted[-1]
        )
    most: int | None = len(counted) + possible
    other = run.unrecorded()
    if other is not None:
        mask = run.outcome(clause.node, clause.reads, run.anywhere(other)).mask
        most = None if mask & TRUE else most
        open_ |= mask
        causes |= {other.cause} if mask != FALSE else set()
    if most is not None and most < clause.low:
        few = Reason.TOO_FEW_CALLS(number=len(counted), least=clause.low)
        return WHOLE.fails(clause.id, FindingCode.TOO_FEW_CALLS, _STAGE, few)
    enough = len(counted) >= clause.low
    if enough and clause.high is None and not open_ & UNDEFINED:
        causes = set()
    return decided(clause.id, _STAGE, causes, Reason.CALLS_MATCH(number=len(counted)))


def _order(clause: Order, run: CallContext) -> Finding:
    """The finding of an order; effects of one commit came together, and nobody saw one alone.

    Which of two sources committed first is known only where a complete log has the calls.
    """
    moments, precedes = run.moments, run.moments.order.precedes
    first, then = clause.first.type, clause.then.type
    gaps = moments.gaps({first, then})
    if gaps:
        return WHOLE.unknown(clause.id, _STAGE, gaps)
    possible, late_ones = _commits(clause.first, moments), _commits(clause.then, moments)
    sources = tuple(_source_of(name, moments) for name in (first, then))
    is_one_source = sources[0] == sources[1]
    if not is_one_source and not late_ones:
        return decided(clause.id, _STAGE, (), Reason.NEITHER_HAPPENED())
    if not is_one_source and not possible and TRUE in late_ones.values():
        never = Reason.NEVER_FIRST(then=then, first=first)
        return WHOLE.fails(clause.id, FindingCode.EFFECTS_OUT_OF_ORDER, _STAGE, never)
    causes: set[Cause] = set()
    for late, mask in late_ones.items():
        came = (one for early, one in possible.items() if early == late or precedes(early, late))
        if TRUE in came:
            continue
        if mask == TRUE and all(precedes(late, early) for early in possible):
            return _too_early(clause, late, run, is_one_source)
        causes.add(
            Reason.NOT_ALL_OBSERVED(first=first, then=then)
            if is_one_source
            else Reason.ORDER_OF(sources=sources)
        )
    return decided(clause.id, _STAGE, causes, Reason.IN_ORDER())


def _too_early(
    clause: Order, commit: tuple[str, int], run: CallContext, is_one_source: bool
) -> Finding:
    source, number = commit
    what = Reason.CAME_FIRST(number=number, source=source, then=clause.then.type)
    code = FindingCode.EFFECTS_OUT_OF_ORDER
    if is_one_source:
        return WHOLE.fails(clause.id, code, _STAGE, what)
    made = run.moments.order.call(commit)
    call = next(call for call in run.calls if call.key == (made,))
    why = Reason.AT(place=shown_call(call), what=what)
    return at_call(WHOLE.fails(clause.id, code, _STAGE, why), call)


def _source_of(type_name: str, moments: IntermediateStates) -> str:
    line = moments.course.line_of(type_name)
    return "" if line is None else line.source


def _commits(what: Happens, moments: IntermediateStates) -> dict[tuple[str, int], int]:
    """(source, number) of each transaction in which it may have happened → whether it did."""
    found: dict[tuple[str, int], int] = {}
    source = _source_of(what.type, moments)
    for number, commit in enumerate(moments.commits.get(source, ()), start=1):
        if any(d.type == what.type and d.op in what.operations for d in commit.own.deltas):
            found[source, number] = TRUE
        elif any(d.type == what.type for d in commit.own.doubts):
            found[source, number] = TRUE | FALSE
    return found


def shown_call(call: EntityRef) -> Explanation:
    """The call as an argument: its id and its tool."""
    return Reason.CALL(id=show_key(call.key), tool=shown((call.row or {}).get("tool")))


def _names(calls: Iterable[EntityRef]) -> Explanation:
    known = list(calls)
    named = tuple(shown_call(call) for call in known[:_SHOWN])
    return Reason.CALLS(calls=named, more=max(0, len(known) - _SHOWN))


def turn(gate: Gate, run: CallContext, is_first_failure: bool) -> Finding:
    """The finding of one turn; the first that fails says so."""
    turns = run.trace.turns or ()
    at = turn_place(gate, run)
    if isinstance(at, Explanation):
        return WHOLE.unknown(gate.id, _STAGE, [Reason.TURN_UNKNOWN(number=gate.number, cause=at)])
    ends = turns[at].calls_before if at < len(turns) else len(run.calls)
    env: Env = {**run.until(ends, at), "reply": _reply(gate, turns[at - 1])}
    now = run.view_after(f"turn-{at}", at == len(turns), gate)
    place = Reason.FIRST_FAILING_TURN if is_first_failure else Reason.IN_TURN
    where = place(number=gate.number, of=gate.of, message=shown(gate.message))
    causes: set[Cause] = set()
    for node, text in gate.conditions:
        found = run.outcome(node, gate.reads, env, now)
        if not found.mask & TRUE:
            return _broken(gate.id, FindingCode.TURN_FAILED, where, found, text)
        if found.mask != TRUE:
            causes |= found.why
    repairs = turns[at - 1].attempt - 1
    said = Reason.TURN_REPAIRED(number=gate.number, repairs=repairs)
    return decided(
        gate.id, _STAGE, causes, said if repairs else Reason.TURN_HOLDS(number=gate.number)
    )


def turn_place(gate: Gate, run: CallContext) -> int | Explanation:
    """After how many messages the gate is judged, or why that is not known.

    Where the harness spoke for the user: after the last message of the turn, the last repair that
    the contract grants among them.
    """
    turns = run.trace.turns
    if turns is not None and run.trace.is_spoken:
        within = [
            number
            for number, each in enumerate(turns, start=1)
            if each.gate == gate.number and each.attempt <= 1 + gate.repairs
        ]
        if within:
            return within[-1]
        heard = len({each.gate for each in turns})
        return Reason.TURNS_UNHEARD(number=heard, of=gate.of)
    # Where the log may lack calls, it may lack turns, and none of them is surely this one.
    if run.gap is not None:
        return run.gap
    if turns is None:
        return Reason.TURNS_UNTOLD()
    if len(turns) < gate.number:
        return Reason.TURNS_FEWER(number=len(turns), of=gate.of)
    held = turns[gate.number - 1]
    if held.message != gate.message:
        return Reason.TURN_OTHER(message=shown(held.message))
    return gate.number


def _reply(gate: Gate, held: Turn) -> Value | Unknown:
    """The agent's reply: null where the harness heard it say nothing."""
    if not isinstance(held.reply, NoAnswer):
        return held.reply
    if held.gate is not None:
        return None
    why = Reason.TURN_UNKNOWN(number=gate.number, cause=cause(held.reply.cause))
    return Unknown(frozenset({why}))


_ACTIONS: Final = Stage.ACTIONS
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
        return (WHOLE.holds(rule.id, _ACTIONS, Reason.NOTHING_ADMITTED(number=len(run.calls))),)
    if run.gap is not None:
        causes.add(run.gap)
    reason = Reason.NO_FORBIDDEN_CALL if rule.forbids else Reason.ALL_CALLS_ALLOWED
    return (decided(rule.id, _ACTIONS, causes, reason(number=len(run.calls))),)


def _outside(rule: Permission, outside: list[tuple[EntityRef, Action]]) -> tuple[Finding, ...]:
    code = FindingCode.ACTION_FORBIDDEN if rule.forbids else FindingCode.ACTION_OUTSIDE
    reason = Reason.CALL_FORBIDDEN if rule.forbids else Reason.CALL_OUTSIDE
    found = []
    for index, (call, action) in enumerate(outside[:MAX_CALLS_SHOWN], start=1):
        more = len(outside) - MAX_CALLS_SHOWN if index == MAX_CALLS_SHOWN else 0
        why = reason(call=shown_call(call), action_class=action.action_class.value, more=more)
        found.append(at_call(WHOLE.fails(rule.id, code, _ACTIONS, why), call))
    return tuple(found)


def _attempts(rule: Attempts, run: CallContext) -> tuple[Finding, ...]:
    """A failed call is repaired by one of the same tool that succeeds, in the same turn.

    Its arguments may differ: a corrected call is another call.
    """
    open_: dict[tuple[int, str], tuple[int, EntityRef]] = {}
    exhausted = attempts_exhausted(rule, run, open_)
    if exhausted is not None:
        return (exhausted,)
    if open_ and run.gap is None:
        tries, call = next(iter(open_.values()))
        return (_unrepaired(rule, call, tries),)
    causes = () if run.gap is None else (run.gap,)
    right = Reason.ALL_CALLS_RIGHT(number=len(run.calls))
    return (decided(rule.id, _ACTIONS, causes, right),)


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
    return at_call(WHOLE.fails(rule.id, FindingCode.ACTION_UNREPAIRED, _ACTIONS, why), call)
