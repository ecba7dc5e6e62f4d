"""The whole of stage 4: every clause, then the fold and the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from statediff.contract.binding.assertions import Asserted, AtCalls, Occurrence
from statediff.contract.binding.bound import Contract, Effect, Pattern
from statediff.contract.language.english import words
from statediff.contract.language.syntax import CALL_TYPE, Read
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Diff, Label, Op
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value
from statediff.model.verdict import (
    ClauseTruth,
    Finding,
    Judgement,
    Result,
    Stage,
    Truth,
    Verdict,
)
from statediff.model.view import View
from statediff.policy.access import judge_access
from statediff.policy.actions import actions
from statediff.policy.admission import Refusal
from statediff.policy.attribution.changes import (
    MARKED_READS,
    READS,
    Attribution,
    attribution,
    is_marked,
)
from statediff.policy.branches import best, combined, judge_branches
from statediff.policy.conditions import answer_shape, condition
from statediff.policy.derived import derived_clause
from statediff.policy.forbid import effect
from statediff.policy.frame import ExplanationVote, explain, frame
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.history.states_after_calls import with_states_after_calls
from statediff.policy.matching import Change, JudgingContext, changes
from statediff.policy.metrics import metrics
from statediff.policy.retries import repeated, with_compensation
from statediff.policy.run import CallContext
from statediff.policy.sections import ClauseRunner
from statediff.policy.steps import step
from statediff.policy.transient_changes import FrameCoverage, frame_within
from statediff.policy.transition import ID as TRANSITION
from statediff.policy.transition import check_transition
from statediff.policy.turns import turn

Add = Callable[[Iterable[Finding], str], None]
"""Takes the findings of one clause, and the clause in English."""

NO_TRACE = Trace()
NO_INTERMEDIATE_STATES = IntermediateStates()
LOG_READS = frozenset({Read("trace", CALL_TYPE, "")})
RISK = list(Label)
"""Labels in rising order of risk."""

_STAGES = list(Stage)
_TRUTHS = {Truth.FAILS: 0, Truth.UNKNOWN: 1, Truth.HOLDS: 2}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the judgement rests on: both views, the diff, the answer, and what was refused."""

    before: View
    after: View
    diff: Diff
    answer: Mapping[str, Value] | NoAnswer
    refusals: tuple[Refusal, ...] = ()
    begin: Callable[[str], None] = lambda _clause: None
    """Called with the id of each clause before it is evaluated, so that reads can be attributed."""
    trace: Trace = NO_TRACE
    moments: IntermediateStates = NO_INTERMEDIATE_STATES
    hear: Callable[[frozenset[Read]], None] = lambda _reads: None
    """Called with what a clause reads of the trace and the answer."""


def judge(contract: Contract, evidence: Evidence) -> Judgement:
    """The judgement of one trial. Deterministic; every clause is evaluated."""
    diff, who = _attributed(contract, evidence)
    context = JudgingContext(
        evidence.before, evidence.after, diff.deltas, diff.doubts, evidence.answer, who
    )
    # ν may not hide what Γ matches or what lacks authorization; what Ω excludes is not judged.
    everything = changes((*diff.deltas, *(h.delta for h in diff.hidden if not h.by_boundary)))
    context.moments = evidence.moments.alone()
    run = CallContext(
        context,
        evidence.trace,
        with_states_after_calls(evidence.moments, evidence.trace, who.claims),
    )
    summaries: dict[str, tuple[Stage, str]] = {}
    findings: list[Finding] = []

    def add(found: Iterable[Finding], sentence: str) -> None:
        for finding in found:
            summaries.setdefault(finding.clause, (finding.stage, sentence))
            findings.append(finding)

    by_id = {p.id: p for p in contract.patterns}
    _hear_attribution(contract, evidence)
    bench = ClauseRunner(context, everything, evidence.moments, evidence.begin)
    for finding, sentence in bench.forbidden(contract.forbid):
        add([finding], sentence)
    add_effects(contract, run, everything, evidence, add)
    found, said, recorded = _moved(contract, context, evidence)
    for finding, sentence in found:
        add([finding], sentence)
    own = [p for p in contract.patterns if p.section is not Stage.FORBID]
    judged = judge_branches(contract, bench, own, said)
    evidence.begin("frame")
    # Whatever no branch explains is a violation in all of them, so the frame itself says it.
    explaining = [*own, *(p for branch in contract.branches for p in branch.explaining)]
    explanations = explain(explaining, context, said)
    net = FrameCoverage(explaining, explanations)
    add(_frame(contract, net, context, evidence), _frame_sentence(contract))
    for finding, sentence in bench.required(contract.require, by_id):
        add([finding], sentence)
    add_run(contract, run, evidence, add)
    add_answer(contract, context, evidence, add)
    add_access(contract, run, evidence, add, tuple(findings))
    evidence.begin("")
    alternatives = contract.alternatives
    parts: list[Finding] = []
    if alternatives is not None:
        whole, *parts = combined(alternatives, judged)
        add([whole], alternatives.sentence)
    about_calls = {s.id for s in contract.steps if isinstance(s, (AtCalls, Occurrence))}
    clauses = tuple(
        ClauseTruth(
            name,
            stage,
            _kleene(f.truth for f in findings if f.clause == name),
            sentence,
            name in about_calls,
        )
        for name, (stage, sentence) in summaries.items()
    )
    measured, counted, nearest = contract, explanations, tuple(findings)
    if alternatives is not None:
        chosen = best(judged)
        measured = replace(contract, require=(*contract.require, *chosen.branch.require))
        counted, nearest = chosen.explanations, (*findings, *chosen.findings)
        if chosen.truth is Truth.HOLDS:
            explanations = counted
        findings += parts
    ordered = report_order(findings)
    return Judgement(
        verdict=fold(clauses),
        tool=_result(clauses, Result.TOOL),
        task=_result(clauses, Result.TASK),
        outcome=_result(clauses, Result.OUTCOME),
        clauses=clauses,
        findings=ordered,
        metrics=metrics(measured, diff, nearest, counted, context, recorded),
        deltas=diff.deltas,
        explained_by=tuple((e.delta.id, e.by) for e in explanations),
        hidden=diff.hidden,
        doubts=diff.doubts,
        during=context.attribution.named(
            evidence.moments.named({i for f in ordered for i in f.deltas})
        ),
    )


def _attributed(contract: Contract, evidence: Evidence) -> tuple[Diff, Attribution]:
    """The labelled diff whose deltas name the calls that left them, and who touched what."""
    own = {s: tuple(c.own for c in commits) for s, commits in evidence.moments.commits.items()}
    who = attribution(evidence.trace, evidence.moments.course, own)
    return who.with_makers(label(contract, evidence.diff)), who


def _hear_attribution(contract: Contract, evidence: Evidence) -> None:
    """Notes that the patterns with `by` read who called what."""
    branched = (c for b in contract.branches for c in (*b.forbid, *b.require, *b.allow))
    for pattern in (*contract.patterns, *branched):
        if isinstance(pattern, Pattern) and pattern.by is not None:
            evidence.begin(pattern.id)
            evidence.hear(MARKED_READS if is_marked(evidence.trace) else READS)


def add_effects(
    contract: Contract,
    run: CallContext,
    everything: tuple[Change, ...],
    evidence: Evidence,
    add: Add,
) -> None:
    """Adds the findings of authorization and of retries."""
    for rule in contract.effects:
        evidence.begin(rule.id)
        asked = effect(rule, run.context, everything)
        if asked is not None:
            add([with_compensation(asked, rule, run)], rule.sentence)
        if rule.is_judged_for_retries:
            evidence.begin(rule.retry_id)
            evidence.hear(LOG_READS)
            doubled = repeated(rule, run, everything)
            add([with_compensation(doubled, rule, run)], _retry_sentence(rule))


def add_run(
    contract: Contract,
    run: CallContext,
    evidence: Evidence,
    add: Add,
) -> None:
    """Adds the findings of steps, turns and actions, in this order."""

    def begin(clause: Asserted) -> None:
        evidence.begin(clause.id)
        evidence.hear(clause.reads)
        run.steps = 0

    for assertion in contract.steps:
        begin(assertion)
        add([step(assertion, run)], assertion.sentence)
    has_failed = False
    for gate in contract.turns:
        begin(gate)
        found = turn(gate, run, not has_failed)
        has_failed = has_failed or found.truth is Truth.FAILS
        add([found], gate.sentence)
    for rule in contract.actions:
        begin(rule)
        add(actions(rule, run), rule.sentence)


def add_answer(contract: Contract, context: JudgingContext, evidence: Evidence, add: Add) -> None:
    """Adds the findings of the answer's form and of each claim."""
    schema = contract.document.answer.schema_
    if schema:
        add(
            [answer_shape(schema, evidence.answer)],
            "The answer states " + ", ".join(n.replace("_", " ") for n in schema) + ".",
        )
    for claim in contract.claims:
        evidence.begin(claim.id)
        evidence.hear(claim.reads)
        add([condition(claim, context, evidence.moments)], claim.sentence)


def add_access(
    contract: Contract, run: CallContext, evidence: Evidence, add: Add, others: tuple[Finding, ...]
) -> None:
    """Adds the findings about reads; the others say whether what was asked for is right."""

    def begin(clause: str, reads: frozenset[Read]) -> None:
        evidence.begin(clause)
        evidence.hear(reads)

    if contract.access is not None:
        for finding, sentence in judge_access(contract.access, run, begin, others):
            add([finding], sentence)


def _retry_sentence(rule: Effect) -> str:
    return f"No retried call brings about the same {words(rule.type)} twice."


def _moved(
    contract: Contract, context: JudgingContext, evidence: Evidence
) -> tuple[list[tuple[Finding, str]], list[ExplanationVote], int]:
    """Derived fields and the transition, with their sentences.

    Also what they explain, and how many recorded deltas were found.
    """
    found: list[tuple[Finding, str]] = []
    said: list[ExplanationVote] = []
    for rule in contract.derived:
        evidence.begin(rule.id)
        finding, explains = derived_clause(rule, context)
        found.append((finding, rule.sentence))
        said += explains
    if contract.transition is None:
        return found, said, 0
    evidence.begin(TRANSITION)
    checked = check_transition(contract.transition, context)
    found.append((checked.finding, contract.transition.sentence))
    return found, [*said, *checked.said], checked.found


def _frame_sentence(contract: Contract) -> str:
    if contract.frame_is_open:
        return "Every source that must report has reported."
    watched = [rule.source for rule in contract.evidence if rule.needs_history]
    if watched:
        return f"Nothing else changes, not for a moment in {' and '.join(watched)} either."
    return "Nothing else changes."


def _frame(
    contract: Contract, net: FrameCoverage, context: JudgingContext, evidence: Evidence
) -> Iterable[Finding]:
    missing = [r for r in evidence.refusals if r.cause.startswith("missing")]
    if (
        contract.frame_is_open
        and not missing
        and not any(r.needs_history for r in contract.evidence)
    ):
        return ()
    found = [] if contract.frame_is_open else list(frame(net.explanations, net.patterns, context))
    found += frame_within(contract, net, context, evidence.moments)
    found += [
        Finding(
            "frame",
            FindingCode.EVIDENCE_MISSING,
            Stage.FRAME,
            Truth.UNKNOWN,
            f"{r.source} {r.side}: {r.cause}",
            missing=(f"{r.source} {r.side}",),
        )
        for r in missing
    ]
    if any(f.truth is not Truth.HOLDS for f in found):
        found = [f for f in found if f.truth is not Truth.HOLDS]
    return found


def report_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings as reports show them; those of branches follow what they are part of."""

    def order(finding: Finding) -> tuple[int, bool, int, int]:
        stage = _STAGES.index(finding.stage)
        return _TRUTHS[finding.truth], "/" in finding.clause, stage, finding.rank

    return tuple(sorted(findings, key=order))


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
    return {
        Truth.FAILS: Verdict.DIVERGE,
        Truth.UNKNOWN: Verdict.INCONCLUSIVE,
        Truth.HOLDS: Verdict.MATCH,
    }[truth]


def _result(clauses: tuple[ClauseTruth, ...], result: Result) -> Verdict | None:
    own = [c for c in clauses if c.result is result]
    return fold(own) if own else None


def label(contract: Contract, diff: Diff) -> Diff:
    """The diff with the labels ℓ that the contract declares over the defaults."""
    declared: dict[tuple[Op, str], Label] = {}
    for rule in contract.effects:
        if rule.label is None:
            continue
        for op in rule.operations:
            # Of two labels the riskier one counts, whatever their order.
            known = declared.get((op, rule.type), rule.label)
            declared[op, rule.type] = max(known, rule.label, key=RISK.index)
    if not declared:
        return diff

    def relabel(delta: Delta) -> Delta:
        found = declared.get((delta.op, delta.type))
        return delta if found is None else replace(delta, label=found)

    return replace(
        diff,
        deltas=tuple(relabel(d) for d in diff.deltas),
        hidden=tuple(replace(h, delta=relabel(h.delta)) for h in diff.hidden),
    )
