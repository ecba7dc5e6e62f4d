"""The frame: every delta must be explained (DESIGN.md §3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statediff.contract.bound import Pattern
from statediff.contract.world import FALSE, TRUE
from statediff.model.delta import Delta, Doubt, Op
from statediff.model.values import is_value
from statediff.model.verdict import Finding, Stage, Truth
from statediff.policy.clauses import _that as that_of
from statediff.policy.clauses import evidence_of, holds, risk, unknown
from statediff.policy.matching import Change, Judge, Match
from statediff.policy.witness import delta_text, deltas_text, witness_of


@dataclass(frozen=True)
class Explanation:
    """A delta with the clauses that explain it, or may."""

    delta: Delta
    by: tuple[str, ...]
    truth: Truth
    causes: frozenset[str] = frozenset()


def explain(patterns: Sequence[Pattern], judge: Judge) -> tuple[Explanation, ...]:
    """Each delta, in order, with the truth of its being explained by some pattern."""
    found: dict[int, list[tuple[Pattern, Match, int]]] = {}
    for pattern in patterns:
        matches = judge.matches(pattern)
        bound = _within_bounds(pattern, judge, matches)
        for match in matches:
            for delta in match.change.deltas:
                found.setdefault(id(delta), []).append((pattern, match, bound))
    result: list[Explanation] = []
    for change in judge.changes:
        for delta in change.deltas:
            result.append(_explain_one(delta, change, judge, found.get(id(delta), [])))
    return tuple(result)


def _explain_one(delta: Delta, change: Change, judge: Judge,
                 candidates: list[tuple[Pattern, Match, int]]) -> Explanation:
    by: list[str] = []
    causes: set[str] = set()
    truth = Truth.FAILS
    for pattern, match, bound in candidates:
        if not _covers(pattern, delta, judge):
            continue
        if match.holds and bound == TRUE:
            by.append(pattern.id)
            truth = Truth.HOLDS
        elif truth is not Truth.HOLDS and bound != FALSE and not match.fails:
            truth = Truth.UNKNOWN
            causes |= match.causes or set(match.undefined)
    return Explanation(delta, tuple(by), truth, frozenset(causes))


def _within_bounds(pattern: Pattern, judge: Judge, matches: list[Match]) -> int:
    """For an allow clause: whether `count` and `that` let it explain. A require clause explains
    whatever it matches; that there are too many is its own finding.
    """
    if pattern.section is Stage.REQUIRE:
        return TRUE
    definite = [m for m in matches if m.holds]
    if pattern.high is not None:
        if len(definite) > pattern.high:
            return FALSE
        if len(matches) > pattern.high:
            return TRUE | FALSE
    mask, _ = that_of(pattern, judge, definite, set())
    return mask if mask in (TRUE, FALSE) else TRUE | FALSE


def _covers(pattern: Pattern, delta: Delta, judge: Judge) -> bool:
    """Whether the pattern's selected paths include the delta's."""
    if pattern.fields is None:
        return True
    if delta.op is Op.UPDATE:
        return delta.path in pattern.fields
    if not pattern.names_fields:
        return True
    entity = judge.after.schema.by_name[delta.type]
    value = delta.after if delta.op in (Op.CREATE, Op.LINK) else delta.before
    filled = {name for name, held in getattr(value, "fields", ())
              if held is not None and is_value(held)}
    return filled <= set(pattern.fields) | set(entity.key)


def frame(explanations: tuple[Explanation, ...], patterns: Sequence[Pattern],
          judge: Judge) -> tuple[Finding, ...]:
    """The findings of the frame: one per entity with an unexplained change, or one that holds."""
    findings: list[Finding] = []
    groups: dict[tuple[str, object, Op], list[Delta]] = {}
    for entry in explanations:
        if entry.truth is Truth.FAILS:
            d = entry.delta
            groups.setdefault((d.type, d.key, d.op), []).append(d)
    for group in groups.values():
        deltas = tuple(group)
        findings.append(Finding(
            "frame", "unexplained-change", Stage.FRAME, Truth.FAILS, deltas_text(deltas),
            "policy", tuple(d.id for d in deltas), evidence_of(deltas), witness_of((), deltas),
            (), risk(deltas)))
    unsure = [e for e in explanations if e.truth is Truth.UNKNOWN]
    causes = {f"{delta_text(e.delta)}: {c}" for e in unsure
              for c in (e.causes or ("whether a clause explains it",))}
    for doubt in judge.doubts:
        if not _harmless(doubt, patterns, judge):
            causes.add(f"{doubt.where}: {doubt.cause}")
    if causes:
        findings.append(unknown("frame", Stage.FRAME, causes, (),
                                tuple(e.delta for e in unsure)))
    if not findings:
        deltas = tuple(e.delta for e in explanations)
        findings.append(holds("frame", Stage.FRAME, f"all {len(deltas)} changes are explained",
                              deltas))
    return tuple(findings)


def _harmless(doubt: Doubt, patterns: Sequence[Pattern], judge: Judge) -> bool:
    """Whether some pattern would explain the doubted change in every completion."""
    return any(
        pattern.high is None and all(n is None for n in pattern.that.values())
        and not pattern.by and judge.possible(pattern, doubt) == TRUE
        for pattern in patterns)
