"""Which entities a pattern matches: the deltas of an entity against `where`, `set` and `from`.

Also what a pattern says of a change that may or may not exist (a doubt): every kind of change it
could turn out to be is tried, with whatever is known of the entity on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.evaluate import evaluate, outcomes
from statediff.contract.evaluation.relations import relate, settle
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EntitySet,
    Env,
    EvalContext,
    Result,
    Seen,
    TooCostly,
    Undefined,
    Unknown,
)
from statediff.contract.language.syntax import FieldIs, Node, Read
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.explanation import Cause, Explanation, Reason, cause
from statediff.model.paths import FieldPath, at, is_ambiguous
from statediff.model.schema import Schema
from statediff.model.trace import NoAnswer
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Excluded,
    Key,
    Observed,
    Unobserved,
    key_order,
)
from statediff.model.verdict import Stage
from statediff.model.view import View
from statediff.policy.attribution.changes import NOBODY, Attribution
from statediff.policy.unaffected import Reuse

TOO_COSTLY: Final = Reason.TOO_COSTLY()


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
    it: EntityRef
    new: EntityRef | None
    seen: tuple[Seen, ...]
    causes: frozenset[Cause]
    undefined: tuple[Cause, ...] = ()

    @property
    def holds(self) -> bool:
        return self.mask == TRUE

    @property
    def fails(self) -> bool:
        return self.mask == FALSE

    @property
    def why(self) -> frozenset[Cause]:
        """Why it is not decided; never empty."""
        return self.causes or frozenset(self.undefined or {Reason.SOME_CONDITION()})


def changes(deltas: Iterable[Delta]) -> tuple[Change, ...]:
    """The deltas grouped by entity and operation, in delta order."""
    # Keys are distinguished by `key_order`: to Python the keys 1, 1.0 and True are one.
    groups: dict[Any, list[Delta]] = {}
    for delta in deltas:
        groups.setdefault((delta.type, key_order(delta.key), delta.op), []).append(delta)
    return tuple(Change(g[0].type, g[0].key, g[0].op, tuple(g)) for g in groups.values())


def selected(pattern: Pattern, change: Change) -> tuple[Delta, ...]:
    """The deltas of the change on the paths the pattern selects."""
    if change.op is not Op.UPDATE or pattern.fields is None:
        return change.deltas
    return tuple(delta for delta in change.deltas if selects(pattern, delta))


def selects(pattern: Pattern, delta: Delta) -> bool:
    """Whether the pattern selects all that the update changed; to forbid it, some of it is enough.

    An object that is replaced as a whole changes what a clause forbids inside it.
    """
    before = ABSENT if isinstance(delta.before, Entity) else delta.before
    after = ABSENT if isinstance(delta.after, Entity) else delta.after
    if pattern.section is Stage.FORBID:
        return pattern.touches(delta.path, delta.steps, before, after)
    return pattern.selects(delta.path, delta.steps, before, after)


_FieldsOf: TypeAlias = Callable[[str], tuple[str, ...]]


def _fields_read(reads: frozenset[Read], schema: Schema) -> _FieldsOf:
    """The fields of each type that a clause with these reads looks at, its key among them."""
    fields: dict[str, set[str]] = {}
    for read in reads:
        if read.field and read.root in ("before", "after"):
            fields.setdefault(read.type, set()).add(read.field)

    def fields_of(type_name: str) -> tuple[str, ...]:
        entity_type = schema.by_name[type_name]
        wanted = fields.get(type_name, set()) | set(entity_type.key)
        return tuple(f.name for f in entity_type.fields if f.name in wanted)

    return fields_of


class _WhenAsked(Mapping[tuple[str, str], EntitySet]):
    """The entities of the changes, looked up when a clause first ranges over them."""

    def __init__(self, make: Callable[[], Mapping[tuple[str, str], EntitySet]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[tuple[str, str], EntitySet]:
        return self._make()

    def __getitem__(self, place: tuple[str, str]) -> EntitySet:
        return self._made[place]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


_CROWD_OF: Final = {
    Op.CREATE: "created",
    Op.UPDATE: "updated",
    Op.DELETE: "deleted",
    Op.LINK: "linked",
    Op.UNLINK: "unlinked",
}
_ALSO: Final = {Op.LINK: "created", Op.UNLINK: "deleted"}
GONE: Final = (Op.DELETE, Op.UNLINK)
COME: Final = (Op.CREATE, Op.LINK)


@dataclass
class _Asked:
    """What was found of single changes; each is kept, so that no other one gets its place."""

    matches: dict[tuple[int, int], tuple[Pattern, Change, Match | None]] = field(
        default_factory=dict
    )
    sides: dict[int, tuple[Change, tuple[EntityRef, EntityRef | None]]] = field(
        default_factory=dict
    )


class JudgingContext:
    """What every clause of one judgement reads: both views, the changes, the doubts, the answer."""

    def __init__(
        self,
        before: View,
        after: View,
        deltas: tuple[Delta, ...],
        doubts: tuple[Doubt, ...],
        answer: Mapping[str, Observed] | NoAnswer,
        attribution: Attribution = NOBODY,
        reuse: Reuse | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self.changes = changes(deltas)
        self.reuse = reuse
        """Given where reads are noted for no clause: then what one asked serves the others."""
        self.doubts = doubts
        self.answer = answer
        self.attribution = attribution
        self.moments: Mapping[str, View] = {}
        """The states in between, by the name of their side."""
        self.names = ("before", "after")
        """The sides of which the changes are the difference."""
        self._fields: dict[frozenset[Read], _FieldsOf] = {} if reuse is None else reuse.fields
        self.asked = _Asked()
        self.entity_sets: Mapping[tuple[str, str], EntitySet]
        if reuse is None:
            self.entity_sets = self._make_entity_sets()
        else:
            self.entity_sets = _WhenAsked(self._make_entity_sets)
        self._walks: dict[Any, Any] = {}

    def between(
        self, names: tuple[str, str], deltas: tuple[Delta, ...], doubts: tuple[Doubt, ...]
    ) -> JudgingContext:
        """The same run with other changes: those between two of its states, by their sides.

        `it` and `new` are the versions there; every other root is what it is at the ends.
        """
        other = self._apart()
        other.changes, other.doubts, other.names = changes(deltas), doubts, names
        return other

    def _apart(self) -> JudgingContext:
        """The same, with nothing asked yet."""
        other = copy(self)
        other.asked = _Asked()
        return other

    def as_of(self, side: str) -> JudgingContext:
        """The run as if it had ended at one of its moments; what it had changed is not known."""
        other = self._apart()
        other.after, other.reuse = self.moments[side], None
        cause = frozenset[Cause]({Reason.CHANGES_BY_THEN(side=side)})
        other.entity_sets = {
            (root, name): EntitySet((), name, "after", cause)
            for root in _CROWD_OF.values()
            for name in self.after.schema.by_name
        }
        return other

    def eval_context(self, reads: frozenset[Read]) -> EvalContext:
        """A fresh world for one clause."""
        fields_of = self._fields.get(reads)
        if fields_of is None:
            fields_of = self._fields[reads] = _fields_read(reads, self.after.schema)
        return EvalContext(
            self.before,
            self.after,
            self.answer,
            self.entity_sets,
            fields_of,
            moments=self.moments,
            walks=self._walks,
            memory=None if self.reuse is None else self.reuse.memory,
        )

    def entity_ref(self, side: str, type_name: str, key: Key) -> EntityRef:
        """The entity on that side; its row is unknown where none can be read."""
        side = self.names[side == "after"]
        view = self.moments.get(side) or (self.before if side == "before" else self.after)
        row = view.row(type_name, key)
        return EntityRef(side, type_name, key, row, "" if row is not None else Reason.ROW_UNKNOWN())

    def _make_entity_sets(self) -> dict[tuple[str, str], EntitySet]:
        members: dict[tuple[str, str], list[EntityRef]] = {}
        for change in self.changes:
            it, new = self.sides(change)
            for root in {_CROWD_OF[change.op], _ALSO.get(change.op, _CROWD_OF[change.op])}:
                members.setdefault((root, change.type), []).append(it if new is None else new)
        causes: dict[tuple[str, str], set[Cause]] = {}
        for doubt in self.doubts:
            for root in _CROWD_OF.values():
                if doubt.path and root != "updated":
                    continue
                causes.setdefault((root, doubt.type), set()).add(doubt_cause(doubt))
        return {
            (root, name): EntitySet(
                tuple(members.get((root, name), ())),
                name,
                "before" if root in ("deleted", "unlinked") else "after",
                frozenset(causes.get((root, name), ())),
            )
            for root, name in members.keys() | causes.keys()
        }

    # ------------------------------------------------------------ changes that exist

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
        if self.reuse is None:
            return self._match(pattern, change)
        known, place = self.asked.matches, (id(pattern), id(change))
        if place not in known:
            known[place] = pattern, change, self._match(pattern, change)
        return known[place][2]

    def _match(self, pattern: Pattern, change: Change) -> Match | None:
        if not selected(pattern, change):
            return None
        it, new = self.sides(change)
        eval_context = self.eval_context(pattern.reads)
        mask = self._met(pattern, change.type, it, new, eval_context, change)
        return Match(
            change,
            mask,
            it,
            new,
            tuple(eval_context.seen),
            frozenset(eval_context.causes),
            tuple(eval_context.undefined),
        )

    def sides(self, change: Change) -> tuple[EntityRef, EntityRef | None]:
        """`it` and `new`: the version a clause judges, and the version after, if there is one."""
        if self.reuse is None:
            return self._look_up(change)
        known = self.asked.sides
        if id(change) not in known:
            known[id(change)] = change, self._look_up(change)
        return known[id(change)][1]

    def _look_up(self, change: Change) -> tuple[EntityRef, EntityRef | None]:
        if change.op in COME:
            it = self.entity_ref("after", change.type, change.key)
            return it, it
        it = self.entity_ref("before", change.type, change.key)
        if change.op in GONE and it.row is None:
            # What came and was softly deleted in one run: its row after says what it was.
            there = self.entity_ref("after", change.type, change.key)
            it = it if there.row is None else there
        if change.op in GONE:
            return it, None
        new = self.entity_ref("after", change.type, change.key)
        # The row of what was deleted before the run is purged: there is no version after.
        is_purged = new.row is None and all(delta.after is ABSENT for delta in change.deltas)
        return it, None if is_purged else new

    def _met(
        self,
        pattern: Pattern,
        name: str,
        it: EntityRef | Unknown,
        new: EntityRef | Unknown | None,
        eval_context: EvalContext,
        change: Change | None = None,
    ) -> int:
        env: Env = {"it": it, "new": ABSENT if new is None else new}
        try:
            where = pattern.where[name]
            mask = TRUE if where is None else outcomes(where, eval_context, env)
            # What was created has no old values.
            old = None if it is new else it
            given = (("from", old, pattern.froms[name]), ("set", new, pattern.sets[name]))
            for key, held, pairs in given:
                for path, node in pairs:
                    if mask & TRUE:
                        place = FieldIs(node.type, node.offset, key, path)
                        mask = both(mask, _field_is(held, place, node, eval_context, env))
        except TooCostly:
            eval_context.causes.add(TOO_COSTLY)
            return TRUE | FALSE | UNDEFINED
        if pattern.relation is not None:
            mask = both(mask, _relation(pattern.relation, it, new, eval_context))
        if pattern.by is not None and mask & TRUE:
            mask = both(mask, self._made_by(pattern, pattern.by, change, eval_context))
        return mask

    def _made_by(
        self, pattern: Pattern, by: str, change: Change | None, eval_context: EvalContext
    ) -> int:
        """Whether the principal made some change that the pattern selects; never guessed.

        `change` None: one that nobody saw.
        """
        if change is None:
            return TRUE | FALSE
        found = [self.attribution.by(delta, by) for delta in selected(pattern, change)]
        if any(mask == TRUE for mask, _ in found):
            return TRUE
        eval_context.causes |= {cause for _, cause in found if cause}
        return TRUE | FALSE if any(mask & TRUE for mask, _ in found) else FALSE

    # ------------------------------------------------------------ changes that may exist

    def possible(self, pattern: Pattern, doubt: Doubt) -> int:
        """The outcomes of the pattern on the doubted change.

        FALSE alone: no completion holds a change it matches. TRUE alone: it would match any change
        that the doubt can turn out to be.
        """
        if doubt.type not in pattern.types:
            return FALSE
        if doubt.path and pattern.fields is not None and doubt.path not in pattern.fields:
            return FALSE
        mask = 0
        for it, new in self._ways(doubt, pattern.operations):
            mask |= self._met(pattern, doubt.type, it, new, self.eval_context(pattern.reads))
        if not mask:
            return FALSE
        if doubt.path:
            covers = pattern.selects(doubt.path, ())  # what changed in it is not known
        else:
            covers = pattern.fields is None and pattern.operations == frozenset(Op)
        return mask if covers else mask | FALSE

    def possible_effect(
        self, rule: BoundEffect, decide: Callable[[EvalContext, Result, Result], int], doubt: Doubt
    ) -> int:
        """The outcomes of an authorization on the doubted change; TRUE if it needs none."""
        if doubt.type != rule.type:
            return TRUE
        mask = 0
        for it, new in self._ways(doubt, rule.operations):
            mask |= decide(self.eval_context(rule.reads), it, new)
        return mask or TRUE

    def _ways(
        self, doubt: Doubt, operations: frozenset[Op]
    ) -> Iterator[tuple[EntityRef | Unknown, EntityRef | Unknown | None]]:
        """(`it`, `new`) of every kind of change the doubted one can be, within `operations`.

        A field that was not observed can only be updated; what came, went or is not known at all
        can turn out to be anything.
        """
        wanted = operations & {Op.UPDATE} if doubt.path else operations
        before, after = self._doubted("before", doubt), self._doubted("after", doubt)
        if wanted & set(COME):
            yield after, after
        if wanted & set(GONE):
            yield before, None
        if Op.UPDATE in wanted:
            yield before, after

    def _doubted(self, side: str, doubt: Doubt) -> EntityRef | Unknown:
        cause = doubt_cause(doubt)
        if doubt.key is None:
            return Unknown(frozenset({cause}), maybe_null=False)
        entity_ref = self.entity_ref(side, doubt.type, doubt.key)
        if entity_ref.row is not None:
            return entity_ref
        return EntityRef(entity_ref.side, doubt.type, doubt.key, None, cause)


def doubt_cause(doubt: Doubt) -> Explanation:
    """What a doubt waits for."""
    return Reason.IN(place=doubt.where, cause=cause(doubt.cause))


def both(a: int, b: int) -> int:
    """`a and b`, left to right."""
    mask = a & ~TRUE
    return mask | b if a & TRUE else mask


def _field_is(
    entity_ref: EntityRef | Unknown | None,
    field_is: FieldIs,
    node: Node,
    eval_context: EvalContext,
    env: Env,
) -> int:
    if entity_ref is None:
        return FALSE
    wanted = evaluate(node, eval_context, env)
    found = place_of(entity_ref, field_is.place)
    mask = relate("==", found, wanted, eval_context)
    if mask == FALSE:
        eval_context.seen.append(Seen(field_is, found, wanted, mask, ()))
    return mask


def place_of(entity_ref: EntityRef | Unknown, path: FieldPath) -> Result:
    """What is known of a place inside a field, as the expressions see it."""
    held = field_of(entity_ref, path.field)
    if path.steps and isinstance(held, Unknown):
        return Unknown(held.causes)  # the digest of the whole says nothing of a part
    if not path.steps or isinstance(held, Undefined | Absent):
        return held
    value: Observed = settle(held)
    for step in path.place:
        if is_ambiguous(value, step):
            return Undefined(Reason.NO_PART(field=path.field, part=str(step)))
        value = at(value, (step,))
    return value


def field_of(entity_ref: EntityRef | Unknown, path: str) -> Result:
    """What is known of a field, as the expressions see it."""
    if isinstance(entity_ref, Unknown):
        return Unknown(entity_ref.causes)
    if entity_ref.row is None:
        return Unknown(frozenset({entity_ref.cause}))
    held = entity_ref.row.get(path, ABSENT)
    if isinstance(held, (Unobserved, Excluded)):
        text = held.cause if isinstance(held, Unobserved) else held.rule
        digest = held if isinstance(held, Digested) else None
        why = Reason.FIELD(
            entity_type=entity_ref.type, field=path, side=entity_ref.side, cause=cause(text)
        )
        return Unknown(frozenset({why}), digest is None, digest=digest)
    return held


def _relation(
    relation: str,
    it: EntityRef | Unknown,
    new: EntityRef | Unknown | None,
    eval_context: EvalContext,
) -> int:
    """Whether a changed reference links (has a target), unlinks (had one, and has none) or relinks.

    Relinked is what had a target and has one: that it is another one, the change itself says.
    """
    kind, _, path = relation.partition(":")
    sides = ((new, True),) if kind == "link" else ((it, True), (new, kind == "relink"))
    mask = TRUE
    for entity_ref, has_target in sides:
        held = None if entity_ref is None else field_of(entity_ref, path)
        if isinstance(held, Unknown):
            eval_context.causes |= held.causes
            mask = both(mask, TRUE | FALSE)
        elif (held is not None and not isinstance(held, Absent)) is not has_target:
            return FALSE
    return mask
