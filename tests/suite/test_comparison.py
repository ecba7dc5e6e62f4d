"""Two runs side by side: every case has one fate, and what is not known is never a pass."""

from dataclasses import replace
from fractions import Fraction

import pytest

from statediff.errors import BundleError
from statediff.suite.comparison import Change, compare, difference_interval
from statediff.suite.records import Ended, Loose
from tests.suite.test_summary import trials

FATES = {
    "MM": Change.BOTH_PASS, "DD": Change.BOTH_FAIL, "DM": Change.IMPROVED, "MD": Change.REGRESSED,
    "MI": Change.UNDECIDED, "IM": Change.UNDECIDED, "DI": Change.UNDECIDED, "II": Change.UNDECIDED,
    "MF": Change.NO_VERDICT, "NM": Change.NO_VERDICT, "FF": Change.NO_VERDICT,
}  # fmt: skip


@pytest.mark.parametrize("pair", FATES)
def test_a_case_has_one_fate(pair: str) -> None:
    found = compare(trials("a", "s/c", pair[0]), trials("b", "s/c", pair[1], agent="bold"), 0)
    assert [case.change for case in found.cases] == [FATES[pair]]
    assert found.cases[0].lost_its_pass == (pair in ("MI", "MF"))
    assert found.decided == (pair in ("MM", "DD", "DM", "MD"))


def test_the_fates_of_all_cases_add_up() -> None:
    a, b = "".join(p[0] for p in FATES), "".join(p[1] for p in FATES)
    found = compare([*trials("a", "s/c", a), *trials("a", "s/gone", "M")], trials("b", "s/c", b), 0)
    assert len(found.cases) == len(FATES) + 1 == sum(len(found.of(change)) for change in Change)
    (missing,) = found.of(Change.MISSING)
    assert missing.b is None
    assert missing.lost_its_pass


@pytest.mark.parametrize("other", [{"version": "2.0.0"}, {"digest": "e"}, {"kernel": "5"}])
def test_verdicts_of_another_contract_or_kernel_are_not_compared(other: dict[str, str]) -> None:
    found = compare(trials("a", "s/c", "MD"), trials("b", "s/c", "DM", **other), 0)
    assert {case.change for case in found.cases} == {Change.CONTRACT_CHANGED}
    assert (found.decided, found.difference, found.interval) == (0, None, None)


def test_violations_are_new_or_vanished_by_clause_and_code() -> None:
    (a,), (b,) = trials("a", "s/c", "D"), trials("b", "s/c", "D")
    old, kept = Loose("x", "forbidden", "forbid", "FAILS"), Loose("y", "lost", "require", "FAILS")
    new, unknown = old._replace(clause="z"), old._replace(clause="u", truth="UNKNOWN")
    found = compare([replace(a, loose=(old, kept))], [replace(b, loose=(kept, new, unknown))], 0)
    (case,) = found.cases
    assert (case.new, case.vanished) == ((new,), (old,))


def test_the_difference_is_that_of_the_decided_pairs() -> None:
    found = compare(trials("a", "s/c", "DDDDDMI"), trials("b", "s/c", "MMMMMMM"), 3)
    assert found.difference == Fraction(5, 6)
    assert found.p == Fraction(1, 16)
    assert found.interval is not None
    assert found.interval.seed == 3


def test_a_case_that_is_there_twice_is_refused() -> None:
    (one,) = trials("a", "s/c", "M")
    with pytest.raises(BundleError, match="of one case"):
        compare([one, replace(one, name="other", ended=Ended.DIVERGE)], [], 0)


def test_the_interval_repeats_with_its_seed_and_holds_the_difference() -> None:
    pairs = [[1, 0, 0], [0, 0], [-1, 1, 1], [1]]
    found = difference_interval(pairs, 7)
    assert found == difference_interval(pairs, 7)
    assert found is not None
    assert found.low <= 3 / 9 <= found.high
    assert found.low < found.high
    assert found.clusters == 4


def test_trials_of_one_contract_are_drawn_together() -> None:
    """Two contracts of ten equal trials are two observations, not twenty."""
    together = difference_interval([[1] * 10, [0] * 10], 1)
    apart = difference_interval([[1] * 10 + [0] * 10], 1)
    assert together is not None
    assert apart is not None
    assert (together.low, together.high) == (0, 1)
    assert 0.2 < apart.low < apart.high < 0.8


def test_without_a_pair_there_is_no_interval() -> None:
    assert difference_interval([[], []], 0) is None
