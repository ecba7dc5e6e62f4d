"""Measures of trials beside their verdicts, added up for `stats`, `compare` and dashboards.

Precision, recall, F1 and the forbidden-effect rate [SSD eqs. 5–6], C = (tool, task, outcome)
[TV eq. 4], how the clauses along a run and those over the whole of it ended [STA], and turns at the
first attempt and after a repair [TV §3.8]. Only trials with a verdict have any. A mean is over the
trials in which its figure is defined, and says how many those are.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

BILLION: Final = 10**9


class Components(NamedTuple):
    """The three results of one trial by name of their verdict; None where no clause is of it."""

    tool: str | None
    task: str | None
    outcome: str | None


class Levels(NamedTuple):
    """The worst truth of the clauses along a run and over the whole of it; None: no clause."""

    along: str | None
    whole: str | None


@dataclass(frozen=True)
class Mean:
    """A sum in billionths over so many trials."""

    total: int = 0
    number: int = 0

    @property
    def value(self) -> Fraction | None:
        """The mean; None where no trial has the figure."""
        return Fraction(self.total, self.number * BILLION) if self.number else None


@dataclass(frozen=True)
class TurnCounts:
    """How the gates of live turns ended, over trials."""

    number: int = 0
    first: int = 0
    """Those that held at the first attempt."""
    after: int = 0
    """Those that held in the end, after a repair among them."""
    failed: int = 0

    @property
    def unknown(self) -> int:
        return self.number - self.after - self.failed


@dataclass(frozen=True)
class CallCounts:
    """Calls judged one by one, over trials, and the trials in which they and the end disagree."""

    number: int = 0
    wrong: int = 0
    unknown: int = 0
    only_calls: int = 0
    """Trials whose outcome is right, and a call of which is wrong."""
    only_end: int = 0
    """Trials whose outcome is wrong, and each call of which is right."""


GROUPED: Final = ("tool", "task", "outcome", "along", "whole")
"""The last columns that sums of measures are grouped by."""
_MEANS: Final = ("precision_nano", "recall_nano", "f1_nano", "forbidden_nano")
_TURNS: Final = ("turns", "turns_first", "turns_after", "turns_failed")
_CALLS: Final = ("calls", "calls_wrong", "calls_unknown", "only_calls", "only_end")
SUMS: Final = (
    *(f"sum({column})" for column in _MEANS),
    *(f"count({column})" for column in _MEANS),
    *(f"sum({column})" for column in (*_TURNS, *_CALLS)),
)
"""The sums over rows of the store's view `measured`."""


@dataclass(frozen=True)
class Measures:
    """The measures of trials with a verdict, added up."""

    sums: tuple[int, ...] = (0,) * len(SUMS)
    """As `SUMS` names them."""
    components: Mapping[Components, int] = field(default_factory=dict)
    levels: Mapping[Levels, int] = field(default_factory=dict)

    def _mean(self, column: str) -> Mean:
        at = _MEANS.index(column)
        return Mean(self.sums[at], self.sums[at + len(_MEANS)])

    @property
    def precision(self) -> Mean:
        return self._mean("precision_nano")

    @property
    def recall(self) -> Mean:
        return self._mean("recall_nano")

    @property
    def f1(self) -> Mean:
        """Per trial the harmonic mean of precision and recall, where both are defined."""
        return self._mean("f1_nano")

    @property
    def forbidden(self) -> Mean:
        return self._mean("forbidden_nano")

    @property
    def turns(self) -> TurnCounts:
        return TurnCounts(*self.sums[2 * len(_MEANS) : -len(_CALLS)])

    @property
    def calls(self) -> CallCounts:
        return CallCounts(*self.sums[-len(_CALLS) :])

    def result(self, name: str) -> Mapping[str, int]:
        """By `tool`, `task` or `outcome`: verdict → trials, of those with a clause of it."""
        found: Counter[str] = Counter()
        for each, trials in self.components.items():
            if (verdict := getattr(each, name)) is not None:
                found[verdict] += trials
        return found

    @property
    def leveled(self) -> int:
        """Trials whose contracts have clauses of both levels: only these can disagree."""
        return sum(n for each, n in self.levels.items() if None not in each)

    @property
    def only_along(self) -> int:
        """Trials in which a clause along the run fails and those over the whole of it hold."""
        return self.levels.get(Levels("FAILS", "HOLDS"), 0)

    @property
    def only_whole(self) -> int:
        """Trials in which every clause along the run holds and one over the whole of it fails."""
        return self.levels.get(Levels("HOLDS", "FAILS"), 0)


NO_MEASURES: Final = Measures()


def measures(rows: Iterable[tuple[int, Sequence[str | None], Sequence[Any]]]) -> Measures:
    """The measures of rows of trials with a verdict: (trials, `GROUPED`, `SUMS`)."""
    return together(
        Measures(
            tuple(int(value or 0) for value in sums),
            {Components(*grouped[:3]): trials},
            {Levels(*grouped[3:]): trials},
        )
        for trials, grouped, sums in rows
    )


def together(every: Iterable[Measures]) -> Measures:
    """All of them."""
    sums = NO_MEASURES.sums
    components: Counter[Components] = Counter()
    levels: Counter[Levels] = Counter()
    for each in every:
        sums = tuple(map(operator.add, sums, each.sums))
        components.update(each.components)
        levels.update(each.levels)
    return Measures(sums, components, levels)
