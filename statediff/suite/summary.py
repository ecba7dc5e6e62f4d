"""`stats`: trials of one or several runs, counted by contract and by domain.

What decided a verdict is the evaluator: trials under another version or digest of a contract, or
another kernel, are never in one count, nor are trials of different agents. Every scheduled trial
is in the count it belongs to; whatever is no MATCH did not pass, and trials without a verdict are
told apart beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from statediff.statistics.repeats import Reruns, mean, pass_all, pass_at, reruns
from statediff.suite.overview import Counted, Group, Judged, Pass, pooled
from statediff.suite.records import domain_of

ALL: Final = ""
"""The domain of everything."""


@dataclass(frozen=True)
class ContractFigures:
    """One agent's trials under one contract; `at` and `all` hold pass@k and pass^k by k."""

    judged: Judged
    agent: str
    counted: Counted
    retried: int
    """How many of them were made again though there was a verdict: those were chosen."""
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


def figures(groups: Sequence[Group], passes: Iterable[Pass], ks: Sequence[int]) -> Figures:
    """The figures of trials that were added up, which may be of several runs."""
    contracts: dict[tuple[Judged, str], list[Group]] = defaultdict(list)
    for group in groups:
        contracts[group.judged, group.agent].append(group)
    return Figures(
        pooled(group.counted for group in groups),
        tuple(
            _of_contract(judged, agent, members, ks)
            for (judged, agent), members in sorted(contracts.items(), key=lambda each: each[0])
        ),
        _domains(groups, passes, ks),
    )


def _of_contract(
    judged: Judged, agent: str, members: Sequence[Group], ks: Sequence[int]
) -> ContractFigures:
    count = pooled(group.counted for group in members)
    return ContractFigures(
        judged, agent, count, sum(group.retried for group in members),
        {k: pass_at(count.scheduled, count.passed, k) for k in ks},
        {k: pass_all(count.scheduled, count.passed, k) for k in ks},
    )  # fmt: skip


_Setup = tuple[str, str, str, str]
"""Domain, agent, kernel, run."""


def _domains(
    groups: Iterable[Group], passes: Iterable[Pass], ks: Sequence[int]
) -> tuple[DomainFigures, ...]:
    """By domain; runs of one domain are together only where all their contracts are the same."""
    by_run: dict[_Setup, list[Group]] = defaultdict(list)
    for group in groups:
        for domain in (ALL, domain_of(group.judged.contract)):
            by_run[domain, group.agent, group.judged.kernel, group.run].append(group)
    made: dict[_Setup, dict[int, list[Pass]]] = defaultdict(lambda: defaultdict(list))
    for each in passes:
        for domain in (ALL, each.domain):
            made[domain, each.agent, each.kernel, each.run][each.number].append(each)
    setups: dict[tuple[str, str, tuple[Judged, ...]], list[Group]] = defaultdict(list)
    scores: dict[tuple[str, str, tuple[Judged, ...]], list[Fraction]] = defaultdict(list)
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
    domain: str, agent: str, contracts: tuple[Judged, ...], members: Sequence[Group],
    scores: Sequence[Fraction], ks: Sequence[int],
) -> DomainFigures:  # fmt: skip
    within: dict[Judged, list[Counted]] = defaultdict(list)
    for group in members:
        within[group.judged].append(group.counted)
    counts = [pooled(each) for each in within.values()]
    return DomainFigures(
        domain, agent, contracts, pooled(counts),
        {k: _mean([pass_at(c.scheduled, c.passed, k) for c in counts]) for k in ks},
        {k: _mean([pass_all(c.scheduled, c.passed, k) for c in counts]) for k in ks},
        reruns(scores),
    )  # fmt: skip


def _mean(values: Sequence[Fraction | None]) -> Fraction | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None
