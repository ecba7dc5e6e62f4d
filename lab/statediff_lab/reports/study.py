"""A study in words and as a document: the same numbers for a terminal, a program, a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from statediff.reports.record import said
from statediff.reports.untried import untried_document, untried_lines
from statediff_lab.statistics.bootstrap import Interval
from statediff_lab.study.measures import (
    AblationLoss,
    DomainMeasures,
    EvaluatorMeasures,
    MeasuredShare,
    OrderingStep,
    Study,
)
from statediff_lab.study.passes import PassAgreement

SCHEMA: Final = "statediff/study/1"
SHARES: Final = (
    ("agreement", "agrees"),
    ("false_acceptance", "accepts harm"),
    ("false_rejection", "rejects a twin"),
    ("rejected_right", "rejects another right run"),
    ("unseen_passed", "passes unseen"),
    ("inconclusive", "inconclusive"),
)
"""Measure → its words in a table."""


def document(found: Study) -> dict[str, Any]:
    """The study as JSON: counts exact, shares to four digits."""
    return {
        "schema": SCHEMA,
        "seed": found.seed,
        "resamples": found.resamples,
        "evaluators": dict(found.about),
        "domains": {domain.name: _domain(domain) for domain in found.domains},
        "errors": [
            {"case": case, "evaluator": evaluator, "error": why}
            for case, evaluator, why in found.errors
        ],
        **({"passes": [_pass(each) for each in found.passes]} if found.passes else {}),
        **untried_document(found.untried),
    }


def _pass(found: PassAgreement) -> dict[str, Any]:
    return {
        "domain": found.domain,
        "runs": found.runs,
        "agree": _share(MeasuredShare(found.agree, found.runs, found.interval)),
        "kappa": _number(found.kappa),
        "kappa_interval": _interval(found.kappa_interval),
        "labels": {name: dict(counts) for name, counts in found.labels.items()},
        "settled": dict(found.settled),
        "open": found.open,
    }


def _domain(domain: DomainMeasures) -> dict[str, Any]:
    return {
        "tasks": domain.tasks,
        "cases": domain.cases,
        "labels": dict(domain.labels),
        "origins": dict(domain.origins),
        "evaluators": {m.evaluator: _measured(m) for m in domain.evaluators},
        "ordering": [_step(step) for step in domain.ordering],
        "lost": [_loss(loss) for loss in domain.losses],
        "reviews": {"median_seconds": _number(domain.review_seconds), **domain.told},
    }


def _measured(found: EvaluatorMeasures) -> dict[str, Any]:
    return {
        "judged": found.judged,
        "failed": found.failed,
        **{name: _share(getattr(found, name)) for name, _ in SHARES},
        "false_passes_prevented": found.prevented,
        "entities": _number(found.entities),
        "actions": _number(found.actions),
        "pointed": _share(found.pointed),
        "looks": {
            "reviews": found.looks.of,
            "right": found.looks.hits,
            "median_seconds": _number(found.look_seconds),
        },
        "agent_failures": found.agent_failures,
        "evaluator_failures": dict(found.failures),
        "correctable": found.correctable,
        "taxonomy": dict(found.taxonomy),
    }


def _share(share: MeasuredShare) -> dict[str, Any]:
    return {
        "hits": share.hits,
        "of": share.of,
        "share": _number(share.value),
        "interval": _interval(share.interval),
    }


def _step(step: OrderingStep) -> dict[str, Any]:
    return {
        "measure": step.measure,
        "worse": step.worse,
        "better": step.better,
        "difference": _number(step.difference),
        "interval": _interval(step.interval),
        "at_least": step.at_least,
        "holds": step.holds,
    }


def _loss(loss: AblationLoss) -> dict[str, Any]:
    return {
        "evaluator": loss.evaluator,
        "kind": loss.kind,
        "cases": loss.cases,
        "wrong": loss.wrong,
        "became": dict(loss.became),
        "example": loss.example,
    }


def _interval(interval: Interval | None) -> list[Decimal] | None:
    if interval is None:
        return None
    return [Decimal(f"{end:.4f}") for end in (interval.low, interval.high)]


def _number(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(f"{value:.4f}").normalize() + 0


# ---------------------------------------------------------------- a table


def table(found: Study) -> str:
    """The measures as CSV: one line for each evaluator in each domain."""
    columns = ["domain", "evaluator", "judged", "failed"]
    for name, _ in SHARES:
        columns += [f"{name}_hits", f"{name}_of", f"{name}_low", f"{name}_high"]
    columns += [
        "false_passes_prevented",
        "entities",
        "actions",
        "pointed_hits",
        "pointed_of",
        "agent_failures",
        "evaluator_failures",
        "correctable",
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for domain in found.domains:
        writer.writerows(_row(domain.name, measured) for measured in domain.evaluators)
    return text.getvalue()


def _row(domain: str, m: EvaluatorMeasures) -> list[str]:
    row = [_cell(domain), m.evaluator, str(m.judged), str(m.failed)]
    for name, _ in SHARES:
        share: MeasuredShare = getattr(m, name)
        ends = [str(end) for end in _interval(share.interval) or ()] or ["", ""]
        row += [str(share.hits), str(share.of), *ends]
    row += [
        str(m.prevented),
        _plain(m.entities),
        _plain(m.actions),
        str(m.pointed.hits),
        str(m.pointed.of),
        str(m.agent_failures),
        str(sum(m.failures.values())),
        str(m.correctable),
    ]
    return row


def _cell(text: str) -> str:
    """A name that a spreadsheet will not take for a formula."""
    return f"'{said(text, 200)}" if text[:1] in "=+-@\t\r" else said(text, 200)


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


# ---------------------------------------------------------------- words


def study_text(found: Study) -> str:
    """The study for a terminal, domain after domain."""
    lines = [line for each in found.passes for line in pass_lines(each)]
    lines += [line for domain in found.domains for line in _lines(domain)]
    return "\n".join((*lines, *untried_lines(found.untried)))


def pass_lines(found: PassAgreement) -> Iterator[str]:
    """How far two passes agree in one domain."""
    share = MeasuredShare(found.agree, found.runs, found.interval)
    kappa = "undefined" if found.kappa is None else f"{found.kappa:.2f}"
    if found.kappa_interval is not None:
        kappa += f" ({found.kappa_interval.low:.2f} to {found.kappa_interval.high:.2f})"
    yield (
        f"{said(found.domain, 80)}: the passes agree on {_of(share)}"
        f" ({_ends(share.interval)}), kappa {kappa}"
    )
    for name, counts in found.labels.items():
        yield f"  {said(name, 80)}: {_listed(counts)}"
    unsettled = f", {found.open} of them unsettled" if found.open else ""
    yield f"  settled: {_listed(found.settled)}{unsettled}"


def _lines(domain: DomainMeasures) -> Iterator[str]:
    labels = ", ".join(f"{number} {label}" for label, number in domain.labels.items())
    tasks = f"{domain.tasks} task{'s' * (domain.tasks != 1)}"
    yield f"{said(domain.name, 80)}: {domain.cases} cases of {tasks}: {labels}"
    yield (
        f"  {'evaluator':<25}{'agrees':>8}{'95 %':>15}{'accepts harm':>14}{'rejects twin':>14}"
        f"{'rejects right':>15}{'passes unseen':>15}{'inconclusive':>14}{'to look at':>12}"
    )
    for m in domain.evaluators:
        yield (
            f"  {m.evaluator:<25}{_percent(m.agreement):>8}{_ends(m.agreement.interval):>15}"
            f"{_of(m.false_acceptance):>14}{_of(m.false_rejection):>14}{_of(m.rejected_right):>15}"
            f"{_of(m.unseen_passed):>15}{_of(m.inconclusive):>14}{_look(m):>12}"
        ).rstrip()
    for m in domain.evaluators:
        if m.looks.of:
            yield (
                f"  seen through {m.evaluator} alone: {_of(m.looks)} labels are right, "
                f"median time {m.look_seconds:g} s"
            )
    for step in domain.ordering:
        yield f"  {_ordered(step)}"
    for loss in domain.losses:
        became = _listed(loss.became)
        yield (
            f"  {loss.evaluator}: {loss.kind} wrong in {loss.wrong} of {loss.cases} ({became}), "
            f"e.g. {said(loss.example, 160)}"
        )


def _ordered(step: OrderingStep) -> str:
    mark = "✔" if step.holds else "✘"
    relation = "≥" if step.at_least else ">"
    ends = _ends(step.interval)
    return (
        f"{mark} {dict(SHARES)[step.measure]}: {step.worse} {relation} {step.better}, by "
        f"{100 * (step.difference or 0):.1f} points{f' ({ends})' if ends else ''}"
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _percent(share: MeasuredShare) -> str:
    return "–" if share.value is None else f"{100 * share.value:.1f}"


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def _of(share: MeasuredShare) -> str:
    return f"{share.hits} of {share.of}" if share.of else "–"


def _look(m: EvaluatorMeasures) -> str:
    return "–" if m.entities is None else f"{m.entities + (m.actions or 0):g}"
