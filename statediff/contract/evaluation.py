"""Three-valued evaluation of typed expressions, sound over every completion of the unobserved.

A condition evaluates to the set of outcomes it can have over all completions of what is
unobserved: a non-empty mask of TRUE, FALSE and UNDEFINED. A single bit is decided; anything else
is unknown. A value is known, `Unknown` (some value of its kind, possibly null or undefined), or
`Undefined` (DESIGN.md §3: ordering or arithmetic on null or absent, navigation from an absent
entity, division by zero, min or max of nothing).

`and`/`or` evaluate left to right, so a guard on the left protects what is on its right. Quantifiers
take all their elements, whatever the order of rows: one undefined element makes the whole
undefined. Sets of outcomes are combined as if independent; where each unobserved value occurs once
in the expression the result is exact, elsewhere it may be wider than necessary, never narrower.
"""

from __future__ import annotations

from statediff.contract.gathering import Evaluator, collected, quantify, unique
from statediff.contract.operations import (
    aggregate,
    arithmetic,
    as_condition,
    field_value,
    look,
    member_by_key,
    unary,
)
from statediff.contract.relations import (
    apply_test,
    finite,
    is_text,
    negate,
    plain,
    relate,
    settle,
)
from statediff.contract.syntax import (
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    Compare,
    Const,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    InputOf,
    Items,
    Lookup,
    Node,
    Not,
    Or,
    PartOf,
    Variable,
)
from statediff.contract.world import (
    FALSE,
    TRUE,
    UNDEFINED,
    Env,
    Result,
    Seen,
    Thing,
    Undefined,
    Unknown,
    World,
    either,
    note,
)
from statediff.model.trace import NoAnswer
from statediff.model.values import (
    ABSENT,
    Absent,
    Key,
    Map,
    Value,
)


def outcomes(node: Node, world: World, env: Env) -> int:
    """The mask of outcomes that the condition can have."""
    world.step()
    match node:
        case And(parts=parts):
            return _junction(parts, world, env, stop=FALSE, go_on=TRUE)
        case Or(parts=parts):
            return _junction(parts, world, env, stop=TRUE, go_on=FALSE)
        case Not(child=child):
            return negate(outcomes(child, world, env))
        case Compare():
            return _compare(node, world, env)
        case Call(name="all" | "any"):
            return quantify(_SELF, node, world, env)
        case Call(name="unique"):
            return unique(_SELF, node, world, env)
        case Call(name="exists"):
            return _exists(node, world, env)
        case Call(name="matches" | "contains" | "starts_with" | "ends_with" | "within"):
            return _test(node, world, env)
        case _:
            pass
    return as_condition(evaluate(node, world, env), world)


def _junction(parts: tuple[Node, ...], world: World, env: Env, stop: int, go_on: int) -> int:
    """Left to right; `stop` decides, `go_on` continues, anything else is kept as possible."""
    mark = len(world.seen)
    possible = 0
    for part in parts:
        here = len(world.seen)
        mask = outcomes(part, world, env)
        if mask == stop and not possible:
            del world.seen[mark:here]
            return stop
        possible |= mask & ~go_on
        if not mask & go_on:
            return possible
    return possible | go_on


def _compare(node: Compare, world: World, env: Env) -> int:
    left = evaluate(node.left, world, env)
    right: Result
    if node.op in ("in", "not in") and isinstance(node.right, Entities):
        mask = member_by_key(left, node.right, world)
        right = f"keys of {node.right.entity}"
    else:
        right = evaluate(node.right, world, env)
        positive = {"!=": "==", "not in": "in"}.get(node.op, node.op)
        mask = relate(positive, left, right, world)
    if node.op in ("!=", "not in"):
        mask = negate(mask)
    world.seen.append(Seen(node, left, right, mask, _things(node, world, env)))
    return mask


def _things(node: Node, world: World, env: Env) -> tuple[Thing, ...]:
    found: dict[tuple[str, str, Key], Thing] = {}
    stack: list[Node] = [node]
    while stack:
        at = stack.pop()
        match at:
            case Compare(left=left, right=right) | Arithmetic(left=left, right=right):
                stack += [right, left]
            case Call(arguments=arguments):
                stack += arguments
            case FieldOf(entity=holder):
                thing = evaluate(holder, world, env)
                if isinstance(thing, Thing) and thing.row is not None:
                    found.setdefault((thing.side, thing.type, thing.key), thing)
                if isinstance(holder, Follow):
                    stack.append(holder.reference)
            case Canonical(child=child):
                stack.append(child)
            case _:
                pass
    return tuple(found.values())


def _exists(node: Call, world: World, env: Env) -> int:
    found = evaluate(node.arguments[0], world, env)
    mask = TRUE
    match found:
        case Undefined(reason):
            world.undefined.append(reason)
            mask = UNDEFINED
        case Unknown():
            note(found, world)
            mask = either(found.maybe_null)
        case Absent():
            mask = FALSE
        case _:
            pass
    world.seen.append(Seen(node, found, True, mask, (found,) if isinstance(found, Thing) else ()))
    return mask


def _test(node: Call, world: World, env: Env) -> int:
    arguments = [evaluate(a, world, env) for a in node.arguments]
    for argument in arguments:
        if isinstance(argument, Undefined):
            world.undefined.append(argument.reason)
            return UNDEFINED
    unknown = [a for a in arguments if isinstance(a, Unknown)]
    known = [a for a in arguments if not isinstance(a, Unknown)]
    wanted = finite if node.name == "within" else is_text
    mask: int
    if any(not wanted(plain(a)) for a in known):
        world.undefined.append(f"{node.name}(…) of null, absent or another kind of value")
        mask = UNDEFINED
    elif unknown:
        for argument in unknown:
            note(argument, world)
        mask = either(any(a.maybe_null or a.maybe_undefined for a in unknown))
    else:
        mask = TRUE if apply_test(node.name, arguments) else FALSE
    left, right = arguments[0], arguments[1]
    world.seen.append(Seen(node, left, right, mask, _things(node, world, env)))
    return mask


def evaluate(node: Node, world: World, env: Env) -> Result:
    """The value of the expression: known, `Unknown` or `Undefined`."""
    world.step()
    match node:
        case Const(value=value) | InputOf(value=value):
            return value
        case AnswerOf(name=name):
            if isinstance(world.answer, NoAnswer):
                return Undefined(f"there is no answer: {world.answer.cause}")
            return world.answer.get(name, ABSENT)
        case Variable(name=name):
            return env[name]
        case Lookup(collection=Entities(root=root, entity=entity), keys=keys):
            return _lookup(root, entity, keys, world, env)
        case FieldOf():
            return field_value(node, evaluate(node.entity, world, env))
        case Follow(reference=reference, type=EntityT(type=entity)):
            return _follow(reference, entity, world, env)
        case PartOf(whole=whole, name=name):
            return _part(evaluate(whole, world, env), name)
        case Canonical(child=child, apply=apply):
            value = evaluate(child, world, env)
            if isinstance(value, (Unknown, Undefined, Absent, Thing)):
                return value
            return apply(settle(value))
        case Arithmetic():
            left, right = evaluate(node.left, world, env), evaluate(node.right, world, env)
            return arithmetic(node.op, left, right)
        case Items(items=items):
            values = tuple(evaluate(item, world, env) for item in items)
            return next((value for value in values if isinstance(value, Undefined)), values)
        case Call(name="sum" | "min" | "max" | "count"):
            return aggregate(node.name, *collected(_SELF, node, world, env))
        case Call(name="abs" | "len"):
            return unary(node.name, evaluate(node.arguments[0], world, env))
        case _:
            pass
    mask = outcomes(node, world, env)
    if mask == UNDEFINED:
        return Undefined(world.undefined[-1] if world.undefined else "an undefined condition")
    if mask in (TRUE, FALSE):
        return mask == TRUE
    return Unknown(frozenset(world.causes), False, bool(mask & UNDEFINED))


def _lookup(root: str, entity: str, parts: tuple[Node, ...], world: World, env: Env) -> Result:
    keys: list[Value] = []
    for part in parts:
        value = evaluate(part, world, env)
        if isinstance(value, Undefined):
            return value
        if isinstance(value, Unknown):
            return Unknown(value.causes, value.maybe_undefined, True)
        if value is None or isinstance(value, Absent):
            return ABSENT
        keys.append(plain(value))
    return look(root, entity, tuple(keys), world)


def _part(whole: Result, name: str) -> Result:
    match whole:
        case Map():
            return whole.get(name)
        case Undefined():
            return whole
        case Unknown():
            return Unknown(whole.causes, maybe_undefined=True)
        case _:
            return Undefined(f"what has no parts has no {name}")


def _follow(reference: FieldOf, entity: str, world: World, env: Env) -> Result:
    value = evaluate(reference, world, env)
    if isinstance(value, Undefined):
        return value
    if isinstance(value, Unknown):
        return Unknown(value.causes, maybe_undefined=True)
    if value is None or isinstance(value, Absent):
        return ABSENT
    holder = evaluate(reference.entity, world, env)
    return look(holder.side, entity, (value,), world)


_SELF = Evaluator(outcomes, evaluate)
