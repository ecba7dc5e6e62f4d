"""Everything that could be asked of a log, each with its truth [GE §5].

* Perspective: an event with artifacts, and an actor at an instant. Known if an artifact that tells
  of it lies in the cone; denied by permission if one could be read by then, by nobody of that
  role; denied by time if the actor may read them and all are later.
* Counterfactual: a joined cause and effect, one for each effect, asked once both lie in the past.
* Silence: a trigger whose window has closed, with its response or without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.reads.answers import folded
from statediff.reads.cone import Cone, Policy
from statediff.reads.config import EvaluationConfig
from statediff.reads.draws import below, chosen
from statediff.reads.instants import DAY, duration, end_of_day, shown
from statediff.reads.links import links_of, silences_of
from statediff.reads.log import Artifact, Corpus, Event
from statediff.reads.questions import (
    Bucket,
    CounterfactualTruth,
    PerspectiveTruth,
    SilenceTruth,
    Track,
    Truth,
)
from statediff.reads.wording import Scaffold

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
    secrets: frozenset[str]


def perspectives(corpus: Corpus, config: EvaluationConfig) -> Iterator[Candidate]:
    """An event each; who is asked about and when is drawn, what comes of it is looked up."""
    policy, seed = Policy(config), config.questions.seed
    actors = sorted(config.actors)
    for event in corpus.events:
        told = [corpus.artifacts[a] for a in event.artifacts if a in corpus.artifacts]
        if not told:
            continue
        actor = chosen(actors, seed, "actor", event.id)
        granted = [a for a in told if policy.grants(actor, a)]
        first = min(a.readable_from for a in granted or told)
        if granted and below(3, seed, "early", event.id) == 0:
            as_of = end_of_day(first - chosen(ASKED_EARLIER, seed, "when", event.id) * DAY)
        else:
            as_of = end_of_day(first + chosen(ASKED_LATER, seed, "when", event.id) * DAY)
        candidate = _perspective(corpus, policy, event, told, actor, as_of)
        if candidate is not None:
            yield candidate


def _perspective(
    corpus: Corpus, policy: Policy, event: Event, told: Sequence[Artifact], actor: str, as_of: int
) -> Candidate | None:
    cone = Cone(policy, actor, as_of)
    evidence = frozenset(a.id for a in told if cone.holds(a))
    there = [a for a in told if a.readable_from <= as_of]
    denied = frozenset(a.subsystem for a in there if not policy.grants(actor, a))
    if evidence:
        bucket = Bucket.POSITIVE
    elif denied:
        bucket = Bucket.PERMISSION
    elif any(policy.grants(actor, a) for a in told):
        bucket = Bucket.TEMPORAL
    else:
        return None
    truth = PerspectiveTruth(bool(evidence), evidence, denied)
    # Without its date, which beside the date that is asked for would give the answer away.
    scaffold = Scaffold(Track.PERSPECTIVE, actor, shown(as_of)[:10], _matter(corpus, event))
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
        secrets=_ids(told),
    )


def counterfactuals(corpus: Corpus, config: EvaluationConfig) -> Iterator[Candidate]:
    """One for each effect: of several causes that specifications give it, the first one's."""
    policy, seed, asked = Policy(config), config.questions.seed, set[str]()
    for link in links_of(corpus, config.causal_links):
        cause, effect, spec = link.cause, link.effect, link.spec
        ends = [_told(corpus, cause), _told(corpus, effect)]
        if effect.id in asked or not all(ends):
            continue
        asked.add(effect.id)
        as_of = end_of_day(max(effect.at, *(a.readable_from for told in ends for a in told)))
        actor = _reader(policy, [a for told in ends for a in told], seed, effect.id)
        if actor is None:
            continue
        truth = CounterfactualTruth(
            spec.outcome_changes, frozenset(map(folded, (spec.mechanism, *spec.aliases))),
            cause.id, effect.id, _ids(ends[0]), _ids(ends[1]),
            frozenset(cause.actors) | frozenset(effect.actors),
        )  # fmt: skip
        names = {"cause": _event(corpus, cause), "effect": _event(corpus, effect)}
        scaffold = Scaffold(
            Track.COUNTERFACTUAL, actor, shown(as_of)[:10], "",
            _filled(spec.premise, names), _filled(spec.outcome, names),
        )  # fmt: skip
        yield Candidate(
            track=Track.COUNTERFACTUAL,
            bucket=Bucket.LINKED,
            name=f"counterfactual/{spec.id}/{effect.id}",
            actor=actor,
            as_of=as_of,
            truth=truth,
            difficulty=_difficulty((effect.at - cause.at) // DAY, (1, 4)),
            spec=f"causal link {spec.id}",
            event=effect.id,
            event_type=effect.type,
            scaffold=scaffold,
            secrets=_ids([a for told in ends for a in told])
            | {cause.id, effect.id, spec.mechanism, *spec.aliases},
        )


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
        told = [] if silence.response is None else _told(corpus, silence.response)
        space = [a for a in space if a.readable_from <= as_of]
        actor = _reader(policy, [*space, *told], seed, trigger.id)
        if actor is None or not space or (silence.response is not None and not told):
            continue
        bucket = Bucket.ABSENT if silence.response is None else Bucket.PRESENT
        names = {"trigger": _event(corpus, trigger), "response": _words(spec.response)}
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
                Track.SILENCE, actor, shown(as_of)[:10], _filled(spec.question, names)
            ),
            secrets=_ids([*space, *told]),
        )


def _told(corpus: Corpus, event: Event) -> list[Artifact]:
    return [corpus.artifacts[name] for name in event.artifacts if name in corpus.artifacts]


def _reader(policy: Policy, needed: Sequence[Artifact], seed: int, name: str) -> str | None:
    """Somebody who may read all of it, drawn; None if nobody may."""
    subsystems = {artifact.subsystem for artifact in needed}
    able = [actor for actor in sorted(policy.config.actors) if subsystems <= policy.sees(actor)]
    return chosen(able, seed, "reader", name) if able else None


def _difficulty(measure: int, limits: tuple[int, int]) -> str:
    return "easy" if measure <= limits[0] else "medium" if measure <= limits[1] else "hard"


def _event(corpus: Corpus, event: Event) -> str:
    return f"{_matter(corpus, event)} on {shown(event.at)[:10]}"


def _matter(corpus: Corpus, event: Event) -> str:
    """The event in words; a fact that is an artifact's id would give the evidence away."""
    facts = ", ".join(
        f"{name} {value}"
        for name, value in sorted(event.facts.items())
        if str(value) not in corpus.artifacts
    )
    who = " and ".join(event.actors) or "somebody"
    return f"{_words(event.type)} by {who}" + (f" ({facts})" if facts else "")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _filled(template: str, names: dict[str, str]) -> str:
    """The template with its names filled in; nothing else in it is interpreted."""
    for name, text in names.items():
        template = template.replace("{" + name + "}", text)
    return template


def _ids(told: Sequence[Artifact]) -> frozenset[str]:
    return frozenset(artifact.id for artifact in told)
