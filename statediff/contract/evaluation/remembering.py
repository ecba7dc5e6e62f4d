"""What ranges over a state come to where no run can have changed it, kept between judgements.

An expression is kept that names no variable from outside it and reads the state before alone, or
types of either state that the run did not touch; or it counts each entity by its own fields, and
then those that changed are counted anew. Only what is wholly known is kept, with what was
seen on the way and what it cost, so that a clause that meets it again is none the wiser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from statediff.contract.evaluation.columnar import plan
from statediff.contract.evaluation.gathering import over_some, unmet
from statediff.contract.language.context import (
    FALSE,
    MAX_STEPS,
    TRUE,
    EntityRef,
    EntitySet,
    Env,
    EvalContext,
    Evaluator,
    Kept,
    Memory,
    Result,
    Undefined,
    Unknown,
)
from statediff.contract.language.syntax import (
    AnswerOf,
    Call,
    Comprehension,
    Entities,
    Node,
    Reaches,
    Variable,
    footprint,
    walk,
)


@dataclass(frozen=True)
class _Ground:
    """What a closed expression stands on. `names` are the variables that it binds."""

    names: frozenset[str]
    types: frozenset[str] = field(default_factory=frozenset)
    """The types that must be untouched; none where it reads the state before alone."""


def remembered(
    by: Evaluator,
    work: Callable[[Evaluator, Call, EvalContext, Env], Result],
    node: Call,
    context: EvalContext,
    env: Env,
) -> Result:
    """What `work` makes of the node, taken from an earlier judgement where it must be the same."""
    memory = context.memory
    if memory is None or context.causes or context.undefined:
        return work(by, node, context, env)
    ground = _ground_in(memory, node)
    if ground is None or ground.names & env.keys():
        return work(by, node, context, env)
    place = id(node), context.is_paid
    kept = memory.kept.get(place)
    is_touched = not ground.types.isdisjoint(memory.touched)
    if kept is not None and is_touched:
        kept = _moved(by, node, context, kept)
    if kept is not None and context.steps + kept.steps <= MAX_STEPS:
        context.steps += kept.steps
        context.seen += kept.seen
        if _is_unmet(node, kept.result):
            context.seen.append(unmet(by, node, context, env))
        return kept.result
    mark, steps = len(context.seen), context.steps
    result = work(by, node, context, env)
    seen = tuple(context.seen[mark:])
    if is_touched or isinstance(result, Unknown | Undefined):
        return result
    if _is_unmet(node, result) and len(seen) == 1:
        seen = ()  # what is to be seen of it is looked up in the judgement at hand
    if not (context.causes or context.undefined or any(each.looked for each in seen)):
        memory.kept[place] = Kept(result, seen, context.steps - steps)
    return result


def _is_unmet(node: Call, result: Result) -> bool:
    return node.name == "any" and result == FALSE and isinstance(node.arguments[0], Comprehension)


_LOCAL: Final = ("all", "any", "count", "sum")
"""Functions of a whole type that follow from what they were, and from the changed entities."""


def _moved(by: Evaluator, node: Call, context: EvalContext, kept: Kept) -> Kept | None:
    """What the node comes to over a touched type, from what it was; None where that is not known.

    Each entity counts by its own fields alone, so that those which did not change count as before.
    """
    memory, result = context.memory, kept.result
    of = plan(node.arguments[0], whole_entities=node.name == "count")
    if memory is None or of is None or node.name not in _LOCAL or of.side != "after" or kept.seen:
        return None
    keys = memory.changed.get(of.type)
    if keys is None or (node.name == "all" and result != TRUE):
        return None
    if node.name == "any" and result != FALSE:
        return None
    if not (
        context.before.enumeration(of.type).is_complete
        and context.after.enumeration(of.type).is_complete
    ):
        return None
    quiet = replace(context, seen=[], causes=set(), undefined=[], steps=0)
    numbers = []
    sides = []
    for view in (context.before, context.after):
        rows = ((key, view.row(of.type, key)) for key in keys)
        there = tuple(EntityRef("after", of.type, key, row) for key, row in rows if row is not None)
        sides.append(len(there))
        number = over_some(by, node, quiet, {}, EntitySet(there, of.type, "after"))
        if number is None or quiet.causes or quiet.undefined:
            return None
        numbers.append(number)
    if node.name in ("count", "sum"):
        result = result - numbers[0] + numbers[1]
    return Kept(result, (), kept.steps + sides[1] - sides[0])


def _ground_in(memory: Memory, node: Call) -> _Ground | None:
    known = memory.grounds.get(id(node))
    if known is None:
        known = memory.grounds[id(node)] = node, _ground(node)
    ground: _Ground | None = known[1]
    return ground


def _ground(node: Node) -> _Ground | None:
    """What the expression stands on; None where it hangs on the run or on what is around it."""
    bound: set[str] = set()
    used: set[str] = set()
    roots: set[str] = set()
    for part in walk(node):
        match part:
            case Comprehension(loops=loops):
                bound.update(loop.name for loop in loops)
            case Variable(name=name):
                used.add(name)
            case Entities(root=root):
                roots.add(root)
            case AnswerOf() | Reaches():
                return None
            case _:
                pass
    if used - bound or not roots or not roots <= {"before", "after"}:
        return None
    if roots == {"before"}:
        return _Ground(frozenset(bound))
    return _Ground(frozenset(bound), frozenset(r.type for r in footprint(node) if r.type))
