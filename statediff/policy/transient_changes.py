"""The frame under `history: required`: what each transaction of a source changed is explained too.

A change that a transaction makes is explained if a pattern explains it there, if it left what the
net change of the place, which is explained, left too, or if the system derives the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.patterns import Pattern
from statediff.contract.language.context import TRUE
from statediff.model.delta import Delta, Entity, Op, delta_id
from statediff.model.explanation import Reason
from statediff.model.values import same
from statediff.model.verdict import Finding, Stage, Truth
from statediff.policy.findings import at, holds, over_the_run
from statediff.policy.frame import ExplainedDelta, ExplanationVote, explain, frame
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.matching import JudgingContext


@dataclass(frozen=True)
class FrameCoverage:
    """The frame at the ends: the patterns that explain, and what they explain there."""

    patterns: Sequence[Pattern]
    explanations: tuple[ExplainedDelta, ...]


def frame_within(
    contract: Contract, net: FrameCoverage, context: JudgingContext, moments: IntermediateStates
) -> Iterator[Finding]:
    """The findings of the frame over the transactions of the sources whose history is required."""
    derived = {(rule.type, rule.field): rule.id for rule in contract.derived}
    explained = {
        delta_id(e.delta.type, e.delta.key, e.delta.path): e
        for e in net.explanations
        if e.truth is Truth.HOLDS
    }
    for rule in contract.evidence:
        if not rule.needs_history:
            continue
        types = dict(contract.schema.sources).get(rule.source) or ("",)
        known = holds("frame", Stage.FRAME, Reason.ALL_TRANSACTIONS_EXPLAINED())
        gaps = moments.gaps(types)
        within: list[Finding] = []
        if contract.frame_is_open:
            yield over_the_run(known, (), gaps)
            continue
        for stretch in moments.stretches(types, context):
            if not stretch.is_own:
                continue
            deltas = [d for change in stretch.context.changes for d in change.deltas]
            said = _said(deltas, explained, derived)
            found = frame(
                explain(net.patterns, stretch.context, said), net.patterns, stretch.context
            )
            within += [at(each, stretch.where) for each in found]
        failing = [each for each in within if each.truth is Truth.FAILS]
        yield from failing or [over_the_run(known, within, gaps)]


def _said(
    deltas: Iterable[Delta],
    explained: dict[str, ExplainedDelta],
    derived: dict[tuple[str, str], str],
) -> Iterator[ExplanationVote]:
    for delta in deltas:
        rule = derived.get((delta.type, delta.path))
        if rule is not None and delta.op is Op.UPDATE:
            yield ExplanationVote(delta, rule, TRUE)
        net = explained.get(delta_id(delta.type, delta.key, delta.path))
        if net is not None and _brought(delta, net.delta):
            yield ExplanationVote(delta, net.by[0], TRUE)


def _brought(delta: Delta, net: Delta) -> bool:
    """Whether the transaction's change is the net one."""
    if delta.op is not net.op:
        return False
    if isinstance(delta.after, Entity) or isinstance(net.after, Entity):
        return delta.after == net.after
    return same(delta.after, net.after)
