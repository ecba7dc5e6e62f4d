"""The states that calls and turns left: between which transactions of each source a call ended.

Known where calls were made one after the other, by the recorded clock, and each transaction around
the end of a call is some recorded call's. Calls made within a call end with it. What was at work at
the same time left no state of its own.

A turn in which the harness spoke for the user left the state that it saw when it looked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate

from statediff.kernel.policy.attribution.claims import Claim
from statediff.kernel.policy.history.commit_order import commit_order
from statediff.kernel.policy.history.intermediate_states import IntermediateStates
from statediff.model.timelines import SourceTimeline
from statediff.model.trace import Action, Trace
from statediff.model.view import View

Claims = Mapping[tuple[str, int], Claim]


def with_states_after_calls(
    moments: IntermediateStates, trace: Trace, claims: Claims
) -> IntermediateStates:
    """The moments with the states that calls and turns left, and with the order of commits."""
    return replace(moments, after=Left(trace, moments, claims), order=commit_order(trace, claims))


class Left(Mapping[str, View]):
    """`call-3` or `turn-1` → the state it left, as far as that is known; made when it is read."""

    def __init__(self, trace: Trace, moments: IntermediateStates, claims: Claims) -> None:
        self._moments = moments
        self._ends: dict[str, int] = {}
        self._seen = {
            f"turn-{number}": turn.left
            for number, turn in enumerate(trace.turns or (), start=1)
            if turn.gate is not None
        }
        if not claims or trace.is_agent_influenced:
            return
        places = _places(trace.actions)
        if places is None:
            return
        self._ends = places
        for number, turn in enumerate(trace.turns or ()):
            if number:
                self._ends[f"turn-{number}"] = turn.calls_before - 1
        at = {action.id: position for position, action in enumerate(trace.actions)}
        self._lines = [_Line(line, claims, at) for line in moments.course.lines if not line.gap]

    def __getitem__(self, name: str) -> View:
        if name in self._seen:
            steps = {line.source: len(line.steps) for line in self._moments.course.lines}
            seen = {source: n for source, n in self._seen[name] if n <= steps.get(source, -1)}
            return self._moments.where(seen)
        end = self._ends[name]
        numbers = {line.source: n for line in self._lines if (n := line.after(end)) is not None}
        return self._moments.where(numbers)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._ends, **self._seen})

    def __len__(self) -> int:
        return len({**self._ends, **self._seen})


class _Line:
    """The steps of one source by the calls that made them."""

    def __init__(self, timeline: SourceTimeline, claims: Claims, at: Mapping[str, int]) -> None:
        self.source = timeline.source
        self._count = len(timeline.steps)
        made = sorted(
            (at[claim.action], number)
            for (source, number), claim in claims.items()
            if source == timeline.source and claim.action is not None and claim.action in at
        )
        self._calls = [call for call, _ in made]
        numbers = [number for _, number in made]
        self._latest = [0, *accumulate(numbers, max)]
        earliest = [self._count + 1, *reversed(numbers)]
        self._earliest = [*accumulate(earliest, min)][::-1]

    def after(self, end: int) -> int | None:
        """The step after which every call up to there, and none beyond, had made its own."""
        split = bisect_right(self._calls, end)
        number = self._latest[split]
        return number if number + 1 == self._earliest[split] else None


def _places(actions: tuple[Action, ...]) -> dict[str, int] | None:
    """The id of a call → the position of the last call within it; None if calls overlapped."""
    last = {action.id: position for position, action in enumerate(actions)}
    within: list[Action] = []
    for action in actions:
        while within and within[-1].id != action.parent:
            ended = within.pop()
            if ended.finished_at is None or action.started_at is None:
                return None
            if ended.finished_at > action.started_at:
                return None
        within.append(action)
    for action in reversed(actions):
        if action.parent in last:
            last[action.parent] = max(last[action.parent], last[action.id])
    return last
