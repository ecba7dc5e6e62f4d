"""What a clause ranges over: all entities of a collection, or those that decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from statediff.contract.evaluation.columnar import NOTHING, Partial, Plan, screened, summarized
from statediff.contract.language.context import EntityRef, EntitySet, Env, EvalContext
from statediff.contract.language.syntax import Entities, Node, Variable
from statediff.model.batches import Row
from statediff.model.explanation import Cause, Reason, cause
from statediff.model.state import Enumeration
from statediff.model.values import Key
from statediff.model.view import ColumnarView, Columns


def crowd_of(source: Node, context: EvalContext, env: Env) -> EntitySet | None:
    """The entities that the expression names; None where it names no collection."""
    match source:
        case Entities(root="before" | "after" | "now" as root, entity=entity):
            return _whole(context.now if root == "now" else root, entity, context)
        case Entities(root=root, entity=entity):
            return context.entity_sets.get((root, entity), EntitySet((), entity, "after"))
        case Variable(name=name) if isinstance(env.get(name), EntitySet):
            entity_set: EntitySet = env[name]
            return entity_set
    return None


def _whole(side: str, entity: str, context: EvalContext) -> EntitySet:
    view = context.view(side)
    enumeration = view.enumeration(entity)
    fields = context.fields_of(entity)
    incomplete = (
        frozenset()
        if enumeration.is_complete
        else frozenset({not_enumerated(entity, side, enumeration)})
    )
    return EntitySet(
        lambda: (EntityRef(side, entity, key, row) for key, row in view.rows(entity, fields)),
        entity,
        side,
        incomplete,
    )


def not_enumerated(entity: str, side: str, enumeration: Enumeration) -> Cause:
    """Why there may be other entities of the type on that side."""
    why = enumeration.explanation or cause(enumeration.cause)
    return Reason.ON_SIDE(entity_type=entity, side=side, cause=why)


@contextmanager
def paid(context: EvalContext) -> Iterator[None]:
    """While it lasts, evaluation costs nothing: the rows swept are paid for, one step each."""
    before, context.is_paid = context.is_paid, True
    try:
        yield
    finally:
        context.is_paid = before


def deciding(of: Plan, context: EvalContext, neutral: bool) -> EntitySet:
    """The entities that can decide a quantifier over the type; the others are `neutral` to it."""
    columns = _columns(of, context)
    if columns is None:
        return _each_paid(of, context)
    return _rest(of, context, lambda: screened(of, columns, context.fields_of(of.type), neutral))


def elements(of: Plan, context: EvalContext, name: str) -> tuple[Partial, EntitySet]:
    """What columns say of the elements of an aggregate, and the entities they cannot speak for."""
    columns = _columns(of, context)
    if columns is None:
        return NOTHING, _each_paid(of, context)
    partial = summarized(of, columns, context.fields_of(of.type), name)
    if partial is None:
        return NOTHING, _whole(of.side, of.type, context)
    return partial, _rest(of, context, lambda: iter(partial.rows))


def _columns(of: Plan, context: EvalContext) -> Columns | None:
    view = context.view(of.side)
    if not isinstance(view, ColumnarView):
        return None
    columns = view.columns(of.type, context.fields_of(of.type))
    if columns is not None:
        context.charge(columns.rows)
    return columns


def _each_paid(of: Plan, context: EvalContext) -> EntitySet:
    entity_set = _whole(of.side, of.type, context)

    def entity_refs() -> Iterator[EntityRef]:
        for entity_ref in entity_set:
            context.charge(1)
            yield entity_ref

    return replace(entity_set, entity_refs=entity_refs)


def _rest(
    of: Plan, context: EvalContext, rows: Callable[[], Iterator[tuple[Key, Row]]]
) -> EntitySet:
    return replace(
        _whole(of.side, of.type, context),
        entity_refs=lambda: (EntityRef(of.side, of.type, key, row) for key, row in rows()),
    )
