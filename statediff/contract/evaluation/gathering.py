"""Elements: quantifiers over them, and the values of those that count.

`and`, `or` and the sets of outcomes are `evaluation`'s; decided here is which elements there are,
that one undefined element makes the whole undefined, and what of them stays to be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from statediff.contract.evaluation.columnar import NOTHING, Partial, plan
from statediff.contract.evaluation.likely import likely
from statediff.contract.evaluation.operations import aggregate, as_condition
from statediff.contract.evaluation.ranges import crowd_of, deciding, elements, paid
from statediff.contract.evaluation.relations import combine, comparison_key
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EntitySet,
    Env,
    EvalContext,
    Evaluator,
    Looked,
    Result,
    Seen,
    TooCostly,
    Undefined,
    Unknown,
    note,
)
from statediff.contract.language.syntax import Call, Comprehension, Entities, Loop, Node
from statediff.model.explanation import Cause, Reason
from statediff.model.explanation import causes as causes_of

MAX_LOOKED: Final = 1000
MAX_NEAREST: Final = 3
MAYBE: Final = Reason.ELEMENT_MAY_BE_UNDEFINED()
DOUBTED: Final = Reason.ELEMENT_DOUBTED()


def quantify(by: Evaluator, node: Call, context: EvalContext, env: Env) -> int:
    """The outcomes of `all` or `any`."""
    stop, go_on = (FALSE, TRUE) if node.name == "all" else (TRUE, FALSE)
    body = node.arguments[0]
    if not isinstance(body, Comprehension):
        listed = by.evaluate(body, context, env)
        if not isinstance(listed, tuple):
            return as_condition(listed, context)
        total = go_on
        for item in listed:
            total = combine(stop, go_on, total, as_condition(item, context))
        return total
    of = plan(body)
    here = len(context.seen)
    held: list[EntityRef] = []
    if of is None:
        mask = _over_likely(by, node, context, env, (stop, go_on), held)
    else:
        entity_set = deciding(of, context, neutral=go_on == TRUE)
        with paid(context):
            found = _elements(by, body.loops, context, env, body.element, go_on, entity_set)
            mask = _over(found, context, stop, go_on, held)
    if mask == FALSE and stop == FALSE:
        parts = tuple(context.seen[here:])
        looked = Looked(1, False, held[0].type if held else "", ((tuple(held), parts),))
        context.seen.append(Seen(node, None, None, mask, tuple(held), lambda: looked))
    elif mask == FALSE:
        context.seen.append(unmet(by, node, context, env))
    return mask


def _over_likely(
    by: Evaluator,
    node: Call,
    context: EvalContext,
    env: Env,
    ends: tuple[int, int],
    held: list[EntityRef],
) -> int:
    """The outcomes over those elements alone that may decide it, where they are known.

    `ends` are the outcome that decides the quantifier and the one that does not.
    """
    body: Any = node.arguments[0]
    stop, go_on = ends
    near = likely(by, node, context, env)
    if near is not None:
        marks = len(context.seen), set(context.causes), len(context.undefined), context.steps
        context.steps += near.steps
        found = _elements(by, body.loops, context, env, body.element, go_on, near.entities)
        try:
            return _over(found, context, stop, go_on, held)
        except TooCostly:
            # What was seen until the steps ran out is part of the finding: one by one, then.
            held.clear()
            del context.seen[marks[0] :], context.undefined[marks[2] :]
            context.causes.intersection_update(marks[1])
            context.steps = marks[3]
    found = _elements(by, body.loops, context, env, body.element, go_on)
    return _over(found, context, stop, go_on, held)


def unmet(by: Evaluator, node: Call, context: EvalContext, env: Env) -> Seen:
    """What an `any` over a comprehension leaves to be seen where nothing satisfies it."""
    body: Any = node.arguments[0]
    return Seen(node, None, None, FALSE, (), lambda: _nearest(by, body, context, env))


def over_some(
    by: Evaluator, node: Call, context: EvalContext, env: Env, entities: EntitySet
) -> Result | None:
    """The quantifier, count or sum as if these were all entities; None where more is to say."""
    body = node.arguments[0]
    if node.name in ("all", "any") and isinstance(body, Comprehension):
        neutral = TRUE if node.name == "all" else FALSE
        found = _elements(by, body.loops, context, env, body.element, neutral, entities)
        return neutral if all(mask == neutral for mask, _, _ in found) else None
    values, causes, reason = _collect(by, body, context, env, entities)
    if causes or reason:
        return None
    result = aggregate(node.name, values, causes, reason)
    return None if isinstance(result, Undefined) else result


def _nearest(by: Evaluator, body: Comprehension, context: EvalContext, env: Env) -> Looked:
    """The first elements of an `any` that none satisfies, those that came furthest before others.

    How far one came is the place in the text of the comparison that failed. No more than
    `MAX_LOOKED` elements are looked at again.
    """
    quiet = replace(context, seen=[], causes=set(), undefined=[], is_paid=True)
    found: list[tuple[int, tuple[EntityRef, ...], tuple[Seen, ...]]] = []
    is_more = False
    for inner, _ in bindings(by, body.loops, quiet, env, set()):
        if len(found) == MAX_LOOKED:
            is_more = True
            break
        quiet.seen.clear()
        if isinstance(inner, Undefined):
            continue
        by.outcomes(body.element, quiet, inner)
        refs = tuple(r for loop in body.loops if isinstance(r := inner[loop.name], EntityRef))
        failed = max((each.node.offset for each in quiet.seen if each.mask == FALSE), default=-1)
        found.append((failed, refs, tuple(quiet.seen)))
    source = body.loops[0].source
    name = source.entity if isinstance(source, Entities) else ""
    near = sorted(found, key=lambda each: -each[0])[:MAX_NEAREST]
    return Looked(len(found), is_more, name, tuple((refs, seen) for _, refs, seen in near))


def _over(
    found: Iterator[tuple[int, bool, Env]],
    context: EvalContext,
    stop: int,
    go_on: int,
    held: list[EntityRef],
) -> int:
    """The outcomes of a quantifier over its elements'; only what decides is kept as seen.

    `held` takes the entities of the first element that decides it.
    """
    mark = len(context.seen)
    total = go_on
    kept = False
    for mask, more, inner in found:
        if mask == stop and not held:
            held += [each for each in inner.values() if isinstance(each, EntityRef)]
        after = combine(stop, go_on, total, mask)
        # Two further elements have no outcome that one has not: the gravest counts.
        total = total | after if more else after
        decisive = bool(mask & (stop | UNDEFINED))
        if not decisive or (kept and mask == stop):
            del context.seen[mark:]
        if decisive:
            kept = True
            mark = len(context.seen)
    return total


def _elements(
    by: Evaluator,
    loops: tuple[Loop, ...],
    context: EvalContext,
    env: Env,
    element: Node,
    neutral: int,
    entity_set: EntitySet | None = None,
) -> Iterator[tuple[int, bool, Env]]:
    """The outcomes of each element, whether it stands for unknown further ones, and its variables.

    An element whose condition may be false may be `neutral`; an undefined condition is undefined.
    `entity_set` is what the first loop ranges over, where that is known already.
    """
    loop, rest = loops[0], loops[1:]
    for item, more in _range(by, loop.source, context, env, entity_set):
        context.step()
        if isinstance(item, Undefined):
            context.undefined.append(item.reason)
            yield UNDEFINED, more, {}
            continue
        inner = {**env, loop.name: item}
        own = {loop.name: item}
        condition = TRUE
        for test in loop.conditions:
            if not condition & TRUE:
                break
            condition = (condition & ~TRUE) | by.outcomes(test, context, inner)
        spare = (neutral if condition & FALSE else 0) | (condition & UNDEFINED)
        if not condition & TRUE:
            yield spare, more, own
        elif rest:
            for mask, further, deeper in _elements(by, rest, context, inner, element, neutral):
                yield mask | spare, more or further, {**own, **deeper}
            if spare:
                yield spare | neutral, more, own
        else:
            yield by.outcomes(element, context, inner) | spare, more, own


def _range(
    by: Evaluator, source: Node, context: EvalContext, env: Env, entity_set: EntitySet | None = None
) -> Iterator[tuple[Result, bool]]:
    entity_set = crowd_of(source, context, env) if entity_set is None else entity_set
    if isinstance(entity_set, EntitySet):
        for entity_ref in entity_set:
            yield entity_ref, False
        if entity_set.incomplete:
            context.causes.update(entity_set.incomplete)
            why = causes_of(entity_set.incomplete)
            cause = why[0] if len(why) == 1 else Reason.ALL_OF(causes=why)
            yield EntityRef(entity_set.side, entity_set.type, (), None, cause), True
        return
    listed = by.evaluate(source, context, env)
    if isinstance(listed, tuple):
        for item in listed:
            yield item, False
    elif isinstance(listed, Unknown):
        note(listed, context)
        yield Unknown(listed.causes), True
        if listed.maybe_null or listed.maybe_undefined:
            yield Undefined(Reason.LIST_MAY_BE_NULL()), True
    else:
        reason = listed.reason if isinstance(listed, Undefined) else Reason.NO_LIST()
        yield Undefined(reason), False


def unique(by: Evaluator, node: Call, context: EvalContext, env: Env) -> int:
    """The outcomes of `unique`; the first two elements that are equal are what decided it."""
    holders: list[tuple[EntityRef, ...]] = []
    values, causes, reason, beside = collected(by, node, context, env, holders)
    if reason:
        context.undefined.append(reason)
        if not causes:
            return UNDEFINED
    equals = _equals(values)
    mask = TRUE | FALSE if causes else TRUE
    if beside.has_equals or equals is not None:
        mask = FALSE
    context.causes.update(causes)
    mask = mask | UNDEFINED if reason else mask
    if equals is not None:
        first, second = equals
        both = (*holders[first], *holders[second])
        context.seen.append(Seen(node, values[first], both, mask, both))
    return mask


def _equals(values: list[Result]) -> tuple[int, int] | None:
    """The places of the first known value that came before, and of its first occurrence."""
    at: dict[object, int] = {}
    for number, value in enumerate(values):
        if not isinstance(value, Unknown):
            first = at.setdefault(comparison_key(value), number)
            if first != number:
                return first, number
    return None


def collected(
    by: Evaluator,
    node: Call,
    context: EvalContext,
    env: Env,
    holders: list[tuple[EntityRef, ...]] | None = None,
) -> tuple[list[Result], set[Cause], Cause, Partial]:
    """What `_collect` gives, with what columns say of elements that it need not collect."""
    body = node.arguments[0]
    of = plan(body, whole_entities=node.name == "count")
    if of is None:
        return *_collect(by, body, context, env, holders=holders), NOTHING
    mark = len(context.seen)
    beside, entity_set = elements(of, context, node.name)
    with paid(context):
        values, causes, reason = _collect(by, body, context, env, entity_set, holders)
    # Conditions over a whole type would fill the witness with entities that decide nothing.
    del context.seen[mark:]
    return values, causes, reason, beside


def _collect(
    by: Evaluator,
    body: Node,
    context: EvalContext,
    env: Env,
    entity_set: EntitySet | None = None,
    holders: list[tuple[EntityRef, ...]] | None = None,
) -> tuple[list[Result], set[Cause], Cause]:
    """The value of every element that counts, the causes of what may be missing, and a reason.

    The reason says why the whole is undefined; with causes, why it may be. `holders` takes the
    entities that each value is of.
    """
    holders = [] if holders is None else holders
    if not isinstance(body, Comprehension):
        entity_set = crowd_of(body, context, env) if entity_set is None else entity_set
        if isinstance(entity_set, EntitySet):
            members = list(entity_set)
            holders += [(member,) for member in members]
            return members, set(entity_set.incomplete), ""
        listed = by.evaluate(body, context, env)
        if isinstance(listed, tuple):
            unknown = [v for v in listed if isinstance(v, Unknown)]
            holders += [()] * len(listed)
            found = {cause for each in unknown for cause in each.causes}
            return list(listed), found, MAYBE if any(v.maybe_undefined for v in unknown) else ""
        if isinstance(listed, Unknown):
            is_open = listed.maybe_null or listed.maybe_undefined
            return [], set(listed.causes), MAYBE if is_open else ""
        is_undefined = isinstance(listed, Undefined)
        return [], set(), listed.reason if is_undefined else Reason.NOTHING_LISTED()
    values: list[Result] = []
    causes: set[Cause] = set()
    reason: Cause = ""
    for inner, certain in bindings(by, body.loops, context, env, causes, entity_set):
        value = inner if isinstance(inner, Undefined) else by.evaluate(body.element, context, inner)
        if isinstance(value, Undefined):
            reason = value.reason
            continue
        if isinstance(value, Unknown):
            causes |= value.causes
            reason = reason or (MAYBE if value.maybe_undefined else "")
        if certain and not isinstance(inner, Undefined):
            values.append(value)
            held = (inner[loop.name] for loop in body.loops)
            holders.append(tuple(each for each in held if isinstance(each, EntityRef)))
    return values, causes, reason


def bindings(
    by: Evaluator,
    loops: tuple[Loop, ...],
    context: EvalContext,
    env: Env,
    causes: set[Cause],
    entity_set: EntitySet | None = None,
) -> Iterator[tuple[Env | Undefined, bool]]:
    """What the variables are, element by element, and whether it certainly counts."""
    loop, rest = loops[0], loops[1:]
    for item, more in _range(by, loop.source, context, env, entity_set):
        context.step()
        if isinstance(item, Undefined):
            yield item, more
            continue
        if more:
            causes.update([item.cause] if isinstance(item, EntityRef) else item.causes)
        inner = {**env, loop.name: item}
        mask = TRUE
        for test in loop.conditions:
            if mask & TRUE:
                mask = (mask & ~TRUE) | by.outcomes(test, context, inner)
        if not more and mask not in (TRUE, FALSE, UNDEFINED):
            causes.update(context.causes, (DOUBTED,))
        if mask & UNDEFINED:
            reason = context.undefined[-1] if mask == UNDEFINED else MAYBE
            yield Undefined(reason), more
        if mask & TRUE:
            certain = mask == TRUE and not more
            if rest:
                found = bindings(by, rest, context, inner, causes)
                yield from ((each, known and certain) for each, known in found)
            else:
                yield inner, certain
