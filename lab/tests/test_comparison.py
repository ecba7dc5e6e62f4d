"""Two runs side by side: every case has one fate, and what is not known is never a pass."""

from dataclasses import replace
from fractions import Fraction

import pytest
from statediff_lab.comparison import (
    CaseChange,
    Comparison,
    RunPart,
    agents_of,
    compare,
    difference_interval,
    trials_of,
)
from statediff_lab.reports.comparison import comparison_tables

from statediff.errors import BundleError
from statediff.suite.records import Ended, Loose
from statediff.suite.store import open_store
from tests.suite.test_overview import known_run, trials

FATES = {
    "MM": CaseChange.BOTH_PASS,
    "DD": CaseChange.BOTH_FAIL,
    "DM": CaseChange.IMPROVED,
    "MD": CaseChange.REGRESSED,
    "MI": CaseChange.UNDECIDED,
    "IM": CaseChange.UNDECIDED,
    "DI": CaseChange.UNDECIDED,
    "II": CaseChange.UNDECIDED,
    "MF": CaseChange.NO_VERDICT,
    "NM": CaseChange.NO_VERDICT,
    "FF": CaseChange.NO_VERDICT,
}


@pytest.mark.parametrize("pair", FATES)
def test_a_case_has_one_fate(pair: str) -> None:
    found = compare(trials("a", "s/c", pair[0]), trials("b", "s/c", pair[1], agent="bold"), 0)
    assert [case.change for case in found.cases] == [FATES[pair]]
    assert found.cases[0].lost_its_pass == (pair in ("MI", "MF"))
    assert found.pooled.decided == (pair in ("MM", "DD", "DM", "MD"))


def test_the_fates_of_all_cases_add_up() -> None:
    a, b = "".join(p[0] for p in FATES), "".join(p[1] for p in FATES)
    found = compare([*trials("a", "s/c", a), *trials("a", "s/gone", "M")], trials("b", "s/c", b), 0)
    assert len(found.cases) == len(FATES) + 1 == sum(len(found.of(change)) for change in CaseChange)
    (missing,) = found.of(CaseChange.MISSING)
    assert missing.b is None
    assert missing.lost_its_pass


@pytest.mark.parametrize("other", [{"version": "2.0.0"}, {"digest": "e"}, {"kernel": "5"}])
def test_verdicts_of_another_contract_or_kernel_are_not_compared(other: dict[str, str]) -> None:
    found = compare(trials("a", "s/c", "MD"), trials("b", "s/c", "DM", **other), 0)
    assert {case.change for case in found.cases} == {CaseChange.CONTRACT_CHANGED}
    assert (found.pooled.decided, found.pooled.difference, found.pooled.interval) == (0, None, None)


def test_violations_are_new_or_vanished_by_clause_and_code() -> None:
    (a,), (b,) = trials("a", "s/c", "D"), trials("b", "s/c", "D")
    old, kept = Loose("x", "forbidden", "forbid", "FAILS"), Loose("y", "lost", "require", "FAILS")
    new, unknown = old._replace(clause="z"), old._replace(clause="u", truth="UNKNOWN")
    found = compare([replace(a, loose=(old, kept))], [replace(b, loose=(kept, new, unknown))], 0)
    (case,) = found.cases
    assert (case.new, case.vanished) == ((new,), (old,))


def test_the_difference_is_that_of_the_decided_pairs() -> None:
    found = compare(trials("a", "s/c", "DDDDDMI"), trials("b", "s/c", "MMMMMMM"), 3)
    assert found.pooled.difference == Fraction(5, 6)
    assert found.pooled.p == Fraction(1, 16)
    assert found.pooled.interval is not None
    assert found.pooled.interval.seed == 3


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


def said(found: Comparison) -> list[str]:
    rows = []
    for told in comparison_tables(found, {}, ({}, {}), is_pooled=True):
        if isinstance(told, str):
            rows.append(told)
        else:
            rows += [str(list(column.cells)) for column in told.columns]
    return rows


def test_the_cases_of_one_agent_are_compared() -> None:
    every = [*trials("a", "s/c", "MD"), *trials("b", "s/c", "DD", agent="bold")]
    with open_store("sqlite://") as store:
        for run in "ab":
            store.put_run(known_run(run))
        store.put_trials(every)
        assert agents_of(store, "b") == ["bold"]
        sides = [trials_of(store, RunPart("a")), trials_of(store, RunPart("b", "bold"))]
        assert [len(side) for side in sides] == [2, 2]
        assert trials_of(store, RunPart("b", "careful")) == []
    changes = [case.change for case in compare(*sides, 0).cases]
    assert changes == [CaseChange.REGRESSED, CaseChange.BOTH_FAIL]


def test_domains_differ_each_for_itself_and_the_pooled_difference_is_named_so() -> None:
    a = [*trials("a", "shop/x", "MMMM"), *trials("a", "desk/x", "DDDD")]
    b = [*trials("b", "shop/x", "DDDD"), *trials("b", "desk/x", "MMMM")]
    found = compare(a, b, 0)
    assert {name: of.difference for name, of in found.domains.items()} == {"desk": 1, "shop": -1}
    assert found.pooled.difference == 0
    lines = [line for line in said(found) if "decided" in line]
    assert [line.partition(" points")[0] for line in lines] == [
        "4 decided: +100.0", "4 decided: -100.0", "pooled over domains: 8 decided: +0.0",
    ]  # fmt: skip
