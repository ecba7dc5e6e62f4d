"""Rows the system itself adds or removes with a matched entity (docs/design.md §4, `cascade`).

A row goes with an entity that it refers to: with a created one rows that came, with a deleted one
rows that went, with an updated one both. More of them than `max` for one entity, and none of that
entity's rows is explained: the system would not have gone that far.

A counter that the system keeps is explained without a clause: a source says which `db.sequence`
entity counts the inserts of which type (`EntityType.counter`), and it must be exactly the greater
of what it was and the highest key that the run created. What it moved beyond that, or back, nothing
explains: a key that was given and taken back shows in a history, and else nowhere. The creations
themselves are changes like any other. A forbid clause over `db.sequence` forbids the counter all
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.relations import comparison_key
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, Result, Unknown
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.explanation import Cause, cause
from statediff.model.schema import COUNT, COUNTERS, EntityType, Schema
from statediff.model.values import ABSENT, Key
from statediff.policy.findings import doubt_causes, relevant
from statediff.policy.matching import COME, GONE, Change, JudgingContext, Match, both, field_of


@dataclass(frozen=True)
class KnownMask:
    """An outcome and, where it is open, what it waits for."""

    mask: int
    causes: frozenset[Cause] = frozenset()


@dataclass(frozen=True)
class Row:
    """A row that came or went, and whether it goes with a matched entity."""

    change: Change
    mask: int
    causes: frozenset[Cause] = frozenset()


def cascaded(pattern: Pattern, context: JudgingContext, matches: Iterable[Match]) -> Iterator[Row]:
    """Every row that may go with a matched entity, once for each of them.

    An entity that may have changed without anybody's having seen it may be a matched one, too.
    """
    if not pattern.cascade:
        return
    heads = [
        _Head(m.change.type, m.change.key, frozenset({m.change.op}), _decided(m), m.why)
        for m in matches
    ]
    heads += [
        _Head(d.type, d.key, pattern.operations, TRUE | FALSE, frozenset(doubt_causes([d])))
        for d in relevant(pattern, context, TRUE)
    ]
    for name, most in pattern.cascade:
        rows = _Rows(context, context.after.schema.by_name[name])
        for head in heads:
            yield from _with(head, rows, most)


@dataclass(frozen=True)
class _Head:
    """An entity that is matched, or may be. `key` None: any entity of the type."""

    type: str
    key: Key | None
    ops: frozenset[Op]
    mask: int
    why: frozenset[Cause]


def _decided(match: Match) -> int:
    """Whether it is matched; an undefined condition matches nothing here."""
    return match.mask & ~UNDEFINED | (FALSE if match.mask & UNDEFINED else 0)


class _Rows:
    """The rows of one type that came or went, found by what they refer to."""

    def __init__(self, context: JudgingContext, spec: EntityType) -> None:
        self._references = {f.name: f.reference for f in spec.fields if f.reference is not None}
        self.doubts = [d for d in context.doubts if d.type == spec.name and not d.path]
        self._moved = [c for c in context.changes if c.type == spec.name and c.op is not Op.UPDATE]
        self._cells: dict[int, dict[str, Result]] = {}
        self._by_value: dict[tuple[str, object], list[Change]] = {}
        self._open: list[Change] = []
        for change in self._moved:
            entity_ref = context.sides(change)[0]
            cells = {name: field_of(entity_ref, name) for name in self._references}
            self._cells[id(change)] = cells
            if any(isinstance(cell, Unknown) for cell in cells.values()):
                self._open.append(change)
                continue
            for place in {(self._references[n], comparison_key(c)) for n, c in cells.items()}:
                self._by_value.setdefault(place, []).append(change)

    def of(self, head: _Head) -> Iterator[Row]:
        """The rows that refer to the entity, or may."""
        wanted = frozenset[Op]().union(*(_GOES_WITH.get(op, _EITHER) for op in head.ops))
        if head.key is None:
            found: Iterable[Change] = self._moved
        elif len(head.key) == 1:
            value = comparison_key(head.key[0])
            found = (*self._by_value.get((head.type, value), ()), *self._open)
        else:
            return
        for change in found:
            if change.op in wanted:
                row = self._refers(change, head)
                if row.mask != FALSE:
                    yield row

    def _refers(self, change: Change, head: _Head) -> Row:
        mask, causes = FALSE, frozenset[Cause]()
        for name, cell in self._cells[id(change)].items():
            if self._references[name] != head.type:
                continue
            if isinstance(cell, Unknown):
                mask, causes = mask | TRUE, causes | cell.causes
            elif head.key is None:
                mask |= TRUE
            elif comparison_key(cell) == comparison_key(head.key[0]):
                return Row(change, TRUE)
        return Row(change, mask, causes)


_EITHER = frozenset({*COME, *GONE})
_GOES_WITH = {
    Op.CREATE: frozenset(COME),
    Op.LINK: frozenset(COME),
    Op.DELETE: frozenset(GONE),
    Op.UNLINK: frozenset(GONE),
}


def _with(head: _Head, rows: _Rows, most: int) -> Iterator[Row]:
    found = list(rows.of(head))
    if head.key is not None and sum(row.mask == TRUE for row in found) > most:
        return
    is_open = len(found) + len(rows.doubts) > most or any(d.key is None for d in rows.doubts)
    waits = frozenset(doubt_causes(rows.doubts)).union(*(row.causes for row in found))
    for row in found:
        mask, causes = both(head.mask, row.mask), row.causes
        if head.mask != TRUE:
            causes |= head.why
        if is_open:
            mask, causes = mask | FALSE, causes | waits
        yield Row(row.change, mask, causes)


# ---------------------------------------------------------------- counters


def explained_counters(
    context: JudgingContext, created: Iterable[Delta] = ()
) -> Iterator[tuple[Delta, KnownMask]]:
    """Each change of a counter that the keys of created entities explain, or may.

    `created` are deltas beside the context's own: those outside Ω, and of transactions.
    """
    moved = [d for change in context.changes for d in change.deltas if d.type == COUNTERS]
    if not moved:
        return
    counted = _counted(context.after.schema)
    known = [*(d for change in context.changes for d in change.deltas), *created]
    for delta in moved:
        name = counted.get(delta.key)
        ends = _ends(delta)
        if name is None or ends is None:
            continue
        keys = [d.key for d in known if d.type == name and d.op in COME]
        doubts = [d for d in context.doubts if d.type == name and d.path is None]
        possible = (keys, *([*keys, key] for key in _unseen(doubts, ends)))
        if any(_is_exact(ends, each) for each in possible):
            waiting = frozenset(cause(doubt.cause) for doubt in doubts)
            yield delta, KnownMask(TRUE | FALSE if waiting else TRUE, waiting)


def _counted(schema: Schema) -> dict[tuple[object, ...], str]:
    return {(t.counter,): t.name for t in schema.types if t.counter is not None}


def _ends(delta: Delta) -> tuple[int, int] | None:
    """What the counter was and is; None where it is no whole number, or is gone."""
    before: object = 0
    after: object = ABSENT
    if delta.op is Op.UPDATE and delta.path == COUNT and not delta.steps:
        before, after = delta.before, delta.after
    elif delta.op is Op.CREATE and isinstance(delta.after, Entity):
        after = dict(delta.after.fields).get(COUNT, ABSENT)
    if type(before) is not int or type(after) is not int:
        return None
    return before, after


def _is_exact(ends: tuple[int, int], keys: Iterable[Key]) -> bool:
    """Whether the counter is what it was, raised to the highest key that came."""
    before, after = ends
    listed = [key[0] for key in keys if len(key) == 1]
    numbers = [key for key in listed if type(key) is int]
    return bool(numbers) and len(numbers) == len(listed) and after == max(before, *numbers)


def _unseen(doubts: Iterable[Doubt], ends: tuple[int, int]) -> Iterator[Key]:
    """The key that the counter stands at, where a row that has it may be there unseen."""
    highest = (ends[1],)
    if any(doubt.key in (None, highest) for doubt in doubts):
        yield highest
