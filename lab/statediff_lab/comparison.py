"""`compare`: two runs, aligned by case, which is a contract's version and the number of a trial.

An INCONCLUSIVE trial claims nothing, so a case with one is *undecided*: neither improved nor
regressed. A case without a verdict on one side, or that only one run scheduled, or whose contract
or kernel is not the same, is shown apart. Every scheduled trial of both runs is in one count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from statediff.errors import BundleError
from statediff.statistics.binomial import mcnemar
from statediff.suite.measures import Measures, together
from statediff.suite.overview import EndCounts, TrialGroup, pool
from statediff.suite.records import Ended, Loose, Trial, domain_of
from statediff.suite.store import Store
from statediff_lab.statistics.bootstrap import Interval, mean_interval

RESAMPLES: Final = 10_000


class CaseChange(StrEnum):
    """The outcome of a case from A to B."""

    BOTH_PASS = "both_pass"  # noqa: S105 - the name of an outcome
    BOTH_FAIL = "both_fail"
    IMPROVED = "improved"
    REGRESSED = "regressed"
    UNDECIDED = "undecided"
    NO_VERDICT = "no_verdict"
    CONTRACT_CHANGED = "contract_changed"
    MISSING = "missing"


DECIDED = {
    (Ended.MATCH, Ended.MATCH): CaseChange.BOTH_PASS,
    (Ended.DIVERGE, Ended.DIVERGE): CaseChange.BOTH_FAIL,
    (Ended.DIVERGE, Ended.MATCH): CaseChange.IMPROVED,
    (Ended.MATCH, Ended.DIVERGE): CaseChange.REGRESSED,
}
_BY_INTEREST = (
    CaseChange.REGRESSED,
    CaseChange.UNDECIDED,
    CaseChange.IMPROVED,
    CaseChange.BOTH_FAIL,
    CaseChange.BOTH_PASS,
)
_BY_ENDS = {
    (a, b): DECIDED.get((a, b), CaseChange.UNDECIDED)
    if a.has_verdict and b.has_verdict
    else CaseChange.NO_VERDICT
    for a in Ended
    for b in Ended
}
"""Of two trials of the same contract, under the same kernel."""
_DIFFERENCE = {
    CaseChange.IMPROVED: 1,
    CaseChange.REGRESSED: -1,
    CaseChange.BOTH_PASS: 0,
    CaseChange.BOTH_FAIL: 0,
}
"""Of the kinds that are decided."""


class ComparedCase(NamedTuple):
    """One case of the comparison; a side is None where that run did not schedule it."""

    contract: str
    number: int | None
    name: str
    a: Trial | None
    b: Trial | None
    change: CaseChange
    new: tuple[Loose, ...] = ()
    """Violations of B that A does not have, where both have a verdict of the same contract."""
    vanished: tuple[Loose, ...] = ()

    @property
    def key(self) -> tuple[str, int | None, str]:
        """The key that no other case of a comparison has."""
        return self.contract, self.number, self.name

    @property
    def lost_its_pass(self) -> bool:
        """True if A passed, and whether B does is not known."""
        return (
            self.a is not None
            and self.a.ended is Ended.MATCH
            and self.change not in (CaseChange.BOTH_PASS, CaseChange.REGRESSED)
        )


@dataclass(frozen=True)
class DifferenceInterval(Interval):
    """The middle 95 % of the resampled mean differences, and how they were drawn."""

    resamples: int
    seed: int
    clusters: int


@dataclass(frozen=True)
class PassDifference:
    """The difference between two runs, as decided cases show it."""

    decided: int
    """Cases with a MATCH or a DIVERGE on both sides."""
    difference: Fraction | None
    """The share of the decided cases that pass in B less that in A."""
    p: Fraction
    """McNemar's, exact and two-sided, over the decided cases."""
    interval: DifferenceInterval | None


@dataclass(frozen=True)
class Comparison:
    """All cases of two runs, and what the decided ones say of the difference."""

    cases: tuple[ComparedCase, ...]
    pooled: PassDifference
    """Over all domains."""
    domains: Mapping[str, PassDifference]
    """By domain, in order; of those with a decided case."""

    def of(self, change: CaseChange) -> tuple[ComparedCase, ...]:
        """The cases of one kind."""
        return self._by_change.get(change, ())

    def telling(self, number: int) -> tuple[ComparedCase, ...]:
        """So many cases with two verdicts, those first in which the verdicts differ."""
        found = (case for change in _BY_INTEREST for case in self.of(change))
        return tuple(islice(found, number))

    @cached_property
    def _by_change(self) -> dict[CaseChange, tuple[ComparedCase, ...]]:
        found: dict[CaseChange, list[ComparedCase]] = defaultdict(list)
        for case in self.cases:
            found[case.change].append(case)
        return {change: tuple(cases) for change, cases in found.items()}


def compare(a: Iterable[Trial], b: Iterable[Trial], seed: int) -> Comparison:
    """The two runs side by side. `BundleError` where one of them has a case twice."""
    one, other = _by_case(a), _by_case(b)
    every = {**one, **other}  # mostly in order already, which a set of the keys would not be
    cases = tuple([_case(every[key], one.get(key), other.get(key)) for key in sorted(every)])
    clusters: dict[str, list[int]] = defaultdict(list)
    for case in cases:
        if (step := _DIFFERENCE.get(case.change)) is not None:
            clusters[case.contract].append(step)
    domains: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for name in sorted(clusters):
        domains[domain_of(name)][name] = clusters[name]
    pooled = _pass_difference(clusters, seed)
    return Comparison(
        cases,
        pooled,
        {
            name: pooled if len(domains) == 1 else _pass_difference(own, seed)
            for name, own in domains.items()
        },
    )


def _pass_difference(clusters: Mapping[str, Sequence[int]], seed: int) -> PassDifference:
    """The figures of the differences (-1, 0 or 1) of decided cases, by contract."""
    decided = [pair for cluster in clusters.values() for pair in cluster]
    return PassDifference(
        len(decided),
        Fraction(sum(decided), len(decided)) if decided else None,
        mcnemar(decided.count(1), decided.count(-1)),
        difference_interval([clusters[name] for name in sorted(clusters)], seed),
    )


def difference_interval(clusters: Sequence[Sequence[int]], seed: int) -> DifferenceInterval | None:
    """The interval of the mean of paired differences (−1, 0 or 1); None where there is no pair.

    A cluster holds the pairs of one contract: trials of one contract are not independent. With a
    single cluster its pairs are drawn.
    """
    filled = [cluster for cluster in clusters if cluster]
    drawn = filled if len(filled) != 1 else [[pair] for pair in filled[0]]
    found = mean_interval(drawn, seed, RESAMPLES, pools_equal=True)
    if found is None:
        return None
    return DifferenceInterval(found.low, found.high, RESAMPLES, seed, len(filled))


_Key = tuple[str, int, str]
"""Contract, number, and name, by which cases are in order; see `_key`."""


def _key(trial: Trial) -> _Key:
    # What was not scheduled has no number, and its folder distinguishes it from others.
    if trial.number is None:
        return trial.contract, -1, trial.name
    return trial.contract, trial.number, ""


def _by_case(trials: Iterable[Trial]) -> dict[_Key, Trial]:
    every = trials if isinstance(trials, Sequence) else list(trials)
    found = dict(zip(map(_key, every), every, strict=True))
    if len(found) < len(every):
        first: dict[_Key, Trial] = {}
        for trial in every:
            if (known := first.setdefault(_key(trial), trial)) is not trial:
                raise BundleError(
                    f"{trial.contract} trial {trial.number}: {known.name} and {trial.name} are "
                    "of one case; expected one trial of a case in a run"
                )
    return found


def _case(trial: Trial, a: Trial | None, b: Trial | None) -> ComparedCase:
    """The case that `trial`, which is one of the two, is of."""
    key = trial.contract, trial.number, "" if trial.number is not None else trial.name
    if a is None or b is None:
        return ComparedCase(*key, a, b, CaseChange.MISSING)
    if a.version != b.version or a.digest != b.digest or a.kernel != b.kernel:
        return ComparedCase(*key, a, b, CaseChange.CONTRACT_CHANGED)
    change = _BY_ENDS[a.ended, b.ended]
    # Most often there is nothing in either.
    if a.loose == b.loose or change is CaseChange.NO_VERDICT:
        return ComparedCase(*key, a, b, change)
    one, other = _violations(a), _violations(b)
    return ComparedCase(*key, a, b, change, _without(other, one), _without(one, other))


def _violations(trial: Trial) -> list[Loose]:
    return [found for found in trial.loose if found.truth == "FAILS"]


def _without(some: Sequence[Loose], others: Sequence[Loose]) -> tuple[Loose, ...]:
    """Those that are not among the others, in order: most often there are none, or all are."""
    return tuple(sorted(set(some) - set(others))) if len(some) > 1 or others else tuple(some)


@dataclass(frozen=True)
class RunPart:
    """The trials of a run, or those of them that one agent made."""

    run: str
    agent: str | None = None


def agents_of(store: Store, run: str) -> list[str]:
    """Who made the run's trials, as far as that was reported, in order."""
    wanted = "SELECT DISTINCT agent FROM trials WHERE run = ? AND agent <> ''"
    return sorted(agent for (agent,) in store.rows(wanted, [run]))


def trials_of(store: Store, part: RunPart) -> list[Trial]:
    """Every trial of the part, with what does not hold in it."""
    every = store.trials(part.run, with_findings=True)
    return [trial for trial in every if part.agent in (None, trial.agent)]


@dataclass(frozen=True)
class SideFigures:
    """One side of a comparison in one domain: how its trials ended, and what they measured."""

    counted: EndCounts
    measures: Measures


def side_figures(groups: Iterable[TrialGroup]) -> dict[str, SideFigures]:
    """One agent's trials in one run, by domain, in order."""
    by: dict[str, list[TrialGroup]] = defaultdict(list)
    for group in groups:
        by[domain_of(group.judged.contract)].append(group)
    return {
        name: SideFigures(pool(g.counted for g in own), together(g.measures for g in own))
        for name, own in sorted(by.items())
    }
