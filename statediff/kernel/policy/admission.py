"""Which readings may be used: freshness, settling, influence. Ages come from the trial's clock.

An inadmissible reading makes the values of its source unobserved on that side, no matter who else
supplies them (docs/design.md §3, Contradiction and Freshness).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from statediff.contract.binding.bound import EvidenceRule
from statediff.model.readings import TRIAL_CLOCK, Reading, Timeline

_NO_RULE = EvidenceRule("", None, (), False, False)


@dataclass(frozen=True)
class Refusal:
    """A source whose reading may not be used: `cause` begins with a stable word and a colon."""

    source: str
    side: str
    cause: str


def admit(
    before: Iterable[Reading],
    after: Iterable[Reading],
    timeline: Timeline | None,
    rules: Iterable[EvidenceRule],
    sources: Iterable[str] = (),
) -> tuple[Refusal, ...]:
    """Every reading that is not admissible, sorted. No timeline: judged offline, no ages known.

    Where no rule names a source, every source of the sandbox must report: `sources`, and whatever
    was read on either side.
    """
    by_source = {rule.source: rule for rule in rules}
    first = {reading.source: reading for reading in before}
    last = {reading.source: reading for reading in after}
    expected = by_source.keys() or {*first, *last, *sources}
    refusals: list[Refusal] = []
    for side, present in (("before", first), ("after", last)):
        for source in sorted(expected - present.keys()):
            missing = "missing: it must report, but nothing was read from it"
            refusals.append(Refusal(source, side, missing))
        for source, reading in sorted(present.items()):
            rule = by_source.get(source, _NO_RULE)
            cause = _refuse(reading, rule, side, timeline)
            if cause is not None:
                refusals.append(Refusal(source, side, cause))
    return tuple(refusals)


def _refuse(
    reading: Reading, rule: EvidenceRule, side: str, timeline: Timeline | None
) -> str | None:
    if not reading.was_read:
        return f"unread: {reading.source} not read: {reading.cause or 'no reason was given'}"
    if reading.is_agent_influenced:
        return "forgeable: the agent could have made this reading itself"
    if reading.acknowledgement and not rule.acknowledgement_suffices:
        return "acknowledgement: a system's word about an effect is not a look at its state"
    if timeline is None:
        if rule.max_age_seconds is not None:
            return "stale: its age is unknown, no timeline of the trial was given"
        return None
    if reading.clock != TRIAL_CLOCK:
        return f"stale: its age is unknown, it was read by another clock ({reading.clock})"
    disorder = _disorder(timeline)
    if disorder is not None:
        return disorder
    return (_before if side == "before" else _after)(reading, rule, timeline)


def _disorder(timeline: Timeline) -> str | None:
    steps = (
        timeline.reset_verified_at,
        timeline.agent_started_at,
        timeline.first_action_at,
        timeline.agent_finished_at,
        timeline.settled_at,
    )
    known = [step for step in steps if step is not None]
    if any(earlier > later for earlier, later in itertools.pairwise(known)):
        return "stale: the trial's clock went backwards"
    return None


def _before(reading: Reading, rule: EvidenceRule, timeline: Timeline) -> str | None:
    end = timeline.first_action_at or timeline.agent_started_at
    if timeline.reset_verified_at is None or end is None:
        return "stale: the time of the reset or of the agent's start was not recorded"
    if reading.as_of < timeline.reset_verified_at:
        return "stale: read before the reset was verified"
    if reading.as_of > end:
        return "stale: read after the agent began to act"
    return _too_old(reading.as_of, timeline.agent_started_at or end, rule)


def _after(reading: Reading, rule: EvidenceRule, timeline: Timeline) -> str | None:
    for source, cause in timeline.unsettled:
        if source == reading.source:
            return f"unsettled: {cause}"
    if timeline.settled_at is None:
        return "unsettled: the end of settling was not recorded"
    if reading.as_of < timeline.settled_at:
        return "stale: read before the systems had settled"
    return _too_old(timeline.settled_at, reading.as_of, rule)


def _too_old(start: datetime, end: datetime, rule: EvidenceRule) -> str | None:
    if rule.max_age_seconds is None:
        return None
    age = Fraction((end - start) // timedelta(microseconds=1), 1_000_000)
    if age > Fraction(rule.max_age_seconds):
        return f"stale: {float(age):.3f} s old, at most {rule.max_age_seconds} s are allowed"
    return None
