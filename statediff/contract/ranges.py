"""What a clause ranges over: all entities of a collection, or those that decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from statediff.contract.columnar import NOTHING, Partial, Plan, screened, summarized
from statediff.contract.syntax import Entities, Node, Variable
from statediff.contract.world import Crowd, Env, Thing, World
from statediff.model.batches import Row
from statediff.model.values import Key
from statediff.model.view import ColumnarView, Columns


def crowd_of(source: Node, world: World, env: Env) -> Crowd | None:
    """The entities that the expression names; None where it names no collection."""
    match source:
        case Entities(root="before" | "after" | "now" as root, entity=entity):
            return _whole(world.now if root == "now" else root, entity, world)
        case Entities(root=root, entity=entity):
            return world.crowds.get((root, entity), Crowd((), entity, "after"))
        case Variable(name=name) if isinstance(env.get(name), Crowd):
            crowd: Crowd = env[name]
            return crowd
    return None


def _whole(side: str, entity: str, world: World) -> Crowd:
    view = world.view(side)
    enumeration = view.enumeration(entity)
    fields = world.fields_of(entity)
    incomplete = (
        frozenset()
        if enumeration.is_complete
        else frozenset({f"{entity} {side}: {enumeration.cause}"})
    )
    return Crowd(
        lambda: (Thing(side, entity, key, row) for key, row in view.rows(entity, fields)),
        entity,
        side,
        incomplete,
    )


@contextmanager
def paid(world: World) -> Iterator[None]:
    """While it lasts, evaluation costs nothing: the rows swept are paid for, one step each."""
    before, world.is_paid = world.is_paid, True
    try:
        yield
    finally:
        world.is_paid = before


def deciding(of: Plan, world: World, neutral: bool) -> Crowd:
    """The entities that can decide a quantifier over the type; the others are `neutral` to it."""
    columns = _columns(of, world)
    if columns is None:
        return _each_paid(of, world)
    return _rest(of, world, lambda: screened(of, columns, world.fields_of(of.type), neutral))


def elements(of: Plan, world: World, name: str) -> tuple[Partial, Crowd]:
    """What columns say of the elements of an aggregate, and the entities they cannot speak for."""
    columns = _columns(of, world)
    if columns is None:
        return NOTHING, _each_paid(of, world)
    partial = summarized(of, columns, world.fields_of(of.type), name)
    if partial is None:
        return NOTHING, _whole(of.side, of.type, world)
    return partial, _rest(of, world, lambda: iter(partial.rows))


def _columns(of: Plan, world: World) -> Columns | None:
    view = world.view(of.side)
    if not isinstance(view, ColumnarView):
        return None
    columns = view.columns(of.type, world.fields_of(of.type))
    if columns is not None:
        world.charge(columns.rows)
    return columns


def _each_paid(of: Plan, world: World) -> Crowd:
    crowd = _whole(of.side, of.type, world)

    def things() -> Iterator[Thing]:
        for thing in crowd:
            world.charge(1)
            yield thing

    return replace(crowd, things=things)


def _rest(of: Plan, world: World, rows: Callable[[], Iterator[tuple[Key, Row]]]) -> Crowd:
    return replace(
        _whole(of.side, of.type, world),
        things=lambda: (Thing(of.side, of.type, key, row) for key, row in rows()),
    )
