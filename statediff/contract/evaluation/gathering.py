"""Elements: quantifiers over them, and the values of those that count.

`and`, `or` and the sets of outcomes are `evaluation`'s; decided here is which elements there are,
that one witness decides beside undefined ones, and what of them stays to be seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from statediff.contract.evaluation.columns import Screen
from statediff.contract.evaluation.joins import are_few, indexed, narrowed
from statediff.contract.evaluation.operations import (
    ALL,
    ALL_ITEMS,
    ANY,
    ANY_ITEM,
    NOTHING,
    Collected,
    Partial,
    as_condition,
    combine,
    comparison_key,
)
from statediff.contract.evaluation.plans import plan_of
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
    Trail,
    Undefined,
    Unknown,
    crowd_of,
)
from statediff.contract.language.syntax import Call, Comprehension, Entities, Loop, Node, ScalarT
from statediff.model.explanation import Cause, Reason
from statediff.model.explanation import causes as causes_of
from statediff.model.schema import Kind
from statediff.model.view import ColumnarView

MAX_LOOKED: Final = 1000
MAX_NEAREST: Final = 3
MAYBE: Final = Reason.ELEMENT_MAY_BE_UNDEFINED()
NOTHING_LISTED: Final = Reason.NOTHING_LISTED()
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
            total = combine(
                ALL_ITEMS if stop == FALSE else ANY_ITEM, total, as_condition(item, context)
            )
        return total
    here = context.mark()
    found = _outcomes(by, body, stop, context, env)
    if context.trail is None:
        return _over(found, stop, go_on)
    held: list[EntityRef] = []
    mask = _over(_watched(found, context.trail, stop, held), stop, go_on)
    if mask == FALSE and stop == FALSE:
        parts = tuple(context.trail.seen[here:])
        looked = Looked(1, False, held[0].type if held else "", ((tuple(held), parts),))
        context.trail.seen.append(Seen(node, None, None, mask, tuple(held), lambda: looked))
    elif mask == FALSE:
        nearest = partial(_nearest, by, body, context, env)
        context.trail.seen.append(Seen(node, None, None, mask, (), nearest))
    return mask


def _outcomes(
    by: Evaluator, body: Comprehension, stop: int, context: EvalContext, env: Env
) -> Iterator[tuple[int, bool, Sequence[EntityRef]]]:
    """The outcomes of each element, whether it stands for unknown further ones, and its entities.

    An element whose condition may be false may be neutral; an undefined condition is undefined.
    """
    neutral = (TRUE | FALSE) & ~stop
    _, entity_set = _at_hand(by, None, body, stop, context, env)
    asked = body.element, stop
    for inner, counts, more in bindings(by, body.loops, context, env, set(), entity_set, asked):
        if isinstance(inner, Undefined):
            if inner.reason is not MAYBE:
                context.undefined_by(inner.reason)
            yield UNDEFINED | (neutral if counts & ~UNDEFINED else 0), more, ()
            continue
        mask = by.outcomes(body.element, context, inner) | counts & UNDEFINED
        mask |= neutral if counts & FALSE else 0
        yield mask, more, _entities(body.loops, inner) if mask == stop else ()


def _entities(loops: tuple[Loop, ...], env: Env) -> tuple[EntityRef, ...]:
    """The entities among the items of an element."""
    return tuple([r for loop in loops if isinstance(r := env[loop.name], EntityRef)])


def _nearest(by: Evaluator, body: Comprehension, context: EvalContext, env: Env) -> Looked:
    """The first elements of an `any` that none satisfies, those that came furthest before others.

    How far one came is the place in the text of the comparison that failed. No more than
    `MAX_LOOKED` elements are looked at again.
    """
    trail = Trail()
    apart = replace(context, trail=trail)
    found: list[tuple[int, tuple[EntityRef, ...], tuple[Seen, ...]]] = []
    is_more = False
    for inner, *_ in bindings(by, body.loops, apart, env, set()):
        if len(found) == MAX_LOOKED:
            is_more = True
            break
        trail.seen.clear()
        if isinstance(inner, Undefined):
            continue
        by.outcomes(body.element, apart, inner)
        refs = _entities(body.loops, inner)
        failed = max((each.node.offset for each in trail.seen if each.mask == FALSE), default=-1)
        found.append((failed, refs, tuple(trail.seen)))
    source = body.loops[0].source
    name = source.entity if isinstance(source, Entities) else ""
    near = sorted(found, key=lambda each: -each[0])[:MAX_NEAREST]
    return Looked(len(found), is_more, name, tuple((refs, seen) for _, refs, seen in near))


def _over(found: Iterable[tuple[int, bool, object]], stop: int, go_on: int) -> int:
    """The outcomes of a quantifier over its elements'."""
    total, ranks = go_on, ALL if stop == FALSE else ANY
    for mask, more, _ in found:
        after = combine(ranks, total, mask)
        # Two further elements have no outcome that one has not: the gravest counts.
        total = total | after if more else after
    return total


def _watched(
    found: Iterable[tuple[int, bool, Sequence[EntityRef]]],
    trail: Trail,
    stop: int,
    held: list[EntityRef],
) -> Iterator[tuple[int, bool, None]]:
    """The elements as they are; of their trail only what decides is kept.

    Of those that are certainly undefined the first is kept, and of those that certainly decide it
    the first, where it comes first. `held` takes the entities of the first that decides it.
    """
    is_shown, is_undefined = False, False
    mark, undefined = len(trail.seen), len(trail.undefined)
    for mask, more, refs in found:
        if mask == stop and not held:
            held += refs
        yield mask, more, None
        is_again = (is_shown and mask == stop) or (is_undefined and mask == UNDEFINED)
        if is_again or not mask & (stop | UNDEFINED):
            del trail.seen[mark:]
        if is_again:
            del trail.undefined[undefined:]
        is_shown |= bool(mask & (stop | UNDEFINED))
        is_undefined |= mask == UNDEFINED
        mark, undefined = len(trail.seen), len(trail.undefined)


def items_of(
    by: Evaluator, source: Node, context: EvalContext, env: Env, entity_set: EntitySet | None = None
) -> Iterator[tuple[Result, bool]]:
    """The items ranged over, each with whether it stands for any number that nobody has seen."""
    entity_set = crowd_of(source, context, env) if entity_set is None else entity_set
    if isinstance(entity_set, EntitySet):
        for entity_ref in entity_set:
            yield entity_ref, False
        if entity_set.incomplete:
            context.waits_for(entity_set.incomplete)
            why = causes_of(entity_set.incomplete)
            cause = why[0] if len(why) == 1 else Reason.ALL_OF(causes=why)
            yield EntityRef(entity_set.side, entity_set.type, (), None, cause), True
        return
    listed = by.evaluate(source, context, env)
    if isinstance(listed, tuple):
        for item in listed:
            yield item, False
    elif isinstance(listed, Unknown):
        context.waits_for(listed.causes)
        yield Unknown(listed.causes), True
        if listed.maybe_null or listed.maybe_undefined:
            yield Undefined(Reason.LIST_MAY_BE_NULL()), True
    else:
        reason = listed.reason if isinstance(listed, Undefined) else Reason.NO_LIST()
        yield Undefined(reason), False


def unique(by: Evaluator, node: Call, context: EvalContext, env: Env) -> int:
    """The outcomes of `unique`; the first two elements that are equal decide it."""
    of = collected(by, node, context, env)
    if isinstance(of, Undefined):
        return context.undefined_by(of.reason)
    equals, mask = _equals(of.values), FALSE
    if equals is None:
        context.waits_for(of.causes)
        mask = (0 if of.undefined else TRUE) | (FALSE if _may_be_equal(of) else 0)
    if of.reason and (of.may_be_none or equals is None):
        mask |= context.undefined_by(of.reason)
    if equals is not None and context.trail is not None:
        first, second = equals
        both = (*of.holders[first], *of.holders[second])
        context.trail.seen.append(Seen(node, of.values[first], both, mask, both))
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


def _may_be_equal(of: Collected) -> bool:
    """True if two elements are equal in some completion."""
    every = [*of.values, *of.doubted]
    known = [each for each in every if not isinstance(each, Unknown)]
    is_alone = len(every) + of.beside.number <= 1
    return of.is_any or _equals(known) is not None or (len(known) < len(every) and not is_alone)


def collected(by: Evaluator, node: Call, context: EvalContext, env: Env) -> Collected | Undefined:
    """The elements of an aggregate; `Undefined` where there is no list of them.

    What columns or an index say of elements need not be collected; else of one loop none is passed
    over: how many are undefined is asked by `count`.
    """
    body = node.arguments[0]
    mark = context.mark()
    beside, entity_set = _at_hand(by, node.name, body, TRUE, context, env)
    if isinstance(body, Comprehension):
        if entity_set is None and len(body.loops) == 1:
            entity_set = crowd_of(body.loops[0].source, context, env)
        found: Collected | Undefined = _of_loops(by, body, context, env, entity_set)
    else:
        found = _of_list(by, body, context, env, entity_set)
    if isinstance(found, Collected):
        found.beside = beside
    # Conditions over many elements would fill the witness with entities that decide nothing.
    context.forget(mark)
    return found


def same_items(by: Evaluator, node: Call, context: EvalContext, env: Env) -> int:
    """The outcomes of `same_items`.

    Equal in some completion: each side's items can be matched into the other's, and then one
    matching does both (Mendelsohn and Dulmage 1958).
    """
    one, two = (_bag(by, body, context, env) for body in node.arguments)
    for of in (one, two):
        if of.reason and not of.causes:
            return context.undefined_by(of.reason)
    causes = one.causes | two.causes
    mask = TRUE if _fits(one, two) and _fits(two, one) else FALSE
    if causes:
        context.waits_for(causes)
        mask |= FALSE
    mask |= UNDEFINED if one.reason or two.reason else 0
    if context.trail is not None:
        left, right = (tuple(value for value, _ in of.shown) for of in (one, two))
        things = tuple(held[0] for of in (one, two) for _, held in of.shown if held)
        context.trail.seen.append(Seen(node, left, right, mask, things))
    return mask


def _bag(by: Evaluator, body: Node, context: EvalContext, env: Env) -> Collected:
    if isinstance(body, Comprehension):
        mark = context.mark()
        found = _of_loops(by, body, context, env, None)
        context.forget(mark)
        return found
    listed = _of_list(by, body, context, env, None, Reason.NO_LIST())
    return Collected(reason=listed.reason) if isinstance(listed, Undefined) else listed


def _fits(of: Collected, other: Collected) -> bool:
    """True if each item that this has can be one of the other's, no two the same one."""
    if other.is_wild or any(isinstance(each, Unknown) for each in other.doubted):
        return True
    mine, theirs, perhaps = (
        Counter(comparison_key(each) for each in values if not isinstance(each, Unknown))
        for values in (of.values, other.values, other.doubted)
    )
    unseen, most = len(other.values) - theirs.total(), len(other.values) + perhaps.total()
    return (mine - theirs - perhaps).total() <= unseen and len(of.values) <= most


def _of_list(
    by: Evaluator,
    body: Node,
    context: EvalContext,
    env: Env,
    entity_set: EntitySet | None,
    otherwise: Cause = NOTHING_LISTED,
) -> Collected | Undefined:
    """The members of a set of entities, or the items of a list."""
    entity_set = crowd_of(body, context, env) if entity_set is None else entity_set
    if isinstance(entity_set, EntitySet):
        members = list(entity_set)
        return Collected(
            list(members),
            [(member,) for member in members],
            is_any=bool(entity_set.incomplete),
            causes=set(entity_set.incomplete),
        )
    listed = by.evaluate(body, context, env)
    if isinstance(listed, tuple):
        unknown = [v for v in listed if isinstance(v, Unknown)]
        causes = {cause for each in unknown for cause in each.causes}
        reason = MAYBE if any(v.maybe_undefined for v in unknown) else ""
        found = Collected(list(listed), [()] * len(listed), reason=reason, causes=causes)
        found.may_be_none, found.shown = bool(reason), [(each, ()) for each in listed]
        return found
    if isinstance(listed, Unknown):
        reason = MAYBE if listed.maybe_null or listed.maybe_undefined else ""
        unseen: list[Result] = [Unknown(listed.causes)]
        found = Collected(doubted=unseen, is_any=True, reason=reason, causes=set(listed.causes))
        found.may_be_none, found.is_wild, found.shown = bool(reason), True, [(listed, ())]
        return found
    return listed if isinstance(listed, Undefined) else Undefined(otherwise)


def _of_loops(
    by: Evaluator,
    body: Comprehension,
    context: EvalContext,
    env: Env,
    entity_set: EntitySet | None,
) -> Collected:
    """The elements of a comprehension.

    Of loops within others nobody knows how many are undefined.
    """
    found = Collected(is_plain=_is_plain(body))
    is_nested = len(body.loops) > 1
    for inner, mask, more in bindings(by, body.loops, context, env, found.causes, entity_set):
        value = inner if isinstance(inner, Undefined) else by.evaluate(body.element, context, inner)
        is_sure = mask in (TRUE, UNDEFINED) and not more
        found.is_any |= more
        found.is_uncounted |= is_nested and bool(mask & UNDEFINED)
        if mask & UNDEFINED:
            found.reason = found.reason or MAYBE
        if isinstance(value, Undefined):
            found.reason = value.reason if found.reason in ("", MAYBE) else found.reason
            found.maybe += 1
            found.undefined += is_sure
            continue
        if isinstance(value, Unknown):
            found.causes |= value.causes
            found.reason = found.reason or (MAYBE if value.maybe_undefined else "")
        if mask == TRUE and not more and not isinstance(inner, Undefined):
            found.values.append(value)
            if context.trail is not None:
                found.holders.append(_entities(body.loops, inner))
                found.shown.append((value, found.holders[-1]))
            continue
        found.maybe += 1
        found.doubted.append(value)
        held = {} if isinstance(inner, Undefined) else inner
        if any(_is_some(held[loop.name]) for loop in body.loops):
            found.is_wild = True
        elif context.trail is not None:
            found.shown.append((value, _entities(body.loops, held)))
    return found


def _is_some(item: Result) -> bool:
    """True if the item stands for any number of others that nobody has seen."""
    return isinstance(item, Unknown) or (isinstance(item, EntityRef) and not item.key)


_ORDERED: Final = frozenset({Kind.INT, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP})


def _is_plain(body: Comprehension) -> bool:
    return isinstance(body.element.type, ScalarT) and body.element.type.kind in _ORDERED


def bindings(
    by: Evaluator,
    loops: tuple[Loop, ...],
    context: EvalContext,
    env: Env,
    causes: set[Cause],
    entity_set: EntitySet | None = None,
    asked: tuple[Node | None, int] = (None, TRUE),
) -> Iterator[tuple[Env | Undefined, int, bool]]:
    """Element by element: its variables, the outcomes of its counting, if it is any number.

    `Undefined` where it can only be that, and once for an outer element that may be. Passed over is
    what does not matter where the element is `asked` for an outcome.
    """
    loop, rest, trail = loops[0], loops[1:], context.trail
    if entity_set is None:
        entity_set = narrowed(by, loop, None if rest else asked[0], asked[1], context, env)
    for item, more in items_of(by, loop.source, context, env, entity_set):
        if isinstance(item, Undefined):
            yield item, UNDEFINED, more
            continue
        if more:
            causes.update([item.cause] if isinstance(item, EntityRef) else item.causes)
        inner = {**env, loop.name: item}
        mark, mask = len(trail.seen) if trail else 0, TRUE
        for test in loop.conditions:
            if mask & TRUE:
                mask = (mask & ~TRUE) | by.outcomes(test, context, inner)
        if mask == FALSE:
            if trail:
                del trail.seen[mark:]
            continue
        if not more and mask not in (TRUE, UNDEFINED):
            causes.update(context.causes, (DOUBTED,))
        if mask & TRUE and rest:
            found = bindings(by, rest, context, inner, causes, asked=asked)
            for each, counts, further in found:
                yield each, (mask & ~TRUE) | counts, more or further
        elif mask & TRUE:
            yield inner, mask, more
        if mask & UNDEFINED and (rest or not mask & TRUE):
            reason = context.last_undefined if mask == UNDEFINED else MAYBE
            yield Undefined(reason), mask, more


# ---------------------------------------------------------------- what is at hand


def _at_hand(
    by: Evaluator, name: str | None, body: Node, wanted: int, context: EvalContext, env: Env
) -> tuple[Partial, EntitySet | None]:
    """The elements that an index or columns decide, and those to be looked at; None: all.

    `name` is an aggregate's; to a quantifier an element matters whose outcome is `wanted`.
    """
    asked = _asked_of(body, name)
    if asked is None:
        return NOTHING, None
    loop, element = asked
    source = loop.source
    is_whole = isinstance(source, Entities) and source.root in ("before", "after")
    among = None if name is None and not is_whole else crowd_of(source, context, env)
    if among is None or are_few(among):
        return NOTHING, None
    plan = plan_of(loop, element, wanted, name)
    fields = plan.fields if is_whole else None
    if (name is not None or fields is not None) and not (fields is not None and plan.is_closed):
        found = indexed(by, plan, name, context, env, among)
        if found is not None:
            return found
    if fields is None or not isinstance(source, Entities):
        return NOTHING, None
    view, side, entity = context.view(source.root), source.root, source.entity
    read = context.fields_of(entity)
    columns = view.columns(entity, read) if isinstance(view, ColumnarView) else None
    if columns is None:
        return NOTHING, among
    apart = context.apart()
    screen = Screen(plan, columns, read, lambda node: by.evaluate(node, apart, env))
    known, rows = NOTHING, screen.deciding
    if name is not None:
        summary = screen.summary(name)
        if summary is None:
            return NOTHING, among
        known, rows = summary[0], partial(iter, summary[1])
    return known, replace(
        among, entity_refs=lambda: (EntityRef(side, entity, key, row) for key, row in rows())
    )


def _asked_of(body: Node, name: str | None) -> tuple[Loop, Node | None] | None:
    """The one loop of a comprehension, or of a type that is counted, and what is asked of it."""
    if isinstance(body, Comprehension):
        return (body.loops[0], body.element) if len(body.loops) == 1 else None
    if name != "count" or not isinstance(body, Entities):
        return None
    if Loop not in body.worked_out:
        body.worked_out[Loop] = Loop("", body, ()), None
    found: tuple[Loop, Node | None] = body.worked_out[Loop]
    return found
