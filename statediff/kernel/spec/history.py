"""The run between its ends: what each transaction changed, and what had changed by then.

What a history and a log tell is given as relations that other stages find: the states by their
sides, what each transaction changed, who made a change, which commit came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.kernel.spec.changes import (
    COME,
    GONE,
    HOLDS,
    ROOTS,
    UNKNOWN,
    Case,
    Change,
    Decided,
    changes_of,
    fails,
    matches,
)
from statediff.kernel.spec.clauses import (
    Vote,
    decide_condition,
    decide_count,
    decide_forbid,
    decide_frame,
    decide_require,
    moved_alike,
    then_of,
)
from statediff.kernel.spec.expressions import value
from statediff.kernel.spec.values import FALSE, NO_VALUE, OPEN, TRUE, Crowd, Some, State, likeness
from statediff.model.codes import FindingCode, Stage, Truth
from statediff.model.delta import Delta, Diff, Doubt, Entity, Op, delta_id
from statediff.model.explanation import BY_AGENT, BY_RUN, PARTED
from statediff.model.schema import COUNT, COUNTERS
from statediff.model.timelines import SourceTimeline, Timelines
from statediff.model.trace import Trace
from statediff.model.values import ABSENT, Key, key_order, same

Commit: TypeAlias = tuple[str, int]
"""A source and the number of its transaction, from 1."""


class Changed(NamedTuple):
    """A transaction's own changes, and all changes by then of what it touched."""

    own: Diff
    so_far: Diff


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run: the case at its ends, and what is known of the time between."""

    contract: Contract
    case: Case
    """Its world has the moments of the run beside the ends, each by the name of its side."""
    hidden: tuple[Delta, ...]
    missing: int
    """How many readings that must be there are not."""
    trace: Trace
    timelines: Timelines
    sides: Mapping[str, State]
    """The states of the timelines, by the name of their side."""
    commits: Mapping[str, tuple[Changed, ...]]
    left: Mapping[str, State]
    """The states that calls and turns left, by their names, as far as that is known."""
    precedes: Callable[[Commit, Commit], bool]
    maker: Callable[[Delta], str | None]
    """The call that left the change; None where that is not certain."""

    def gaps(self, types: Iterable[str]) -> set[str]:
        """The reasons why these types may have been otherwise in between as well."""
        return {gap for gap in map(self.timelines.gap, types) if gap is not None}

    def moving(self, types: Iterable[str]) -> list[SourceTimeline]:
        """The lines with a known step that touched one of the types."""
        names = set(types)
        return [x for x in self.timelines.lines if any(map(x.moves, x.types & names))]

    def moments(self, types: Iterable[str]) -> list[str]:
        """The sides at which one of the types is otherwise than one step earlier, but the last."""
        names = frozenset(types)
        steps = ((x, n, s) for x in self.moving(names) for n, s in enumerate(x.steps, start=1))
        return [x.side(n) for x, n, s in steps if s.touched & names and x.side(n) != "after"]


def state_at(timelines: Timelines, sides: Mapping[str, State], numbers: Mapping[str, int]) -> State:
    """The sources' states after these of their steps; of the others, what never changed."""
    found = {}
    for line in timelines.lines:
        number = numbers.get(line.source)
        for name in line.types:
            is_still = line.gap is None and not line.moves(name)
            side = line.side_of(name, number) if number is not None else "before"
            if (number is not None or is_still) and name in sides[side]:
                found[name] = sides[side][name]
    return found


# ---------------------------------------------------------------- history


def over_the_run(at_ends: Decided, within: Iterable[Decided], is_open: bool) -> Decided:
    """FAILS where any does; HOLDS only where all do, over a complete history."""
    found = [at_ends, *within]
    wrong = [each for each in found if each.truth is Truth.FAILS]
    if wrong:
        return wrong[0]
    return UNKNOWN if is_open or any(each.truth is Truth.UNKNOWN for each in found) else at_ends


class Stretch(NamedTuple):
    """Changes between two states of one source; `standing` is all that had changed by then."""

    case: Case
    candidates: tuple[Change, ...]
    standing: tuple[Change, ...]
    is_own: bool


def _place(of: Change | Doubt) -> Any:
    return of.type, None if of.key is None else key_order(of.key)


def _visible_changes(diff: Diff) -> tuple[Change, ...]:
    """The changes with those that ν hides: it may not hide what Γ matches."""
    return changes_of((*diff.deltas, *(h.delta for h in diff.hidden if not h.by_boundary)))


def stretches(run: Run, types: Iterable[str]) -> Iterator[Stretch]:
    """The changes of each transaction by itself, and those of the run by then."""
    names = set(types)
    for line in run.moving(names):
        standing: dict[Any, tuple[Change, ...]] = {}
        doubted: dict[Any, tuple[Doubt, ...]] = {}
        commits = run.commits.get(line.source, ())
        for number, (step, commit) in enumerate(zip(line.steps, commits, strict=False), start=1):
            own, so_far = _visible_changes(commit.own), _visible_changes(commit.so_far)
            for place in map(_place, (*own, *so_far)):
                standing.pop(place, None)
                doubted.pop(place, None)
            for change in so_far:
                standing[_place(change)] = (*standing.get(_place(change), ()), change)
            for doubt in commit.so_far.doubts:
                doubted[_place(doubt)] = (*doubted.get(_place(doubt), ()), doubt)
            if not step.touched & line.types & names:
                continue
            ends = line.side(number - 1), line.side(number)
            if line.gap is None:  # else there may have been others between these two states
                case = _between(run, ends, commit.own.deltas, commit.own.doubts)
                yield Stretch(case, own, (), is_own=True)
            doubts = tuple(each for group in doubted.values() for each in dict.fromkeys(group))
            case = _between(run, ("before", ends[1]), commit.so_far.deltas, doubts)
            everything = tuple(each for group in standing.values() for each in group)
            yield Stretch(case, so_far, everything, is_own=False)


def _between(
    run: Run, ends: tuple[str, str], deltas: Iterable[Delta], doubts: tuple[Doubt, ...]
) -> Case:
    return replace(run.case, ends=ends, changes=changes_of(deltas), doubts=doubts)


def as_of(case: Case, side: str) -> Case:
    """The run as if it had ended there; what it had changed by then is not known."""
    if side == "after":
        return case
    world, nobody = case.world, Crowd(is_open=True)
    states = {**world.states, "after": world.states[side]}
    unknown = {(root, name): nobody for root in ROOTS for name in case.schema.by_name}
    return replace(case, world=replace(world, states=states, changed=unknown))


def decide(clause: Pattern | Condition, run: Run) -> Decided:
    """A clause of Γ, Φ or the answer, at the ends and, where it says so, all along the run."""
    if isinstance(clause, Condition):
        return _decide_condition(clause, run)
    if clause.section is Stage.FORBID:
        return _decide_forbid(clause, run)
    at_ends = decide_require(clause, run.case)
    if not clause.during_run:
        return at_ends
    is_open = bool(run.gaps(clause.types))
    if clause.high is None or clause.is_every:
        return over_the_run(at_ends, (), is_open)
    upper = replace(clause, low=0)
    parts = (part for part in stretches(run, clause.types) if not part.is_own)
    within = [decide_count(upper, matches(upper, s.case, s.standing), s.case) for s in parts]
    return over_the_run(at_ends, within, is_open or len(run.moving(clause.types)) > 1)


def _decide_condition(clause: Condition, run: Run) -> Decided:
    at_ends = decide_condition(clause, run.case)
    if not clause.during_run:
        return at_ends
    types = {read.type for read in clause.reads if read.root == "after"}
    within = [decide_condition(clause, as_of(run.case, side)) for side in run.moments(types)]
    return over_the_run(at_ends, within, bool(run.gaps(types)) or len(run.moving(types)) > 1)


def _decide_forbid(clause: Pattern, run: Run) -> Decided:
    """No transaction by itself may bring it about, and none of the states that they left."""
    at_ends = decide_forbid(clause, run.case, run.case.everything)
    if not clause.during_run:
        return at_ends
    counts = clause.low > 1 or (any(clause.that.values()) and not clause.speaks_of_each)
    within = [
        decide_forbid(clause, s.case, s.standing if counts and s.standing else s.candidates)
        for s in stretches(run, clause.types)
    ]
    is_unordered = counts and len(run.moving(clause.types)) > 1
    return over_the_run(at_ends, within, bool(run.gaps(clause.types)) or is_unordered)


# ---------------------------------------------------------------- the frame along the run


def counter_votes(case: Case, further: Iterable[Delta] = ()) -> Iterator[Vote]:
    """A counter of inserts is what it was, raised to the highest key that came."""
    counted_by: dict[Key, str] = {
        (t.counter,): t.name for t in case.schema.types if t.counter is not None
    }
    net = [d for change in case.changes for d in change.deltas]
    known = [*net, *further]
    for delta in net:
        name = counted_by.get(delta.key) if delta.type == COUNTERS else None
        ends = _ends(delta)
        if name is None or ends is None:
            continue
        keys = [d.key for d in known if d.type == name and d.op in COME]
        doubts = [d for d in case.doubts if d.type == name and d.path is None]
        unseen = any(doubt.key in (None, (ends[1],)) for doubt in doubts)
        possible = [keys, [*keys, (ends[1],)]] if unseen else [keys]
        if any(_is_highest(ends, each) for each in possible):
            yield Vote(delta, OPEN if doubts else TRUE)


def _ends(delta: Delta) -> tuple[int, int] | None:
    before: object = 0
    after: object = ABSENT
    if delta.op is Op.UPDATE and delta.path == COUNT and not delta.steps:
        before, after = delta.before, delta.after
    elif delta.op is Op.CREATE and isinstance(delta.after, Entity):
        after = delta.after.as_row().get(COUNT, ABSENT)
    return (before, after) if type(before) is int and type(after) is int else None


def _is_highest(ends: tuple[int, int], keys: Sequence[Key]) -> bool:
    numbers = [key[0] for key in keys if len(key) == 1 and type(key[0]) is int]
    singles = [key for key in keys if len(key) == 1]
    return bool(numbers) and len(numbers) == len(singles) and ends[1] == max(ends[0], *numbers)


def frame_within(
    run: Run, patterns: Sequence[Pattern], net: Mapping[str, Delta]
) -> Iterator[Decided]:
    """The frame over the transactions of the sources whose history is required.

    `net` are the explained deltas by their ids: what leaves what the net change leaves is explained
    with it, and so is a derived field that shows what it is at some moment.
    """
    for rule in (rule for rule in run.contract.evidence if rule.needs_history):
        types = dict(run.contract.schema.sources).get(rule.source) or ("",)
        gaps = run.gaps(types)
        if any({BY_AGENT, BY_RUN, PARTED} & {*gap.split(": ")} for gap in gaps):
            yield fails(FindingCode.HISTORY_BROKEN)  # the run kept it from being seen
        found: list[Decided] = []
        for part in stretches(run, types) if not run.contract.frame_is_open else ():
            if part.is_own:
                more = [*_votes_within(run, part.case, net), *counter_votes(part.case)]
                found += decide_frame(patterns, part.case, more)
        wrong = [each for each in found if each.truth is Truth.FAILS]
        yield from wrong or [over_the_run(HOLDS, found, bool(gaps))]


def _votes_within(run: Run, case: Case, net: Mapping[str, Delta]) -> Iterator[Vote]:
    for delta in (each for change in case.changes for each in change.deltas):
        for rule in run.contract.derived if delta.op is Op.UPDATE else ():
            if rule.keeps(delta) and _may_show(run, rule, delta.key, case.ends[1]):
                yield Vote(delta, TRUE)
        place = net.get(delta_id(delta.type, delta.key, delta.place))
        if place is not None and delta.op is place.op:
            is_whole = isinstance(delta.after, Entity) or isinstance(place.after, Entity)
            is_left = delta.after == place.after if is_whole else same(delta.after, place.after)  # type: ignore[arg-type]
            yield Vote(delta, TRUE if is_left else FALSE)
        whole = net.get(delta_id(delta.type, delta.key, ""))
        # What is deleted in the end may have been deleted softly first, and then purged.
        if whole is not None and whole.op in GONE and delta.after is ABSENT:
            yield Vote(delta, TRUE)


def _may_show(run: Run, rule: Derived, key: Key, side: str) -> bool:
    """The derived field may show there what the system keeps, at that moment or at another one."""
    moments = run.moments({rule.type, *(read.type for read in rule.reads)})
    now = as_of(run.case, side)
    thing = now.thing(1, rule.type, key)
    shown = value(rule.after.left, now.world, {"it": thing})
    for each in (side, *moments, "after"):
        there = as_of(run.case, each)
        found = value(rule.after.right, there.world, {"it": there.thing(1, rule.type, key)})
        if isinstance(shown, Some) or isinstance(found, Some):
            return True
        if found is not NO_VALUE and likeness(shown) == likeness(found):
            return True
        then = then_of(rule.type, key, there)
        if then is not None:
            sides = (rule.before.left, rule.before.right)
            old = [value(node, there.world, {"it": then}) for node in sides]
            if moved_alike((old[0], shown), (old[1], found)) != FALSE:
                return True
    return False
