"""Clauses over two states and their changes: bounds on how many match, and what holds of them.

A pattern has an interval of how many changes match: those that do, and those that may. The frame
holds where every change is explained (docs/design.md §3); each clause has a vote for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from statediff.contract.clauses.causes import following, times_of
from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.language.syntax import Node
from statediff.kernel.spec.changes import (
    COME,
    GONE,
    HOLDS,
    UNKNOWN,
    Case,
    Change,
    Decided,
    Match,
    by_run_as,
    doubts_about,
    fails,
    further,
    is_about,
    matches,
    possible,
    selects,
    ways,
)
from statediff.kernel.spec.expressions import outcomes, settled, value
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
    is_finite,
    likeness,
    without_undefined,
)
from statediff.model.codes import FindingCode, Stage, Truth
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.explanation import PARTED
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT, Digested, Key, Map, Unobserved, is_value, key_order
from statediff.model.verdict import Verdict

# ---------------------------------------------------------------- that


def _them(found: list[Match], doubts: list[Doubt]) -> Crowd:
    certain = tuple(m.it for m in found if m.mask == TRUE)
    return Crowd(certain, bool(doubts) or len(certain) < len(found))


def _that_of_one(p: Pattern, match: Match, them: Crowd, case: Case) -> Truths:
    node = p.that[match.change.type]
    env: Env = {"it": match.it, "new": match.new or ABSENT, "them": them}
    return TRUE if node is None else _that(p, node, env, case)


def _that(p: Pattern, node: Node, env: Env, case: Case) -> Truths:
    """The truths of `that`; undefined, it fails a required clause with its own code."""
    is_required = p.section is Stage.REQUIRE
    return settled(node, case.world, env, UNDEFINED if is_required else by_run_as(p))


def truths_of_that(p: Pattern, found: list[Match], doubts: list[Doubt], case: Case) -> Truths:
    """`that` over all that matched, or of each of them."""
    them = _them(found, doubts)
    nodes = [node for node in p.that.values() if node is not None]
    if not nodes:
        return TRUE
    if not p.speaks_of_each:
        return _that(p, nodes[0], {"them": them}, case)
    masks = [_that_of_one(p, m, them, case) for m in found if m.mask == TRUE]
    if FALSE in masks:
        return FALSE
    rest = reduce(or_, (mask & ~TRUE for mask in masks), FALSE if them.is_open else 0)
    return rest | (TRUE if all(mask & TRUE for mask in masks) else 0)


def qualify(p: Pattern, found: list[Match], doubts: list[Doubt], case: Case) -> list[Match]:
    """To forbid or allow, a `that` about each qualifies each, as `where` does."""
    if not p.speaks_of_each:
        return found
    them = _them(found, doubts)
    new = [m._replace(mask=both(m.mask, _that_of_one(p, m, them, case))) for m in found]
    return [match for match in new if match.mask != FALSE]


# ---------------------------------------------------------------- forbid, require, conditions


def decide_forbid(p: Pattern, case: Case, candidates: Sequence[Change]) -> Decided:
    """Γ: as many changes match as `count` says, whatever explains them."""
    doubts = doubts_about(p, case)
    found = qualify(p, matches(p, case, candidates), doubts, case)
    least = max(p.low, 1)
    if len(found) + further(p, found, doubts) < least:
        return HOLDS
    that = TRUE if p.speaks_of_each else truths_of_that(p, found, doubts, case)
    if that == FALSE:
        return HOLDS
    is_sure = sum(m.mask == TRUE for m in found) >= least and that == TRUE
    return fails(FindingCode.FORBIDDEN_CHANGE) if is_sure else UNKNOWN


def decide_require(p: Pattern, case: Case) -> Decided:
    """Φ: the number of changes that match and what must hold of them; undefined fails it."""
    found, doubts = matches(p, case, case.changes), doubts_about(p, case)
    if any(m.mask == UNDEFINED for m in found):
        return fails(FindingCode.UNDEFINED)
    number = _every(p, found, case) if p.is_every else decide_count(p, found, case)
    if number.truth is Truth.FAILS:
        return number
    that = truths_of_that(p, found, doubts, case)
    if not that & TRUE:
        code = FindingCode.UNDEFINED if that == UNDEFINED else FindingCode.REQUIREMENT_FAILED
        return fails(code)
    may_break = any(m.mask & UNDEFINED for m in found) or bool(doubts_about(p, case, UNDEFINED))
    return UNKNOWN if number is UNKNOWN or may_break or that != TRUE else HOLDS


def decide_count(p: Pattern, found: list[Match], case: Case) -> Decided:
    """The interval of how many match, within the bounds of `count`."""
    least = sum(m.mask == TRUE for m in found)
    perhaps = sum(m.mask != TRUE and bool(m.mask & TRUE) for m in found)
    most = least + perhaps + further(p, found, doubts_about(p, case, TRUE))
    high = float("inf") if p.high is None else p.high
    if least > high:
        return fails(FindingCode.TOO_MANY_CHANGES)
    if most < p.low:
        return fails(FindingCode.MISSING_CHANGE)
    return HOLDS if p.low <= least and most <= high else UNKNOWN


def _every(p: Pattern, found: list[Match], case: Case) -> Decided:
    """`count: every`: each entity before that satisfies `where` has a selected change."""
    masks = {(m.change.type, key_order(m.change.key)): m.mask for m in found}
    doubts = doubts_about(p, case, TRUE)
    seen: list[Truths] = []
    for name in p.types:
        table = case.world.table(case.ends[0], name)
        seen += [] if table.is_complete else [OPEN]
        for order, (key, row) in table.rows.items():
            env: Env = {"it": Thing("before", name, key, row), "new": ABSENT}
            where = p.where[name]
            meant = TRUE if where is None else outcomes(where, case.world, env)
            met = masks.get((name, order), FALSE)
            about = [d for d in doubts if is_about(d, name, order)]
            met |= TRUE if met != TRUE and about else 0
            if meant == TRUE and met == UNDEFINED:
                met = FALSE
            if meant not in (TRUE, FALSE, UNDEFINED):
                met = (TRUE if met == TRUE else TRUE | met) | meant & UNDEFINED
            seen.append({FALSE: TRUE, UNDEFINED: UNDEFINED}.get(meant, met))
    if UNDEFINED in seen:
        return fails(FindingCode.UNDEFINED)
    if FALSE in seen:
        return fails(FindingCode.MISSING_CHANGE)
    return HOLDS if all(mask == TRUE for mask in seen) else UNKNOWN


_UNMET: Final = {Stage.FORBID: "FORBIDDEN_CONDITION", Stage.ANSWER: "CLAIM_REFUTED"}


def decide_condition(clause: Condition, case: Case) -> Decided:
    """An expression that must hold (require, claims) or must not (forbid)."""
    stage, world = clause.section, case.world
    asks = stage is Stage.ANSWER and any(r.root == "answer" for r in clause.reads)
    if asks and isinstance(world.answer, NoAnswer):
        return UNKNOWN if world.answer.is_unread else fails(FindingCode.ANSWER_MISSING)
    is_forbidden = stage is Stage.FORBID
    mask = settled(clause.node, world, {}, TRUE if is_forbidden else UNDEFINED)
    code = FindingCode[_UNMET.get(stage, "REQUIREMENT_FAILED")]
    if is_forbidden:
        return {TRUE: fails(code), FALSE: HOLDS}.get(mask, UNKNOWN)
    if mask & TRUE:
        return HOLDS if mask == TRUE else UNKNOWN
    return fails(FindingCode.UNDEFINED if mask == UNDEFINED else code)


_KINDS: Final[Mapping[str, Any]] = {
    "int": int, "decimal": int | Decimal, "text": str, "bool": bool, "list": tuple, "map": Map,
    "any": object,
}  # fmt: skip


def decide_answer(asked: Mapping[str, str], world: World) -> Decided:
    """The answer has the names and types that are asked for, in their order."""
    if isinstance(world.answer, NoAnswer):
        return UNKNOWN if world.answer.is_unread else fails(FindingCode.ANSWER_MISSING)
    for name, kind in asked.items():
        said = world.answer.get(name, ABSENT)
        if isinstance(said, Unobserved):
            return UNKNOWN
        is_bool = isinstance(said, bool)
        is_kind = kind in ("bool", "any") if is_bool else isinstance(said, _KINDS[kind])
        if name not in world.answer or not is_kind:
            return fails(FindingCode.ANSWER_INVALID)
    return HOLDS


# ---------------------------------------------------------------- fold


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


# ---------------------------------------------------------------- the frame


class Vote(NamedTuple):
    """A clause's word on whether it explains a delta."""

    delta: Delta
    mask: Truths


def votes_of(p: Pattern, case: Case) -> Iterator[Vote]:
    """The deltas that the pattern explains, or may, and the rows that go with what it matches.

    A require clause explains whatever it matches; an allow clause nothing beyond `count` and
    `that`.
    """
    found, bound = matches(p, case, case.changes), TRUE
    if p.section is not Stage.REQUIRE:
        doubts = doubts_about(p, case)
        found = qualify(p, found, doubts, case)
        if p.high is not None:
            is_within = len(found) + further(p, found, doubts) <= p.high
            is_beyond = sum(m.mask == TRUE for m in found) > p.high
            bound = FALSE if is_beyond else TRUE if is_within else OPEN
        if not p.speaks_of_each and bound != FALSE:
            that = truths_of_that(p, found, doubts, case)
            bound = FALSE if that == FALSE else bound if that == TRUE else OPEN
    for match in found:
        for delta in match.change.deltas:
            yield Vote(delta, _all_of(match.mask, _covers(p, delta, case), bound))


def _all_of(mask: Truths, covers: Truths, bound: Truths) -> Truths:
    if FALSE in (covers, bound):
        return FALSE
    return TRUE if mask == covers == bound == TRUE else OPEN


def _covers(p: Pattern, delta: Delta, case: Case) -> Truths:
    """The paths that the pattern selects include the delta's, and its principal made it."""
    made = TRUE if p.by is None else case.made_by(delta, p.by)
    if made != TRUE or p.fields is None:
        return made
    if delta.op is Op.UPDATE:
        return TRUE if selects(p, delta) else FALSE
    if p.names_fields and delta.is_of_mark:
        mark = case.schema.by_name[delta.type].deleted_when
        return TRUE if mark is not None and p.selects(mark, ()) else FALSE
    whole = delta.after if delta.op in COME else delta.before
    if not p.names_fields or not isinstance(whole, Entity):
        return TRUE
    key = case.schema.by_name[delta.type].key
    outside = [c for n, c in whole.fields if n not in key and not p.selects(n, (), c)]
    if any(isinstance(c, Digested) or (c is not None and is_value(c)) for c in outside):
        return FALSE
    return OPEN if any(isinstance(c, Unobserved) for c in outside) else TRUE


def explanations(patterns: Sequence[Pattern], case: Case, more: Iterable[Vote] = ()) -> list[Vote]:
    """The deltas of the case: TRUE by some vote, open by any that is not FALSE, else FALSE."""
    said: dict[int, Truths] = {}
    for delta, mask in (*(vote for p in patterns for vote in votes_of(p, case)), *more):
        held = said.get(id(delta), FALSE)
        said[id(delta)] = TRUE if TRUE in (mask, held) else held | mask
    found = [Vote(d, said.get(id(d), FALSE)) for c in case.changes for d in c.deltas]
    truths = [(d, _TRUTHS.get(mask, Truth.UNKNOWN)) for d, mask in found]
    for number, (truth, _) in following(case.schema, truths, times_of(case.world.timeline)).items():
        found[number] = Vote(found[number].delta, TRUE if truth is Truth.HOLDS else OPEN)
    return found


_TRUTHS: Final = {TRUE: Truth.HOLDS, FALSE: Truth.FAILS}


def decide_frame(
    patterns: Sequence[Pattern], case: Case, more: Iterable[Vote] = ()
) -> list[Decided]:
    """Every delta is explained, and every delta that there may be beside them."""
    masks = [mask for _, mask in explanations(patterns, case, more)]
    found = [fails(FindingCode.READINGS_PARTED) for d in case.doubts if is_parted(d)]
    found += [fails(FindingCode.UNEXPLAINED_CHANGE) for mask in masks if mask == FALSE]
    sure = [
        p
        for p in patterns
        if p.section is Stage.REQUIRE or (p.high is None and not any(p.that.values()))
    ]
    is_open = any(
        not is_parted(d) and all(possible(p, d, case) != TRUE for p in sure) for d in case.doubts
    )
    found += [UNKNOWN] if is_open or any(mask not in (TRUE, FALSE) for mask in masks) else []
    return found or [HOLDS]


def is_parted(doubt: Doubt) -> bool:
    """Readings of the place agreed before the run, and contradict each other after it."""
    return doubt.cause.partition(": ")[0] == PARTED


# ---------------------------------------------------------------- effects and derived fields


def decide_effect(rule: BoundEffect, case: Case) -> Decided | None:
    """Λ: every such change is authorized; None where the rule asks for no authorization."""
    if rule.authorized_by is None and rule.actor is None:
        return None
    kind = [c for c in case.everything if c.type == rule.type and c.op in rule.operations]
    certain = [_is_approved(rule, case, *case.sides(c)) for c in kind]
    doubted = [d for d in case.doubts if d.type == rule.type]
    perhaps = [
        _is_approved(rule, case, *w) for d in doubted for w in ways(d, rule.operations, case)
    ]
    if FALSE in certain:
        return fails(FindingCode.UNAUTHORIZED_EFFECT)
    return HOLDS if all(mask == TRUE for mask in (*certain, *perhaps)) else UNKNOWN


def _is_approved(rule: BoundEffect, case: Case, it: Result, new: Result | None) -> Truths:
    """The effect is authorized, and in the right name."""
    env: Env = {"it": it, "new": ABSENT if new is None else new}
    found = TRUE
    for node in (rule.authorized_by, rule.actor):
        if node is not None and found != FALSE:
            found = both(found, settled(node, case.world, env, FALSE))
    return found


def decide_derived(rule: Derived, case: Case) -> tuple[Decided, list[Vote]]:
    """A field that the system keeps equals its expression, or moved exactly as that moved.

    Its change is explained where it is kept and, of what was there before, the expression moved.
    """
    own = [c for c in case.changes if c.type == rule.type]
    come = {key_order(c.key) for c in own if c.op in COME}
    kept: dict[Any, Truths] = {}
    for key in _derived_of(rule, case):
        is_new = key_order(key) in come
        then = None if is_new else then_of(rule.type, key, case)
        kept[key_order(key)] = _is_kept(rule, case, case.thing(1, rule.type, key), then)
    votes = []
    for change in own:
        mask = kept.get(key_order(change.key), FALSE)
        then = then_of(rule.type, change.key, case)
        if mask == TRUE and then is not None and key_order(change.key) not in come:
            mask = _has_moved(rule, case, then, case.thing(1, rule.type, change.key))
        mask = without_undefined(mask)
        is_update = change.op is Op.UPDATE
        votes += [Vote(d, mask) for d in change.deltas if is_update and rule.keeps(d)]
    wrong = [mask for _, mask in sorted(kept.items()) if not mask & TRUE]
    if wrong:
        is_undefined = wrong[0] == UNDEFINED
        return fails(FindingCode.UNDEFINED if is_undefined else FindingCode.DERIVED_WRONG), votes
    is_open = any(d.type == rule.type and d.key is None for d in case.doubts)
    is_known = not is_open and all(mask == TRUE for mask in kept.values())
    return (HOLDS if is_known else UNKNOWN), votes


def _derived_of(rule: Derived, case: Case) -> Iterator[Key]:
    """The entities after the run of which something that the rule reads changed, or may have."""
    reads = {read.type for read in rule.reads}
    doubts = [d for d in case.doubts if d.type in reads]
    own = [c for c in case.changes if c.type == rule.type]
    gone = {key_order(c.key) for c in own if c.op in GONE}
    gone -= {key_order(c.key) for c in own if c.op in COME or any(map(rule.keeps, c.deltas))}
    touched = {key_order(c.key): c.key for c in own}
    touched |= {key_order(d.key): d.key for d in doubts if d.type == rule.type and d.key}
    if not rule.is_row_local and (doubts or any(c.type in reads for c in case.changes)):
        table = case.world.table(case.ends[1], rule.type)
        touched |= {order: key for order, (key, _) in table.rows.items()}
    yield from (key for order, key in touched.items() if order not in gone)


def then_of(name: str, key: Key, case: Case) -> Thing | None:
    """The entity before the run; None where it was not there."""
    found = case.thing(0, name, key)
    may_be = found.row is not None or case.world.table(case.ends[0], name).may_miss(key)
    return found if may_be else None


def _is_kept(rule: Derived, case: Case, now: Thing, then: Thing | None) -> Truths:
    mask = outcomes(rule.after, case.world, {"it": now})
    if mask == TRUE or then is None:
        return mask
    new = [value(n, case.world, {"it": now}) for n in (rule.after.left, rule.after.right)]
    old = [value(n, case.world, {"it": then}) for n in (rule.before.left, rule.before.right)]
    moved = moved_alike((old[0], new[0]), (old[1], new[1]))
    return TRUE if moved == TRUE else mask | moved & TRUE


def moved_alike(of_field: tuple[Result, Result], of_rule: tuple[Result, Result]) -> Truths:
    """The field moved exactly as the expression did; where that is undefined, it stayed."""
    every = (*of_field, *of_rule)
    if any(isinstance(part, Some) for part in every):
        return OPEN
    stayed = likeness(of_field[0]) == likeness(of_field[1])
    if NO_VALUE in of_rule:
        alike = stayed and of_rule == (NO_VALUE, NO_VALUE)
    elif all(map(is_finite, every)):
        (a, b), (x, y) = (tuple(map(Fraction, pair)) for pair in (of_field, of_rule))
        alike = b - a == y - x
    else:
        alike = stayed and likeness(of_rule[0]) == likeness(of_rule[1])
    return TRUE if alike else FALSE


def _has_moved(rule: Derived, case: Case, then: Thing, now: Thing) -> Truths:
    """The expression moved: who put right a field that was not kept was not the system."""
    was = value(rule.before.right, case.world, {"it": then})
    is_now = value(rule.after.right, case.world, {"it": now})
    if isinstance(was, Some) or isinstance(is_now, Some):
        return OPEN
    is_same = NO_VALUE not in (was, is_now) and likeness(was) == likeness(is_now)
    return FALSE if is_same else TRUE
