"""The exact binomial tail, interval and test."""

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.statistics.binomial import Rounding, at_least, clopper_pearson, mcnemar


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [
        # As tabulated for 95 %.
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (9, 10, 0.5550, 0.9975),
        (10, 10, 0.6915, 1.0),
        (401, 420, 0.9302, 0.9726),
    ],
)
def test_the_ends_are_those_of_the_tables(hits, total, low, high):
    share = clopper_pearson(hits, total)
    assert float(share.low) == pytest.approx(low, abs=1.01e-4)
    assert float(share.high) == pytest.approx(high, abs=1.01e-4)


def test_of_nothing_anything_may_be_true():
    share = clopper_pearson(0, 0)
    assert (share.low, share.high) == (0, 1)


@pytest.mark.parametrize(("hits", "total"), [(-1, 3), (4, 3)])
def test_what_is_no_share_is_refused(hits, total):
    with pytest.raises(ValueError, match="no share"):
        clopper_pearson(hits, total)


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_interval_holds_the_share_and_is_no_narrower_than_it_claims(one, other):
    hits, total = one, one + other
    share = clopper_pearson(hits, total)
    if total:
        assert share.low <= Fraction(hits, total) <= share.high

    def chance(p: Fraction, numbers: range) -> Fraction:
        terms = (comb(total, n) * p**n * (1 - p) ** (total - n) for n in numbers)
        return sum(terms, Fraction(0))

    half, digit = Fraction(1, 40), Fraction(1, 10_000)
    if hits:
        more = range(hits, total + 1)
        assert chance(share.low, more) <= half < chance(share.low + digit, more)
    if hits < total:
        fewer = range(hits + 1)
        assert chance(share.high, fewer) <= half < chance(share.high - digit, fewer)
    mirror = clopper_pearson(total - hits, total)
    assert (mirror.low, mirror.high) == (1 - share.high, 1 - share.low)


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    # As R's binom.test gives them.
    [
        (10, 10, 0.6915, 1.0), (0, 10, 0.0, 0.3085),
        (8, 10, 0.4439, 0.9748), (95, 100, 0.8872, 0.9836),
        # Each the nearest of its digits, where the outward end is another.
        (6000, 6000, 0.9994, 1.0), (5990, 6000, 0.9969, 0.9992),
    ],
)  # fmt: skip
def test_ends_to_the_nearest_digit_are_those_of_the_tables(hits, total, low, high):
    share = clopper_pearson(hits, total, rounding=Rounding.NEAREST)
    assert (float(share.low), float(share.high)) == (low, high)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_nearest_digit_is_at_most_one_inside_of_the_outward_end(counts):
    near, out = clopper_pearson(*counts, rounding=Rounding.NEAREST), clopper_pearson(*counts)
    digit = Fraction(1, 10_000)
    assert near.low in (out.low, out.low + digit)
    assert near.high in (out.high, out.high - digit)


@given(st.integers(0, 12), st.integers(-1, 14), st.fractions(0, 1, max_denominator=9))
def test_a_tail_is_the_sum_of_its_outcomes(total, hits, chance):
    ways = (
        comb(total, n) * chance**n * (1 - chance) ** (total - n)
        for n in range(max(hits, 0), total + 1)
    )
    assert at_least(hits, total, chance) == sum(ways, Fraction(0))


def test_a_tail_of_thousands_is_exact_where_a_float_would_overflow():
    assert at_least(5_000, 5_000, Fraction(1, 2)) == Fraction(1, 2**5_000)
    with pytest.raises(ValueError, match="no chance"):
        at_least(1, 2, Fraction(3, 2))


def test_mcnemar_is_the_exact_binomial_test() -> None:
    assert mcnemar(0, 0) == 1
    assert mcnemar(5, 5) == 1
    assert mcnemar(0, 5) == Fraction(1, 16)
    assert mcnemar(9, 1) == mcnemar(1, 9) == Fraction(22, 1024)
