"""Many trials in a report: runs, and their figures.

As tables for people, and as JSON documents with a schema of their own. Exact figures are
fractions in JSON, with their value beside them; null is a figure that is not defined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Final
from urllib.parse import unquote

from rich.table import Table

from statediff.reports.said import said
from statediff.suite.figures import DomainFigures, Figures
from statediff.suite.measures import Mean, Measures, TurnCounts
from statediff.suite.overview import EndCounts, JudgedContract
from statediff.suite.records import FAILURES, Ended
from statediff.suite.store import RunCounts

Json = Any
RUNS: Final = "statediff/runs/1"
STATS: Final = "statediff/stats/1"
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
                **end_counts(EndCounts(each.counts)),
            }
            for each in listed
        ],
    }


def runs_table(listed: Sequence[RunCounts], *, with_place: bool) -> Table:
    """The runs as a table, by the names of their folders, or by where those are."""
    table = table_of("run", "trials", "MATCH", "DIVERGE", "INCONCLUSIVE", "no verdict", "kernel")
    for each in listed:
        count = EndCounts(each.counts)
        place = each.location if with_place else each.location.rpartition("/")[2]
        table.add_row(said(unquote(place)), *_ends(count), said(each.kernel, 20))
    return table


def stats_document(found: Figures, runs: int, *, is_pooled: bool) -> Json:
    """The figures as JSON; those over all domains only where they are asked for."""
    document = {
        "schema": STATS,
        "runs": runs,
        **end_counts(found.counted),
        "contracts": [
            {
                **_judge_fields(each.judged),
                "agent": each.agent,
                **end_counts(each.counted),
                "retried": each.retried,
                **_chances(each.at, each.all),
                **measures_document(each.measures),
            }
            for each in found.contracts
        ],
        "domains": [_domain(each) for each in found.domains],
    }
    return {**document, "pooled": [_domain(e) for e in found.pooled]} if is_pooled else document


def _domain(each: DomainFigures) -> Json:
    return {
        "domain": each.domain or None,
        "agent": each.agent,
        "contracts": [_judge_fields(judged) for judged in each.contracts],
        **end_counts(each.counted),
        **_chances(each.at, each.all),
        "reruns": {
            "number": each.reruns.number,
            "mean": exact(each.reruns.mean),
            "standard_deviation": rounded(each.reruns.deviation),
            "lowest": exact(each.reruns.lowest),
            "highest": exact(each.reruns.highest),
            "spread": exact(each.reruns.spread),
        },
        **measures_document(each.measures),
    }


def measures_document(found: Measures) -> Json:
    """The measures of trials with a verdict, as JSON; `turns` only where there were any."""
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
    return {"mean": rounded(found.value), "trials": found.number}


def _turns(counts: TurnCounts) -> Json:
    return {
        "number": counts.number,
        "first_attempt": counts.first,
        "after_repair": counts.after,
        "failed": counts.failed,
        "unknown": counts.unknown,
    }


def stats_tables(found: Figures, *, is_pooled: bool) -> Iterator[Table]:
    """The figures as tables: by contract, by domain, and of live turns where there are any.

    What is pooled over all domains is the last row of a table, and only where it is asked for.
    """
    ks = sorted(found.contracts[0].at) if found.contracts else []
    chances = [name for k in ks for name in (f"pass@{k}", f"pass^{k}")]
    ends = ("trials", "MATCH", "DIVERGE", "INCONCLUSIVE", "no verdict")
    table = table_of("contract", "agent", *ends, *chances)
    names = Counter((e.judged.contract, e.judged.version, e.agent) for e in found.contracts)
    for each in found.contracts:
        who = f"{each.judged.contract} {each.judged.version}"
        if names[each.judged.contract, each.judged.version, each.agent] > 1:
            who += f" ({each.judged.digest[:8]}, kernel {each.judged.kernel})"
        if each.retried:
            who += f" ({each.retried} retried)"
        told = [percent(value) for k in ks for value in (each.at[k], each.all[k])]
        table.add_row(
            said(who, 80).strip() or "unknown", said(each.agent, 40), *_ends(each.counted), *told
        )
    yield table
    domains = table_of(
        "domain", "agent", "contracts", *ends[:1], *chances, "reruns", "mean", "sd", "spread"
    )
    by_domain = (*found.domains, *(found.pooled if is_pooled else ()))
    for row in by_domain:
        told = [percent(value) for k in ks for value in (row.at[k], row.all[k])]
        again = row.reruns
        domains.add_row(
            said(row.domain, 40) or POOLED,
            said(row.agent, 40),
            str(len(row.contracts)),
            str(row.counted.scheduled),
            *told,
            str(again.number),
            percent(again.mean),
            percent(again.deviation),
            percent(again.spread),
        )
    yield domains
    rows = [(row.domain or POOLED, row.agent, row.measures) for row in by_domain]
    yield from measures_tables("agent", rows)
    spoken = [each for each in found.contracts if each.measures.turns.number]
    if spoken:
        turns = table_of(
            "contract", "agent", "turns", "first attempt", "after repair", "failed", "unknown"
        )
        for one in spoken:
            who = f"{one.judged.contract} {one.judged.version}"
            counts = one.measures.turns
            number, *held = (counts.number, counts.first, counts.after)
            shares = [f"{each} ({percent(Fraction(each, number))})" for each in held]
            ends_of = (str(number), *shares, str(counts.failed), str(counts.unknown))
            turns.add_row(said(who, 80), said(one.agent, 40), *ends_of)
        yield turns


def measures_tables(whose: str, rows: Sequence[tuple[str, str, Measures]]) -> Iterator[Table]:
    """Rows of (domain, agent or side, measures): means, then C [TV eq. 4] by combination."""
    table = table_of("domain", whose, *MEASURES)
    for domain, who, found in rows:
        table.add_row(said(domain, 40), said(who, 40), *measured_cells(found))
    yield table
    combined = table_of("domain", whose, "tool", "task", "outcome", "trials")
    for domain, who, found in rows:
        for each, number in sorted(found.components.items(), key=_by_text):
            cells = (part or "–" for part in each)
            combined.add_row(said(domain, 40), said(who, 40), *cells, str(number))
    if combined.row_count:
        yield combined
    by_call = table_of("domain", whose, *CALLS)
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
        percent(each.value) + f" ({each.number})" * (0 < each.number < trials)
        for each in (found.precision, found.recall, found.f1, found.forbidden)
    ]
    results = [
        (counts.get(Ended.MATCH, 0), sum(counts.values()))
        for counts in map(found.result, ("tool", "task", "outcome"))
    ]
    levels = [(each, found.leveled) for each in (found.only_along, found.only_whole)]
    return (*means, *(f"{n}/{of}" if of else "–" for n, of in (*results, *levels)))


def table_of(*columns: str) -> Table:
    """An empty table; columns of figures are to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_name = column in ("", "run", "contract", "domain", "agent", "case", "A", "B", "kernel")
        table.add_column(column, justify="left" if is_name else "right", no_wrap=True)
    return table


def end_counts(count: EndCounts) -> dict[str, int]:
    """How many trials were scheduled, and how they ended, as JSON."""
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
    return {"exact": f"{value.numerator}/{value.denominator}", "value": rounded(value)}


def exact(value: Fraction | None) -> Json:
    """The fraction and its value as JSON; null where it is not defined."""
    return None if value is None else _named(value)


def rounded(value: Fraction | float | None) -> float | None:
    """The value to six places."""
    return None if value is None else round(float(value), 6)


def percent(value: Fraction | float | None) -> str:
    """The share in percent, for people."""
    return "–" if value is None else f"{100 * float(value):.1f}"
