"""Exact binomial tails, and what rests on them: Clopper–Pearson intervals and McNemar's test.

Every figure is a fraction of integers. Floats would do for a report, but not for a comparison with
a bound, and `math.comb` of a thousand draws no longer fits into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final

MISS: Final = Fraction(1, 20)
"""An interval of 95 % misses the truth at most this often."""
GRID: Final = 10_000
"""The ends of intervals have four digits."""


class Rounding(Enum):
    """How the ends of an interval get their four digits."""

    OUTWARD = "outward"
    """Away from the share: never narrower than the interval is. For decisions."""
    NEAREST = "nearest"
    """As tables of the interval print it."""


@dataclass(frozen=True)
class Share:
    """`hits` of `total`, with the ends of its interval."""

    hits: int
    total: int
    low: Fraction
    high: Fraction


def at_least(hits: int, total: int, chance: Fraction) -> Fraction:
    """The probability of `hits` or more in `total` draws that each hit with `chance`."""
    if not 0 <= chance <= 1:
        raise ValueError(f"{chance} is no chance")
    if hits <= 0:
        return Fraction(1)
    if hits > total:
        return Fraction(0)
    return Fraction(
        _ways(hits, total, chance.numerator, chance.denominator), chance.denominator**total
    )


def mcnemar(improved: int, regressed: int) -> Fraction:
    """The two-sided p of McNemar's exact test, over the pairs that differ; 1 where none do."""
    number = improved + regressed
    return min(Fraction(1), 2 * at_least(max(improved, regressed), number, Fraction(1, 2)))


def clopper_pearson(
    hits: int, total: int, miss: Fraction = MISS, rounding: Rounding = Rounding.OUTWARD
) -> Share:
    """The share with the two-sided interval that misses the truth at most that often.

    The low end is the share under which as many hits or more have a chance of `miss / 2`, the high
    end the same for as few or fewer (Clopper and Pearson, 1934). Of nothing, anything may be true.
    """
    if not 0 <= hits <= total:
        raise ValueError(f"{hits} of {total} is no share")
    low = _low_end(hits, total, miss / 2, rounding) if hits else Fraction(0)
    high = 1 - _low_end(total - hits, total, miss / 2, rounding) if hits < total else Fraction(1)
    return Share(hits, total, low, high)


def _low_end(hits: int, total: int, bound: Fraction, rounding: Rounding) -> Fraction:
    """The share under which `hits` or more are as likely as `bound`; it grows with the share."""
    if rounding is Rounding.OUTWARD:
        return Fraction(_last_below(hits, total, bound, GRID), GRID)
    # The end lies between two steps of half a digit: the odd one of them is rounded away.
    return Fraction((_last_below(hits, total, bound, 2 * GRID) + 1) // 2, GRID)


def _last_below(hits: int, total: int, bound: Fraction, grid: int) -> int:
    """The largest share on the grid under which `hits` or more are no likelier than `bound`."""
    most = bound.numerator * grid**total  # compared without a fraction: no common divisor is sought
    low, high = 0, grid  # nothing happens at 0, everything at 1
    while high - low > 1:
        middle = (low + high) // 2
        if _ways(hits, total, middle, grid) * bound.denominator <= most:
            low = middle
        else:
            high = middle
    return low


def _ways(hits: int, total: int, share: int, grid: int) -> int:
    """`hits` or more of `total` draws, each with `share` of `grid`; of grid**total ways."""
    if 2 * hits > total:  # the shorter of the two tails is added up
        return _at_most(total - hits, total, grid - share, share)
    return int(grid**total) - _at_most(hits - 1, total, share, grid - share)


def _at_most(most: int, total: int, hit: int, other: int) -> int:
    # One way to choose leads to the next: thousands of large binomials would take their time.
    if other == 0:
        return 0  # all hit, and `most` is less than all
    ways = found = int(other**total)
    for number in range(most):
        ways = ways * ((total - number) * hit) // ((number + 1) * other)
        found += ways
    return found
