"""Which entities a pattern matches: the deltas of an entity against `where`, `set` and `from`.

Also what a pattern says of a change that may or may not exist (a doubt): every kind of change it
could turn out to be is tried, with whatever is known of the entity on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.by_run import DECIDED, settled
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.evaluation.operations import both
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    EntityRef,
    EntitySet,
    Env,
    EvalContext,
    Seen,
    Trail,
    Unknown,
)
from statediff.contract.language.syntax import Read
from statediff.kernel.policy.attribution import NOBODY, Attribution
from statediff.kernel.policy.findings import WHOLE, Telling, by_run_as
from statediff.kernel.policy.references import forbidden, has_relation
from statediff.kernel.policy.relation import (
    COME,
    GONE,
    Change,
    Changes,
    Group,
    Member,
    Sides,
    Subject,
    changes,
    field_is,
)
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.explanation import Cause, Explanation, Reason, cause
from statediff.model.readings import Timeline
from statediff.model.schema import Schema
from statediff.model.trace import NoAnswer, RunEnding
from statediff.model.values import ABSENT, Key, Observed, key_order
from statediff.model.verdict import Stage
from statediff.model.view import Ledger, Look, View

FEW: Final = 8
"""Members that are looked at one by one sooner than sorted."""
BLOCK: Final = 4_096
"""Changes that all patterns are held against before the next ones."""
_NO_LOOKS: Final = frozenset[Look]()
_number: Final = attrgetter("number")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Match:
    """How a pattern meets a change: the outcomes of its conditions, and what was seen."""

    change: Change
    mask: int
    seen: tuple[Seen, ...] = ()
    causes: frozenset[Cause] = frozenset()
    undefined: tuple[Cause, ...] = ()

    @property
    def holds(self) -> bool:
        return self.mask == TRUE

    @property
    def why(self) -> frozenset[Cause]:
        """Why it is not decided; never empty."""
        return self.causes or frozenset(self.undefined or {Reason.SOME_CONDITION()})


def selected(pattern: Pattern, change: Change) -> tuple[Delta, ...]:
    """The deltas of the change on the paths the pattern selects."""
    if change.op is not Op.UPDATE or pattern.fields is None or change.is_of_target:
        return change.deltas
    return tuple([delta for delta in change.deltas if selects(pattern, delta)])


def selects(pattern: Pattern, delta: Delta) -> bool:
    """True if the pattern selects all that the update changed; to forbid it, some of it is enough.

    An object that is replaced as a whole changes what a clause forbids inside it.
    """
    if delta.path in pattern.whole:
        return True
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


_ROOTS: Final = {
    Op.CREATE: ("created",),
    Op.UPDATE: ("updated",),
    Op.DELETE: ("deleted",),
    Op.LINK: ("linked", "created"),
    Op.UNLINK: ("unlinked", "deleted"),
}
_EVERY_ROOT: Final = tuple(roots[0] for roots in _ROOTS.values())


@dataclass(frozen=True, slots=True)
class _Seen:
    """A change as it was looked up, and what that looked at."""

    change: Change
    sides: tuple[EntityRef, EntityRef | None]
    looks: frozenset[Look]


class JudgingContext:
    """The world of one judgement's clauses: both views, the changes, the doubts, the answer."""

    def __init__(
        self,
        before: View,
        after: View,
        deltas: tuple[Delta, ...],
        doubts: tuple[Doubt, ...],
        answer: Mapping[str, Observed] | NoAnswer,
        attribution: Attribution = NOBODY,
        ending: RunEnding | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self.changes = changes(deltas)
        self.tell: Telling = WHOLE
        self._ledger: Ledger | None = None
        """The ledger in which reads are noted for the clause at hand; None: what one asked serves
        the others.
        """
        self.doubts = doubts
        self.answer = answer
        self.ending = ending
        self.timeline = timeline
        self.attribution = attribution
        self.moments: Mapping[str, View] = {}
        """The states in between, by the name of their side."""
        self.names = ("before", "after")
        """The sides of which the changes are the difference."""
        self.tied: frozenset[str] = frozenset()
        """The types of which a change may follow from another one (`Schema.tied`)."""
        self.fields: dict[frozenset[Read], _FieldsOf] = {}
        """The fields of each type that clauses read, as far as they were asked for."""
        self.entity_sets: Mapping[tuple[str, str], EntitySet] = _WhenAsked(self._make_entity_sets)
        self.walks: dict[Any, Any] = {}
        self.together: tuple[tuple[Changes, Sequence[Pattern]], ...] = ()
        """Patterns that are held against many changes, which are matched block by block."""
        self.forget()

    def record(self, ledger: Ledger) -> None:
        """From now on, each clause notes what it reads; the changed entities are read for all."""
        self._ledger = ledger
        self.entity_sets = self._make_entity_sets()

    def forget(self) -> None:
        """Nothing has been asked yet."""
        self._seen: dict[int, _Seen] = {}
        """By the change, which each keeps, so that no other one gets its place in memory."""
        self._groups: dict[Any, tuple[Changes, Group[Change]]] = {}
        self._doubted: dict[Any, Group[Doubt]] = {}
        self.forget_matches()

    def forget_matches(self) -> None:
        """No pattern has been held against anything yet."""
        self._matched: dict[tuple[int, int], tuple[Pattern, Changes, list[Match]]] = {}

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
        other.forget()
        return other

    def explaining(self) -> JudgingContext:
        """The same, where what is evaluated leaves a trail."""
        other = copy(self)
        other.tell, other.walks = WHOLE, {}
        other.forget_matches()
        return other

    def as_of(self, side: str) -> JudgingContext:
        """The run as if it had ended at one of its moments; what it had changed is not known."""
        other = self._apart()
        other.after = self.moments[side]
        cause = frozenset[Cause]({Reason.CHANGES_BY_THEN(side=side)})
        other.entity_sets = {
            (root, name): EntitySet((), name, "after", cause)
            for root in _EVERY_ROOT
            for name in self.after.schema.by_name
        }
        return other

    def eval_context(self, reads: frozenset[Read]) -> EvalContext:
        """A fresh world for one clause."""
        fields_of = self.fields.get(reads)
        if fields_of is None:
            fields_of = self.fields[reads] = _fields_read(reads, self.after.schema)
        return EvalContext(
            self.before,
            self.after,
            self.answer,
            self.entity_sets,
            fields_of,
            moments=self.moments,
            trail=Trail() if self.tell.is_whole else None,
            walks=self.walks,
            ending=self.ending,
            timeline=self.timeline,
        )

    def entity_ref(self, side: str, type_name: str, key: Key) -> EntityRef:
        """The entity on that side; its row is unknown where none can be read."""
        row = self._view(side).row(type_name, key)
        side = self.names[side == "after"]
        return EntityRef(side, type_name, key, row, "" if row is not None else Reason.ROW_UNKNOWN())

    def _make_entity_sets(self) -> dict[tuple[str, str], EntitySet]:
        members: dict[tuple[str, str], list[EntityRef]] = {}
        for change in self.changes:
            it, new = self.sides(change)
            for root in _ROOTS[change.op]:
                members.setdefault((root, change.type), []).append(it if new is None else new)
        causes: dict[tuple[str, str], set[Cause]] = {}
        for doubt in self.doubts:
            for root in _EVERY_ROOT:
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

    def matches(self, pattern: Pattern, candidates: Changes | None = None) -> list[Match]:
        """Every change that the pattern may match (never one it certainly does not)."""
        among = self.changes if candidates is None else candidates
        place = id(pattern), id(among)
        if place not in self._matched and self._ledger is None and len(among) > BLOCK:
            self._match_in_blocks(among)
        if place in self._matched:
            return self._matched[place][2]
        types = among.by_type
        is_fact = pattern.relation is not None  # of an entity that did not change, maybe
        groups = {n: self._group(pattern, n, among) for n in pattern.types if n in types or is_fact}
        found: list[Match] = []
        for each in self._likely(pattern, groups):
            match = self.meet(pattern, each.subject)
            if match.mask != FALSE:
                found.append(match)
        if self._ledger is None:
            self._matched[place] = pattern, among, found
        return found

    def _match_in_blocks(self, among: Changes) -> None:
        """Match the patterns that are held against these, one block of changes after the other.

        What is looked up of a change is kept for its block alone.
        """
        every = (p for held, patterns in self.together if held is among for p in patterns)
        new = (p for p in every if (id(p), id(among)) not in self._matched)
        asked = [pattern for pattern in new if pattern.relation is None]
        found: list[list[Match]] = [[] for _ in asked]
        known = self._groups, self._matched
        for start in range(0, len(among) if asked else 0, BLOCK):
            self._groups, self._matched = {}, {}
            block = Changes(among[start : start + BLOCK])
            for pattern, matches in zip(asked, found, strict=True):
                matches.extend(self.matches(pattern, block))
        self._groups, self._matched = known
        for pattern, matches in zip(asked, found, strict=True):
            self._matched[id(pattern), id(among)] = pattern, among, matches

    def _likely(self, pattern: Pattern, of: Mapping[str, Group[Subject]]) -> list[Member[Subject]]:
        """The members to hold the pattern against, in order; the clause looks at all of them."""
        found: list[Member[Subject]] = []
        for name, group in of.items():
            if group.looks:
                self._note(group.looks)
            if len(group.members) <= FEW:
                found += group.members
            else:
                found += group.candidates(pattern, name, self.eval_context(pattern.reads))
        return found if len(of) == 1 else sorted(found, key=_number)

    def _group(self, pattern: Pattern, name: str, among: Changes) -> Group[Change]:
        """The changes that the pattern's shape does not exclude already."""
        selection: Any = None
        if pattern.fields is not None and Op.UPDATE in pattern.operations:
            is_forbidden = pattern.section is Stage.FORBID
            selection = is_forbidden, pattern.fields, pattern.places, pattern.removed
        place = id(among), name, pattern.operations, selection, pattern.relation
        if place not in self._groups:
            members: list[Member[Change]] = []
            looks: set[Look] = set()
            found: list[tuple[int, Change]] = []
            for number in among.by_type.get(name, ()):
                change = among[number]
                if change.op in pattern.operations and selected(pattern, change):
                    found.append((number, change))
            holding = forbidden(pattern, name, self.after.schema) if pattern.relation else None
            if holding is not None:
                own = {key_order(change.key) for _, change in found}
                view = self._view("after" if holding.kind == "link" else "before")
                fields = self.eval_context(pattern.reads).fields_of(name)
                others, seen_for = self._noting(
                    lambda: [*holding.others(among, self.doubts, own, view, fields)]
                )
                found += enumerate(others, len(among))
                looks |= seen_for
            for number, change in found:
                seen = self._look_at(change)
                members.append(Member(number, change, (seen.sides,)))
                looks |= seen.looks
            self._groups[place] = among, Group(tuple(members), frozenset(looks))
        return self._groups[place][1]

    def unmatched(self, pattern: Pattern, matches: Iterable[Match]) -> list[Match]:
        """How the pattern meets the changes of the right shape that are not among the matches."""
        known = {id(match.change) for match in matches}
        groups = [self._group(pattern, name, self.changes) for name in pattern.types]
        ordered = sorted((each for group in groups for each in group.members), key=_number)
        missed = (each.subject for each in ordered if id(each.subject) not in known)
        return [self.meet(pattern, change) for change in missed]

    def match(self, pattern: Pattern, change: Change) -> Match | None:
        """The outcomes of the pattern on the change; None if its shape already excludes it."""
        if change.type not in pattern.types or change.op not in pattern.operations:
            return None
        if not selected(pattern, change):
            return None
        self.sides(change)
        return self.meet(pattern, change)

    def meet(self, pattern: Pattern, change: Change) -> Match:
        """How the pattern meets a change of a shape that it does not exclude."""
        it, new = self._look_at(change).sides
        eval_context = self.eval_context(pattern.reads)
        mask = self._met(pattern, change.type, it, new, eval_context, change)
        trail = eval_context.trail
        if trail is None:
            return Match(change, mask)
        seen, causes = tuple(trail.seen), frozenset(trail.causes)
        return Match(change, mask, seen, causes, tuple(trail.undefined))

    def versions(self, match: Match) -> tuple[EntityRef, EntityRef | None]:
        """`it` and `new` of a match, which the clause at hand looked at already."""
        return self._look_at(match.change).sides

    def sides(self, change: Change) -> tuple[EntityRef, EntityRef | None]:
        """`it` and `new`: the version a clause judges, and the version after, if there is one."""
        seen = self._look_at(change)
        self._note(seen.looks)
        return seen.sides

    def _look_at(self, change: Change) -> _Seen:
        seen = self._seen.get(id(change))
        if seen is None:
            if len(self._seen) >= 2 * BLOCK and self._ledger is None:
                self._seen.clear()
            found, looks = self._noting(partial(self._look_up, change))
            seen = self._seen[id(change)] = _Seen(change, found, looks)
        return seen

    def _noting(self, work: Callable[[], Made]) -> tuple[Made, frozenset[Look]]:
        """The result of the work, and what it looks at: nothing is noted for a clause yet."""
        return (work(), _NO_LOOKS) if self._ledger is None else self._ledger.noting(work)

    def _note(self, looks: frozenset[Look]) -> None:
        if looks and self._ledger is not None:
            self._ledger.note(looks)

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
        where = pattern.where[name]
        by_run = by_run_as(pattern.section)
        mask = TRUE if where is None else outcomes(where, eval_context, env)
        if where is not None and mask not in DECIDED:
            mask = settled(mask, by_run, where, eval_context, env)
        # What was created has no old values.
        old = None if it is new else it
        for pin in pattern.pins[name]:
            if mask & TRUE:
                held = old if pin.key == "from" else new
                mask = both(mask, field_is(held, pin, eval_context, env, by_run))
        holding = forbidden(pattern, name, self.after.schema) if pattern.relation else None
        if holding is not None and mask & TRUE:
            views = self._view("before"), self._view("after")
            mask = both(mask, holding.is_fact(old, new, views, eval_context))
            if change is not None and change.is_of_target and not change.deltas:
                # No delta says so: its coming or going is a doubt.
                eval_context.waits_for(doubt_causes(holding.doubted(self.doubts)))
                mask = both(mask, TRUE | FALSE)
        elif holding is None and pattern.relation is not None:
            mask = both(mask, has_relation(pattern.relation, it, new, eval_context))
        if pattern.by is not None and mask & TRUE:
            mask = both(mask, self._made_by(pattern, pattern.by, change, eval_context))
        return mask

    def _view(self, side: str) -> View:
        """The state at that end of the changes."""
        named = self.names[side == "after"]
        return self.moments.get(named) or (self.before if named == "before" else self.after)

    def _made_by(
        self, pattern: Pattern, by: str, change: Change | None, eval_context: EvalContext
    ) -> int:
        """The outcome of the principal's making a selected change; never guessed.

        `change` None: one that nobody saw.
        """
        if change is None:
            return TRUE | FALSE
        found = [self.attribution.by(delta, by) for delta in selected(pattern, change)]
        if any(mask == TRUE for mask, _ in found):
            return TRUE
        eval_context.waits_for(cause for _, cause in found if cause)
        return TRUE | FALSE if any(mask & TRUE for mask, _ in found) else FALSE

    # ------------------------------------------------------------ changes that may exist

    def doubted(
        self, pattern: Pattern, among: Container[int] | None = None
    ) -> Iterator[tuple[int, int]]:
        """(place of a doubt, outcomes of the pattern on it), but where that is FALSE alone.

        TRUE alone: it would match any change that the doubt can turn out to be.
        """
        groups = {name: self._doubts(pattern, name) for name in pattern.types}
        for member in self._likely(pattern, groups):
            if among is None or member.number in among:
                mask = self._possible(pattern, member)
                if mask != FALSE:
                    yield member.number, mask

    def possible(self, pattern: Pattern, doubt: Doubt) -> int:
        """The outcomes of the pattern on one doubt; FALSE alone: on no change that it can be."""
        if not self._is_within(pattern, doubt):
            return FALSE
        ways = self.ways(doubt, pattern.operations)
        return self._possible(pattern, Member(0, doubt, ways)) if ways else FALSE

    def _is_within(self, pattern: Pattern, doubt: Doubt) -> bool:
        is_selected = not doubt.path or pattern.fields is None or doubt.path in pattern.fields
        return doubt.type in pattern.types and is_selected

    def _doubts(self, pattern: Pattern, name: str) -> Group[Doubt]:
        """The doubts about changes that the pattern's shape does not exclude already."""
        place = name, pattern.operations, pattern.fields
        if place not in self._doubted:
            members: list[Member[Doubt]] = []
            looks: set[Look] = set()
            for number, doubt in enumerate(self.doubts):
                if doubt.type == name and self._is_within(pattern, doubt):
                    found, seen = self._noting(partial(self.ways, doubt, pattern.operations))
                    looks |= seen
                    if found:
                        members.append(Member(number, doubt, found))
            self._doubted[place] = Group(tuple(members), frozenset(looks))
        return self._doubted[place]

    def _possible(self, pattern: Pattern, member: Member[Doubt]) -> int:
        doubt, mask = member.subject, 0
        for it, new in member.ways:
            mask |= self._met(pattern, doubt.type, it, new, self.eval_context(pattern.reads))
        if doubt.path:
            covers = pattern.selects(doubt.path, ())  # what changed in it is not known
        else:
            covers = pattern.fields is None and pattern.operations == frozenset(Op)
        return mask if covers else mask | FALSE

    def ways(self, doubt: Doubt, operations: frozenset[Op]) -> tuple[Sides, ...]:
        """(`it`, `new`) of every kind of change the doubted one can be, within `operations`.

        A field that was not observed can only be updated; what came, went or is not known at all
        can turn out to be anything.
        """
        wanted = operations & {Op.UPDATE} if doubt.path else operations
        before, after = self._doubted_ref("before", doubt), self._doubted_ref("after", doubt)
        kinds = ((COME, (after, after)), (GONE, (before, None)), ((Op.UPDATE,), (before, after)))
        return tuple(sides for kind, sides in kinds if wanted & set(kind))

    def _doubted_ref(self, side: str, doubt: Doubt) -> EntityRef | Unknown:
        cause = doubt_cause(doubt)
        if doubt.key is None:
            return Unknown(frozenset({cause}), maybe_null=False)
        entity_ref = self.entity_ref(side, doubt.type, doubt.key)
        if entity_ref.row is not None:
            return entity_ref
        return EntityRef(entity_ref.side, doubt.type, doubt.key, None, cause)


def doubt_cause(doubt: Doubt) -> Explanation:
    """The observation that a doubt waits for."""
    return Reason.IN(place=doubt.where, cause=cause(doubt.cause))


def doubt_causes(doubts: Iterable[Doubt]) -> set[Cause]:
    """The observations that the doubts wait for."""
    return set(map(doubt_cause, doubts))


def relevant(pattern: Pattern, context: JudgingContext, outcome: int) -> list[Doubt]:
    """The doubts about changes on which the pattern can have one of the outcomes."""
    if not context.doubts:
        return []
    return [context.doubts[at] for at, mask in context.doubted(pattern) if mask & outcome]
