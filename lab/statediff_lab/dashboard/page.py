"""Many runs on one page: what the trials in a store say together, and the way down to each.

Figures by domain, a matrix of contracts × agents, trends, what fails, what is not stable, cost. All
figures are added up by the database; verdicts of different evaluators are never in one count, and
those of several domains never in one headline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from markupsafe import Markup

from statediff.evidence.verify import Signer
from statediff.model.codes import meaning_of
from statediff.reports.html import words
from statediff.reports.html.cells import cut, name
from statediff.reports.html.page import render
from statediff.reports.html.shares import Field, Row, Share
from statediff.reports.html.words import Sign
from statediff.suite import overview
from statediff.suite.measures import together
from statediff.suite.overview import EndCounts, MatrixCell, TrendPoint, pool
from statediff.suite.records import Ended, domain_of
from statediff.suite.store import Store
from statediff_lab.dashboard.parts import (
    KIND,
    SIGNS,
    Choice,
    MeasuredRow,
    address,
    ends_share,
    measured_row,
)
from statediff_lab.reports.charts import Line, Mark, Tone, lines

MAX_ROWS: Final = 300
"""Contracts that the matrix lists; it says how many more there are."""
MAX_AGENTS: Final = 12
MAX_LISTED: Final = 20
FIRST: Final = 5
"""Of a list, what is open; the others are one click away."""
MAX_POINTS: Final = 40
"""Runs of a trend: the last ones."""
MAX_RUNS: Final = 50
_TONES: Final = (Tone.OURS, Tone.PLAIN, Tone.OPEN)
"""Of the lines of a trend, which are so many: no agent is drawn in the colour of a verdict."""


@dataclass(frozen=True)
class Listed:
    """One line of a list with a number: what fails, what is not stable, a run."""

    title: str
    note: str
    number: str
    width: str
    sign: Sign
    link: str = ""
    share: Share | None = None


@dataclass(frozen=True)
class Spent:
    """The costs of an agent in a domain."""

    domain: str
    agent: str
    share: Share
    cost: str
    each: str
    seconds: str
    again: str


@dataclass(frozen=True, kw_only=True)
class Board:
    """Everything the overview shows."""

    title: str
    root: str
    whole: str
    """Where the overview of all runs is, on that of one."""
    lead: str
    style: str
    domains: tuple[MeasuredRow, ...]
    share: Share
    links: tuple[tuple[Sign, int, str], ...]
    apart: str
    """Why the counts of all trials are no score; empty where they are one."""
    agents: tuple[str, ...]
    rows: tuple[Row, ...]
    more: str
    trend: Markup
    fails: tuple[Listed, ...]
    unknown: tuple[Listed, ...]
    flaky: tuple[Listed, ...]
    failures: tuple[Listed, ...]
    unreliable: tuple[Listed, ...]
    spent: tuple[Spent, ...]
    runs: tuple[Listed, ...]
    notes: tuple[str, ...]
    first: int = FIRST


def board_page(
    store: Store,
    runs: Sequence[str] | None,
    title: str,
    root: str = "",
    trust: Sequence[Signer] = (),
    run: str | None = None,
) -> str:
    """The overview of the runs (None: of all); without a `root`, a page that needs no server.

    `trust` says whose flags are shown; `run`, to which of the runs the page keeps.
    """
    runs = runs if run is None else [run]
    known = overview.groups(store, runs)
    cells = overview.matrix(store, runs, known)
    points = overview.trend(store, runs, known)
    agents = _agents(cells)
    counted = pool(cell.counted for cell in cells)
    share = ends_share(counted)
    rows = _rows(cells, agents[:MAX_AGENTS], root)
    broken = overview.violations(store, runs)
    return render(
        "dashboard.html",
        Board(
            title=name(title),
            root=root,
            whole=address(root, "", {}) if run is not None else "",
            lead=_lead(share, len(points), cells),
            style=_worst(counted),
            domains=_domains(cells, root),
            share=share,
            links=tuple(
                (SIGNS[e], n, Choice(run=run, ended=e).link(root))
                for e, n in counted.ended.items()
                if n
            ),
            apart=_apart(cells),
            agents=tuple(name(agent) or "unknown" for agent in agents[:MAX_AGENTS]),
            rows=rows[:MAX_ROWS],
            more=f"{len(rows) - MAX_ROWS:,} more contracts are not listed."
            * (len(rows) > MAX_ROWS),
            trend=_trend(points),
            fails=_broken(broken, "FAILS", root),
            unknown=_broken(broken, "UNKNOWN", root),
            flaky=_flaky(cells, root),
            failures=_failures(store, runs, root),
            unreliable=_unreliable(store, runs, root, trust),
            spent=_spent(cells),
            runs=_runs(points, root),
            notes=_notes(agents),
        ),
        KIND,
    )


def _agents(cells: Sequence[MatrixCell]) -> list[str]:
    """The agents, those with most trials first."""
    found: dict[str, int] = defaultdict(int)
    for cell in cells:
        found[cell.agent] += cell.counted.scheduled
    return sorted(found, key=lambda agent: (-found[agent], agent))


def _rows(cells: Sequence[MatrixCell], agents: Sequence[str], root: str) -> tuple[Row, ...]:
    by: dict[tuple[str, str, str, str], dict[str, MatrixCell]] = defaultdict(dict)
    versions: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for cell in cells:
        judged = cell.judged
        by[judged.contract, judged.version, judged.digest, judged.kernel][cell.agent] = cell
        versions[judged.contract, judged.version].add((judged.digest, judged.kernel))
    return tuple(
        Row(
            name(contract) or "no contract",
            name(version),
            # One version with two contents, or two kernels, is not one task.
            f"{digest[:8]}, kernel {kernel}" if len(versions[contract, version]) > 1 else "",
            tuple(_field(found.get(agent), root) for agent in agents),
        )
        for (contract, version, digest, kernel), found in sorted(by.items())
    )


def _field(cell: MatrixCell | None, root: str) -> Field:
    if cell is None:
        return Field(None)
    chosen = Choice(contract=cell.judged.contract, agent=cell.agent)
    return Field(ends_share(cell.counted), chosen.link(root))


def _trend(points: Sequence[TrendPoint]) -> Markup:
    """The share that matches, run by run, for the agents with most runs; empty for one run."""
    runs = list(dict.fromkeys(point.run for point in points))[-MAX_POINTS:]
    place = {run: at for at, run in enumerate(runs, 1)}
    series: dict[str, list[tuple[float, Mark]]] = defaultdict(list)
    is_apart = len({point.domain for point in points}) > 1
    for point in points:
        if point.run in place and point.counted.scheduled:
            share = 100 * point.counted.passed / point.counted.scheduled
            mark = Mark(f"{name(point.name)}, kernel {point.kernel}", share)
            whose = name(point.agent) or "unknown"
            series[f"{name(point.domain)}, {whose}" if is_apart else whose].append(
                (float(place[point.run]), mark)
            )
    if len(runs) < 2:
        return Markup("")
    most = sorted(series, key=lambda whose: (-len(series[whose]), whose))[: len(_TONES)]
    drawn = [
        Line(whose, tuple(series[whose]), tone) for whose, tone in zip(most, _TONES, strict=False)
    ]
    title = "Trials that match, of all that were scheduled, run by run"
    if len(series) > len(_TONES):
        of = "domains and agents" if is_apart else "agents"
        title += f"; the {len(_TONES)} of {len(series)} {of} with most runs"
    return lines(title, drawn, x="run", unit="%").figure()


def _broken(found: Sequence[overview.ViolationCount], truth: str, root: str) -> tuple[Listed, ...]:
    listed = [each for each in found if each.truth == truth][:MAX_LISTED]
    most = max((each.trials for each in listed), default=1)
    sign = words.TRUTHS[truth]
    return tuple(
        Listed(
            name(each.clause),
            f"{name(each.contract)} · {meaning_of(each.code) or each.code}",
            f"{each.trials:,}",
            f"{100 * each.trials / most:.2f}",
            sign,
            Choice(contract=each.contract, clause=each.clause).link(root),
        )
        for each in listed
    )


def _flaky(cells: Sequence[MatrixCell], root: str) -> tuple[Listed, ...]:
    def balance(cell: MatrixCell) -> float:
        return abs(2 * cell.counted.passed - cell.counted.scheduled) / cell.counted.scheduled

    found = sorted((cell for cell in cells if cell.is_flaky), key=balance)[:MAX_LISTED]
    return tuple(
        Listed(
            name(cell.judged.contract),
            f"agent {name(cell.agent) or 'unknown'}",
            f"{cell.counted.passed:,} of {cell.counted.scheduled:,} match",
            "0",
            words.VERDICTS["INCONCLUSIVE"],
            Choice(contract=cell.judged.contract, agent=cell.agent).link(root),
            ends_share(cell.counted),
        )
        for cell in found
    )


def _failures(store: Store, runs: Sequence[str] | None, root: str) -> tuple[Listed, ...]:
    found = overview.failures(store, runs)
    most = max(found.values(), default=1)
    return tuple(
        Listed(
            SIGNS[ended].word,
            name(cause.replace("_", " ")) or SIGNS[ended].meaning,
            f"{number:,}",
            f"{100 * number / most:.2f}",
            SIGNS[ended],
            Choice(ended=ended).link(root),
        )
        for (ended, cause), number in found.items()
    )


def _unreliable(
    store: Store, runs: Sequence[str] | None, root: str, trust: Sequence[Signer]
) -> tuple[Listed, ...]:
    """The contracts and agents with trials that somebody flagged, and why, the most first."""
    if not trust:
        return ()
    from statediff_lab.opinions import ReviewedTrial, reviewer_opinions  # noqa: PLC0415 - only where asked for

    by: dict[tuple[str, str], list[ReviewedTrial]] = defaultdict(list)
    for each in reviewer_opinions(store, runs, trust).trials:
        if each.flags:
            by[each.judged.contract, each.agent].append(each)
    found = sorted(by.items(), key=lambda each: (-len(each[1]), each[0]))[:MAX_LISTED]
    most = max((len(members) for _, members in found), default=1)
    return tuple(
        Listed(
            name(contract),
            "; ".join(
                sorted({f"{cut(f.because, 200)} ({name(f.by)})" for e in members for f in e.flags})
            )[:400],
            f"{len(members):,}",
            f"{100 * len(members) / most:.2f}",
            words.VERDICTS["INCONCLUSIVE"],
            Choice(contract=contract, agent=agent).link(root),
        )
        for (contract, agent), members in found
    )


def _spent(cells: Sequence[MatrixCell]) -> tuple[Spent, ...]:
    by: dict[tuple[str, str], list[MatrixCell]] = defaultdict(list)
    for cell in cells:
        by[domain_of(cell.judged.contract), cell.agent].append(cell)
    found = []
    for (domain, agent), own in sorted(by.items())[:MAX_ROWS]:
        share = ends_share(pool(cell.counted for cell in own))
        costs = [cell.cost_nano for cell in own if cell.cost_nano is not None]
        cost = Decimal(sum(costs)).scaleb(-9) if costs else None
        each = cost / share.passed if cost is not None and share.passed else None
        timed = sum(cell.timed for cell in own)
        took = sum(cell.agent_microseconds for cell in own) / 1e6 / timed if timed else None
        again = sum(cell.repeated for cell in own)
        retried = sum(cell.retried for cell in own)
        found.append(
            Spent(
                name(domain) or "no domain",
                name(agent) or "unknown",
                share,
                _money(cost),
                _money(each),
                "not known" if took is None else f"{took:,.2f} s",
                f"{again:,} begun again" + f", {retried:,} retried" * bool(retried)
                if again
                else "no",
            )
        )
    return tuple(found)


def _money(cost: Decimal | None) -> str:
    return "not known" if cost is None else f"{cost:,.4f}"


def _runs(points: Sequence[TrendPoint], root: str) -> tuple[Listed, ...]:
    by: dict[str, list[TrendPoint]] = defaultdict(list)
    for point in points:
        by[point.run].append(point)
    return tuple(
        Listed(
            name(members[0].name),
            f"{_when(members[0].started_at)} · "
            + ", ".join(sorted({name(p.agent) or "unknown" for p in members}))[:200],
            f"{share.passed:,} of {share.total:,}" if is_one else f"{share.total:,} trials",
            "0",
            words.FAULT,
            address(root, "", {"run": run}),
            share if is_one else None,
        )
        for run, members in reversed(list(by.items())[-MAX_RUNS:])
        for share in [ends_share(pool(point.counted for point in members))]
        for is_one in [len({point.domain for point in members}) == 1]
    )


def _when(started_at: str | None) -> str:
    return "at no known time" if started_at is None else started_at[:16].replace("T", " ") + " UTC"


def _apart(cells: Sequence[MatrixCell]) -> str:
    judged = {cell.judged for cell in cells}
    if len({domain_of(each.contract) for each in judged}) > 1:
        return "in several domains"
    versions = {(each.version, each.digest, each.kernel) for each in judged}
    several = len(versions) > len({each.contract for each in judged})
    return "by several versions of a contract or kernel" if several else ""


def _domains(cells: Sequence[MatrixCell], root: str) -> tuple[MeasuredRow, ...]:
    """A row a domain and agent: how its trials ended and what they measured."""
    by: dict[tuple[str, str], list[MatrixCell]] = defaultdict(list)
    for cell in cells:
        by[domain_of(cell.judged.contract), cell.agent].append(cell)
    return tuple(
        measured_row(
            name(domain) or "no domain",
            name(agent) or "unknown",
            pool(cell.counted for cell in own),
            together(cell.measures for cell in own),
            Choice(domain=domain, agent=agent).link(root),
        )
        for (domain, agent), own in sorted(by.items())[:MAX_ROWS]
    )


def _lead(share: Share, points: int, cells: Sequence[MatrixCell]) -> str:
    contracts = len({cell.judged.contract for cell in cells})
    domains = len({domain_of(cell.judged.contract) for cell in cells})
    of = f"{contracts:,} {'contract' if contracts == 1 else 'contracts'}"
    if not points:
        return "No trial was scheduled yet."
    if domains > 1:
        return f"{share.total:,} scheduled trials of {of} in {domains:,} domains."
    return f"{share.passed:,} of {share.total:,} scheduled trials match, of {of}."


def _worst(counted: EndCounts) -> str:
    if not counted.scheduled:
        return "fault"
    if counted.ended.get(Ended.DIVERGE):
        return "diverge"
    if counted.without_verdict:
        return "fault"
    return "inconclusive" if counted.ended.get(Ended.INCONCLUSIVE) else "match"


def _notes(agents: Sequence[str]) -> tuple[str, ...]:
    left = len(agents) - MAX_AGENTS
    return (f"{left:,} more agents are not shown.",) if left > 0 else ()
