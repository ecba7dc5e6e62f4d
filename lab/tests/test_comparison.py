"""Two runs side by side: every case has one fate, and what is not known is never a pass."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_lab.comparison import (
    CaseChange,
    Comparison,
    RunPart,
    agents_of,
    all_trials,
    compare,
    difference_interval,
    unlike_trials,
)
from statediff_lab.reports.comparison import comparison_document, comparison_tables

from statediff.errors import BundleError
from statediff.suite.databases import SQLite
from statediff.suite.records import Ended, Loose, Trial
from statediff.suite.store import Store, open_store
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


KINDS = [Loose("a", "forbidden", "forbid", "FAILS"), Loose("b", "unknown", "require", "UNKNOWN")]
CONTRACTS = ["s/a", "s/B", "s/é", "s/\U0001f600", "s/￿"]


@st.composite
def several(draw: st.DrawFn) -> list[Trial]:
    """Trials of runs `a` and `b`, and of two agents; a number stands for one case of an agent."""
    keys = st.tuples(
        st.sampled_from("ab"), st.sampled_from(CONTRACTS), st.one_of(st.none(), st.integers(1, 4)),
        st.sampled_from(["careful", "bold"]),
    )  # fmt: skip
    found = []
    for run, contract, number, agent in sorted(
        draw(st.sets(keys, min_size=1, max_size=40)), key=repr
    ):
        found.append(
            Trial(
                run,
                f"{contract}-{agent}-{number}",
                draw(st.sampled_from([Ended.MATCH] * 4 + [*Ended])),
                contract=contract,
                version=draw(st.sampled_from(["1.0.0"] * 9 + ["2.0.0"])),
                digest=draw(st.sampled_from(["d"] * 9 + ["e"])),
                kernel=draw(st.sampled_from(["6"] * 9 + ["5"])),
                agent=agent,
                number=number,
                loose=tuple(draw(st.sampled_from([[], [], [], KINDS[:1], KINDS[1:], KINDS]))),
            )
        )
    return found


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with open_store("sqlite://") as store:
        yield store


def kept(store: Store, every: list[Trial]) -> None:
    """The store knows these trials and no others."""
    with store._transaction(writes=True) as database:
        database.put("DELETE FROM runs", [()])
    for run in "ab":
        store.put_run(known_run(run))
    store.put_trials(every)


def said(found: Comparison) -> list[str]:
    rows = []
    for told in comparison_tables(found, {}, ({}, {}), is_pooled=True):
        if isinstance(told, str):
            rows.append(told)
        else:
            rows += [str(list(column.cells)) for column in told.columns]
    return rows


@given(
    several(), st.sampled_from(["careful", "bold", None]), st.sampled_from(["careful", "bold"]),
    st.sampled_from("ab"), st.integers(0, 6),
)  # fmt: skip
def test_a_comparison_of_what_differs_says_what_one_of_all_says(
    store: Store, every: list[Trial], one: str | None, other: str, run: str, number: int
) -> None:
    if one is None:  # whoever made them: one agent did
        every = [trial for trial in every if trial.agent == other]
    kept(store, every)
    a, b = RunPart("a", one), RunPart(run, other)
    some = unlike_trials(store, a, b, number)
    full = compare(all_trials(store, a), all_trials(store, b), 7)
    found = compare(some.a, some.b, 7, some.alike)
    assert agents_of(store, "a") == sorted({t.agent for t in every if t.run == "a"})
    assert said(found) == said(full)
    assert found.telling(number) == full.telling(number)
    assert (found.number, found.pooled.decided, found.pooled.p) == (
        len(full.cases),
        full.pooled.decided,
        full.pooled.p,
    )
    assert (found.pooled.difference, found.pooled.interval) == (
        full.pooled.difference,
        full.pooled.interval,
    )
    for change in CaseChange:
        assert found.count(change) == len(full.of(change))
        if change is not CaseChange.BOTH_PASS:
            assert found.of(change) == full.of(change)
    left = [case for case in full.cases if case not in found.cases]
    assert all(c.a and c.b and not c.a.loose and not c.b.loose for c in left)
    assert len(left) == found.alike
    assert any(c.lost_its_pass for c in full.cases) == any(c.lost_its_pass for c in found.cases)


def test_what_passed_in_both_is_counted_and_not_read(store: Store) -> None:
    every = [*trials("a", "s/a", "MMMMMD"), *trials("b", "s/a", "MMMMMM")]
    kept(store, every)
    found = unlike_trials(store, RunPart("a"), RunPart("b"), 2)
    assert [sorted(s.number or 0 for s in side) for side in (found.a, found.b)] == [[1, 2, 6]] * 2
    assert found.alike == {"s/a": 3}


def test_a_case_that_is_there_twice_is_not_left_out(store: Store) -> None:
    (one,) = trials("a", "s/a", "M")
    every = [one, replace(one, name="again"), *trials("b", "s/a", "M")]
    kept(store, every)
    found = unlike_trials(store, RunPart("a"), RunPart("b"), 0)
    assert (len(found.a), len(found.b), found.alike) == (2, 1, {})
    with pytest.raises(BundleError, match="of one case"):
        compare(found.a, found.b, 0, found.alike)


def test_a_comparison_with_cases_left_out_is_not_listed_case_by_case() -> None:
    with pytest.raises(ValueError, match="left out"):
        comparison_document(compare([], [], 0, {"s/a": 1}), {}, ({}, {}))


def test_a_case_is_looked_up_and_not_sought_among_all_of_its_contract(store: Store) -> None:
    told: list[str] = []
    with store._transaction(writes=False) as database:
        assert isinstance(database, SQLite)
        database._connection.set_trace_callback(told.append)
    unlike_trials(store, RunPart("a"), RunPart("b"), 1)
    with store._transaction(writes=False) as database:
        assert isinstance(database, SQLite)
        database._connection.set_trace_callback(None)
        joined = [query for query in told if "AS one" in query and "AS other" in query]
        assert len(joined) == 3
        for query in joined:
            plan = database.rows(f"EXPLAIN QUERY PLAN {query}")
            assert any("(run=? AND contract=? AND number=?)" in str(step) for step in plan), plan


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
