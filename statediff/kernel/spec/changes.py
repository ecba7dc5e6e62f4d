"""The changes of a run, and the patterns that match them (docs/design.md §4).

The relation of changes is given: what differs under ν and Ω, what hides a difference, and who made
it, other stages find. The operations that an entity underwent follow from its two rows; that is of
entities with a key of which everything was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple, TypeAlias

from statediff.contract.clauses.patterns import Pattern
from statediff.kernel.spec.expressions import is_by_run, is_unread, is_written, settled, value
from statediff.kernel.spec.values import (
    FALSE,
    NO_VALUE,
    OPEN,
    TRUE,
    UNDEFINED,
    Crowd,
    Env,
    Result,
    Some,
    Thing,
    Truths,
    World,
    both,
    is_nothing,
    likeness,
    opposite,
    quantify,
    relate,
)
from statediff.model.batches import Row
from statediff.model.codes import FindingCode, Stage, Truth
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.paths import FieldPath, at, is_ambiguous
from statediff.model.schema import EntityType, Schema, marks_deletion
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Excluded,
    Key,
    Unobserved,
    key_order,
    same,
)

Operations: TypeAlias = frozenset[tuple[Op, str]]
"""Each operation and the field that it changed, empty for the whole entity."""

NONE: Operations = frozenset()


def operations(entity: EntityType, old: Row | None, new: Row | None) -> Operations:
    """All that happened to the entity: its row came, went or is another, and its mark moved."""
    came, went = (Op.LINK, Op.UNLINK) if entity.is_association else (Op.CREATE, Op.DELETE)
    if old is None and new is None:
        return NONE
    if old is None:
        return frozenset({(came, "")} | ({(went, "")} if _is_marked(entity, new) else set()))
    if new is None:  # what was deleted already is not deleted again: its mark goes
        mark = entity.deleted_when or ""
        return frozenset({(Op.UPDATE, mark) if _is_marked(entity, old) else (went, "")})
    differing = {
        name for name in entity.by_name if not same(old.get(name, ABSENT), new.get(name, ABSENT))
    }
    if any(_has(old, name) and _has(new, name) for name in differing & entity.immutable):
        return operations(entity, old, None) | operations(entity, None, new)
    is_marked = _is_marked(entity, old), _is_marked(entity, new)
    if is_marked[0] is is_marked[1]:
        return frozenset((Op.UPDATE, name) for name in differing)
    edits = {(Op.UPDATE, name) for name in differing if name != entity.deleted_when}
    return frozenset(edits | {(went if is_marked[1] else came, "")})


def _is_marked(entity: EntityType, row: Row | None) -> bool:
    mark = entity.deleted_when
    return mark is not None and row is not None and marks_deletion(row.get(mark, ABSENT))


def _has(row: Row, name: str) -> bool:
    return not isinstance(row.get(name, ABSENT), Absent)


COME: Final = frozenset({Op.CREATE, Op.LINK})
GONE: Final = frozenset({Op.DELETE, Op.UNLINK})


class Decided(NamedTuple):
    """The truth of a clause, and the code of its finding where it fails."""

    truth: Truth
    code: FindingCode | None = None


HOLDS: Final = Decided(Truth.HOLDS)
UNKNOWN: Final = Decided(Truth.UNKNOWN)


def fails(code: FindingCode) -> Decided:
    """The decision of a violated clause."""
    return Decided(Truth.FAILS, code)


# ---------------------------------------------------------------- changes


@dataclass(frozen=True)
class Change:
    """All deltas of one entity with one operation."""

    type: str
    key: Key
    op: Op
    deltas: tuple[Delta, ...]
    is_of_target: bool = False
    """The deltas are of what a reference of the entity names."""


Maker: TypeAlias = Callable[[Delta, str], Truths]
"""(delta, principal) → whether the principal made the change."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two states of a run and their difference. `everything` has what ν hides, for Γ and Λ."""

    world: World
    schema: Schema
    changes: tuple[Change, ...]
    everything: tuple[Change, ...]
    doubts: tuple[Doubt, ...]
    made_by: Maker
    ends: tuple[str, str] = ("before", "after")
    """The sides of which the changes are the difference."""

    def thing(self, end: int, type_name: str, key: Key) -> Thing:
        """The entity at one end."""
        side = self.ends[end]
        found = self.world.table(side, type_name).rows.get(key_order(key))
        return Thing(side, type_name, key, None if found is None else found[1])

    def sides(self, change: Change) -> tuple[Thing, Thing | None]:
        """`it`, the new version of what came and the old one of all else; `new`, if there is one.

        An agent must not qualify itself by the change it makes (docs/design.md §4).
        """
        old, new = (self.thing(end, change.type, change.key) for end in (0, 1))
        if change.op in COME:
            return new, new
        if change.op in GONE:  # what came and was softly deleted in one run has only a row after
            return (new if old.row is None and new.row is not None else old), None
        is_purged = new.row is None and all(d.after is ABSENT for d in change.deltas)
        return old, None if is_purged else new


def changes_of(deltas: Iterable[Delta]) -> tuple[Change, ...]:
    """The deltas by entity and operation, in their order."""
    groups: dict[Any, list[Delta]] = {}
    for delta in deltas:
        groups.setdefault((delta.type, key_order(delta.key), delta.op), []).append(delta)
    return tuple(Change(g[0].type, g[0].key, g[0].op, tuple(g)) for g in groups.values())


_ROOTS: Final = {
    Op.CREATE: ("created",),
    Op.UPDATE: ("updated",),
    Op.DELETE: ("deleted",),
    Op.LINK: ("linked", "created"),
    Op.UNLINK: ("unlinked", "deleted"),
}
ROOTS: Final = ("created", "updated", "deleted", "linked", "unlinked")


def crowds_of(case: Case) -> Mapping[tuple[str, str], Crowd]:
    """The changes that `created.TYPE`, `updated.TYPE` … range over; a doubt may be one more."""
    found: dict[tuple[str, str], list[Thing]] = {}
    for change in case.changes:
        it, new = case.sides(change)
        for root in _ROOTS[change.op]:
            found.setdefault((root, change.type), []).append(new or it)
    open_ = {(r, d.type) for d in case.doubts for r in ROOTS if r == "updated" or not d.path}
    return {
        place: Crowd(tuple(found.get(place, ())), place in open_) for place in found.keys() | open_
    }


# ---------------------------------------------------------------- patterns


class Match(NamedTuple):
    """A change that a pattern may match."""

    change: Change
    it: Thing
    new: Thing | None
    mask: Truths


def selects(p: Pattern, delta: Delta) -> bool:
    """The pattern selects all that the update changed; to forbid it, some of it is enough."""
    before, after = (ABSENT if isinstance(s, Entity) else s for s in (delta.before, delta.after))
    asked = p.touches if p.section is Stage.FORBID else p.selects
    return asked(delta.path, delta.steps, before, after)


def _selected_deltas(p: Pattern, change: Change) -> tuple[Delta, ...]:
    is_whole = change.op is not Op.UPDATE or p.fields is None or change.is_of_target
    return change.deltas if is_whole else tuple(d for d in change.deltas if selects(p, d))


def matches(p: Pattern, case: Case, candidates: Iterable[Change]) -> list[Match]:
    """Every change that the pattern may match."""
    every = tuple(candidates)
    own = [
        c for c in every if c.type in p.types and c.op in p.operations and _selected_deltas(p, c)
    ]
    own += _of_targets(p, case, every, {(c.type, key_order(c.key)) for c in own})
    sides = [(c, *case.sides(c)) for c in own]
    found = [Match(c, it, new, _meets(p, c.type, it, new, case, c)) for c, it, new in sides]
    return [match for match in found if match.mask != FALSE]


def _of_targets(
    p: Pattern, case: Case, every: tuple[Change, ...], own: set[Any]
) -> Iterator[Change]:
    """Entities whose reference names what came or went, or may have, for a forbidden relation."""
    if p.forbidden_relation is None:
        return
    kind, name = p.forbidden_relation
    wanted, end = (COME, 1) if kind == "link" else (GONE, 0)
    for type_name in p.types:
        target = case.schema.by_name[type_name].by_name[name].reference
        moved = [c for c in every if c.type == target and c.op in wanted]
        doubts = [d for d in case.doubts if d.type == target and not d.path]
        for order, (key, row) in case.world.table(case.ends[end], type_name).rows.items():
            held = row.get(name, ABSENT)
            if is_nothing(held) or (type_name, order) in own:
                continue
            is_known = not isinstance(held, Unobserved | Excluded)
            named = [
                c
                for c in moved
                if is_known and len(c.key) == 1 and likeness(c.key[0]) == likeness(held)
            ]
            deltas = tuple(d for c in named for d in c.deltas)
            about = [
                d
                for d in doubts
                if d.key is None or not is_known or likeness(d.key[0]) == likeness(held)
            ]
            if named or about or (moved and not is_known):
                yield Change(type_name, key, Op.UPDATE, deltas, is_of_target=True)


def _meets(
    p: Pattern, name: str, it: Result, new: Result | None, case: Case, change: Change | None = None
) -> Truths:
    """The truths of `where`, `from`, `set`, the relation and `by`, left to right."""
    env: Env = {"it": it, "new": ABSENT if new is None else new}
    where = p.where[name]
    by_run = by_run_as(p)
    mask = TRUE if where is None else settled(where, case.world, env, by_run)
    old = None if it is new else it  # what was created has no old values
    for held, pairs in ((old, p.froms[name]), (new, p.sets[name])):
        for path, node in pairs:
            if held is None:
                mask = both(mask, FALSE)
            elif mask & TRUE:
                wanted, found = value(node, case.world, env), _place(held, path)
                equal, is_by = relate("==", found, wanted), False
                if isinstance(held, Thing) and found is NO_VALUE:
                    is_by = is_written(held, path.field, path.place, case.world)
                elif isinstance(held, Thing) and equal not in (TRUE, FALSE):
                    is_by = is_unread(held, path.field, case.world)
                is_by |= wanted is NO_VALUE and is_by_run(node, case.world, env)
                mask = both(mask, by_run if is_by else equal)
    if p.forbidden_relation is not None:
        mask = both(mask, _is_fact(p, name, old, new, case))
        is_doubt = change is not None and change.is_of_target and not change.deltas
        mask = both(mask, OPEN) if is_doubt else mask
    elif p.relation is not None:
        mask = both(mask, _relates(p.relation, it, new))
    if p.by is None or not mask & TRUE:
        return mask
    made = (
        [OPEN] if change is None else [case.made_by(d, p.by) for d in _selected_deltas(p, change)]
    )
    return both(mask, quantify(TRUE, made))


def by_run_as(p: Pattern) -> Truths:
    """The truth that a condition undefined by the run counts as: forbidden, or no match."""
    return TRUE if p.section is Stage.FORBID else FALSE


def cell_of(held: Result, name: str) -> Result:
    """A field of an entity as `set` and `from` see it."""
    if isinstance(held, Some) or held.row is None:
        return Some()
    cell = held.row.get(name, ABSENT)
    if isinstance(cell, Digested):
        return Some(null=False, digest=cell)
    return Some() if isinstance(cell, Unobserved | Excluded) else cell


def _place(held: Result, path: FieldPath) -> Result:
    """The one place that the path names."""
    cell = cell_of(held, path.field)
    if isinstance(cell, Some):
        return Some() if path.steps else cell
    for step in path.place if not isinstance(cell, Absent) else ():
        if is_ambiguous(cell, step):
            return NO_VALUE
        cell = at(cell, (step,))
    return cell


def _is_fact(p: Pattern, name: str, old: Result | None, new: Result | None, case: Case) -> Truths:
    """The entity holds what it did not hold before (`link`), or no longer what it held."""
    kind, field_name = p.forbidden_relation or ("", "")
    is_link = kind == "link"
    mine, other = (
        ABSENT if side is None else cell_of(side, field_name)
        for side in ((new, old) if is_link else (old, new))
    )
    if is_nothing(mine):
        return FALSE
    mask = OPEN if isinstance(mine, Some) else TRUE
    if is_nothing(other):
        return mask
    differs = opposite(relate("==", other, mine))
    if differs == TRUE or isinstance(mine, Some):
        return mask if differs == TRUE else OPEN
    target = case.schema.by_name[name].by_name[field_name].reference or ""
    there = [case.world.look(side, target, (mine,)) for side in case.ends]
    lacking, having = there if is_link else there[::-1]
    came = both(opposite(_is_there(lacking)), _is_there(having))
    came = FALSE if FALSE in (opposite(_is_there(lacking)), _is_there(having)) else came
    return differs & ~FALSE | came if differs & FALSE else differs


def _is_there(found: Result) -> Truths:
    return OPEN if isinstance(found, Some) else FALSE if isinstance(found, Absent) else TRUE


def _relates(relation: str, it: Result, new: Result | None) -> Truths:
    """A changed reference links (has a target) or unlinks (had one, has none)."""
    kind, _, path = relation.partition(":")
    wanted = ((new, True),) if kind == "link" else ((it, True), (new, False))
    mask = TRUE
    for held, has_target in wanted:
        cell = None if held is None else cell_of(held, path)
        is_one = cell is not None and not isinstance(cell, Absent)
        is_met = TRUE if is_one is has_target else FALSE
        mask = both(mask, OPEN if isinstance(cell, Some) else is_met)
    return mask


def ways(
    doubt: Doubt, operations: frozenset[Op], case: Case
) -> Iterator[tuple[Result, Result | None]]:
    """(`it`, `new`) of every kind of change that the doubted one can be."""
    wanted = operations & {Op.UPDATE} if doubt.path else operations
    sides = [
        Some(null=False) if doubt.key is None else case.thing(end, doubt.type, doubt.key)
        for end in (0, 1)
    ]
    yield from [(sides[1], sides[1])] if wanted & COME else []
    yield from [(sides[0], None)] if wanted & GONE else []
    yield from [(sides[0], sides[1])] if Op.UPDATE in wanted else []


def possible(p: Pattern, doubt: Doubt, case: Case) -> Truths:
    """The truths of the pattern on the doubted change; FALSE: nothing that it matches can be."""
    is_of = doubt.type in p.types
    if not is_of or (doubt.path and p.fields is not None and doubt.path not in p.fields):
        return FALSE
    masks = [_meets(p, doubt.type, *way, case) for way in ways(doubt, p.operations, case)]
    covers = p.fields is None and p.operations == frozenset(Op)
    if doubt.path:
        covers = p.selects(doubt.path, ())
    return reduce(or_, masks, 0 if covers and masks else FALSE)


def is_about(doubt: Doubt, type_name: str, order: tuple[Any, ...]) -> bool:
    """The doubt may be about the entity, whose key has that order."""
    return doubt.type == type_name and (doubt.key is None or key_order(doubt.key) == order)


def doubts_about(p: Pattern, case: Case, wanted: Truths = TRUE | UNDEFINED) -> list[Doubt]:
    """The doubts about changes on which the pattern can have one of these truths."""
    return [doubt for doubt in case.doubts if possible(p, doubt, case) & wanted]


def further(p: Pattern, known: Iterable[Match], doubts: Iterable[Doubt]) -> float:
    """At most how many entities more the doubts can add to those matched."""
    matched = {(m.change.type, key_order(m.change.key), m.change.op) for m in known}
    places: dict[object, int] = {}
    for doubt in doubts:
        if doubt.key is None:
            return float("inf")
        # An entity of which nothing is known may have been replaced: a deletion and a creation. One
        # that was softly deleted may have been changed, too.
        number = 2 if not doubt.path and p.operations >= {Op.DELETE, Op.CREATE} else 1
        place = doubt.type, key_order(doubt.key)
        ops = {Op.UPDATE} if doubt.path else set(Op)
        if number > 1 or not any((*place, op) in matched for op in ops):
            places[place] = max(places.get(place, 0), number)
    return sum(places.values())
