"""The changes of a run, by entity and operation, and what a clause decides (docs/design.md §4).

The relation of changes is given: what differs under ν and Ω, what hides a difference, and who made
it, other stages find. The operations that an entity underwent follow from its two rows; that is of
entities with a key of which everything was observed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from statediff.contract.clauses.patterns import Pattern
from statediff.kernel.spec import values as v
from statediff.kernel.spec.values import NO_VALUE, UNDEFINED, Some, Thing
from statediff.model import values as m
from statediff.model.batches import Row
from statediff.model.codes import FindingCode, Stage, Truth
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.explanation import PARTED
from statediff.model.paths import FieldPath, at, is_ambiguous
from statediff.model.schema import EntityType, marks_deletion
from statediff.model.values import ABSENT, Key, Unobserved, key_order
from statediff.model.verdict import Verdict

COME: Final = frozenset({Op.CREATE, Op.LINK})
GONE: Final = frozenset({Op.DELETE, Op.UNLINK})


class Decided(NamedTuple):
    """The truth of a clause, and the code of its finding where it fails."""

    truth: Truth
    code: FindingCode | None = None


HOLDS: Final = Decided(Truth.HOLDS)
UNKNOWN: Final = Decided(Truth.UNKNOWN)


def fails(code: str) -> Decided:
    """The decision of a violated clause."""
    return Decided(Truth.FAILS, FindingCode[code])


def fails_by(mask: v.Truths, code: str) -> Decided:
    """The decision where nothing else can be: undefined has a code of its own."""
    return fails("UNDEFINED" if mask == UNDEFINED else code)


def all_of(found: Iterable[Decided]) -> Truth:
    """Violation beats unknown beats what holds."""
    truths = {each.truth for each in found}
    return next((t for t in (Truth.FAILS, Truth.UNKNOWN) if t in truths), Truth.HOLDS)


def verdict(clauses: Iterable[Truth]) -> Verdict:
    """DIVERGE for any violation, else INCONCLUSIVE for any UNKNOWN; no clause is no MATCH."""
    truths = set(clauses)
    if Truth.FAILS in truths:
        return Verdict.DIVERGE
    return Verdict.MATCH if truths == {Truth.HOLDS} else Verdict.INCONCLUSIVE


# ---------------------------------------------------------------- changes


def operations(entity: EntityType, old: Row | None, new: Row | None) -> frozenset[tuple[Op, str]]:
    """All that happened to an entity of which all is known, with the field that it changed.

    Its row came, went or is another, and its mark of deletion moved.
    """

    def is_marked(row: Row | None) -> bool:
        return bool(mark) and row is not None and marks_deletion(row.get(mark, ABSENT))

    came, went = (Op.LINK, Op.UNLINK) if entity.is_association else (Op.CREATE, Op.DELETE)
    mark = entity.deleted_when or ""
    marks = is_marked(old), is_marked(new)
    if old is None or new is None:
        if old is not None:  # what was deleted already is not deleted again: its mark goes
            return frozenset({(Op.UPDATE, mark) if marks[0] else (went, "")})
        return frozenset([(came, "")] * (new is not None) + [(went, "")] * marks[1])
    cells = {name: (old.get(name, ABSENT), new.get(name, ABSENT)) for name in entity.by_name}
    differing = {name for name, pair in cells.items() if not m.same(*pair)}
    if any(ABSENT not in cells[name] for name in differing & entity.immutable):
        return operations(entity, old, None) | operations(entity, None, new)
    if marks[0] is marks[1]:
        return frozenset((Op.UPDATE, name) for name in differing)
    return frozenset(
        {(Op.UPDATE, n) for n in differing - {mark}} | {(went if marks[1] else came, "")}
    )


@dataclass(frozen=True)
class Change:
    """All deltas of one entity with one operation."""

    type: str
    key: Key
    op: Op
    deltas: tuple[Delta, ...]
    is_of_target: bool = False
    """The deltas are of what a reference of the entity names."""

    @property
    def place(self) -> Any:
        """The entity, comparable."""
        return self.type, key_order(self.key)


def changes_of(deltas: Iterable[Delta]) -> tuple[Change, ...]:
    """The deltas by entity and operation, in their order."""
    groups: dict[Any, list[Delta]] = {}
    for delta in deltas:
        groups.setdefault((delta.type, key_order(delta.key), delta.op), []).append(delta)
    return tuple(Change(g[0].type, g[0].key, g[0].op, tuple(g)) for g in groups.values())


class Match(NamedTuple):
    """A change that a pattern may match."""

    change: Change
    it: Thing
    new: Thing | None
    mask: v.Truths


class Vote(NamedTuple):
    """A clause's word on whether it explains a delta."""

    delta: Delta
    mask: v.Truths


def selects(p: Pattern, delta: Delta) -> bool:
    """The pattern selects all that the update changed; to forbid it, some of it is enough."""
    before, after = (ABSENT if isinstance(s, Entity) else s for s in (delta.before, delta.after))
    asked = p.touches if p.section is Stage.FORBID else p.selects
    return asked(delta.path, delta.steps, before, after)


def cell_of(held: v.Result, name: str) -> v.Result:
    """A field of an entity as `set` and `from` see it."""
    if isinstance(held, Some) or held.row is None:
        return Some()
    cell = held.row.get(name, ABSENT)
    if isinstance(cell, m.Digested):
        return Some(null=False, digest=cell)
    return Some() if isinstance(cell, Unobserved | m.Excluded) else cell


def place_in(held: v.Result, path: FieldPath) -> v.Result:
    """The one place that the path names."""
    cell = cell_of(held, path.field)
    if isinstance(cell, Some):
        return Some() if path.steps else cell
    for step in path.place if cell is not ABSENT else ():
        if is_ambiguous(cell, step):
            return NO_VALUE
        cell = at(cell, (step,))
    return cell


def is_parted(doubt: Doubt) -> bool:
    """Readings of the place agreed before the run, and contradict each other after it."""
    return doubt.cause.partition(": ")[0] == PARTED


def is_about(doubt: Doubt, type_name: str, key: Key) -> bool:
    """The doubt may be about the entity."""
    return doubt.type == type_name and (doubt.key is None or key_order(doubt.key) == key_order(key))


def selected(p: Pattern, change: Change) -> tuple[Delta, ...]:
    """The deltas that the pattern selects."""
    is_whole = change.op is not Op.UPDATE or p.fields is None or change.is_of_target
    return change.deltas if is_whole else tuple(d for d in change.deltas if selects(p, d))
