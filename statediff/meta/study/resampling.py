"""Intervals by a two-stage bootstrap: tasks are drawn anew, then the runs within each [SSD §V].

Runs of one task are not independent, so tasks are the clusters; within a drawn task its runs are
drawn with replacement too. Every share of a domain is computed over the same draws, so that the
difference of two evaluators is one of pairs. With a single task only its runs are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

RESAMPLES: Final = 2000
_CELLS: Final = 4_000_000
"""Weights held at once."""
Weights = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Interval:
    """The middle 95 % of the resampled values."""

    low: float
    high: float


class Draws:
    """How often each run of a domain was drawn, in every resample."""

    def __init__(self, tasks: Sequence[str], seed: int, resamples: int = RESAMPLES) -> None:
        self._tasks = tasks
        self._seed = seed
        self._resamples = resamples
        names = sorted(set(tasks))
        self.clusters = len(names)
        self._members = [np.flatnonzero([t == name for t in tasks]) for name in names]
        self._weights = self._drawn()

    def _drawn(self) -> Weights:
        random = np.random.default_rng(self._seed)
        weights = np.zeros((self._resamples, len(self._tasks)), dtype=np.int32)
        number = len(self._members)
        times = random.multinomial(number, np.full(number, 1 / number), self._resamples)
        for at, members in enumerate(self._members):
            size = len(members)
            weights[:, members] = random.multinomial(times[:, at] * size, np.full(size, 1 / size))
        return weights

    def share(self, hits: Mask, of: Mask) -> Interval | None:
        """Of `hits` among `of`; None where nothing can be drawn."""
        return _middle(self._shares(hits, of))

    def difference(self, one: Mask, other: Mask, of: Mask) -> Interval | None:
        """Of the share of `one` less that of `other`, both among `of`, over the same draws."""
        ones, others = self._shares(one, of), self._shares(other, of)
        return None if ones is None or others is None else _middle(ones - others)

    def _shares(self, hits: Mask, of: Mask) -> npt.NDArray[np.float64] | None:
        if not of.any():
            return None
        counted = self._weights[:, of].sum(axis=1)
        # A resample that drew no run of this kind says nothing of it.
        drawn = counted > 0
        found = self._weights[:, hits & of].sum(axis=1)
        return np.where(drawn, found / np.where(drawn, counted, 1), np.nan)


def _middle(values: npt.NDArray[np.float64] | None) -> Interval | None:
    if values is None:
        return None
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    low, high = np.quantile(known, (0.025, 0.975))
    return Interval(float(low), float(high))
