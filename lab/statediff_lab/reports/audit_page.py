"""The page of an audit: what a verifier passes and fails wrongly, by class, with every such run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from statediff.reports.html.cells import cut
from statediff_lab.audit.measures import ClassRate, DomainAudit
from statediff_lab.audit.tries import Group, TaskAudit
from statediff_lab.reports.audit import share
from statediff_lab.reports.charts import Mark, Tone, bars

MAX_LISTED: Final = 500


@dataclass(frozen=True)
class Row:
    """One class in words."""

    group: str
    kind: str
    wrong: str
    share: str
    ours: str
    silent: str


@dataclass(frozen=True)
class Wrong:
    """One run on which the verifier is wrong."""

    task: str
    group: str
    kind: str
    sentence: str
    said: str
    ours: str
    labels: str
    bundle: str


@dataclass(frozen=True, kw_only=True)
class DomainView:
    """One verifier, or one domain of a suite."""

    name: str
    lead: str
    chart: Markup | None
    rows: tuple[Row, ...]
    wrong: tuple[Wrong, ...]
    more: str
    faults: tuple[tuple[str, str], ...]
    contract: str
    """Of a domain of one task."""


@dataclass(frozen=True)
class AuditView:
    """The page."""

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    domains: tuple[DomainView, ...]


def audit_view(
    verifier: str, domains: Sequence[DomainAudit], audits: Sequence[TaskAudit], seed: int
) -> AuditView:
    """The view of an audit; its numbers are those of `--json`."""
    blind, false = (sum(getattr(d, n) for d in domains) for n in ("blind", "false_fails"))
    facts = (
        ("verifier", cut(verifier)),
        ("tasks", str(sum(d.tasks for d in domains))),
        ("wrong runs passed", str(blind)),
        ("right runs not passed", str(false)),
        ("seed", str(seed)),
    )
    lead = (
        f"{blind} wrong run{'s pass' if blind != 1 else ' passes'}, "
        f"{false} right run{'s do' if false != 1 else ' does'} not."
    )
    shown = tuple(_domain(d, [a for a in audits if a.domain == d.name]) for d in domains)
    return AuditView("audit of a verifier", lead, facts, shown)


def _domain(domain: DomainAudit, audits: Sequence[TaskAudit]) -> DomainView:
    wrong = [
        Wrong(
            cut(audit.task),
            each.group.value,
            each.kind,
            cut(each.sentence),
            each.said.value + (f": {cut(each.why)}" if each.why else ""),
            "" if each.ours is None else each.ours.value,
            ", ".join(each.labels),
            cut(each.bundle),
        )
        for audit in audits
        for each in audit.tries
        if each.is_blind or each.is_false_fail
    ]
    marks = [_mark(each) for each in domain.classes]
    more = len(wrong) - MAX_LISTED
    return DomainView(
        name=cut(domain.name),
        lead=f"{domain.audited} of {domain.tasks} tasks audited",
        chart=bars("Wrong, by class", marks, unit="%").figure() if marks else None,
        rows=tuple(_row(each) for each in domain.classes),
        wrong=tuple(wrong[:MAX_LISTED]),
        more=f"{more} more are in --json" if more > 0 else "",
        faults=tuple((cut(task), cut(why)) for task, why in domain.faults),
        contract=audits[0].contract if len(audits) == 1 else "",
    )


def _row(each: ClassRate) -> Row:
    return Row(
        each.group.value,
        each.kind,
        f"{each.wrong.hits} of {each.wrong.of}",
        share(each.wrong).removeprefix(", "),
        f"{each.ours} of {each.wrong.hits}" if each.wrong.hits else "",
        str(each.silent or ""),
    )


def _mark(each: ClassRate) -> Mark:
    rate, is_right = each.wrong, each.group is Group.RIGHT
    label = f"{each.kind} {'not passed' if is_right else 'passed'}"
    if not rate.of:
        return Mark(label, None, note="it said nothing")
    ends: tuple[float | None, float | None] = (None, None)
    if rate.interval is not None:
        ends = (100 * rate.interval.low, 100 * rate.interval.high)
    return Mark(label, 100 * rate.hits / rate.of, *ends, tone=Tone.OPEN if is_right else Tone.BAD)
