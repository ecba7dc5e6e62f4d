"""The bootstrap: clusters drawn anew by a seed, whose stream of draws never moves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statediff_lab.statistics.bootstrap import Draws, Interval, mean_interval

_UNLIKE = [[1] * (3 + n % 5) + [0] * (7 * n % 11) + [-1] * (n % 3) for n in range(12)]
PAIRS = [*_UNLIKE, *_UNLIKE[:2]]
"""Two of the clusters are there twice."""
CLUSTERS = st.lists(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=5), min_size=1)


def ends(found):
    return None if found is None else (found.low, found.high)


def study(tasks, hits, seed=0, resamples=2000):
    every = np.ones(len(tasks), dtype=np.bool_)
    return ends(Draws(tasks, seed, resamples).share(np.array(hits, dtype=np.bool_), every))


def test_the_draws_of_a_seed_stay_those_of_the_published_figures():
    """Figures of the three modules that this replaces; equal clusters are two draws or one kind."""
    apart, pooled = (ends(mean_interval(PAIRS, 7, 333, pools_equal=p)) for p in (False, True))
    assert apart == (0.3100441501103753, 0.4320752261339233)
    assert pooled == (0.30597014925373134, 0.4308230965521334)
    tasks = [f"{at:02}" for at, pairs in enumerate(PAIRS) for _ in pairs]
    hits = [pair == 1 for pairs in PAIRS for pair in pairs]
    assert study(tasks, hits, 7, 333) == (0.37089825119236886, 0.5771419637273296)


@given(CLUSTERS, st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_interval_lies_within_the_means_of_the_clusters_and_repeats(clusters, seed):
    for pools_equal in (False, True):
        found = ends(mean_interval(clusters, seed, 200, pools_equal=pools_equal))
        assert found == ends(mean_interval(clusters, seed, 200, pools_equal=pools_equal))
        means = [sum(cluster) / len(cluster) for cluster in clusters]
        assert min(means) - 1e-12 <= found[0] <= found[1] <= max(means) + 1e-12


def test_equal_clusters_drawn_as_one_kind_give_nearly_the_same_interval():
    clusters = [[1, 0], [0], [-1]] * 30
    apart, pooled = (mean_interval(clusters, 3, 5_000, pools_equal=p) for p in (False, True))
    assert ends(apart) == pytest.approx(ends(pooled), abs=0.02)


def test_thousands_of_clusters_are_drawn_a_part_at_a_time_and_the_stream_is_one(monkeypatch):
    at_once = mean_interval(PAIRS, 7, 500)
    monkeypatch.setattr("statediff_lab.statistics.bootstrap._CELLS", 37)
    assert mean_interval(PAIRS, 7, 500) == at_once


def test_of_no_member_there_is_no_interval():
    assert mean_interval([], 0, 10) is None
    assert mean_interval([[], []], 0, 10) is None


def test_tasks_are_the_clusters_so_that_like_runs_of_one_task_do_not_narrow_the_interval():
    hits = [True] * 50 + [False] * 50
    assert study(["a"] * 50 + ["b"] * 50, hits) == (0.0, 1.0)
    low, high = study(["a"] * 100, hits)
    assert 0.35 < low < 0.45
    assert 0.55 < high < 0.65


def test_two_shares_are_compared_over_the_same_draws():
    hits = np.array([True, False] * 20)
    every = np.ones(40, dtype=np.bool_)
    draws = Draws([str(n % 5) for n in range(40)], 0, 2_000)
    assert ends(draws.difference(hits, hits, every)) == (0.0, 0.0)


def test_a_resample_that_drew_none_of_them_says_nothing():
    tasks = [str(n % 3) for n in range(12)]
    none = np.zeros(12, dtype=np.bool_)
    rare = np.array([True] + [False] * 11)
    draws = Draws(tasks, 0, 300)
    assert draws.share(rare, none) is None
    assert ends(draws.share(rare, rare)) == (1.0, 1.0)


def test_of_what_is_all_alike_the_interval_is_the_exact_one_over_clusters() -> None:
    draws = Draws(["a", "a", "b", "c"], 0, 200)
    every, none = np.ones(4, dtype=np.bool_), np.zeros(4, dtype=np.bool_)
    low, high = 1 - 0.7076, 0.7076  # 3 draws: 0.025 ** (1 / 3) is 0.2924
    assert draws.share(every, every) == Interval(pytest.approx(low), 1.0)
    assert draws.share(none, every) == Interval(0.0, pytest.approx(high))
    one = np.array([True, True, False, False])
    assert draws.share(one, one) == Interval(1.0, 1.0)  # a single cluster: only its members
