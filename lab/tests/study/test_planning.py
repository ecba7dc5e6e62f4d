"""A labelled study is planned: sizes, strata, a sample that no order changes, and its file."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_lab.study.planning import (
    PlannedRun,
    Registration,
    draw,
    read_registration,
    wanted_size,
)

from statediff.errors import InputError, UsageError

TENTH = Fraction(1, 10)
HALF = Fraction(1, 2)


def runs_of(sizes: dict[tuple[str, str], int]) -> list[PlannedRun]:
    return [
        PlannedRun(domain, f"{stratum}-{n}", f"task-{n % 3}", stratum, "0" * 64)
        for (domain, stratum), size in sizes.items()
        for n in range(size)
    ]


def registration(sample: tuple[PlannedRun, ...] = (), seed: int = 7) -> Registration:
    return Registration(
        seed=seed,
        within="0.1",
        expected="0.5",
        contracts="0" * 64,
        kernel="9",
        evaluators=("statediff",),
        measures=("agreement",),
        protocol={"who": "two passes"},
        strata=(),
        sample=sample or tuple(sorted(runs_of({("d", "a"): 9, ("e", "b"): 9}))),
    )


@pytest.mark.parametrize(
    ("runs", "within", "expected", "wanted"),
    [
        (10**9, TENTH, HALF, 97),  # the textbook's 96.04, rounded up
        (10**9, Fraction(1, 20), HALF, 385),
        (10**9, TENTH, Fraction(9, 10), 35),
        (100, TENTH, HALF, 50),  # 96.04 / (1 + 95.04 / 100)
        (3, TENTH, HALF, 3),
        (0, TENTH, HALF, 0),
    ],
)
def test_so_many_runs_give_the_wanted_interval(
    runs: int, within: Fraction, expected: Fraction, wanted: int
) -> None:
    assert wanted_size(runs, within, expected) == wanted


@pytest.mark.parametrize(("within", "expected"), [(0, HALF), (1, HALF), (TENTH, 0), (TENTH, 1)])
def test_a_width_or_share_that_is_none_is_refused(within: Fraction, expected: Fraction) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        wanted_size(10, Fraction(within), Fraction(expected))


SIZES = st.dictionaries(
    st.tuples(st.sampled_from("de"), st.sampled_from("abc")), st.integers(1, 60), min_size=1
)


@given(SIZES, st.integers(0, 9), st.randoms(use_true_random=False))
def test_a_sample_has_of_each_stratum_its_share_whatever_the_order(
    sizes: dict[tuple[str, str], int], seed: int, random: object
) -> None:
    runs = runs_of(sizes)
    strata, sample = draw(runs, Fraction(3, 20), HALF, seed)
    random.shuffle(runs)  # type: ignore[attr-defined]
    assert draw(runs, Fraction(3, 20), HALF, seed) == (strata, sample)
    drawn = Counter((each.domain, each.stratum) for each in sample)
    for each in strata:
        domain = sum(n for (d, _), n in sizes.items() if d == each.domain)
        wanted = wanted_size(domain, Fraction(3, 20), HALF)
        assert each.drawn == drawn[each.domain, each.stratum]
        assert abs(each.drawn - Fraction(wanted * each.runs, domain)) < 1
        assert wanted == sum(n for (d, _), n in drawn.items() if d == each.domain)


def test_another_seed_draws_other_runs_and_two_of_one_name_are_refused() -> None:
    runs = runs_of({("d", "a"): 60})
    assert draw(runs, TENTH, HALF, 1)[1] != draw(runs, TENTH, HALF, 2)[1]
    with pytest.raises(UsageError, match="two runs have one name"):
        draw([*runs, runs[0]], TENTH, HALF, 1)


def test_a_registration_is_read_as_written_and_nothing_else() -> None:
    found = registration()
    data = found.written()
    assert read_registration(data) == found
    tree = json.loads(data)
    for wrong in (
        data[:-1],
        b" " + data,
        b"[]\n",
        b"{}\n",
        json.dumps({**tree, "form": "other"}).encode() + b"\n",
        json.dumps({**tree, "more": 1}, separators=(",", ":"), sort_keys=True).encode() + b"\n",
        replace(found, seed="x").written(),  # type: ignore[arg-type]
        replace(found, sample=({"run": 1},)).written(),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError):
            read_registration(wrong)
