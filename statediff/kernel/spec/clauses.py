"""Clauses over two states and their changes: bounds on how many match, and what holds of them.

A pattern has an interval of how many changes match: those that do, and those that may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, Final

from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.language.syntax import Node
from statediff.kernel.spec.by_run import settled
from statediff.kernel.spec.changes import (
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
)
from statediff.kernel.spec.expressions import outcomes
from statediff.kernel.spec.values import (
    FALSE,
    OPEN,
    TRUE,
    UNDEFINED,
    Crowd,
    Env,
    Thing,
    Truths,
    World,
    both,
)
from statediff.model.codes import FindingCode, Stage, Truth
from statediff.model.delta import Doubt
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT, Map, Unobserved, key_order
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
