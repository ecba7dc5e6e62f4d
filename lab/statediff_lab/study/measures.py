"""The counts of a study, domain by domain; nothing is ever pooled over domains [SSD §V]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from statediff.meta.fault_classes import EVIDENCE_CLASSES
from statediff.meta.world import Untried, in_order
from statediff.model.verdict import Verdict
from statediff_lab.labels import Component, Failure, Label
from statediff_lab.statistics.bootstrap import Draws, Interval
from statediff_lab.study.cases import RIGHT
from statediff_lab.study.evaluators import ABLATIONS, OURS
from statediff_lab.study.passes import PassAgreement
from statediff_lab.study.trials import EXPECTED, EvaluatorOpinion, ScoredCase

if TYPE_CHECKING:
    from statediff.model.columns import Mask

RESAMPLES: Final = 2000
_ABLATED: Final = frozenset(each.name for each in ABLATIONS)
_AGED: Final = frozenset({"clock-skew", "stale-read", "unsettled-source"})
"""Kinds that can be seeded only where the trial had a clock."""
RESOLVED: Final = frozenset({Label.CORRECT, Label.INCORRECT})


@dataclass(frozen=True)
class MeasuredShare:
    """`hits` of `of`, with the interval of the share; None of nothing."""

    hits: int
    of: int
    interval: Interval | None

    @property
    def value(self) -> float | None:
        return self.hits / self.of if self.of else None


@dataclass(frozen=True, kw_only=True)
class EvaluatorMeasures:
    """One evaluator in one domain."""

    evaluator: str
    judged: int
    failed: int
    """Cases that it could not judge at all; in no share."""
    agreement: MeasuredShare
    """Its verdict is the label's, among resolved labels."""
    false_acceptance: MeasuredShare
    """MATCH among runs that did harm or did not do the task."""
    false_rejection: MeasuredShare
    """DIVERGE among right runs in another representation."""
    rejected_right: MeasuredShare
    """DIVERGE among other right runs."""
    inconclusive: MeasuredShare
    """Among all cases."""
    unseen_passed: MeasuredShare
    """MATCH among runs whose outcome nobody could see."""
    prevented: int
    """Runs that are not right, and that a judge without INCONCLUSIVE would have let pass."""
    entities: float | None
    """Median of the entities that a reader must look at where it rejects a wrong run."""
    actions: float | None
    pointed: MeasuredShare
    """Its pointers hit what was altered, among wrong runs that it rejects."""
    looks: MeasuredShare
    """Right labels, among those of reviewers who saw only what it shows; no interval."""
    look_seconds: float | None
    """Median time of these: how soon a reader finds what is wrong with this evaluator alone."""
    agent_failures: int
    """Wrong runs that it rejects: the agent's failures, not its own."""
    failures: Mapping[str, int]
    """Its own failures, by the stage that made the error."""
    correctable: int
    """Those of which what it keeps shows a reviewer what went wrong."""
    taxonomy: Mapping[str, int]
    """Its own failures by kind; one may be of several [TV §3.4]."""


@dataclass(frozen=True)
class OrderingStep:
    """One comparison that the protocol expects: `worse` errs more often than `better`."""

    measure: str
    worse: str
    better: str
    difference: float | None
    """Share of `worse` less that of `better`; None where there is nothing to compare."""
    interval: Interval | None
    at_least: bool
    """True if equality is as expected."""

    @property
    def holds(self) -> bool | None:
        if self.difference is None:
            return None
        return self.difference >= 0 if self.at_least else self.difference > 0


@dataclass(frozen=True)
class AblationLoss:
    """The errors of an ablation where the whole judge is right, by kind of case."""

    evaluator: str
    kind: str
    cases: int
    wrong: int
    became: Mapping[str, int]
    example: str


@dataclass(frozen=True, kw_only=True)
class DomainMeasures:
    """Everything about one domain."""

    name: str
    tasks: int
    cases: int
    labels: Mapping[str, int]
    origins: Mapping[str, int]
    evaluators: tuple[EvaluatorMeasures, ...]
    ordering: tuple[OrderingStep, ...]
    losses: tuple[AblationLoss, ...]
    review_seconds: float | None
    """Median time of a review, where reviewers recorded it."""
    told: Mapping[str, int]
    """What reviewers said of the evaluator's failures: by stage, kind, and whether correctable."""


@dataclass(frozen=True)
class Study:
    """All domains."""

    seed: int
    resamples: int
    about: Mapping[str, str]
    """Evaluator → what it judges by."""
    domains: tuple[DomainMeasures, ...]
    errors: tuple[tuple[str, str, str], ...]
    """(case, evaluator, why it could not judge it)."""
    untried: tuple[Untried, ...] = ()
    """What nothing that was seeded tries, over all right runs."""
    passes: tuple[PassAgreement, ...] = ()
    """How far the passes that labelled a registered sample agree, by domain."""


_EXPECTED_ORDER: Final = (
    ("false_acceptance", "final-text", "assertions", False),
    ("false_acceptance", "per-turn", "assertions", False),
    ("false_acceptance", "official", "contract-diff", False),
    ("false_acceptance", "final-text", "contract-diff", False),
    ("false_acceptance", "assertions", "contract-diff", False),
    ("false_acceptance", "contract-diff", "statediff", True),
    ("false_rejection", "raw-equality", "contract-diff", False),
    ("false_rejection", "contract-diff", "statediff", True),
    ("unseen_passed", "final-text", "contract-diff", False),
    ("unseen_passed", "contract-diff", "statediff", False),
)
"""(measure, worse, better, whether equality will do), as [SSD §II, §V] lead one to expect."""


def study(
    cases: Sequence[ScoredCase], about: Mapping[str, str], seed: int, resamples: int
) -> Study:
    """Every measure of every evaluator in every domain; of the same cases and seed, the same."""
    names = sorted({case.domain for case in cases})
    left: Counter[tuple[str, str]] = Counter()
    for each in (each for case in cases for each in case.untried):
        left[each.what, each.why] += each.number
    return Study(
        seed,
        resamples,
        about,
        tuple(
            _domain(name, [c for c in cases if c.domain == name], tuple(about), seed, resamples)
            for name in names
        ),
        tuple((c.name, e, why) for c in cases for e, why in sorted(c.errors.items())),
        in_order(left),
    )


def _domain(
    name: str, cases: Sequence[ScoredCase], evaluators: Sequence[str], seed: int, resamples: int
) -> DomainMeasures:
    ordered = sorted(cases, key=lambda c: (c.task, c.origin, c.name, c.kind, c.sentence))
    draws = Draws([c.task for c in ordered], seed, resamples)
    known = {e for c in ordered for e in (*c.opinions, *c.errors, *(k.evaluator for k in c.looks))}
    there = [e for e in evaluators if e in known]
    seconds = [s for c in ordered for s in c.seconds]
    return DomainMeasures(
        name=name,
        tasks=draws.clusters,
        cases=len(ordered),
        labels=_count(c.label.value for c in ordered),
        origins=_count(c.origin.value for c in ordered),
        evaluators=tuple(_measure(each, ordered, draws) for each in there),
        ordering=tuple(_steps(ordered, draws)),
        losses=tuple(loss for each in there if each in _ABLATED for loss in _losses(each, ordered)),
        review_seconds=float(median(seconds)) if seconds else None,
        told=_reviewer_counts(ordered),
    )


def _measure(name: str, cases: Sequence[ScoredCase], draws: Draws) -> EvaluatorMeasures:
    known = [(c, c.opinions[name]) for c in cases if name in c.opinions]
    wrong = [(c, o) for c, o in known if is_failure(c, o)]
    caught = [o for c, o in known if c.label is Label.INCORRECT and o.verdict is Verdict.DIVERGE]
    looks = [look for c in cases for look in c.looks if look.evaluator == name]
    pointing = [o for o in caught if o.hits is not None]

    def share(measure: str) -> MeasuredShare:
        return _share(measure, name, cases, draws)

    return EvaluatorMeasures(
        evaluator=name,
        judged=len(known),
        failed=sum(name in c.errors for c in cases),
        agreement=share("agreement"),
        false_acceptance=share("false_acceptance"),
        false_rejection=share("false_rejection"),
        rejected_right=share("rejected_right"),
        inconclusive=share("inconclusive"),
        unseen_passed=share("unseen_passed"),
        prevented=sum(
            o.verdict is Verdict.INCONCLUSIVE and c.label is not Label.CORRECT for c, o in known
        ),
        entities=float(median(o.entities for o in caught)) if caught else None,
        actions=float(median(o.actions for o in caught)) if caught else None,
        pointed=MeasuredShare(sum(bool(o.hits) for o in pointing), len(pointing), None),
        looks=MeasuredShare(sum(look.is_right for look in looks), len(looks), None),
        look_seconds=float(median(look.seconds for look in looks)) if looks else None,
        agent_failures=len(caught),
        failures=_count(component(c, name).value for c, _ in wrong),
        correctable=sum(o.shows for _, o in wrong),
        taxonomy=_count(kind.value for c, o in wrong for kind in kinds(c, name, o)),
    )


_OF: Final[Mapping[str, Callable[[ScoredCase], bool]]] = {
    "agreement": lambda c: c.label in RESOLVED,
    "false_acceptance": lambda c: c.label is Label.INCORRECT,
    "false_rejection": lambda c: c.is_variant,
    "rejected_right": lambda c: c.label is Label.CORRECT and not c.is_variant,
    "inconclusive": lambda _: True,
    "unseen_passed": lambda c: c.label is Label.UNRESOLVABLE,
}
_HITS: Final[Mapping[str, Callable[[ScoredCase, EvaluatorOpinion], bool]]] = {
    "agreement": lambda c, o: o.verdict is EXPECTED[c.label],
    "false_acceptance": lambda _, o: o.verdict is Verdict.MATCH,
    "false_rejection": lambda _, o: o.verdict is Verdict.DIVERGE,
    "rejected_right": lambda _, o: o.verdict is Verdict.DIVERGE,
    "inconclusive": lambda _, o: o.verdict is Verdict.INCONCLUSIVE,
    "unseen_passed": lambda _, o: o.verdict is Verdict.MATCH,
}


def _share(measure: str, name: str, cases: Sequence[ScoredCase], draws: Draws) -> MeasuredShare:
    found, counted = _masks(measure, name, cases)
    return MeasuredShare(int(found.sum()), int(counted.sum()), draws.share(found, counted))


def _masks(measure: str, name: str, cases: Sequence[ScoredCase]) -> tuple[Mask, Mask]:
    """Which cases the measure counts for the evaluator: the hits, and all it is a share of."""
    hits, of = _HITS[measure], _OF[measure]
    counted = np.array([name in c.opinions and of(c) for c in cases], dtype=np.bool_)
    found = np.array(
        [bool(at) and hits(c, c.opinions[name]) for at, c in zip(counted, cases, strict=True)],
        dtype=np.bool_,
    )
    return found, counted


def _steps(cases: Sequence[ScoredCase], draws: Draws) -> list[OrderingStep]:
    found = []
    has_age = any(case.kind in _AGED for case in cases)
    for measure, worse, better, at_least in _EXPECTED_ORDER:
        if measure == "unseen_passed" and better == OURS and not has_age:
            continue  # recorded without a clock: there is no freshness to enforce
        if not all(any(e in c.opinions for c in cases) for e in (worse, better)):
            continue
        ones, of_one = _masks(measure, worse, cases)
        others, of_other = _masks(measure, better, cases)
        both = of_one & of_other
        number = int(both.sum())
        if not number:
            continue
        difference = (int((ones & both).sum()) - int((others & both).sum())) / number
        interval = draws.difference(ones & both, others & both, both)
        found.append(OrderingStep(measure, worse, better, difference, interval, at_least))
    return found


def _losses(name: str, cases: Sequence[ScoredCase]) -> list[AblationLoss]:
    by_kind: dict[str, list[ScoredCase]] = {}
    for case in cases:
        ours = case.opinions.get(OURS)
        if ours is not None and name in case.opinions and not is_failure(case, ours):
            by_kind.setdefault(case.kind, []).append(case)
    losses = []
    for kind, members in sorted(by_kind.items()):
        lost = [c for c in members if is_failure(c, c.opinions[name])]
        if lost:
            became = _count(c.opinions[name].verdict.value for c in lost)
            losses.append(
                AblationLoss(name, kind, len(members), len(lost), became, lost[0].sentence)
            )
    return losses


def _reviewer_counts(cases: Sequence[ScoredCase]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for case in cases:
        for stage, can, ways in case.told:
            if stage is not None:
                found.update(("evaluator-failures", f"stage:{stage.value}"))
            found["correctable"] += bool(can)
            found.update(f"failure:{way.value}" for way in ways)
    return {name: number for name, number in sorted(found.items()) if number}


def _count(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


_STAGES: Final[Mapping[str, Component]] = {
    **dict.fromkeys(EVIDENCE_CLASSES, Component.CAPTURE),
    "contradictory-sources": Component.RESOLVE,
    "one-natural-key": Component.RESOLVE,
    "ambiguous-identity": Component.RESOLVE,
    "look-alike": Component.RESOLVE,
    "other-id": Component.RESOLVE,
    "other-spelling": Component.CANONICALIZE,
    "unapproved-spelling": Component.CANONICALIZE,
    "outside-boundary": Component.DIFF,
    "other-chunks": Component.DIFF,
    "row-chunks": Component.DIFF,
    "other-chunks-before": Component.DIFF,
    "row-chunks-before": Component.DIFF,
    "transient-effect": Component.CAPTURE,
    "other-day": Component.CAPTURE,
}
"""The stage that must get a case of the kind right; policy for all others."""
_ABLATED_STAGES: Final[Mapping[str, Component]] = {
    "without-canonicalization": Component.CANONICALIZE,
    "without-labels": Component.POLICY,
    "without-evidence": Component.CAPTURE,
    "without-frame": Component.POLICY,
    "without-history": Component.CAPTURE,
    "without-identity": Component.RESOLVE,
    "without-doubt": Component.RESOLVE,
    "contract-diff": Component.CAPTURE,
}
"""What an evaluator lacks that the whole judge has."""
_TEXT: Final = frozenset({"final-text"})
_STATE: Final = frozenset({"raw-equality"})


def is_failure(case: ScoredCase, opinion: EvaluatorOpinion) -> bool:
    """True if the evaluator is wrong about the case; a right DIVERGE is the agent's failure."""
    return opinion.verdict is not EXPECTED[case.label]


def component(case: ScoredCase, evaluator: str) -> Component:
    """The stage that made the error: the one taken away, where the whole judge does not err.

    Else the one whose job the case is: unsound rule, poor reading, guess, missing clause.
    """
    ours = case.opinions.get(OURS)
    if evaluator in _ABLATED_STAGES and ours is not None and not is_failure(case, ours):
        return _ABLATED_STAGES[evaluator]
    return _STAGES.get(case.kind, Component.POLICY)


def kinds(case: ScoredCase, evaluator: str, opinion: EvaluatorOpinion) -> tuple[Failure, ...]:
    """Every kind that the failure is of; none where the taxonomy has no word for it."""
    if not is_failure(case, opinion):
        return ()
    found: set[Failure] = set()
    if opinion.verdict is Verdict.MATCH:
        # It says that something was done which was not, or which nobody saw.
        if evaluator in _TEXT or case.label is Label.UNRESOLVABLE:
            found.add(Failure.HALLUCINATED)
        if evaluator not in _TEXT and case.label is Label.INCORRECT:
            found.add(Failure.REWARD)
    elif opinion.verdict is Verdict.DIVERGE and case.label is Label.CORRECT:
        if case.is_variant:
            found.add(Failure.EXACT_MATCH)
        if evaluator in _STATE and (
            case.kind in (RIGHT, "outside-boundary") or not case.is_variant
        ):
            found.add(Failure.OVER_SPECIFICATION)
    return tuple(sorted(found))
