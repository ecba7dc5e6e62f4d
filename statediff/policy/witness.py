"""Witnesses and sentences: what a finding shows, taken from what its evaluation saw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from statediff.contract.language.calls import TRACE
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    EntityRef,
    Result,
    Seen,
    Undefined,
    Unknown,
)
from statediff.contract.language.syntax import Call
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Entity, Op
from statediff.model.values import Observed, encode, is_value, show, show_key
from statediff.model.verdict import Comparison, Witness, WitnessRow

MAX_ROWS: Final = 12
MAX_COMPARISONS: Final = 8
MAX_TEXT: Final = 400
"""Characters of one value of a call; a longer one is cut here, never in the trace."""

_UNSHOWN: Final = ("id", "position", "turn")

_FAILED = {"==": "≠", "!=": "=", "<": "≥", "<=": ">", ">": "≤", ">=": "<", "in": "∉", "not in": "∈"}
_HELD = {"==": "=", "!=": "≠", "<": "<", "<=": "≤", ">": ">", ">=": "≥", "in": "∈", "not in": "∉"}
_PAST = {
    Op.CREATE: "created",
    Op.UPDATE: "updated",
    Op.DELETE: "deleted",
    Op.LINK: "linked",
    Op.UNLINK: "unlinked",
}

CAUSE_CODES: Final[Mapping[str, FindingCode]] = {
    "stale": FindingCode.EVIDENCE_STALE,
    "unsettled": FindingCode.EVIDENCE_UNSETTLED,
    "missing": FindingCode.EVIDENCE_MISSING,
    "unread": FindingCode.SOURCE_UNREAD,
    "forgeable": FindingCode.EVIDENCE_FORGEABLE,
    "acknowledgement": FindingCode.EVIDENCE_ACKNOWLEDGEMENT_ONLY,
    "contradiction": FindingCode.EVIDENCE_CONTRADICTORY,
    "ambiguous identity": FindingCode.IDENTITY_AMBIGUOUS,
    "too costly": FindingCode.COST_LIMIT,
    "unrecorded": FindingCode.TRACE_UNOBSERVED,
    "no history": FindingCode.HISTORY_UNOBSERVED,
}
"""First words of a cause → code of the finding it leads to; any other cause is `unobserved`."""

_CAUSE = re.compile(r"(?:^|: )(" + "|".join(map(re.escape, CAUSE_CODES)) + "): ")


def spoken(cause: str) -> str:
    """A cause for a sentence: what stands behind its code, which is told apart."""
    found = _CAUSE.search(cause)
    return cause[found.end() :] if found and found[1] == "unread" else cause


def cause_code(causes: Iterable[str]) -> FindingCode:
    """The code of an UNKNOWN finding: that of the first cause, in sorted order, that has one."""
    for cause in sorted(causes):
        found = _CAUSE.search(cause)
        if found:
            return CAUSE_CODES[found[1]]
    return FindingCode.UNOBSERVED


def render(result: Result) -> str:
    """A result for a sentence; an exact fraction as a decimal where it has one."""
    match result:
        case Unknown(causes=causes):
            return "unobserved (" + "; ".join(sorted(causes))[:80] + ")"
        case Undefined(reason=reason):
            return f"undefined ({reason})"
        case EntityRef(type=name, key=key):
            return f"{name} {show_key(key)}"
        case Fraction():
            return fraction_text(result)
        case tuple():
            return "[" + ", ".join(render(r) for r in result[:6]) + "]"
        case _:
            pass
    return show(result)


def fraction_text(value: Fraction) -> str:
    """The number as a decimal where it has a finite one, else as `p/q`."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if value.denominator == 1:
        return str(value.numerator)
    if rest != 1 or value.denominator > 10**12:
        return f"{value.numerator}/{value.denominator}"
    digits = 0
    scaled = value
    while scaled.denominator != 1:
        scaled *= 10
        digits += 1
    text = str(abs(scaled.numerator)).rjust(digits + 1, "0")
    return f"{'-' if value < 0 else ''}{text[:-digits]}.{text[-digits:]}"


def comparison_text(seen: Seen) -> str:
    """Both sides with the relation that was found between them."""
    node = seen.node
    if isinstance(node, Call):
        if node.name == "exists":
            verb = {TRUE: "exists", FALSE: "does not exist"}.get(seen.mask, "may exist")
            return f"{render(seen.left)} {verb}"
        verb = (
            node.name.replace("_", " ")
            if seen.mask == TRUE
            else ("not " + node.name.replace("_", " "))
        )
        return f"{render(seen.left)} {verb} {render(seen.right)}"
    sign = {TRUE: _HELD, FALSE: _FAILED}.get(seen.mask, {}).get(node.op, f"? {node.op} ?")
    return f"{render(seen.left)} {sign} {render(seen.right)}"


def witness_of(seen: Iterable[Seen], deltas: Iterable[Delta] = ()) -> Witness:
    """The entities and comparisons behind a finding, bounded."""
    rows: dict[tuple[str, str, str], WitnessRow] = {}
    comparisons: list[Comparison] = []
    for entry in seen:
        text = entry.node.text if not isinstance(entry.node, Call) else entry.node.name
        operator = entry.node.op if not isinstance(entry.node, Call) else entry.node.name
        comparison = Comparison(text, render(entry.left), render(entry.right), operator)
        if comparison not in comparisons:
            comparisons.append(comparison)
        for entity_ref in entry.entity_refs:
            _add(rows, entity_ref)
    for delta in deltas:
        for side, value in (("before", delta.before), ("after", delta.after)):
            name = (side, delta.type, show_key(delta.key))
            if isinstance(value, Entity):
                rows.setdefault(name, WitnessRow(side, delta.type, delta.key, value.fields))
            elif delta.path:
                held = rows.get(name)
                known = held.fields if held else ()
                if delta.path not in dict(known):
                    cells = (*known, (delta.path, value))
                    rows[name] = WitnessRow(side, delta.type, delta.key, cells)
    return Witness(tuple(rows.values())[:MAX_ROWS], tuple(comparisons)[:MAX_COMPARISONS])


def call_row(call: EntityRef) -> WitnessRow:
    """A call of the trace as a witness: what the log says of it, long values cut."""
    known = (
        (name, value)
        for name, value in (call.row or {}).items()
        if name not in _UNSHOWN and value is not None and is_value(value)
    )
    fields = tuple((name, _brief(value)) for name, value in known)
    return WitnessRow(call.side, "call", call.key, fields)


def _brief(value: Observed) -> Observed:
    return show(value, MAX_TEXT) if len(str(encode(value))) > MAX_TEXT else value


def _add(rows: dict[tuple[str, str, str], WitnessRow], entity_ref: EntityRef) -> None:
    if entity_ref.side == TRACE:
        rows.setdefault(
            (entity_ref.side, entity_ref.type, show_key(entity_ref.key)), call_row(entity_ref)
        )
    elif entity_ref.row is not None:
        rows.setdefault(
            (entity_ref.side, entity_ref.type, show_key(entity_ref.key)),
            WitnessRow(
                entity_ref.side, entity_ref.type, entity_ref.key, tuple(entity_ref.row.items())
            ),
        )


def delta_text(delta: Delta) -> str:
    """A delta in words: `customer 17 deleted`, `order 9 status "open" → "paid"`."""
    name = f"{delta.type} {show_key(delta.key)}"
    if delta.path:
        return f"{name} {delta.path} {_side(delta.before)} → {_side(delta.after)}"
    return f"{name} {_PAST[delta.op]}"


def _side(value: object) -> str:
    return show(value, 40)  # type: ignore[arg-type]  # an update's sides are observations


def deltas_text(deltas: tuple[Delta, ...]) -> str:
    """The first delta in words and how many more there are."""
    first = delta_text(deltas[0])
    more = len(deltas) - 1
    return first + (f" and {more} more" if more else "")


def deciding(seen: tuple[Seen, ...], mask: int) -> str:
    """The last comparison with that outcome in words; empty if there was none."""
    for entry in reversed(seen):
        if entry.mask == mask:
            return comparison_text(entry)
    return ""
