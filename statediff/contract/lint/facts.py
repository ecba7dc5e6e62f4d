"""What a pattern's conditions say of single values, and whether two such facts can both be so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from statediff.contract.binding.bound import Pattern
from statediff.contract.language.syntax import (
    Call,
    Canonical,
    Compare,
    Const,
    EntityT,
    FieldOf,
    InputOf,
    Items,
    Node,
    Not,
    ScalarT,
    Variable,
    walk,
)
from statediff.contract.language.written import UNSAID, conjuncts, written
from statediff.model.values import Value, same

_MIRROR: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: Final = {"==": "!=", "!=": "==", "in": "not in", "not in": "in"}


@dataclass(frozen=True)
class Fact:
    """`subject op value`, the value known from the contract; for `in` there are several values."""

    subject: Node
    name: str
    op: str
    values: tuple[Value, ...]
    text: str


def conditions(pattern: Pattern, type_name: str) -> tuple[Node, ...]:
    """Everything a pattern asks of one entity, as conditions that must all hold."""
    found = list(conjuncts(pattern.where.get(type_name)))
    for pairs, variable in ((pattern.froms, "it"), (pattern.sets, "new")):
        for name, node in pairs.get(type_name, ()):
            entity = Variable(EntityT(type_name), 0, variable)
            held = FieldOf(ScalarT(None), 0, entity, type_name, name, True)
            found.append(Compare(node.type, 0, "==", held, node, ""))
    that = pattern.that.get(type_name)
    if that is not None:
        names = {n.name for n in _variables(that)}
        if names & {"it", "new"} and "them" not in names:
            found += conjuncts(that)
    return tuple(found)


def _variables(node: Node) -> Iterable[Variable]:
    return (part for part in walk(node) if isinstance(part, Variable))


def facts(pattern: Pattern, type_name: str) -> tuple[Fact, ...]:
    """Those conditions of a pattern that compare something with a value known beforehand."""
    found: list[Fact] = []
    for node in conditions(pattern, type_name):
        fact = _fact(node)
        if fact is not None:
            found.append(fact)
    return tuple(found)


def _fact(node: Node) -> Fact | None:
    flip = isinstance(node, Not)
    if isinstance(node, Not):
        node = node.child
    if isinstance(node, Call) and node.name == "starts_with" and not flip:
        text, prefix = node.arguments
        beginnings = _values(prefix)
        if beginnings is None or not isinstance(beginnings[0], str):
            return None
        return Fact(text, written(text), "starts_with", beginnings, written(node))
    if not isinstance(node, Compare) or (flip and node.op not in _NEGATED):
        return None
    op = _NEGATED[node.op] if flip else node.op
    left, right = node.left, node.right
    if op not in ("in", "not in") and (_is_list(left) or _is_list(right)):
        return None  # its values are the parts of one list, not alternatives
    if (values := _values(right)) is not None and _values(left) is None:
        subject = left
    elif op in _MIRROR and (values := _values(left)) is not None and _values(right) is None:
        subject, op = right, _MIRROR[op]
    else:
        return None
    name = written(subject)
    return None if UNSAID in name else Fact(subject, name, op, values, written(node))


def _is_list(node: Node) -> bool:
    match node:
        case Canonical(child=child):
            return _is_list(child)
        case Const(value=value) | InputOf(value=value):
            return isinstance(value, tuple)
        case _:
            return isinstance(node, Items)


def _values(node: Node) -> tuple[Value, ...] | None:
    match node:
        case Canonical(child=child):
            return _values(child)
        case Const(value=value) | InputOf(value=value):
            return value if isinstance(value, tuple) else (value,)
        case Items(items=items):
            each = [_values(item) for item in items]
            return None if None in each else tuple(v for values in each for v in values or ())
        case _:
            return None


def clash(a: Fact, b: Fact) -> bool:
    """Whether the two cannot both be so. False where it cannot be told."""
    if a.name != b.name:
        return False
    for known, other in ((a, b), (b, a)):
        if known.op in ("==", "in") and not any(_fits(value, other) for value in known.values):
            return True
    if a.op == b.op == "starts_with":
        one, two = str(a.values[0]), str(b.values[0])
        return not one.startswith(two) and not two.startswith(one)
    return _apart(a, b) or _apart(b, a)


def _fits(value: Value, fact: Fact) -> bool:
    if fact.op in ("==", "in"):
        return any(_equal(value, other) for other in fact.values)
    if fact.op in ("!=", "not in"):
        return not any(_equal(value, other) for other in fact.values)
    bound = fact.values[0]
    if fact.op == "starts_with":
        return isinstance(value, str) and value.startswith(str(bound))
    if not (_is_number(value) and _is_number(bound)):
        return True
    return _ordered(value, fact.op, bound)


def _apart(low: Fact, high: Fact) -> bool:
    """`x < 3` and `x > 5`."""
    if low.op not in ("<", "<=") or high.op not in (">", ">="):
        return False
    least, most = high.values[0], low.values[0]
    if not (_is_number(least) and _is_number(most)):
        return False
    a: Any = least
    b: Any = most
    return bool(a > b or (a == b and not (low.op == "<=" and high.op == ">=")))


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def _ordered(value: Any, op: str, bound: Any) -> bool:
    return bool(
        {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[op]
    )


def _equal(a: Value, b: Value) -> bool:
    if _is_number(a) and _is_number(b):
        return bool(a == b)
    return same(a, b)
