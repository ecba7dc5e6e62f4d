"""The whole of stage 4: every clause, then the fold and the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from operator import attrgetter
from typing import Final, NamedTuple

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.conduct import Asserted
from statediff.contract.clauses.patterns import Pattern
from statediff.contract.language.syntax import CALL_TYPE, Read
from statediff.kernel.policy.access import judge_access
from statediff.kernel.policy.admission import Refusal, answer_shape
from statediff.kernel.policy.attribution import (
    MARKED_READS,
    NOBODY,
    READS,
    Attribution,
    attribution,
    is_marked,
)
from statediff.kernel.policy.branches import (
    Judged,
    best,
    combined,
    judge_branch,
    without_required,
)
from statediff.kernel.policy.clauses import ClauseRunner
from statediff.kernel.policy.derived import derived_clause, may_show
from statediff.kernel.policy.effects import effect, repeated, with_compensation
from statediff.kernel.policy.findings import (
    BRIEF,
    UNEXPLAINED,
    WHOLE,
    cleared,
    fold,
    kleene,
    report_order,
    result_of,
    types_read,
)
from statediff.kernel.policy.frame import (
    ExplainedDelta,
    ExplanationVote,
    counter_votes,
    explain,
    frame,
    frame_within,
    is_parted,
    readings_parted,
)
from statediff.kernel.policy.history import (
    ORDER_READS,
    IntermediateStates,
    with_states_after_calls,
)
from statediff.kernel.policy.matching import BLOCK, JudgingContext
from statediff.kernel.policy.relation import Changes, changes
from statediff.kernel.policy.run import CallContext
from statediff.kernel.policy.so_far import violated_for_good
from statediff.kernel.policy.steps import actions, step, turn
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Diff, Label
from statediff.model.explanation import Reason, cause
from statediff.model.readings import Timeline
from statediff.model.trace import NO_TRACE, NoAnswer, RunEnding, Trace
from statediff.model.values import Observed
from statediff.model.verdict import (
    SO_FAR,
    ClauseTruth,
    Explained,
    Finding,
    Judgement,
    Metrics,
    Result,
    Stage,
    Truth,
)
from statediff.model.view import Ledger, View

LOG_READS = frozenset({Read("trace", CALL_TYPE, "")})
WEIGHTS: Final = {Label.REVERSIBLE: 1, Label.CONDITIONAL: 3, Label.IRREVERSIBLE: 10}
"""The weight of a change in the forbidden-effect rate [SSD eq. 6]."""


class Rest(NamedTuple):
    """The evidence of a judgement beside the states."""

    refusals: tuple[Refusal, ...]
    """The readings that may not be used."""
    answer: Mapping[str, Observed] | NoAnswer
    trace: Trace = NO_TRACE
    ending: RunEnding | None = None
    """How the run ended; None where nobody knows."""
    timeline: Timeline | None = None
    """When the run began and ended; None where nobody knows."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The evidence of a judgement: the states of the run, its ends among them, and the rest."""

    moments: IntermediateStates
    diff: Diff
    rest: Rest
    ledger: Ledger | None = None
    """Notes what each clause reads; None: what one asked serves the others."""
    held: Mapping[str, Finding] = field(default_factory=dict)
    """Clauses that are known to hold, which are not evaluated."""
    explains: bool = True
    """True if all is explained now; else when somebody asks for it, by judging once more."""

    @property
    def ends(self) -> tuple[View, View]:
        """The states before and after the run."""
        return self.moments.views["before"], self.moments.views["after"]

    def begin(self, clause: str) -> None:
        """From now on, what is read is read for the clause."""
        if self.ledger is not None:
            self.ledger.begin(clause)

    def hear(self, reads: Iterable[Read]) -> None:
        """The clause at hand reads this of the run, its trace and its answer."""
        if self.ledger is not None:
            self.ledger.hear(_heard(reads))


def _heard(reads: Iterable[Read]) -> Iterable[str]:
    """A clause's reads of the run, its trace and its answer, as a bundle names them."""
    for read in reads:
        if read.root == "answer":
            yield f"answer:{read.field}"
        elif read.root == "run":
            yield f"run:{read.field}"
        elif read.root == "trace" and read.type == CALL_TYPE:
            yield f"trace:call[*]{read.field and '.'}{read.field}"
        elif read.root == "trace":
            yield f"trace:{read.type}[*]"


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """The common input of every step of one judgement."""

    contract: Contract
    evidence: Evidence
    diff: Diff
    """The labelled diff, whose deltas name the calls that left them."""
    context: JudgingContext
    everything: Changes
    """The changes with those that ν hides; what Ω excludes is not judged."""

    def explaining(self, held: Mapping[str, Finding]) -> _Trial:
        """The same, to be explained; of clauses in `held` it is known that they hold."""
        evidence = replace(self.evidence, explains=True, held=held)
        return replace(self, evidence=evidence, context=self.context.explaining())

    @cached_property
    def clauses(self) -> ClauseRunner:
        """The judge of single clauses."""
        given = self.evidence
        return ClauseRunner(self.context, self.everything, given.moments, given.begin, given.held)

    @cached_property
    def run(self) -> CallContext:
        """The calls, beside the states that they left."""
        moments, trace = self.evidence.moments, self.evidence.rest.trace
        after_calls = with_states_after_calls(moments, trace, self.context.attribution.claims)
        return CallContext(self.context, trace, after_calls)


def judge(contract: Contract, evidence: Evidence) -> Judgement:
    """The judgement of one trial. Deterministic; every clause is evaluated.

    The truth of each clause comes first. What explains it (findings, numbers, the clauses that
    explain a change) comes of the same steps, asked again with a trail.

    1. Label the changes, and attribute them to the calls that made them.
    2. Γ, Λ: what is forbidden, and what lacks authorization or was repeated.
    3. Derived fields; they also explain changes.
    4. Branches, each whole, with a frame of its own.
    5. The frame: every change must be explained.
    6. Φ: what is required.
    7. The run: steps, turns and actions.
    8. The answer: its form and its claims.
    9. Access: whether what was asked for was validly reached.
    10. Alternatives: the branches as one clause. An open frame: what parted, where that is asked.
        Where the run is not over: the branches so far, and what no end can make good.
    11. Fold the findings into clauses, results and numbers.
    """
    return _judged(_trial(contract, evidence))


def _judged(trial: _Trial) -> Judgement:
    contract, evidence = trial.contract, trial.evidence
    forbidden = _forbidden(trial)
    kept = _kept(trial)
    branches = tuple(
        judge_branch(contract, each, trial.clauses, kept.votes) for each in contract.branches
    )
    framed = _framed(trial, kept.votes)
    required = list(trial.clauses.findings(contract.require))
    conduct = _conduct(trial)
    answered = _answered(trial)
    outside = (*forbidden, *kept.findings, *framed.findings, *required, *conduct, *answered)
    accessed = _accessed(trial, outside)
    evidence.begin("")
    whole, parts = _alternatives(contract, branches)
    whole += _so_far(trial, branches)
    parted = _parted(trial, (*outside, *accessed, *whole))
    return _folded(
        trial,
        _Decided(
            findings=(*outside, *accessed, *whole, *parted),
            parts=parts,
            branches=branches,
            explanations=framed.explanations,
        ),
    )


def _trial(contract: Contract, evidence: Evidence) -> _Trial:
    diff, who = _attributed(contract, evidence)
    rest = evidence.rest
    context = JudgingContext(
        *evidence.ends, diff.deltas, diff.doubts, rest.answer, who, rest.ending, rest.timeline
    )
    context.fields, context.tied = contract.fields_read, contract.schema.tied
    context.tell = WHOLE if evidence.explains else BRIEF
    if any(evidence.moments.commits.values()):
        context.moments = evidence.moments.alone()
    if evidence.ledger is not None:
        context.record(evidence.ledger)
        _hear_attribution(contract, evidence)
    # ν may not hide what Γ matches or what lacks authorization.
    unseen = [h.delta for h in diff.hidden if not h.by_boundary]
    everything = changes([*diff.deltas, *unseen]) if unseen else context.changes
    if len(everything) > BLOCK:
        branched = (c for b in contract.branches for c in b.forbid)
        forbidding = [c for c in (*contract.forbid, *branched) if isinstance(c, Pattern)]
        context.together = (everything, forbidding), (context.changes, contract.branch_explaining)
    return _Trial(
        contract=contract, evidence=evidence, diff=diff, context=context, everything=everything
    )


def _attributed(contract: Contract, evidence: Evidence) -> tuple[Diff, Attribution]:
    """The labelled diff whose deltas name the calls that left them, and who touched what."""
    diff, moments, trace = label(contract, evidence.diff), evidence.moments, evidence.rest.trace
    if trace.gap is not None and not trace.told:
        return diff, NOBODY
    own = {s: tuple(c.own for c in commits) for s, commits in moments.commits.items()}
    who = attribution(trace, moments.course, own)
    return who.with_makers(diff), who


def _hear_attribution(contract: Contract, evidence: Evidence) -> None:
    """Notes that the patterns with `by` read who called what."""
    branched = (c for b in contract.branches for c in (*b.forbid, *b.require, *b.allow))
    for pattern in (*contract.patterns, *branched):
        if isinstance(pattern, Pattern) and pattern.by is not None:
            evidence.begin(pattern.id)
            evidence.hear(MARKED_READS if is_marked(evidence.rest.trace) else READS)


def _forbidden(trial: _Trial) -> list[Finding]:
    """The findings of Γ, then those of authorization and of retries."""
    begin, hear, known = trial.evidence.begin, trial.evidence.hear, trial.evidence.held.get
    findings = list(trial.clauses.findings(trial.contract.forbid))
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


class _Kept(NamedTuple):
    """The findings about derived fields, and the changes that they explain."""

    findings: tuple[Finding, ...]
    votes: tuple[ExplanationVote, ...]


def _kept(trial: _Trial) -> _Kept:
    findings: list[Finding] = []
    votes: list[ExplanationVote] = []
    for rule in trial.contract.derived:
        trial.evidence.begin(rule.id)
        if (kept := trial.evidence.held.get(rule.id)) is not None:
            findings.append(kept)
            continue
        finding, explains = derived_clause(rule, trial.context)
        findings.append(finding)
        votes += explains
    votes += counter_votes(trial.context, _further_creations(trial))
    return _Kept(tuple(findings), tuple(votes))


def _further_creations(trial: _Trial) -> Iterator[Delta]:
    """Entities of counted types that came outside Ω, or in a transaction whose history is asked."""
    yield from (h.delta for h in trial.diff.hidden)
    schema = trial.contract.schema
    asked = {rule.source for rule in trial.contract.evidence if rule.needs_history}
    types = [t.name for t in schema.types if t.counter and asked & {*schema.sources_of(t.name)}]
    for stretch in trial.evidence.moments.stretches(types, trial.context) if types else ():
        yield from (delta for change in stretch.context.changes for delta in change.deltas)


class _Framed(NamedTuple):
    findings: tuple[Finding, ...]
    explanations: tuple[ExplainedDelta, ...]


def _framed(trial: _Trial, votes: Iterable[ExplanationVote]) -> _Framed:
    """The findings of the frame, and what explains each delta."""
    contract, evidence, context = trial.contract, trial.evidence, trial.context
    if (known := trial.evidence.held.get("frame")) is not None:
        return _Framed((known,), ())
    evidence.begin("frame")
    # Whatever no branch explains is a violation in all of them, so the frame itself says it.
    explaining = contract.branch_explaining
    explanations = explain(explaining, context, votes)
    found = [] if contract.frame_is_open else list(frame(explanations, explaining, context))
    if contract.at_end is None and any(map(attrgetter("needs_history"), contract.evidence)):
        kept = partial(may_show, context, evidence.moments)
        found += frame_within(contract, explaining, explanations, context, evidence.moments, kept)
    for refusal in evidence.rest.refusals:
        if cause(refusal.cause).code is FindingCode.EVIDENCE_MISSING:
            found.append(_must_report(refusal))
    loose = [finding for finding in found if finding.truth is not Truth.HOLDS]
    return _Framed(tuple(loose or found), explanations)


def _parted(trial: _Trial, found: Iterable[Finding]) -> list[Finding]:
    """Readings that parted under an open frame, if a clause that reads the type is open."""
    if not trial.contract.frame_is_open or not trial.context.doubts:
        return []
    types = {doubt.type for doubt in trial.context.doubts if is_parted(doubt)}
    open_ = {each.clause for each in found if each.truth is Truth.UNKNOWN}
    if not any(clause in open_ and types & read for clause, read in types_read(trial.contract)):
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
        if run.moments.order.made and len(run.moments.moving(clause.states_read)) > 1:
            trial.evidence.hear(ORDER_READS)

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
    if trial.contract.at_end is not None:
        return []
    schema, evidence = trial.contract.asked, trial.evidence
    findings = [answer_shape(schema, evidence.rest.answer, trial.context.tell)] if schema else []
    for claim in trial.contract.claims:
        evidence.begin(claim.id)
        evidence.hear(claim.reads)
        findings.append(evidence.held.get(claim.id) or trial.clauses.finding(claim))
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


def _so_far(trial: _Trial, branches: tuple[Judged, ...]) -> tuple[Finding, ...]:
    """The findings of a run that is not over: branches without requirements, what lasts."""
    contract, at_end = trial.contract, trial.contract.at_end
    if at_end is None:
        return ()
    lasting = tuple(violated_for_good(at_end, trial.run, trial.everything))
    if contract.alternatives is None:
        return lasting
    whole = combined(contract.alternatives, tuple(map(without_required, branches)))[0]
    return (replace(whole, clause=SO_FAR + whole.clause), *lasting)


class _Decided(NamedTuple):
    """All that the steps of a judgement found."""

    findings: tuple[Finding, ...]
    parts: tuple[Finding, ...]
    branches: tuple[Judged, ...]
    explanations: tuple[ExplainedDelta, ...]


def _folded(trial: _Trial, decided: _Decided) -> Judgement:
    """The truths, and what explains them: at once, or by judging once more when it is read."""
    clauses = _clauses(trial.contract, decided.findings)
    explain, explain_open = partial(_explain, trial), partial(_explain_open, trial, clauses)
    said = _explained(trial, decided) if trial.context.tell.is_whole else None
    return Judgement(
        verdict=fold(clauses),
        tool=result_of(cleared(clauses, decided.findings), Result.TOOL),
        task=result_of(clauses, Result.TASK),
        outcome=result_of(clauses, Result.OUTCOME),
        clauses=clauses,
        deltas=trial.diff.deltas,
        hidden=trial.diff.hidden,
        doubts=trial.diff.doubts,
        explain=explain if said is None else lambda: said,
        explain_open=explain_open if said is None else None,
    )


def _explained(trial: _Trial, decided: _Decided) -> Explained:
    contract, context = trial.contract, trial.context
    measured, counted, nearest = contract, decided.explanations, decided.findings
    explanations = decided.explanations
    if contract.alternatives is not None:
        chosen = best(decided.branches)
        measured = replace(contract, require=(*contract.require, *chosen.branch.require))
        counted, nearest = chosen.explanations, (*decided.findings, *chosen.findings)
        if chosen.truth is Truth.HOLDS:
            explanations = counted
    ordered = report_order((*decided.findings, *decided.parts))
    moments = trial.evidence.moments
    is_followed = any(moments.commits.values())
    named = moments.named({i for f in ordered for i in f.deltas}) if is_followed else ()
    return Explained(
        findings=ordered,
        metrics=metrics(measured, trial.diff, nearest, counted, context),
        explained_by=tuple([(e.delta.id, e.by) for e in explanations]),
        during=context.attribution.named(named),
    )


def _explain(trial: _Trial) -> Explained:
    return _judged(trial.explaining({})).explained


def _explain_open(trial: _Trial, clauses: Iterable[ClauseTruth]) -> tuple[Finding, ...]:
    """The findings that do not hold, of the clauses that do not; derived fields explain changes."""
    derived = {rule.id for rule in trial.contract.derived}
    known = {
        c.clause: BRIEF.holds(c.clause, c.stage, UNEXPLAINED)
        for c in clauses
        if c.truth is Truth.HOLDS and c.clause not in derived
    }
    return _judged(trial.explaining(known)).open


def _clauses(contract: Contract, findings: Iterable[Finding]) -> tuple[ClauseTruth, ...]:
    """The truth of each clause, in the order of their first findings."""
    truths: dict[str, ClauseTruth] = {}
    for finding in findings:
        clause, truth, stage = finding.clause, finding.truth, finding.stage
        if (known := truths.get(clause)) is not None:
            truth, stage = kleene((known.truth, truth)), known.stage
        truths[clause] = _clause(clause, stage, truth, clause in contract.about_calls)
    return tuple(truths.values())


_clause: Final = lru_cache(4096)(ClauseTruth)
"""The same clauses have the same truths in most runs."""


def metrics(
    contract: Contract,
    diff: Diff,
    findings: tuple[Finding, ...],
    explanations: tuple[ExplainedDelta, ...],
    context: JudgingContext,
) -> Metrics:
    """Precision and recall over what was required, and the forbidden-effect rate.

    They are the numbers of [SSD eqs. 5–6], by the reading of docs/design.md §3. What is only
    allowed does not count against precision. An entity counts once for recall, up to the number
    required, however many of its fields changed.
    """
    required = {p.id for p in contract.require}
    explained = [e for e in explanations if required & set(e.by)]
    violations = {
        i
        for f in findings
        if f.truth is Truth.FAILS and f.stage in (Stage.FORBID, Stage.FRAME)
        for i in f.deltas
    }
    counted = [
        e for e in explanations if required & set(e.by) or not e.by or e.delta.id in violations
    ]
    precision = Fraction(len(explained), len(counted)) if counted else None
    wanted = reached = 0
    truths = {f.clause: f.truth for f in findings if f.stage is Stage.REQUIRE}
    for clause in contract.require:
        if isinstance(clause, Pattern) and not clause.is_every:
            wanted += clause.low
            reached += min(clause.low, sum(m.holds for m in context.matches(clause)))
        else:
            wanted += 1
            reached += truths.get(clause.id) is Truth.HOLDS
    recall = Fraction(reached, wanted) if wanted else None
    # What ν hides is no delta, unless a forbid clause matches it all the same.
    hidden = (h.delta for h in diff.hidden if not h.by_boundary and h.delta.id in violations)
    deltas = (*diff.deltas, *hidden)
    total = sum(WEIGHTS[d.label] for d in deltas)
    harmful = sum(WEIGHTS[d.label] for d in deltas if d.id in violations)
    return Metrics(precision, recall, Fraction(harmful, max(1, total)))


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
