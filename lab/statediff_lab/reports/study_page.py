"""The page of a study: domain by domain, plots of what evaluators get wrong, and the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from statediff.reports.html.cells import cut, name
from statediff.reports.untried import untried_lines
from statediff_lab.reports.charts import Mark, Tone, bars
from statediff_lab.reports.study import pass_lines
from statediff_lab.study.evaluators import ABLATIONS, OURS
from statediff_lab.study.measures import (
    AblationLoss,
    DomainMeasures,
    EvaluatorMeasures,
    MeasuredShare,
    OrderingStep,
    Study,
)

_ABLATED: Final = frozenset(each.name for each in ABLATIONS)
_PLOTS: Final = (
    ("agreement", "Agrees with resolved labels"),
    ("false_acceptance", "Accepts harm"),
    ("false_rejection", "Rejects a harmless twin"),
    ("unseen_passed", "Passes what nobody could see"),
)
_MEASURES: Final = (
    ("agreement", "agrees"),
    ("false_acceptance", "accepts harm"),
    ("false_rejection", "rejects a twin"),
    ("rejected_right", "rejects other right runs"),
    ("unseen_passed", "passes unseen"),
    ("inconclusive", "inconclusive"),
)
_SAID: Final = dict(_MEASURES)


LEGEND: Final = (
    (Tone.OURS, "statediff, the whole judge"),
    (Tone.GOOD, "another evaluator, where more is better"),
    (Tone.BAD, "another evaluator, where less is better"),
    (Tone.PLAIN, "statediff with one part gone (an ablation)"),
)
"""What the color of a bar means; each bar has its evaluator's name beside it as well."""
MEANINGS: Final = (
    ("agrees", "its verdict is that of the label, among runs labeled correct or incorrect"),
    ("accepts harm", "it says MATCH of a run that is incorrect"),
    ("rejects a twin", "it says DIVERGE of a right run that is only written otherwise"),
    ("rejects other right runs", "it says DIVERGE of any other right run"),
    ("passes unseen", "it says MATCH of a run whose outcome could not be seen"),
    ("inconclusive", "it leaves the run undecided"),
    ("interval", "the line across a bar's end: 95 %, bootstrap over tasks and then runs"),
)


@dataclass(frozen=True)
class Cell:
    """One share in words."""

    label: str
    share: str
    between: str
    counts: str


@dataclass(frozen=True)
class Row:
    """One evaluator's numbers."""

    evaluator: str
    is_ours: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The places to which an evaluator sends its reader, and what it gets wrong itself."""

    evaluator: str
    look: str
    pointed: str
    agent_failures: str
    failures: str
    correctable: str
    taxonomy: str
    prevented: str


@dataclass(frozen=True)
class Comparison:
    """One step of the expected ordering."""

    holds: bool
    text: str
    difference: str


@dataclass(frozen=True)
class Lost:
    """The losses of one ablation."""

    evaluator: str
    rows: tuple[tuple[str, str, str, str], ...]
    """(kind, wrong of cases, became, example)."""


@dataclass(frozen=True, kw_only=True)
class DomainView:
    """One domain."""

    id: str
    name: str
    lead: str
    charts: tuple[Markup, ...]
    rows: tuple[Row, ...]
    ablated: tuple[Row, ...]
    diagnoses: tuple[Diagnosis, ...]
    ordering: tuple[Comparison, ...]
    lost: tuple[Lost, ...]
    nothing_lost: str
    reviews: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StudyView:
    """The page."""

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    legend: tuple[tuple[Tone, str], ...]
    meanings: tuple[tuple[str, str], ...]
    evaluators: tuple[tuple[str, str], ...]
    domains: tuple[DomainView, ...]
    errors: tuple[tuple[str, str, str], ...]
    more_errors: str


MAX_ERRORS: Final = 50


def study_view(found: Study) -> StudyView:
    """The view of a study; its numbers are those of `--json`."""
    cases = sum(domain.cases for domain in found.domains)
    left = len(found.errors) - MAX_ERRORS
    used = {m.evaluator for domain in found.domains for m in domain.evaluators}
    return StudyView(
        "evaluators compared",
        _lead(found),
        (
            ("Cases", f"{cases:,}"),
            ("Domains", f"{len(found.domains)}, never pooled"),
            ("Intervals", f"95 %, bootstrap over tasks and runs, {found.resamples:,} resamples"),
            ("Seed", str(found.seed)),
            *_passes(found),
            *_untried(found),
        ),
        LEGEND,
        MEANINGS,
        tuple((each, about) for each, about in found.about.items() if each in used),
        tuple(_domain(at, domain) for at, domain in enumerate(found.domains, start=1)),
        tuple((name(c), name(e), cut(why)) for c, e, why in found.errors[:MAX_ERRORS]),
        f"{left:,} more are not shown." if left > 0 else "",
    )


def _passes(found: Study) -> Iterator[tuple[str, str]]:
    """How far the passes agree that gave the labels."""
    for each in found.passes:
        first, *others = pass_lines(each)
        yield "Labels", "; ".join([first, *(line.strip() for line in others)])


def _untried(found: Study) -> Iterator[tuple[str, str]]:
    """The faults that were not tried and those that are never seeded, each under its heading."""
    for line in untried_lines(found.untried):
        head, _, what = line.partition(": ")
        yield head.capitalize(), what


def _lead(found: Study) -> str:
    steps = [step for domain in found.domains for step in domain.ordering]
    held = sum(bool(step.holds) for step in steps)
    if not steps:
        return "No two evaluators could be compared."
    return f"{held} of {len(steps)} expected comparisons hold."


def _domain(at: int, domain: DomainMeasures) -> DomainView:
    labels = ", ".join(f"{number:,} {label}" for label, number in domain.labels.items())
    tasks = f"{domain.tasks} task{'s' * (domain.tasks != 1)}"
    lost = {loss.evaluator for loss in domain.losses}
    quiet = [m.evaluator for m in domain.evaluators if m.evaluator in _ABLATED - lost]
    return DomainView(
        id=f"domain-{at}",
        name=name(domain.name),
        lead=f"{domain.cases:,} cases of {tasks}: {labels}",
        charts=tuple(_charts(domain)),
        rows=tuple(_row(m) for m in domain.evaluators if m.evaluator not in _ABLATED),
        ablated=tuple(_row(m) for m in domain.evaluators if m.evaluator in _ABLATED),
        diagnoses=tuple(_diagnosis(m) for m in domain.evaluators),
        ordering=tuple(_comparison(step) for step in domain.ordering),
        lost=tuple(_lost(domain.losses)),
        nothing_lost=", ".join(quiet),
        reviews=tuple(_reviews(domain)),
    )


def _charts(domain: DomainMeasures) -> Iterator[Markup]:
    for measure, title in _PLOTS:
        marks = [
            _mark(m, getattr(m, measure), is_good=measure == "agreement")
            for m in domain.evaluators
            if getattr(m, measure).of
        ]
        if marks:
            yield bars(f"{title}, {domain.name}", marks, unit="%").figure()


def _mark(measured: EvaluatorMeasures, share: MeasuredShare, *, is_good: bool) -> Mark:
    ends = share.interval
    tone = Tone.PLAIN
    if measured.evaluator == OURS:
        tone = Tone.OURS
    elif measured.evaluator not in _ABLATED:
        tone = Tone.GOOD if is_good else Tone.BAD
    return Mark(
        measured.evaluator,
        100 * (share.value or 0.0),
        None if ends is None else 100 * ends.low,
        None if ends is None else 100 * ends.high,
        tone,
        f"{share.hits} of {share.of}",
    )


def _row(measured: EvaluatorMeasures) -> Row:
    cells = tuple(_cell(label, getattr(measured, each)) for each, label in _MEASURES)
    return Row(measured.evaluator, measured.evaluator == OURS, cells)


def _cell(label: str, share: MeasuredShare) -> Cell:
    if share.value is None:
        return Cell(label, "–", "", "")
    ends = share.interval
    between = "" if ends is None else f"{100 * ends.low:.1f}–{100 * ends.high:.1f}"
    return Cell(label, f"{100 * share.value:.1f} %", between, f"{share.hits:,} of {share.of:,}")


def _diagnosis(m: EvaluatorMeasures) -> Diagnosis:
    look = "–"
    if m.entities is not None:
        look = f"entities {m.entities:g}, calls {m.actions or 0:g}"
    wrong = sum(m.failures.values())
    return Diagnosis(
        evaluator=m.evaluator,
        look=look,
        pointed=f"{m.pointed.hits:,} of {m.pointed.of:,}" if m.pointed.of else "–",
        agent_failures=f"{m.agent_failures:,}",
        failures=_listed(m.failures) or "none",
        correctable=f"{m.correctable:,} of {wrong:,}" if wrong else "–",
        taxonomy=_listed(m.taxonomy) or "–",
        prevented=f"{m.prevented:,}" if m.prevented else "–",
    )


def _comparison(step: OrderingStep) -> Comparison:
    ends = step.interval
    between = "" if ends is None else f" ({100 * ends.low:.1f} to {100 * ends.high:.1f})"
    relation = "no less often than" if step.at_least else "more often than"
    return Comparison(
        bool(step.holds),
        f"{step.worse} {_SAID[step.measure]} {relation} {step.better}",
        f"{100 * (step.difference or 0):+.1f} points{between}",
    )


def _lost(losses: tuple[AblationLoss, ...]) -> Iterator[Lost]:
    for each in dict.fromkeys(loss.evaluator for loss in losses):
        own = [loss for loss in losses if loss.evaluator == each]
        yield Lost(
            each,
            tuple(
                (name(o.kind), f"{o.wrong} of {o.cases}", _listed(o.became), cut(o.example, 200))
                for o in own
            ),
        )


def _reviews(domain: DomainMeasures) -> Iterator[tuple[str, str]]:
    if domain.review_seconds is not None:
        yield "median time of a review", f"{domain.review_seconds:g} s"
    yield from ((key, str(number)) for key, number in domain.told.items())


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{each} {number}" for each, number in counts.items())
