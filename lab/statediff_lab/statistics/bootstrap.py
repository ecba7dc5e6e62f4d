"""Percentile intervals by a bootstrap over clusters, one stage or two [SSD §V].

What belongs to one contract or task is not independent, so clusters are drawn anew, with
replacement; a cluster is drawn whole, or its members are drawn with replacement too (`Draws`). A
seed fixes every draw, in this order:

1. How many times each cluster is drawn, one multinomial a resample.
2. In two stages, how many times each member is, one multinomial a resample and cluster.

`pools_equal` draws clusters of equal sum and size as one kind: the same distribution in fewer
draws, for thousands of clusters. It is another stream of the same seed, so it is an argument and
no automatism: published intervals must not move when two clusters happen to be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from statediff.statistics.binomial import Rounding, clopper_pearson

if TYPE_CHECKING:  # slow to load, and a command's help draws nothing
    import numpy as np
    import numpy.typing as npt

    Mask: TypeAlias = npt.NDArray[np.bool_]
    _Counts: TypeAlias = npt.NDArray[np.int64]
    _Values: TypeAlias = npt.NDArray[np.float64]

_CELLS: Final = 4_000_000
"""Draws held at once."""


@dataclass(frozen=True)
class Interval:
    """The middle 95 % of the resampled values."""

    low: float
    high: float


def mean_interval(
    clusters: Sequence[Sequence[int]], seed: int, resamples: int, *, pools_equal: bool = False
) -> Interval | None:
    """The interval of the mean over all members when whole clusters are drawn anew.

    None where there is no member. Of a single cluster nothing can be said: it is always drawn.
    """
    import numpy as np  # noqa: PLC0415 - slow

    filled = [cluster for cluster in clusters if cluster]
    if not filled:
        return None
    sums = np.array([sum(cluster) for cluster in filled], dtype=np.int64)
    sizes = np.array([len(cluster) for cluster in filled], dtype=np.int64)
    numbers = np.ones(len(filled), dtype=np.int64)
    if pools_equal:
        (sums, sizes), numbers = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    random = np.random.default_rng(seed)
    means = [
        (times @ sums) / (times @ sizes) for times in _draw_clusters(random, numbers, resamples)
    ]
    return middle(np.concatenate(means))


class Draws:
    """How many times each member of each cluster was drawn, in every resample; two stages.

    Every share is computed over the same draws, so that the difference of two of them is one of
    pairs. With a single cluster only its members are drawn.
    """

    def __init__(self, clusters: Sequence[str], seed: int, resamples: int) -> None:
        import numpy as np  # noqa: PLC0415 - slow

        names = sorted(set(clusters))
        self.clusters = len(names)
        self._cluster_of = tuple(clusters)
        self._weights = np.zeros((resamples, len(clusters)), dtype=np.int32)
        random = np.random.default_rng(seed)
        one_of_each = np.ones(len(names), dtype=np.int64)
        times = np.concatenate([*_draw_clusters(random, one_of_each, resamples)])
        for at, name in enumerate(names):
            members = np.flatnonzero([cluster == name for cluster in clusters])
            size = len(members)
            self._weights[:, members] = random.multinomial(
                times[:, at] * size, np.full(size, 1 / size)
            )

    def share(self, hits: Mask, of: Mask) -> Interval | None:
        """The interval of the share of `hits` among `of`; None where nothing can be drawn.

        Resamples of what is all alike are all alike: of several clusters the interval then is the
        exact one for as many draws as there are clusters, and not one without width.
        """
        shares = self._shares(hits, of)
        if shares is None:
            return None
        found, number = (
            int((hits & of).sum()),
            len({self._cluster_of[at] for at in of.nonzero()[0]}),
        )
        if number > 1 and found in (0, int(of.sum())):
            exact = clopper_pearson(number if found else 0, number, rounding=Rounding.NEAREST)
            return Interval(float(exact.low), float(exact.high))
        return middle(shares)

    def difference(self, one: Mask, other: Mask, of: Mask) -> Interval | None:
        """The interval of `one`'s share less `other`'s, both among `of`, over the same draws."""
        ones, others = self._shares(one, of), self._shares(other, of)
        return None if ones is None or others is None else middle(ones - others)

    def drawn(self, of: Mask) -> _Counts:
        """How many of these members each resample drew, one that is drawn twice counted twice."""
        counts: _Counts = self._weights[:, of].sum(axis=1)
        return counts

    def _shares(self, hits: Mask, of: Mask) -> _Values | None:
        """In every resample that drew any of these: one that drew none says nothing of them."""
        counted = self._weights[:, of].sum(axis=1)
        drawn = counted > 0
        if not drawn.any():
            return None
        shares: _Values = self._weights[:, hits & of].sum(axis=1)[drawn] / counted[drawn]
        return shares


def _draw_clusters(random: np.random.Generator, numbers: _Counts, resamples: int) -> Iterator[Any]:
    """How many times each kind of cluster was drawn, resamples × kinds, a part at a time.

    `numbers` says how many clusters there are of each kind; as many as there are in all are drawn.
    """
    total = int(numbers.sum())
    step = max(1, _CELLS // len(numbers))
    for at in range(0, resamples, step):
        yield random.multinomial(total, numbers / total, size=min(step, resamples - at))


def middle(values: _Values) -> Interval:
    """The middle 95 % of values, one a resample."""
    import numpy as np  # noqa: PLC0415 - slow

    low, high = np.quantile(values, (0.025, 0.975))
    return Interval(float(low), float(high))
