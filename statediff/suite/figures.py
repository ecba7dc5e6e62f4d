"""The figures of `stats`: by contract, by domain and agent.

Domains stay apart: what is pooled over them is a tuple of its own, shown only where somebody asks
for it [SSD §V].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from statediff.statistics.repeats import Reruns, mean, pass_all, pass_at, reruns
from statediff.suite.measures import Measures, together
from statediff.suite.overview import DomainPass, EndCounts, JudgedContract, TrialGroup, pool
from statediff.suite.records import domain_of

ALL: Final = ""
"""The domain of what is pooled over all domains."""


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
    measures: Measures


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
    measures: Measures
    runs: frozenset[str]


@dataclass(frozen=True)
class Figures:
    """All that `stats` shows."""

    counted: EndCounts
    contracts: tuple[ContractFigures, ...]
    domains: tuple[DomainFigures, ...]
    pooled: tuple[DomainFigures, ...]
    """The same over all domains; equal to `domains` but for the name where there is one."""


def figures(
    groups: Sequence[TrialGroup], passes: Iterable[DomainPass], ks: Sequence[int]
) -> Figures:
    """The figures of trials that were added up, which may be of several runs."""
    contracts: dict[tuple[JudgedContract, str], list[TrialGroup]] = defaultdict(list)
    for group in groups:
        contracts[group.judged, group.agent].append(group)
    by_domain = _domain_figures(groups, passes, ks)
    return Figures(
        pool(group.counted for group in groups),
        tuple(
            _of_contract(judged, agent, members, ks)
            for (judged, agent), members in sorted(contracts.items(), key=lambda each: each[0])
        ),
        tuple(each for each in by_domain if each.domain != ALL),
        tuple(each for each in by_domain if each.domain == ALL),
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
        together(group.measures for group in members),
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
        together(group.measures for group in members),
        frozenset(group.run for group in members),
    )


def _known_mean(values: Sequence[Fraction | None]) -> Fraction | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None
