"""The truth of forbid, require, effect and answer clauses, with the findings that show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import networkx as nx

from statediff.contract.bound import Condition, Effect, Pattern
from statediff.contract.evaluation import outcomes
from statediff.contract.syntax import Read
from statediff.contract.world import (
    FALSE,
    TRUE,
    UNDEFINED,
    Crowd,
    Env,
    Seen,
    Thing,
    TooCostly,
    World,
)
from statediff.model.delta import Delta, Label, Op
from statediff.model.readings import History
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT, Map, Unobserved, Value, show_key
from statediff.model.verdict import Finding, Stage, Truth
from statediff.policy.matching import Change, Judge, Match, section_mask
from statediff.policy.witness import (
    cause_code,
    component_of,
    deciding,
    deltas_text,
    witness_of,
)

_RISK = {Label.IRREVERSIBLE: 0, Label.CONDITIONAL: 1, Label.REVERSIBLE: 2}


def truth_of_mask(mask: int) -> Truth:
    """A decided mask as HOLDS or FAILS, anything else as UNKNOWN."""
    return {TRUE: Truth.HOLDS, FALSE: Truth.FAILS}.get(mask, Truth.UNKNOWN)


def risk(deltas: Iterable[Delta]) -> int:
    """Order of report: 0 if any delta is irreversible, 1 conditional, 2 reversible."""
    return min((_RISK[d.label] for d in deltas), default=1)


def evidence_of(deltas: Iterable[Delta]) -> tuple[str, ...]:
    """The readings behind the deltas, sorted."""
    return tuple(sorted({e for d in deltas for e in d.evidence}))


def unknown(clause: str, stage: Stage, causes: Iterable[str], seen: tuple[Seen, ...] = (),
            deltas: tuple[Delta, ...] = ()) -> Finding:
    """The finding of a clause that cannot be decided: what is missing, and who owns the gap."""
    missing = tuple(sorted(set(causes))) or ("a value the clause needs",)
    code = cause_code(missing)
    return Finding(
        clause, code, stage, Truth.UNKNOWN, f"{missing[0]}; needed by {clause}",
        component_of(code), tuple(d.id for d in deltas), evidence_of(deltas),
        witness_of(seen, deltas), missing, risk(deltas) if deltas else 1)


def holds(clause: str, stage: Stage, sentence: str, deltas: tuple[Delta, ...] = ()) -> Finding:
    """The finding of a clause with which nothing is wrong."""
    return Finding(clause, "holds", stage, Truth.HOLDS, sentence, "policy",
                   tuple(d.id for d in deltas), evidence_of(deltas))


# ---------------------------------------------------------------- forbid


def forbid_pattern(pattern: Pattern, judge: Judge, hidden: tuple[Change, ...],
                   history: History | Unobserved) -> Finding:
    """Γ: fires on any matching delta, hidden ones included; ν may not hide what Γ matches."""
    matches = judge.matches(pattern) + judge.matches(pattern, hidden)
    definite = [m for m in matches if m.holds]
    doubts = [d for d in judge.doubts if judge.possible(pattern, d) & ~FALSE]
    causes = {f"{d.where}: {d.cause}" for d in doubts}
    uncertain = [m for m in matches if not m.holds]
    for match in uncertain:
        causes |= match.causes or set(match.undefined)
    threshold = max(pattern.low, 1)
    that, seen = _that(pattern, judge, definite, causes)
    fired = len(definite) >= threshold and that == TRUE
    deltas = tuple(d for m in definite for d in _selected(pattern, m.change))
    if fired:
        trail = tuple(s for m in definite for s in m.seen) + seen
        return Finding(
            pattern.id, "forbidden-change", pattern.section or Stage.FORBID, Truth.FAILS,
            deltas_text(deltas), "policy", tuple(d.id for d in deltas), evidence_of(deltas),
            witness_of(trail, deltas), (), risk(deltas))
    may_fire = len(definite) + len(uncertain) + len(doubts) >= threshold and that != FALSE
    if any(d.key is None for d in doubts):
        may_fire = that != FALSE or not definite or bool(uncertain) or bool(doubts)
    if may_fire and (uncertain or doubts or (definite and that != FALSE)):
        undefined = any(m.mask & UNDEFINED for m in uncertain) and not doubts
        finding = unknown(pattern.id, Stage.FORBID, causes, seen,
                          tuple(d for m in uncertain for d in m.change.deltas))
        return replace(finding, code="undefined", component="policy") if (
            undefined and not any(m.causes for m in uncertain)) else finding
    if pattern.during_run and not isinstance(history, History):
        return _no_history(pattern.id, Stage.FORBID, history)
    return holds(pattern.id, Stage.FORBID, "no such change")


def _no_history(clause: str, stage: Stage, history: Unobserved) -> Finding:
    cause = f"history: {history.cause}"
    return Finding(clause, "history-unobserved", stage, Truth.UNKNOWN,
                   f"{cause}; needed by {clause}", "capture", missing=(cause,))


def _that(pattern: Pattern, judge: Judge, matched: list[Match],
          causes: set[str]) -> tuple[int, tuple[Seen, ...]]:
    """The outcomes of `that` over the matched entities; TRUE where the clause has none."""
    nodes = [pattern.that[name] for name in pattern.types if pattern.that[name] is not None]
    if not nodes:
        return TRUE, ()
    world = judge.world(pattern.reads)
    # Causes so far are doubts about who belongs to `them`.
    crowd = Crowd(tuple(m.it for m in matched), pattern.types[0],
                  matched[0].it.side if matched else "after", frozenset(causes))
    try:
        if _uses_them_only(pattern):
            env: Env = {"them": crowd, "it": ABSENT, "new": ABSENT}
            mask = outcomes(nodes[0], world, env)  # type: ignore[arg-type]  # not None
        else:
            mask = _each(pattern, matched, world, crowd)
    except TooCostly:
        world.causes.add("too costly: the clause needs too many steps")
        mask = TRUE | FALSE
    causes |= world.causes
    if mask == UNDEFINED:
        causes.update(world.undefined)
    return mask, tuple(world.seen)


def _uses_them_only(pattern: Pattern) -> bool:
    from statediff.contract.syntax import Variable, walk

    return not any(isinstance(part, Variable) and part.name in ("it", "new")
                   for node in pattern.that.values() if node is not None for part in walk(node))


def _each(pattern: Pattern, matched: list[Match], world: World, crowd: Crowd) -> int:
    total = TRUE
    for match in matched:
        node = pattern.that[match.change.type]
        if node is None:
            continue
        env: Env = {"it": match.it, "new": ABSENT if match.new is None else match.new,
                    "them": crowd}
        mask = outcomes(node, world, env)
        if mask == FALSE:
            return FALSE
        total |= mask
        if not mask & TRUE:
            total &= ~TRUE
    if crowd.incomplete:
        total |= FALSE
    return total


def _selected(pattern: Pattern, change: Change) -> tuple[Delta, ...]:
    if change.op is not Op.UPDATE or pattern.fields is None:
        return change.deltas
    return tuple(d for d in change.deltas if d.path in pattern.fields)


def condition(clause: Condition, judge: Judge) -> Finding:
    """An expression clause: must hold (require, claims) or must not (forbid)."""
    world = judge.world(clause.reads)
    stage = clause.section
    try:
        mask = outcomes(clause.node, world, {})
    except TooCostly:
        return unknown(clause.id, stage, ["too costly: the clause needs too many steps"])
    seen = tuple(world.seen)
    if stage is Stage.FORBID:
        if mask == UNDEFINED:
            return Finding(clause.id, "undefined", stage, Truth.UNKNOWN,
                           world.undefined[-1], missing=(world.undefined[-1],),
                           witness=witness_of(seen))
        mask = {TRUE: FALSE, FALSE: TRUE}.get(mask, mask)
    elif stage is Stage.ANSWER and isinstance(judge.answer, NoAnswer) and any(
            r.root == "answer" for r in clause.reads):
        return Finding(clause.id, "answer-missing", stage, Truth.FAILS,
                       f"there is no answer: {judge.answer.cause}")
    else:
        if mask == UNDEFINED:
            return Finding(clause.id, "undefined", stage, Truth.FAILS, world.undefined[-1],
                           witness=witness_of(seen))
        mask = section_mask(mask, FALSE)
    truth = truth_of_mask(mask)
    if truth is Truth.UNKNOWN:
        return unknown(clause.id, stage, world.causes, seen)
    if truth is Truth.HOLDS:
        return holds(clause.id, stage, clause.sentence)
    code = {Stage.FORBID: "forbidden-condition", Stage.ANSWER: "claim-refuted"}.get(
        stage, "requirement-failed")
    shown = deciding(seen, TRUE if stage is Stage.FORBID else FALSE) or clause.text
    return Finding(clause.id, code, stage, Truth.FAILS, shown, witness=witness_of(seen))


# ---------------------------------------------------------------- require


def require_pattern(pattern: Pattern, judge: Judge, by_id: Mapping[str, Pattern],
                    history: History | Unobserved) -> Finding:
    """Φ: the number of matching entities and what must hold of them."""
    stage = Stage.REQUIRE
    if pattern.is_every:
        return _every(pattern, judge)
    matches = judge.matches(pattern)
    broken = next((m for m in matches if m.mask == UNDEFINED), None)
    if broken is not None:
        deltas = broken.change.deltas
        return Finding(pattern.id, "undefined", stage, Truth.FAILS, broken.undefined[-1],
                       "policy", tuple(d.id for d in deltas), evidence_of(deltas),
                       witness_of(broken.seen, deltas))
    definite = [m for m in matches if m.holds]
    uncertain = [m for m in matches if section_mask(m.mask, FALSE) not in (TRUE, FALSE)]
    doubts = [d for d in judge.doubts if judge.possible(pattern, d) & TRUE]
    causes = {f"{d.where}: {d.cause}" for d in doubts}.union(*(m.causes for m in uncertain))
    deltas = tuple(d for m in definite for d in _selected(pattern, m.change))
    number = len(definite)
    unbounded = any(d.key is None for d in doubts)
    most = None if unbounded else number + len(uncertain) + len(doubts)
    if pattern.high is not None and number > pattern.high:
        return Finding(
            pattern.id, "too-many-changes", stage, Truth.FAILS,
            f"{number} {_noun(pattern)} match, at most {pattern.high} may: {_names(definite)}",
            "policy", tuple(d.id for d in deltas), evidence_of(deltas),
            witness_of((), deltas), (), risk(deltas))
    if most is not None and most < pattern.low:
        return _missing(pattern, judge, number)
    counted = number >= pattern.low and (
        pattern.high is None or (most is not None and most <= pattern.high))
    that, seen = _that(pattern, judge, definite, set(causes) if uncertain or doubts else set())
    if that == UNDEFINED:
        return Finding(pattern.id, "undefined", stage, Truth.FAILS,
                       f"`that` is undefined over {_names(definite) or 'nothing'}", "policy",
                       tuple(d.id for d in deltas), evidence_of(deltas),
                       witness_of(seen, deltas))
    that = section_mask(that, FALSE)
    if that == FALSE:
        return Finding(pattern.id, "requirement-failed", stage, Truth.FAILS,
                       deciding(seen, FALSE) or f"`that` fails over {_names(definite)}", "policy",
                       tuple(d.id for d in deltas), evidence_of(deltas),
                       witness_of(seen, deltas))
    if not counted or that != TRUE:
        world_causes = set(causes) or {"whether it holds of all that match"}
        return unknown(pattern.id, stage, world_causes, seen, deltas)
    shared = _shares(pattern, judge, by_id)
    if shared is not None:
        return shared
    if pattern.during_run and not isinstance(history, History):
        return _no_history(pattern.id, stage, history)
    return holds(pattern.id, stage, _names(definite) or "as required", deltas)


def _every(pattern: Pattern, judge: Judge) -> Finding:
    """`count: every`: each entity before that satisfies `where` has a selected change."""
    stage = Stage.REQUIRE
    by_entity = {(c.type, c.key): c for c in judge.changes if c.op in pattern.operations}
    causes: set[str] = set()
    failing: list[str] = []
    undefined = ""
    number = 0
    reads = pattern.reads
    for name in pattern.types:
        enumeration = judge.before.enumeration(name)
        if not enumeration.is_complete:
            causes.add(f"{name} before: {enumeration.cause}")
        fields = tuple(f.name for f in judge.before.schema.by_name[name].fields)
        for key, row in judge.before.rows(name, fields):
            world = judge.world(reads)
            it = Thing("before", name, key, row)
            where = pattern.where[name]
            mask = TRUE if where is None else outcomes(where, world, {"it": it, "new": ABSENT})
            if mask == UNDEFINED:
                undefined = world.undefined[-1]
                continue
            if mask == FALSE:
                continue
            change = by_entity.get((name, key))
            match = None if change is None else judge.match(pattern, change)
            met = FALSE if match is None else section_mask(match.mask, FALSE)
            doubts = [d for d in judge.doubts if d.type == name and d.key in (None, key)
                      and judge.possible(pattern, d) & TRUE]
            if met != TRUE and doubts:
                met = TRUE | FALSE
                causes |= {f"{d.where}: {d.cause}" for d in doubts}
            if mask == TRUE and met == FALSE:
                failing.append(f"{name} {show_key(key)}")
            elif (mask != TRUE and met != TRUE) or met not in (TRUE, FALSE):
                causes |= world.causes | (set(match.causes) if match else set())
            number += 1
    if undefined:
        return Finding(pattern.id, "undefined", stage, Truth.FAILS, undefined)
    if failing:
        more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
        return Finding(pattern.id, "missing-change", stage, Truth.FAILS,
                       f"{failing[0]}{more} not changed as required")
    if causes:
        return unknown(pattern.id, stage, causes)
    return holds(pattern.id, stage, f"all {number} changed as required")


def _shares(pattern: Pattern, judge: Judge, by_id: Mapping[str, Pattern]) -> Finding | None:
    """`distinct`: enough different entities exist for this clause and the ones it names."""
    if not pattern.distinct:
        return None
    group = [pattern, *(by_id[name] for name in pattern.distinct if name in by_id)]
    graph: nx.Graph[object] = nx.Graph()
    slots: list[object] = []
    for member in group:
        matched = [m.change for m in judge.matches(member) if m.holds]
        for slot in range(member.low):
            slots.append((member.id, slot))
            graph.add_node((member.id, slot))
            graph.add_edges_from(((member.id, slot), (c.type, c.key, c.op)) for c in matched)
    pairs = nx.bipartite.hopcroft_karp_matching(graph, slots)
    if all(slot in pairs for slot in slots):
        return None
    others = ", ".join(pattern.distinct)
    return Finding(pattern.id, "not-distinct", Stage.REQUIRE, Truth.FAILS,
                   f"one change would have to count for both {pattern.id} and {others}")


def _missing(pattern: Pattern, judge: Judge, number: int) -> Finding:
    """Too few: shows the changes of the right type that came closest."""
    near: list[Match] = []
    for change in judge.changes:
        match = judge.match(pattern, change)
        if match is not None and match.fails:
            near.append(match)
    wanted = f"at least {pattern.low}" if pattern.high != pattern.low else f"{pattern.low}"
    found = f"{number} {_noun(pattern)} match, {wanted} required"
    if near:
        reason = deciding(near[0].seen, FALSE)
        found += f"; {near[0].change.type} {show_key(near[0].change.key)} does not" + (
            f": {reason}" if reason else "")
    deltas = tuple(d for m in near for d in m.change.deltas)
    return Finding(pattern.id, "missing-change", Stage.REQUIRE, Truth.FAILS, found, "policy",
                   tuple(d.id for d in deltas), evidence_of(deltas),
                   witness_of((s for m in near for s in m.seen), deltas))


def _noun(pattern: Pattern) -> str:
    return " or ".join(pattern.types)


def _names(matches: list[Match]) -> str:
    shown = [f"{m.change.type} {show_key(m.change.key)}" for m in matches[:4]]
    more = f" and {len(matches) - 4} more" if len(matches) > 4 else ""
    return ", ".join(shown) + more


# ---------------------------------------------------------------- effects and answer


@dataclass(frozen=True)
class _Asked:
    finding: Finding | None
    causes: frozenset[str]


def effect(rule: Effect, judge: Judge, hidden: tuple[Change, ...]) -> Finding | None:
    """Λ: every matching effect is authorized. None where the rule asks for no authorization."""
    node = rule.authorized_by
    if node is None:
        return None
    causes: set[str] = set()
    for change in (*judge.changes, *hidden):
        if change.type != rule.type or change.op not in rule.operations:
            continue
        gone = change.op in (Op.DELETE, Op.UNLINK)
        new = ABSENT if gone else judge.thing("after", change.type, change.key)
        it = new if change.op in (Op.CREATE, Op.LINK) else judge.thing(
            "before", change.type, change.key)
        world = judge.world(rule.reads)
        try:
            mask = outcomes(node, world, {"it": it, "new": new})
        except TooCostly:
            mask = TRUE | FALSE
            world.causes.add("too costly: the clause needs too many steps")
        if mask == FALSE:
            deltas = change.deltas
            shown = deciding(tuple(world.seen), FALSE)
            return Finding(
                rule.id, "unauthorized-effect", Stage.FORBID, Truth.FAILS,
                f"{deltas_text(deltas)} without authorization" + (f": {shown}" if shown else ""),
                "policy", tuple(d.id for d in deltas), evidence_of(deltas),
                witness_of(world.seen, deltas), (), risk(deltas))
        if mask != TRUE:
            causes |= world.causes or set(world.undefined)
    for doubt in judge.doubts:
        if doubt.type == rule.type and not (doubt.path and Op.UPDATE not in rule.operations):
            causes.add(f"{doubt.where}: {doubt.cause}")
    if causes:
        return unknown(rule.id, Stage.FORBID, causes)
    return holds(rule.id, Stage.FORBID, "every such effect is authorized")


_ANSWER_KINDS = {"int": int, "text": str, "bool": bool, "list": tuple, "map": Map}


def answer_shape(schema: Mapping[str, str], answer: Mapping[str, Value] | NoAnswer) -> Finding:
    """The answer has the names and types that the contract asks for."""
    if isinstance(answer, NoAnswer):
        return Finding("answer", "answer-missing", Stage.ANSWER, Truth.FAILS,
                       f"there is no answer: {answer.cause}")
    for name, kind in schema.items():
        if name not in answer:
            return Finding("answer", "answer-invalid", Stage.ANSWER, Truth.FAILS,
                           f"the answer lacks `{name}`")
        if not _is_kind(answer[name], kind):
            return Finding("answer", "answer-invalid", Stage.ANSWER, Truth.FAILS,
                           f"`{name}` of the answer is not {kind}")
    return holds("answer", Stage.ANSWER, "the answer has the form asked for")


def _is_kind(value: Value, kind: str) -> bool:
    from decimal import Decimal

    if kind == "any":
        return True
    if kind == "decimal":
        return isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, _ANSWER_KINDS[kind])


def reads_of(clause: Pattern | Condition | Effect) -> frozenset[Read]:
    """What the clause reads."""
    return clause.reads
