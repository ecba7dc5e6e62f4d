"""The truths of a condition and the value of an expression, by rows (docs/design.md §3).

A condition is undefined by the run where what makes it so is a value that the run wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from statediff.contract.language.syntax import (
    TEXT,
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    Compare,
    Comprehension,
    Const,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    InputOf,
    ItemOf,
    Items,
    ListT,
    Lookup,
    Loop,
    Node,
    Not,
    Or,
    PartOf,
    Reaches,
    RunOf,
    ScalarT,
    Variable,
    children,
)
from statediff.kernel.spec.functions import (
    FUNCTIONS,
    TESTS,
    Bag,
    Reckoned,
    aggregate,
    arithmetic,
    compared,
    concatenation,
    field_value,
    function,
    item_at,
    part_of,
    same_items,
    truths_of_test,
    unique,
)
from statediff.kernel.spec.paths import reaches
from statediff.kernel.spec.values import (
    FALSE,
    NO_VALUE,
    OPEN,
    TRUE,
    UNDEFINED,
    Crowd,
    Env,
    Gathered,
    NoValue,
    Result,
    Some,
    Thing,
    Truths,
    World,
    as_captured,
    as_condition,
    as_stored,
    both,
    is_finite,
    is_nothing,
    may,
    opposite,
    over_items,
    plain,
    quantify,
    relate,
)
from statediff.model.explanation import cause, is_by_agent
from statediff.model.paths import Steps, at, is_ambiguous
from statediff.model.schema import Kind
from statediff.model.trace import NoAnswer
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Map,
    Unobserved,
    key_order,
    same,
    told_apart,
)


def outcomes(node: Node, world: World, env: Env) -> Truths:
    """The truths that the condition can have."""
    match node:
        case And(parts=parts):
            found = TRUE
            for part in parts:
                found = both(found, outcomes(part, world, env)) if found & TRUE else found
            return found
        case Or(parts=parts):
            found = FALSE
            for part in parts:
                more = outcomes(part, world, env) if found & FALSE else 0
                found = found & ~FALSE | more
            return found
        case Not(child=child):
            return opposite(outcomes(child, world, env))
        case Compare(op="!=" | "not in" as op):
            return opposite(_compare({"!=": "=="}.get(op, "in"), node, world, env))
        case Compare(op=op):
            return _compare(op, node, world, env)
        case Call(name="all" | "any" as name, arguments=(body, *_)):
            return _quantifier(FALSE if name == "all" else TRUE, body, world, env)
        case Call(name="unique", arguments=(body, *_)):
            return unique(gather(body, world, env))
        case Call(name="exists", arguments=(entity, *_)):
            found = value(entity, world, env)
            if isinstance(found, NoValue | Some):
                return UNDEFINED if isinstance(found, NoValue) else may(be_undefined=found.null)
            return FALSE if isinstance(found, Absent) else TRUE
        case Call(name="same_items", arguments=(left, right)):
            return same_items(_bag_of(left, world, env), _bag_of(right, world, env))
        case Call(name=name, arguments=given) if name in TESTS:
            return truths_of_test(name, [value(each, world, env) for each in given])
        case Reaches(start=start, goal=goal):
            return reaches(node, value(start, world, env), value(goal, world, env), world)
        case _:
            return as_condition(value(node, world, env))


def _compare(op: str, node: Compare, world: World, env: Env) -> Truths:
    if op != "in" or not isinstance(node.right, Entities):
        sides = reckoned(node.left, world, env), reckoned(node.right, world, env)
        decided = compared(op, *sides)
        return relate(op, *(side.result for side in sides)) if decided is None else decided
    left = value(node.left, world, env)
    if isinstance(left, NoValue | Some):
        return may(be_undefined=left.undefined) if isinstance(left, Some) else UNDEFINED
    if is_nothing(left):
        return FALSE
    found = world.look(node.right.root, node.right.entity, (plain(left),))
    return OPEN if isinstance(found, Some) else FALSE if isinstance(found, Absent) else TRUE


def _quantifier(stop: Truths, body: Node, world: World, env: Env) -> Truths:
    """A quantifier. An element that does not count, or is not there, is neutral."""
    if not isinstance(body, Comprehension):
        listed = value(body, world, env)
        if not isinstance(listed, tuple):
            return as_condition(listed)
        return over_items(stop, map(as_condition, listed))
    masks = []
    for inner, counts, may_be_more in elements(body.loops, world, env):
        is_left_out = counts & FALSE or may_be_more or (counts & TRUE and inner is None)
        mask = counts & UNDEFINED | (OPEN & ~stop if is_left_out else 0)
        if inner is not None:
            mask |= outcomes(body.element, world, inner)
        masks.append(mask)
    return quantify(stop, masks)


# ---------------------------------------------------------------- what is ranged over


def elements(
    loops: tuple[Loop, ...], world: World, env: Env
) -> Iterator[tuple[Env | None, Truths, bool]]:
    """The elements of a comprehension: variables, whether it counts, whether it is any number.

    No variables where it never counts, and of an element of an outer loop, which counts as far as
    the loops inside it have elements.
    """
    loop, *rest = loops
    for item, may_be_more in items_of(loop.source, world, env):
        if isinstance(item, NoValue):
            yield None, UNDEFINED, may_be_more
            continue
        inner, counts = {**env, loop.name: item}, TRUE
        for test in loop.conditions:
            counts = both(counts, outcomes(test, world, inner)) if counts & TRUE else counts
        if rest and counts & TRUE:
            for deeper, mask, further in elements(tuple(rest), world, inner):
                yield deeper, both(counts, mask), may_be_more or further
        yield (None if rest or not counts & TRUE else inner), counts, may_be_more


def items_of(source: Node, world: World, env: Env) -> Iterator[tuple[Result, bool]]:
    """The items, each with whether it stands for any number of items that nobody has seen."""
    crowd = _crowd_of(source, world, env)
    if crowd is not None:
        yield from ((thing, False) for thing in crowd.things)
        if crowd.is_open:
            side, name = (
                ("", "") if not isinstance(source, Entities) else (source.root, source.entity)
            )
            yield Thing(side, name, (), None), True
        return
    listed = value(source, world, env)
    if isinstance(listed, tuple):
        yield from ((item, False) for item in listed)
    elif isinstance(listed, Some):
        yield Some(), True
        if listed.null or listed.undefined:
            yield NO_VALUE, True
    else:
        yield NO_VALUE, False


def _crowd_of(source: Node, world: World, env: Env) -> Crowd | None:
    """The entities that the expression names; None where it names no collection."""
    match source:
        case Entities(root="before" | "after" | "now" as root, entity=name):
            table, side = world.table(root, name), world.now if root == "now" else root
            known = (Thing(side, name, key, row) for key, row in table.rows.values())
            return Crowd(tuple(known), not table.is_complete)
        case Entities(root=root, entity=name):
            return world.changed.get((root, name), Crowd())
        case Variable(name=name) if isinstance(env[name], Crowd):
            found: Crowd = env[name]
            return found
        case _:
            return None


def gather(body: Node, world: World, env: Env) -> Gathered | None:
    """The values of all elements; None where there is no list of them."""
    if not isinstance(body, Comprehension):
        crowd = _crowd_of(body, world, env)
        if crowd is not None:
            return Gathered(crowd.things, is_any=crowd.is_open)
        listed = value(body, world, env)
        if isinstance(listed, Some):
            may_fail = listed.null or listed.undefined
            return Gathered(
                doubted=(Some(),), is_any=True, is_undefined=may_fail, may_be_none=may_fail
            )
        if not isinstance(listed, tuple):
            return None
        may_fail = any(item.undefined for item in listed if isinstance(item, Some))
        return Gathered(listed, is_undefined=may_fail, may_be_none=may_fail)
    values, doubted, maybe, undefined = [], [], 0, 0
    is_any = is_uncounted = is_undefined = False
    for inner, counts, may_be_more in elements(body.loops, world, env):
        if inner is None and not counts & UNDEFINED:
            continue  # it counts as far as the loops inside it have elements, which come beside it
        found = NO_VALUE if inner is None else value(body.element, world, inner)
        is_lacking = inner is not None and found is NO_VALUE
        if counts == TRUE and not may_be_more and not is_lacking:
            values.append(found)
        elif counts & (TRUE | UNDEFINED):
            maybe += 1
            doubted += [] if found is NO_VALUE else [found]
            is_sure = counts == UNDEFINED or (counts == TRUE and is_lacking)
            undefined += is_sure and not may_be_more
        is_any |= may_be_more
        is_uncounted |= len(body.loops) > 1 and bool(counts & UNDEFINED)
        is_undefined |= bool(counts & UNDEFINED) or is_lacking
        is_undefined |= isinstance(found, Some) and found.undefined
    of = tuple(values), tuple(doubted), maybe, undefined
    return Gathered(*of, is_any, is_uncounted, is_undefined)


def _bag_of(node: Node, world: World, env: Env) -> Bag:
    bag = Bag()
    if not isinstance(node, Comprehension):
        of = gather(node, world, env)
        bag.is_any = bag.is_open = of is not None and of.is_any
        bag.is_undefined = of is None or of.is_undefined
        for item in () if of is None else of.values:
            bag.put(item, is_sure=True)
        return bag
    for inner, counts, may_be_more in elements(node.loops, world, env):
        found = NO_VALUE if inner is None else value(node.element, world, inner)
        is_sure = counts == TRUE and not may_be_more
        bag.is_open |= may_be_more or counts not in (TRUE, FALSE, UNDEFINED)
        bag.is_undefined |= bool(counts & UNDEFINED) or (inner is not None and found is NO_VALUE)
        if found is NO_VALUE:
            continue
        held = [] if inner is None else [inner[loop.name] for loop in node.loops]
        # An element that nobody has seen stands for any number of others.
        unseen = [h for h in held if isinstance(h, Some) or (isinstance(h, Thing) and not h.key)]
        if unseen and not is_sure:
            bag.is_any = True
            bag.is_undefined |= isinstance(found, Some) and found.undefined
        else:
            bag.put(found, is_sure=is_sure)
    return bag


# ---------------------------------------------------------------- values


_OF_RUN: Final = {
    "ended": "how",
    "exit_code": "exit_code",
    "start": "agent_started_at",
    "end": "agent_finished_at",
}


def read_outcome(node: AnswerOf | RunOf, world: World) -> Result:
    """A value of the answer, or how the run ended; open where nobody could read or follow it."""
    if isinstance(node, RunOf):
        told, moments = world.ending, world.timeline
        if node.name in ("ended", "exit_code"):
            return Some(null=False) if told is None else getattr(told, _OF_RUN[node.name])
        moment = None if moments is None else getattr(moments, _OF_RUN[node.name])
        return Some(null=False) if moment is None else moment
    if isinstance(world.answer, NoAnswer):
        return Some(null=False) if world.answer.is_unread else NO_VALUE
    said = world.answer.get(node.name, ABSENT)
    return Some(null=False) if isinstance(said, Unobserved) else said


def reckoned(node: Node, world: World, env: Env) -> Reckoned:
    """The value, and of an aggregate the bounds of what it may be."""
    match node:
        case (
            Call(name="count", arguments=(body,))
            | Call(name="sum" | "min" | "max", arguments=(body,))
        ):
            return aggregate(node.name, gather(body, world, env), is_plain(body))
        case _:
            found = value(node, world, env)
            is_known = not isinstance(found, Some | NoValue)
            return Reckoned(found, found, found) if is_known else Reckoned(found)


def find_in(crowd: Crowd, parts: list[Result]) -> Result:
    """The entity of the collection that the key names; absent only where all are known."""
    if crowd.is_open:
        return Some(null=False, undefined=True)
    wanted = key_order(as_captured(parts))
    return next((each for each in crowd.things if key_order(each.key) == wanted), ABSENT)


def is_plain(body: Node) -> bool:
    """Any two values that an element may have, null apart, have an order (and numbers a sum)."""
    element = body.element if isinstance(body, Comprehension) else None
    kinds = (Kind.INT, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP)
    return element is not None and isinstance(element.type, ScalarT) and element.type.kind in kinds


def value(node: Node, world: World, env: Env) -> Result:  # noqa: C901 - a case for each node
    """The value of the expression: known, `Some` or NO_VALUE."""
    match node:
        case Const(value=known) | InputOf(value=known):
            return known
        case Variable(name=name):
            return env[name]
        case AnswerOf() | RunOf():
            return read_outcome(node, world)
        case FieldOf(entity=holder):
            held = value(holder, world, env)
            found = field_value(node, held)
            is_open = world.is_strict and isinstance(found, Some) and isinstance(held, Thing)
            return NO_VALUE if is_open and is_unread(held, node.field, world) else found
        case Follow(reference=reference, type=EntityT(type=name)):
            key = value(reference, world, env)
            if isinstance(key, NoValue | Some):
                return Some(undefined=True) if isinstance(key, Some) else key
            side = ABSENT if is_nothing(key) else value(reference.entity, world, env).side
            return ABSENT if isinstance(side, Absent) else world.look(side, name, (key,))
        case Lookup(collection=collection, keys=keys):
            parts = []
            for part in (value(key, world, env) for key in keys):
                if isinstance(part, Some):
                    return Some(null=part.undefined, undefined=True)
                if is_nothing(part) or isinstance(part, NoValue):
                    return part if isinstance(part, NoValue) else ABSENT
                parts.append(plain(part))
            if isinstance(collection, Entities):
                return world.look(collection.root, collection.entity, parts)
            return find_in(_crowd_of(collection, world, env) or Crowd(), parts)
        case PartOf(whole=whole, step=step):
            return part_of(value(whole, world, env), step)
        case ItemOf(whole=whole, index=index):
            return item_at(value(whole, world, env), value(index, world, env))
        case Canonical(child=child, apply=apply):
            found = value(child, world, env)
            is_kept = isinstance(found, Some | NoValue | Absent | Thing)
            return found if is_kept else apply(as_stored(found))
        case Arithmetic(left=left, right=right):
            sides = value(left, world, env), value(right, world, env)
            joins = node.type == TEXT or isinstance(node.type, ListT)
            wanted = str if node.type == TEXT else tuple
            return concatenation(sides, wanted) if joins else arithmetic(node.op, *sides)
        case Items(items=items):
            found = tuple(value(item, world, env) for item in items)
            return NO_VALUE if NO_VALUE in found else found
        case Call(name="count", arguments=(_,)) | Call(name="sum" | "min" | "max"):
            return reckoned(node, world, env).result
        case Call(name=name, arguments=given) if name in FUNCTIONS:
            return function(name, [value(each, world, env) for each in given])
        case _:
            mask = outcomes(node, world, env)
    if mask in (TRUE, FALSE, UNDEFINED):
        return NO_VALUE if mask == UNDEFINED else mask == TRUE
    return Some(null=False, undefined=bool(mask & UNDEFINED))


_ROOTS = ("created", "updated", "deleted", "linked", "unlinked")


def settled(node: Node, world: World, env: Env, by_run: Truths) -> Truths:
    """The truths of a condition; one that is undefined, or unread, by the run has `by_run`."""
    mask = outcomes(node, world, env)
    world = world if mask == UNDEFINED else replace(world, is_strict=True)
    is_open = mask not in (TRUE, FALSE) and outcomes(node, world, env) == UNDEFINED
    return by_run if is_open and is_by_run(node, world, env) else mask


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
    if isinstance(new, Digested):  # what could be read before, and cannot be now, was written
        was_seen = isinstance(old, Digested) or not isinstance(old, Unobserved)
        return was_seen and not told_apart(old, new)
    is_seen = not any(isinstance(value, Unobserved) for value in (old, new))
    return is_seen and not same(old, new)


def is_unread(held: Thing, name: str, world: World) -> bool:
    """True where the run wrote the field, and what it wrote cannot be read."""
    cell = None if held.row is None else held.row.get(name, ABSENT)
    if isinstance(cell, Digested):
        return (held.type, name) not in world.kept_out and is_written(held, name, (), world)
    return isinstance(cell, Unobserved) and is_by_agent(cause(cell.cause))


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
