"""Who made a change: the calls of the run that made the transactions which made it.

Two ways lead from a change to a call, and neither guesses:

* **Transactions.** The history says which transactions changed a place, and the log says which call
  made which transaction. So a change is a call's even where the log lacks other calls. A history
  with a gap attributes nothing of its source.
* **Recorded effects.** Where every call of a complete log says itself what it changed.

A call's mark that names a transaction decides. A mark without a name says only that the call wrote
to the source: then time may tell, if the log is complete, the transaction's instant is known, and
one call alone could have made it at that instant. Whatever leaves two calls is nobody's.

A change was left by the call that made the last transaction to make it so. It is *by* a principal
only if all that touched it on the way were calls of that principal. A log that the agent could have
written attributes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from statediff.contract.language.context import FALSE, TRUE
from statediff.contract.language.syntax import CALL_TYPE, Read
from statediff.model.delta import Delta, Diff, Op, delta_id
from statediff.model.explanation import Argument, Cause, Reason, cause, causes
from statediff.model.timelines import SourceTimeline, Step, Timelines
from statediff.model.trace import Action, ActionClass, Trace

_CALLS_SHOWN: Final = 3


@dataclass(frozen=True)
class Claim:
    """The call that made a transaction, or None and why that is not certain."""

    action: str | None
    cause: Cause = ""


def claims(trace: Trace, timelines: Timelines) -> Mapping[tuple[str, int], Claim]:
    """(source, number of its transaction) → the call that made it; others have no entry.

    Of calls that were made within each other and name one transaction, the innermost made it.
    """
    actions = {action.id: action for action in trace.told}
    named: dict[tuple[str, str], list[str]] = {}
    vague: dict[str, list[Action]] = {}
    for action in trace.told:
        for mark in action.transactions or ():
            if mark.name is None:
                vague.setdefault(mark.source, []).append(action)
            else:
                named.setdefault((mark.source, mark.name), []).append(action.id)
    silent = [
        a for a in trace.told if a.transactions is None and a.action_class is not ActionClass.READ
    ]
    found: dict[tuple[str, int], Claim] = {}
    for line in timelines.lines:
        shared = _shared(line)
        for number, step in enumerate(line.steps, start=1):
            names = [n for n in _names(step) if n not in shared]
            who = {call for name in names for call in named.get((line.source, name), ())}
            possible = vague.get(line.source, ())
            if who:
                found[line.source, number] = _one(_innermost(who, actions), Reason.SEVERAL_NAME_IT)
            elif possible:
                claim = _by_time(step, possible, silent, trace.gap)
                found[line.source, number] = claim
    return found


def _names(step: Step) -> tuple[str, ...]:
    return (step.transaction, step.position, *step.names)


def _shared(timeline: SourceTimeline) -> frozenset[str]:
    """Names that two transactions of one source have: they tell neither."""
    seen: set[str] = set()
    shared: set[str] = set()
    for step in timeline.steps:
        names = set(_names(step))
        shared |= names & seen
        seen |= names
    return frozenset(shared)


def _innermost(who: set[str], actions: Mapping[str, Action]) -> set[str]:
    """Without those within which another of them was made."""
    outer: set[str] = set()
    for call in who:
        seen = {call}
        parent = actions[call].parent
        while parent is not None and parent not in seen and parent in actions:
            outer.add(parent)
            seen.add(parent)
            parent = actions[parent].parent
    return who - outer or who


def _by_time(
    step: Step, possible: Iterable[Action], silent: Iterable[Action], gap: str | None
) -> Claim:
    if gap is not None:
        return Claim(None, Reason.CALLS_MISSING(cause=cause(gap)))
    if step.committed_at is None:
        return Claim(None, Reason.INSTANT_UNKNOWN())
    first, last = step.committed_at, step.committed_at + _resolution(step.committed_at)
    who = {a.id for a in possible if _could(a, first, last)}
    # A call of which nobody recorded what it wrote may have left work behind that came later.
    who |= {a.id for a in silent if a.started_at is None or a.started_at <= last}
    return _one(who, Reason.SEVERAL_AT_WORK) if who else Claim(None, Reason.NO_CALL_AT_WORK())


def _could(action: Action, first: datetime, last: datetime) -> bool:
    is_late = action.started_at is not None and action.started_at > last
    is_early = action.finished_at is not None and action.finished_at < first
    return not is_late and not is_early


def _resolution(instant: datetime) -> timedelta:
    """How much later it may have been: clocks that tell whole seconds, or milliseconds, cut."""
    if instant.microsecond == 0:
        return timedelta(seconds=1)
    return timedelta(milliseconds=1) if instant.microsecond % 1000 == 0 else timedelta(0)


def _one(who: set[str], several: Reason) -> Claim:
    if len(who) == 1:
        return Claim(next(iter(who)))
    names = sorted(who)
    more = max(0, len(names) - _CALLS_SHOWN)
    return Claim(None, several(calls=tuple(names[:_CALLS_SHOWN]), more=more))


_SHOWN: Final = 2
"""How many causes an explanation names."""
UNATTRIBUTED: Final = Reason.UNATTRIBUTED()
READS: Final = frozenset(
    {Read("trace", CALL_TYPE, "effects"), Read("trace", CALL_TYPE, "principal")}
)
"""The part of the log that a clause with `by` reads."""
MARKED_READS: Final = READS | {Read("trace", CALL_TYPE, "transactions")}
"""The same, where the log says which transactions calls made."""


@dataclass(frozen=True)
class Touch:
    """One transaction that changed a place."""

    source: str
    number: int
    op: Op


@dataclass(frozen=True)
class Attribution:
    """Who touched what, as far as the log and the history tell."""

    touched: Mapping[str, frozenset[str | None]] | None = None
    """By recorded effects: the id of a delta → the principals of the calls that touched it; None
    where not every call says."""
    touches: Mapping[str, tuple[Touch, ...]] = field(default_factory=dict)
    """By transactions: the id of a delta → the transactions that changed the place, in order."""
    claims: Mapping[tuple[str, int], Claim] = field(default_factory=dict)
    principals: Mapping[str, str | None] = field(default_factory=dict)
    """The id of a call → who made it."""
    causes: Mapping[str, Cause] = field(default_factory=dict)
    """Type → why its transactions attribute nothing."""

    def by(self, delta: Delta, principal: str) -> tuple[int, Cause]:
        """The outcomes of "the principal made the change": TRUE, FALSE, or both with the reason."""
        place = delta_id(delta.type, delta.key, delta.path)
        if self.touched is None:
            touches = self._touches(delta)
            if not touches:
                return TRUE | FALSE, self.causes.get(delta.type, UNATTRIBUTED)
            claimed = [self._claim(touch) for touch in touches]
            who = frozenset(
                None if claim.action is None else self.principals.get(claim.action)
                for claim in claimed
            )
            found = causes({claim.cause for claim in claimed if claim.cause})
        else:
            whole = self.touched.get(delta_id(delta.type, delta.key, ""), frozenset())
            who = self.touched.get(place, frozenset()) | whole
            found = ()
        if who == {principal}:
            return TRUE, ""
        if who and None not in who and principal not in who:
            return FALSE, ""
        if not who:
            return TRUE | FALSE, Reason.NOBODY_CHANGED(place=place)
        known: list[Argument] = [*sorted(name for name in who if name)]
        somebody = [] if len(known) == len(who) else [Reason.SOMEBODY()]
        return TRUE | FALSE, Reason.CHANGED_BY(
            place=place, principals=(*known, *somebody), because=found[:_SHOWN]
        )

    def with_makers(self, diff: Diff) -> Diff:
        """The diff whose deltas name the call that left them, where that is certain."""
        return replace(diff, deltas=self.named(diff.deltas)) if self.claims else diff

    def named(self, deltas: tuple[Delta, ...]) -> tuple[Delta, ...]:
        """The deltas with the calls that left them."""
        if not self.claims:
            return deltas
        return tuple(replace(delta, action=self.maker(delta)) for delta in deltas)

    def _claim(self, touch: Touch) -> Claim:
        why = Reason.NO_CALL_MADE(number=touch.number, source=touch.source)
        return self.claims.get((touch.source, touch.number), Claim(None, why))

    def maker(self, delta: Delta) -> str | None:
        """The call that made the transaction that left the change; None where that is open."""
        places = self._places(delta)
        # What came into being, or went, was made so by the last transaction to do that: others may
        # have changed a new entity since, and they are named beside it.
        asked = [(place, None if delta.path else delta.op) for place in places]
        for group in (asked, [(place, None) for place in places]):
            known = (self._by_operation.get(each, ()) for each in group)
            last = [found[-1] for touches in known if (found := _within(touches, delta))]
            if last:
                return self._claim(max(last, key=_order)).action
        return None

    @cached_property
    def _by_operation(self) -> Mapping[tuple[str, Op | None], Sequence[Touch]]:
        """Place and operation → the transactions that did that, in order; None: all of them."""
        found: dict[tuple[str, Op | None], list[Touch]] = {}
        for place, touches in self.touches.items():
            for touch in touches:
                found.setdefault((place, touch.op), []).append(touch)
                found.setdefault((place, None), []).append(touch)
        return found

    def _touches(self, delta: Delta) -> tuple[Touch, ...]:
        """The transactions that changed the place; of a transaction's own delta, only it."""
        found = {
            touch: None
            for place in self._places(delta)
            for touch in _within(self.touches.get(place, ()), delta)
        }
        return tuple(sorted(found, key=_order))

    def _places(self, delta: Delta) -> tuple[str, str]:
        whole = delta_id(delta.type, delta.key, "")
        if delta.path:
            return whole, delta_id(delta.type, delta.key, delta.path)
        return whole, f"{whole}.*"


def _order(touch: Touch) -> tuple[str, int]:
    return touch.source, touch.number


def _within(touches: Sequence[Touch], delta: Delta) -> Sequence[Touch]:
    """Those, in order, that are of the transactions that the delta is of."""
    if delta.transaction is None:
        return touches
    source, _, number = delta.transaction.rpartition(" ")
    upto = source.removesuffix(" up to")
    last = upto, int(number)
    first = (upto, 0) if upto != source else last
    start = bisect_left(touches, first, key=_order)
    return touches[start : bisect_right(touches, last, key=_order)]


NOBODY: Final = Attribution()


def is_marked(trace: Trace) -> bool:
    """True if the log says of some call which transactions it made, and may be believed."""
    return any(action.transactions is not None for action in trace.told)


Own = Mapping[str, tuple[Diff, ...]]
"""Source → what each of its transactions changed by itself."""


def attribution(trace: Trace, timelines: Timelines, own: Own) -> Attribution:
    """Who changed what, as far as the log and the history say."""
    if trace.gap is None and all(action.effects is not None for action in trace.actions):
        touched: dict[str, frozenset[str | None]] = {}
        for action in trace.actions:
            for effect in action.effects or ():
                touched[effect] = touched.get(effect, frozenset()) | {action.principal}
        return replace(_by_transactions(trace, timelines, own), touched=touched)
    return _by_transactions(trace, timelines, own)


def _by_transactions(trace: Trace, timelines: Timelines, own: Own) -> Attribution:
    if not is_marked(trace):
        return NOBODY
    why: dict[str, Cause] = {
        name: Reason.NOT_FOLLOWED(cause=cause(gap)) for name, gap in timelines.unfollowed
    }
    touches: dict[str, list[Touch]] = {}
    for line in timelines.lines:
        if line.gap is not None:
            gap = Reason.HISTORY_GAP(source=line.source, cause=cause(line.gap))
            why |= dict.fromkeys(line.types, gap)
            continue
        for name in line.types:
            why[name] = Reason.NO_TRANSACTION(source=line.source)
        for place, touch in _touches_of(line.source, own.get(line.source, ())):
            touches.setdefault(place, []).append(touch)
    return Attribution(
        None,
        {place: tuple(sorted(found, key=_order)) for place, found in touches.items()},
        claims(trace, timelines),
        {action.id: action.principal for action in trace.told},
        why,
    )


def _touches_of(source: str, own: Iterable[Diff]) -> Iterable[tuple[str, Touch]]:
    for number, diff in enumerate(own, start=1):
        # Of a field that changed in several places there are several deltas, and one touch.
        deltas = (*diff.deltas, *(h.delta for h in diff.hidden))
        for delta in {(delta_id(d.type, d.key, d.path), d.op): d for d in deltas}.values():
            touch = Touch(source, number, delta.op)
            yield delta_id(delta.type, delta.key, delta.path), touch
            if delta.path:
                yield f"{delta_id(delta.type, delta.key, '')}.*", touch
