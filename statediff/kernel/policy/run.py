"""The evidence that assertions about the run are judged on: calls, and states between the two ends.

The log is evidence about conduct, never about the state. What it holds happened; what it does not
hold may have happened unless it is complete. A log that the agent could have written is its own
word: it can admit a violation, it can never clear the agent of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from statediff.contract.clauses.conduct import Asserted
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.calls import Log, some_call
from statediff.contract.language.context import (
    EntityRef,
    EntitySet,
    Env,
)
from statediff.contract.language.syntax import Node, Read
from statediff.kernel.policy.findings import WHOLE, Outcome
from statediff.kernel.policy.history import IntermediateStates, unseen
from statediff.kernel.policy.matching import JudgingContext
from statediff.kernel.policy.witness import call_row
from statediff.model.explanation import Cause, Explanation, Reason, cause, causes
from statediff.model.trace import Trace
from statediff.model.verdict import Finding, Stage, Truth
from statediff.model.view import View


class CallContext:
    """One run as its assertions see it."""

    def __init__(self, context: JudgingContext, trace: Trace, moments: IntermediateStates) -> None:
        self.context = context
        self.trace = trace
        self.moments = moments
        self.calls = Log(trace)
        self.gap = None if trace.gap is None else Reason.CALLS_GAP(cause=cause(trace.gap))
        """Why there may be calls that were not recorded, as a cause."""

    def so_far(self, number: int) -> EntitySet:
        """The first calls, and whatever was not recorded."""
        return self.calls.first(number, self.gap)

    def at(self, position: int) -> Env:
        """The variables at a recorded call."""
        said = self.calls.turn(position)
        return {"call": self.calls.call(position), **self.until(position, said)}

    def until(self, calls: int, said: int) -> Env:
        """The first calls and the first messages of the user, and whatever was not recorded."""
        return {"calls": self.so_far(calls), "turns": self.calls.said(said, self.gap)}

    def unrecorded(self) -> EntityRef | None:
        """A call that may have been made besides those recorded; None if there was none."""
        return None if self.gap is None else some_call(self.gap)

    def anywhere(self, call: EntityRef) -> Env:
        """The variables at a call that nobody recorded: of no other is it known to come before."""
        return {"call": call, **self.until(0, 0)}

    def view_after(self, name: str, is_last: bool, of: Asserted) -> tuple[str, View]:
        """(side, state) that the call or turn left, once the systems were at rest."""
        types = of.states_read
        if is_last or self.moments.is_still(types):
            return "after", self.context.after
        side = f"after {name}"
        gaps = causes(self.moments.gaps(types))
        why = gaps[0] if gaps else Reason.STATES_AFTER_CALLS()
        return side, self.moments.after.get(name) or unseen(self.context.after.schema, why)

    def outcome(
        self, node: Node, reads: frozenset[Read], env: Env, now: tuple[str, View] | None = None
    ) -> Outcome:
        """The condition at one point; `now` is the state there."""
        eval_context = self.context.eval_context(reads)
        if now is not None:
            side, view = now
            eval_context.now = side
            if side not in ("before", "after", *eval_context.moments):
                eval_context.moments = {side: view}
        mask = outcomes(node, eval_context, env)
        return Outcome.of(mask, eval_context)

    def own_word(self, finding: Finding, of: Asserted) -> Finding:
        """UNKNOWN where something holds only by what the agent itself says of its conduct."""
        rests = any(read.root == "trace" for read in of.reads)
        if finding.truth is Truth.HOLDS and rests and self.trace.is_agent_influenced:
            return WHOLE.unknown(
                finding.clause, finding.stage, [] if self.gap is None else [self.gap]
            )
        return finding


def decided(
    clause: str, stage: Stage, causes: Iterable[Cause], explanation: Explanation
) -> Finding:
    """HOLDS, or UNKNOWN if anything is missing."""
    missing = set(causes)
    if missing:
        return WHOLE.unknown(clause, stage, missing)
    return WHOLE.holds(clause, stage, explanation)


def at_call(finding: Finding, call: EntityRef) -> Finding:
    """The finding with the call as its witness."""
    own = call_row(call)
    others = tuple(r for r in finding.witness.rows if (r.side, r.key) != (own.side, own.key))
    witness = replace(finding.witness, rows=(own, *others))
    return replace(finding, witness=witness, evidence=(*finding.evidence, str(call.key[0])))
