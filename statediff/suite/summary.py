"""`stats`: trials of one or several runs, counted by contract and by domain.

What decided a verdict is the evaluator: trials under another version or digest of a contract, or
another kernel, are never in one count, nor are trials of different agents. Every scheduled trial
is in the count it belongs to; whatever is no MATCH did not pass, and trials without a verdict are
told apart beside it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from statediff.suite.records import FAILURES, Ended, Trial
from statediff.suite.statistics import Reruns, mean, pass_all, pass_at, reruns

ALL = ""
"""The domain of everything."""


@dataclass(frozen=True, order=True)
class Judged:
    """One contract as it was judged; what differs in any of it is not the same task."""

    contract: str
    version: str
    digest: str
    kernel: str


@dataclass(frozen=True)
class Counted:
    """How trials ended; the numbers add up to `scheduled`."""

    ended: Mapping[Ended, int]

    @property
    def scheduled(self) -> int:
        return sum(self.ended.values())

    @property
    def passed(self) -> int:
        return self.ended[Ended.MATCH]

    @property
    def without_verdict(self) -> int:
        """Failures of the environment and the harness, and what was not run to its end."""
        return sum(self.ended[each] for each in FAILURES)


@dataclass(frozen=True)
class ContractFigures:
    """One agent's trials under one contract; `at` and `all` hold pass@k and pass^k by k."""

    judged: Judged
    agent: str
    counted: Counted
    at: Mapping[int, Fraction | None]
    all: Mapping[int, Fraction | None]


@dataclass(frozen=True)
class DomainFigures:
    """One agent's trials under the same contracts of a domain, their means, and their reruns."""

    domain: str
    agent: str
    contracts: tuple[Judged, ...]
    counted: Counted
    at: Mapping[int, Fraction | None]
    all: Mapping[int, Fraction | None]
    reruns: Reruns


@dataclass(frozen=True)
class Figures:
    """All that `stats` tells."""

    counted: Counted
    contracts: tuple[ContractFigures, ...]
    domains: tuple[DomainFigures, ...]


def figures(trials: Iterable[Trial], ks: Sequence[int]) -> Figures:
    """The figures of the trials, which may be of several runs."""
    every = _with_agents(trials)
    contracts: dict[tuple[Judged, str], list[Trial]] = defaultdict(list)
    for trial in every:
        contracts[_judged(trial), trial.agent].append(trial)
    return Figures(
        counted(every),
        tuple(
            _of_contract(judged, agent, members, ks)
            for (judged, agent), members in sorted(contracts.items(), key=lambda each: each[0])
        ),
        _domains(every, ks),
    )


def counted(trials: Iterable[Trial]) -> Counted:
    """How the trials ended."""
    found = Counter(trial.ended for trial in trials)
    return Counted({each: found[each] for each in Ended})


def _with_agents(trials: Iterable[Trial]) -> list[Trial]:
    """The trials; those that had no chance to name their agent have that of their contract."""
    every = list(trials)
    named: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for trial in every:
        if trial.agent:
            named[trial.run, trial.contract, trial.version].add(trial.agent)
    found = []
    for trial in every:
        agents = named[trial.run, trial.contract, trial.version]
        lacks = not trial.agent and len(agents) == 1
        found.append(replace(trial, agent=next(iter(agents))) if lacks else trial)
    return found


def _judged(trial: Trial) -> Judged:
    return Judged(trial.contract, trial.version, trial.digest, trial.kernel)


def _of_contract(
    judged: Judged, agent: str, members: Sequence[Trial], ks: Sequence[int]
) -> ContractFigures:
    count = counted(members)
    return ContractFigures(
        judged, agent, count,
        {k: pass_at(count.scheduled, count.passed, k) for k in ks},
        {k: pass_all(count.scheduled, count.passed, k) for k in ks},
    )  # fmt: skip


def domain_of(contract: str) -> str:
    """The part of a contract's name before its first slash."""
    return contract.partition("/")[0]


def _domains(trials: Sequence[Trial], ks: Sequence[int]) -> tuple[DomainFigures, ...]:
    """By domain; runs of one domain are together only where all their contracts are the same."""
    by_run: dict[tuple[str, str, str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        for domain in (ALL, domain_of(trial.contract)):
            by_run[domain, trial.agent, trial.kernel, trial.run].append(trial)
    setups: dict[tuple[str, str, tuple[Judged, ...]], list[Trial]] = defaultdict(list)
    for (domain, agent, _, _), members in by_run.items():
        contracts = tuple(sorted({_judged(trial) for trial in members}))
        setups[domain, agent, contracts].extend(members)
    return tuple(
        _of_domain(*setup, members, ks)
        for setup, members in sorted(setups.items(), key=lambda each: each[0])
    )


def _of_domain(
    domain: str, agent: str, contracts: tuple[Judged, ...], members: Sequence[Trial],
    ks: Sequence[int],
) -> DomainFigures:  # fmt: skip
    within: dict[Judged, list[Trial]] = defaultdict(list)
    passes: dict[tuple[str, int], list[Trial]] = defaultdict(list)
    for trial in members:
        within[_judged(trial)].append(trial)
        if trial.number is not None:
            passes[trial.run, trial.number].append(trial)
    counts = [counted(each) for each in within.values()]
    scores = [
        Fraction(sum(t.ended is Ended.MATCH for t in each), len(each))
        for each in passes.values()
        if len(each) == len(contracts)
    ]
    return DomainFigures(
        domain, agent, contracts, counted(members),
        {k: _mean([pass_at(c.scheduled, c.passed, k) for c in counts]) for k in ks},
        {k: _mean([pass_all(c.scheduled, c.passed, k) for c in counts]) for k in ks},
        reruns(scores),
    )  # fmt: skip


def _mean(values: Sequence[Fraction | None]) -> Fraction | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None
