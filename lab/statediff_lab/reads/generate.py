"""Questions from a log, the same for the same inputs on every machine [GE §5, §5.4].

1. Links and silences of the log, by join and window [GE §5.2, §5.3]. An effect is linked to a cause
   only if they share every joined fact and the effect lies within the window after it: nearness in
   time alone links nothing. Events are bucketed by their joined facts, so the cost is that of the
   events and the pairs found, also where no join hits.
2. Candidates of every track, each with its truth:
   * Perspective: an event with artifacts, and an actor at an instant. Known if an artifact of the
     event lies in the cone; denied by permission if one could be read by then, but not by that
     role; denied by time if the actor may read them and all are later.
   * Counterfactual: a joined cause and effect, one for each effect, asked once both are past. The
     premise is the cause, or (`unlinked`) another event of its type that was as near and joins with
     nothing on the way to the effect, so that the outcome stays. Its words leave the joined facts
     out, for beside those of the effect they would give the answer away, and name one event.
   * Silence: a trigger whose window has closed, with its response or without.
3. A drawn order; then, bucket by bucket, as many as the plan asks for, of each difficulty
   as far as there are any, none above the caps on actors and on event types.
4. All tracks shuffled together, and numbered in that order.

What could not be filled is reported, never made up for from another bucket.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.reads.index import Artifact, Fact, show_instant
from statediff_lab.reads.cone import Policy
from statediff_lab.reads.config import (
    CausalLink,
    EvaluationConfig,
    QuestionPlan,
    Selector,
    SilencePair,
)
from statediff_lab.reads.instants import DAY, duration, end_of_day
from statediff_lab.reads.log import Corpus, Event
from statediff_lab.reads.questions import (
    Asked,
    Bucket,
    CounterfactualTruth,
    PerspectiveTruth,
    Question,
    Scaffold,
    SilenceTruth,
    Track,
    Truth,
    fold_mechanism,
    template,
)
from statediff_lab.statistics.draws import below, choose, lot

PRESENT_SHARE: Final = 50
PERMISSION_SHARE: Final = 25
TEMPORAL_SHARE: Final = 25
DIFFICULTIES: Final = {"easy": 40, "medium": 40, "hard": 20}
"""Percentages of the questions of a bucket, as far as there are any."""


@dataclass(frozen=True)
class Shortage:
    """A bucket that could not be filled."""

    track: Track
    bucket: Bucket
    wanted: int
    made: int

    def __str__(self) -> str:
        return (
            f"{self.track.value}: {self.made} of {self.wanted} {self.bucket.value} questions could "
            "be made; lower the plan, loosen the caps or add events"
        )


@dataclass(frozen=True)
class QuestionSet:
    """The questions, in the order they are asked, and what could not be filled."""

    questions: tuple[Question, ...]
    shortages: tuple[Shortage, ...]


def generate(corpus: Corpus, config: EvaluationConfig) -> QuestionSet:
    """The question set of a configuration over its corpus."""
    plan = config.questions
    pools = {
        Track.PERSPECTIVE: perspectives(corpus, config),
        Track.COUNTERFACTUAL: counterfactuals(corpus, config),
        Track.SILENCE: silences(corpus, config),
    }
    taken: list[Candidate] = []
    shortages: list[Shortage] = []
    for track, quotas in _quotas(plan).items():
        picker = _Picker(plan, pools[track])
        for bucket, wanted in quotas.items():
            made = picker.take(bucket, wanted)
            taken.extend(made)
            if len(made) < wanted:
                shortages.append(Shortage(track, bucket, wanted, len(made)))
    shuffled = sorted(taken, key=lambda each: (lot(plan.seed, "order", each.name), each.name))
    return QuestionSet(
        tuple(
            _question(f"q{number:03d}", candidate) for number, candidate in enumerate(shuffled, 1)
        ),
        tuple(shortages),
    )


def _quotas(plan: QuestionPlan) -> Mapping[Track, Mapping[Bucket, int]]:
    permission = plan.perspective * PERMISSION_SHARE // 100
    temporal = plan.perspective * TEMPORAL_SHARE // 100
    present = plan.silence * PRESENT_SHARE // 100
    unlinked = plan.counterfactual * plan.unlinked // 100
    return {
        Track.PERSPECTIVE: {
            Bucket.POSITIVE: plan.perspective - permission - temporal,
            Bucket.PERMISSION: permission,
            Bucket.TEMPORAL: temporal,
        },
        Track.COUNTERFACTUAL: {
            Bucket.LINKED: plan.counterfactual - unlinked,
            Bucket.UNLINKED: unlinked,
        },
        Track.SILENCE: {Bucket.PRESENT: present, Bucket.ABSENT: plan.silence - present},
    }


class _Picker:
    """Takes candidates of one track in their drawn order, within the caps."""

    def __init__(self, plan: QuestionPlan, pool: Iterable[Candidate]) -> None:
        self._plan = plan
        self._pools: dict[Bucket, list[tuple[int, str, Candidate]]] = {}
        for each in pool:
            drawn = (lot(plan.seed, each.name), each.name, each)
            self._pools.setdefault(each.bucket, []).append(drawn)
        self._actors: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._events: set[str] = set()

    def take(self, bucket: Bucket, wanted: int) -> list[Candidate]:
        pool = [c for _, _, c in sorted(self._pools.get(bucket, ()), key=lambda d: d[:2])]
        left = _shares(wanted)
        taken: list[Candidate] = []
        # First as the difficulties ask, then whatever is left.
        for strict in (True, False):
            for candidate in pool:
                if len(taken) == wanted:
                    return taken
                if strict and not left[candidate.difficulty]:
                    continue
                if self._fits(candidate):
                    left[candidate.difficulty] -= strict
                    taken.append(candidate)
        return taken

    def _fits(self, it: Candidate) -> bool:
        plan = self._plan
        if (
            it.event in self._events
            or self._actors[it.actor] >= plan.per_actor
            or self._types[it.event_type] >= plan.per_event_type
        ):
            return False
        self._events.add(it.event)
        self._actors[it.actor] += 1
        self._types[it.event_type] += 1
        return True


def _shares(wanted: int) -> dict[str, int]:
    """How many of each difficulty are asked for."""
    shares = {level: wanted * percent // 100 for level, percent in DIFFICULTIES.items()}
    shares["medium"] += wanted - sum(shares.values())
    return shares


def _question(name: str, it: Candidate) -> Question:
    asked = Asked(name, it.track, it.actor, it.as_of, template(it.scaffold))
    return Question(asked, it.truth, it.bucket, it.difficulty, it.spec, it.event, it.event_type)


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


def join_key(event: Event, names: tuple[str, ...]) -> Joined | None:
    """The event's facts of these names; None if it lacks one, and then it joins with nothing."""
    found = [event.facts.get(name) for name in names]
    # With its type: `True == 1` in Python, and is not the same fact.
    return tuple((type(f), f) for f in found if f is not None) if None not in found else None


def _buckets(events: Iterable[Event], names: tuple[str, ...]) -> Mapping[Joined, list[Event]]:
    buckets: dict[Joined, list[Event]] = {}
    for event in events:
        key = join_key(event, names)
        if key is not None:
            buckets.setdefault(key, []).append(event)
    return buckets


def _links(corpus: Corpus, spec: CausalLink) -> Iterator[Link]:
    buckets = _buckets(corpus.by_type.get(spec.cause, ()), spec.join)
    gap = duration(spec.max_gap)
    times = {key: [event.at for event in events] for key, events in buckets.items()}
    for effect in corpus.by_type.get(spec.effect, ()):
        key = join_key(effect, spec.join)
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
        key = join_key(trigger, spec.join)
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
        first = bisect_left(bucket, trigger.at, key=_artifact_time)
        last = bisect_right(bucket, trigger.at + self._gap, key=_artifact_time)
        return (artifact.id for artifact in bucket[first:last])


def _artifact_time(artifact: Artifact) -> int:
    return artifact.at


ASKED_LATER: Final = (2, 5, 9)
"""Days after the event as of which a perspective is asked for."""
ASKED_EARLIER: Final = (1, 3, 6)
"""Days before its first artifact, where time is what denies it."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A question that could be asked."""

    track: Track
    bucket: Bucket
    name: str
    """Unique, and the same on every machine; draws are made by it."""
    actor: str
    as_of: int
    truth: Truth
    difficulty: str
    spec: str
    event: str
    event_type: str
    scaffold: Scaffold


def perspectives(corpus: Corpus, config: EvaluationConfig) -> Iterator[Candidate]:
    """An event each; who is asked about and when is drawn, what comes of it is looked up."""
    policy, seed = Policy(config), config.questions.seed
    actors = sorted(config.actors)
    for event in corpus.events:
        told = [corpus.artifacts[a] for a in event.artifacts if a in corpus.artifacts]
        if not told:
            continue
        actor = choose(actors, seed, "actor", event.id)
        granted = [a for a in told if policy.cone(actor, 0).grants(a)]
        first = min(a.readable_from for a in granted or told)
        if granted and below(3, seed, "early", event.id) == 0:
            as_of = end_of_day(first - choose(ASKED_EARLIER, seed, "when", event.id) * DAY)
        else:
            as_of = end_of_day(first + choose(ASKED_LATER, seed, "when", event.id) * DAY)
        candidate = _perspective(corpus, policy, event, told, actor, as_of)
        if candidate is not None:
            yield candidate


def _perspective(
    corpus: Corpus, policy: Policy, event: Event, told: Sequence[Artifact], actor: str, as_of: int
) -> Candidate | None:
    cone = policy.cone(actor, as_of)
    evidence = frozenset(a.id for a in told if cone.holds(a))
    there = [a for a in told if a.readable_from <= as_of]
    denied = frozenset(a.subsystem for a in there if not cone.grants(a))
    if evidence:
        bucket = Bucket.POSITIVE
    elif denied:
        bucket = Bucket.PERMISSION
    elif any(cone.grants(a) for a in told):
        bucket = Bucket.TEMPORAL
    else:
        return None
    truth = PerspectiveTruth(bool(evidence), evidence, denied)
    # Without its date, which beside the date that is asked for would give the answer away.
    scaffold = Scaffold(Track.PERSPECTIVE, actor, show_instant(as_of)[:10], _matter(corpus, event))
    return Candidate(
        track=Track.PERSPECTIVE,
        bucket=bucket,
        name=f"perspective/{event.id}/{actor}",
        actor=actor,
        as_of=as_of,
        truth=truth,
        difficulty=_difficulty(len(told) + len({a.subsystem for a in told}), (2, 4)),
        spec="perspective",
        event=event.id,
        event_type=event.type,
        scaffold=scaffold,
    )


def counterfactuals(corpus: Corpus, config: EvaluationConfig) -> Iterator[Candidate]:
    """Up to two for each effect: of several causes that specifications give it, the first one's."""
    policy, seed, asked = Policy(config), config.questions.seed, set[str]()
    links = links_of(corpus, config.causal_links)
    premises = {spec.id: _Premises(corpus, spec, links) for spec in config.causal_links}
    for link in links:
        told = [_artifacts_of(corpus, link.cause), _artifacts_of(corpus, link.effect)]
        if link.effect.id in asked or not all(told):
            continue
        asked.add(link.effect.id)
        actor = _reader(policy, [a for each in told for a in each], seed, link.effect.id)
        if actor is None:
            continue
        known = premises[link.spec.id]
        near = known.beside(link, seed)
        for bucket, premise in ((Bucket.LINKED, link.cause), (Bucket.UNLINKED, near)):
            if premise is not None and known.names_one(premise):
                yield _counterfactual(corpus, link, bucket, known.words(premise), actor)


def _counterfactual(
    corpus: Corpus, link: Link, bucket: Bucket, premise: str, actor: str
) -> Candidate:
    cause, effect, spec = link.cause, link.effect, link.spec
    ends = [_artifacts_of(corpus, cause), _artifacts_of(corpus, effect)]
    as_of = end_of_day(max(effect.at, *(a.readable_from for told in ends for a in told)))
    truth = CounterfactualTruth(
        bucket is Bucket.LINKED,
        frozenset(map(fold_mechanism, (spec.mechanism, *spec.aliases))),
        cause.id,
        effect.id,
        _ids(ends[0]),
        _ids(ends[1]),
        frozenset(cause.actors) | frozenset(effect.actors),
    )
    names = {"cause": premise, "effect": _event_words(corpus, effect)}
    scaffold = Scaffold(
        Track.COUNTERFACTUAL,
        actor,
        show_instant(as_of)[:10],
        "",
        _fill(spec.premise, names),
        _fill(spec.outcome, names),
    )
    kind = "" if bucket is Bucket.LINKED else "/unlinked"
    return Candidate(
        track=Track.COUNTERFACTUAL,
        bucket=bucket,
        name=f"counterfactual/{spec.id}/{effect.id}{kind}",
        actor=actor,
        as_of=as_of,
        truth=truth,
        difficulty=_difficulty((effect.at - cause.at) // DAY, (1, 4)),
        spec=f"causal link {spec.id}",
        event=effect.id,
        event_type=effect.type,
        scaffold=scaffold,
    )


class _Premises:
    """The events of a link's cause, by their words without the facts that the link joins."""

    def __init__(self, corpus: Corpus, spec: CausalLink, links: Iterable[Link]) -> None:
        self._corpus = corpus
        self._spec = spec
        self._events = corpus.by_type.get(spec.cause, ())
        self._times = [event.at for event in self._events]
        self._gap = duration(spec.max_gap)
        self._named = Counter(map(self.words, self._events))
        self._causes: dict[str, set[str]] = {}
        for link in links:
            self._causes.setdefault(link.effect.id, set()).add(link.cause.id)

    def words(self, event: Event) -> str:
        """The event as a premise names it."""
        return _event_words(self._corpus, event, self._spec.join)

    def names_one(self, event: Event) -> bool:
        """True if its words are those of no other event."""
        return self._named[self.words(event)] == 1

    def beside(self, link: Link, seed: int) -> Event | None:
        """An event before the effect, within the gap, that leads to it in no way; drawn."""
        last = bisect_left(self._times, link.effect.at)
        first = bisect_left(self._times, link.effect.at - self._gap)
        key, before = join_key(link.effect, self._spec.join), self._leading_to(link.effect.id)
        near = [
            event
            for event in self._events[first:last]
            if join_key(event, self._spec.join) not in (None, key)
            and event.id not in before
            and self.names_one(event)
        ]
        return choose(near, seed, "premise", link.effect.id) if near else None

    def _leading_to(self, effect: str) -> set[str]:
        """The events that links of the log lead from to the effect, however many."""
        found: set[str] = set()
        left = [effect]
        while left:
            new = self._causes.get(left.pop(), set()) - found
            found |= new
            left += new
        return found


def silences(corpus: Corpus, config: EvaluationConfig) -> Iterator[Candidate]:
    """One for each trigger whose window the log covers and whose space somebody may read."""
    policy, seed = Policy(config), config.questions.seed
    end = corpus.events[-1].at if corpus.events else 0
    for silence in silences_of(corpus, config.silences):
        trigger, spec = silence.trigger, silence.spec
        as_of = end_of_day(trigger.at + duration(spec.max_gap))
        space = [corpus.artifacts[name] for name in silence.space]
        if as_of > end or not space:
            continue
        told = [] if silence.response is None else _artifacts_of(corpus, silence.response)
        space = [a for a in space if a.readable_from <= as_of]
        actor = _reader(policy, [*space, *told], seed, trigger.id)
        if actor is None or not space or (silence.response is not None and not told):
            continue
        bucket = Bucket.ABSENT if silence.response is None else Bucket.PRESENT
        names = {"trigger": _event_words(corpus, trigger), "response": _as_words(spec.response)}
        yield Candidate(
            track=Track.SILENCE,
            bucket=bucket,
            name=f"silence/{spec.id}/{trigger.id}",
            actor=actor,
            as_of=as_of,
            truth=SilenceTruth(
                silence.response is not None,
                frozenset(a.id for a in space),
                frozenset(a.id for a in told if a.readable_from <= as_of),
            ),
            difficulty=_difficulty(len(space), (3, 8)),
            spec=f"silence {spec.id}",
            event=trigger.id,
            event_type=trigger.type,
            scaffold=Scaffold(
                Track.SILENCE, actor, show_instant(as_of)[:10], _fill(spec.question, names)
            ),
        )


def _artifacts_of(corpus: Corpus, event: Event) -> list[Artifact]:
    return [corpus.artifacts[name] for name in event.artifacts if name in corpus.artifacts]


def _reader(policy: Policy, needed: Sequence[Artifact], seed: int, name: str) -> str | None:
    """Somebody who may read all of it, drawn; None if nobody may."""
    subsystems = {artifact.subsystem for artifact in needed}
    able = [actor for actor in sorted(policy.config.actors) if subsystems <= policy.sees(actor)]
    return choose(able, seed, "reader", name) if able else None


def _difficulty(measure: int, limits: tuple[int, int]) -> str:
    return "easy" if measure <= limits[0] else "medium" if measure <= limits[1] else "hard"


def _event_words(corpus: Corpus, event: Event, without: tuple[str, ...] = ()) -> str:
    return f"{_matter(corpus, event, without)} on {show_instant(event.at)[:10]}"


def _matter(corpus: Corpus, event: Event, without: tuple[str, ...] = ()) -> str:
    """The event in words; a fact that is an artifact's id would give the evidence away."""
    facts = ", ".join(
        f"{name} {value}"
        for name, value in sorted(event.facts.items())
        if name not in without and str(value) not in corpus.artifacts
    )
    who = " and ".join(event.actors) or "somebody"
    return f"{_as_words(event.type)} by {who}" + (f" ({facts})" if facts else "")


def _as_words(name: str) -> str:
    return name.replace("_", " ")


def _fill(template: str, names: dict[str, str]) -> str:
    """The template with its names filled in; nothing else in it is interpreted."""
    for name, text in names.items():
        template = template.replace("{" + name + "}", text)
    return template


def _ids(told: Sequence[Artifact]) -> frozenset[str]:
    return frozenset(artifact.id for artifact in told)
