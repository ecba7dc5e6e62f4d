"""The exact binomial interval."""

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.suite.intervals import clopper_pearson


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
