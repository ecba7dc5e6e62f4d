"""Figures over repeated trials, exact where they can be: fractions, not floats.

None where a figure is not defined. Nothing here knows what a trial is: whoever asks has kept
apart what may not be pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, sqrt
from typing import Final

RESAMPLES: Final = 10_000
_CELLS: Final = 4_000_000
"""Draws held at once."""


def pass_at(trials: int, passed: int, k: int) -> Fraction | None:
    """pass@k: the chance that of k trials, drawn from those made, at least one passed.

    The unbiased estimate of the same for k new trials. None for more trials than were made.
    """
    if not 1 <= k <= trials:
        return None
    return 1 - Fraction(comb(trials - passed, k), comb(trials, k))


def pass_all(trials: int, passed: int, k: int) -> Fraction | None:
    """pass^k: the chance that k trials, drawn from those made, all passed; unbiased as above."""
    if not 1 <= k <= trials:
        return None
    return Fraction(comb(passed, k), comb(trials, k))


def mean(values: Sequence[Fraction]) -> Fraction | None:
    """The mean; None of nothing."""
    return sum(values, Fraction(0)) / len(values) if values else None


@dataclass(frozen=True)
class Reruns:
    """The scores of complete reruns of one setup [TV §3.5]."""

    number: int
    mean: Fraction | None
    deviation: float | None
    """The sample's standard deviation, over K−1; None for fewer than two reruns."""
    lowest: Fraction | None
    highest: Fraction | None

    @property
    def spread(self) -> Fraction | None:
        """The highest score less the lowest."""
        if self.lowest is None or self.highest is None:
            return None
        return self.highest - self.lowest


def reruns(scores: Sequence[Fraction]) -> Reruns:
    """How far the scores of K reruns lie apart."""
    middle = mean(scores)
    if middle is None:
        return Reruns(0, None, None, None, None)
    squares = sum(((score - middle) ** 2 for score in scores), Fraction(0))
    deviation = sqrt(squares / (len(scores) - 1)) if len(scores) > 1 else None
    return Reruns(len(scores), middle, deviation, min(scores), max(scores))


def mcnemar(improved: int, regressed: int) -> Fraction:
    """The two-sided p of McNemar's exact test, over the pairs that differ; 1 where none do."""
    number = improved + regressed
    if number == 0:
        return Fraction(1)
    # One way to choose leads to the next: thousands of large binomials would take their time.
    tail = ways = 1
    for at in range(min(improved, regressed)):
        ways = ways * (number - at) // (at + 1)
        tail += ways
    return min(Fraction(1), Fraction(2 * tail, 2**number))


@dataclass(frozen=True)
class Interval:
    """The middle 95 % of the resampled mean differences."""

    low: float
    high: float
    resamples: int
    seed: int
    clusters: int


def bootstrap(clusters: Sequence[Sequence[int]], seed: int) -> Interval | None:
    """Where the mean of paired differences (−1, 0 or 1) lies when the clusters are drawn anew.

    A cluster holds the pairs of one contract: trials of one contract are not independent. With a
    single cluster its pairs are drawn. None where there is no pair.
    """
    filled = [cluster for cluster in clusters if cluster]
    if not filled:
        return None
    drawn = filled if len(filled) > 1 else [[pair] for pair in filled[0]]
    import numpy as np  # noqa: PLC0415 - slow, and nothing else here needs it

    sums = np.array([sum(cluster) for cluster in drawn], dtype=np.int64)
    sizes = np.array([len(cluster) for cluster in drawn], dtype=np.int64)
    # Which clusters of one sum and size are drawn makes no difference, only how many of each.
    kinds, numbers = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    random = np.random.default_rng(seed)
    step = max(1, _CELLS // len(numbers))
    means: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
    for at in range(0, RESAMPLES, step):
        counts = random.multinomial(
            len(drawn), numbers / len(drawn), size=min(step, RESAMPLES - at)
        )
        means.append((counts @ kinds[0]) / (counts @ kinds[1]))
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return Interval(float(low), float(high), RESAMPLES, seed, len(filled))
