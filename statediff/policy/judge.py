"""The whole of stage 4: every clause, then the fold and the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Final

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.conduct import Asserted
from statediff.contract.clauses.patterns import Pattern
from statediff.contract.language.syntax import CALL_TYPE, Read
from statediff.later import later
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Diff
from statediff.model.explanation import Reason, cause, is_parted
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Observed
from statediff.model.verdict import (
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
from statediff.policy.branches import Judged, best, combined, judge_branches
from statediff.policy.conditions import answer_shape, condition
from statediff.policy.derived import derived_clause, may_show
from statediff.policy.forbid import effect
from statediff.policy.frame import (
    ExplainedDelta,
    ExplanationVote,
    FrameCoverage,
    counter_votes,
    explain,
    frame,
    frame_within,
    readings_parted,
)
from statediff.policy.history import commit_order
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.history.states_after_calls import with_states_after_calls
from statediff.policy.matching import Change, JudgingContext, changes
from statediff.policy.metrics import metrics
from statediff.policy.retries import repeated, with_compensation
from statediff.policy.run import CallContext, states_read
from statediff.policy.sections import ClauseRunner
from statediff.policy.steps import step, turn
from statediff.policy.transition import ID as TRANSITION
from statediff.policy.transition import check_transition
from statediff.policy.unaffected import Reuse

NO_TRACE = Trace()
NO_METRICS = Metrics(None, None, Fraction(0))
NO_INTERMEDIATE_STATES = IntermediateStates()
LOG_READS = frozenset({Read("trace", CALL_TYPE, "")})
_STAGES = {stage: at for at, stage in enumerate(Stage)}
_TRUTHS = {Truth.FAILS: 0, Truth.UNKNOWN: 1, Truth.HOLDS: 2}
_VERDICTS = {
    Truth.FAILS: Verdict.DIVERGE,
    Truth.UNKNOWN: Verdict.INCONCLUSIVE,
    Truth.HOLDS: Verdict.MATCH,
}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the judgement rests on: both views, the diff, the answer, and what was refused."""

    before: View
    after: View
    diff: Diff
    answer: Mapping[str, Observed] | NoAnswer
    refusals: tuple[Refusal, ...] = ()
    begin: Callable[[str], None] = lambda _clause: None
    """Called with the id of each clause before it is evaluated, so that reads can be attributed."""
    trace: Trace = NO_TRACE
    moments: IntermediateStates = NO_INTERMEDIATE_STATES
    hear: Callable[[frozenset[Read]], None] = lambda _reads: None
    """Called with what a clause reads of the trace and the answer."""
    reuse: Reuse | None = None
    """What is known already; None: each clause is evaluated and reads for itself."""


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """What every step of one judgement reads."""

    contract: Contract
    evidence: Evidence
    diff: Diff
    """The labelled diff, whose deltas name the calls that left them."""
    context: JudgingContext
    everything: tuple[Change, ...]
    """The changes with those that ν hides; what Ω excludes is not judged."""
    clauses: ClauseRunner

    @cached_property
    def run(self) -> CallContext:
        """The calls, beside the states that they left."""
        moments, trace = self.evidence.moments, self.evidence.trace
        after_calls = with_states_after_calls(moments, trace, self.context.attribution.claims)
        return CallContext(self.context, trace, after_calls)


def judge(contract: Contract, evidence: Evidence) -> Judgement:
    """The judgement of one trial. Deterministic; every clause is evaluated.

    1. Label the changes, and attribute them to the calls that made them.
    2. Γ, Λ: what is forbidden, and what lacks authorization or was repeated.
    3. Derived fields and the recorded transition; they also explain changes.
    4. Branches, each whole, with a frame of its own.
    5. The frame: every change must be explained.
    6. Φ: what is required.
    7. The run: steps, turns and actions.
    8. The answer: its form and its claims.
    9. Access: whether what was asked for was validly reached.
    10. Alternatives: the branches as one clause. An open frame: what parted, where that is asked.
    11. Fold the findings into clauses, results and numbers.
    """
    trial = _trial(contract, evidence)
    forbidden = _forbidden(trial)
    kept = _kept(trial)
    branches = judge_branches(contract, trial.clauses, contract.explaining, kept.votes)
    framed = _framed(trial, kept.votes)
    required = list(trial.clauses.required(contract.require, {p.id: p for p in contract.patterns}))
    conduct = _conduct(trial)
    answered = _answered(trial)
    outside = (*forbidden, *kept.findings, *framed.findings, *required, *conduct, *answered)
    accessed = _accessed(trial, outside)
    evidence.begin("")
    whole, parts = _alternatives(contract, branches)
    parted = _parted(trial, (*outside, *accessed, *whole))
    return _folded(
        trial,
        _Decided(
            findings=(*outside, *accessed, *whole, *parted),
            parts=parts,
            branches=branches,
            explanations=framed.explanations,
            recorded=kept.recorded,
        ),
    )


def _trial(contract: Contract, evidence: Evidence) -> _Trial:
    diff, who = _attributed(contract, evidence)
    context = JudgingContext(
        evidence.before,
        evidence.after,
        diff.deltas,
        diff.doubts,
        evidence.answer,
        who,
        evidence.reuse,
    )
    context.moments = evidence.moments.alone()
    _hear_attribution(contract, evidence)
    # ν may not hide what Γ matches or what lacks authorization.
    unseen = tuple(h.delta for h in diff.hidden if not h.by_boundary)
    everything = changes((*diff.deltas, *unseen)) if unseen else context.changes
    return _Trial(
        contract=contract,
        evidence=evidence,
        diff=diff,
        context=context,
        everything=everything,
        clauses=ClauseRunner(context, everything, evidence.moments, evidence.begin),
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


def _forbidden(trial: _Trial) -> list[Finding]:
    """The findings of Γ, then those of authorization and of retries."""
    begin, hear, known = trial.evidence.begin, trial.evidence.hear, trial.clauses.known
    findings = list(trial.clauses.forbidden(trial.contract.forbid))
    for rule in trial.contract.effects:
        begin(rule.id)
        asked = known(rule.id) or effect(rule, trial.context, trial.everything)
        if asked is not None:
            findings.append(with_compensation(asked, rule, trial.run))
        if rule.is_judged_for_retries:
            begin(rule.retry_id)
            hear(LOG_READS)
            doubled = known(rule.retry_id) or repeated(rule, trial.run, trial.everything)
            findings.append(with_compensation(doubled, rule, trial.run))
    return findings


@dataclass(frozen=True)
class _Kept:
    """The findings about derived fields and the transition, and the changes that they explain."""

    findings: tuple[Finding, ...]
    votes: tuple[ExplanationVote, ...]
    recorded: int
    """How many recorded deltas of the transition were found."""


def _kept(trial: _Trial) -> _Kept:
    findings: list[Finding] = []
    votes: list[ExplanationVote] = []
    for rule in trial.contract.derived:
        trial.evidence.begin(rule.id)
        if (kept := trial.clauses.known(rule.id)) is not None:
            findings.append(kept)
            continue
        finding, explains = derived_clause(rule, trial.context)
        findings.append(finding)
        votes += explains
    votes += counter_votes(trial.context, _further_creations(trial))
    if trial.contract.transition is None:
        return _Kept(tuple(findings), tuple(votes), 0)
    trial.evidence.begin(TRANSITION)
    checked = check_transition(trial.contract.transition, trial.context)
    return _Kept((*findings, checked.finding), (*votes, *checked.said), checked.found)


def _further_creations(trial: _Trial) -> Iterator[Delta]:
    """Entities of counted types that came outside Ω, or in a transaction whose history is asked."""
    yield from (h.delta for h in trial.diff.hidden)
    schema = trial.contract.schema
    asked = {rule.source for rule in trial.contract.evidence if rule.needs_history}
    types = [t.name for t in schema.types if t.counter and asked & {*schema.sources_of(t.name)}]
    for stretch in trial.evidence.moments.stretches(types, trial.context) if types else ():
        yield from (delta for change in stretch.context.changes for delta in change.deltas)


@dataclass(frozen=True)
class _Framed:
    findings: tuple[Finding, ...]
    explanations: tuple[ExplainedDelta, ...]


def _framed(trial: _Trial, votes: Iterable[ExplanationVote]) -> _Framed:
    """The findings of the frame, and what explains each delta."""
    contract, evidence, context = trial.contract, trial.evidence, trial.context
    evidence.begin("frame")
    # Whatever no branch explains is a violation in all of them, so the frame itself says it.
    branched = (p for branch in contract.branches for p in branch.explaining)
    explaining = [*contract.explaining, *branched]
    explanations = explain(explaining, context, votes)
    missing = [
        refusal
        for refusal in evidence.refusals
        if cause(refusal.cause).code is FindingCode.EVIDENCE_MISSING
    ]
    needs_history = any(rule.needs_history for rule in contract.evidence)
    if contract.frame_is_open and not missing and not needs_history:
        return _Framed((), explanations)
    found = [] if contract.frame_is_open else list(frame(explanations, explaining, context))
    coverage = FrameCoverage(explaining, explanations)
    kept = partial(may_show, context, evidence.moments)
    found += frame_within(contract, coverage, context, evidence.moments, kept)
    found += [_must_report(refusal) for refusal in missing]
    loose = [finding for finding in found if finding.truth is not Truth.HOLDS]
    return _Framed(tuple(loose or found), explanations)


def _parted(trial: _Trial, found: Iterable[Finding]) -> list[Finding]:
    """Where the frame is open: what parted in the run, if a clause waits for it."""
    waiting = (part for each in found if each.truth is Truth.UNKNOWN for part in each.causes)
    if not trial.contract.frame_is_open or not any(map(is_parted, waiting)):
        return []
    trial.evidence.begin("frame")
    found = readings_parted(trial.context)
    trial.evidence.begin("")
    return found


def _must_report(refusal: Refusal) -> Finding:
    source, side = refusal.source, refusal.side
    return Finding(
        "frame",
        FindingCode.EVIDENCE_MISSING,
        Stage.FRAME,
        Truth.UNKNOWN,
        Reason.MUST_REPORT(source=source, side=side, cause=cause(refusal.cause)),
        causes=(Reason.MISSING_REPORT(source=source, side=side),),
    )


def _conduct(trial: _Trial) -> list[Finding]:
    """The findings of steps, turns and actions, in this order."""
    contract = trial.contract
    if not (contract.steps or contract.turns or contract.actions):
        return []
    run = trial.run

    def begin(clause: Asserted) -> None:
        trial.evidence.begin(clause.id)
        trial.evidence.hear(clause.reads)
        if run.moments.order.made and len(run.moments.moving(states_read(clause))) > 1:
            trial.evidence.hear(commit_order.READS)
        run.steps = 0

    findings: list[Finding] = []
    for assertion in contract.steps:
        begin(assertion)
        findings.append(step(assertion, run))
    has_failed = False
    for gate in contract.turns:
        begin(gate)
        findings.append(turn(gate, run, not has_failed))
        has_failed = has_failed or findings[-1].truth is Truth.FAILS
    for rule in contract.actions:
        begin(rule)
        findings += actions(rule, run)
    return findings


def _answered(trial: _Trial) -> list[Finding]:
    """The findings of the answer's form and of each claim."""
    schema, evidence = trial.contract.asked, trial.evidence
    findings = [answer_shape(schema, evidence.answer)] if schema else []
    for claim in trial.contract.claims:
        evidence.begin(claim.id)
        evidence.hear(claim.reads)
        known = trial.clauses.known(claim.id)
        findings.append(known or condition(claim, trial.context, evidence.moments))
    return findings


def _accessed(trial: _Trial, others: tuple[Finding, ...]) -> list[Finding]:
    """The findings about reads; the others say whether what was asked for is right."""

    def begin(clause: str, reads: frozenset[Read]) -> None:
        trial.evidence.begin(clause)
        trial.evidence.hear(reads)

    if trial.contract.access is None:
        return []
    return list(judge_access(trial.contract.access, trial.run, begin, others))


def _alternatives(
    contract: Contract, branches: tuple[Judged, ...]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The finding of all branches together, and those of branches that are parts of it."""
    if contract.alternatives is None:
        return (), ()
    whole, *parts = combined(contract.alternatives, branches)
    return (whole,), tuple(parts)


@dataclass(frozen=True, kw_only=True)
class _Decided:
    """All that the steps of a judgement found."""

    findings: tuple[Finding, ...]
    parts: tuple[Finding, ...]
    branches: tuple[Judged, ...]
    explanations: tuple[ExplainedDelta, ...]
    recorded: int


def _folded(trial: _Trial, decided: _Decided) -> Judgement:
    contract, diff, context = trial.contract, trial.diff, trial.context
    clauses = _clauses(contract, decided.findings)
    measured, counted, nearest = contract, decided.explanations, decided.findings
    explanations = decided.explanations
    if contract.alternatives is not None:
        chosen = best(decided.branches)
        measured = replace(contract, require=(*contract.require, *chosen.branch.require))
        counted, nearest = chosen.explanations, (*decided.findings, *chosen.findings)
        if chosen.truth is Truth.HOLDS:
            explanations = counted
    ordered = report_order((*decided.findings, *decided.parts))

    def numbers() -> Metrics:
        return metrics(measured, diff, nearest, counted, context, decided.recorded)

    # Where reads are noted, what the numbers read is noted now.
    are_now = trial.evidence.reuse is None
    moments = trial.evidence.moments
    is_followed = any(moments.commits.values())
    named = moments.named({i for f in ordered for i in f.deltas}) if is_followed else ()
    judgement = Judgement(
        verdict=fold(clauses),
        tool=_result(cleared(clauses, decided.findings), Result.TOOL),
        task=_result(clauses, Result.TASK),
        outcome=_result(clauses, Result.OUTCOME),
        clauses=clauses,
        findings=ordered,
        metrics=numbers() if are_now else NO_METRICS,
        deltas=diff.deltas,
        hidden=diff.hidden,
        doubts=diff.doubts,
        during=context.attribution.named(named),
    )
    later(judgement, "explained_by", lambda: tuple([(e.delta.id, e.by) for e in explanations]))
    return judgement if are_now else later(judgement, "metrics", numbers)


def _clauses(contract: Contract, findings: Iterable[Finding]) -> tuple[ClauseTruth, ...]:
    """The truth of each clause, in the order of their first findings."""
    of_clause: dict[str, list[Finding]] = {}
    about_calls = contract.about_calls
    for finding in findings:
        of_clause.setdefault(finding.clause, []).append(finding)
    return tuple(
        _clause(clause, own[0].stage, _kleene([f.truth for f in own]), clause in about_calls)
        for clause, own in of_clause.items()
    )


_clause: Final = lru_cache(4096)(ClauseTruth)
"""The same clauses have the same truths in most runs."""


def report_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings as reports show them; those of branches follow what they are part of."""

    def order(finding: Finding) -> tuple[int, bool, int, int]:
        stage = _STAGES[finding.stage]
        return _TRUTHS[finding.truth], "/" in finding.clause, stage, finding.rank

    return tuple(sorted(findings, key=order))


def _kleene(present: Sequence[Truth]) -> Truth:
    if Truth.FAILS in present:
        return Truth.FAILS
    return Truth.UNKNOWN if Truth.UNKNOWN in present else Truth.HOLDS


def fold(clauses: Iterable[ClauseTruth]) -> Verdict:
    """Violation beats unknown beats match. No clause at all is no match."""
    entries = list(clauses)
    if not entries:
        return Verdict.INCONCLUSIVE
    return _VERDICTS[_kleene([entry.truth for entry in entries])]


def cleared(clauses: Sequence[ClauseTruth], findings: Iterable[Finding]) -> Sequence[ClauseTruth]:
    """The clauses without those that hold only as far as the log goes: they clear no call."""
    if not any(clause.result is Result.TOOL for clause in clauses):
        return clauses
    loose = {f.clause for f in findings if f.explanation.reason is Reason.NOTHING_ADMITTED}
    return tuple(clause for clause in clauses if clause.clause not in loose)


def _result(clauses: Sequence[ClauseTruth], result: Result) -> Verdict | None:
    own = [c for c in clauses if c.result is result]
    return fold(own) if own else None


def label(contract: Contract, diff: Diff) -> Diff:
    """The diff with the labels ℓ that the contract declares over the defaults."""
    declared = contract.labels
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
