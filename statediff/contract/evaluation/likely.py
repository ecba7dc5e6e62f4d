"""Which elements can decide a quantifier that compares a field of each with a value from outside.

`any(a.subject == it.user and … for a in before.approval)` is asked once for each changed row. After
a few times the entities are sorted by the field, and only those are evaluated of which it is equal,
or not known. All others are neutral, leave nothing to be seen, and cost the steps that evaluating
them would have cost; so nobody can tell the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from statediff.contract.evaluation.columnar import is_plain
from statediff.contract.evaluation.ranges import crowd_of
from statediff.contract.evaluation.relations import comparison_key
from statediff.contract.language.context import (
    FALSE,
    MAX_STEPS,
    TRUE,
    EntityRef,
    EntitySet,
    Env,
    EvalContext,
    Evaluator,
)
from statediff.contract.language.syntax import (
    And,
    Call,
    Compare,
    Comprehension,
    Const,
    Entities,
    FieldOf,
    Follow,
    InputOf,
    Lookup,
    Node,
    Variable,
    walk,
)

SORTED_AFTER: Final = 8
"""Times that a quantifier is asked of the same entities before they are sorted."""
MAX_SORTED: Final = 100_000
"""Entities that are kept sorted; more are looked at one by one."""
_KNOWN: Final = (int, str, bool, type(None))


@dataclass(frozen=True)
class _Key:
    """The comparison to sort by, and what is evaluated before it; None there is one step."""

    variable: str
    source: Entities
    first: tuple[Node | None, ...]
    test: Compare
    field: Node
    value: Node


@dataclass
class _Sorted:
    """Entities by what the field is. `open` are those that are to be evaluated in any case."""

    of: Any
    """What they are the entities of, which keeps its place in memory."""
    asked: int = 0
    is_done: bool = False
    members: tuple[EntityRef, ...] | None = None
    by_value: dict[Any, list[int]] | None = None
    open: tuple[int, ...] = ()
    costs: tuple[int, ...] = ()
    """Steps of each before the comparison; of an open one 0."""
    cost: int = 0
    compared: int = 0
    """How many of them come to the comparison."""


@dataclass(frozen=True)
class Likely:
    """The elements that may decide, and the steps that all the others cost."""

    entities: EntitySet
    steps: int


def likely(
    by: Evaluator,
    node: Call,
    context: EvalContext,
    env: Env,
) -> Likely | None:
    """What of its elements the quantifier has to look at; None where at all of them."""
    known = context.walks.get(id(node))
    if known is None:
        known = context.walks[id(node)] = node, _key_of(node)
    key: _Key | None = known[1]
    if key is None:
        return None
    entity_set = crowd_of(key.source, context, env)
    if entity_set is None or entity_set.entity_refs == ():
        return None
    is_whole = key.source.root in ("before", "after")
    of: Any = context.view(entity_set.side) if is_whole else entity_set
    place = id(node), id(of), context.fields_of(key.source.entity)
    found = context.walks.setdefault(place, _Sorted(of))
    found.asked += 1
    if found.asked <= SORTED_AFTER:
        return None
    if not found.is_done:
        _sort(found, key, entity_set, by, context)
    elif is_whole:
        iter(entity_set)  # the view notes that it was read for the clause at hand
    return _pick(found, key, entity_set, by, context, env)


def _key_of(node: Call) -> _Key | None:
    body = node.arguments[0]
    if not isinstance(body, Comprehension) or len(body.loops) != 1:
        return None
    loop = body.loops[0]
    source = loop.source
    if not isinstance(source, Entities) or source.root == "now":
        return None
    first: list[Node | None] = []
    for condition in (*loop.conditions, *((body.element,) if node.name == "any" else ())):
        parts: tuple[Node, ...] = (condition,)
        if isinstance(condition, And):
            first.append(None)
            parts = condition.parts
        for part in parts:
            sides = _sides(part, loop.name)
            if isinstance(part, Compare) and sides is not None:
                return _Key(loop.name, source, tuple(first), part, *sides)
            if not is_plain(part, loop.name):
                return None
            first.append(part)
    return None


def _sides(part: Node, variable: str) -> tuple[Node, Node] | None:
    """(field of the element, value from outside) of an equality; None of anything else."""
    if not isinstance(part, Compare) or part.op != "==":
        return None
    for own, other in ((part.left, part.right), (part.right, part.left)):
        if (
            isinstance(own, FieldOf)
            and is_plain(own, variable)
            and all(isinstance(each, _SIMPLE) for each in walk(other))
            and all(each.name != variable for each in walk(other) if isinstance(each, Variable))
            and not is_plain(other, variable)
        ):
            return own, other
    return None


_SIMPLE: Final = (FieldOf, Follow, Variable, Const, InputOf, Lookup, Entities)


def _sort(
    found: _Sorted,
    key: _Key,
    entity_set: EntitySet,
    by: Evaluator,
    context: EvalContext,
) -> None:
    found.is_done = True
    members: list[EntityRef] = []
    by_value: dict[Any, list[int]] = {}
    open_: list[int] = []
    costs: list[int] = []
    for number, member in enumerate(entity_set):
        if number == MAX_SORTED:
            return
        members.append(member)
        quiet = _quiet(context, is_paid=False)
        mask = _first(key, member, by, quiet)
        held = by.evaluate(key.field, replace(quiet, steps=0), {key.variable: member})
        is_open = mask not in (TRUE, FALSE) or bool(quiet.causes or quiet.undefined)
        if is_open or (mask == TRUE and type(held) not in _KNOWN):
            open_.append(number)
            costs.append(0)
            continue
        costs.append(1 + quiet.steps)
        if mask == TRUE:
            by_value.setdefault(comparison_key(held), []).append(number)
    found.members, found.by_value = tuple(members), by_value
    found.open, found.costs, found.cost = tuple(open_), tuple(costs), sum(costs)
    found.compared = sum(map(len, by_value.values()))


def _first(
    key: _Key,
    member: EntityRef,
    by: Evaluator,
    quiet: EvalContext,
) -> int:
    """What comes before the comparison: TRUE where all of it holds, else what the first is."""
    for part in key.first:
        if part is None:
            quiet.step()
            continue
        mask = by.outcomes(part, quiet, {key.variable: member})
        if mask != TRUE:
            return mask
    return TRUE


def _pick(
    found: _Sorted,
    key: _Key,
    entity_set: EntitySet,
    by: Evaluator,
    context: EvalContext,
    env: Env,
) -> Likely | None:
    """The open entities, and those of which the field is what the value is."""
    members, by_value = found.members, found.by_value
    if members is None or by_value is None:
        return None
    same: list[int] = []
    each = 0
    if by_value:
        quiet = _quiet(context, is_paid=context.is_paid)
        value = by.evaluate(key.value, quiet, env)
        if type(value) not in _KNOWN:
            return None
        own = comparison_key(value)
        same = by_value.get(own, [])
        other = next((places[0] for name, places in by_value.items() if name != own), None)
        if other is not None:
            quiet.steps = 0
            mask = by.outcomes(key.test, quiet, {**env, key.variable: members[other]})
            each = quiet.steps
            if mask != FALSE or quiet.causes or quiet.undefined:
                return None
    steps = each * (found.compared - len(same))
    if not context.is_paid:
        steps += found.cost - sum(found.costs[number] for number in same)
    if context.steps + steps > MAX_STEPS:
        return None
    wanted = sorted((*found.open, *same))
    return Likely(replace(entity_set, entity_refs=tuple(members[n] for n in wanted)), steps)


def _quiet(context: EvalContext, is_paid: bool) -> EvalContext:
    """The context for what nobody is to see."""
    return replace(context, seen=[], causes=set(), undefined=[], steps=0, is_paid=is_paid)
