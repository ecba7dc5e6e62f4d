"""Forbidden relations by a reference, `link: TYPE.FIELD` and `unlink`: facts about two states.

It is forbidden that somebody holds what they did not hold before (`link`), or no longer holds what
they held (`unlink`), however that came about: the row came or went with it, the reference was set,
moved or emptied, or what it names came or went. A move is both.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.operations import (
    both,
    captured_key,
    comparison_key,
    negate,
    relate,
    settle,
)
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    EntityRef,
    EvalContext,
    Result,
    Unknown,
    not_enumerated,
)
from statediff.kernel.policy.relation import COME, GONE, Change, Changes, field_of
from statediff.model.delta import Doubt, Op
from statediff.model.schema import Schema
from statediff.model.values import ABSENT, Absent, is_value, key_order
from statediff.model.view import View


class Holding(NamedTuple):
    """The reference of one type that a clause forbids to be given or taken."""

    kind: str
    type: str
    field: str
    target: str

    def others(
        self,
        among: Changes,
        doubts: Iterable[Doubt],
        own: Container[object],
        view: View,
        fields: tuple[str, ...],
    ) -> Iterator[Change]:
        """The entities, but for `own`, whose reference names what came or went, or may have.

        `view` is the state after for `link`, and the state before for `unlink`.
        """
        wanted = COME if self.kind == "link" else GONE
        moved = {
            comparison_key(change.key[0]): change.deltas
            for change in among.of(self.target, frozenset(wanted))
            if len(change.key) == 1
        }
        open_ = self.doubted(doubts)
        doubted = {comparison_key(d.key[0]) for d in open_ if d.key is not None}
        is_any = any(d.key is None for d in open_)
        for key, row in view.rows(self.type, fields) if moved or open_ else ():
            held = row.get(self.field, ABSENT)
            if _is_nothing(held) or key_order(key) in own:
                continue
            at = comparison_key(held) if is_value(held) else None
            if at is None or is_any or at in moved or at in doubted:
                yield Change(self.type, key, Op.UPDATE, moved.get(at, ()), is_of_target=True)

    def doubted(self, doubts: Iterable[Doubt]) -> list[Doubt]:
        """The doubts about a target's coming or going."""
        return [d for d in doubts if d.type == self.target and not d.path]

    def is_fact(
        self,
        old: EntityRef | Unknown | None,
        new: EntityRef | Unknown | None,
        views: tuple[View, View],
        context: EvalContext,
    ) -> int:
        """The outcomes of it for one entity; `views` are the states before and after."""
        is_link = self.kind == "link"
        mine, other = (
            None if side is None else field_of(side, self.field)
            for side in ((new, old) if is_link else (old, new))
        )
        if mine is None or _is_nothing(mine):
            return FALSE
        mask = TRUE
        if isinstance(mine, Unknown):
            context.waits_for(mine.causes)
            mask |= FALSE
        if other is None or _is_nothing(other):
            return mask
        is_other = negate(relate("==", other, mine, context))
        if is_other == TRUE or isinstance(mine, Unknown):
            return mask if is_other == TRUE else TRUE | FALSE
        # It names the same, which may have come, or gone.
        there = [
            self._is_there(view, side, mine, context)
            for view, side in zip(views, _SIDES, strict=True)
        ]
        lacking, having = there if is_link else there[::-1]
        came = FALSE if FALSE in (negate(lacking), having) else negate(lacking) | having
        return is_other & ~FALSE | came if is_other & FALSE else is_other

    def _is_there(self, view: View, side: str, key: Result, context: EvalContext) -> int:
        """The outcomes of the target's being there on that side."""
        place = captured_key((settle(key),))
        if view.row(self.target, place) is not None:
            return TRUE
        enumeration = view.enumeration(self.target)
        if not enumeration.may_miss(place):
            return FALSE
        context.waits_for([not_enumerated(self.target, side, enumeration)])
        return TRUE | FALSE


_SIDES = ("before", "after")


def forbidden(pattern: Pattern, type_name: str, schema: Schema) -> Holding | None:
    """The relation that the clause forbids of the type; None where it is another clause."""
    if pattern.forbidden_relation is None:
        return None
    kind, name = pattern.forbidden_relation
    target = schema.by_name[type_name].by_name[name].reference
    return None if target is None else Holding(kind, type_name, name, target)


def _is_nothing(value: Result) -> bool:
    return value is None or isinstance(value, Absent)


def has_relation(
    relation: str,
    it: EntityRef | Unknown,
    new: EntityRef | Unknown | None,
    eval_context: EvalContext,
) -> int:
    """The outcomes of a changed reference: it links (has a target) or unlinks (has none now)."""
    kind, _, path = relation.partition(":")
    sides = ((new, True),) if kind == "link" else ((it, True), (new, False))
    mask = TRUE
    for entity_ref, has_target in sides:
        held = None if entity_ref is None else field_of(entity_ref, path)
        if isinstance(held, Unknown):
            eval_context.waits_for(held.causes)
            mask = both(mask, TRUE | FALSE)
        elif (held is not None and not isinstance(held, Absent)) is not has_target:
            return FALSE
    return mask
