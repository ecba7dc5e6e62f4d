"""The course of a run: the states between its two ends, source by source.

A *step* is one transaction of a source. The state after step n of a source is a side of its own,
called `moment n of SOURCE`; step 0 left the state before the run, the last step of a complete line
left the state after it. A type that a step did not touch is as it was one step earlier, so that
nothing is read, or kept, twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from statediff.model.readings import NO_FEED
from statediff.model.state import State
from statediff.model.values import Key


@dataclass(frozen=True)
class Step:
    """One transaction as its source names it, and the types it touched."""

    transaction: str
    position: str
    committed_at: datetime | None
    touched: frozenset[str]
    names: tuple[str, ...] = ()
    """Other names under which its maker may know it."""


@dataclass(frozen=True)
class SourceTimeline:
    """The course of one source. `types` are those that it alone tells of."""

    source: str
    types: frozenset[str]
    steps: tuple[Step, ...] = ()
    gap: str | None = None
    """Why there may have been other steps; None if these are all."""

    def side(self, number: int) -> str:
        """The name of the state that the step left."""
        if number == 0:
            return "before"
        if number == len(self.steps) and self.gap is None:
            return "after"
        return f"moment {number} of {self.source}"

    def side_of(self, type_name: str, number: int) -> str:
        """The side that shows the type as it was after the step."""
        steps = self._steps_of.get(type_name, [])
        at = bisect_right(steps, number)
        return self.side(steps[at - 1] if at else 0)

    def moves(self, type_name: str) -> bool:
        """True if a known step touched the type."""
        return type_name in self._steps_of

    @cached_property
    def _steps_of(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, step in enumerate(self.steps, start=1):
            for name in step.touched:
                found.setdefault(name, []).append(number)
        return found


@dataclass(frozen=True)
class Timelines:
    """Every line, sorted by source, and the types that none of them tells of, with the cause."""

    lines: tuple[SourceTimeline, ...] = ()
    unfollowed: tuple[tuple[str, str], ...] = ()

    def line_of(self, type_name: str) -> SourceTimeline | None:
        return next((line for line in self.lines if type_name in line.types), None)

    def gap(self, type_name: str) -> str | None:
        """Why the type may have been otherwise in between as well; None if that is known not."""
        line = self.line_of(type_name)
        if line is not None:
            return None if line.gap is None else f"{line.source}: {line.gap}"
        return dict(self.unfollowed).get(type_name, NO_FEED)


NO_TIMELINES = Timelines()


FRESH: Final = 1_000_000
"""Added to the occurrence in the key of a row without a key, where that key is another's.

No such occurrence is there already: only a few rows of one content are kept apart.
"""


@dataclass(frozen=True)
class IdentityPair:
    """One resolved identity: the rule that joined them, and the keys on both sides."""

    type: str
    rule: str
    before: Key
    after: Key


@dataclass(frozen=True)
class Matching:
    """One admissible way to pair entities: the two states with paired entities under one key."""

    before: State
    after: State
    pairs: tuple[IdentityPair, ...] = ()


@dataclass(frozen=True)
class Resolution:
    """Stage 2's result: every admissible matching (at least one), and what stays in doubt.

    `ambiguous` names the types over whose identity the matchings differ, with the cause. When
    there are too many matchings to enumerate, nothing of the type is observed instead. Where the
    candidates `differ_only_in_opaque_ids`, the matchings are the same but for these ids.
    """

    matchings: tuple[Matching, ...]
    ambiguous: tuple[tuple[str, str], ...] = ()
    differ_only_in_opaque_ids: bool = True
    readings_of: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    """(type, evidence ids before, evidence ids after), sorted by type."""
    course: Timelines = NO_TIMELINES
    """The course between the ends; `between` holds its states by the name of their side."""
    between: Mapping[str, State] = field(default_factory=dict)
