"""Exact binomial intervals: no approximation, so that 0 failures of n still has an upper bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

LEVEL: Final = 0.95
_STEPS: Final = 60


class Bounds(NamedTuple):
    """Both ends of an interval, as shares from 0 to 1."""

    low: float
    high: float


def clopper_pearson(good: int, of: int, level: float = LEVEL) -> Bounds | None:
    """The exact interval of the share `good / of`; None where there was nothing to count.

    Each end is where a binomial tail weighs half of what the level leaves over
    (C. Clopper, E. Pearson, Biometrika 26, 1934).
    """
    if not 0 <= good <= of:
        raise ValueError(f"{good} of {of}: expected a count and at most as many")
    if of == 0:
        return None
    tail = (1 - level) / 2
    low = 0.0 if good == 0 else _root(lambda p: 1 - _at_most(good - 1, of, p) < tail)
    high = 1.0 if good == of else _root(lambda p: _at_most(good, of, p) > tail)
    return Bounds(low, high)


def _root(is_below: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low


def _at_most(good: int, of: int, p: float) -> float:
    """P(X ≤ good) of a binomial of `of` draws, in logarithms."""
    if p <= 0 or p >= 1:
        return 1.0 if p <= 0 or good >= of else 0.0
    whole = math.lgamma(of + 1)
    return min(1.0, math.fsum(
        math.exp(
            whole - math.lgamma(k + 1) - math.lgamma(of - k + 1)
            + k * math.log(p) + (of - k) * math.log1p(-p)
        )
        for k in range(good + 1)
    ))  # fmt: skip
