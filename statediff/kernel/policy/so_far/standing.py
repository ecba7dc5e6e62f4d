"""How a run stands that is not over, by the contract that its end will be judged by.

The net change so far is judged by the same clauses, without what only an end can show: claims, the
form of the answer, how the run ended, and what may still come. Clauses about the run itself count
where they are violated already (`for_good`, beside this module).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.model.delta import Delta, Label
from statediff.model.verdict import (
    FOR_GOOD,
    ClauseTruth,
    Decision,
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
    """Whether it is a condition on the answer, or on how the run ended."""
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
    """Whether the clause says something of a run that goes on: nothing is required of it yet."""
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
