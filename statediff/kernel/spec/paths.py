"""Whether a chain of hops leads from one entity to another, in one state (docs/design.md §3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from statediff.contract.language.syntax import (
    Reaches,
)
from statediff.kernel.spec.values import (
    FALSE,
    OPEN,
    TRUE,
    UNDEFINED,
    NoValue,
    Result,
    Some,
    Thing,
    Truths,
    World,
    is_nothing,
    likeness,
    may,
)
from statediff.model.batches import Row
from statediff.model.values import ABSENT, Excluded, Key, Unobserved

_ANY: Final = object()
"""Every entity of a type, seen or not."""
_UNSEEN: Final = object()
"""Every entity of a type of which no row is known."""


def _end(row: Row, key: Key, name: str) -> Any:
    """The end of a hop in a row: a key, _ANY where it was not observed, None where it is none."""
    held = row.get(name, ABSENT) if name else (key[0] if len(key) == 1 else key)
    if isinstance(held, Unobserved | Excluded):
        return _ANY
    return None if is_nothing(held) else likeness(held)


def reaches(node: Reaches, start: Result, goal: Result, world: World) -> Truths:
    """True where some chain of hops leads from one to the other; an entity reaches itself."""
    if any(is_nothing(end) or isinstance(end, NoValue) for end in (start, goal)):
        return UNDEFINED
    ends = [Some(null=False) if isinstance(e, Thing) and not e.key else e for e in (start, goal)]
    some = [end for end in ends if isinstance(end, Some)]
    if some:
        return may(be_undefined=any(end.null or end.undefined for end in some))
    rows = [
        (hop, _end(row, key, hop.source), _end(row, key, hop.target))
        for hop in node.hops
        for key, row in world.table(start.side, hop.entity).rows.values()
    ]
    sure = [row for row in rows if _ANY not in row]
    gaps = [h for h in node.hops if not world.table(start.side, h.entity).is_complete]
    first, last = (start.type, likeness(start)), (goal.type, likeness(goal))
    if last in _closure(first, sure, [], {}):
        return TRUE
    # Of a type whose rows are hops: those of which all is known. Any other may be one unseen.
    known = {
        hop.entity: {one if not hop.source else two for h, one, two in sure if h is hop}
        for hop in node.hops
        if "" in (hop.source, hop.target)
    }
    reached = _closure(first, rows, gaps, known)
    return OPEN if _is_in(reached, last, known) else FALSE


def _is_in(reached: set[Any], place: tuple[str, Any], known: Mapping[str, set[Any]]) -> bool:
    name, key = place
    if key is _ANY:
        return any(type_name == name for type_name, _ in reached)
    is_unseen = (name, _UNSEEN) in reached and key not in known.get(name, ())
    return place in reached or (name, _ANY) in reached or is_unseen


def _closure(
    first: tuple[str, Any], rows: list[Any], gaps: list[Any], known: Mapping[str, set[Any]]
) -> set[Any]:
    """The least set that holds the start and whatever a row, or an unseen one, leads to from it."""
    found = {first}
    while True:
        more = {
            (hop.target_type, target)
            for hop, source, target in rows
            if None not in (source, target) and _is_in(found, (hop.source_type, source), known)
        }
        for hop in gaps:
            here = {key for name, key in found if name == hop.source_type}
            unseen = here if hop.source else here - known[hop.entity]
            more |= {(hop.target_type, _ANY if hop.target else _UNSEEN)} if unseen else set()
        if more <= found:
            return found
        found |= more
