"""The states of a run between its ends, and what each transaction changed, as clauses read them.

`during: run` asks two things of each transaction (decision 7): what it changed by itself,
and what the run had changed once it was through, as if the run had ended there. So neither a write
that is undone, nor one that is made in two transactions and undone, escapes.

No feed tells the order of the commits of two sources. A moment of one source shows of every other
source only what never changed; where a clause needs more, all orders must agree, but for those that
a complete log of calls rules out. A commit came before another where the call that made it had
ended when the call began that made the other. Nothing is known of the order of what one call made,
or of what overlapping calls made, and neither is it where a clock of whole seconds shows an end and
a beginning as one instant. A log that may lack calls, or that the agent could have written, orders
nothing.

The state that a call left is known where calls were made one after the other, by the recorded
clock, and each transaction around the end of a call is some recorded call's. Calls made within a
call end with it. What was at work at the same time left no state of its own. A turn in which the
harness spoke for the user left the state that it saw when it looked.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

from statediff.contract.language.syntax import CALL_TYPE, Read
from statediff.kernel.policy.attribution import Claim
from statediff.kernel.policy.matching import JudgingContext
from statediff.kernel.policy.relation import Change, Changes, changes
from statediff.model.batches import Row
from statediff.model.delta import Delta, Diff, Doubt
from statediff.model.explanation import Argument, Cause, Explanation, Reason, cause
from statediff.model.schema import Schema
from statediff.model.state import Coverage, Enumeration
from statediff.model.timelines import NO_TIMELINES, SourceTimeline, Timelines
from statediff.model.trace import Action, Trace
from statediff.model.values import Key, key_order
from statediff.model.view import View


class _Made(NamedTuple):
    """The call that made a commit: its id, and from when to when it was under way."""

    call: str
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True)
class CommitOrder:
    """(source, number of the transaction) → the call that made it, where its time is known."""

    made: Mapping[tuple[str, int], _Made] = field(default_factory=dict)

    def precedes(self, one: tuple[str, int], other: tuple[str, int]) -> bool:
        """True if one commit is known to have come before the other, of another source or not."""
        if one[0] == other[0]:
            return one[1] < other[1]
        first, then = self.made.get(one), self.made.get(other)
        return first is not None and then is not None and first.finished_at < then.started_at

    def call(self, commit: tuple[str, int]) -> str | None:
        """The id of the call that made the commit; None where that, or its time, is not known."""
        made = self.made.get(commit)
        return None if made is None else made.call


NO_ORDER: Final = CommitOrder()
ORDER_READS: Final = frozenset(
    Read("trace", CALL_TYPE, name) for name in ("transactions", "started_at", "finished_at")
)
"""The part of the log that a clause reads which waits for the order of two sources."""


def commit_order(trace: Trace, claims: Mapping[tuple[str, int], Claim]) -> CommitOrder:
    """The order of the commits that recorded calls made."""
    if trace.gap is not None or trace.is_agent_influenced:
        return NO_ORDER
    spans = {
        call.id: _Made(call.id, call.started_at, call.finished_at)
        for call in trace.actions
        if call.started_at is not None
        and call.finished_at is not None
        and call.started_at <= call.finished_at
    }
    made = {commit: spans.get(claim.action or "") for commit, claim in claims.items()}
    return CommitOrder({commit: span for commit, span in made.items() if span is not None})


MAX_ORDERS: Final = 512
"""States of several sources that are tried with each other; with more, their order stays open."""
MAX_CUTS: Final = 65_536
"""The most cuts of which the log may rule some out."""


@dataclass(frozen=True)
class Commit:
    """The changes of one transaction by itself, and all changes by then of what it touched."""

    own: Diff
    so_far: Diff


@dataclass(frozen=True)
class Stretch:
    """Changes between two states of one source, and the context in which they are judged."""

    where: Explanation
    """The transaction, and whether the changes are its own."""
    context: JudgingContext
    candidates: Changes
    """The changes with those that ν hides."""
    standing: Changes
    """All that the run had changed of this source by then; empty where `is_own`."""
    is_own: bool


class Cut(NamedTuple):
    """A state of several sources, each after one of its steps."""

    side: str
    view: View
    is_certain: bool
    """True if every possible order of the commits leads through it."""


@dataclass(frozen=True)
class IntermediateStates:
    """The states between the ends, as far as a history tells.

    `views` holds one view a side of the course, `before` and `after` among them, and `commits` what
    each transaction changed, by source. `after` holds the state that a call or turn left, by its
    name (`call-3`, `turn-1`), where the history can tell.
    """

    course: Timelines = NO_TIMELINES
    views: Mapping[str, View] = field(default_factory=dict)
    commits: Mapping[str, tuple[Commit, ...]] = field(default_factory=dict)
    after: Mapping[str, View] = field(default_factory=dict)
    order: CommitOrder = NO_ORDER

    def gaps(self, types: Iterable[str]) -> set[Cause]:
        """Why these types may have been otherwise in between as well."""
        found = {self.course.gap(name) for name in types}
        return {Reason.NO_HISTORY(cause=cause(gap)) for gap in found if gap is not None}

    def is_still(self, types: Iterable[str]) -> bool:
        """True if it is known that these types never changed."""
        return not any(self._moves(name) for name in types)

    def moving(self, types: Iterable[str]) -> tuple[SourceTimeline, ...]:
        """The lines with a known step that touched one of the types."""
        names = tuple(types)
        return tuple(
            line for line in self.course.lines if any(map(line.moves, line.types & set(names)))
        )

    def sides(self, types: Iterable[str]) -> tuple[str, ...]:
        """The moments at which one of the types is otherwise than one step earlier."""
        names = frozenset(types)
        return tuple(
            line.side(number)
            for line in self.moving(names)
            for number, step in enumerate(line.steps, start=1)
            if step.touched & names and line.side(number) != "after"
        )

    def alone(self) -> Mapping[str, View]:
        """Every moment as a view, by its side: what its source tells, and what never changed."""
        return WhenAsked(
            {
                line.side(number): partial(self.where, {line.source: number})
                for line in self.course.lines
                for number in range(1, len(line.steps) + 1)
                if line.side(number) != "after"
            }
        )

    def together(self, types: Iterable[str]) -> Iterator[Cut] | None:
        """Every state that a possible order of the commits leads through; None: too many to try.

        Nothing is left out only where no line has a gap.
        """
        names = frozenset(types)
        lines = self.moving(names)
        steps = [
            [0, *(n for n, s in enumerate(line.steps, start=1) if s.touched & names)]
            for line in lines
        ]
        if math.prod(map(len, steps)) > MAX_CUTS:
            return None
        following = [dict(itertools.pairwise(numbers)) for numbers in steps]

        def is_possible(at: Sequence[int]) -> bool:
            """No commit that is still to come there is known to precede one that was made."""
            places = list(zip(lines, following, at, strict=True))
            made = [(line.source, n) for line, _, n in places if n]
            ahead = [(line.source, after[n]) for line, after, n in places if n in after]
            return not any(self.order.precedes(one, other) for one in ahead for other in made)

        known = list(filter(is_possible, itertools.product(*steps)))
        if len(known) > MAX_ORDERS:
            return None
        return (
            Cut(
                ", ".join(line.side(n) for line, n in zip(lines, at, strict=True)),
                self.where({line.source: n for line, n in zip(lines, at, strict=True)}),
                all(_is_before(at, other) or _is_before(other, at) for other in known),
            )
            for at in known
        )

    def stretches(self, types: Iterable[str], context: JudgingContext) -> Iterator[Stretch]:
        """The changes of each transaction, and those by then, for the lines of the types.

        Between two known states with a gap there may have been others, so that no transaction is
        known by itself: there only what had changed by then is given.
        """
        for line in self.moving(types):
            standing: dict[Any, tuple[Change, ...]] = {}
            waiting: dict[Any, list[Doubt]] = {}
            names = line.types & set(types)
            pairs = zip(line.steps, self.commits.get(line.source, ()), strict=False)
            for number, (step, commit) in enumerate(pairs, start=1):
                place: dict[str, Argument] = {
                    "number": number,
                    "source": line.source,
                    "position": step.position or "",
                }
                sides = line.side(number - 1), line.side(number)
                own, so_far = (_all(diff) for diff in (commit.own, commit.so_far))
                for entity in {*map(_entity, own), *map(_entity, so_far)}:
                    standing.pop(entity, None)
                    waiting.pop(entity, None)
                for change in so_far:
                    standing[_entity(change)] = (*standing.get(_entity(change), ()), change)
                for doubt in commit.so_far.doubts:
                    waiting.setdefault(_entity(doubt), []).append(doubt)
                if not step.touched & names:
                    continue
                if line.gap is None:
                    there = context.between(sides, commit.own.deltas, commit.own.doubts)
                    yield Stretch(Reason.IN_TRANSACTION(**place), there, own, Changes(), True)
                doubts = tuple(d for group in waiting.values() for d in dict.fromkeys(group))
                there = context.between(("before", sides[1]), commit.so_far.deltas, doubts)
                everything = Changes(c for group in standing.values() for c in group)
                after = Reason.AFTER_TRANSACTION(**place)
                yield Stretch(after, there, so_far, everything, False)

    def named(self, ids: Collection[str]) -> tuple[Delta, ...]:
        """The changes by transactions that findings name, in the order of sources and commits."""
        told = (
            delta
            for source in sorted(self.commits)
            for commit in self.commits[source]
            for diff in (commit.own, commit.so_far)
            for delta in (*diff.deltas, *(h.delta for h in diff.hidden))
        )
        return tuple({d.id: d for d in told if d.id in ids}.values())

    def _moves(self, name: str) -> bool:
        line = self.course.line_of(name)
        return line is None or line.gap is not None or line.moves(name)

    def where(self, numbers: Mapping[str, int]) -> View:
        """The lines' states after these steps; of the others, what never changed."""
        parts: dict[str, View] = {}
        causes: dict[str, Explanation] = {
            name: Reason.NO_HISTORY(cause=cause(gap)) for name, gap in self.course.unfollowed
        }
        for line in self.course.lines:
            number = numbers.get(line.source)
            for name in line.types:
                if number is not None:
                    parts[name] = self.views[line.side_of(name, number)]
                elif line.gap is not None:
                    gap = Reason.IN(place=line.source, cause=cause(line.gap))
                    causes[name] = Reason.NO_HISTORY(cause=gap)
                elif line.moves(name):
                    others = tuple(sorted({*numbers, line.source}))
                    causes[name] = Reason.ORDER_OF(sources=others)
                else:
                    parts[name] = self.views["before"]
        return Composed(self.views["before"].schema, parts, causes)


class WhenAsked(Mapping[str, View]):
    """Views by name, each put together when it is first asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], View]]) -> None:
        self._makers = makers
        self._made: dict[str, View] = {}

    def __getitem__(self, name: str) -> View:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers


class Composed:
    """A state put together type by type; what no view shows is unobserved, with the cause."""

    def __init__(
        self, schema: Schema, parts: Mapping[str, View], causes: Mapping[str, Explanation]
    ) -> None:
        self._schema = schema
        self._parts = parts
        self._causes = causes

    @property
    def schema(self) -> Schema:
        return self._schema

    def enumeration(self, type_name: str) -> Enumeration:
        part = self._parts.get(type_name)
        if part is None:
            why = self._causes.get(type_name, Reason.NOBODY_TELLS())
            return Enumeration(Coverage.UNOBSERVED, explanation=why)
        return part.enumeration(type_name)

    def row(self, type_name: str, key: Key) -> Row | None:
        part = self._parts.get(type_name)
        return None if part is None else part.row(type_name, key)

    def rows(self, type_name: str, fields: tuple[str, ...]) -> Iterator[tuple[Key, Row]]:
        part = self._parts.get(type_name)
        return iter(()) if part is None else part.rows(type_name, fields)


def unseen(schema: Schema, why: Explanation) -> Composed:
    """A state that nobody read: of every type it is unknown what there was."""
    return Composed(schema, {}, dict.fromkeys(schema.by_name, why))


def _is_before(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def _entity(place: Change | Doubt) -> Any:
    return place.type, None if place.key is None else key_order(place.key)


def _all(diff: Diff) -> Changes:
    """The changes with those that ν hides: it may not hide what Γ matches."""
    return changes((*diff.deltas, *(h.delta for h in diff.hidden if not h.by_boundary)))


Claims = Mapping[tuple[str, int], Claim]


def with_states_after_calls(
    moments: IntermediateStates, trace: Trace, claims: Claims
) -> IntermediateStates:
    """The moments with the states that calls and turns left, and with the order of commits."""
    return replace(
        moments, after=states_left(trace, moments, claims), order=commit_order(trace, claims)
    )


def states_left(trace: Trace, moments: IntermediateStates, claims: Claims) -> WhenAsked:
    """`call-3` or `turn-1` → the state it left, as far as that is known."""
    found: dict[str, Callable[[], View]] = {}
    turns = trace.turns or ()
    places = None if not claims or trace.is_agent_influenced else _places(trace.actions)
    if places is not None:
        places |= {f"turn-{n}": turn.calls_before - 1 for n, turn in enumerate(turns) if n}
        at = {action.id: position for position, action in enumerate(trace.actions)}
        lines = [_Line(line, claims, at) for line in moments.course.lines if not line.gap]
        found |= {name: partial(_state_after, moments, lines, end) for name, end in places.items()}
    steps = {line.source: len(line.steps) for line in moments.course.lines}
    for number, turn in enumerate(turns, start=1):
        if turn.gate is not None:
            seen = {source: n for source, n in turn.left if n <= steps.get(source, -1)}
            found[f"turn-{number}"] = partial(moments.where, seen)
    return WhenAsked(found)


def _state_after(moments: IntermediateStates, lines: Iterable[_Line], end: int) -> View:
    """The state once the calls up to there had ended, and no other had begun."""
    return moments.where({x.source: n for x in lines if (n := x.after(end)) is not None})


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
