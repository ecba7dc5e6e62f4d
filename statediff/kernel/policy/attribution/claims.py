"""Which call made which transaction of a history.

A call's mark that names a transaction decides. A mark without a name says only that the call wrote
to the source: then time may tell, if the log is complete, the transaction's instant is known, and
one call alone could have made it at that instant. Whatever leaves two calls is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from statediff.model.explanation import Cause, Reason, cause
from statediff.model.timelines import SourceTimeline, Step, Timelines
from statediff.model.trace import Action, ActionClass, Trace

_SHOWN: Final = 3


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
    more = max(0, len(names) - _SHOWN)
    return Claim(None, several(calls=tuple(names[:_SHOWN]), more=more))
