"""What re-judging says, for people at a console: a few lines a domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from statediff.importers.agreement import Agreement, DomainReport, Report
from statediff.importers.still import Still
from statediff.model.verdict import Verdict
from statediff.reports.agreement import still_summary
from statediff.reports.record import said

MAX_LISTED: Final = 12


def agreement_text(report: Report, stills: Sequence[Still]) -> Iterator[str]:
    """The report, line by line; nothing in it can steer a terminal."""
    for domain in report.domains:
        yield from _domain(domain)
    for half in report.halves:
        name = f"{half.domain}, {half.half.value if half.half else ''} half"
        yield f"{said(name, 100)}: {_share(half.official)} with the official verdicts"
    for fault in report.faults[:MAX_LISTED]:
        yield f"{said(fault.run_id, 100)}: could not be judged: {said(fault.fault, 300)}"
    idle = still_summary(stills)
    yield (
        f"an agent that does nothing: MATCH on {idle['match']} of {idle['tasks']} tasks, "
        f"{idle['match_undeclared']} of them not declared `noop`"
    )
    for wrong in idle["wrong"][:MAX_LISTED]:
        yield f"  {said(wrong['task'], 100)}: {said(wrong['fault'] or 'MATCH', 300)}"


def _domain(domain: DomainReport) -> Iterator[str]:
    verdicts = ", ".join(f"{domain.verdicts[v]} {v.value}" for v in Verdict)
    faults = f", {domain.faults} could not be judged" if domain.faults else ""
    who = said(domain.domain, 60)
    yield f"{who}: {domain.runs} runs of {domain.tasks} tasks: {verdicts}{faults}"
    if language := sum(domain.language.values()):
        yield f"  {language} more hang on natural language and are counted apart"
    yield f"  official: {_share(domain.official)}; {_wrong(domain.official)}"
    if domain.corrected.runs:
        yield f"  corrected: {_share(domain.corrected)}; {_wrong(domain.corrected)}"
    if domain.disputed.runs:
        yield (
            f"  two corrections differ: {domain.disputed.agree} of {domain.disputed.runs} runs "
            "INCONCLUSIVE, as they should be"
        )
    for each in domain.disagreements[:MAX_LISTED]:
        kind = "false pass" if each.is_false_pass else "false fail"
        why = each.judged.why[0].sentence if each.judged.why else "every clause holds"
        note = f" (reviewed: {each.judged.reviewed[0]})" if each.judged.reviewed else ""
        run = said(each.judged.run_id, 100)
        yield f"  {kind} against {each.against}: {run}: {said(why, 160)}{said(note, 160)}"
    if (left := len(domain.disagreements) - MAX_LISTED) > 0:
        yield f"  and {left} more; --json and --report list them"
    for unseen in domain.unseen[:MAX_LISTED]:
        yield (
            f"  unseen officially: {said(unseen.clause, 60)} {said(unseen.on, 60)}: "
            f"runs {unseen.runs}, tasks {unseen.tasks}, reviewed {unseen.reviewed}"
        )


def _share(found: Agreement) -> str:
    if found.share is None:
        return "nothing to compare"
    interval = found.interval
    between = "" if interval is None else f" [{interval.low:.1%}, {interval.high:.1%}]"
    return f"{found.agree} of {found.runs} agree, {found.share:.1%}{between}"


def _wrong(found: Agreement) -> str:
    return (
        f"false pass {found.false_pass}, false fail {found.false_fail}, "
        f"inconclusive {found.inconclusive}"
    )


def sweep_text(sums: dict[str, Any]) -> Iterator[str]:
    """The sums of a sweep as a small table."""
    yield (
        f"{said(sums['suite'], 40)}: harm seeded into {sums['transitions']} transitions of "
        f"{sums['tasks']} tasks, {sums['made']} of them made from the tasks' checks"
    )
    yield f"{'harm':<11}{'seeded':>8}{'MATCH':>8}{'witness':>9}{'benchmark passes':>18}{'named':>7}"
    for name, row in (*sums["operators"].items(), ("all", sums["total"])):
        yield (
            f"{name:<11}{row['seeded']:>8}{row['match']:>8}{row['witnessed']:>9}"
            f"{row['benchmark_passes']:>18}{row['named']:>7}"
        )
    for left in sums["without"][:MAX_LISTED]:
        yield f"  {said(left['task'], 100)}: {said(left['why'], 300)}"
