"""Many runs on one page: what the trials in a store say together, and the way down to each.

Three pages: the overview (matrix of contracts × agents, trends, what fails, what is not stable,
cost), the trials that fit a choice (a page at a time), and the report of one trial. All figures
are added up by the database; verdicts of different evaluators are never in one count.

Addresses are made of our own words and of quoted names; nothing that acts is made from a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

from statediff.evidence.verify import Signer
from statediff.model.codes import meaning_of
from statediff.reports.html import words
from statediff.reports.html.cells import cut, name
from statediff.reports.html.charts import Line, Mark, Tone, lines
from statediff.reports.html.page import Kind, render
from statediff.reports.html.words import Sign
from statediff.suite import overview
from statediff.suite.overview import PAGE, EndCounts, MatrixCell, TrendPoint, TrialPlace, pool
from statediff.suite.records import Ended
from statediff.suite.store import Store

KIND: Final = Kind(("report.css", "dashboard.css"))
DAMAGED: Final = words.Sign("fault", "!", "DAMAGED", "What lies there is no bundle of this trial.")
UNFINISHED: Final = words.Sign("fault", "…", "UNFINISHED", "It was begun, and nobody said why not.")
SIGNS: Final = {
    Ended.DIVERGE: words.VERDICTS["DIVERGE"],
    Ended.INCONCLUSIVE: words.VERDICTS["INCONCLUSIVE"],
    Ended.MATCH: words.VERDICTS["MATCH"],
    Ended.FAULT: words.FAULT,
    Ended.DAMAGED: DAMAGED,
    Ended.UNFINISHED: UNFINISHED,
    Ended.NOT_RUN: words.NOT_RUN,
}


@dataclass(frozen=True)
class Entry:
    """One trial of a list."""

    name: str
    sign: Sign
    told: str
    run: str
    link: str
    why: str


@dataclass(frozen=True)
class Choice:
    """Which trials are asked for; None and empty mean all."""

    run: str | None = None
    contract: str | None = None
    agent: str | None = None
    ended: Ended | None = None
    clause: str | None = None

    def link(self, root: str, page: int = 0) -> str:
        """Where these trials are listed; empty where there is no server to ask."""
        if not root:
            return ""
        given = {
            "run": self.run,
            "contract": self.contract,
            "agent": self.agent,
            "ended": None if self.ended is None else self.ended.value,
            "clause": self.clause,
            "page": str(page) if page else None,
        }
        chosen = {key: value for key, value in given.items() if value is not None}
        return f"{root}/trials?{urlencode(chosen, errors='replace')}"


@dataclass(frozen=True)
class Trials:
    """A page of the trials that fit a choice."""

    root: str
    chosen: tuple[tuple[str, str], ...]
    first: int
    entries: tuple[Entry, ...]
    back: str
    on: str


def trials_page(
    store: Store,
    runs: Sequence[str] | None,
    chosen: Choice,
    root: str,
    page: int,
    names: dict[str, str],
) -> str:
    """The trials that fit, a page of them; `names` tells the runs' names by their ids."""
    within = runs if chosen.run is None else [chosen.run]
    found = overview.find_trials(
        store,
        runs=within,
        contract=chosen.contract,
        agent=chosen.agent,
        ended=chosen.ended,
        clause=chosen.clause,
        limit=PAGE + 1,
        offset=page * PAGE,
    )
    told = (
        ("run", None if chosen.run is None else names.get(chosen.run, chosen.run)),
        ("contract", chosen.contract),
        ("agent", chosen.agent),
        ("verdict", None if chosen.ended is None else SIGNS[chosen.ended].word),
        ("clause", chosen.clause),
    )
    return render(
        "trials.html",
        Trials(
            root,
            tuple((what, name(value)) for what, value in told if value is not None),
            page * PAGE + 1,
            tuple(_entry(place, root, names) for place in found[:PAGE]),
            chosen.link(root, page - 1) if page else "",
            chosen.link(root, page + 1) if len(found) > PAGE else "",
        ),
        KIND,
    )


def _entry(place: TrialPlace, root: str, names: dict[str, str]) -> Entry:
    trial = place.trial
    asked = urlencode({"run": trial.run, "name": trial.name}, errors="replace")
    told = f"{trial.contract} {trial.version}, agent {trial.agent or 'unknown'}"
    return Entry(
        name(trial.name),
        SIGNS[trial.ended],
        cut(told),
        name(names.get(trial.run, trial.run)),
        f"{root}/report?{asked}" if trial.ended.has_verdict else "",
        cut(trial.why),
    )


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
_SHOWN: Final = (Ended.MATCH, Ended.INCONCLUSIVE, Ended.DIVERGE)


@dataclass(frozen=True)
class Share:
    """How trials ended, as a bar: segments in per cent from the left, and in words."""

    segments: tuple[tuple[Sign, str, str], ...]
    """(sign, where it begins, how wide it is)."""
    counts: tuple[tuple[Sign, int], ...]
    total: int
    passed: int

    @property
    def told(self) -> str:
        """For anyone who does not see the bar."""
        parts = [f"{number:,} {sign.word}" for sign, number in self.counts]
        return f"{', '.join(parts) or 'nothing'} of {self.total:,} scheduled"


@dataclass(frozen=True)
class Field:
    """One field of the matrix; `share` is None where the agent never tried the contract."""

    share: Share | None
    link: str = ""


@dataclass(frozen=True)
class Row:
    """One contract as it was judged, with a field for each agent."""

    contract: str
    version: str
    note: str
    fields: tuple[Field, ...]


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
    """What an agent took."""

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
    lead: str
    style: str
    share: Share
    links: tuple[tuple[Sign, int, str], ...]
    apart: bool
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
) -> str:
    """The overview of the runs (None: of all); without a `root`, a page that needs no server.

    `trust` says whose flags are shown.
    """
    cells = overview.matrix(store, runs)
    points = overview.trend(store, runs)
    agents = _agents(cells)
    counted = pool(cell.counted for cell in cells)
    share = _share(counted)
    rows = _rows(cells, agents[:MAX_AGENTS], root)
    broken = overview.violations(store, runs)
    return render(
        "dashboard.html",
        Board(
            title=name(title),
            lead=_lead(share, len(points), cells),
            style=_worst(counted),
            share=share,
            links=tuple(
                (SIGNS[e], n, Choice(ended=e).link(root)) for e, n in counted.ended.items() if n
            ),
            apart=len(
                {(cell.judged.version, cell.judged.digest, cell.judged.kernel) for cell in cells}
            )
            > len({cell.judged.contract for cell in cells}),
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
            spent=_spent(cells, agents),
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


def _share(counted: EndCounts) -> Share:
    total, at = counted.scheduled, 0
    segments: list[tuple[Sign, str, str]] = []
    counts = []
    rest = [e for e in Ended if e not in _SHOWN]
    for ended in (*_SHOWN, *rest):
        number = counted.ended.get(ended, 0)
        if number:
            width = 100 * number / total
            segments.append((SIGNS[ended], f"{100 * at / total:.4f}", f"{width:.4f}"))
            counts.append((SIGNS[ended], number))
            at += number
    return Share(tuple(segments), tuple(counts), total, counted.passed)


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
    return Field(_share(cell.counted), chosen.link(root))


def _trend(points: Sequence[TrendPoint]) -> Markup:
    """The share that matches, run by run, for the agents with most runs; empty for one run."""
    runs = list(dict.fromkeys(point.run for point in points))[-MAX_POINTS:]
    place = {run: at for at, run in enumerate(runs, 1)}
    series: dict[str, list[tuple[float, Mark]]] = defaultdict(list)
    for point in points:
        if point.run in place and point.counted.scheduled:
            share = 100 * point.counted.passed / point.counted.scheduled
            mark = Mark(f"{name(point.name)}, kernel {point.kernel}", share)
            series[point.agent].append((float(place[point.run]), mark))
    if len(runs) < 2:
        return Markup("")
    most = sorted(series, key=lambda agent: (-len(series[agent]), agent))[: len(_TONES)]
    drawn = [
        Line(name(agent) or "unknown", tuple(series[agent]), tone)
        for agent, tone in zip(most, _TONES, strict=False)
    ]
    title = "Trials that match, of all that were scheduled, run by run"
    if len(series) > len(_TONES):
        title += f"; the {len(_TONES)} of {len(series)} agents with most runs"
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
            _share(cell.counted),
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
    from statediff.suite.opinions import ReviewedTrial, reviewer_opinions  # noqa: PLC0415 - only where asked for

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


def _spent(cells: Sequence[MatrixCell], agents: Sequence[str]) -> tuple[Spent, ...]:
    by: dict[str, list[MatrixCell]] = defaultdict(list)
    for cell in cells:
        by[cell.agent].append(cell)
    found = []
    for agent in agents[:MAX_AGENTS]:
        own = by[agent]
        share = _share(pool(cell.counted for cell in own))
        costs = [cell.cost_nano for cell in own if cell.cost_nano is not None]
        cost = Decimal(sum(costs)).scaleb(-9) if costs else None
        each = cost / share.passed if cost is not None and share.passed else None
        timed = sum(cell.timed for cell in own)
        took = sum(cell.agent_microseconds for cell in own) / 1e6 / timed if timed else None
        again = sum(cell.repeated for cell in own)
        retried = sum(cell.retried for cell in own)
        found.append(
            Spent(
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
            f"{share.passed:,} of {share.total:,}",
            "0",
            words.FAULT,
            Choice(run=run).link(root),
            share,
        )
        for run, members in reversed(list(by.items())[-MAX_RUNS:])
        for share in [_share(pool(point.counted for point in members))]
    )


def _when(started_at: str | None) -> str:
    return "at no known time" if started_at is None else started_at[:16].replace("T", " ") + " UTC"


def _lead(share: Share, points: int, cells: Sequence[MatrixCell]) -> str:
    contracts = len({cell.judged.contract for cell in cells})
    if not points:
        return "No trial was scheduled yet."
    return (
        f"{share.passed:,} of {share.total:,} scheduled trials match, of {contracts:,} "
        f"{'contract' if contracts == 1 else 'contracts'}."
    )


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
