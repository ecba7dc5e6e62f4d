"""Which entities a pattern matches: the deltas of an entity against `where`, `set` and `from`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from statediff.contract.bound import Pattern
from statediff.contract.evaluation import evaluate, outcomes
from statediff.contract.relations import relate
from statediff.contract.syntax import Node, Read
from statediff.contract.world import (
    FALSE,
    TRUE,
    UNDEFINED,
    Crowd,
    Env,
    Seen,
    Thing,
    TooCostly,
    Unknown,
    World,
)
from statediff.model.delta import Delta, Doubt, Op
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT, Key, Value
from statediff.model.view import View


@dataclass(frozen=True)
class Change:
    """All deltas of one entity with one operation: what a pattern matches or not."""

    type: str
    key: Key
    op: Op
    deltas: tuple[Delta, ...]


@dataclass(frozen=True)
class Match:
    """How a pattern meets a change: the outcomes of its conditions, and what was seen."""

    change: Change
    mask: int
    it: Thing
    new: Thing | None
    seen: tuple[Seen, ...]
    causes: frozenset[str]
    undefined: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.mask == TRUE

    @property
    def fails(self) -> bool:
        return self.mask == FALSE


def changes(deltas: Iterable[Delta]) -> tuple[Change, ...]:
    """The deltas grouped by entity and operation, in delta order."""
    return tuple(
        Change(type_name, key, op, tuple(group))
        for (type_name, key, op), group in groupby(deltas, key=lambda d: (d.type, d.key, d.op)))


_CROWD_OF: Final = {Op.CREATE: "created", Op.UPDATE: "updated", Op.DELETE: "deleted",
                    Op.LINK: "linked", Op.UNLINK: "unlinked"}


class Judge:
    """What every clause of one judgement reads: both views, the changes, the doubts, the answer."""

    def __init__(
        self,
        before: View,
        after: View,
        deltas: tuple[Delta, ...],
        doubts: tuple[Doubt, ...],
        answer: Mapping[str, Value] | NoAnswer,
    ) -> None:
        self.before = before
        self.after = after
        self.changes = changes(deltas)
        self.doubts = doubts
        self.answer = answer
        self._crowds = self._make_crowds()

    def world(self, reads: frozenset[Read]) -> World:
        """A fresh world for one clause."""
        fields: dict[str, set[str]] = {}
        for read in reads:
            if read.field and read.root in ("before", "after"):
                fields.setdefault(read.type, set()).add(read.field)
        schema = self.after.schema.by_name

        def fields_of(type_name: str) -> tuple[str, ...]:
            wanted = fields.get(type_name, set()) | set(schema[type_name].key)
            return tuple(f.name for f in schema[type_name].fields if f.name in wanted)

        return World(self.before, self.after, self.answer, self._crowds, fields_of)

    def thing(self, side: str, type_name: str, key: Key) -> Thing:
        """The entity on that side; its row is unknown where none can be read."""
        view = self.before if side == "before" else self.after
        row = view.row(type_name, key)
        return Thing(side, type_name, key, row, "" if row is not None else "its row is not known")

    def _make_crowds(self) -> dict[tuple[str, str], Crowd]:
        members: dict[tuple[str, str], list[Thing]] = {}
        for change in self.changes:
            roots = {_CROWD_OF[change.op]}
            if change.op is Op.LINK:
                roots.add("created")
            if change.op is Op.UNLINK:
                roots.add("deleted")
            side = "before" if change.op in (Op.DELETE, Op.UNLINK) else "after"
            for root in roots:
                members.setdefault((root, change.type), []).append(
                    self.thing(side, change.type, change.key))
        causes: dict[tuple[str, str], set[str]] = {}
        for doubt in self.doubts:
            for root in _CROWD_OF.values():
                if doubt.path and root != "updated":
                    continue
                causes.setdefault((root, doubt.type), set()).add(f"{doubt.where}: {doubt.cause}")
        return {
            (root, name): Crowd(
                tuple(members.get((root, name), ())), name,
                "before" if root in ("deleted", "unlinked") else "after",
                frozenset(causes.get((root, name), ())))
            for root, name in members.keys() | causes.keys()
        }

    # ------------------------------------------------------------ matching

    def matches(self, pattern: Pattern, candidates: Iterable[Change] | None = None) -> list[Match]:
        """Every change that the pattern may match (never one it certainly does not)."""
        found = []
        for change in self.changes if candidates is None else candidates:
            match = self.match(pattern, change)
            if match is not None and not match.fails:
                found.append(match)
        return found

    def match(self, pattern: Pattern, change: Change) -> Match | None:
        """The outcomes of the pattern on the change; None if its shape already excludes it."""
        if change.type not in pattern.types or change.op not in pattern.operations:
            return None
        if change.op is Op.UPDATE and pattern.fields is not None and not any(
                d.path in pattern.fields for d in change.deltas):
            return None
        old = change.op in (Op.UPDATE, Op.DELETE, Op.UNLINK)
        it = self.thing("before" if old else "after", change.type, change.key)
        new = None if change.op in (Op.DELETE, Op.UNLINK) else (
            self.thing("after", change.type, change.key) if old else it)
        world = self.world(pattern.reads)
        mask = self._conditions(pattern, it, new, world)
        if pattern.relation is not None and new is not None:
            mask = _both(mask, _relation(pattern.relation, it, new))
        if pattern.by is not None and mask & TRUE and any(
                d.action is None for d in change.deltas):
            mask |= FALSE
            world.causes.add("the change is not attributed to anyone")
        return Match(change, mask, it, new, tuple(world.seen), frozenset(world.causes),
                     tuple(world.undefined))

    def _conditions(self, pattern: Pattern, it: Thing, new: Thing | None, world: World) -> int:
        env: Env = {"it": it, "new": ABSENT if new is None else new}
        name = it.type
        try:
            mask = TRUE
            where = pattern.where[name]
            if where is not None:
                mask = outcomes(where, world, env)
            for thing, pairs in ((it, pattern.froms[name]), (new, pattern.sets[name])):
                for path, node in pairs:
                    if not mask & TRUE:
                        return mask
                    mask = _both(mask, _field_is(thing, path, node, world, env))
        except TooCostly:
            world.causes.add("too costly: the clause needs too many steps")
            return TRUE | FALSE
        return mask

    def possible(self, pattern: Pattern, doubt: Doubt) -> int:
        """The outcomes of the pattern on a change that may or may not exist: FALSE if it cannot
        match, TRUE if it would match any such change, else both.
        """
        if doubt.type not in pattern.types:
            return FALSE
        if doubt.path:
            if Op.UPDATE not in pattern.operations:
                return FALSE
            if pattern.fields is not None and doubt.path not in pattern.fields:
                return FALSE
        elif doubt.key is not None and not pattern.operations - {Op.UPDATE}:
            return FALSE
        world = self.world(pattern.reads)
        unknown = Thing("before", doubt.type, doubt.key or (), None, doubt.cause)
        it = unknown
        if doubt.key is not None:
            known = self.thing("before", doubt.type, doubt.key)
            it = known if known.row is not None and doubt.path else unknown
        after = unknown if doubt.key is None or not doubt.path else self.thing(
            "after", doubt.type, doubt.key)
        mask = self._conditions(pattern, it, after, world)
        if doubt.path == "" or doubt.path is None:
            covers = pattern.fields is None and pattern.operations == frozenset(Op)
            return mask if mask == FALSE or (mask == TRUE and covers) else TRUE | FALSE
        return mask


def _both(a: int, b: int) -> int:
    """`a and b`, left to right."""
    mask = a & ~TRUE
    return mask | b if a & TRUE else mask


def _field_is(thing: Thing | None, path: str, node: Node, world: World, env: Env) -> int:
    if thing is None:
        return FALSE
    wanted = evaluate(node, world, env)
    if thing.row is None:
        world.causes.add(thing.cause)
        return TRUE | FALSE
    held = thing.row.get(path, ABSENT)
    from statediff.model.values import Excluded, Unobserved

    if isinstance(held, (Unobserved, Excluded)):
        text = held.cause if isinstance(held, Unobserved) else held.rule
        return relate("==", Unknown(frozenset({f"{thing.type}.{path}: {text}"})), wanted, world)
    return relate("==", held, wanted, world)


def _relation(relation: str, it: Thing, new: Thing) -> int:
    """Whether a re-pointed reference links (has a new target) or unlinks (had an old one)."""
    kind, _, path = relation.partition(":")
    row = new.row if kind == "link" else it.row
    if row is None:
        return TRUE | FALSE
    return FALSE if row.get(path) is None else TRUE


def section_mask(mask: int, undefined_is: int) -> int:
    """The mask with UNDEFINED read as the section says: FALSE in require, unknown elsewhere."""
    if not mask & UNDEFINED:
        return mask
    return (mask & ~UNDEFINED) | undefined_is
