"""Causal links and silences of an event log, found by join and window [GE §5.2, §5.3].

An effect is linked to a cause only if they share every joined fact and the effect lies within the
window after it: nearness in time alone links nothing. Events are bucketed by their joined facts, so
the cost is that of the events and the pairs found, also where no join hits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from statediff.reads.config import CausalLink, Selector, SilencePair
from statediff.reads.instants import duration
from statediff.reads.log import Artifact, Corpus, Event, Fact

Joined = tuple[tuple[type, Fact], ...]


@dataclass(frozen=True)
class Link:
    """One cause and one effect that a causal link of the configuration joins."""

    spec: CausalLink
    cause: Event
    effect: Event


@dataclass(frozen=True)
class Silence:
    """A trigger with its response, or verified to have none, and where one must have looked."""

    spec: SilencePair
    trigger: Event
    response: Event | None
    space: tuple[str, ...]
    """The ids of the artifacts to cover before absence may be claimed, sorted."""


def links_of(corpus: Corpus, specs: Iterable[CausalLink]) -> tuple[Link, ...]:
    """All links, by specification, then effect; each effect with its latest joined cause."""
    return tuple(link for spec in specs for link in _links(corpus, spec))


def silences_of(corpus: Corpus, specs: Iterable[SilencePair]) -> tuple[Silence, ...]:
    """Every trigger of every pair, in order, with the first joined response in its window."""
    return tuple(silence for spec in specs for silence in _silences(corpus, spec))


def joined(event: Event, names: tuple[str, ...]) -> Joined | None:
    """The event's facts of these names; None if it lacks one, and then it joins with nothing."""
    found = [event.facts.get(name) for name in names]
    # With its type: `True == 1` in Python, and is not the same fact.
    return tuple((type(f), f) for f in found if f is not None) if None not in found else None


def _buckets(events: Iterable[Event], names: tuple[str, ...]) -> Mapping[Joined, list[Event]]:
    buckets: dict[Joined, list[Event]] = {}
    for event in events:
        key = joined(event, names)
        if key is not None:
            buckets.setdefault(key, []).append(event)
    return buckets


def _links(corpus: Corpus, spec: CausalLink) -> Iterator[Link]:
    buckets = _buckets(corpus.by_type.get(spec.cause, ()), spec.join)
    gap = duration(spec.max_gap)
    times = {key: [event.at for event in events] for key, events in buckets.items()}
    for effect in corpus.by_type.get(spec.effect, ()):
        key = joined(effect, spec.join)
        if key is None or key not in buckets:
            continue
        # A cause at the very instant of its effect does not precede it.
        last = bisect_left(times[key], effect.at) - 1
        if last >= 0 and effect.at - times[key][last] <= gap:
            yield Link(spec, buckets[key][last], effect)


def _silences(corpus: Corpus, spec: SilencePair) -> Iterator[Silence]:
    buckets = _buckets(corpus.by_type.get(spec.response, ()), spec.join)
    gap = duration(spec.max_gap)
    times = {key: [event.at for event in events] for key, events in buckets.items()}
    spaces = [_Space(corpus, spec, selector, gap) for selector in spec.search]
    for trigger in corpus.by_type.get(spec.trigger, ()):
        key = joined(trigger, spec.join)
        if key is None:
            continue
        response = None
        if key in buckets:
            first = bisect_right(times[key], trigger.at)
            if first < len(times[key]) and times[key][first] - trigger.at <= gap:
                response = buckets[key][first]
        space = sorted({name for each in spaces for name in each.of(trigger, key)})
        yield Silence(spec, trigger, response, tuple(space))


class _Space:
    """The artifacts that one selector names, ready to be cut by a trigger's window."""

    def __init__(self, corpus: Corpus, spec: SilencePair, selector: Selector, gap: int) -> None:
        self._gap = gap
        self._join = spec.join if selector.joined else ()
        self._buckets: dict[Joined, list[Artifact]] = {}
        wanted = [(name, type(value), value) for name, value in selector.where.items()]
        for artifact in corpus.by_subsystem.get(selector.subsystem, ()):
            facts = artifact.facts
            if any(
                type(facts.get(n)) is not kind or facts[n] != value for n, kind, value in wanted
            ):
                continue
            found = [facts.get(name) for name in self._join]
            if None not in found:
                key = tuple((type(f), f) for f in found if f is not None)
                self._buckets.setdefault(key, []).append(artifact)
        for bucket in self._buckets.values():
            bucket.sort(key=lambda artifact: (artifact.at, artifact.id))

    def of(self, trigger: Event, key: Joined) -> Iterator[str]:
        bucket = self._buckets.get(key if self._join else (), [])
        first = bisect_left(bucket, trigger.at, key=_at)
        last = bisect_right(bucket, trigger.at + self._gap, key=_at)
        return (artifact.id for artifact in bucket[first:last])


def _at(artifact: Artifact) -> int:
    return artifact.at
