"""Operations on evaluated results: no recursion, no names, only what three values make of them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import chain

from statediff.contract.evaluation.columnar import NOTHING, Partial
from statediff.contract.evaluation.relations import exact, finite, order, plain, settle
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EvalContext,
    Result,
    Undefined,
    Unknown,
    either,
    note,
)
from statediff.contract.language.syntax import CALL_TYPE, Entities, FieldOf
from statediff.model.state import Coverage
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Excluded,
    Key,
    Map,
    Observed,
    Unobserved,
)


def as_condition(result: Result, context: EvalContext) -> int:
    """The outcomes of a result that stands as a condition."""
    match result:
        case True:
            return TRUE
        case False:
            return FALSE
        case Unknown():
            note(result, context)
            return either(result.maybe_null or result.maybe_undefined)
        case Undefined(reason):
            context.undefined.append(reason)
            return UNDEFINED
        case _:
            pass
    context.undefined.append("null or absent is used as a condition")
    return UNDEFINED


def member_by_key(left: Result, right: Entities, context: EvalContext) -> int:
    """The outcomes of `left in before.TYPE`."""
    if isinstance(left, Undefined):
        context.undefined.append(left.reason)
        return UNDEFINED
    if isinstance(left, Unknown):
        note(left, context)
        return either(left.maybe_undefined)
    if left is None or isinstance(left, Absent):
        return FALSE
    found = look(right.root, right.entity, (plain(left),), context)
    if isinstance(found, Absent):
        return FALSE
    if isinstance(found, Unknown):
        note(found, context)
        return either(False)
    return TRUE


def look(side: str, entity: str, key: Key, context: EvalContext) -> Result:
    """The entity; ABSENT only where the enumeration is complete."""
    key = tuple(settle(part) for part in key)
    side = context.now if side == "now" else side
    view = context.view(side)
    enumeration = view.enumeration(entity)
    if enumeration.coverage is not Coverage.UNOBSERVED:
        row = view.row(entity, _match_kind(key))
        if row is not None:
            return EntityRef(side, entity, key, row)
        if enumeration.is_complete:
            return ABSENT
    return Unknown(frozenset({f"{entity} {side}: {enumeration.cause}"}), False, True)


def _match_kind(key: Key) -> Key:
    """Integral numbers look up integer keys however they are written."""
    return tuple(
        int(p) if isinstance(p, Decimal) and p.is_finite() and p == p.to_integral_value() else p
        for p in key
    )


def field_value(node: FieldOf, holder: Result) -> Result:
    """The field of what `node.entity` evaluated to."""
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
    if not isinstance(holder, EntityRef):
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
        if isinstance(observed, Digested) and not node.part:
            return Unknown(frozenset({cause}), False, True, observed)
        return Unknown(frozenset({cause}), node.is_nullable, _may_lack_parts(node))
    if isinstance(observed, Excluded):
        return Unknown(frozenset({f"{node.entity_type}.{node.field} is excluded: {observed.rule}"}))
    return observed


def _may_lack_parts(node: FieldOf) -> bool:
    """Whether a value of the field may have no parts, so that the one named would be undefined."""
    has_parts = (node.entity_type, node.field) == (CALL_TYPE, "arguments")
    return len(node.part) > has_parts


def arithmetic(op: str, left: Result, right: Result) -> Result:
    """`left op right`, exact."""
    for side in (left, right):
        if isinstance(side, Undefined):
            return side
    for side in (left, right):
        if not isinstance(side, Unknown) and not finite(side):
            return Undefined("arithmetic on null, absent or something that is not a number")
    unknown = [s for s in (left, right) if isinstance(s, Unknown)]
    if op == "/" and not isinstance(right, Unknown) and exact(right) == 0:
        return Undefined("division by zero")
    if unknown:
        causes = frozenset(chain.from_iterable(u.causes for u in unknown))
        wide = any(u.maybe_null or u.maybe_undefined for u in unknown)
        return Unknown(causes, False, wide or (op == "/" and isinstance(right, Unknown)))
    x, y = exact(left), exact(right)
    return {"+": x + y, "-": x - y, "*": x * y}[op] if op != "/" else x / y


def unary(name: str, value: Result) -> Result:
    """`abs` or `len` of a result."""
    if isinstance(value, Undefined):
        return value
    if isinstance(value, Unknown):
        return Unknown(value.causes, False, value.maybe_null or value.maybe_undefined)
    if name == "abs":
        return abs(exact(value)) if finite(value) else Undefined("abs of null or absent")
    if isinstance(value, (str, tuple)):
        return len(value)
    return Undefined("len of null, absent or a value without length")


def aggregate(
    name: str, values: list[Result], causes: set[str], reason: str, beside: Partial = NOTHING
) -> Result:
    """`sum`, `min`, `max` or `count` of collected elements; `reason` if one is undefined.

    `beside` are further elements, of which columns say enough.
    """
    if reason and not causes:
        return Undefined(reason)
    if causes:
        return Unknown(frozenset(causes), False, name != "count" or bool(reason))
    if name == "count":
        return len(values) + beside.count
    if any(v is None or isinstance(v, Absent) for v in values):
        return Undefined(f"{name} over null or absent")
    if name == "sum":
        if not all(finite(v) for v in values):
            return Undefined("sum over something that is not a number")
        return sum((exact(v) for v in values), Fraction(beside.total))
    if beside.count and not values:
        return beside.least if name == "min" else beside.greatest
    if not values:
        return Undefined(f"{name} of nothing")
    wanted = -1 if name == "min" else 1
    best = values[0]
    for value in values[1:]:
        sign = order(value, best)
        if sign is None:
            return Undefined(f"{name} over values without a common order")
        if sign == wanted:
            best = value
    return best
