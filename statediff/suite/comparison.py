"""`compare`: two runs, aligned by case, which is a contract's version and the number of a trial.

An INCONCLUSIVE trial claims nothing, so a case with one is *undecided*: neither improved nor
regressed. A case without a verdict on one side, or that only one run scheduled, or whose contract
or kernel is not the same, is told apart. Every scheduled trial of both runs is in one count.
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
from statediff.statistics.bootstrap import Interval, mean_interval
from statediff.suite.records import Ended, Loose, Side, Trial

RESAMPLES: Final = 10_000


class Change(StrEnum):
    """What became of a case from A to B."""

    BOTH_PASS = "both_pass"  # noqa: S105 - the name of an outcome
    BOTH_FAIL = "both_fail"
    IMPROVED = "improved"
    REGRESSED = "regressed"
    UNDECIDED = "undecided"
    NO_VERDICT = "no_verdict"
    CONTRACT_CHANGED = "contract_changed"
    MISSING = "missing"


AnySide = Trial | Side
DECIDED = {
    (Ended.MATCH, Ended.MATCH): Change.BOTH_PASS,
    (Ended.DIVERGE, Ended.DIVERGE): Change.BOTH_FAIL,
    (Ended.DIVERGE, Ended.MATCH): Change.IMPROVED,
    (Ended.MATCH, Ended.DIVERGE): Change.REGRESSED,
}
_TELLING = (
    Change.REGRESSED, Change.UNDECIDED, Change.IMPROVED, Change.BOTH_FAIL, Change.BOTH_PASS,
)  # fmt: skip
_BY_ENDS = {
    (a, b): DECIDED.get((a, b), Change.UNDECIDED)
    if a.has_verdict and b.has_verdict
    else Change.NO_VERDICT
    for a in Ended
    for b in Ended
}
"""Of two trials of the same contract, under the same kernel."""
_DIFFERENCE = {
    Change.IMPROVED: 1, Change.REGRESSED: -1, Change.BOTH_PASS: 0, Change.BOTH_FAIL: 0,
}  # fmt: skip
"""Of the kinds that are decided."""


class Case(NamedTuple):
    """One case of the comparison; a side is None where that run did not schedule it."""

    contract: str
    number: int | None
    name: str
    a: AnySide | None
    b: AnySide | None
    change: Change
    new: tuple[Loose, ...] = ()
    """Violations of B that A does not have, where both have a verdict of the same contract."""
    vanished: tuple[Loose, ...] = ()

    @property
    def key(self) -> tuple[str, int | None, str]:
        """What no other case of a comparison has."""
        return self.contract, self.number, self.name

    @property
    def lost_its_pass(self) -> bool:
        """Whether A passed, and whether B does is not known."""
        return (
            self.a is not None
            and self.a.ended is Ended.MATCH
            and self.change not in (Change.BOTH_PASS, Change.REGRESSED)
        )


@dataclass(frozen=True)
class DifferenceInterval(Interval):
    """The middle 95 % of the resampled mean differences, and how they were drawn."""

    resamples: int
    seed: int
    clusters: int


@dataclass(frozen=True)
class Comparison:
    """All cases of two runs, and what the decided ones say of the difference."""

    cases: tuple[Case, ...]
    difference: Fraction | None
    """The share of the decided cases that pass in B less that in A."""
    p: Fraction
    """McNemar's, exact and two-sided, over the decided cases."""
    interval: DifferenceInterval | None
    alike: int = 0
    """Further cases that passed in both, of which nothing else is to be said."""

    @property
    def number(self) -> int:
        """How many cases there are in all."""
        return len(self.cases) + self.alike

    def of(self, change: Change) -> tuple[Case, ...]:
        """The cases of one kind, but for those that are `alike`."""
        return self._by_change.get(change, ())

    def count(self, change: Change) -> int:
        """How many cases of one kind there are in all."""
        return len(self.of(change)) + (self.alike if change is Change.BOTH_PASS else 0)

    def telling(self, number: int) -> tuple[Case, ...]:
        """So many cases with two verdicts, those first in which the verdicts differ."""
        found = (case for change in _TELLING for case in self.of(change))
        return tuple(islice(found, number))

    @property
    def decided(self) -> int:
        """Cases with a MATCH or a DIVERGE on both sides."""
        return sum(map(self.count, _DIFFERENCE))

    @cached_property
    def _by_change(self) -> dict[Change, tuple[Case, ...]]:
        found: dict[Change, list[Case]] = defaultdict(list)
        for case in self.cases:
            found[case.change].append(case)
        return {change: tuple(cases) for change, cases in found.items()}


def compare(
    a: Iterable[AnySide], b: Iterable[AnySide], seed: int, alike: Mapping[str, int] | None = None
) -> Comparison:
    """The two runs side by side. `BundleError` where one of them has a case twice.

    `alike` says, by contract, how many cases that passed in both are on neither side.
    """
    one, other = _by_case(a), _by_case(b)
    every = {**one, **other}  # mostly in order already, which a set of the keys would not be
    cases = tuple([_case(every[key], one.get(key), other.get(key)) for key in sorted(every)])
    clusters: dict[str, list[int]] = defaultdict(list)
    for case in cases:
        if (step := _DIFFERENCE.get(case.change)) is not None:
            clusters[case.contract].append(step)
    for contract, number in (alike or {}).items():
        clusters[contract] += [0] * number
    decided = [pair for cluster in clusters.values() for pair in cluster]
    return Comparison(
        cases, Fraction(sum(decided), len(decided)) if decided else None,
        mcnemar(decided.count(1), decided.count(-1)),
        difference_interval([clusters[name] for name in sorted(clusters)], seed),
        sum((alike or {}).values()),
    )  # fmt: skip


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


def _key(trial: AnySide) -> _Key:
    # What was not scheduled has no number, and is told from others by its folder.
    if trial.number is None:
        return trial.contract, -1, trial.name
    return trial.contract, trial.number, ""


def _by_case(trials: Iterable[AnySide]) -> dict[_Key, AnySide]:
    every = trials if isinstance(trials, Sequence) else list(trials)
    found = dict(zip(map(_key, every), every, strict=True))
    if len(found) < len(every):
        first: dict[_Key, AnySide] = {}
        for trial in every:
            if (known := first.setdefault(_key(trial), trial)) is not trial:
                raise BundleError(
                    f"{trial.contract} trial {trial.number}: {known.name} and {trial.name} are "
                    "of one case; expected one trial of a case in a run"
                )
    return found


def _case(trial: AnySide, a: AnySide | None, b: AnySide | None) -> Case:
    """The case that `trial`, which is one of the two, is of."""
    key = trial.contract, trial.number, "" if trial.number is not None else trial.name
    if a is None or b is None:
        return Case(*key, a, b, Change.MISSING)
    if a.version != b.version or a.digest != b.digest or a.kernel != b.kernel:
        return Case(*key, a, b, Change.CONTRACT_CHANGED)
    change = _BY_ENDS[a.ended, b.ended]
    # Most often there is nothing in either.
    if a.loose == b.loose or change is Change.NO_VERDICT:
        return Case(*key, a, b, change)
    one, other = _violations(a), _violations(b)
    return Case(*key, a, b, change, _beyond(other, one), _beyond(one, other))


def _violations(trial: AnySide) -> list[Loose]:
    return [found for found in trial.loose if found.truth == "FAILS"]


def _beyond(some: Sequence[Loose], others: Sequence[Loose]) -> tuple[Loose, ...]:
    """Those that are not among the others, in order: most often there are none, or all are."""
    return tuple(sorted(set(some) - set(others))) if len(some) > 1 or others else tuple(some)
