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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

import re2

from statediff.contract.parser import compile_regex
from statediff.contract.syntax import (
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
    Variable,
)
from statediff.model.state import Coverage, Row
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
    same,
)
from statediff.model.view import View

TRUE: Final = 1
FALSE: Final = 2
UNDEFINED: Final = 4
MAX_STEPS: Final = 20_000_000
"""Evaluation steps one clause may take; beyond, the clause is UNKNOWN, never guessed."""


class TooCostly(Exception):
    """The clause needs more steps than one clause may take."""


@dataclass(frozen=True)
class Thing:
    """An entity in hand: where it was read and its row. `row` None means its fields are unknown."""

    side: str
    type: str
    key: Key
    row: Row | None
    cause: str = ""


@dataclass(frozen=True)
class Unknown:
    """Some value that was not observed. `maybe_null`/`maybe_undefined` widen what it may be."""

    causes: frozenset[str]
    maybe_null: bool = True
    maybe_undefined: bool = False


@dataclass(frozen=True)
class Undefined:
    """No value by the rules of the language; `reason` in words."""

    reason: str


Result: TypeAlias = Any
"""A Value, Fraction, ABSENT, Thing, Unknown, Undefined, or a tuple of them for a list."""


@dataclass(frozen=True)
class Crowd:
    """Entities ranged over: those known, and why there may be more."""

    things: tuple[Thing, ...] | Callable[[], Iterator[Thing]]
    type: str
    side: str
    incomplete: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Thing]:
        return iter(self.things) if isinstance(self.things, tuple) else self.things()


@dataclass(frozen=True)
class Seen:
    """One comparison that took part in the outcome, with both sides as evaluated."""

    node: Compare | Call
    left: Result
    right: Result
    mask: int
    things: tuple[Thing, ...]


@dataclass
class World:
    """What one evaluation may read. Mutable parts collect the explanation."""

    before: View
    after: View
    answer: Mapping[str, Value] | NoAnswer
    crowds: Mapping[tuple[str, str], Crowd] = field(default_factory=dict)
    """(created | updated | …, type) → the entities of these deltas."""
    fields_of: Callable[[str], tuple[str, ...]] = lambda _t: ()
    """The fields of a type that the clause at hand reads, for scans."""
    seen: list[Seen] = field(default_factory=list)
    causes: set[str] = field(default_factory=set)
    undefined: list[str] = field(default_factory=list)
    steps: int = 0

    def view(self, side: str) -> View:
        return self.before if side == "before" else self.after

    def step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooCostly


Env: TypeAlias = Mapping[str, Result]


# ---------------------------------------------------------------- conditions


def outcomes(node: Node, world: World, env: Env) -> int:
    """The mask of outcomes that the condition can have."""
    world.step()
    match node:
        case And(parts=parts):
            return _junction(parts, world, env, stop=FALSE, go_on=TRUE)
        case Or(parts=parts):
            return _junction(parts, world, env, stop=TRUE, go_on=FALSE)
        case Not(child=child):
            return _negate(outcomes(child, world, env))
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


def _negate(mask: int) -> int:
    return (mask & UNDEFINED) | (FALSE if mask & TRUE else 0) | (TRUE if mask & FALSE else 0)


def _as_condition(result: Result, world: World) -> int:
    match result:
        case True:
            return TRUE
        case False:
            return FALSE
        case Unknown():
            _note(result, world)
            wide = result.maybe_null or result.maybe_undefined
            return TRUE | FALSE | (UNDEFINED if wide else 0)
        case Undefined(reason):
            world.undefined.append(reason)
            return UNDEFINED
        case _:
            pass
    world.undefined.append("null or absent is used as a condition")
    return UNDEFINED


def _note(result: Unknown, world: World) -> None:
    world.causes.update(result.causes)


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
        mask = _negate(mask)
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
        _note(left, world)
        return TRUE | FALSE | (UNDEFINED if left.maybe_undefined else 0)
    if left is None or isinstance(left, Absent):
        return FALSE
    found = _look(right.root, right.entity, (_plain(left),), world)
    if isinstance(found, Absent):
        return FALSE
    if isinstance(found, Unknown):
        _note(found, world)
        return TRUE | FALSE
    return TRUE


def relate(op: str, left: Result, right: Result, world: World) -> int:
    for side in (left, right):
        if isinstance(side, Undefined):
            world.undefined.append(side.reason)
            return UNDEFINED
    unknown = [s for s in (left, right) if isinstance(s, Unknown)]
    if unknown:
        for side in unknown:
            _note(side, world)
        mask = TRUE | FALSE
        if op not in ("==", "in") and _orders_badly(left, right):
            world.undefined.append("null or absent has no order")
            return UNDEFINED
        widened = any(u.maybe_undefined or (op not in ("==", "in") and u.maybe_null)
                      for u in unknown)
        return mask | (UNDEFINED if widened else 0)
    if op == "in":
        return _member(left, right, world)
    if op == "==":
        return TRUE if equal(left, right) else FALSE
    order = _order(left, right)
    if order is None:
        world.undefined.append("null, absent or values of different kinds have no order")
        return UNDEFINED
    holds = {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[op]
    return TRUE if holds else FALSE


def _orders_badly(left: Result, right: Result) -> bool:
    return any(s is None or isinstance(s, Absent) for s in (left, right))


def _member(left: Result, right: Result, world: World) -> int:
    if not isinstance(right, tuple):
        world.undefined.append("`in` on something that is not a list")
        return UNDEFINED
    mask = FALSE
    for item in right:
        found = relate("==", left, item, world)
        if found == TRUE:
            return TRUE
        mask |= found
    return mask


def equal(a: Result, b: Result) -> bool:
    """Equality of known results: numbers by value, entities by key, everything else exactly."""
    a, b = _plain(a), _plain(b)
    if _is_number(a) and _is_number(b):
        return _exact(a) == _exact(b)
    if isinstance(a, float) or isinstance(b, float):
        return _is_any_number(a) and _is_any_number(b) and bool(a == b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Map) and isinstance(b, Map):
        return [n for n, _ in a.items] == [n for n, _ in b.items] and all(
            equal(x, y) for (_, x), (_, y) in zip(a.items, b.items, strict=True))
    if isinstance(a, Fraction) or isinstance(b, Fraction):
        return False
    return same(a, b)


def _plain(result: Result) -> Result:
    if isinstance(result, Thing):
        return result.key[0] if len(result.key) == 1 else result.key
    return result


def _is_number(value: Result) -> bool:
    return isinstance(value, (int, Decimal, Fraction)) and not isinstance(value, bool) and (
        not isinstance(value, Decimal) or value.is_finite())


def _is_any_number(value: Result) -> bool:
    return _is_number(value) or isinstance(value, float)


def _exact(value: Any) -> Fraction:
    return Fraction(value)


def _order(a: Result, b: Result) -> int | None:
    """-1, 0 or 1; None where the two have no common order."""
    a, b = _plain(a), _plain(b)
    if _is_any_number(a) and _is_any_number(b):
        if any(isinstance(x, float) and (x != x or x in (float("inf"), float("-inf")))
               for x in (a, b)):
            return None if a != a or b != b else (a > b) - (a < b)
        x, y = _exact(a), _exact(b)
        return (x > y) - (x < y)
    if isinstance(a, str) and isinstance(b, str):
        return (a > b) - (a < b)
    if isinstance(a, datetime) and isinstance(b, datetime):
        if (a.tzinfo is None) != (b.tzinfo is None):
            return None
        if a.tzinfo is not None:
            a, b = a.astimezone(UTC), b.astimezone(UTC)
        return (a > b) - (a < b)
    if type(a) is date and type(b) is date:
        return (a > b) - (a < b)
    return None


# ---------------------------------------------------------------- quantifiers


def _combine(stop: int, go_on: int, total: int, element: int) -> int:
    """Outcomes of a quantifier after one more element: undefined > stop > go_on."""
    mask = 0
    for a in (TRUE, FALSE, UNDEFINED):
        for b in (TRUE, FALSE, UNDEFINED):
            if total & a and element & b:
                mask |= UNDEFINED if UNDEFINED in (a, b) else stop if stop in (a, b) else go_on
    return mask


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
            total = _combine(stop, go_on, total, _as_condition(item, world))
        return total
    total = go_on
    kept = False
    for mask, more in _elements(body.loops, world, env, body.element, go_on):
        after = _combine(stop, go_on, total, mask)
        if more:
            total |= after | _combine(stop, go_on, after, mask)
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
        _note(listed, world)
        yield Unknown(listed.causes, True, True), True
    else:
        reason = listed.reason if isinstance(listed, Undefined) else "ranging over null or absent"
        yield Undefined(reason), False


def _crowd(source: Node, world: World, env: Env) -> Crowd | None:
    match source:
        case Entities(root="before" | "after" as side, entity=entity):
            view = world.view(side)
            enumeration = view.enumeration(entity)
            fields = world.fields_of(entity)
            incomplete = frozenset() if enumeration.is_complete else frozenset(
                {f"{entity} {side}: {enumeration.cause}"})
            return Crowd(lambda: (Thing(side, entity, key, row)
                                  for key, row in view.rows(entity, fields)),
                         entity, side, incomplete)
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
    known = [_hashable(v) for v in values if not isinstance(v, Unknown)]
    if len(set(known)) != len(known):
        return FALSE
    if causes:
        world.causes.update(causes)
        return TRUE | FALSE
    return TRUE


def _hashable(value: Result) -> Any:
    value = _plain(value)
    return ("number", _exact(value)) if _is_number(value) else (type(value).__name__, value)


def _exists(node: Call, world: World, env: Env) -> int:
    found = evaluate(node.arguments[0], world, env)
    mask = TRUE
    match found:
        case Undefined(reason):
            world.undefined.append(reason)
            mask = UNDEFINED
        case Unknown():
            _note(found, world)
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
    wanted = _finite if node.name == "within" else _is_text
    mask: int
    if any(not wanted(_plain(a)) for a in known):
        world.undefined.append(f"{node.name}(…) of null, absent or another kind of value")
        mask = UNDEFINED
    elif unknown:
        for argument in unknown:
            _note(argument, world)
        wide = any(a.maybe_null or a.maybe_undefined for a in unknown)
        mask = TRUE | FALSE | (UNDEFINED if wide else 0)
    else:
        mask = TRUE if _apply_test(node.name, arguments) else FALSE
    left, right = arguments[0], arguments[1]
    world.seen.append(Seen(node, left, right, mask, _things(node, world, env)))
    return mask


def _is_text(value: Result) -> bool:
    return isinstance(value, str)


@lru_cache(256)
def _regex(pattern: str) -> re2._Regexp[str]:
    return compile_regex(pattern)


def _apply_test(name: str, arguments: list[Any]) -> bool:
    a, b = arguments[0], arguments[1]
    match name:
        case "contains":
            return b in a
        case "starts_with":
            return bool(a.startswith(b))
        case "ends_with":
            return bool(a.endswith(b))
        case "matches":
            return _regex(b).fullmatch(a) is not None
        case "within":
            return abs(_exact(a) - _exact(b)) <= _exact(arguments[2])
        case _:
            pass
    raise ValueError(f"not a test: {name}")


# ---------------------------------------------------------------- values


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
        case Canonical(child=child, apply=apply):
            value = evaluate(child, world, env)
            if isinstance(value, (Unknown, Undefined, Absent, Thing)):
                return value
            return apply(_settle_fraction(value))
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


def _settle_fraction(value: Result) -> Value:
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else Decimal(value.numerator) / Decimal(
            value.denominator)
    return value  # type: ignore[no-any-return]  # every other result here is a Value


def _lookup(node: Lookup, world: World, env: Env) -> Result:
    keys: list[Value] = []
    for part in node.keys:
        value = evaluate(part, world, env)
        if isinstance(value, (Unknown, Undefined)):
            return value if isinstance(value, Undefined) else Unknown(
                value.causes, True, value.maybe_undefined)
        if value is None or isinstance(value, Absent):
            return ABSENT
        keys.append(_settle_fraction(_plain(value)))
    source = node.collection
    if not isinstance(source, Entities):
        raise TypeError("a lookup reads before.TYPE or after.TYPE")
    return _look(source.root, source.entity, tuple(keys), world)


def _look(side: str, entity: str, key: Key, world: World) -> Result:
    """The entity; ABSENT only where the enumeration is complete."""
    view = world.view(side)
    enumeration = view.enumeration(entity)
    if enumeration.coverage is not Coverage.UNOBSERVED:
        row = view.row(entity, _match_kind(view, entity, key))
        if row is not None:
            return Thing(side, entity, key, row)
        if enumeration.is_complete:
            return ABSENT
    return Unknown(frozenset({f"{entity} {side}: {enumeration.cause}"}), False, True)


def _match_kind(view: View, entity: str, key: Key) -> Key:
    """Integral numbers look up integer keys however they are written."""
    return tuple(int(p) if isinstance(p, Decimal) and p == p.to_integral_value() else p
                 for p in key)


def _field(node: FieldOf, world: World, env: Env) -> Result:
    holder = evaluate(node.entity, world, env)
    match holder:
        case Undefined():
            return holder
        case Absent() | None:
            return Undefined(f"{node.entity_type} is absent, so it has no {node.field}")
        case Unknown():
            return Unknown(holder.causes, node.is_nullable, holder.maybe_undefined)
        case _:
            pass
    if not isinstance(holder, Thing):
        raise TypeError(f"not an entity: {holder!r}")
    if holder.row is None:
        return Unknown(frozenset({holder.cause}), node.is_nullable, False)
    observed: Observed = holder.row.get(node.field, ABSENT)
    for name in node.part:
        if isinstance(observed, Map):
            observed = observed.get(name)
        elif not isinstance(observed, Unobserved):
            return Undefined(f"{node.field} has no part {name}")
    if isinstance(observed, Unobserved):
        where = f"{node.entity_type}.{node.field}"
        return Unknown(frozenset({f"{where} {holder.side}: {observed.cause}"}), node.is_nullable)
    if isinstance(observed, Excluded):
        return Unknown(frozenset({f"{node.entity_type}.{node.field} is excluded: {observed.rule}"}))
    return observed


def _follow(reference: FieldOf, world: World, env: Env) -> Result:
    value = evaluate(reference, world, env)
    if isinstance(value, Undefined):
        return value
    if isinstance(value, Unknown):
        return Unknown(value.causes, False, True)
    if value is None or isinstance(value, Absent):
        return ABSENT
    holder = evaluate(reference.entity, world, env)
    target = reference.type.reference  # type: ignore[union-attr]  # the checker made it a reference
    return _look(holder.side, target, (value,), world)


def _arithmetic(node: Arithmetic, world: World, env: Env) -> Result:
    left, right = evaluate(node.left, world, env), evaluate(node.right, world, env)
    for side in (left, right):
        if isinstance(side, Undefined):
            return side
    for side in (left, right):
        if not isinstance(side, Unknown) and not _finite(side):
            return Undefined("arithmetic on null, absent or something that is not a number")
    unknown = [s for s in (left, right) if isinstance(s, Unknown)]
    if node.op == "/" and not isinstance(right, Unknown) and _exact(right) == 0:
        return Undefined("division by zero")
    if unknown:
        causes = frozenset(chain.from_iterable(u.causes for u in unknown))
        wide = any(u.maybe_null or u.maybe_undefined for u in unknown)
        return Unknown(causes, False, wide or (node.op == "/" and isinstance(right, Unknown)))
    x, y = _exact(left), _exact(right)
    return {"+": x + y, "-": x - y, "*": x * y}[node.op] if node.op != "/" else x / y


def _finite(value: Result) -> bool:
    return _is_number(value) or (isinstance(value, float) and value - value == 0)


def _unary(node: Call, world: World, env: Env) -> Result:
    value = evaluate(node.arguments[0], world, env)
    if isinstance(value, Undefined):
        return value
    if isinstance(value, Unknown):
        return Unknown(value.causes, False, value.maybe_null or value.maybe_undefined)
    if node.name == "abs":
        return abs(_exact(value)) if _finite(value) else Undefined("abs of null or absent")
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
                yield from ((e, c and mask == TRUE)
                            for e, c in _bindings(rest, world, inner, causes))
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
        if not all(_finite(v) for v in values):
            return Undefined("sum over something that is not a number")
        return sum((_exact(v) for v in values), Fraction(0))
    if not values:
        return Undefined(f"{node.name} of nothing")
    best = values[0]
    for value in values[1:]:
        order = _order(value, best)
        if order is None:
            return Undefined(f"{node.name} over values without a common order")
        if (order < 0) == (node.name == "min") and order != 0:
            best = value
    return best
