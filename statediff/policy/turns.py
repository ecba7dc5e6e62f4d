"""Turns: the predicates that hold once the agent is done with a message of the user [TV §3.8].

Their conjunction is the turn's gate. The last turn's gate is read at the end of the run; an earlier
one's `now` takes a history.
"""

from __future__ import annotations

from typing import Final

from statediff.contract.clauses.conduct import Gate
from statediff.contract.language.context import TRUE, Env, Unknown
from statediff.model.codes import FindingCode
from statediff.model.explanation import Cause, Explanation, Reason, cause
from statediff.model.trace import NoAnswer, Turn
from statediff.model.verdict import Finding, Stage
from statediff.policy.findings import unknown
from statediff.policy.run import CallContext, broken, decided
from statediff.policy.witness import shown

_STAGE: Final = Stage.STEPS


def turn(gate: Gate, run: CallContext, is_first_failure: bool) -> Finding:
    """The finding of one turn; the first that fails says so."""
    turns = run.trace.turns
    # Where the log may lack calls, it may lack turns, and none of them is surely this one.
    held = _held(gate, turns) if run.gap is None else run.gap
    if turns is None or isinstance(held, Explanation):
        why = held if isinstance(held, Explanation) else Reason.TURNS_UNTOLD()
        return unknown(gate.id, _STAGE, [Reason.TURN_UNKNOWN(number=gate.number, cause=why)])
    ends = turns[gate.number].calls_before if gate.number < len(turns) else len(run.calls)
    reply = held.reply
    env: Env = {
        "calls": run.so_far(ends),
        "reply": Unknown(
            frozenset({Reason.TURN_UNKNOWN(number=gate.number, cause=cause(reply.cause))})
        )
        if isinstance(reply, NoAnswer)
        else reply,
    }
    is_last = gate.number == len(turns)
    now = run.view_after(f"turn-{gate.number}", is_last, gate)
    place = Reason.FIRST_FAILING_TURN if is_first_failure else Reason.IN_TURN
    where = place(number=gate.number, of=gate.of, message=shown(gate.message))
    causes: set[Cause] = set()
    for node, text in gate.conditions:
        found = run.outcome(node, gate.reads, env, now)
        if not found.mask & TRUE:
            return broken(gate.id, _STAGE, FindingCode.TURN_FAILED, where, found, text)
        if found.mask != TRUE:
            causes |= found.why
    return decided(gate.id, _STAGE, causes, Reason.TURN_HOLDS(number=gate.number))


def _held(gate: Gate, turns: tuple[Turn, ...] | None) -> Turn | Explanation:
    """The turn as recorded, or why it is not known."""
    if turns is None:
        return Reason.TURNS_UNTOLD()
    if len(turns) < gate.number:
        return Reason.TURNS_FEWER(number=len(turns), of=gate.of)
    held = turns[gate.number - 1]
    if held.message != gate.message:
        return Reason.TURN_OTHER(message=shown(held.message))
    return held
