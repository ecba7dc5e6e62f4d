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

Conditions, values, quantifiers and aggregates are one recursive definition; cutting it in two would
only hide the recursion, which is why this module is longer than most.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import chain

from statediff.contract.relations import (
    apply_test,
    combine,
    comparison_key,
    exact,
    finite,
    is_text,
    negate,
    order,
    plain,
    relate,
    settle,
)
from statediff.contract.syntax import (
    CALL_TYPE,
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    Compare,
    Comprehension,
    Const,
    Entities,
    FieldOf,
    Follow,
    InputOf,
    Items,
    Lookup,
    Loop,
    Node,
    Not,
    Or,
    PartOf,
    ScalarT,
    Variable,
)
from statediff.contract.world import (
    FALSE,
    TRUE,
    UNDEFINED,
    Crowd,
    Env,
    Result,
    Seen,
    Thing,
    Undefined,
    Unknown,
    World,
    note,
)
from statediff.model.state import Coverage
from statediff.model.trace import NoAnswer
from statediff.model.values import (
    ABSENT,
    Absent,
    Excluded,
    Key,
    Map,
    Observed,
    Unobserved,
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
            return _quantify(node, world, env)
        case Call(name="unique"):
            return _unique(node, world, env)
        case Call(name="exists"):
            return _exists(node, world, env)
        case Call(name="matches" | "contains" | "starts_with" | "ends_with" | "within"):
            return _test(node, world, env)
        case _:
            pass
    return _as_condition(evaluate(node, world, env), world)


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


def _as_condition(result: Result, world: World) -> int:
    match result:
        case True:
            return TRUE
        case False:
            return FALSE
        case Unknown():
            note(result, world)
            wide = result.maybe_null or result.maybe_undefined
            return TRUE | FALSE | (UNDEFINED if wide else 0)
        case Undefined(reason):
            world.undefined.append(reason)
            return UNDEFINED
        case _:
            pass
    world.undefined.append("null or absent is used as a condition")
    return UNDEFINED


def _compare(node: Compare, world: World, env: Env) -> int:
    left = evaluate(node.left, world, env)
    right: Result
    if node.op in ("in", "not in") and isinstance(node.right, Entities):
        mask = _member_by_key(left, node.right, world)
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
                stack += [a for a in arguments if not isinstance(a, Comprehension)]
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


def _member_by_key(left: Result, right: Entities, world: World) -> int:
    if isinstance(left, Undefined):
        world.undefined.append(left.reason)
        return UNDEFINED
    if isinstance(left, Unknown):
        note(left, world)
        return TRUE | FALSE | (UNDEFINED if left.maybe_undefined else 0)
    if left is None or isinstance(left, Absent):
        return FALSE
    found = _look(right.root, right.entity, (plain(left),), world)
    if isinstance(found, Absent):
        return FALSE
    if isinstance(found, Unknown):
        note(found, world)
        return TRUE | FALSE
    return TRUE


def _quantify(node: Call, world: World, env: Env) -> int:
    stop, go_on = (FALSE, TRUE) if node.name == "all" else (TRUE, FALSE)
    body = node.arguments[0]
    mark = len(world.seen)
    if not isinstance(body, Comprehension):
        listed = evaluate(body, world, env)
        if not isinstance(listed, tuple):
            return _as_condition(listed, world)
        total = go_on
        for item in listed:
            total = combine(stop, go_on, total, _as_condition(item, world))
        return total
    total = go_on
    kept = False
    for mask, more in _elements(body.loops, world, env, body.element, go_on):
        after = combine(stop, go_on, total, mask)
        if more:
            total |= after | combine(stop, go_on, after, mask)
        else:
            total = after
        decisive = bool(mask & (stop | UNDEFINED))
        if not decisive or (kept and mask == stop):
            del world.seen[mark:]
        if decisive:
            kept = True
            mark = len(world.seen)
    return total


def _elements(
    loops: tuple[Loop, ...], world: World, env: Env, element: Node, neutral: int
) -> Iterator[tuple[int, bool]]:
    """The outcomes of each element, and whether it stands for any number of unknown further ones.

    An element whose condition may be false may be `neutral`; an undefined condition is undefined.
    """
    loop, rest = loops[0], loops[1:]
    for item, more in _range(loop.source, world, env):
        world.step()
        inner = {**env, loop.name: item}
        condition = TRUE
        for test in loop.conditions:
            if not condition & TRUE:
                break
            condition = (condition & ~TRUE) | outcomes(test, world, inner)
        spare = (neutral if condition & FALSE else 0) | (condition & UNDEFINED)
        if not condition & TRUE:
            if condition & UNDEFINED:
                yield spare, more
            continue
        if rest:
            for mask, further in _elements(rest, world, inner, element, neutral):
                yield mask | spare, more or further
            if spare:
                yield spare | neutral, more
        else:
            yield outcomes(element, world, inner) | spare, more


def _range(source: Node, world: World, env: Env) -> Iterator[tuple[Result, bool]]:
    crowd = _crowd(source, world, env)
    if isinstance(crowd, Crowd):
        for thing in crowd:
            yield thing, False
        if crowd.incomplete:
            world.causes.update(crowd.incomplete)
            cause = "; ".join(sorted(crowd.incomplete))
            yield Thing(crowd.side, crowd.type, (), None, cause), True
        return
    listed = evaluate(source, world, env)
    if isinstance(listed, tuple):
        for item in listed:
            yield item, False
    elif isinstance(listed, Unknown):
        note(listed, world)
        yield Unknown(listed.causes, True, True), True
    else:
        reason = listed.reason if isinstance(listed, Undefined) else "ranging over null or absent"
        yield Undefined(reason), False


def _crowd(source: Node, world: World, env: Env) -> Crowd | None:
    match source:
        case Entities(root="before" | "after" | "now" as root, entity=entity):
            side = world.now if root == "now" else root
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
        case Entities(root=root, entity=entity):
            return world.crowds.get((root, entity), Crowd((), entity, "after"))
        case Variable(name=name) if isinstance(env.get(name), Crowd):
            crowd: Crowd = env[name]
            return crowd
    return None


def _unique(node: Call, world: World, env: Env) -> int:
    values, causes, undefined = _collect(node.arguments[0], world, env)
    if undefined:
        world.undefined.append(undefined)
        return UNDEFINED
    known = [comparison_key(v) for v in values if not isinstance(v, Unknown)]
    if len(set(known)) != len(known):
        return FALSE
    if causes:
        world.causes.update(causes)
        return TRUE | FALSE
    return TRUE


def _exists(node: Call, world: World, env: Env) -> int:
    found = evaluate(node.arguments[0], world, env)
    mask = TRUE
    match found:
        case Undefined(reason):
            world.undefined.append(reason)
            mask = UNDEFINED
        case Unknown():
            note(found, world)
            mask = TRUE | FALSE | (UNDEFINED if found.maybe_null else 0)
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
        wide = any(a.maybe_null or a.maybe_undefined for a in unknown)
        mask = TRUE | FALSE | (UNDEFINED if wide else 0)
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
        case Lookup():
            return _lookup(node, world, env)
        case FieldOf():
            return _field(node, world, env)
        case Follow(reference=reference):
            return _follow(reference, world, env)
        case PartOf(whole=whole, name=name):
            return _part(evaluate(whole, world, env), name)
        case Canonical(child=child, apply=apply):
            value = evaluate(child, world, env)
            if isinstance(value, (Unknown, Undefined, Absent, Thing)):
                return value
            return apply(settle(value))
        case Arithmetic():
            return _arithmetic(node, world, env)
        case Items(items=items):
            return tuple(evaluate(item, world, env) for item in items)
        case Call(name="sum" | "min" | "max" | "count"):
            return _aggregate(node, world, env)
        case Call(name="abs" | "len"):
            return _unary(node, world, env)
        case _:
            pass
    mask = outcomes(node, world, env)
    if mask == UNDEFINED:
        return Undefined(world.undefined[-1] if world.undefined else "an undefined condition")
    if mask in (TRUE, FALSE):
        return mask == TRUE
    return Unknown(frozenset(world.causes), False, bool(mask & UNDEFINED))


def _lookup(node: Lookup, world: World, env: Env) -> Result:
    keys: list[Value] = []
    for part in node.keys:
        value = evaluate(part, world, env)
        if isinstance(value, (Unknown, Undefined)):
            return (
                value
                if isinstance(value, Undefined)
                else Unknown(value.causes, True, value.maybe_undefined)
            )
        if value is None or isinstance(value, Absent):
            return ABSENT
        keys.append(settle(plain(value)))
    source = node.collection
    if not isinstance(source, Entities):
        raise TypeError("a lookup reads before.TYPE or after.TYPE")
    return _look(source.root, source.entity, tuple(keys), world)


def _look(side: str, entity: str, key: Key, world: World) -> Result:
    """The entity; ABSENT only where the enumeration is complete."""
    side = world.now if side == "now" else side
    view = world.view(side)
    enumeration = view.enumeration(entity)
    if enumeration.coverage is not Coverage.UNOBSERVED:
        row = view.row(entity, _match_kind(key))
        if row is not None:
            return Thing(side, entity, key, row)
        if enumeration.is_complete:
            return ABSENT
    return Unknown(frozenset({f"{entity} {side}: {enumeration.cause}"}), False, True)


def _match_kind(key: Key) -> Key:
    """Integral numbers look up integer keys however they are written."""
    return tuple(
        int(p) if isinstance(p, Decimal) and p == p.to_integral_value() else p for p in key
    )


def _field(node: FieldOf, world: World, env: Env) -> Result:
    holder = evaluate(node.entity, world, env)
    match holder:
        case Undefined():
            return holder
        case Absent() | None:
            return Undefined(f"{node.entity_type} is absent, so it has no {node.field}")
        case Unknown():
            wide = holder.maybe_undefined or _may_lack_parts(node)
            return Unknown(holder.causes, node.is_nullable, wide)
        case _:
            pass
    if not isinstance(holder, Thing):
        raise TypeError(f"not an entity: {holder!r}")
    if holder.row is None:
        return Unknown(frozenset({holder.cause}), node.is_nullable, _may_lack_parts(node))
    observed: Observed = holder.row.get(node.field, ABSENT)
    for name in node.part:
        if isinstance(observed, Map):
            observed = observed.get(name)
        elif not isinstance(observed, Unobserved):
            return Undefined(f"{node.field} has no part {name}")
    if isinstance(observed, Unobserved):
        where = f"{node.entity_type.removeprefix('@')}.{node.field}"
        cause = f"{where} {holder.side}: {observed.cause}"
        return Unknown(frozenset({cause}), node.is_nullable, _may_lack_parts(node))
    if isinstance(observed, Excluded):
        return Unknown(frozenset({f"{node.entity_type}.{node.field} is excluded: {observed.rule}"}))
    return observed


def _may_lack_parts(node: FieldOf) -> bool:
    """Whether a value of the field may have no parts, so that the one named would be undefined."""
    has_parts = (node.entity_type, node.field) == (CALL_TYPE, "arguments")
    return len(node.part) > has_parts


def _part(whole: Result, name: str) -> Result:
    match whole:
        case Map():
            return whole.get(name)
        case Undefined():
            return whole
        case Unknown():
            return Unknown(whole.causes, True, True)
        case _:
            return Undefined(f"what has no parts has no {name}")


def _follow(reference: FieldOf, world: World, env: Env) -> Result:
    value = evaluate(reference, world, env)
    if isinstance(value, Undefined):
        return value
    if isinstance(value, Unknown):
        return Unknown(value.causes, False, True)
    if value is None or isinstance(value, Absent):
        return ABSENT
    holder = evaluate(reference.entity, world, env)
    if not isinstance(reference.type, ScalarT) or reference.type.reference is None:
        raise TypeError("only a reference can be followed")
    return _look(holder.side, reference.type.reference, (value,), world)


def _arithmetic(node: Arithmetic, world: World, env: Env) -> Result:
    left, right = evaluate(node.left, world, env), evaluate(node.right, world, env)
    for side in (left, right):
        if isinstance(side, Undefined):
            return side
    for side in (left, right):
        if not isinstance(side, Unknown) and not finite(side):
            return Undefined("arithmetic on null, absent or something that is not a number")
    unknown = [s for s in (left, right) if isinstance(s, Unknown)]
    if node.op == "/" and not isinstance(right, Unknown) and exact(right) == 0:
        return Undefined("division by zero")
    if unknown:
        causes = frozenset(chain.from_iterable(u.causes for u in unknown))
        wide = any(u.maybe_null or u.maybe_undefined for u in unknown)
        return Unknown(causes, False, wide or (node.op == "/" and isinstance(right, Unknown)))
    x, y = exact(left), exact(right)
    return {"+": x + y, "-": x - y, "*": x * y}[node.op] if node.op != "/" else x / y


def _unary(node: Call, world: World, env: Env) -> Result:
    value = evaluate(node.arguments[0], world, env)
    if isinstance(value, Undefined):
        return value
    if isinstance(value, Unknown):
        return Unknown(value.causes, False, value.maybe_null or value.maybe_undefined)
    if node.name == "abs":
        return abs(exact(value)) if finite(value) else Undefined("abs of null or absent")
    if isinstance(value, (str, tuple)):
        return len(value)
    return Undefined("len of null, absent or a value without length")


def _collect(body: Node, world: World, env: Env) -> tuple[list[Result], set[str], str]:
    """Every element's value, the causes of what may be missing, and a reason if undefined."""
    if not isinstance(body, Comprehension):
        crowd = _crowd(body, world, env)
        if isinstance(crowd, Crowd):
            world.causes.update(crowd.incomplete)
            return list(crowd), set(crowd.incomplete), ""
        listed = evaluate(body, world, env)
        if isinstance(listed, tuple):
            unknown = [v for v in listed if isinstance(v, Unknown)]
            return list(listed), {c for u in unknown for c in u.causes}, ""
        if isinstance(listed, Unknown):
            return [], set(listed.causes), ""
        return [], set(), listed.reason if isinstance(listed, Undefined) else "null or absent"
    values: list[Result] = []
    causes: set[str] = set()
    reason = ""
    for inner, certain in _bindings(body.loops, world, env, causes):
        if isinstance(inner, Undefined):
            reason = inner.reason
            continue
        value = evaluate(body.element, world, inner)
        if isinstance(value, Undefined) and certain:
            reason = value.reason
        elif isinstance(value, Unknown):
            causes |= value.causes
        if not certain:
            causes.add("whether an element counts is not known")
        values.append(value)
    world.causes.update(causes)
    return values, causes, reason


def _bindings(
    loops: tuple[Loop, ...], world: World, env: Env, causes: set[str]
) -> Iterator[tuple[Env | Undefined, bool]]:
    loop, rest = loops[0], loops[1:]
    for item, more in _range(loop.source, world, env):
        world.step()
        if isinstance(item, Undefined):
            yield item, True
            continue
        if more:
            causes.update([item.cause] if isinstance(item, Thing) else item.causes)
            continue
        inner = {**env, loop.name: item}
        mask = TRUE
        for test in loop.conditions:
            if mask & TRUE:
                mask = (mask & ~TRUE) | outcomes(test, world, inner)
        if mask == UNDEFINED:
            yield Undefined(world.undefined[-1]), True
        elif mask & TRUE:
            if mask != TRUE:
                causes.update(world.causes)
            if rest:
                yield from (
                    (e, c and mask == TRUE) for e, c in _bindings(rest, world, inner, causes)
                )
            else:
                yield inner, mask == TRUE


def _aggregate(node: Call, world: World, env: Env) -> Result:
    values, causes, reason = _collect(node.arguments[0], world, env)
    if reason and not causes:
        return Undefined(reason)
    if causes:
        return Unknown(frozenset(causes), False, node.name != "count" or bool(reason))
    if node.name == "count":
        return len(values)
    if any(v is None or isinstance(v, Absent) for v in values):
        return Undefined(f"{node.name} over null or absent")
    if node.name == "sum":
        if not all(finite(v) for v in values):
            return Undefined("sum over something that is not a number")
        return sum((exact(v) for v in values), Fraction(0))
    if not values:
        return Undefined(f"{node.name} of nothing")
    best = values[0]
    for value in values[1:]:
        sign = order(value, best)
        if sign is None:
            return Undefined(f"{node.name} over values without a common order")
        if sign and (sign < 0) == (node.name == "min"):
            best = value
    return best
