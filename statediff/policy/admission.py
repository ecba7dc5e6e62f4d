"""Which readings may be used: freshness, settling, influence. Ages come from the trial's clock.

An inadmissible reading makes the values of its source unobserved on that side, whoever else
supplies them (DESIGN.md §3, Contradiction and Freshness).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from statediff.contract.bound import EvidenceRule
from statediff.model.readings import Capture, Reading, Timeline

_NO_RULE = EvidenceRule("", None, (), False, False)


@dataclass(frozen=True)
class Refusal:
    """A source whose reading may not be used: `cause` begins with a stable word and a colon."""

    source: str
    side: str
    cause: str


def admit(
    before: Capture, after: Capture, timeline: Timeline | None, rules: Iterable[EvidenceRule]
) -> tuple[Refusal, ...]:
    """Every reading that is not admissible, sorted. No timeline: judged offline, no ages known."""
    by_source = {rule.source: rule for rule in rules}
    refusals: list[Refusal] = []
    for side, capture in (("before", before), ("after", after)):
        present = {reading.source: reading for reading in capture.readings}
        for source in sorted(set(by_source) - set(present)):
            refusals.append(Refusal(source, side, "missing: the contract names it as evidence, "
                                                  "but nothing was read from it"))
        for source, reading in sorted(present.items()):
            rule = by_source.get(source, _NO_RULE)
            cause = _refuse(reading, rule, side, timeline)
            if cause is not None:
                refusals.append(Refusal(source, side, cause))
    return tuple(refusals)


def _refuse(
    reading: Reading, rule: EvidenceRule, side: str, timeline: Timeline | None
) -> str | None:
    if reading.digest is None:
        return f"unread: {reading.cause or 'no reason was given'}"
    if reading.is_agent_influenced:
        return "forgeable: the agent could have made this reading itself"
    if reading.acknowledgement and not rule.acknowledgement_suffices:
        return "acknowledgement: a system's word about an effect is not a look at its state"
    if timeline is None:
        if rule.max_age_seconds is not None:
            return "stale: its age is unknown, no timeline of the trial was given"
        return None
    disorder = _disorder(timeline)
    if disorder is not None:
        return disorder
    return (_before if side == "before" else _after)(reading, rule, timeline)


def _disorder(timeline: Timeline) -> str | None:
    steps = [t for t in (timeline.reset_verified_at, timeline.agent_started_at,
                         timeline.agent_finished_at, timeline.settled_at) if t is not None]
    if any(a > b for a, b in zip(steps, steps[1:], strict=False)):
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
