"""Many trials in a report: runs, their figures, and two runs side by side.

As tables for people, and as JSON documents with a schema of their own. Exact figures are
fractions in JSON, with their value beside them; null is a figure that is not defined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

from rich.table import Table

from statediff.reports.said import said
from statediff.suite.comparison import CaseChange, ComparedCase, Comparison, PassDifference
from statediff.suite.figures import DomainFigures, Figures, LabeledFigures, SideFigures
from statediff.suite.measures import Mean, Measures, TurnCounts
from statediff.suite.overview import EndCounts, JudgedContract
from statediff.suite.records import FAILURES, Ended, Loose, Side, Trial
from statediff.suite.store import RunCounts

if TYPE_CHECKING:
    from statediff.reports.differences import Differences

Json = Any
RUNS: Final = "statediff/runs/1"
STATS: Final = "statediff/stats/1"
COMPARISON: Final = "statediff/comparison/1"
POOLED: Final = "pooled over domains"
MEASURES: Final = (
    "precision",
    "recall",
    "F1",
    "forbidden",
    "tool",
    "task",
    "outcome",
    "only steps fail",
    "only end fails",
)
CALLS: Final = ("calls", "wrong", "unknown", "right end, wrong call", "wrong end, right calls")
NO_DIFFERENCE: Final = PassDifference(0, None, Fraction(1), None)
MAX_LISTED: Final = 20
"""Cases and violations of one kind shown to people; all are counted, and JSON lists them."""


def runs_document(listed: Sequence[RunCounts]) -> Json:
    """The runs as JSON."""
    return {
        "schema": RUNS,
        "runs": [
            {
                "run": each.name,
                "location": each.location,
                "statediff": each.statediff,
                "kernel": each.kernel,
                **_counts(EndCounts(each.counts)),
            }
            for each in listed
        ],
    }


def runs_table(listed: Sequence[RunCounts], *, with_place: bool) -> Table:
    """The runs as a table, by the names of their folders, or by where those are."""
    table = _table("run", "trials", "MATCH", "DIVERGE", "INCONCLUSIVE", "no verdict", "kernel")
    for each in listed:
        count = EndCounts(each.counts)
        place = each.location if with_place else each.location.rpartition("/")[2]
        table.add_row(said(unquote(place)), *_ends(count), said(each.kernel, 20))
    return table


def stats_document(
    found: Figures, runs: int, labeled: Sequence[LabeledFigures], *, is_pooled: bool
) -> Json:
    """The figures as JSON; those over all domains only where they are asked for."""
    document = {
        "schema": STATS,
        "runs": runs,
        **_counts(found.counted),
        "contracts": [
            {
                **_judge_fields(each.judged),
                "agent": each.agent,
                **_counts(each.counted),
                "retried": each.retried,
                **_chances(each.at, each.all),
                **measures_document(each.measures),
            }
            for each in found.contracts
        ],
        "domains": [{**_domain(each.figures), "gates": _gates(each)} for each in labeled],
    }
    return {**document, "pooled": [_domain(e) for e in found.pooled]} if is_pooled else document


def _domain(each: DomainFigures) -> Json:
    return {
        "domain": each.domain or None,
        "agent": each.agent,
        "contracts": [_judge_fields(judged) for judged in each.contracts],
        **_counts(each.counted),
        **_chances(each.at, each.all),
        "reruns": {
            "number": each.reruns.number,
            "mean": _exact(each.reruns.mean),
            "standard_deviation": _round(each.reruns.deviation),
            "lowest": _exact(each.reruns.lowest),
            "highest": _exact(each.reruns.highest),
            "spread": _exact(each.reruns.spread),
        },
        **measures_document(each.measures),
    }


def _gates(each: LabeledFigures) -> Json:
    """A row of [TV Table 5]; null where no trial has a label."""
    found = each.agreement
    return {
        "gates": each.gates,
        "pass": each.figures.counted.passed,
        "labeled": 0 if found is None else found.trials,
        "labeled_pass": None if found is None else each.correct,
        "decided": None if found is None else found.decided,
        "agree": None if found is None else found.agree,
        "lenient": None if found is None else found.false_acceptances,
        "strict": None if found is None else found.false_rejections,
    }


def measures_document(found: Measures) -> Json:
    """What trials with a verdict measured, as JSON; `turns` only where there were any."""
    return {
        "precision": _mean(found.precision),
        "recall": _mean(found.recall),
        "f1": _mean(found.f1),
        "forbidden_effect_rate": _mean(found.forbidden),
        "components": [
            {**each._asdict(), "trials": number}
            for each, number in sorted(found.components.items(), key=_by_text)
        ],
        "levels": {
            "both": found.leveled,
            "only_steps_fail": found.only_along,
            "only_end_fails": found.only_whole,
            "by_truth": [
                {"steps": each.along, "end": each.whole, "trials": number}
                for each, number in sorted(found.levels.items(), key=_by_text)
            ],
        },
        "calls": asdict(found.calls),
        **({"turns": _turns(found.turns)} if found.turns.number else {}),
    }


def _by_text(entry: tuple[Iterable[str | None], int]) -> list[str]:
    return [part or "" for part in entry[0]]


def _mean(found: Mean) -> Json:
    return {"mean": _round(found.value), "trials": found.number}


def _turns(counts: TurnCounts) -> Json:
    return {
        "number": counts.number,
        "first_attempt": counts.first,
        "after_repair": counts.after,
        "failed": counts.failed,
        "unknown": counts.unknown,
    }


def stats_tables(
    found: Figures, labeled: Sequence[LabeledFigures], *, is_pooled: bool
) -> Iterator[Table]:
    """The figures as tables: by contract, by domain, and of live turns where there are any.

    What is pooled over all domains is the last row of a table, and only where it is asked for.
    """
    ks = sorted(found.contracts[0].at) if found.contracts else []
    chances = [name for k in ks for name in (f"pass@{k}", f"pass^{k}")]
    ends = ("trials", "MATCH", "DIVERGE", "INCONCLUSIVE", "no verdict")
    table = _table("contract", "agent", *ends, *chances)
    names = Counter((e.judged.contract, e.judged.version, e.agent) for e in found.contracts)
    for each in found.contracts:
        who = f"{each.judged.contract} {each.judged.version}"
        if names[each.judged.contract, each.judged.version, each.agent] > 1:
            who += f" ({each.judged.digest[:8]}, kernel {each.judged.kernel})"
        if each.retried:
            who += f" ({each.retried} retried)"
        told = [_percent(value) for k in ks for value in (each.at[k], each.all[k])]
        table.add_row(
            said(who, 80).strip() or "unknown", said(each.agent, 40), *_ends(each.counted), *told
        )
    yield table
    domains = _table(
        "domain", "agent", "contracts", *ends[:1], *chances, "reruns", "mean", "sd", "spread"
    )
    by_domain = (*found.domains, *(found.pooled if is_pooled else ()))
    for row in by_domain:
        told = [_percent(value) for k in ks for value in (row.at[k], row.all[k])]
        again = row.reruns
        domains.add_row(
            said(row.domain, 40) or POOLED,
            said(row.agent, 40),
            str(len(row.contracts)),
            str(row.counted.scheduled),
            *told,
            str(again.number),
            _percent(again.mean),
            _percent(again.deviation),
            _percent(again.spread),
        )
    yield domains
    rows = [(row.domain or POOLED, row.agent, row.measures) for row in by_domain]
    yield from _measures_tables("agent", rows)
    yield _gates_table(labeled)
    spoken = [each for each in found.contracts if each.measures.turns.number]
    if spoken:
        turns = _table(
            "contract", "agent", "turns", "first attempt", "after repair", "failed", "unknown"
        )
        for one in spoken:
            who = f"{one.judged.contract} {one.judged.version}"
            counts = one.measures.turns
            number, *held = (counts.number, counts.first, counts.after)
            shares = [f"{each} ({_percent(Fraction(each, number))})" for each in held]
            ends_of = (str(number), *shares, str(counts.failed), str(counts.unknown))
            turns.add_row(said(who, 80), said(one.agent, 40), *ends_of)
        yield turns


def _measures_tables(whose: str, rows: Sequence[tuple[str, str, Measures]]) -> Iterator[Table]:
    """Rows of (domain, agent or side, measures): means, then C [TV eq. 4] by combination."""
    table = _table("domain", whose, *MEASURES)
    for domain, who, found in rows:
        table.add_row(said(domain, 40), said(who, 40), *measured_cells(found))
    yield table
    combined = _table("domain", whose, "tool", "task", "outcome", "trials")
    for domain, who, found in rows:
        for each, number in sorted(found.components.items(), key=_by_text):
            cells = (part or "–" for part in each)
            combined.add_row(said(domain, 40), said(who, 40), *cells, str(number))
    if combined.row_count:
        yield combined
    by_call = _table("domain", whose, *CALLS)
    for domain, who, found in rows:
        if found.calls.number:
            numbers = (str(number) for number in asdict(found.calls).values())
            by_call.add_row(said(domain, 40), said(who, 40), *numbers)
    if by_call.row_count:
        yield by_call


def measured_cells(found: Measures) -> tuple[str, ...]:
    """The cells below `MEASURES`; a mean over fewer trials than have a verdict says over how many.

    A result, and each level, counts only the trials whose contract has a clause of it.
    """
    trials = sum(found.components.values())
    means = [
        _percent(each.value) + f" ({each.number})" * (0 < each.number < trials)
        for each in (found.precision, found.recall, found.f1, found.forbidden)
    ]
    results = [
        (counts.get(Ended.MATCH, 0), sum(counts.values()))
        for counts in map(found.result, ("tool", "task", "outcome"))
    ]
    levels = [(each, found.leveled) for each in (found.only_along, found.only_whole)]
    return (*means, *(f"{n}/{of}" if of else "–" for n, of in (*results, *levels)))


def _gates_table(labeled: Sequence[LabeledFigures]) -> Table:
    """Verdicts beside labels, as [TV Table 5] has them; a dash where no trial has a label."""
    table = _table(
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
    return f"{_percent(Fraction(number, of))} ({number}/{of})" if of else "–"


Opened: TypeAlias = "Mapping[tuple[str, int | None, str], Differences | str]"
"""For a case by its key, where its bundles part, or why they cannot be read."""


Sides: TypeAlias = tuple[Mapping[str, SideFigures], Mapping[str, SideFigures]]
"""By domain, A and B."""


def comparison_document(found: Comparison, opened: Opened, sides: Sides) -> Json:
    """The comparison as JSON, case by case; of one with all its cases."""
    if found.alike:
        raise ValueError("cases that were left out cannot be listed")
    return {
        "schema": COMPARISON,
        "cases": len(found.cases),
        **{change.value: len(found.of(change)) for change in CaseChange},
        **_difference(found.pooled),
        "domains": [
            {
                "domain": domain,
                **_difference(found.domains.get(domain, NO_DIFFERENCE)),
                **{
                    side: None
                    if (own := by.get(domain)) is None
                    else {**_counts(own.counted), **measures_document(own.measures)}
                    for side, by in zip(("a", "b"), sides, strict=True)
                },
            }
            for domain in sorted({*found.domains, *sides[0], *sides[1]})
        ],
        "by_case": [_case(case, opened.get(case.key)) for case in found.cases],
    }


def _difference(found: PassDifference) -> Json:
    return {
        "decided": found.decided,
        "difference": _exact(found.difference),
        "mcnemar_p": _exact(found.p),
        "bootstrap": None
        if found.interval is None
        else {
            "low": _round(found.interval.low),
            "high": _round(found.interval.high),
            "resamples": found.interval.resamples,
            "seed": found.interval.seed,
            "clusters": found.interval.clusters,
        },
    }


def difference_line(found: PassDifference) -> str:
    """The difference in words; empty where no case is decided."""
    if found.interval is None or found.difference is None:
        return ""
    low, high = (f"{100 * end:+.1f}" for end in (found.interval.low, found.interval.high))
    return (
        f"{found.decided} decided: {100 * float(found.difference):+.1f} points passed, 95 % "
        f"bootstrap {low} to {high}; McNemar's exact p = {float(found.p):.4g}"
    )


def comparison_tables(
    found: Comparison, opened: Opened, sides: Sides, *, is_pooled: bool
) -> Iterator[Table | str]:
    """The comparison for people: counts, the difference, what changed, and where cases part.

    Each domain has a difference of its own; the pooled one is there where it is asked for.
    """
    told = ", ".join(
        f"{found.count(change)} {change.value.replace('_', ' ')}"
        for change in CaseChange
        if found.count(change)
    )
    yield f"{found.number} case{'s' * (found.number != 1)}: {told or 'none'}"
    domains = sorted({*sides[0], *sides[1]})
    for domain, of in found.domains.items():
        if line := difference_line(of):
            yield f"{said(domain, 40)}: {line}" if len(domains) > 1 else line
    if is_pooled and (line := difference_line(found.pooled)):
        yield f"{POOLED}: {line}"
    rows = [
        (domain, side, by[domain].measures)
        for domain in domains
        for side, by in zip("AB", sides, strict=True)
        if domain in by
    ]
    yield from islice(_measures_tables("run", rows), 1)
    changed = [case for change in _TOLD for case in found.of(change)]
    if changed:
        table = _table("", "case", "A", "B")
        for case in changed[:MAX_LISTED]:
            table.add_row(
                case.change.value.replace("_", " "), _name(case), _end(case.a), _end(case.b)
            )
        yield table
        if len(changed) > MAX_LISTED:
            yield f"and {len(changed) - MAX_LISTED} more; --json lists them"
    for word, listed in (
        ("new", [c.new for c in found.cases]),
        ("vanished", [c.vanished for c in found.cases]),
    ):
        counts = Counter(
            (case.contract, loose.code, loose.clause)
            for case, side in zip(found.cases, listed, strict=True)
            for loose in side
        )
        for (contract, code, clause), number in islice(sorted(counts.items()), MAX_LISTED):
            yield (
                f"{word} violation: {said(contract, 80)}: {said(clause, 60)} "
                f"({said(code, 60)}) in {number} case{'s' * (number != 1)}"
            )
        if len(counts) > MAX_LISTED:
            yield f"and {len(counts) - MAX_LISTED} more; --json lists them"
    cases = {case.key: case for case in found.cases if case.key in opened}
    for key, inside in opened.items():
        if lines := [inside] if isinstance(inside, str) else _lines(inside):
            yield f"{_name(cases[key])}:"
            yield from (f"  {line}" for line in lines)


_TOLD: Final = (
    CaseChange.REGRESSED,
    CaseChange.UNDECIDED,
    CaseChange.NO_VERDICT,
    CaseChange.MISSING,
    CaseChange.CONTRACT_CHANGED,
    CaseChange.IMPROVED,
)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_name = column in ("", "run", "contract", "domain", "agent", "case", "A", "B", "kernel")
        table.add_column(column, justify="left" if is_name else "right", no_wrap=True)
    return table


def _counts(count: EndCounts) -> dict[str, int]:
    return {"scheduled": count.scheduled, **{e.value: count.ended[e] for e in Ended}}


def _ends(count: EndCounts) -> tuple[str, ...]:
    """Scheduled, the three verdicts, and those without one, distinguished where there are any."""
    apart = ", ".join(
        f"{count.ended[end]} {end.value.replace('_', ' ')}" for end in FAILURES if count.ended[end]
    )
    verdicts = (count.ended[e] for e in (Ended.MATCH, Ended.DIVERGE, Ended.INCONCLUSIVE))
    return (str(count.scheduled), *(str(number) for number in verdicts), apart or "0")


def _judge_fields(judged: JudgedContract) -> dict[str, str]:
    return {
        "contract": judged.contract,
        "version": judged.version,
        "digest": judged.digest,
        "kernel": judged.kernel,
    }


def _chances(
    at: Mapping[int, Fraction | None], every: Mapping[int, Fraction | None]
) -> dict[str, Json]:
    return {
        "pass_at": [{"k": k, **_named(value)} for k, value in sorted(at.items())],
        "pass_all": [{"k": k, **_named(value)} for k, value in sorted(every.items())],
    }


def _named(value: Fraction | None) -> dict[str, Json]:
    if value is None:
        return {"exact": None, "value": None}
    return {"exact": f"{value.numerator}/{value.denominator}", "value": _round(value)}


def _exact(value: Fraction | None) -> Json:
    if value is None:
        return None
    return _named(value)


def _round(value: Fraction | float | None) -> float | None:
    return None if value is None else round(float(value), 6)


def _percent(value: Fraction | float | None) -> str:
    return "–" if value is None else f"{100 * float(value):.1f}"


# What opens bundles loads all that reads a state, for which a list of figures need not wait.


def _lines(inside: Differences) -> Sequence[str]:
    from statediff.reports.differences import differences_lines  # noqa: PLC0415 - as above

    return differences_lines(inside)


def _document(inside: Differences) -> Json:
    from statediff.reports.differences import differences_document  # noqa: PLC0415 - as above

    return differences_document(inside)


def _case(case: ComparedCase, inside: Differences | str | None) -> Json:
    return {
        "contract": case.contract,
        "number": case.number,
        "change": case.change.value,
        "a": _side(case.a),
        "b": _side(case.b),
        "new": [_loose(each) for each in case.new],
        "vanished": [_loose(each) for each in case.vanished],
        "differences": (None if inside is None or isinstance(inside, str) else _document(inside)),
        "not_opened": inside if isinstance(inside, str) else None,
    }


def _side(trial: Trial | Side | None) -> Json:
    if trial is None:
        return None
    return {
        "trial": trial.name,
        "version": trial.version,
        "digest": trial.digest,
        "kernel": trial.kernel,
        "agent": trial.agent,
        "ended": trial.ended.value,
        "bundle": trial.bundle or None,
        "why": trial.why or None,
    }


def _loose(found: Loose) -> Json:
    return {"clause": found.clause, "code": found.code, "stage": found.stage}


def _name(case: ComparedCase) -> str:
    return said(f"{case.contract} {case.number}" if case.number is not None else case.name, 80)


def _end(trial: Trial | Side | None) -> str:
    if trial is None:
        return "not scheduled"
    return f"{trial.ended.value.replace('_', ' ')} ({said(trial.version, 20)})"
