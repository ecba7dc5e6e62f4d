"""The whole of stage 4: every clause, then the fold and the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from statediff.contract.bound import Condition, Contract, Pattern
from statediff.model.delta import Delta, Diff, Doubt
from statediff.model.readings import History
from statediff.model.trace import NoAnswer
from statediff.model.values import Unobserved, Value
from statediff.model.verdict import (
    RESULT_OF_STAGE,
    ClauseTruth,
    Finding,
    Judgement,
    Metrics,
    Result,
    Stage,
    Truth,
    Verdict,
)
from statediff.model.view import View
from statediff.policy.admission import Refusal
from statediff.policy.clauses import (
    answer_shape,
    condition,
    effect,
    forbid_pattern,
    require_pattern,
)
from statediff.policy.frame import Explanation, explain, frame
from statediff.policy.matching import Judge, changes

_STAGES = list(Stage)
_TRUTHS = {Truth.FAILS: 0, Truth.UNKNOWN: 1, Truth.HOLDS: 2}


@dataclass(frozen=True)
class Evidence:
    """What the judgement rests on: both views, the diff, the answer, and what was refused."""

    before: View
    after: View
    diff: Diff
    answer: Mapping[str, Value] | NoAnswer
    history: History | Unobserved = Unobserved("no change feed was attached")
    refusals: tuple[Refusal, ...] = ()
    begin: Callable[[str], None] = lambda _clause: None
    """Called with the id of each clause before it is evaluated, so that reads can be attributed."""


def judge(contract: Contract, evidence: Evidence) -> Judgement:
    """The judgement of one trial. Deterministic; every clause is evaluated."""
    diff = label(contract, evidence.diff)
    room = Judge(evidence.before, evidence.after, diff.deltas, diff.doubts, evidence.answer)
    hidden = changes(h.delta for h in diff.hidden if not h.by_boundary)
    summaries: dict[str, tuple[Stage, str]] = {}
    findings: list[Finding] = []

    def add(found: Iterable[Finding], sentence: str) -> None:
        for finding in found:
            summaries.setdefault(finding.clause, (finding.stage, sentence))
            findings.append(finding)

    by_id = {p.id: p for p in contract.patterns}
    for clause in contract.forbid:
        evidence.begin(clause.id)
        if isinstance(clause, Condition):
            add([condition(clause, room)], clause.sentence)
        else:
            add([forbid_pattern(clause, room, hidden, evidence.history)], clause.sentence)
    for rule in contract.effects:
        evidence.begin(rule.id)
        asked = effect(rule, room, hidden)
        if asked is not None:
            add([asked], rule.sentence)
    evidence.begin("frame")
    explaining = [p for p in contract.patterns if p.section is not Stage.FORBID]
    explanations = explain(explaining, room)
    add(_frame(contract, explanations, explaining, room, evidence), _frame_sentence(contract))
    for clause in contract.require:
        evidence.begin(clause.id)
        if isinstance(clause, Condition):
            add([condition(clause, room)], clause.sentence)
        else:
            add([require_pattern(clause, room, by_id, evidence.history)], clause.sentence)
    schema = contract.document.answer.schema_
    if schema:
        add([answer_shape(schema, evidence.answer)],
            "The answer states " + ", ".join(n.replace("_", " ") for n in schema) + ".")
    for claim in contract.claims:
        evidence.begin(claim.id)
        add([condition(claim, room)], claim.sentence)
    evidence.begin("")
    ordered = tuple(sorted(findings, key=_report_order))
    clauses = tuple(
        ClauseTruth(name, stage, _kleene(f.truth for f in findings if f.clause == name), sentence)
        for name, (stage, sentence) in summaries.items())
    return Judgement(
        fold(clauses), _result(clauses, Result.TOOL), _result(clauses, Result.TASK),
        _result(clauses, Result.OUTCOME), clauses, ordered,
        metrics(contract, diff, ordered, explanations, room), diff.deltas,
        tuple((e.delta.id, e.by) for e in explanations), diff.hidden, diff.doubts)


def _frame_sentence(contract: Contract) -> str:
    if contract.frame_is_open:
        return "Every source that must report has reported."
    return "Nothing else changes."


def _frame(contract: Contract, explanations: tuple[Explanation, ...], explaining: list[Pattern],
           room: Judge, evidence: Evidence) -> Iterable[Finding]:
    missing = [r for r in evidence.refusals if r.cause.startswith("missing")]
    if contract.frame_is_open and not missing:
        return ()
    found = [] if contract.frame_is_open else list(frame(explanations, explaining, room))
    needs_history = [r.source for r in contract.evidence if r.needs_history]
    if needs_history and not isinstance(evidence.history, History):
        cause = f"history of {', '.join(needs_history)}: {evidence.history.cause}"
        found.append(Finding("frame", "history-unobserved", Stage.FRAME, Truth.UNKNOWN,
                             f"{cause}; needed by frame", "capture", missing=(cause,)))
    found += [
        Finding("frame", "evidence-missing", Stage.FRAME, Truth.UNKNOWN,
                f"{r.source} {r.side}: {r.cause}", "capture", missing=(f"{r.source} {r.side}",))
        for r in missing]
    if any(f.truth is not Truth.HOLDS for f in found):
        found = [f for f in found if f.truth is not Truth.HOLDS]
    return found


def _report_order(finding: Finding) -> tuple[int, int, int]:
    return (_TRUTHS[finding.truth], _STAGES.index(finding.stage), finding.rank)


def _kleene(truths: Iterable[Truth]) -> Truth:
    present = set(truths)
    if Truth.FAILS in present:
        return Truth.FAILS
    return Truth.UNKNOWN if Truth.UNKNOWN in present else Truth.HOLDS


def fold(clauses: Iterable[ClauseTruth]) -> Verdict:
    """Violation beats unknown beats match. No clause at all is no match."""
    entries = list(clauses)
    if not entries:
        return Verdict.INCONCLUSIVE
    truth = _kleene(entry.truth for entry in entries)
    return {Truth.FAILS: Verdict.DIVERGE, Truth.UNKNOWN: Verdict.INCONCLUSIVE,
            Truth.HOLDS: Verdict.MATCH}[truth]


def _result(clauses: tuple[ClauseTruth, ...], result: Result) -> Verdict | None:
    own = [c for c in clauses if RESULT_OF_STAGE[c.stage] is result]
    return fold(own) if own else None


def label(contract: Contract, diff: Diff) -> Diff:
    """The diff with the labels ℓ that the contract declares over the defaults."""
    declared = {(op, e.type): e.label for e in contract.effects if e.label is not None
                for op in e.operations}
    if not declared:
        return diff

    def relabel(delta: Delta) -> Delta:
        found = declared.get((delta.op, delta.type))
        return delta if found is None else replace(delta, label=found)

    return replace(diff, deltas=tuple(relabel(d) for d in diff.deltas),
                   hidden=tuple(replace(h, delta=relabel(h.delta)) for h in diff.hidden))


def metrics(contract: Contract, diff: Diff, findings: tuple[Finding, ...],
            explanations: tuple[Explanation, ...], room: Judge) -> Metrics:
    """[SSD eqs. 5–6] by DESIGN.md §3: what is only allowed does not count against precision."""
    required = {p.id for p in contract.require}
    explained = [e for e in explanations if required & set(e.by)]
    violations = {i for f in findings if f.truth is Truth.FAILS
                  and f.stage in (Stage.FORBID, Stage.FRAME) for i in f.deltas}
    counted = [e for e in explanations
               if required & set(e.by) or not e.by or e.delta.id in violations]
    precision = Fraction(len(explained), len(counted)) if counted else None
    wanted = reached = 0
    truths = {f.clause: f.truth for f in findings if f.stage is Stage.REQUIRE}
    for clause in contract.require:
        if isinstance(clause, Pattern) and not clause.is_every:
            wanted += clause.low
            reached += min(clause.low, sum(m.holds for m in room.matches(clause)))
        else:
            wanted += 1
            reached += truths.get(clause.id) is Truth.HOLDS
    recall = Fraction(reached, wanted) if wanted else None
    weights = contract.weights
    total = sum(weights[d.label] for d in diff.deltas)
    harmful = sum(weights[d.label] for d in diff.deltas if d.id in violations)
    return Metrics(precision, recall, Fraction(harmful, max(1, total)))


def doubts_of(refusals: Iterable[Refusal], types_of: Mapping[str, tuple[str, ...]]) -> tuple[
        Doubt, ...]:
    """One doubt per type whose reading was refused on either side."""
    return tuple(Doubt(name, None, None, r.cause, "policy", r.source)
                 for r in refusals for name in types_of.get(r.source, ()))
