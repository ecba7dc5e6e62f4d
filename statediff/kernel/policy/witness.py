"""Witnesses and explanations: what a finding shows, taken from what its evaluation saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

from statediff.contract.evaluation.operations import Reckoned
from statediff.contract.language.calls import TRACE
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    EntityRef,
    Looked,
    Result,
    Seen,
    Undefined,
    Unknown,
    Way,
)
from statediff.contract.language.syntax import Call, Compare, FieldIs, Reaches
from statediff.model.codes import FindingCode, Truth
from statediff.model.delta import Delta, Entity
from statediff.model.explanation import Explanation, Reason, cause, causes, shown, shown_key
from statediff.model.values import (
    Key,
    Observed,
    common_beginning,
    encode,
    is_value,
    key_order,
    show,
)
from statediff.model.verdict import Comparison, Witness, WitnessRow

MAX_ROWS: Final = 12
MAX_COMPARISONS: Final = 8
MAX_TEXT: Final = 400
"""Characters of one value of a call; a longer one is cut here, never in the trace."""

_Place = tuple[str, str, tuple[Any, ...]]
"""Side, type and key of a row, the key as it is ordered: a key that is shown may be cut."""

_UNSHOWN: Final = ("id", "position", "turn")

_CUT_SIDE: Final = 41
"""The same for one side of a change."""
_SHOWN_ITEMS: Final = 6
_SHOWN_CAUSES: Final = 12
_TRUTHS: Final = {TRUE: Truth.HOLDS.value, FALSE: Truth.FAILS.value}


def cause_code(causes: Iterable[Explanation]) -> FindingCode:
    """The code of an UNKNOWN finding: that of the first cause that has one."""
    found = (cause.code for cause in causes)
    return next((code for code in found if code is not None), FindingCode.UNOBSERVED)


def shown_entity(type_name: str, key: Key) -> Explanation:
    """An entity as an argument."""
    return Reason.ENTITY(entity_type=type_name, key=shown_key(key))


def shown_result(result: Result) -> Explanation:
    """The value of an expression, as an argument."""
    match result:
        case Explanation():
            return result
        case Unknown(causes=found):
            return Reason.UNOBSERVED(causes=causes(found)[:_SHOWN_CAUSES])
        case Undefined(reason=reason):
            return Reason.NO_VALUE(reason=cause(reason))
        case Reckoned(least=None, greatest=greatest):
            return Reason.AT_MOST(greatest=shown_result(greatest))
        case Reckoned(least=least, greatest=None):
            return Reason.AT_LEAST(least=shown_result(least))
        case Reckoned(least=least, greatest=greatest):
            return Reason.BETWEEN(least=shown_result(least), greatest=shown_result(greatest))
        case EntityRef(type=name, key=key):
            return shown_entity(name, key)
        case Way():
            return _shown_way(result)
        case Fraction():
            return Reason.FRACTION(number=f"{result.numerator}/{result.denominator}")
        case tuple():
            return Reason.LIST(items=tuple(shown_result(r) for r in result[:_SHOWN_ITEMS]))
        case _:
            pass
    return shown(result)


def _shown_way(way: Way) -> Explanation:
    steps = way.steps or ()
    hops = [
        Reason.HOP(
            relation=hop.entity if hop.source else f"{hop.entity}.{hop.target}",
            key=shown_key(row.key) if hop.source else (),
            entity=shown_entity(hop.target_type, key),
        )
        for hop, row, key in steps
    ]
    goal = shown_entity(way.goal.type, way.goal.key)
    return Reason.WAY(goal=goal, hops=tuple(hops), more=way.length - len(steps))


def compared(seen: Seen) -> Explanation:
    """Both sides with the relation that was found between them."""
    node = seen.node
    if seen.looked is not None and isinstance(node, Call):
        return _quantified(node.name, seen.looked())
    truth = _TRUTHS.get(seen.mask, Truth.UNKNOWN.value)
    left = shown_result(seen.left)
    if isinstance(node, Reaches):
        return Reason.REACHES(start=left, way=shown_result(seen.right), truth=truth)
    if isinstance(node, FieldIs):
        right = shown_result(seen.right)
        return Reason.FIELD_IS(path=str(node.place), left=left, right=right, truth=truth)
    if not isinstance(node, Call):
        right = shown_result(seen.right)
        return Reason.COMPARED(left=left, operator=node.op, right=right, truth=truth)
    match node.name:
        case "exists":
            return Reason.EXISTS(what=left, truth=truth)
        case "unique":
            entities = tuple(shown_result(each) for each in seen.right)
            return Reason.TWICE(value=left, entities=entities)
        case _:
            right = shown_result(seen.right)
            return Reason.TEST(left=left, test=node.name, right=right, truth=truth)


def _quantified(name: str, looked: Looked) -> Explanation:
    """Which entity breaks an `all`; how many an `any` looked at, and the nearest of them."""
    elements = tuple(
        Reason.BROKEN_BY(
            entities=tuple(shown_entity(each.type, each.key) for each in refs),
            because=() if (why := deciding(seen, FALSE)) is None else (why,),
        )
        for refs, seen in looked.elements
    )
    if name == "all":
        return elements[0]
    return Reason.NONE_OF(
        number=looked.number,
        more=looked.is_more,
        entity_type=looked.type,
        nearest=elements,
    )


def _unfolded(seen: Iterable[Seen], depth: int = 3) -> Iterator[Seen]:
    """The comparisons made, each quantifier replaced by what it looked at."""
    for entry in seen:
        if entry.looked is None:
            yield entry
        elif isinstance(entry.node, Call) and entry.node.name == "any" and depth:
            for _, parts in entry.looked().elements:
                yield from _unfolded(parts, depth - 1)


def witness_of(seen: Iterable[Seen], deltas: Iterable[Delta] = ()) -> Witness:
    """The entities and comparisons behind a finding, bounded."""
    rows: dict[_Place, WitnessRow] = {}
    comparisons: list[Comparison] = []
    for entry in _unfolded(seen):
        # What comes later is not shown; to unfold a quantifier is to look at its elements again.
        if len(comparisons) == MAX_COMPARISONS and len(rows) >= MAX_ROWS:
            break
        text, operator = _written(entry)
        comparison = Comparison(text, shown_result(entry.left), shown_result(entry.right), operator)
        if len(comparisons) < MAX_COMPARISONS and comparison not in comparisons:
            comparisons.append(comparison)
        for entity_ref in entry.entity_refs:
            _add(rows, entity_ref)
    for delta in deltas:
        for side, value in (("before", delta.before), ("after", delta.after)):
            name = (side, delta.type, key_order(delta.key))
            if isinstance(value, Entity):
                rows.setdefault(name, WitnessRow(side, delta.type, delta.key, value.fields))
            elif delta.path:
                held = rows.get(name)
                known = held.fields if held else ()
                if delta.place not in dict(known):
                    cells = (*known, (delta.place, value))
                    rows[name] = WitnessRow(side, delta.type, delta.key, cells)
    return Witness(tuple(rows.values())[:MAX_ROWS], tuple(comparisons))


def witness_of_place(sides: Iterable[EntityRef], path: str | None) -> Witness:
    """The entity on each side on which it is; of its fields the one, if one is named."""
    rows = (
        WitnessRow(
            each.side,
            each.type,
            each.key,
            tuple((name, cell) for name, cell in each.row.items() if path in (None, "", name)),
        )
        for each in sides
        if each.row is not None
    )
    return Witness(tuple(rows))


_REACHES: Final = {TRUE: "reaches", FALSE: "does not reach"}


def _written(seen: Seen) -> tuple[str, str]:
    match seen.node:
        case Call(name=name):
            return name, name
        case Compare(text=text, op=op):
            return text, op
        case Reaches(text=text):
            return text, _REACHES.get(seen.mask, "may reach")
        case FieldIs(key=key, place=place):
            return f"{key} {place}", "=="


def call_row(call: EntityRef) -> WitnessRow:
    """A call, or what the user said, as a witness: what the log says of it, long values cut."""
    known = (
        (name, value)
        for name, value in (call.row or {}).items()
        if name not in _UNSHOWN and value is not None and is_value(value)
    )
    fields = tuple((name, _brief(value)) for name, value in known)
    return WitnessRow(call.side, call.type.removeprefix("@"), call.key, fields)


def _brief(value: Observed) -> Observed:
    return show(value, MAX_TEXT) if len(str(encode(value))) > MAX_TEXT else value


def _add(rows: dict[_Place, WitnessRow], entity_ref: EntityRef) -> None:
    if entity_ref.side == TRACE:
        rows.setdefault(
            (entity_ref.side, entity_ref.type, key_order(entity_ref.key)), call_row(entity_ref)
        )
    elif entity_ref.row is not None:
        rows.setdefault(
            (entity_ref.side, entity_ref.type, key_order(entity_ref.key)),
            WitnessRow(
                entity_ref.side, entity_ref.type, entity_ref.key, tuple(entity_ref.row.items())
            ),
        )


def change(delta: Delta) -> Explanation:
    """A delta as an argument: `customer 17 deleted`, `order 9 status "open" → "paid"`."""
    key = shown_key(delta.key)
    if not delta.path:
        return Reason.CHANGE(operation=delta.op.value, entity_type=delta.type, key=key)
    before, after = delta.before, delta.after
    if isinstance(before, Entity) or isinstance(after, Entity):
        raise TypeError("an update has no entity as a side")
    if isinstance(before, str) and isinstance(after, str):
        before, after = _from_first_difference(before, after)
    return Reason.UPDATE(
        entity_type=delta.type,
        key=key,
        path=delta.place,
        before=shown(before, _CUT_SIDE),
        after=shown(after, _CUT_SIDE),
    )


def _from_first_difference(before: str, after: str) -> tuple[str, str]:
    """Two texts without what they begin with alike, where it would fill what is shown of them."""
    begin = common_beginning(before, after) - _CUT_SIDE // 3
    if begin <= 0 or max(len(before), len(after)) < _CUT_SIDE:
        return before, after
    return f"…{before[begin:]}", f"…{after[begin:]}"


def first_change(deltas: tuple[Delta, ...]) -> Explanation:
    """The first delta and how many more there are."""
    return Reason.CHANGES(first=change(deltas[0]), more=len(deltas) - 1)


def deciding(seen: tuple[Seen, ...], mask: int) -> Explanation | None:
    """The last comparison with that outcome; None if there was none."""
    for entry in reversed(seen):
        if entry.mask == mask:
            return compared(entry)
    return None
