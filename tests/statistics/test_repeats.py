"""Figures over repeated trials: against counting and published numbers."""

from fractions import Fraction
from itertools import combinations
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.statistics.repeats import mean, pass_all, pass_at, reruns


@given(st.integers(1, 7), st.data())
def test_both_estimates_are_what_counting_every_draw_finds(
    trials: int, data: st.DataObject
) -> None:
    passed, k = data.draw(st.integers(0, trials)), data.draw(st.integers(1, trials))
    draws = list(combinations([True] * passed + [False] * (trials - passed), k))
    assert pass_at(trials, passed, k) == Fraction(sum(map(any, draws)), len(draws))
    assert pass_all(trials, passed, k) == Fraction(sum(map(all, draws)), len(draws))


@given(st.integers(1, 6), st.integers(0, 6), st.integers(1, 4))
def test_both_estimates_are_unbiased(trials: int, chance: int, k: int) -> None:
    """Over all outcomes of n trials that pass with chance p, their mean is that of k new ones."""
    p = Fraction(chance, 6)
    if k > trials:
        assert pass_at(trials, 0, k) is None
        assert pass_all(trials, 0, k) is None
        return
    weights = [
        Fraction(sum(1 for _ in combinations(range(trials), c))) * p**c * (1 - p) ** (trials - c)
        for c in range(trials + 1)
    ]
    at = [pass_at(trials, c, k) for c in range(trials + 1)]
    every = [pass_all(trials, c, k) for c in range(trials + 1)]
    assert sum(w * (v or 0) for w, v in zip(weights, at, strict=True)) == 1 - (1 - p) ** k
    assert sum(w * (v or 0) for w, v in zip(weights, every, strict=True)) == p**k


def test_reruns_are_spread_over_k_minus_one() -> None:
    """The lowest and highest of the 23 reruns of [TV §3.5], and one between them."""
    found = reruns([Fraction(579, 1000), Fraction(768, 1000), Fraction(694, 1000)])
    assert found.spread == Fraction(189, 1000)
    assert found.mean == Fraction(2041, 3000)
    by_hand = sqrt(sum((float(s) - 0.680333) ** 2 for s in (0.579, 0.768, 0.694)) / 2)
    assert found.deviation == pytest.approx(by_hand, abs=1e-6)


def test_what_is_not_defined_is_none() -> None:
    assert mean([]) is None
    assert reruns([]).spread is None
    assert reruns([Fraction(1, 2)]).deviation is None
    assert reruns([Fraction(1, 2)]).spread == 0
