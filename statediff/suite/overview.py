"""Sums over the trials in a store, added up by the database: for `stats` and dashboards.

Every figure is over scheduled trials, those without a verdict included and shown apart: only a
MATCH is a pass. Verdicts of different evaluators (another version or digest of a contract, another
kernel) are never in one count, nor are those of different agents.

All text in here comes from run folders; it was bounded and spelled out when it was indexed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from statediff.suite.measures import GROUPED, NO_MEASURES, SUMS, Measures, measures, together
from statediff.suite.records import FAILURES, Ended, Loose, Trial, domain_of
from statediff.suite.store import ENDS, FOUND, KEPT, Query, Store, within

PAGE: Final = 100


@dataclass(frozen=True, order=True)
class JudgedContract:
    """One contract as it was judged; what differs in any of it is not the same task."""

    contract: str
    version: str
    digest: str
    kernel: str


@dataclass(frozen=True)
class EndCounts:
    """How trials ended; the numbers add up to `scheduled`."""

    ended: Mapping[Ended, int]

    @property
    def scheduled(self) -> int:
        return sum(self.ended.values())

    @property
    def passed(self) -> int:
        return self.ended.get(Ended.MATCH, 0)

    @property
    def without_verdict(self) -> int:
        """Failures of the environment and the harness, and what was not run to its end."""
        return sum(self.ended.get(each, 0) for each in FAILURES)


@dataclass(frozen=True)
class TrialGroup:
    """The trials of one run under one contract with one agent."""

    run: str
    judged: JudgedContract
    agent: str
    counted: EndCounts
    cost_nano: int | None = None
    """The cost of those whose cost is known, in billionths; None where none is."""
    agent_microseconds: int = 0
    timed: int = 0
    """How many of them have a time."""
    repeated: int = 0
    """How many were begun more than once."""
    retried: int = 0
    """How many of them somebody had made again, though there was a verdict."""
    measures: Measures = NO_MEASURES


@dataclass(frozen=True)
class DomainPass:
    """The n-th trials of all contracts of a domain, in one run with one agent."""

    run: str
    domain: str
    agent: str
    kernel: str
    number: int
    trials: int
    passed: int


@dataclass(frozen=True, kw_only=True)
class MatrixCell:
    """A contract and an agent, over all runs that were asked for: one field of the matrix."""

    judged: JudgedContract
    agent: str
    counted: EndCounts
    cost_nano: int | None
    agent_microseconds: int
    timed: int
    repeated: int
    retried: int
    runs: int
    measures: Measures

    @property
    def is_flaky(self) -> bool:
        """True if it passed and also did not, by verdict and not by a failure around it."""
        return bool(
            self.counted.passed
            and (
                self.counted.ended.get(Ended.DIVERGE) or self.counted.ended.get(Ended.INCONCLUSIVE)
            )
        )


@dataclass(frozen=True, kw_only=True)
class TrendPoint:
    """One agent in one domain of a run: a point of a trend, by when the run's first agent began."""

    run: str
    name: str
    location: str
    domain: str
    agent: str
    kernel: str
    started_at: str | None
    """UTC, ISO 8601; None where no trial says."""
    counted: EndCounts
    cost_nano: int | None
    agent_microseconds: int


@dataclass(frozen=True)
class ViolationCount:
    """A clause that fails under a contract (or is not known: `truth`), and in how many trials."""

    contract: str
    clause: str
    code: str
    stage: str
    truth: str
    trials: int


@dataclass(frozen=True)
class TrialPlace:
    """A trial and where it lies: the URI of its run's folder; `trials/NAME/bundle` is below it."""

    trial: Trial
    location: str


def groups(store: Store, runs: Sequence[str] | None = None) -> tuple[TrialGroup, ...]:
    """The trials of the runs (None: of all), by run, contract and agent."""
    key = ("run", "contract", "version", "digest", "kernel", "agent")
    grouped = (*key, "ended", *GROUPED)
    condition, values = within(runs)
    found: dict[tuple[str, ...], list[Any]] = {}
    measured: dict[tuple[str, ...], list[Any]] = defaultdict(list)
    rows = store.rows(
        f"SELECT {', '.join((*grouped, *_SUMS, *SUMS))} FROM measured WHERE {condition}"
        f" GROUP BY {', '.join(grouped)}",
        values,
    )
    named = _agent_names((row[0], row[1], row[2], row[5]) for row in rows)
    first, last = len(grouped), len(grouped) + len(_SUMS)
    for row in rows:
        run, contract, version, digest, kernel, agent, ended = row[: len(key) + 1]
        who = agent or named.get((run, contract, version), "")
        whose, sums = (run, contract, version, digest, kernel, who), row[first:last]
        if ENDS[ended].has_verdict:
            measured[whose].append((sums[0], row[len(key) + 1 : first], row[last:]))
        sides = found.setdefault(whose, [defaultdict(int), None, *[0] * (len(_SUMS) - 2)])
        sides[0][Ended(ended)] += sums[0]
        if sums[1] is not None:
            sides[1] = (sides[1] or 0) + int(sums[1])
        for at, value in enumerate(sums[2:], 2):
            sides[at] += int(value or 0)
    return tuple(
        TrialGroup(
            each[0],
            JudgedContract(*each[1:5]),
            each[5],
            _end_counts(ended),
            *(*rest, measures(measured.get(each, ()))),
        )
        for each, (ended, *rest) in sorted(found.items())
    )


def passes(store: Store, runs: Sequence[str] | None = None) -> tuple[DomainPass, ...]:
    """The passes through the domains of the runs, by run, domain, agent and number."""
    condition, values = within(runs)
    rows = store.rows(
        "SELECT run, domain, agent, kernel, number, count(*),"
        " sum(CASE WHEN ended = 'MATCH' THEN 1 ELSE 0 END) FROM trials"
        f" WHERE number IS NOT NULL AND {condition} GROUP BY run, domain, agent, kernel, number",
        values,
    )
    named = _agent_names((row[0], row[1], row[3], row[2]) for row in rows)
    found: dict[tuple[str, str, str, str, int], tuple[int, int]] = {}
    for run, domain, agent, kernel, number, trials, ok in rows:
        at = (run, domain, agent or named.get((run, domain, kernel), ""), kernel, number)
        before = found.get(at, (0, 0))
        found[at] = (before[0] + trials, before[1] + int(ok))
    return tuple(DomainPass(*at, *counts) for at, counts in sorted(found.items()))


def matrix(
    store: Store,
    runs: Sequence[str] | None = None,
    known: Sequence[TrialGroup] | None = None,
) -> tuple[MatrixCell, ...]:
    """Contracts × agents, by contract, version, digest, kernel and agent.

    `known` are the groups of the runs, where the caller has them.
    """
    cells: dict[tuple[JudgedContract, str], list[TrialGroup]] = defaultdict(list)
    for group in groups(store, runs) if known is None else known:
        cells[group.judged, group.agent].append(group)
    return tuple(
        MatrixCell(
            judged=judged,
            agent=agent,
            counted=pool(g.counted for g in members),
            cost_nano=_sum(g.cost_nano for g in members),
            agent_microseconds=sum(g.agent_microseconds for g in members),
            timed=sum(g.timed for g in members),
            repeated=sum(g.repeated for g in members),
            retried=sum(g.retried for g in members),
            runs=len({g.run for g in members}),
            measures=together(g.measures for g in members),
        )
        for (judged, agent), members in sorted(cells.items())
    )


def trend(
    store: Store,
    runs: Sequence[str] | None = None,
    known: Sequence[TrialGroup] | None = None,
) -> tuple[TrendPoint, ...]:
    """One point a run, domain and agent, in the order of time; runs without any come first.

    `known` are the groups of the runs, where the caller has them.
    """
    condition, values = within(runs)
    began = f"SELECT run, min(started_at) FROM trials WHERE {condition} GROUP BY run"
    times = dict(store.rows(began, values))
    places = {
        run: (name, location)
        for run, name, location in store.rows("SELECT id, name, location FROM runs")
    }
    points: dict[tuple[str, str, str, str], list[TrialGroup]] = defaultdict(list)
    for group in groups(store, runs) if known is None else known:
        domain = domain_of(group.judged.contract)
        points[group.run, domain, group.agent, group.judged.kernel].append(group)
    found = [
        TrendPoint(
            run=run,
            name=name,
            location=location,
            domain=domain,
            agent=agent,
            kernel=kernel,
            started_at=times.get(run),
            counted=pool(g.counted for g in members),
            cost_nano=_sum(g.cost_nano for g in members),
            agent_microseconds=sum(g.agent_microseconds for g in members),
        )
        for (run, domain, agent, kernel), members in points.items()
        if run in places  # it may have been forgotten since
        for name, location in (places[run],)
    ]
    return tuple(
        sorted(found, key=lambda p: (p.started_at or "", p.location, p.domain, p.agent, p.kernel))
    )


def violations(store: Store, runs: Sequence[str] | None = None) -> tuple[ViolationCount, ...]:
    """The clauses that did not hold, by the number of trials, the most first.

    A trial counts once for a clause and code, however often it failed in it.
    """
    condition, values = within(runs, "findings.run")
    wanted = (
        "SELECT contract, clause, code, stage, truth, count(*) FROM findings"
        " JOIN trials ON findings.run = trials.run AND trial = name"
        f" WHERE {condition} GROUP BY contract, clause, code, stage, truth"
    )
    found = (ViolationCount(*row) for row in store.rows(wanted, values))
    return tuple(sorted(found, key=lambda v: (-v.trials, v.contract, v.clause, v.code, v.truth)))


def failures(store: Store, runs: Sequence[str] | None = None) -> Mapping[tuple[Ended, str], int]:
    """Trials without a verdict: (how it ended, the kind of failure) → how many."""
    failed, ends = within([each.value for each in FAILURES], "ended")
    condition, values = within(runs)
    wanted = (
        f"SELECT ended, cause, count(*) FROM trials WHERE {failed} AND {condition}"
        " GROUP BY ended, cause ORDER BY ended, cause"
    )
    return {
        (Ended(end), cause): number for end, cause, number in store.rows(wanted, [*ends, *values])
    }


@dataclass(frozen=True)
class LevelChoice:
    """Trials by how their clauses along the run and over the whole of it ended."""

    title: str
    along: str
    whole: str


LEVELS: Final = {
    "steps": LevelChoice("only steps fail", "FAILS", "HOLDS"),
    "end": LevelChoice("only the end fails", "HOLDS", "FAILS"),
}
SORTS: Final[Mapping[str, Sequence[str]]] = {
    "case": ("location", "contract", "agent", "number"),
    "name": (),
    "agent": ("agent", "contract"),
    "ended": ("ended", "contract"),
    "started": ("started_at", "location"),
    "time": ("agent_microseconds",),
    "cost": ("cost_nano",),
}
"""By what trials can be sorted; then by name and run."""


@dataclass(frozen=True)
class TrialChoice:
    """The chosen trials, and their order; None means all."""

    run: str | None = None
    domain: str | None = None
    contract: str | None = None
    agent: str | None = None
    ended: Ended | None = None
    clause: str | None = None
    """One that does not hold in it."""
    code: str | None = None
    """The code of a finding that does not hold in it: for that clause, where one is chosen too."""
    levels: str | None = None
    """A key of `LEVELS`."""
    sort: str = "case"
    """A key of `SORTS`. What is not known comes last."""
    is_down: bool = False

    def condition(self) -> Query:
        """The conditions on a trial."""
        level = None if self.levels is None else LEVELS[self.levels]
        own = {
            "trials.run": self.run,
            "domain": self.domain,
            "contract": self.contract,
            "agent": self.agent,
            "ended": None if self.ended is None else self.ended.value,
            "along": None if level is None else level.along,
            "whole": None if level is None else level.whole,
        }
        asked = {column: value for column, value in own.items() if value is not None}
        parts = [f"{column} = ?" for column in asked]
        loose = {"clause": self.clause, "code": self.code}
        told = {column: value for column, value in loose.items() if value is not None}
        if told:
            mine = ["findings.run = trials.run", "trial = trials.name"]
            met = " AND ".join([*mine, *(f"{column} = ?" for column in told)])
            parts.append(f"EXISTS (SELECT 1 FROM findings WHERE {met})")
        return " AND ".join(parts) or "1 = 1", [*asked.values(), *told.values()]

    def order(self) -> str:
        """By what the trials are in order."""
        down = " DESC" if self.is_down else ""
        first = [f"{column} IS NULL, {column}{down}" for column in SORTS[self.sort]]
        name = f"trials.name{down if self.sort == 'name' else ''}"
        return ", ".join([*first, name, "trials.run"])


@dataclass(frozen=True)
class Choices:
    """The choices among the trials of some runs."""

    tried: tuple[tuple[str, str], ...]
    """(contract, agent)."""
    broken: tuple[tuple[str, str], ...]
    """(clause, code) of findings that do not hold."""


def choices(store: Store, runs: Sequence[str] | None = None) -> Choices:
    """The choices among the trials of the runs (None: of all)."""
    condition, values = within(runs)
    tried, broken = store.at_once(
        (f"SELECT DISTINCT contract, agent FROM trials WHERE {condition}", values),
        (f"SELECT DISTINCT clause, code FROM findings WHERE {condition}", values),
    )
    return Choices(tuple((row[0], row[1]) for row in tried), tuple((r[0], r[1]) for r in broken))


def find_trials(
    store: Store,
    chosen: TrialChoice,
    *,
    runs: Sequence[str] | None = None,
    limit: int = PAGE,
    offset: int = 0,
    with_findings: bool = False,
) -> tuple[TrialPlace, ...]:
    """The trials that fit all that was asked for, in that order; a page of them."""
    # The whole rows of that page alone: what is sorted are keys.
    (mine, own), (met, asked) = within(runs, "trials.run"), chosen.condition()
    keys = (
        f"SELECT trials.run, trials.name FROM trials JOIN runs ON runs.id = trials.run"
        f" WHERE {mine} AND {met} ORDER BY {chosen.order()} LIMIT ? OFFSET ?"
    )
    page = [(row[0], row[1]) for row in store.rows(keys, [*own, *asked, limit, offset])]
    if not page:
        return ()
    named = f"IN (VALUES {', '.join(['(?, ?)'] * len(page))})"
    values = [part for key in page for part in key]
    columns = ", ".join(f"trials.{name}" for name in KEPT)
    wanted = (
        f"SELECT {columns}, location FROM trials JOIN runs ON runs.id = trials.run"
        f" WHERE (trials.run, trials.name) {named}"
    )
    findings = f"SELECT {FOUND} FROM findings WHERE (run, trial) {named} ORDER BY at"
    loose: dict[tuple[str, str], tuple[Loose, ...]] = defaultdict(tuple)
    for run, trial, _, *rest in store.rows(findings, values) if with_findings else ():
        loose[run, trial] += (Loose(*rest),)
    found = {
        (row[0], row[1]): TrialPlace(store.trial_of(row[:-1], loose[row[0], row[1]]), row[-1])
        for row in store.rows(wanted, values)
    }
    return tuple(found[key] for key in page if key in found)


def pool(counts: Iterable[EndCounts]) -> EndCounts:
    """All of them together."""
    found: dict[Ended, int] = defaultdict(int)
    for count in counts:
        for ended, number in count.ended.items():
            found[ended] += number
    return _end_counts(found)


_SUMS: Final = (
    "count(*)",
    "sum(cost_nano)",
    "sum(agent_microseconds)",
    "count(agent_microseconds)",
    "sum(is_repeated)",
    "sum(is_retried)",
)


def _agent_names(rows: Iterable[tuple[str, ...]]) -> dict[tuple[str, str, str], str]:
    """Who made the others, for trials that had no chance to name their agent."""
    named: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for *key, agent in rows:
        if agent:
            named[key[0], key[1], key[2]].add(agent)
    return {key: next(iter(agents)) for key, agents in named.items() if len(agents) == 1}


def _end_counts(found: Mapping[Ended, int]) -> EndCounts:
    return EndCounts({each: found.get(each, 0) for each in Ended})


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
