"""Figures over repeated trials of one setup, exact where they can be: fractions, not floats.

None where a figure is not defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, sqrt


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
