"""The finding to read first, and in its sentence all the damage: not one leaf of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from statediff.model.codes import FindingCode
from statediff.reports.record import OPERATIONS, delta_name, delta_sides, named_entity

Json = Any
_CODES: Final = frozenset((
    FindingCode.FORBIDDEN_CHANGE, FindingCode.UNAUTHORIZED_EFFECT,
    FindingCode.DUPLICATE_EFFECT, FindingCode.UNEXPLAINED_CHANGE,
))  # fmt: skip
"""Codes of findings that are about changes which nothing allows."""
_DONE: Final = {op: done for op, (_, done) in OPERATIONS.items()} | {"update": "changed"}
_NOTHING: Final = ({"value": ["null"]}, {"value": ["absent"]})
NAMED: Final = 2
"""Entities of one type and operation that are named; of more, there is a number."""
KINDS: Final = 4
"""Kinds of damage that a sentence lists."""


def leading(judgement: Json) -> Json | None:
    """The finding to read first, with a sentence about all that was damaged; None on MATCH.

    Where a change almost fits a required one, the finding of `require` comes before that of the
    frame: the frame reports the same change with less detail.
    """
    findings = judgement["findings"]
    first = _first(findings)
    if first is None or first["truth"] != "FAILS":
        return first
    is_damage = first["code"] in _CODES
    about = frozenset() if is_damage else frozenset(map(_entity, first["witness"]["rows"]))
    changes = [d for d in _damage(judgement) if _entity(d) not in about]
    if not changes or (is_damage and len(changes) == 1):
        return first
    told = damage_sentence(changes)
    return {**first, "sentence": told if is_damage else f"{first['sentence']}; also {told}"}


def _first(findings: Sequence[Json]) -> Json | None:
    fails = [finding for finding in findings if finding["truth"] == "FAILS"]
    if fails:
        near = (f for f in fails if f["stage"] == "require" and f["witness"]["comparisons"])
        return next(near, fails[0]) if fails[0]["stage"] == "frame" else fails[0]
    unknown = [finding for finding in findings if finding["truth"] == "UNKNOWN"]
    # The frame needs everything; a clause that asks for less says more.
    return min(unknown, key=lambda f: bool(f["clause"] == "frame"), default=None)


def _damage(judgement: Json) -> list[Json]:
    """The changes between the two ends that findings say nothing allows, each once."""
    failing = (f for f in judgement["findings"] if f["truth"] == "FAILS" and f["code"] in _CODES)
    names = {name for finding in failing for name in finding["deltas"]}
    return [delta for delta in judgement["deltas"] if delta["id"] in names]


def damage_sentence(changes: Sequence[Json]) -> str:
    """`line 16 deleted, order 8 status "open" → "cancelled" and 2 more fields: 4 changes`."""
    grouped: dict[tuple[str, str], dict[str, list[Json]]] = {}
    for change in changes:
        operation = "update" if change["path"] else change["op"]
        rows = grouped.setdefault((operation, change["type"]), {})
        rows.setdefault(named_entity(change), []).append(change)
    order = list(_DONE)
    kinds = sorted(grouped.items(), key=lambda kind: order.index(kind[0][0]))
    phrases = [phrase for (op, name), rows in kinds for phrase in _phrases(op, name, rows)]
    if (rest := len(phrases) - KINDS) > 0:
        phrases[KINDS:] = [f"and {rest} more kind{'s' * (rest > 1)} of change"]
    return ", ".join(phrases) + (f": {len(changes)} changes" if len(phrases) > 1 else "")


def _phrases(operation: str, type_name: str, rows: dict[str, list[Json]]) -> Iterator[str]:
    if len(rows) > NAMED:
        yield f"{len(rows)} rows of {type_name} {_DONE[operation]}"
    elif operation == "update":
        yield from (_updated(changes) for changes in rows.values())
    else:
        yield f"{' and '.join(rows)} {_DONE[operation]}"


def _updated(changes: Sequence[Json]) -> str:
    """One field of the entity with its values, a value that was replaced rather than a new one."""
    filled = (c for c in changes if c["before"] not in _NOTHING and c["after"] not in _NOTHING)
    change = next(filled, changes[0])
    before, after = delta_sides(change)
    more = len(changes) - 1
    rest = f" and {more} more field{'s' * (more > 1)}" if more else ""
    return f"{delta_name(change)} {before} → {after}{rest}"


def _entity(row: Json) -> str:
    return repr((row["type"], row["key"]))
