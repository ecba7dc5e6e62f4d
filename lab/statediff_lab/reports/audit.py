"""An audit of verifiers: as JSON, as text for a terminal, as rows of the league, as a badge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Final

from markupsafe import escape

from statediff._version import __version__
from statediff.kernel import KERNEL
from statediff.reports.said import said
from statediff_lab.audit.judges import JudgeStudy
from statediff_lab.audit.measures import ClassRate, DomainAudit, Rate
from statediff_lab.audit.tries import Group, TaskAudit

AUDIT: Final = "statediff/audit/1"
JUDGES: Final = "statediff/judges/1"
SHOWN: Final = 20
"""Runs on which a verifier is wrong, as far as they are listed."""


def audit_document(
    domains: Sequence[DomainAudit], audits: Sequence[TaskAudit], seed: int, each: int
) -> dict[str, Any]:
    """The figures, and every run on which the verifier is wrong."""
    return {
        "schema": AUDIT,
        "seed": seed,
        "each": each,
        "made by": {"statediff": __version__, "kernel": KERNEL},
        "evidence": {audit.task: dict(audit.evidence) for audit in audits if audit.evidence},
        "domains": [_domain(domain) for domain in domains],
        "wrong": [dict(entry) for audit in audits for entry in wrong_runs(audit)],
        "untried": _untried(audits),
    }


def _domain(domain: DomainAudit) -> dict[str, Any]:
    return {
        "name": domain.name,
        "tasks": domain.tasks,
        "audited": domain.audited,
        "blind": domain.blind,
        "false_fails": domain.false_fails,
        "groups": [_class(each) for each in domain.groups],
        "classes": [_class(each) for each in domain.classes],
        "labels": dict(domain.labels),
        "faults": [{"task": task, "why": why} for task, why in domain.faults],
    }


def _class(each: ClassRate) -> dict[str, Any]:
    named = {"group": each.group.value} | ({"kind": each.kind} if each.kind else {})
    return {**named, **rate_document(each.wrong), "silent": each.silent, "ours": each.ours}


def rate_document(rate: Rate) -> dict[str, Any]:
    """A share: of what, over how many tasks, and its interval with four digits."""
    interval = rate.interval
    ends = None if interval is None else [round(interval.low, 4), round(interval.high, 4)]
    return {"wrong": rate.hits, "of": rate.of, "tasks": rate.tasks, "interval": ends}


def wrong_runs(audit: TaskAudit) -> Iterator[dict[str, Any]]:
    """Each run on which the verifier is wrong."""
    for each in audit.tries:
        if each.is_blind or each.is_false_fail:
            told = {name: value for name, value in asdict(each).items() if value != ""}
            ours = None if each.ours is None else each.ours.value
            told |= {"group": each.group.value, "said": each.said.value, "ours": ours}
            del told["causes"]
            told["labels"] = [cause.value for cause in each.labels]
            yield {"domain": audit.domain, "task": audit.task, **told}


def _untried(audits: Sequence[TaskAudit]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], int] = {}
    for each in (each for audit in audits for each in audit.untried):
        found[each.what, each.why] = found.get((each.what, each.why), 0) + each.number
    return [{"what": w, "why": y, "number": found[w, y]} for w, y in sorted(found)]


def audit_text(domains: Sequence[DomainAudit], audits: Sequence[TaskAudit]) -> str:
    """The audit for a terminal: figures by class, then what is wrong."""
    lines: list[str] = []
    for domain in domains:
        tasks = f"{domain.tasks} task{'s' * (domain.tasks != 1)}"
        mark = "✘" if domain.blind or domain.false_fails else "✔"
        lines.append(
            f"{mark} {said(domain.name, 80)}  {domain.audited} of {tasks} audited: passes "
            f"{_runs(domain.blind, 'wrong run')}, fails {_runs(domain.false_fails, 'right one')}"
        )
        lines += [_line(each) for each in domain.classes]
        why = {reason: [t for t, r in domain.faults if r == reason] for _, reason in domain.faults}
        lines += [f"  not audited: {said(r, 300)} ({len(tasks)})" for r, tasks in why.items()]
    wrong = [entry for audit in audits for entry in wrong_runs(audit)]
    for entry in wrong[:SHOWN]:
        what = "passes" if entry["group"] != Group.RIGHT.value else "does not pass"
        place = f"; {said(entry['bundle'], 200)}" if entry.get("bundle") else ""
        ours = f" (ours: {entry['ours']})" if entry["ours"] else ""
        words = entry["why"] if entry["group"] == Group.RIGHT.value and entry.get("why") else ""
        because = f": {said(words, 120)}" if words else ""
        task, run = said(entry["task"], 80), said(entry["sentence"], 200)
        lines.append(f"  {task}: {what} {run}{ours}{place}{because}")
    counts: Counter[str] = Counter()
    for domain in domains:
        counts.update(domain.labels)
    if counts:
        listed = ", ".join(f"{code} {number}" for code, number in counts.most_common())
        lines.append(f"  labels: {listed}")
    if lost := [entry["task"] for entry in wrong if entry["kind"] == "right-run"]:
        lines.append(
            f"  the very run that was given as right does not pass, in {len(lost)} of "
            f"{len(audits)} tasks ({said(lost[0], 80)}): that harm does not pass there says nothing"
        )
        idle = {entry["task"] for entry in wrong if entry["kind"] == "null-run"}
        if turned := [task for task in lost if task in idle]:
            lines.append(
                f"  nor does the run that does nothing fail there ({said(turned[0], 80)}): are the "
                "states before and after exchanged?"
            )
    if len(wrong) > SHOWN:
        lines.append(f"  and {len(wrong) - SHOWN} more: --json lists all of them")
    left = "; ".join(f"{u['number']} {u['what']} ({u['why']})" for u in _untried(audits))
    return "\n".join([*lines, f"not tried: {said(left or 'nothing', 1000)}"])


def _runs(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _line(each: ClassRate) -> str:
    silent = f", {each.silent} without a word" if each.silent else ""
    ours = f", {each.ours} of these judged otherwise by the contract" if each.wrong.hits else ""
    verb = "not passed" if each.group is Group.RIGHT else "passed"
    return (
        f"  {each.group.value:<17} {each.kind:<20} {verb} {each.wrong.hits} of {each.wrong.of}"
        f"{share(each.wrong)}{ours}{silent}"
    )


def share(rate: Rate) -> str:
    """The share in per cent with its interval, behind a comma; empty of nothing."""
    if not rate.of:
        return ""
    ends = "" if rate.interval is None else f" [{_percents(rate)}]"
    return f", {100 * rate.hits / rate.of:.1f} %{ends}"


def _percents(rate: Rate) -> str:
    assert rate.interval is not None  # noqa: S101 - asked before
    return f"{100 * rate.interval.low:.1f}, {100 * rate.interval.high:.1f}"


def judges_document(study: JudgeStudy) -> dict[str, Any]:
    """The figures of published judges."""
    return {
        "schema": JUDGES,
        "name": study.name,
        "labels": study.labels,
        "passed": rate_document(study.passed),
        "judges": [
            {
                "judge": each.judge,
                "agreement": rate_document(each.agreement),
                "passed": rate_document(each.passed),
                "precision": rate_document(each.precision),
                "lenient": rate_document(each.lenient),
                "strict": rate_document(each.strict),
                "kappa": _number(each.kappa),
                "labels": {cause.value: number for cause, number in each.causes},
            }
            for each in study.judges
        ],
        "kappas": [{"a": a, "b": b, "kappa": _number(k)} for a, b, k in study.kappas],
        "fleiss": _number(study.fleiss),
        "spread": _number(study.spread.spread),
        "deviation": None if study.spread.deviation is None else round(study.spread.deviation, 4),
        "lowest": _number(study.spread.lowest),
        "highest": _number(study.spread.highest),
        "mean": _number(study.spread.mean),
    }


def judges_text(study: JudgeStudy) -> str:
    """The figures of judges for a terminal, most agreement first."""
    lines = [f"labels: {study.labels}; they pass {_of(study.passed)}"]
    for each in study.judges:
        lines.append(f"{said(each.judge, 80)}: agrees with {_of(each.agreement)}")
        names = ("passed", "precision", "lenient", "strict")
        lines += [f"  {name:<10} {_of(getattr(each, name))}" for name in names]
        lines.append(f"  {'kappa':<10} {_words(each.kappa)}")
        if each.causes:
            causes = ", ".join(f"{cause.value} {number}" for cause, number in each.causes)
            lines.append(f"  {'wrong by':<10} {causes}")
    known = [kappa for _, _, kappa in study.kappas if kappa is not None]
    if known:
        lines.append(
            f"between judges: Fleiss' kappa {_words(study.fleiss)}, Cohen's from "
            f"{_words(min(known))} to {_words(max(known))} over {len(known)} pairs"
        )
    lines.append(_apart(study))
    return "\n".join(lines)


def _apart(study: JudgeStudy) -> str:
    """How far the shares lie apart that judges, or reruns of one, pass [TV Table 7]."""
    found = study.spread
    if found.mean is None or found.lowest is None or found.highest is None:
        return "no judge has a score"
    ends = f"lowest {_percent(found.lowest)} %, highest {_percent(found.highest)} %"
    deviation = "" if found.deviation is None else f", deviation {100 * found.deviation:.1f} points"
    spread = _percent(found.highest - found.lowest)
    return (
        f"scores of {found.number} judges: {ends}, mean {_percent(found.mean)} %{deviation}, "
        f"spread {spread} points"
    )


def _percent(value: Fraction) -> str:
    return f"{float(100 * value):.1f}"


def _of(rate: Rate) -> str:
    return f"{rate.hits} of {rate.of}{share(rate)}"


def _words(value: Fraction | None) -> str:
    return "not defined" if value is None else f"{float(value):.2f}"


def _number(value: Fraction | None) -> float | None:
    return None if value is None else round(float(value), 4)


# ---------------------------------------------------------------- the badge

_LABEL: Final = "verifier audit"
_GREEN, _ORANGE, _RED, _GREY = "#2a7d4f", "#b06a00", "#b3261e", "#6b7280"
_COLORS: Final = {_GREEN: "green", _ORANGE: "orange", _RED: "red", _GREY: "lightgrey"}
_LETTER: Final = 6.6
"""Pixels of a letter at 11 px; the text is fitted to what that gives."""


def badge(domains: Sequence[DomainAudit], *, is_svg: bool) -> str:
    """The badge's file: an SVG, or the JSON that shields.io reads from an endpoint. No network."""
    message, color = _message(domains)
    if is_svg:
        return _svg(message, color)
    endpoint = {"schemaVersion": 1, "label": _LABEL, "message": message, "color": _COLORS[color]}
    return f"{json.dumps(endpoint, ensure_ascii=False)}\n"


def _message(domains: Sequence[DomainAudit]) -> tuple[str, str]:
    audited = sum(domain.audited for domain in domains)
    lost = sum(domain.tasks for domain in domains) - audited
    blind, false = (sum(getattr(d, n) for d in domains) for n in ("blind", "false_fails"))
    if not audited:
        return "nothing could be audited", _GREY
    tasks = f"{audited} task{'s' * (audited != 1)}" + (f", {lost} not audited" if lost else "")
    if blind:
        return f"{blind} hole{'s' * (blind != 1)} in {tasks}", _RED
    if false:
        return f"{false} right run{'s' * (false != 1)} not passed in {tasks}", _ORANGE
    return f"no hole found in {tasks}", _ORANGE if lost else _GREEN


def _svg(message: str, color: str) -> str:
    left, right = (round(_LETTER * len(text) + 12) for text in (_LABEL, message))
    whole = left + right
    title = escape(f"{_LABEL}: {message}")

    def text(words: str, start: int, width: int) -> str:
        return f'<text x="{start + 6}" y="14" textLength="{width - 12}">{escape(words)}</text>'

    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{whole}" height="20" rx="3" fill="#3b4252"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="{color}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"{text(_LABEL, 0, left)}{text(message, left, right)}</g></svg>\n"
    )
