"""Two runs side by side, for people and as JSON, case by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rich.table import Table

from statediff.reports.said import said
from statediff.reports.suites import (
    POOLED,
    end_counts,
    exact,
    measures_document,
    measures_tables,
    rounded,
    table_of,
)
from statediff.suite.records import Loose, Trial
from statediff_lab.comparison import (
    CaseChange,
    ComparedCase,
    Comparison,
    PassDifference,
    SideFigures,
)

if TYPE_CHECKING:
    from statediff_lab.reports.differences import Differences

Json = Any
TOLD: Final = (
    CaseChange.REGRESSED,
    CaseChange.UNDECIDED,
    CaseChange.NO_VERDICT,
    CaseChange.MISSING,
    CaseChange.CONTRACT_CHANGED,
    CaseChange.IMPROVED,
)
"""Changes whose cases are listed, in this order."""
COMPARISON: Final = "statediff/comparison/1"
NO_DIFFERENCE: Final = PassDifference(0, None, Fraction(1), None)
MAX_LISTED: Final = 20
"""Cases and violations of one kind shown to people; all are counted, and JSON lists them."""
Opened: TypeAlias = "Mapping[tuple[str, int | None, str], Differences | str]"
"""For a case by its key, where its bundles part, or why they cannot be read."""


Sides: TypeAlias = tuple[Mapping[str, SideFigures], Mapping[str, SideFigures]]
"""By domain, A and B."""


def comparison_document(found: Comparison, opened: Opened, sides: Sides) -> Json:
    """The comparison as JSON, case by case."""
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
                    else {**end_counts(own.counted), **measures_document(own.measures)}
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
        "difference": exact(found.difference),
        "mcnemar_p": exact(found.p),
        "bootstrap": None
        if found.interval is None
        else {
            "low": rounded(found.interval.low),
            "high": rounded(found.interval.high),
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
        f"{len(found.of(change))} {change.value.replace('_', ' ')}"
        for change in CaseChange
        if found.of(change)
    )
    number = len(found.cases)
    yield f"{number} case{'s' * (number != 1)}: {told or 'none'}"
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
    yield from islice(measures_tables("run", rows), 1)
    changed = [case for change in TOLD for case in found.of(change)]
    if changed:
        table = table_of("", "case", "A", "B")
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


# What opens bundles loads all that reads a state, for which a list of figures need not wait.


def _lines(inside: Differences) -> Sequence[str]:
    from statediff_lab.reports.differences import differences_lines  # noqa: PLC0415 - as above

    return differences_lines(inside)


def _document(inside: Differences) -> Json:
    from statediff_lab.reports.differences import differences_document  # noqa: PLC0415 - as above

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


def _side(trial: Trial | None) -> Json:
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


def _end(trial: Trial | None) -> str:
    if trial is None:
        return "not scheduled"
    return f"{trial.ended.value.replace('_', ' ')} ({said(trial.version, 20)})"
