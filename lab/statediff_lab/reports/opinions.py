"""Reviewers' opinions on many trials, beside the figures and never in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Final

from rich.table import Table

from statediff.reports.said import said
from statediff.reports.suites import percent, table_of
from statediff.suite.overview import JudgedContract
from statediff.suite.records import Trial
from statediff_lab.comparison import CaseChange, ComparedCase, Comparison
from statediff_lab.labels import Flagged, VerdictAgreement, against
from statediff_lab.opinions import LabeledFigures, ReviewedTrial, ReviewerOpinions

Json = Any
Flags = Mapping[str, Sequence[Flagged]]
"""Of a run: by the name of the trial."""
MAX_LISTED: Final = 20


def opinions_document(found: ReviewerOpinions) -> Json:
    """The opinions as JSON: by contract and agent, and every case that is flagged."""
    return {
        "refused": found.refused,
        "contracts": [
            {
                **asdict(judged),
                "agent": agent,
                "flagged": sum(bool(e.flags) for e in members),
                **asdict(_against(members)),
            }
            for (judged, agent), members in _by_contract(found)
        ],
        "unreliable": [
            {
                "run": each.run,
                "trial": each.trial,
                "contract": each.judged.contract,
                "version": each.judged.version,
                "number": each.number,
                "agent": each.agent,
                "ended": each.ended.value,
                "flags": _flags(each.flags),
            }
            for each in found.trials
            if each.flags
        ],
    }


def opinions_tables(found: ReviewerOpinions) -> Iterator[Table | str]:
    """The opinions for people; nothing where nobody said anything."""
    if found.trials:
        table = Table(box=None, pad_edge=False, header_style="bold")
        names = (
            "reviewed",
            "agent",
            "labels",
            "agree",
            "MATCH, incorrect",
            "DIVERGE, correct",
            "unreliable",
        )
        for name in names:
            left = name in names[:2]
            table.add_column(name, justify="left" if left else "right", no_wrap=True)
        for (judged, agent), members in _by_contract(found):
            told = _against(members)
            table.add_row(
                said(f"{judged.contract} {judged.version}", 80),
                said(agent, 40),
                str(told.trials),
                str(told.agree),
                str(told.false_acceptances),
                str(told.false_rejections),
                str(sum(bool(each.flags) for each in members)),
            )
        yield table
    flagged = [each for each in found.trials if each.flags]
    for each in flagged[:MAX_LISTED]:
        yield f"unreliable: {said(each.trial, 80)} ({each.ended.value}): {_why(each.flags)}"
    if len(flagged) > MAX_LISTED:
        yield f"and {len(flagged) - MAX_LISTED} more; --json lists them"
    if found.refused:
        yield f"{found.refused} labels or flags are by keys that are not trusted, or do not fit"


def flagged_document(found: Comparison, a: Flags, b: Flags) -> Json:
    """The cases that are flagged on a side, as JSON."""
    return [
        {
            "contract": case.contract,
            "number": case.number,
            "change": case.change.value,
            "a": _flags(_of(case.a, a)),
            "b": _flags(_of(case.b, b)),
        }
        for case in _flagged(found, a, b)
    ]


def flagged_lines(found: Comparison, a: Flags, b: Flags) -> Iterator[str]:
    """How many cases are flagged, what is left without them, and why; nothing if none is."""
    flagged = _flagged(found, a, b)
    if not flagged:
        return
    changes = Counter(case.change for case in flagged)
    left = ", ".join(
        f"{len(found.of(change)) - changes[change]} {change.value.replace('_', ' ')}"
        for change in CaseChange
        if len(found.of(change)) > changes[change]
    )
    plural = "" if len(flagged) == 1 else "s"
    yield f"{len(flagged)} case{plural} flagged as unreliable, and counted; without: {left or '0'}"
    for case in flagged[:MAX_LISTED]:
        who = f"{said(case.contract, 80)} {'' if case.number is None else case.number}".strip()
        for side, flags in (("A", _of(case.a, a)), ("B", _of(case.b, b))):
            if flags:
                yield f"  {who} in {side}, {case.change.value.replace('_', ' ')}: {_why(flags)}"


def _flagged(found: Comparison, a: Flags, b: Flags) -> list[ComparedCase]:
    return [case for case in found.cases if _of(case.a, a) or _of(case.b, b)]


def _of(side: Trial | None, flags: Flags) -> Sequence[Flagged]:
    return () if side is None else flags.get(side.name, ())


def _by_contract(
    found: ReviewerOpinions,
) -> list[tuple[tuple[JudgedContract, str], list[ReviewedTrial]]]:
    by: dict[tuple[JudgedContract, str], list[ReviewedTrial]] = defaultdict(list)
    for each in found.trials:
        by[each.judged, each.agent].append(each)
    return sorted(by.items(), key=lambda each: each[0])


def _against(members: Sequence[ReviewedTrial]) -> VerdictAgreement:
    return against([(e.ended.value, e.label) for e in members if e.label is not None])


def _flags(flags: Sequence[Flagged]) -> Json:
    return [{"by": e.by, "at": e.at.isoformat(), "because": e.because} for e in flags]


def _why(flags: Sequence[Flagged]) -> str:
    return "; ".join(f"{said(e.because, 200)} ({said(e.by, 40)})" for e in flags)


def gates_document(each: LabeledFigures) -> Json:
    """A row of [TV Table 5]; null where no trial has a label."""
    found = each.agreement
    return {
        "domain": each.figures.domain,
        "agent": each.figures.agent,
        "gates": each.gates,
        "pass": each.figures.counted.passed,
        "labeled": 0 if found is None else found.trials,
        "labeled_pass": None if found is None else each.correct,
        "decided": None if found is None else found.decided,
        "agree": None if found is None else found.agree,
        "lenient": None if found is None else found.false_acceptances,
        "strict": None if found is None else found.false_rejections,
    }


def gates_table(labeled: Sequence[LabeledFigures]) -> Table:
    """Verdicts beside labels, as [TV Table 5] has them; a dash where no trial has a label."""
    table = table_of(
        "domain", "agent", "gates", "pass", "labeled", "label pass", "agree", "lenient", "strict"
    )
    for each in labeled:
        found, row = each.agreement, each.figures
        beside = ["–"] * 5
        if found is not None:
            beside = [
                str(found.trials),
                _part(each.correct, found.trials),
                _part(found.agree, found.decided),
                str(found.false_acceptances),
                str(found.false_rejections),
            ]
        passed = _part(row.counted.passed, each.gates)
        table.add_row(said(row.domain, 40), said(row.agent, 40), str(each.gates), passed, *beside)
    return table


def _part(number: int, of: int) -> str:
    return f"{percent(Fraction(number, of))} ({number}/{of})" if of else "–"
