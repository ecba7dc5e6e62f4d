"""How a run stands that is not over, by the contract that its end will be judged by.

The net change so far is judged by the same clauses, without what only an end can show: claims, the
form of the answer, how the run ended, and what may still come. Clauses about the run itself count
where they are violated already.

A violation is one *for good* where every continuation of the run violates the clause, too, or
leaves it undecided: it lies in a state that the run was in, or in a call that it made, and rests on
nothing that may change. A net change may be undone, whatever its label says of the world, so that
it is one only where a clause reads the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.conduct import (
    AfterCalls,
    Always,
    Asserted,
    AtCalls,
    Attempts,
    Gate,
    Occurrence,
    Order,
    Permission,
)
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.clauses.visibility import BoundAccess
from statediff.contract.language.syntax import (
    AnswerOf,
    Entities,
    Follow,
    Node,
    Reaches,
    RunOf,
    walk,
)
from statediff.kernel.policy.access import cone
from statediff.kernel.policy.clauses import (
    condition_at_end,
    exceeded,
    forbidden_at_end,
    is_bounded,
    states_read,
    within,
)
from statediff.kernel.policy.findings import UNEXPLAINED
from statediff.kernel.policy.relation import Changes
from statediff.kernel.policy.run import CallContext
from statediff.kernel.policy.steps import actions, attempts_exhausted, step, turn, turn_place
from statediff.kernel.policy.witness import first_change
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Label, Op
from statediff.model.schema import COUNTERS
from statediff.model.verdict import (
    FOR_GOOD,
    ClauseTruth,
    Decision,
    Finding,
    Judgement,
    SoFar,
    Stage,
    Truth,
    is_own,
)


def contract_so_far(contract: Contract) -> Contract:
    """The contract by which a run is judged that is not over; its `at_end` is the one given."""
    return replace(
        contract,
        forbid=_net(c for c in contract.forbid if not _awaits_end(c)),
        require=_net(contract.require),
        alternatives=None
        if contract.alternatives is None
        else replace(
            contract.alternatives,
            branches=tuple(
                replace(branch, forbid=_net(branch.forbid), require=_net(branch.require))
                for branch in contract.branches
            ),
        ),
        claims=(),
        steps=(),
        actions=(),
        turns=(),
        access=None,
        at_end=contract,
    )


def _net(clauses: Iterable[Pattern | Condition]) -> tuple[Pattern | Condition, ...]:
    return tuple(replace(each, during_run=False) for each in clauses)


def _awaits_end(clause: Pattern | Condition) -> bool:
    """True if it is a condition on the answer, or on how the run ended."""
    is_condition = isinstance(clause, Condition)
    return is_condition and any(read.root in ("answer", "run") for read in clause.reads)


def stand(contract: Contract, judgement: Judgement) -> SoFar:
    """How the run stands by its judgement under `contract_so_far`."""
    truths = {entry.clause: entry.truth for entry in judgement.clauses}
    counting = [entry for entry in judgement.clauses if _counts(entry)]
    approvals = {rule.id for rule in contract.effects}
    broken = [e.clause for e in counting if e.truth is Truth.FAILS]
    denied = [clause for clause in broken if clause not in approvals]
    lost = [clause for clause in denied if clause.startswith(FOR_GOOD)]
    unknown = [e.clause for e in counting if e.truth is Truth.UNKNOWN]
    held = _unauthorized(contract, judgement, truths)
    decision = Decision.DENY if denied else Decision.HOLD if broken or held or unknown else None
    return SoFar(
        decision=decision or Decision.ALLOW,
        is_lost=bool(lost),
        is_right=all(truth is Truth.HOLDS for clause, truth in truths.items() if is_own(clause)),
        held=held,
        judgement=judgement,
        deciding=tuple(lost or denied or broken or (() if held else unknown)),
    )


def _counts(entry: ClauseTruth) -> bool:
    """True if the clause says something of a run that goes on: nothing is required of it yet."""
    return entry.stage is not Stage.REQUIRE or not is_own(entry.clause)


def _unauthorized(
    contract: Contract, judgement: Judgement, truths: dict[str, Truth]
) -> tuple[Delta, ...]:
    """The irreversible changes for which no authorization that the contract asks for is satisfied.

    What Ω excludes is not among them.
    """
    hidden = (each.delta for each in judgement.hidden if not each.by_boundary)
    final = [d for d in (*judgement.deltas, *hidden) if d.label is Label.IRREVERSIBLE]
    if not final:
        return ()
    covered = {
        (op, rule.type)
        for rule in contract.effects
        if rule.authorized_by is not None and truths.get(rule.id) is Truth.HOLDS
        for op in rule.operations
    }
    return tuple(delta for delta in final if (delta.op, delta.type) not in covered)


_PAST: Final = frozenset({"before"})
_MOMENT: Final = _PAST | {"now"}
_ENDS: Final = _PAST | {"after"}


def violated_for_good(
    contract: Contract, run: CallContext, everything: Changes
) -> Iterator[Finding]:
    """One finding a clause of the contract at the end that a run can violate for good.

    FAILS where every continuation of the run violates the clause or leaves it undecided, else
    HOLDS. Calls in a log that the agent could have written are its word, which it may take back: a
    violation there is one of the run so far alone.
    """
    past = _Past(contract, run, everything)
    for clause in (*contract.forbid, *contract.require):
        if clause.during_run:
            yield past.named(clause.id, clause.section, past.clause(clause))
    if past.is_followed:
        yield past.named("frame", Stage.FRAME, past.unexplained(contract.branch_explaining))
    if contract.alternatives is not None:
        found = [past.branch(number) for number in range(len(contract.branches))]
        broken = [each for each in found if each is not None]
        needed = 1 if contract.alternatives.is_disputed else len(found)
        first = broken[0] if len(broken) >= needed else None
        yield past.named(contract.alternatives.id, Stage.REQUIRE, first)
    for assertion in (*contract.steps, *contract.turns, *contract.actions):
        yield past.conduct(assertion)
    if contract.access is not None:
        yield past.conduct(contract.access)


@dataclass(frozen=True)
class _Past:
    """A run up to now, and the contract that its end will be judged by."""

    contract: Contract
    run: CallContext
    everything: Changes

    def named(self, clause: str, stage: Stage | None, found: Finding | None) -> Finding:
        """The finding under the name of what cannot be made good."""
        if found is None:
            tell = self.run.context.tell
            return tell.holds(FOR_GOOD + clause, stage or Stage.FRAME, UNEXPLAINED)
        return replace(found, clause=FOR_GOOD + clause)

    # ------------------------------------------------------------ states

    def clause(self, clause: Pattern | Condition) -> Finding | None:
        """The violation of a clause that says `during: run`."""
        is_pattern = isinstance(clause, Pattern)
        nodes = tuple(clause.nodes()) if isinstance(clause, Pattern) else (clause.node,)
        if isinstance(clause, Pattern) and clause.by is not None:
            return None
        if not _reads_only(nodes, _PAST if is_pattern else _ENDS):
            return None
        known = within(clause, self.run.context, self.run.moments)
        return _first(chain(known, self._now(clause, nodes)))

    def _now(self, clause: Pattern | Condition, nodes: tuple[Node, ...]) -> Iterator[Finding]:
        """The finding of the state now, where it counts.

        A condition is held against each state after a change of what it reads, a pattern against
        the changes of each transaction that touches its types. So for a pattern the state now
        counts only where nothing but the changed entities is asked about: what they refer to may
        be as it is through a transaction that the clause does not look at.
        """
        context = self.run.context
        if isinstance(clause, Condition):
            types = states_read(clause)
            if not types.isdisjoint(self.everything.by_type) or self.run.moments.moving(types):
                yield condition_at_end(clause, context)
            return
        is_local = clause.relation is None and not any(
            isinstance(part, Follow | Reaches) for node in nodes for part in walk(node)
        )
        if is_local and clause.section is Stage.FORBID:
            yield forbidden_at_end(clause, context, self.everything)
        elif is_local and is_bounded(clause):
            yield exceeded(clause, context, context.changes)

    @property
    def is_followed(self) -> bool:
        """True if the frame reads the history of some source."""
        contract = self.contract
        asks = any(rule.needs_history for rule in contract.evidence)
        return asks and not contract.frame_is_open

    def unexplained(self, patterns: Iterable[Pattern]) -> Finding | None:
        """The violation of the frame by a change that nothing can ever explain."""
        context, moments = self.run.context, self.run.moments
        sources = dict(self.contract.schema.sources)
        types = {
            name
            for rule in self.contract.evidence
            if rule.needs_history
            for name in sources.get(rule.source) or ("",)
        }
        stretches = (s for s in moments.stretches(types, context) if s.is_own)
        each = chain.from_iterable(s.context.changes for s in stretches)
        explaining = tuple(patterns)
        for change in chain(each, context.changes):
            for delta in change.deltas if change.type in types else ():
                if not self._may_explain(explaining, delta):
                    why, code = partial(first_change, (delta,)), FindingCode.UNEXPLAINED_CHANGE
                    return context.tell.fails("frame", code, Stage.FRAME, why, (delta,))
        return None

    def _may_explain(self, patterns: Iterable[Pattern], delta: Delta) -> bool:
        """True if something may explain such a change, in some state of this run or another."""
        if delta.type == COUNTERS or delta.type in self.contract.schema.tied:
            return True
        if any((d.type, d.field) == (delta.type, delta.path) for d in self.contract.derived):
            return True
        entity = self.contract.schema.by_name[delta.type]
        for pattern in patterns:
            if delta.type not in pattern.types:
                continue
            is_narrow = pattern.operations == {Op.UPDATE} and pattern.relation is None
            if pattern.fields is None or not is_narrow or entity.deleted_when is not None:
                return True
            if delta.op is Op.UPDATE and delta.path in pattern.fields:
                return True
        return False

    def branch(self, number: int) -> Finding | None:
        """The violation that rules the branch out."""
        branch = self.contract.branches[number]
        clauses = (c for c in (*branch.forbid, *branch.require) if c.during_run)
        found = next(filter(None, map(self.clause, clauses)), None)
        if found is None and self.is_followed:
            found = self.unexplained((*self.contract.explaining, *branch.explaining))
        return found

    # ------------------------------------------------------------ calls

    def conduct(self, clause: Asserted) -> Finding:
        """The finding of a step, a turn, an action or of what was read."""
        stage, found = self._conduct(clause)
        rests = isinstance(clause, Gate) or any(read.root == "trace" for read in clause.reads)
        if found is not None and rests and self.run.trace.is_agent_influenced:
            return found
        return self.named(clause.id, stage, found)

    def _conduct(self, clause: Asserted) -> tuple[Stage, Finding | None]:
        run = self.run
        match clause:
            case Gate():
                return Stage.STEPS, self._turn(clause)
            case Attempts():
                return Stage.ACTIONS, attempts_exhausted(clause, run, {})
            case Permission():
                return Stage.ACTIONS, _first(actions(clause, run))
            case BoundAccess():
                nodes = (
                    node
                    for each in clause.holdings
                    for node in (each.where, *each.times, each.authorized_by)
                    if node is not None
                )
                fixed = _reads_only(nodes, _PAST)
                return Stage.ACCESS, _first(cone(clause, run)) if fixed else None
            case Order():
                return Stage.STEPS, _first([step(clause, run)])
            case Always() | AfterCalls() | AtCalls() | Occurrence():
                roots = _MOMENT if isinstance(clause, Always | AfterCalls) else _PAST
                found = _first([step(clause, run)]) if _reads_only([clause.node], roots) else None
                # A call that is missing may still be made.
                is_open = found is not None and found.code is FindingCode.TOO_FEW_CALLS
                return Stage.STEPS, None if is_open else found
            case _:
                raise TypeError(f"no clause about a run: {clause!r}")

    def _turn(self, gate: Gate) -> Finding | None:
        """The violation of a turn after which the user has spoken again."""
        at = turn_place(gate, self.run)
        is_over = isinstance(at, int) and at < len(self.run.trace.turns or ())
        if not is_over or not _reads_only((node for node, _ in gate.conditions), _MOMENT):
            return None
        return _first([turn(gate, self.run, True)])


def _first(found: Iterable[Finding]) -> Finding | None:
    """The first violation."""
    return next((each for each in found if each.truth is Truth.FAILS), None)


def _reads_only(nodes: Iterable[Node], roots: frozenset[str]) -> bool:
    """True if no expression ranges over other states, reads the answer, or how the run ended."""
    for node in nodes:
        for part in walk(node):
            if isinstance(part, AnswerOf | RunOf):
                return False
            if isinstance(part, Entities) and part.root not in roots:
                return False
    return True
