"""Undefined by the run: what makes a condition undefined is a value that the run wrote."""

from __future__ import annotations

from collections.abc import Iterator

from statediff.contract.language.syntax import (
    And,
    AnswerOf,
    Call,
    Comprehension,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    Lookup,
    Loop,
    Node,
    Not,
    Or,
    RunOf,
    Variable,
    children,
)
from statediff.kernel.spec.expressions import items_of, outcomes, value
from statediff.kernel.spec.values import (
    FALSE,
    NO_VALUE,
    TRUE,
    UNDEFINED,
    Env,
    Result,
    Some,
    Thing,
    Truths,
    World,
    is_finite,
    is_nothing,
    plain,
)
from statediff.model.paths import Steps, at, is_ambiguous
from statediff.model.values import ABSENT, Absent, Map, Unobserved, key_order, same

_ROOTS = ("created", "updated", "deleted", "linked", "unlinked")


def settled(node: Node, world: World, env: Env, by_run: Truths) -> Truths:
    """The truths of a condition; one that is undefined by the run has `by_run`."""
    mask = outcomes(node, world, env)
    return by_run if mask == UNDEFINED and is_by_run(node, world, env) else mask


def is_by_run(node: Node, world: World, env: Env) -> bool:
    """True where the run wrote what makes the condition, or the value, certainly undefined."""
    match node:
        case And(parts=parts) | Or(parts=parts):
            goes_on = TRUE if isinstance(node, And) else FALSE
            masks = ((part, outcomes(part, world, env)) for part in parts)
            part, mask = next((p, m) for p, m in masks if m != goes_on)
            return mask == UNDEFINED and is_by_run(part, world, env)
        case Not(child=child):
            return is_by_run(child, world, env)
        case Call(name=name, arguments=(Comprehension() as body, *_)):
            return _in_elements(name, body, world, env)
        case _:
            pass
    operands = [part for part in children(node) if not isinstance(part, Entities)]
    found = [(part, value(part, world, env)) for part in operands]
    if any(each is NO_VALUE for _, each in found):
        return any(is_by_run(part, world, env) for part, each in found if each is NO_VALUE)
    if isinstance(node, FieldOf | AnswerOf):
        return _is_written(node, world, env)
    known = [part for part, each in found if not isinstance(each, Some)]
    blamed = [part for part, each in found if is_nothing(each)] or known
    return any(_is_written(part, world, env) for part in blamed)


def _in_elements(name: str, body: Comprehension, world: World, env: Env) -> bool:
    """It is so in an element; or all of them together have no least or greatest."""
    written, has_nothing = [], False
    for node, inner in _parts(body, body.loops, world, env):
        is_element = node is body.element
        if name in ("all", "any") or not is_element:
            mask = outcomes(node, world, inner) if is_element else UNDEFINED
            if mask == UNDEFINED and is_by_run(node, world, inner):
                return True
            continue
        found = value(node, world, inner)
        if found is NO_VALUE and is_by_run(node, world, inner):
            return True
        if found is NO_VALUE or isinstance(found, Some) or name not in ("sum", "min", "max"):
            continue
        written.append(_is_written(node, world, inner))
        is_wrong = is_nothing(found) or (name == "sum" and not is_finite(found))
        if is_wrong and written[-1]:
            return True
        has_nothing |= is_nothing(found)
    if name not in ("min", "max") or has_nothing:
        return False
    return any(written) if written else _are_changed(body.loops, world)


def _parts(
    body: Comprehension, loops: tuple[Loop, ...], world: World, env: Env
) -> Iterator[tuple[Node, Env]]:
    """The element of each that certainly counts, and conditions and lists that are undefined."""
    loop, *rest = loops
    for item, may_be_more in items_of(loop.source, world, env):
        if item is NO_VALUE and not may_be_more:
            yield loop.source, env
        if item is NO_VALUE or may_be_more:
            continue
        inner = {**env, loop.name: item, f"{loop.name} of": (loop.source, env)}
        masks = ((test, outcomes(test, world, inner)) for test in loop.conditions)
        test, mask = next(((t, m) for t, m in masks if m != TRUE), (None, TRUE))
        if test is not None:
            yield from [(test, inner)] if mask == UNDEFINED else []
        elif rest:
            yield from _parts(body, tuple(rest), world, inner)
        else:
            yield body.element, inner


def _is_written(node: Node, world: World, env: Env) -> bool:
    """True where the run wrote a value that the expression is made of."""
    match node:
        case FieldOf(entity=holder):
            held = value(holder, world, env)
            if isinstance(held, Thing):
                return is_written(held, node.field, node.part, world)
            return is_nothing(held) and _is_written(holder, world, env)
        case Follow(reference=reference, type=EntityT(type=name)):
            held, key = value(reference.entity, world, env), value(reference, world, env)
            is_gone = isinstance(held, Thing) and _is_gone(held.side, name, (key,), world)
            return is_gone or _is_written(reference, world, env)
        case Lookup(collection=Entities(root=root, entity=name), keys=keys):
            key = tuple(value(part, world, env) for part in keys)
            is_gone = _is_gone(root, name, key, world)
            return is_gone or any(_is_written(part, world, env) for part in keys)
        case AnswerOf() | RunOf():
            return True
        case Variable(name=name):
            source = env.get(f"{name} of")
            return _is_written(source[0], world, source[1]) if source else env[name] is ABSENT
        case Call(arguments=(Comprehension(loops=loops), *_)):
            return _are_changed(loops, world)
        case Entities():
            return _is_changed(node, world)
        case _:
            return any(_is_written(part, world, env) for part in children(node))


def is_written(held: Thing, name: str, part: Steps, world: World) -> bool:
    """True where the field of the entity, or the part of it, is certainly another than before."""
    if held.side == "before" or held.row is None:
        return False
    if held.type.startswith("@"):
        return True  # a call, a turn: the run made all of it
    table = world.table("before", held.type)
    was = table.rows.get(key_order(held.key))
    if was is None:
        return not table.may_miss(held.key)
    old, new = was[1].get(name, ABSENT), held.row.get(name, ABSENT)
    for step in part:
        if any(not isinstance(v, Map | tuple) or is_ambiguous(v, step) for v in (old, new)):
            break
        old, new = at(old, (step,)), at(new, (step,))
    is_seen = not any(isinstance(value, Unobserved) for value in (old, new))
    return is_seen and not same(old, new)


def _is_gone(side: str, name: str, key: tuple[Result, ...], world: World) -> bool:
    if side == "before" or any(isinstance(p, Some | Absent | None) or p is NO_VALUE for p in key):
        return False
    was, is_now = (world.look(each, name, map(plain, key)) for each in ("before", side))
    return isinstance(was, Thing) and isinstance(is_now, Absent)


def _are_changed(loops: tuple[Loop, ...], world: World) -> bool:
    sources = [loop.source for loop in loops]
    return any(isinstance(each, Entities) and _is_changed(each, world) for each in sources)


def _is_changed(source: Entities, world: World) -> bool:
    """True where the run certainly changed some entity of the type."""
    crowds = [world.changed.get((root, source.entity)) for root in _ROOTS]
    return source.root != "before" and any(crowd is not None and crowd.things for crowd in crowds)
