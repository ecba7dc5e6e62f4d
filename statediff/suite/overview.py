"""What the trials in a store say together, added up by the database: for `stats` and dashboards.

Every figure is over scheduled trials, those without a verdict included and shown apart: only a
MATCH is a pass. Verdicts of different evaluators (another version or digest of a contract, another
kernel) are never in one count, nor are those of different agents. `figures` counts them by contract
and by domain.

All text in here comes from run folders; it was bounded and spelled out when it was indexed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import sqlalchemy as sa

from statediff.statistics.repeats import Reruns, mean, pass_all, pass_at, reruns
from statediff.suite.records import FAILURES, Ended, Trial, domain_of
from statediff.suite.store import FINDINGS, KEPT, RUNS, TRIALS, Store

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
    """Of those whose cost is known, in billionths; None where none is."""
    agent_microseconds: int = 0
    timed: int = 0
    """How many of them have a time."""
    repeated: int = 0
    """How many were begun more than once."""
    retried: int = 0
    """How many of them somebody had made again, though there was a verdict."""
    turns: int = 0
    """How many turns their contracts have, of those that were tried live."""
    turns_first: int = 0
    turns_after: int = 0
    turns_failed: int = 0
    """See `statediff.suite.records.Trial`."""


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

    @property
    def is_flaky(self) -> bool:
        """Whether it passed and also did not, by verdict and not by a failure around it."""
        return bool(
            self.counted.passed
            and (
                self.counted.ended.get(Ended.DIVERGE) or self.counted.ended.get(Ended.INCONCLUSIVE)
            )
        )


@dataclass(frozen=True, kw_only=True)
class TrendPoint:
    """One agent in one run: a point of a trend, by the time of the run's first agent."""

    run: str
    name: str
    location: str
    agent: str
    kernel: str
    started_at: str | None
    """UTC, ISO 8601; None where no trial says."""
    counted: EndCounts
    cost_nano: int | None
    agent_microseconds: int


@dataclass(frozen=True)
class ViolationCount:
    """What fails under a contract (or is not known: `truth`), and in how many trials."""

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
    key = (
        TRIALS.c.run,
        TRIALS.c.contract,
        TRIALS.c.version,
        TRIALS.c.digest,
        TRIALS.c.kernel,
        TRIALS.c.agent,
    )
    wanted = sa.select(*key, TRIALS.c.ended, *_SUMS).group_by(*key, TRIALS.c.ended)
    found: dict[tuple[str, ...], list[Any]] = {}
    rows = store.rows(_within_runs(wanted, runs))
    named = _agent_names((row[0], row[1], row[2], row[5]) for row in rows)
    for run, contract, version, digest, kernel, agent, ended, *sums in rows:
        who = agent or named.get((run, contract, version), "")
        sides = found.setdefault(
            (run, contract, version, digest, kernel, who),
            [defaultdict(int), None, *[0] * (len(_SUMS) - 2)],
        )
        sides[0][Ended(ended)] += sums[0]
        if sums[1] is not None:
            sides[1] = (sides[1] or 0) + int(sums[1])
        for at, value in enumerate(sums[2:], 2):
            sides[at] += int(value or 0)
    return tuple(
        TrialGroup(key[0], JudgedContract(*key[1:5]), key[5], _end_counts(ended), *rest)
        for key, (ended, *rest) in sorted(found.items())
    )


def passes(store: Store, runs: Sequence[str] | None = None) -> tuple[DomainPass, ...]:
    """The passes through the domains of the runs, by run, domain, agent and number."""
    key = (TRIALS.c.run, TRIALS.c.domain, TRIALS.c.agent, TRIALS.c.kernel, TRIALS.c.number)
    passed = sa.func.sum(sa.case((TRIALS.c.ended == Ended.MATCH.value, 1), else_=0))
    wanted = (
        sa.select(*key, sa.func.count(), passed).where(TRIALS.c.number.is_not(None)).group_by(*key)
    )
    rows = store.rows(_within_runs(wanted, runs))
    named = _agent_names((row[0], row[1], row[3], row[2]) for row in rows)
    found: dict[tuple[str, str, str, str, int], tuple[int, int]] = {}
    for run, domain, agent, kernel, number, trials, ok in rows:
        at = (run, domain, agent or named.get((run, domain, kernel), ""), kernel, number)
        before = found.get(at, (0, 0))
        found[at] = (before[0] + trials, before[1] + int(ok))
    return tuple(DomainPass(*at, *counts) for at, counts in sorted(found.items()))


def matrix(store: Store, runs: Sequence[str] | None = None) -> tuple[MatrixCell, ...]:
    """Contracts × agents, by contract, version, digest, kernel and agent."""
    cells: dict[tuple[JudgedContract, str], list[TrialGroup]] = defaultdict(list)
    for group in groups(store, runs):
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
        )
        for (judged, agent), members in sorted(cells.items())
    )


def flaky(store: Store, runs: Sequence[str] | None = None) -> tuple[MatrixCell, ...]:
    """The cells that both pass and do not, the most evenly split first."""
    found = [cell for cell in matrix(store, runs) if cell.is_flaky]
    return tuple(
        sorted(
            found,
            key=lambda c: abs(2 * c.counted.passed - c.counted.scheduled) / c.counted.scheduled,
        )
    )


def trend(store: Store, runs: Sequence[str] | None = None) -> tuple[TrendPoint, ...]:
    """One point a run and agent, in the order of time; runs without any time come first."""
    began = sa.select(TRIALS.c.run, sa.func.min(TRIALS.c.started_at)).group_by(TRIALS.c.run)
    times = {row[0]: row[1] for row in store.rows(_within_runs(began, runs))}
    places = {
        run: (name, location)
        for run, name, location in store.rows(sa.select(RUNS.c.id, RUNS.c.name, RUNS.c.location))
    }
    points: dict[tuple[str, str, str], list[TrialGroup]] = defaultdict(list)
    for group in groups(store, runs):
        points[group.run, group.agent, group.judged.kernel].append(group)
    found = [
        TrendPoint(
            run=run,
            name=name,
            location=location,
            agent=agent,
            kernel=kernel,
            started_at=times.get(run),
            counted=pool(g.counted for g in members),
            cost_nano=_sum(g.cost_nano for g in members),
            agent_microseconds=sum(g.agent_microseconds for g in members),
        )
        for (run, agent, kernel), members in points.items()
        if run in places  # it may have been forgotten since
        for name, location in (places[run],)
    ]
    return tuple(sorted(found, key=lambda p: (p.started_at or "", p.location, p.agent, p.kernel)))


def violations(store: Store, runs: Sequence[str] | None = None) -> tuple[ViolationCount, ...]:
    """What did not hold, by how many trials it did not hold in, the most first.

    A trial counts once for a clause and code, however often it failed in it.
    """
    at = sa.and_(FINDINGS.c.run == TRIALS.c.run, FINDINGS.c.trial == TRIALS.c.name)
    key = (
        TRIALS.c.contract,
        FINDINGS.c.clause,
        FINDINGS.c.code,
        FINDINGS.c.stage,
        FINDINGS.c.truth,
    )
    wanted = sa.select(*key, sa.func.count()).select_from(FINDINGS.join(TRIALS, at)).group_by(*key)
    found = (ViolationCount(*row) for row in store.rows(_within_runs(wanted, runs, FINDINGS.c.run)))
    return tuple(sorted(found, key=lambda v: (-v.trials, v.contract, v.clause, v.code, v.truth)))


def failures(store: Store, runs: Sequence[str] | None = None) -> Mapping[tuple[Ended, str], int]:
    """Trials without a verdict: (how it ended, the kind of failure) → how many."""
    wanted = (
        sa.select(TRIALS.c.ended, TRIALS.c.cause, sa.func.count())
        .where(TRIALS.c.ended.in_([each.value for each in FAILURES]))
        .group_by(TRIALS.c.ended, TRIALS.c.cause)
        .order_by(TRIALS.c.ended, TRIALS.c.cause)
    )
    return {
        (Ended(end), cause): number for end, cause, number in store.rows(_within_runs(wanted, runs))
    }


def find_trials(
    store: Store,
    *,
    runs: Sequence[str] | None = None,
    contract: str | None = None,
    agent: str | None = None,
    ended: Ended | None = None,
    clause: str | None = None,
    limit: int = PAGE,
    offset: int = 0,
) -> tuple[TrialPlace, ...]:
    """The trials that fit all that was asked for, by run, contract and number; a page of them."""
    wanted = sa.select(*KEPT, RUNS.c.location).join(RUNS, RUNS.c.id == TRIALS.c.run)
    for column, value in (
        (TRIALS.c.contract, contract),
        (TRIALS.c.agent, agent),
        (TRIALS.c.ended, None if ended is None else ended.value),
    ):
        if value is not None:
            wanted = wanted.where(column == value)
    if clause is not None:
        wanted = wanted.where(
            sa.exists().where(
                FINDINGS.c.run == TRIALS.c.run,
                FINDINGS.c.trial == TRIALS.c.name,
                FINDINGS.c.clause == clause,
            )
        )
    order = (RUNS.c.location, TRIALS.c.contract, TRIALS.c.agent, TRIALS.c.number, TRIALS.c.name)
    rows = store.rows(_within_runs(wanted, runs).order_by(*order).limit(limit).offset(offset))
    return tuple(TrialPlace(store.trial_of(row[:-1]), row[-1]) for row in rows)


def pool(counts: Iterable[EndCounts]) -> EndCounts:
    """All of them together."""
    found: dict[Ended, int] = defaultdict(int)
    for count in counts:
        for ended, number in count.ended.items():
            found[ended] += number
    return _end_counts(found)


_SUMS: Final = (
    sa.func.count(),
    sa.func.sum(TRIALS.c.cost_nano),
    sa.func.sum(TRIALS.c.agent_microseconds),
    sa.func.count(TRIALS.c.agent_microseconds),
    sa.func.sum(sa.case((TRIALS.c.attempts > 1, 1), else_=0)),
    sa.func.sum(sa.case((TRIALS.c.is_retried, 1), else_=0)),
    sa.func.sum(TRIALS.c.turns),
    sa.func.sum(TRIALS.c.turns_first),
    sa.func.sum(TRIALS.c.turns_after),
    sa.func.sum(TRIALS.c.turns_failed),
)


def _within_runs(
    wanted: sa.Select[Any], runs: Sequence[str] | None, column: Any = TRIALS.c.run
) -> sa.Select[Any]:
    return wanted if runs is None else wanted.where(column.in_(list(runs)))


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


ALL: Final = ""
"""The domain of everything."""


@dataclass(frozen=True)
class ContractFigures:
    """One agent's trials under one contract; `at` and `all` hold pass@k and pass^k by k."""

    judged: JudgedContract
    agent: str
    counted: EndCounts
    retried: int
    """How many of them were made again though there was a verdict: those were chosen."""
    at: Mapping[int, Fraction | None]
    all: Mapping[int, Fraction | None]
    turns: TurnCounts


@dataclass(frozen=True)
class TurnCounts:
    """How the gates of live turns ended, over trials."""

    number: int
    first: int
    """Those that held at the first attempt."""
    after: int
    """Those that held in the end, after a repair among them."""
    failed: int

    @property
    def unknown(self) -> int:
        return self.number - self.after - self.failed


@dataclass(frozen=True)
class DomainFigures:
    """One agent's trials under the same contracts of a domain, their means, and their reruns."""

    domain: str
    agent: str
    contracts: tuple[JudgedContract, ...]
    counted: EndCounts
    at: Mapping[int, Fraction | None]
    all: Mapping[int, Fraction | None]
    reruns: Reruns


@dataclass(frozen=True)
class Figures:
    """All that `stats` tells."""

    counted: EndCounts
    contracts: tuple[ContractFigures, ...]
    domains: tuple[DomainFigures, ...]


def figures(
    groups: Sequence[TrialGroup], passes: Iterable[DomainPass], ks: Sequence[int]
) -> Figures:
    """The figures of trials that were added up, which may be of several runs."""
    contracts: dict[tuple[JudgedContract, str], list[TrialGroup]] = defaultdict(list)
    for group in groups:
        contracts[group.judged, group.agent].append(group)
    return Figures(
        pool(group.counted for group in groups),
        tuple(
            _of_contract(judged, agent, members, ks)
            for (judged, agent), members in sorted(contracts.items(), key=lambda each: each[0])
        ),
        _domain_figures(groups, passes, ks),
    )


def _of_contract(
    judged: JudgedContract, agent: str, members: Sequence[TrialGroup], ks: Sequence[int]
) -> ContractFigures:
    count = pool(group.counted for group in members)
    return ContractFigures(
        judged,
        agent,
        count,
        sum(group.retried for group in members),
        {k: pass_at(count.scheduled, count.passed, k) for k in ks},
        {k: pass_all(count.scheduled, count.passed, k) for k in ks},
        TurnCounts(
            sum(group.turns for group in members),
            sum(group.turns_first for group in members),
            sum(group.turns_after for group in members),
            sum(group.turns_failed for group in members),
        ),
    )


_Setup = tuple[str, str, str, str]
"""Domain, agent, kernel, run."""


def _domain_figures(
    groups: Iterable[TrialGroup], passes: Iterable[DomainPass], ks: Sequence[int]
) -> tuple[DomainFigures, ...]:
    """By domain; runs of one domain are together only where all their contracts are the same."""
    by_run: dict[_Setup, list[TrialGroup]] = defaultdict(list)
    for group in groups:
        for domain in (ALL, domain_of(group.judged.contract)):
            by_run[domain, group.agent, group.judged.kernel, group.run].append(group)
    made: dict[_Setup, dict[int, list[DomainPass]]] = defaultdict(lambda: defaultdict(list))
    for each in passes:
        for domain in (ALL, each.domain):
            made[domain, each.agent, each.kernel, each.run][each.number].append(each)
    setups: dict[tuple[str, str, tuple[JudgedContract, ...]], list[TrialGroup]] = defaultdict(list)
    scores: dict[tuple[str, str, tuple[JudgedContract, ...]], list[Fraction]] = defaultdict(list)
    for at, members in by_run.items():
        contracts = tuple(sorted({group.judged for group in members}))
        setup = (at[0], at[1], contracts)
        setups[setup].extend(members)
        scores[setup] += [
            Fraction(sum(p.passed for p in parts), len(contracts))
            for parts in made[at].values()
            if sum(p.trials for p in parts) == len(contracts)
        ]
    return tuple(
        _of_domain(*setup, members, scores[setup], ks)
        for setup, members in sorted(setups.items(), key=lambda each: each[0])
    )


def _of_domain(
    domain: str,
    agent: str,
    contracts: tuple[JudgedContract, ...],
    members: Sequence[TrialGroup],
    scores: Sequence[Fraction],
    ks: Sequence[int],
) -> DomainFigures:
    within: dict[JudgedContract, list[EndCounts]] = defaultdict(list)
    for group in members:
        within[group.judged].append(group.counted)
    counts = [pool(each) for each in within.values()]
    return DomainFigures(
        domain,
        agent,
        contracts,
        pool(counts),
        {k: _known_mean([pass_at(c.scheduled, c.passed, k) for c in counts]) for k in ks},
        {k: _known_mean([pass_all(c.scheduled, c.passed, k) for c in counts]) for k in ks},
        reruns(scores),
    )


def _known_mean(values: Sequence[Fraction | None]) -> Fraction | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None
