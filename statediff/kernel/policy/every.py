"""`count: every`: what Φ asks beyond the changes that one pattern matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, EntityRef, not_enumerated
from statediff.kernel.policy.findings import last
from statediff.kernel.policy.matching import JudgingContext, doubt_causes, relevant
from statediff.kernel.policy.relation import Change
from statediff.kernel.policy.witness import shown_entity
from statediff.model.codes import FindingCode
from statediff.model.delta import Doubt
from statediff.model.explanation import Cause, Explanation, Reason, cause
from statediff.model.values import ABSENT, Key, key_order
from statediff.model.verdict import Finding, Stage

_STAGE: Final = Stage.REQUIRE


def every(pattern: Pattern, context: JudgingContext) -> Finding | set[Cause]:
    """`count: every`: each entity before that satisfies `where` has a selected change.

    A finding if one has not; else what keeps that from being known.
    """
    by_entity = {
        (c.type, key_order(c.key)): c for c in context.changes if c.op in pattern.operations
    }

    @cache  # asked only where a change is missing
    def doubted() -> Mapping[tuple[str, object], list[Doubt]]:
        found: dict[tuple[str, object], list[Doubt]] = {}
        for doubt in relevant(pattern, context, TRUE):
            order = None if doubt.key is None else key_order(doubt.key)
            found.setdefault((doubt.type, order), []).append(doubt)
        return found

    def about(name: str, key: Key) -> set[Cause]:
        """The observations that doubts about a change of the entity wait for."""
        places = (name, None), (name, key_order(key))
        return doubt_causes(doubt for place in places for doubt in doubted().get(place, ()))

    causes: set[Cause] = set()
    failing: list[Explanation] = []
    for name in pattern.types:
        enumeration = context.before.enumeration(name)
        if not enumeration.is_complete:
            causes.add(not_enumerated(name, "before", enumeration))
        fields = context.eval_context(pattern.reads).fields_of(name)
        for key, row in context.before.rows(name, fields):
            change = by_entity.get((name, key_order(key)))
            entity = EntityRef("before", name, key, row)
            mask, why = _performed(pattern, context, entity, change, about)
            if mask == UNDEFINED:
                return context.tell.fails(pattern.id, FindingCode.UNDEFINED, _STAGE, cause(why[-1]))
            if mask == FALSE:
                failing.append(shown_entity(name, key))
            elif mask != TRUE:
                causes.update(why)
    if failing:
        left = Reason.NOT_CHANGED(entity=failing[0], more=len(failing) - 1)
        return context.tell.fails(pattern.id, FindingCode.MISSING_CHANGE, _STAGE, left)
    return causes


def _performed(
    pattern: Pattern,
    context: JudgingContext,
    it: EntityRef,
    change: Change | None,
    about: Callable[[str, Key], set[Cause]],
) -> tuple[int, list[Cause]]:
    """The outcomes of one entity's required change, if it has to be; and why not known."""
    eval_context = context.eval_context(pattern.reads)
    where = pattern.where[it.type]
    meant = TRUE if where is None else outcomes(where, eval_context, {"it": it, "new": ABSENT})
    if meant == FALSE:
        return TRUE, []
    if meant == UNDEFINED:
        return UNDEFINED, [last(eval_context.undefined)]
    match = None if change is None else context.match(pattern, change)
    met = FALSE if match is None else match.mask
    why: list[Cause] = [*eval_context.causes, *(() if match is None else match.why)]
    if met != TRUE and (doubts := about(it.type, it.key)):
        met |= TRUE
        why += doubts
    if meant == TRUE:
        return (FALSE if met == UNDEFINED else met), why or [Reason.WHETHER_CHANGED()]
    undefined = meant & UNDEFINED
    return (TRUE if met == TRUE else TRUE | met) | undefined, why or [Reason.WHETHER_TO_CHANGE()]
