"""Clauses over two states and their changes (docs/design.md §3).

A pattern has an interval of how many changes match: those that do, and those that may. The frame
holds where every change is explained; each clause has a vote for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import inf
from operator import or_
from typing import Any, Final, TypeAlias

from statediff.contract.clauses.causes import following, times_of
from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.language.syntax import Node
from statediff.kernel.spec import changes as x
from statediff.kernel.spec import values as v
from statediff.kernel.spec.changes import (
    COME,
    GONE,
    HOLDS,
    UNKNOWN,
    Change,
    Decided,
    Match,
    Vote,
    fails,
)
from statediff.kernel.spec.expressions import ROOTS, Eval
from statediff.kernel.spec.values import FALSE, NO_VALUE, OPEN, TRUE, UNDEFINED, Some, Thing
from statediff.model import values as model
from statediff.model.codes import Stage, Truth
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.schema import COUNT, COUNTERS, Schema
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT, Key, Unobserved, key_order

_ROOTS: Final = {
    Op.CREATE: ("created",), Op.UPDATE: ("updated",), Op.DELETE: ("deleted",),
    Op.LINK: ("linked", "created"), Op.UNLINK: ("unlinked", "deleted"),
}  # fmt: skip
_KINDS: Final[Mapping[str, Any]] = {
    "int": int, "decimal": int | Decimal, "text": str, "bool": bool, "list": tuple,
    "map": model.Map, "any": object,
}  # fmt: skip
_UNMET: Final = {Stage.FORBID: "FORBIDDEN_CONDITION", Stage.ANSWER: "CLAIM_REFUTED"}
_TRUTHS: Final = {TRUE: Truth.HOLDS, FALSE: Truth.FAILS}
Maker: TypeAlias = Callable[[Delta, str], v.Truths]
"""(delta, principal) → whether the principal made the change."""


def by_run_as(p: Pattern) -> v.Truths:
    """The truth that a condition undefined by the run counts as: forbidden, or no match."""
    return TRUE if p.section is Stage.FORBID else FALSE


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two states of a run and their difference. `everything` has what ν hides, for Γ and Λ."""

    world: v.World
    schema: Schema
    changes: tuple[Change, ...]
    everything: tuple[Change, ...]
    doubts: tuple[Doubt, ...]
    made_by: Maker
    ends: tuple[str, str] = ("before", "after")
    """The sides of which the changes are the difference."""

    def eval(self, **env: v.Result) -> Eval:
        """The room in which an expression is evaluated; a variable that is None is absent."""
        return Eval(self.world, {n: ABSENT if held is None else held for n, held in env.items()})

    def thing(self, end: int, type_name: str, key: Key) -> Thing:
        """The entity at one end."""
        found = self.world.table(self.ends[end], type_name).rows.get(key_order(key))
        return Thing(self.ends[end], type_name, key, None if found is None else found[1])

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

    def crowds(self) -> Mapping[tuple[str, str], v.Crowd]:
        """The changes that `created.TYPE`, … range over; a doubt may be one more."""
        found: dict[tuple[str, str], list[Thing]] = {}
        for change in self.changes:
            it, new = self.sides(change)
            for root in _ROOTS[change.op]:
                found.setdefault((root, change.type), []).append(new or it)
        open_ = {(r, d.type) for d in self.doubts for r in ROOTS if r == "updated" or not d.path}
        return {at: v.Crowd(tuple(found.get(at, ())), at in open_) for at in found.keys() | open_}

    # ------------------------------------------------------------ what a pattern matches

    def matches(self, p: Pattern, candidates: Iterable[Change]) -> list[Match]:
        """Every change that the pattern may match."""
        every = tuple(candidates)
        own = [c for c in every if c.type in p.types and c.op in p.operations and x.selected(p, c)]
        own += self._of_targets(p, every, {c.place for c in own})
        sides = [(c, *self.sides(c)) for c in own]
        found = [Match(c, it, new, self._meets(p, c.type, it, new, c)) for c, it, new in sides]
        return [match for match in found if match.mask != FALSE]

    def _of_targets(self, p: Pattern, every: tuple[Change, ...], own: set[Any]) -> Iterator[Change]:
        """Entities of which the forbidden relation is to what came or went, or may have."""
        kind, name = p.forbidden_relation or ("", "")
        wanted, end = (COME, 1) if kind == "link" else (GONE, 0)
        for type_name in p.types if kind else ():
            target = self.schema.by_name[type_name].by_name[name].reference
            moved = [c for c in every if c.type == target and c.op in wanted]
            doubts = [d for d in self.doubts if d.type == target and not d.path]
            for order, (key, row) in self.world.table(self.ends[end], type_name).rows.items():
                held = row.get(name, ABSENT)
                if v.is_nothing(held) or (type_name, order) in own:
                    continue
                is_known = not isinstance(held, Unobserved | model.Excluded)

                def is_named(other: Key | None) -> bool:
                    return other is None or v.likeness(other[0]) == v.likeness(held)  # noqa: B023

                named = [c for c in moved if is_known and len(c.key) == 1 and is_named(c.key)]
                about = [d for d in doubts if not is_known or is_named(d.key)]
                if named or about or (moved and not is_known):
                    deltas = tuple(d for c in named for d in c.deltas)
                    yield Change(type_name, key, Op.UPDATE, deltas, is_of_target=True)

    def _meets(
        self,
        p: Pattern,
        name: str,
        it: v.Result,
        new: v.Result | None,
        change: Change | None = None,
    ) -> v.Truths:
        """The truths of `where`, `from`, `set`, the relation and `by`, left to right."""
        here, where, by_run = self.eval(it=it, new=new), p.where[name], by_run_as(p)
        mask = TRUE if where is None else here.settled(where, by_run)
        old = None if it is new else it  # what was created has no old values
        for key, path, node in p.pins[name]:
            held = old if key == "from" else new
            if held is None:
                mask = v.both(mask, FALSE)
            elif mask & TRUE:
                wanted, found = here.value(node), x.place_in(held, path)
                equal, is_by = v.relate("==", found, wanted), False
                if isinstance(held, Thing) and found is NO_VALUE:
                    is_by = here.is_written(held, path.field, path.place)
                elif isinstance(held, Thing) and equal not in (TRUE, FALSE):
                    is_by = here.is_unread(held, path.field)
                is_by |= wanted is NO_VALUE and here.is_by_run(node)
                mask = v.both(mask, by_run if is_by else equal)
        if p.forbidden_relation is not None:
            mask = v.both(mask, self._is_fact(*p.forbidden_relation, name, old, new))
            is_doubt = change is not None and change.is_of_target and not change.deltas
            mask = v.both(mask, OPEN) if is_doubt else mask
        elif p.relation is not None:
            mask = v.both(mask, _relates(p.relation, it, new))
        if p.by is None or not mask & TRUE:
            return mask
        made = [self.made_by(d, p.by) for d in x.selected(p, change)] if change else [OPEN]
        return v.both(mask, v.quantify(TRUE, made))

    def _is_fact(
        self, kind: str, field: str, name: str, old: v.Result | None, new: v.Result | None
    ) -> v.Truths:
        """The entity holds what it did not hold before (`link`), or no longer what it held."""
        is_link = kind == "link"
        pair = (new, old) if is_link else (old, new)
        mine, other = (ABSENT if side is None else x.cell_of(side, field) for side in pair)
        if v.is_nothing(mine):
            return FALSE
        mask = OPEN if isinstance(mine, Some) else TRUE
        differs = TRUE if v.is_nothing(other) else v.opposite(v.relate("==", other, mine))
        if differs == TRUE or isinstance(mine, Some):
            return mask if differs == TRUE else OPEN
        target = self.schema.by_name[name].by_name[field].reference or ""
        ends = [v.there(self.world.look(side, target, (mine,))) for side in self.ends]
        lacking, having = ends if is_link else ends[::-1]
        lacking = v.opposite(lacking)
        came = FALSE if FALSE in (lacking, having) else v.both(lacking, having)
        return differs & ~FALSE | came if differs & FALSE else differs

    # ------------------------------------------------------------ what may have changed besides

    def ways(
        self, d: Doubt, operations: frozenset[Op]
    ) -> Iterator[tuple[v.Result, v.Result | None]]:
        """(`it`, `new`) of every kind of change that the doubted one can be."""
        wanted = operations & {Op.UPDATE} if d.path else operations
        unseen = Some(null=False)
        old, new = (unseen if d.key is None else self.thing(end, d.type, d.key) for end in (0, 1))
        yield from [(new, new)] if wanted & COME else []
        yield from [(old, None)] if wanted & GONE else []
        yield from [(old, new)] if Op.UPDATE in wanted else []

    def possible(self, p: Pattern, doubt: Doubt) -> v.Truths:
        """The truths of the pattern on the doubted change; FALSE: none that it matches."""
        is_of = doubt.type in p.types
        if not is_of or (doubt.path and p.fields is not None and doubt.path not in p.fields):
            return FALSE
        masks = [self._meets(p, doubt.type, *way) for way in self.ways(doubt, p.operations)]
        covers = p.fields is None and p.operations == frozenset(Op)
        covers = p.selects(doubt.path, ()) if doubt.path else covers
        return reduce(or_, masks, 0 if covers and masks else FALSE)

    def doubts_about(self, p: Pattern, wanted: v.Truths = TRUE | UNDEFINED) -> list[Doubt]:
        """The doubts about changes on which the pattern can have one of these truths."""
        return [doubt for doubt in self.doubts if self.possible(p, doubt) & wanted]

    # ------------------------------------------------------------ clauses

    def _them(self, found: list[Match], doubts: list[Doubt]) -> v.Crowd:
        certain = tuple(m.it for m in found if m.mask == TRUE)
        return v.Crowd(certain, bool(doubts) or len(certain) < len(found))

    def _that(self, p: Pattern, node: Node | None, **env: v.Result) -> v.Truths:
        """The truths of `that`; undefined, it fails a required clause with its own code."""
        by_run = UNDEFINED if p.section is Stage.REQUIRE else by_run_as(p)
        return TRUE if node is None else self.eval(**env).settled(node, by_run)

    def _that_of_each(self, p: Pattern, found: list[Match], them: v.Crowd) -> list[v.Truths]:
        return [self._that(p, p.that[m.change.type], it=m.it, new=m.new, them=them) for m in found]

    def truths_of_that(self, p: Pattern, found: list[Match], doubts: list[Doubt]) -> v.Truths:
        """`that` over all that matched, or of each of them."""
        them = self._them(found, doubts)
        nodes = [node for node in p.that.values() if node is not None]
        if not nodes or not p.speaks_of_each:
            return self._that(p, nodes[0] if nodes else None, them=them)
        masks = self._that_of_each(p, [m for m in found if m.mask == TRUE], them)
        if FALSE in masks:
            return FALSE
        rest = reduce(or_, (mask & ~TRUE for mask in masks), FALSE if them.is_open else 0)
        return rest | (TRUE if all(mask & TRUE for mask in masks) else 0)

    def qualify(self, p: Pattern, found: list[Match], doubts: list[Doubt]) -> list[Match]:
        """To forbid or allow, a `that` about each qualifies each, as `where` does."""
        if not p.speaks_of_each:
            return found
        masks = self._that_of_each(p, found, self._them(found, doubts))
        new = [m._replace(mask=v.both(m.mask, t)) for m, t in zip(found, masks, strict=True)]
        return [match for match in new if match.mask != FALSE]

    def forbid(self, p: Pattern, candidates: Iterable[Change]) -> Decided:
        """Γ: as many changes match as `count` says, whatever explains them."""
        doubts = self.doubts_about(p)
        found = self.qualify(p, self.matches(p, candidates), doubts)
        least = max(p.low, 1)
        if len(found) + _further(p, found, doubts) < least:
            return HOLDS
        that = TRUE if p.speaks_of_each else self.truths_of_that(p, found, doubts)
        if that == FALSE:
            return HOLDS
        is_sure = sum(m.mask == TRUE for m in found) >= least and that == TRUE
        return fails("FORBIDDEN_CHANGE") if is_sure else UNKNOWN

    def require(self, p: Pattern) -> Decided:
        """Φ: the number of changes that match and what must hold of them; undefined fails it."""
        found, doubts = self.matches(p, self.changes), self.doubts_about(p)
        if any(m.mask == UNDEFINED for m in found):
            return fails("UNDEFINED")
        number = self._every(p, found) if p.is_every else self.count(p, found)
        if number.truth is Truth.FAILS:
            return number
        that = self.truths_of_that(p, found, doubts)
        if not that & TRUE:
            return x.fails_by(that, "REQUIREMENT_FAILED")
        may_break = any(m.mask & UNDEFINED for m in found) or self.doubts_about(p, UNDEFINED)
        return UNKNOWN if number is UNKNOWN or may_break or that != TRUE else HOLDS

    def count(self, p: Pattern, found: list[Match]) -> Decided:
        """The interval of how many match, within the bounds of `count`."""
        least, high = sum(m.mask == TRUE for m in found), inf if p.high is None else p.high
        perhaps = sum(bool(m.mask & TRUE) for m in found)
        most = perhaps + _further(p, found, self.doubts_about(p, TRUE))
        if least > high:
            return fails("TOO_MANY_CHANGES")
        if most < p.low:
            return fails("MISSING_CHANGE")
        return HOLDS if p.low <= least and most <= high else UNKNOWN

    def _every(self, p: Pattern, found: list[Match]) -> Decided:
        """`count: every`: each entity before that satisfies `where` has a selected change."""
        masks, doubts = {m.change.place: m.mask for m in found}, self.doubts_about(p, TRUE)
        tables = [(name, self.world.table(self.ends[0], name)) for name in p.types]
        seen = [OPEN for _, table in tables if not table.is_complete]
        for name, key, row in ((n, *held) for n, table in tables for held in table.rows.values()):
            here, where = self.eval(it=Thing("before", name, key, row), new=None), p.where[name]
            meant = TRUE if where is None else here.truths(where)
            met = masks.get((name, key_order(key)), FALSE)
            met |= TRUE if met != TRUE and any(x.is_about(d, name, key) for d in doubts) else 0
            if meant == TRUE and met == UNDEFINED:
                met = FALSE
            if meant not in (TRUE, FALSE, UNDEFINED):
                met = (TRUE if met == TRUE else TRUE | met) | meant & UNDEFINED
            seen.append({FALSE: TRUE, UNDEFINED: UNDEFINED}.get(meant, met))
        if UNDEFINED in seen:
            return fails("UNDEFINED")
        if FALSE in seen:
            return fails("MISSING_CHANGE")
        return HOLDS if all(mask == TRUE for mask in seen) else UNKNOWN

    def condition(self, clause: Condition) -> Decided:
        """An expression that must hold (require, claims) or must not (forbid)."""
        stage, answer = clause.section, self.world.answer
        asks = stage is Stage.ANSWER and any(r.root == "answer" for r in clause.reads)
        if asks and isinstance(answer, NoAnswer):
            return UNKNOWN if answer.is_unread else fails("ANSWER_MISSING")
        is_forbidden, code = stage is Stage.FORBID, _UNMET.get(stage, "REQUIREMENT_FAILED")
        mask = self.eval().settled(clause.node, TRUE if is_forbidden else UNDEFINED)
        if is_forbidden:
            return {TRUE: fails(code), FALSE: HOLDS}.get(mask, UNKNOWN)
        return x.fails_by(mask, code) if not mask & TRUE else HOLDS if mask == TRUE else UNKNOWN

    def answered(self, asked: Mapping[str, str]) -> Decided:
        """The answer has the names and types that are asked for, in their order."""
        answer = self.world.answer
        if isinstance(answer, NoAnswer):
            return UNKNOWN if answer.is_unread else fails("ANSWER_MISSING")
        for name, kind in asked.items():
            said = answer.get(name, ABSENT)
            if isinstance(said, Unobserved):
                return UNKNOWN
            is_bool = isinstance(said, bool)
            is_kind = kind in ("bool", "any") if is_bool else isinstance(said, _KINDS[kind])
            if name not in answer or not is_kind:
                return fails("ANSWER_INVALID")
        return HOLDS

    # ------------------------------------------------------------ the frame

    def votes_of(self, p: Pattern) -> Iterator[Vote]:
        """The deltas that the pattern explains, or may.

        A require clause explains whatever it matches; an allow clause nothing beyond `count` and
        `that`.
        """
        found, bound = self.matches(p, self.changes), TRUE
        if p.section is not Stage.REQUIRE:
            doubts = self.doubts_about(p)
            found = self.qualify(p, found, doubts)
            if p.high is not None:
                is_within = len(found) + _further(p, found, doubts) <= p.high
                is_beyond = sum(m.mask == TRUE for m in found) > p.high
                bound = FALSE if is_beyond else TRUE if is_within else OPEN
            if not p.speaks_of_each and bound != FALSE:
                that = self.truths_of_that(p, found, doubts)
                bound = FALSE if that == FALSE else bound if that == TRUE else OPEN
        for match, delta in ((m, d) for m in found for d in m.change.deltas):
            covers = self._covers(p, delta)
            mask = TRUE if match.mask == covers == bound == TRUE else OPEN
            yield Vote(delta, FALSE if FALSE in (covers, bound) else mask)

    def _covers(self, p: Pattern, delta: Delta) -> v.Truths:
        """The paths that the pattern selects include the delta's, and its principal made it."""
        made = TRUE if p.by is None else self.made_by(delta, p.by)
        if made != TRUE or p.fields is None:
            return made
        if delta.op is Op.UPDATE:
            return TRUE if x.selects(p, delta) else FALSE
        if p.names_fields and delta.is_of_mark:
            mark = self.schema.by_name[delta.type].deleted_when
            return TRUE if mark is not None and p.selects(mark, ()) else FALSE
        whole = delta.after if delta.op in COME else delta.before
        if not p.names_fields or not isinstance(whole, Entity):
            return TRUE
        key = self.schema.by_name[delta.type].key
        outside = [c for n, c in whole.fields if n not in key and not p.selects(n, (), c)]
        if any(
            isinstance(c, model.Digested) or (c is not None and model.is_value(c)) for c in outside
        ):
            return FALSE
        return OPEN if any(isinstance(c, Unobserved) for c in outside) else TRUE

    def explanations(self, patterns: Sequence[Pattern], more: Iterable[Vote] = ()) -> list[Vote]:
        """The deltas of the case: TRUE by some vote, open by any that is not FALSE, else FALSE."""
        said: dict[int, v.Truths] = {}
        for delta, mask in (*(vote for p in patterns for vote in self.votes_of(p)), *more):
            held = said.get(id(delta), FALSE)
            said[id(delta)] = TRUE if TRUE in (mask, held) else held | mask
        found = [Vote(d, said.get(id(d), FALSE)) for c in self.changes for d in c.deltas]
        truths = [(d, _TRUTHS.get(mask, Truth.UNKNOWN)) for d, mask in found]
        times = times_of(self.world.timeline)
        for number, (truth, _) in following(self.schema, truths, times).items():
            mask = TRUE if truth is Truth.HOLDS else OPEN
            found[number] = found[number]._replace(mask=mask)
        return found

    def frame(self, patterns: Sequence[Pattern], more: Iterable[Vote] = ()) -> list[Decided]:
        """Every delta is explained, and every delta that there may be beside them."""
        masks = [mask for _, mask in self.explanations(patterns, more)]
        parted = [doubt for doubt in self.doubts if x.is_parted(doubt)]
        found = [fails("READINGS_PARTED") for _ in parted]
        found += [fails("UNEXPLAINED_CHANGE") for mask in masks if mask == FALSE]
        sure = [
            p
            for p in patterns
            if p.section is Stage.REQUIRE or (p.high is None and not any(p.that.values()))
        ]
        others = [doubt for doubt in self.doubts if not x.is_parted(doubt)]
        is_open = any(all(self.possible(p, d) != TRUE for p in sure) for d in others)
        found += [UNKNOWN] if is_open or any(mask not in (TRUE, FALSE) for mask in masks) else []
        return found or [HOLDS]

    def counter_votes(self, further: Iterable[Delta] = ()) -> Iterator[Vote]:
        """A counter of inserts is what it was, raised to the highest key that came."""
        counted_by: dict[Key, str] = {
            (t.counter,): t.name for t in self.schema.types if t.counter is not None
        }
        net = [d for change in self.changes for d in change.deltas]
        for delta in net:
            name = counted_by.get(delta.key) if delta.type == COUNTERS else None
            ends: Any = delta.before, delta.after
            if delta.op is Op.CREATE and isinstance(delta.after, Entity):
                ends = 0, delta.after.as_row().get(COUNT, ABSENT)
            elif delta.op is not Op.UPDATE or delta.path != COUNT or delta.steps:
                continue
            if name is None or any(type(end) is not int for end in ends):
                continue
            keys = [d.key for d in (*net, *further) if d.type == name and d.op in COME]
            doubts = [d for d in self.doubts if d.type == name and d.path is None]
            unseen = any(doubt.key in (None, (ends[1],)) for doubt in doubts)
            for each in [keys, [*keys, (ends[1],)]] if unseen else [keys]:
                singles = [key[0] for key in each if len(key) == 1]
                if (
                    singles
                    and all(type(n) is int for n in singles)
                    and ends[1] == max(ends[0], *singles)
                ):
                    yield Vote(delta, OPEN if doubts else TRUE)

    # ------------------------------------------------------------ effects and derived fields

    def effect(self, rule: BoundEffect) -> Decided | None:
        """Λ: every such change is authorized; None where the rule asks for no authorization."""
        asked = [node for node in (rule.authorized_by, rule.actor) if node is not None]
        if not asked:
            return None

        def approved(it: v.Result, new: v.Result | None) -> v.Truths:
            found = TRUE
            for node in asked:
                if found != FALSE:
                    found = v.both(found, self.eval(it=it, new=new).settled(node, FALSE))
            return found

        kind = [c for c in self.everything if c.type == rule.type and c.op in rule.operations]
        certain = [approved(*self.sides(c)) for c in kind]
        doubts = [d for d in self.doubts if d.type == rule.type]
        perhaps = [approved(*way) for d in doubts for way in self.ways(d, rule.operations)]
        if FALSE in certain:
            return fails("UNAUTHORIZED_EFFECT")
        return HOLDS if all(mask == TRUE for mask in (*certain, *perhaps)) else UNKNOWN

    def derived(self, rule: Derived) -> tuple[Decided, list[Vote]]:
        """A field that the system keeps equals its expression, or moved exactly as that moved.

        Its change is explained where it is kept and, in what was there, the expression moved.
        """
        own = [c for c in self.changes if c.type == rule.type]
        come = {key_order(c.key) for c in own if c.op in COME}
        kept: dict[Any, v.Truths] = {}
        for key in self._touched(rule, own, come):
            then = None if key_order(key) in come else self.then(rule.type, key)
            kept[key_order(key)] = self._is_kept(rule, self.thing(1, rule.type, key), then)
        votes = []
        for change in own:
            mask, then = kept.get(key_order(change.key), FALSE), self.then(rule.type, change.key)
            if mask == TRUE and then is not None and key_order(change.key) not in come:
                mask = self._has_moved(rule, then, self.thing(1, rule.type, change.key))
            mask = mask & ~UNDEFINED | (FALSE if mask & UNDEFINED else 0)
            is_update = change.op is Op.UPDATE
            votes += [Vote(d, mask) for d in change.deltas if is_update and rule.keeps(d)]
        wrong = [mask for _, mask in sorted(kept.items()) if not mask & TRUE]
        if wrong:
            return x.fails_by(wrong[0], "DERIVED_WRONG"), votes
        is_open = any(d.type == rule.type and d.key is None for d in self.doubts)
        is_known = not is_open and all(mask == TRUE for mask in kept.values())
        return (HOLDS if is_known else UNKNOWN), votes

    def _touched(self, rule: Derived, own: list[Change], come: set[Any]) -> Iterator[Key]:
        """The entities after the run of which what the rule reads changed, or may have."""
        reads = {read.type for read in rule.reads}
        doubts = [d for d in self.doubts if d.type in reads]
        kept = {key_order(c.key) for c in own if any(map(rule.keeps, c.deltas))}
        gone = {key_order(c.key) for c in own if c.op in GONE} - come - kept
        touched = {key_order(c.key): c.key for c in own}
        touched |= {key_order(d.key): d.key for d in doubts if d.type == rule.type and d.key}
        if not rule.is_row_local and (doubts or any(c.type in reads for c in self.changes)):
            table = self.world.table(self.ends[1], rule.type)
            touched |= {order: key for order, (key, _) in table.rows.items()}
        yield from (key for order, key in touched.items() if order not in gone)

    def then(self, name: str, key: Key) -> Thing | None:
        """The entity before the run; None where it was not there."""
        found = self.thing(0, name, key)
        may_be = found.row is not None or self.world.table(self.ends[0], name).may_miss(key)
        return found if may_be else None

    def _is_kept(self, rule: Derived, now: Thing, then: Thing | None) -> v.Truths:
        mask = self.eval(it=now).truths(rule.after)
        if mask == TRUE or then is None:
            return mask
        new = [self.eval(it=now).value(n) for n in (rule.after.left, rule.after.right)]
        old = [self.eval(it=then).value(n) for n in (rule.before.left, rule.before.right)]
        moved = moved_alike((old[0], new[0]), (old[1], new[1]))
        return TRUE if moved == TRUE else mask | moved & TRUE

    def _has_moved(self, rule: Derived, then: Thing, now: Thing) -> v.Truths:
        """The expression moved: who put right a field that was not kept was not the system."""
        was = self.eval(it=then).value(rule.before.right)
        is_now = self.eval(it=now).value(rule.after.right)
        if isinstance(was, Some) or isinstance(is_now, Some):
            return OPEN
        is_same = NO_VALUE not in (was, is_now) and v.likeness(was) == v.likeness(is_now)
        return FALSE if is_same else TRUE


def moved_alike(
    of_field: tuple[v.Result, v.Result], of_rule: tuple[v.Result, v.Result]
) -> v.Truths:
    """The field moved exactly as the expression did; where that is undefined, it stayed."""
    every = (*of_field, *of_rule)
    if any(isinstance(part, Some) for part in every):
        return OPEN
    stayed = v.likeness(of_field[0]) == v.likeness(of_field[1])
    if NO_VALUE in of_rule:
        alike = stayed and of_rule == (NO_VALUE, NO_VALUE)
    elif all(map(v.is_finite, every)):
        (a, b), (x, y) = (tuple(map(Fraction, pair)) for pair in (of_field, of_rule))
        alike = b - a == y - x
    else:
        alike = stayed and v.likeness(of_rule[0]) == v.likeness(of_rule[1])
    return TRUE if alike else FALSE


def _relates(relation: str, it: v.Result, new: v.Result | None) -> v.Truths:
    """A changed reference links (has a target) or unlinks (had one, has none)."""
    kind, _, path = relation.partition(":")
    mask = TRUE
    for held, has_target in ((new, True),) if kind == "link" else ((it, True), (new, False)):
        cell = ABSENT if held is None else x.cell_of(held, path)
        is_met = TRUE if (cell is not ABSENT) is has_target else FALSE
        mask = v.both(mask, OPEN if isinstance(cell, Some) else is_met)
    return mask


def _further(p: Pattern, known: Iterable[Match], doubts: Iterable[Doubt]) -> float:
    """At most how many entities more the doubts can add to those matched."""
    matched = {(m.change.place, m.change.op) for m in known}
    places: dict[object, int] = {}
    for doubt in doubts:
        if doubt.key is None:
            return inf
        # An entity of which nothing is known may have been replaced: a deletion and a creation. One
        # that was softly deleted may have been changed, too.
        number = 2 if not doubt.path and p.operations >= {Op.DELETE, Op.CREATE} else 1
        place = doubt.type, key_order(doubt.key)
        ops = {Op.UPDATE} if doubt.path else set(Op)
        if number > 1 or not any((place, op) in matched for op in ops):
            places[place] = max(places.get(place, 0), number)
    return sum(places.values())
