"""Differences of two trials of one case, from their bundles: deltas, turns and calls.

Deltas are the same if operation, entity, path and both canonical values are. Calls are compared in
order, by tool, class and arguments, and the first that differs is reported. Beyond what a log may
lack nothing is claimed: where one ends with a gap, or arguments are unobserved, it is *not known*
whether the agents parted there. It compares the calls as they were recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from statediff.evidence.canonical import write
from statediff.evidence.documents import trace_from
from statediff.evidence.package import Bundle
from statediff.model.trace import Action, Trace
from statediff.model.values import Unobserved, encode
from statediff.reports.formats.turns import first_failed_turn
from statediff.reports.plain import plain, plain_side, side_of
from statediff.reports.record import reading, said, shown
from statediff_lab.reports.blind_case import change

Json = Any
MAX_DELTAS: Final = 20
"""Deltas of one case and one kind that are listed; all are counted."""
MAX_TOLD: Final = 5
"""Of these, how many a line of text each shows."""


@dataclass(frozen=True)
class Parting:
    """The first call at which the two differ; a side is None where that agent had ended."""

    number: int
    """From 1."""
    a: Action | None
    b: Action | None


@dataclass(frozen=True)
class Deltas:
    """Deltas that only one of the two has: how many, and the first as plain JSON and in words."""

    number: int
    documents: tuple[Json, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Differences:
    """Differences of a case's bundles; `new` is in B and not in A, `vanished` in A and not in B."""

    new: Deltas
    vanished: Deltas
    first_failed_turn_a: int | None
    first_failed_turn_b: int | None
    parting: Parting | None
    unknown: str | None
    """Why it is not known whether the agents' calls part, or where."""


def differences(a: Bundle, b: Bundle) -> Differences:
    """Differences of two judged trials of one contract. `BundleError` if one contradicts itself."""
    with reading("the bundles of a case"):
        one, other = (_deltas(bundle) for bundle in (a, b))
        parting, unknown = _parting(*(trace_from(x.document("trace.json")) for x in (a, b)))
        return Differences(
            _summary([delta for key, delta in other.items() if key not in one]),
            _summary([delta for key, delta in one.items() if key not in other]),
            first_failed_turn(a),
            first_failed_turn(b),
            parting,
            unknown,
        )


def _deltas(bundle: Bundle) -> dict[bytes, Json]:
    kept = ("op", "type", "key", "path", "before", "after")
    return {
        write({name: delta[name] for name in kept}): delta
        for delta in bundle.document("judgement.json")["deltas"]
    }


def _summary(deltas: Sequence[Json]) -> Deltas:
    return Deltas(
        len(deltas),
        tuple(_delta(delta) for delta in deltas[:MAX_DELTAS]),
        tuple(change(delta).plain for delta in deltas[:MAX_DELTAS]),
    )


def _parting(a: Trace, b: Trace) -> tuple[Parting | None, str | None]:
    for number, (one, other) in enumerate(zip(a.actions, b.actions, strict=False), start=1):
        if (one.tool, one.action_class) != (other.tool, other.action_class):
            return Parting(number, one, other), None
        for side, action in (("A", one), ("B", other)):
            if isinstance(action.arguments, Unobserved):
                return None, f"arguments of call {number} in {side}: {action.arguments.cause}"
        if encode(one.arguments) != encode(other.arguments):
            return Parting(number, one, other), None
    both = min(len(a.actions), len(b.actions))
    # A log that ends first shows that its agent did only if nothing could be missing from it.
    for side, trace in (("A", a), ("B", b)):
        if len(trace.actions) == both and trace.gap is not None:
            return None, f"the calls of {side} are {trace.gap}"
    rest = [trace.actions[both] if len(trace.actions) > both else None for trace in (a, b)]
    return (None if rest == [None, None] else Parting(both + 1, *rest)), None


def differences_document(found: Differences) -> Json:
    """The differences as plain JSON; of the deltas, the first of each kind."""
    parting = found.parting
    return {
        "deltas": {
            name: {"number": deltas.number, "first": list(deltas.documents)}
            for name, deltas in (("new", found.new), ("vanished", found.vanished))
        },
        "first_failed_turn": {"a": found.first_failed_turn_a, "b": found.first_failed_turn_b},
        "first_divergent_action": None
        if parting is None
        else {
            "call": parting.number,
            "a": _action(parting.a),
            "b": _action(parting.b),
        },
        "action_unknown": found.unknown,
    }


def differences_lines(found: Differences) -> list[str]:
    """The differences for people, a line each; none where nothing is known to differ."""
    told = []
    for word, deltas in (("new", found.new), ("vanished", found.vanished)):
        told += [f"{word} delta: {line}" for line in deltas.lines[:MAX_TOLD]]
        if deltas.number > MAX_TOLD:
            told.append(f"and {deltas.number - MAX_TOLD} more {word} deltas")
    turns = (found.first_failed_turn_a, found.first_failed_turn_b)
    if turns != (None, None):
        one, other = ("none" if turn is None else str(turn) for turn in turns)
        told.append(f"first failed turn: A {one}, B {other}")
    if found.parting is not None or told:
        told += [f"first divergent action: {line}" for line in (parting_line(found),) if line]
    return told


def parting_line(found: Differences) -> str:
    """The first call that differs, or why it is not known; empty where none does."""
    if found.parting is not None:
        one, other = _words(found.parting.a), _words(found.parting.b)
        return f"call {found.parting.number}: A {one}, B {other}"
    return "" if found.unknown is None else f"not known: {said(found.unknown, 200)}"


def _delta(delta: Json) -> Json:
    sides = {name: plain_side(side_of(delta[name])) for name in ("before", "after")}
    return {"id": delta["id"], "op": delta["op"], **sides}


def _action(action: Action | None) -> Json:
    if action is None:
        return None
    return {
        "id": action.id,
        "tool": action.tool,
        "class": action.action_class.value,
        "arguments": plain(action.arguments),
    }


def _words(action: Action | None) -> str:
    if action is None:
        return "had ended"
    return f"{said(action.tool, 60)} {shown(action.arguments, 100)} ({action.action_class.value})"
