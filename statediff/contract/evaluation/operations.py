"""Operations on evaluated results: no recursion, no names, only what three values make of them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import chain

from statediff.contract.evaluation.columnar import NOTHING, Partial
from statediff.contract.evaluation.ranges import not_enumerated
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
from statediff.model.explanation import Cause, Reason, cause
from statediff.model.paths import at, is_ambiguous
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
    context.undefined.append(Reason.NO_CONDITION())
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
    return Unknown(frozenset({not_enumerated(entity, side, enumeration)}), False, True)


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
            return Undefined(Reason.ABSENT_ENTITY(entity_type=node.entity_type, field=node.field))
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
    for step in node.part:
        if is_ambiguous(observed, step):
            return Undefined(Reason.NO_PART(field=node.field, part=str(step)))
        if isinstance(observed, Map | tuple):
            observed = at(observed, (step,))
        elif not isinstance(observed, Unobserved):
            return Undefined(Reason.NO_PART(field=node.field, part=str(step)))
    if isinstance(observed, Unobserved):
        of_type = node.entity_type.removeprefix("@")
        why = Reason.FIELD(
            entity_type=of_type, field=node.field, side=holder.side, cause=cause(observed.cause)
        )
        if isinstance(observed, Digested) and not node.part:
            return Unknown(frozenset({why}), False, True, observed)
        return Unknown(frozenset({why}), node.is_nullable, _may_lack_parts(node))
    if isinstance(observed, Excluded):
        why = Reason.EXCLUDED(entity_type=node.entity_type, field=node.field, rule=observed.rule)
        return Unknown(frozenset({why}))
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
            return Undefined(Reason.NO_NUMBER())
    unknown = [s for s in (left, right) if isinstance(s, Unknown)]
    if op == "/" and not isinstance(right, Unknown) and exact(right) == 0:
        return Undefined(Reason.DIVISION_BY_ZERO())
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
        return abs(exact(value)) if finite(value) else Undefined(Reason.NO_ABSOLUTE())
    if isinstance(value, (str, tuple)):
        return len(value)
    return Undefined(Reason.NO_LENGTH())


def aggregate(
    name: str,
    values: list[Result],
    causes: set[Cause],
    reason: Cause,
    beside: Partial = NOTHING,
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
        return Undefined(Reason.OVER_NOTHING(function=name))
    if name == "sum":
        if not all(finite(v) for v in values):
            return Undefined(Reason.SUM_OF_OTHERS())
        return sum((exact(v) for v in values), Fraction(beside.total))
    if beside.count and not values:
        return beside.least if name == "min" else beside.greatest
    if not values:
        return Undefined(Reason.OF_NOTHING(function=name))
    wanted = -1 if name == "min" else 1
    best = values[0]
    for value in values[1:]:
        sign = order(value, best)
        if sign is None:
            return Undefined(Reason.NO_COMMON_ORDER(function=name))
        if sign == wanted:
            best = value
    return best
