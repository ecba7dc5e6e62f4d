"""Figures over repeated trials: against counting, published numbers and exact tests."""

from fractions import Fraction
from itertools import combinations
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.suite.statistics import bootstrap, mcnemar, mean, pass_all, pass_at, reruns


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
    assert bootstrap([[], []], 0) is None


def test_mcnemar_is_the_exact_binomial_test() -> None:
    assert mcnemar(0, 0) == 1
    assert mcnemar(5, 5) == 1
    assert mcnemar(0, 5) == Fraction(1, 16)
    assert mcnemar(9, 1) == mcnemar(1, 9) == Fraction(22, 1024)


def test_the_bootstrap_repeats_with_its_seed_and_holds_the_difference() -> None:
    pairs = [[1, 0, 0], [0, 0], [-1, 1, 1], [1]]
    found = bootstrap(pairs, 7)
    assert found == bootstrap(pairs, 7)
    assert found is not None
    assert found.low <= 3 / 9 <= found.high
    assert found.low < found.high
    assert found.clusters == 4


def test_trials_of_one_contract_are_drawn_together() -> None:
    """Two contracts of ten equal trials are two observations, not twenty."""
    together = bootstrap([[1] * 10, [0] * 10], 1)
    apart = bootstrap([[1] * 10 + [0] * 10], 1)
    assert together is not None
    assert apart is not None
    assert (together.low, together.high) == (0, 1)
    assert 0.2 < apart.low < apart.high < 0.8
