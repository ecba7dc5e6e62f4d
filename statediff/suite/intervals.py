"""What a share of so many trials says of the share among all: the exact binomial interval."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Final

_GRID: Final = 10_000
"""Ends are known to four digits, rounded away from the share: never narrower than they are."""


@dataclass(frozen=True)
class Share:
    """`hits` of `total`, with the ends of its interval."""

    hits: int
    total: int
    low: Fraction
    high: Fraction


def clopper_pearson(hits: int, total: int, miss: Fraction = Fraction(1, 20)) -> Share:
    """The share with the two-sided interval that misses the truth at most so often.

    The low end is the share under which as many hits or more have a chance of `miss / 2`, the high
    end the same for as few or fewer (Clopper and Pearson, 1934). Of nothing, anything may be true.
    """
    if not 0 <= hits <= total:
        raise ValueError(f"{hits} of {total} is no share")
    # The chance of `least` hits or more grows with the share; the ends are where it passes a bound.
    low = _last_below(hits, total, miss / 2) if hits else 0
    high = _GRID - (_last_below(total - hits, total, miss / 2) if hits < total else 0)
    return Share(hits, total, Fraction(low, _GRID), Fraction(high, _GRID))


def _last_below(least: int, total: int, bound: Fraction) -> int:
    """The largest share on the grid under which `least` hits or more are no likelier than that."""
    low, high = 0, _GRID  # nothing happens at 0, everything at 1
    while high - low > 1:
        middle = (low + high) // 2
        if _chance(least, total, middle) <= bound:
            low = middle
        else:
            high = middle
    return low


def _chance(least: int, total: int, share: int) -> Fraction:
    """Of `least` hits or more in `total`, exactly."""
    other, all_ways = _GRID - share, _GRID**total
    is_short = 2 * least > total  # the shorter of the two tails is added up
    tail = range(least, total + 1) if is_short else range(least)
    ways = sum(comb(total, n) * share**n * other ** (total - n) for n in tail)
    return Fraction(ways if is_short else all_ways - ways, all_ways)
