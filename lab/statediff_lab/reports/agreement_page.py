"""The page of a re-judgement: agreement by domain, and every disagreement with its witness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.model.codes import meaning_of
from statediff.model.verdict import Verdict
from statediff.reports.html import words
from statediff.reports.html.cells import cut, name
from statediff.reports.html.words import Sign
from statediff_lab.importers.agreement import (
    AgreementReport,
    Disagreement,
    DomainReport,
    OpinionAgreement,
)
from statediff_lab.importers.rejudge import StillTask, Why
from statediff_lab.reports.agreement import mix_lines, still_summary

MAX_LISTED: Final = 300
MAX_WHY: Final = 4
_FALSE_PASS: Final = Sign("inconclusive", "!", "false pass")
_FALSE_FAIL: Final = Sign("diverge", "✗", "false fail")


@dataclass(frozen=True)
class Compared:
    """One agreement in words."""

    share: str
    between: str
    detail: str


@dataclass(frozen=True)
class Row:
    """One domain, or one half of it."""

    domain: str
    part: str
    runs: str
    counts: tuple[tuple[Sign, int], ...]
    official: Compared
    corrected: Compared
    apart: str
    """What is counted apart: disputed runs, and those that hang on natural language."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One disagreement."""

    sign: Sign
    labels: str
    against: str
    run: str
    task: str
    verdict: Sign
    why: tuple[tuple[str, str], ...]
    """(sentence, clause and place)."""
    more: str
    reviewed: tuple[str, ...]


@dataclass(frozen=True)
class Blind:
    """The harm that counts against officially passing runs, by kind."""

    clause: str
    on: str
    meaning: str
    runs: int
    tasks: int
    reviewed: int
    example: str


@dataclass(frozen=True, kw_only=True)
class AgreementView:
    """The page."""

    title: str
    lead: str
    rows: tuple[Row, ...]
    cases: tuple[tuple[str, tuple[Case, ...], str], ...]
    """(domain, its disagreements, how many are not shown)."""
    mixes: tuple[tuple[str, str], ...]
    """(domain, what its runs fail by), a row for each line that the terminal shows."""
    blind: tuple[tuple[str, tuple[Blind, ...]], ...]
    still: str
    still_wrong: tuple[tuple[str, str], ...]
    unjudged: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]


def agreement_view(report: AgreementReport, stills: Sequence[StillTask]) -> AgreementView:
    """The view of a report; bounded, and says what it leaves out."""
    idle = still_summary(stills)
    return AgreementView(
        title=f"{report.suite}, {report.mode}",
        lead=_lead(report),
        rows=tuple(_rows(report)),
        cases=tuple(
            (name(d.domain), tuple(_case(c) for c in d.disagreements[:MAX_LISTED]), _more(d))
            for d in report.domains
            if d.disagreements
        ),
        mixes=tuple((name(d.domain), cut(text)) for d in report.domains for text in mix_lines(d)),
        blind=tuple((name(d.domain), tuple(_blind(d))) for d in report.domains if d.unseen),
        still=f"On {idle['match']} of {idle['tasks']} tasks doing nothing is MATCH; "
        f"{idle['match_undeclared']} of them do not declare it (noop).",
        still_wrong=tuple(
            (name(w["task"]), cut(w["fault"] or "MATCH")) for w in idle["wrong"][:MAX_LISTED]
        ),
        unjudged=tuple(_unjudged(report)),
        facts=(
            ("Runs", f"{sum(d.runs for d in report.domains):,}"),
            ("Tasks", f"{sum(d.tasks for d in report.domains):,}"),
            ("Intervals", f"95 %, bootstrap over tasks, seed {report.seed}"),
        ),
    )


def _lead(report: AgreementReport) -> str:
    runs = sum(d.official.runs for d in report.domains)
    agree = sum(d.official.agree for d in report.domains)
    if not runs:
        return "No run has an official verdict to compare with."
    return f"{agree:,} of {runs:,} verdicts agree with the official ones."


def _rows(report: AgreementReport) -> Iterator[Row]:
    for domain in report.domains:
        yield _row(domain)
        yield from (_row(half) for half in report.halves if half.domain == domain.domain)


def _row(report: DomainReport) -> Row:
    language = sum(report.language.values())
    apart = []
    if report.disputed.runs:
        agree = report.disputed.agree
        apart.append(f"{report.disputed.runs} disputed, {agree} of them inconclusive as expected")
    if language:
        apart.append(f"{language} hang on natural language")
    if report.faults:
        apart.append(f"{report.faults} could not be judged")
    return Row(
        name(report.domain),
        "all tasks" if report.half is None else f"{report.half.value} half",
        f"{report.runs:,} runs, {report.tasks:,} tasks",
        tuple((words.VERDICTS[v.value], n) for v, n in report.verdicts.items() if n),
        _compared(report.official),
        _compared(report.corrected),
        "; ".join(apart),
    )


def _compared(found: OpinionAgreement) -> Compared:
    if found.share is None:
        return Compared("–", "", "nothing to compare")
    between = "" if (i := found.interval) is None else f"{100 * i.low:.1f}–{100 * i.high:.1f} %"
    return Compared(
        f"{100 * found.share:.1f} %",
        between,
        f"{found.agree:,} of {found.runs:,}; false pass {found.false_pass}, "
        f"false fail {found.false_fail}, inconclusive {found.inconclusive}",
    )


def _case(found: Disagreement) -> Case:
    judged = found.judged
    verdict = judged.verdict or Verdict.INCONCLUSIVE
    left = len(judged.why) - MAX_WHY
    return Case(
        sign=_FALSE_PASS if found.is_false_pass else _FALSE_FAIL,
        labels=", ".join(found.labels),
        against=f"against the {found.against} verdict",
        run=name(judged.run_id),
        task=name(judged.task.name),
        verdict=words.VERDICTS[verdict.value],
        why=tuple((cut(w.sentence), _place(w)) for w in judged.why[:MAX_WHY]),
        more=f"{left} more findings" if left > 0 else "",
        reviewed=tuple(cut(text) for text in judged.reviewed),
    )


def _place(why: Why) -> str:
    return name(" ".join((why.clause, *why.on[:3])))


def _more(report: DomainReport) -> str:
    left = len(report.disagreements) - MAX_LISTED
    return f"{left:,} more disagreements are not shown here." if left > 0 else ""


def _blind(report: DomainReport) -> Iterator[Blind]:
    for unseen in report.unseen[:MAX_LISTED]:
        why = next((w for w in unseen.example.why if w.clause == unseen.clause), None)
        yield Blind(
            name(unseen.clause),
            name(unseen.on),
            meaning_of(unseen.code) or unseen.code,
            unseen.runs,
            unseen.tasks,
            unseen.reviewed,
            "" if why is None else cut(why.sentence, 200),
        )


def _unjudged(report: AgreementReport) -> Iterator[tuple[str, str]]:
    for line in report.bad_lines[:MAX_LISTED]:
        yield f"{name(line.file)}, line {line.number}", cut(line.why)
    for fault in report.faults[:MAX_LISTED]:
        yield name(fault.run_id), cut(fault.fault)
