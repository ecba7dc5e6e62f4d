"""Elements: quantifiers over them, and the values of those that count.

`and`, `or` and the sets of outcomes are `evaluation`'s; decided here is which elements there are,
that one undefined element makes the whole undefined, and what of them stays to be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from statediff.contract.columnar import NOTHING, Partial, plan
from statediff.contract.operations import as_condition
from statediff.contract.ranges import crowd_of, deciding, elements, paid
from statediff.contract.relations import combine, comparison_key
from statediff.contract.syntax import Call, Comprehension, Loop, Node
from statediff.contract.world import (
    FALSE,
    TRUE,
    UNDEFINED,
    Crowd,
    Env,
    Result,
    Thing,
    Undefined,
    Unknown,
    World,
    note,
)

MAYBE: Final = "an element may be undefined"
DOUBTED: Final = "whether an element counts is not known"


@dataclass(frozen=True)
class Evaluator:
    """The two halves of the recursive definition that elements are evaluated by."""

    outcomes: Callable[[Node, World, Env], int]
    evaluate: Callable[[Node, World, Env], Result]


def quantify(by: Evaluator, node: Call, world: World, env: Env) -> int:
    """The outcomes of `all` or `any`."""
    stop, go_on = (FALSE, TRUE) if node.name == "all" else (TRUE, FALSE)
    body = node.arguments[0]
    if not isinstance(body, Comprehension):
        listed = by.evaluate(body, world, env)
        if not isinstance(listed, tuple):
            return as_condition(listed, world)
        total = go_on
        for item in listed:
            total = combine(stop, go_on, total, as_condition(item, world))
        return total
    of = plan(body)
    if of is None:
        return _over(_elements(by, body.loops, world, env, body.element, go_on), world, stop, go_on)
    crowd = deciding(of, world, neutral=go_on == TRUE)
    with paid(world):
        found = _elements(by, body.loops, world, env, body.element, go_on, crowd)
        return _over(found, world, stop, go_on)


def _over(found: Iterator[tuple[int, bool]], world: World, stop: int, go_on: int) -> int:
    """The outcomes of a quantifier over its elements'; only what decides is kept as seen."""
    mark = len(world.seen)
    total = go_on
    kept = False
    for mask, more in found:
        after = combine(stop, go_on, total, mask)
        # Two further elements have no outcome that one has not: the gravest counts.
        total = total | after if more else after
        decisive = bool(mask & (stop | UNDEFINED))
        if not decisive or (kept and mask == stop):
            del world.seen[mark:]
        if decisive:
            kept = True
            mark = len(world.seen)
    return total


def _elements(
    by: Evaluator,
    loops: tuple[Loop, ...],
    world: World,
    env: Env,
    element: Node,
    neutral: int,
    crowd: Crowd | None = None,
) -> Iterator[tuple[int, bool]]:
    """The outcomes of each element, and whether it stands for any number of unknown further ones.

    An element whose condition may be false may be `neutral`; an undefined condition is undefined.
    `crowd` is what the first loop ranges over, where that is known already.
    """
    loop, rest = loops[0], loops[1:]
    for item, more in _range(by, loop.source, world, env, crowd):
        world.step()
        if isinstance(item, Undefined):
            world.undefined.append(item.reason)
            yield UNDEFINED, more
            continue
        inner = {**env, loop.name: item}
        condition = TRUE
        for test in loop.conditions:
            if not condition & TRUE:
                break
            condition = (condition & ~TRUE) | by.outcomes(test, world, inner)
        spare = (neutral if condition & FALSE else 0) | (condition & UNDEFINED)
        if not condition & TRUE:
            yield spare, more
        elif rest:
            for mask, further in _elements(by, rest, world, inner, element, neutral):
                yield mask | spare, more or further
            if spare:
                yield spare | neutral, more
        else:
            yield by.outcomes(element, world, inner) | spare, more


def _range(
    by: Evaluator, source: Node, world: World, env: Env, crowd: Crowd | None = None
) -> Iterator[tuple[Result, bool]]:
    crowd = crowd_of(source, world, env) if crowd is None else crowd
    if isinstance(crowd, Crowd):
        for thing in crowd:
            yield thing, False
        if crowd.incomplete:
            world.causes.update(crowd.incomplete)
            cause = "; ".join(sorted(crowd.incomplete))
            yield Thing(crowd.side, crowd.type, (), None, cause), True
        return
    listed = by.evaluate(source, world, env)
    if isinstance(listed, tuple):
        for item in listed:
            yield item, False
    elif isinstance(listed, Unknown):
        note(listed, world)
        yield Unknown(listed.causes), True
        if listed.maybe_null or listed.maybe_undefined:
            yield Undefined("the list may be null"), True
    else:
        reason = listed.reason if isinstance(listed, Undefined) else "ranging over null or absent"
        yield Undefined(reason), False


def unique(by: Evaluator, node: Call, world: World, env: Env) -> int:
    """The outcomes of `unique`."""
    values, causes, reason, beside = collected(by, node, world, env)
    if reason:
        world.undefined.append(reason)
        if not causes:
            return UNDEFINED
    known = [comparison_key(v) for v in values if not isinstance(v, Unknown)]
    if beside.has_equals or len(set(known)) != len(known):
        mask = FALSE
    else:
        mask = TRUE | FALSE if causes else TRUE
    world.causes.update(causes)
    return mask | UNDEFINED if reason else mask


def collected(
    by: Evaluator, node: Call, world: World, env: Env
) -> tuple[list[Result], set[str], str, Partial]:
    """What `_collect` gives, with what columns say of elements that it need not collect."""
    body = node.arguments[0]
    of = plan(body, whole_entities=node.name == "count")
    if of is None:
        return *_collect(by, body, world, env), NOTHING
    mark = len(world.seen)
    beside, crowd = elements(of, world, node.name)
    with paid(world):
        values, causes, reason = _collect(by, body, world, env, crowd)
    # Conditions over a whole type would fill the witness with entities that decide nothing.
    del world.seen[mark:]
    return values, causes, reason, beside


def _collect(
    by: Evaluator, body: Node, world: World, env: Env, crowd: Crowd | None = None
) -> tuple[list[Result], set[str], str]:
    """The value of every element that counts, the causes of what may be missing, and a reason.

    The reason says why the whole is undefined; with causes, why it may be.
    """
    if not isinstance(body, Comprehension):
        crowd = crowd_of(body, world, env) if crowd is None else crowd
        if isinstance(crowd, Crowd):
            return list(crowd), set(crowd.incomplete), ""
        listed = by.evaluate(body, world, env)
        if isinstance(listed, tuple):
            unknown = [v for v in listed if isinstance(v, Unknown)]
            causes = {cause for each in unknown for cause in each.causes}
            return list(listed), causes, MAYBE if any(v.maybe_undefined for v in unknown) else ""
        if isinstance(listed, Unknown):
            is_open = listed.maybe_null or listed.maybe_undefined
            return [], set(listed.causes), MAYBE if is_open else ""
        return [], set(), listed.reason if isinstance(listed, Undefined) else "null or absent"
    values: list[Result] = []
    causes = set()
    reason = ""
    for inner, certain in _bindings(by, body.loops, world, env, causes, crowd):
        value = inner if isinstance(inner, Undefined) else by.evaluate(body.element, world, inner)
        if isinstance(value, Undefined):
            reason = value.reason
            continue
        if isinstance(value, Unknown):
            causes |= value.causes
            reason = reason or (MAYBE if value.maybe_undefined else "")
        if certain:
            values.append(value)
    return values, causes, reason


def _bindings(
    by: Evaluator,
    loops: tuple[Loop, ...],
    world: World,
    env: Env,
    causes: set[str],
    crowd: Crowd | None = None,
) -> Iterator[tuple[Env | Undefined, bool]]:
    """What the variables are, element by element, and whether it certainly counts."""
    loop, rest = loops[0], loops[1:]
    for item, more in _range(by, loop.source, world, env, crowd):
        world.step()
        if isinstance(item, Undefined):
            yield item, more
            continue
        if more:
            causes.update([item.cause] if isinstance(item, Thing) else item.causes)
        inner = {**env, loop.name: item}
        mask = TRUE
        for test in loop.conditions:
            if mask & TRUE:
                mask = (mask & ~TRUE) | by.outcomes(test, world, inner)
        if not more and mask not in (TRUE, FALSE, UNDEFINED):
            causes.update(world.causes, (DOUBTED,))
        if mask & UNDEFINED:
            reason = world.undefined[-1] if mask == UNDEFINED else MAYBE
            yield Undefined(reason), more
        if mask & TRUE:
            certain = mask == TRUE and not more
            if rest:
                found = _bindings(by, rest, world, inner, causes)
                yield from ((each, known and certain) for each, known in found)
            else:
                yield inner, certain
