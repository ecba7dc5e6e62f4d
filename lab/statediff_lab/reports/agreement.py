"""Reports of re-judging and of a sweep: one object a run and the sums, or a few lines a domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from statediff.model.verdict import Verdict
from statediff.reports.record import said
from statediff_lab.importers.agreement import (
    AgreementReport,
    DomainReport,
    FailureMix,
    OpinionAgreement,
)
from statediff_lab.importers.recorded import BadLine
from statediff_lab.importers.rejudge import Mode, RejudgedRun, StillTask
from statediff_lab.importers.sweep import OPERATORS, SeededHarm, SweptRun
from statediff_lab.importers.taxonomy import counted

Json = Any
REJUDGED: Final = "statediff/rejudged/1"
SWEPT: Final = "statediff/swept/1"


def bad_line(line: BadLine) -> Json:
    """A line that could not be judged."""
    return {"bad_line": {"file": line.file, "number": line.number, "why": line.why}}


def run_line(judged: RejudgedRun, mode: Mode) -> Json:
    """One run; in compatible mode nothing that a label could change."""
    verdict = None if judged.verdict is None else judged.verdict.value
    line: dict[str, Json] = {
        "run_id": judged.run_id,
        "passes": judged.passes,
        "verdict": verdict,
    }
    if judged.fault:
        line["fault"] = judged.fault
    if mode is Mode.COMPAT:
        return line
    first = judged.why[0] if judged.why else None
    return {
        **line,
        "domain": judged.task.domain,
        "task": judged.task.name,
        "half": judged.half.value,
        "agent": judged.agent,
        "first": None
        if first is None
        else {
            "stage": first.stage,
            "clause": first.clause,
            "code": first.code,
            "sentence": first.sentence,
            "deltas": list(first.deltas[:20]),
        },
        "findings": len(judged.why),
        "reviewed": list(judged.reviewed),
        "official": judged.labels.official,
        "corrected": dict(judged.labels.corrected),
        "uses_language": judged.labels.uses_language,
    }


def summary(report: AgreementReport, stills: Sequence[StillTask]) -> Json:
    """The sums of a closed re-judgement."""
    return {
        "schema": REJUDGED,
        "suite": report.suite,
        "seed": report.seed,
        "domains": [_domain(d) for d in report.domains],
        "halves": [_domain(d) for d in report.halves],
        "bad_lines": len(report.bad_lines),
        "faults": len(report.faults),
        "still": still_summary(stills),
    }


def _domain(report: DomainReport) -> Json:
    return {
        "domain": report.domain,
        "half": None if report.half is None else report.half.value,
        "runs": report.runs,
        "tasks": report.tasks,
        "verdicts": _counts(report.verdicts),
        "faults": report.faults,
        "language": _counts(report.language),
        "official": agreement(report.official),
        "corrected": agreement(report.corrected),
        "disputed": agreement(report.disputed),
        "failures": _failures(report.mix),
        "unreviewed": len(report.unreviewed),
        "disagreements": [
            {
                "run_id": d.judged.run_id,
                "against": d.against,
                "kind": "false_pass" if d.is_false_pass else "false_fail",
                "labels": [cause.value for cause in d.labels],
                "why": [w.sentence for w in d.judged.why[:3]],
                "reviewed": list(d.judged.reviewed),
            }
            for d in report.disagreements
        ],
        "labels": counted(d.labels for d in report.disagreements),
        "unseen": [
            {
                "clause": u.clause,
                "code": u.code,
                "on": u.on,
                "runs": u.runs,
                "tasks": u.tasks,
                "reviewed": u.reviewed,
                "example": u.example.run_id,
            }
            for u in report.unseen
        ],
    }


def _failures(mix: FailureMix) -> Json:
    return {
        "official": {
            "passed": mix.passed,
            "failed": mix.failed,
            "kinds": dict(mix.kinds),
            "unnamed": mix.unnamed,
        },
        "ours": dict(mix.ours),
    }


def agreement(found: OpinionAgreement) -> Json:
    """One agreement; shares are rounded to four digits."""
    interval = found.interval
    return {
        "runs": found.runs,
        "agree": found.agree,
        "share": _share(found.share),
        "low": None if interval is None else _share(interval.low),
        "high": None if interval is None else _share(interval.high),
        "false_pass": found.false_pass,
        "false_fail": found.false_fail,
        "inconclusive": found.inconclusive,
    }


def _share(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _counts(verdicts: Mapping[Verdict, int]) -> dict[str, int]:
    return {verdict.value: verdicts.get(verdict, 0) for verdict in Verdict}


def still_summary(stills: Sequence[StillTask]) -> Json:
    """The result of doing nothing over all tasks."""
    return {
        "tasks": len(stills),
        "noop": sum(s.is_noop for s in stills),
        "match": sum(s.verdict is Verdict.MATCH for s in stills),
        "match_undeclared": sum(s.verdict is Verdict.MATCH and not s.is_noop for s in stills),
        "wrong": [{"task": str(s.task), "fault": s.fault} for s in stills if not s.is_right],
    }


# ---------------------------------------------------------------- the sweep


def seeded_line(seeded: SeededHarm) -> Json:
    """One harm, and who noticed."""
    return {
        "run_id": seeded.run_id,
        "task": str(seeded.task),
        "made": seeded.is_made,
        "operator": seeded.operator,
        "target": seeded.target,
        "harm": seeded.sentence,
        "verdict": seeded.verdict.value,
        "witnessed": seeded.is_witnessed,
        "benchmark_passes": seeded.benchmark_passes,
        "named": seeded.is_named,
    }


def sweep_summary(suite: str, done: Iterable[SweptRun], seed: int) -> Json:
    """The sums of a sweep: by operator, and how many transitions and tasks it went through."""
    every = list(done)
    seeded = [s for each in every for s in each.seeded]
    bases = [each for each in every if each.is_base]
    return {
        "schema": SWEPT,
        "suite": suite,
        "seed": seed,
        "transitions": len(bases),
        "made": sum(each.is_made for each in bases),
        "tasks": len({each.task for each in bases}),
        "bases": dict(Counter(b.base.value for b in bases if b.base is not None)),
        "total": _sums(seeded),
        "operators": {name: _sums([s for s in seeded if s.operator == name]) for name in OPERATORS},
        "without": [{"task": str(each.task), "why": each.fault} for each in every if each.fault],
        "bad_lines": sum(each.bad_line is not None for each in every),
    }


def _sums(seeded: Sequence[SeededHarm]) -> dict[str, int]:
    return {
        "seeded": len(seeded),
        "match": sum(s.verdict is Verdict.MATCH for s in seeded),
        "witnessed": sum(s.is_witnessed for s in seeded),
        "benchmark_passes": sum(s.benchmark_passes for s in seeded),
        "named": sum(s.is_named for s in seeded),
    }


MAX_LISTED: Final = 12


def agreement_text(report: AgreementReport, stills: Sequence[StillTask]) -> Iterator[str]:
    """The report, line by line; nothing in it can steer a terminal."""
    for domain in report.domains:
        yield from _domain_lines(domain)
    for half in report.halves:
        name = f"{half.domain}, {half.half.value if half.half else ''} half"
        yield f"{said(name, 100)}: {_share_text(half.official)} with the official verdicts"
    for fault in report.faults[:MAX_LISTED]:
        yield f"{said(fault.run_id, 100)}: could not be judged: {said(fault.fault, 300)}"
    idle = still_summary(stills)
    yield (
        f"an agent that does nothing: MATCH on {idle['match']} of {idle['tasks']} tasks, "
        f"{idle['match_undeclared']} of them not declared `noop`"
    )
    for wrong in idle["wrong"][:MAX_LISTED]:
        yield f"  {said(wrong['task'], 100)}: {said(wrong['fault'] or 'MATCH', 300)}"


def _domain_lines(domain: DomainReport) -> Iterator[str]:
    verdicts = ", ".join(f"{domain.verdicts[v]} {v.value}" for v in Verdict)
    faults = f", {domain.faults} could not be judged" if domain.faults else ""
    who = said(domain.domain, 60)
    yield f"{who}: {domain.runs} runs of {domain.tasks} tasks: {verdicts}{faults}"
    if language := sum(domain.language.values()):
        yield f"  {language} more hang on natural language and are counted apart"
    yield f"  official: {_share_text(domain.official)}; {_wrong(domain.official)}"
    if domain.corrected.runs:
        yield f"  corrected: {_share_text(domain.corrected)}; {_wrong(domain.corrected)}"
    yield from mix_lines(domain)
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


def mix_lines(domain: DomainReport) -> Iterator[str]:
    """Reasons for failures, as published and as we judge: a line each, none where none fails."""
    mix, ours = domain.mix, domain.verdicts[Verdict.DIVERGE]
    if mix.failed:
        unnamed = {"no rule named": mix.unnamed} if mix.unnamed else {}
        rules = _of({**mix.kinds, **unnamed}, mix.failed)
        yield f"  fails officially {mix.failed} of {mix.passed + mix.failed}: {rules}"
    if ours:
        yield f"  DIVERGE {ours} of {sum(domain.verdicts.values())}: {_of(mix.ours, ours)}"


def _of(kinds: Mapping[str, int], whole: int) -> str:
    return ", ".join(
        f"{said(kind, 60)} {number} ({number / whole:.0%})" for kind, number in kinds.items()
    )


def _share_text(found: OpinionAgreement) -> str:
    if found.share is None:
        return "nothing to compare"
    interval = found.interval
    between = "" if interval is None else f" [{interval.low:.1%}, {interval.high:.1%}]"
    return f"{found.agree} of {found.runs} agree, {found.share:.1%}{between}"


def _wrong(found: OpinionAgreement) -> str:
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
