"""Questions of the three tracks, their truths and their words [GE §5].

A question carries what is asked and, apart from it, the truth that the event log gives it. Its
words are made of a `Scaffold`, and the agent that answers it gets `Asked`: neither holds a label or
anything that depends on one. The words are neutral as to the answer [GE §5.4], for a fixed template
makes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

_JOINS: Final = re.compile(r"[\s_\-]+")


class Track(Enum):
    """The kind of test that a question is."""

    PERSPECTIVE = "perspective"
    COUNTERFACTUAL = "counterfactual"
    SILENCE = "silence"


class Bucket(Enum):
    """The kind of truth that a question has; never shown to who answers."""

    POSITIVE = "positive"
    PERMISSION = "permission"
    TEMPORAL = "temporal"
    LINKED = "linked"
    UNLINKED = "unlinked"
    PRESENT = "present"
    ABSENT = "absent"


@dataclass(frozen=True)
class Asked:
    """The question as the agent gets it: for whom, as of when (microseconds since 1970), what."""

    id: str
    track: Track
    actor: str
    as_of: int
    text: str


@dataclass(frozen=True)
class PerspectiveTruth:
    """The actor's possible knowledge, its evidence, and the subsystems that hide it."""

    known: bool
    evidence: frozenset[str]
    """Artifacts in the cone that tell of it; none where it could not be known."""
    blocked: frozenset[str]
    """Subsystems that tell of it and that the actor may not read."""


@dataclass(frozen=True)
class CounterfactualTruth:
    """The link that is asked about."""

    outcome_changed: bool
    mechanisms: frozenset[str]
    """The mechanism and its aliases, folded as answers are."""
    cause: str
    effect: str
    cause_evidence: frozenset[str]
    effect_evidence: frozenset[str]
    actors: frozenset[str]

    @property
    def evidence(self) -> frozenset[str]:
        """The artifacts of both ends."""
        return self.cause_evidence | self.effect_evidence


@dataclass(frozen=True)
class SilenceTruth:
    """The response's existence, and the space to be covered before it may be denied."""

    exists: bool
    space: frozenset[str]
    evidence: frozenset[str]
    """Artifacts of the response; none where there is none."""


Truth = PerspectiveTruth | CounterfactualTruth | SilenceTruth


@dataclass(frozen=True)
class Question:
    """A question and its truth."""

    asked: Asked
    truth: Truth
    bucket: Bucket
    difficulty: str
    """`easy`, `medium` or `hard`: by how much has to be looked at."""
    spec: str
    """The part of the configuration it was made of, e.g. `silence incident-postmortem`."""
    event: str
    """The event it is about."""
    event_type: str


def fold_mechanism(mechanism: object) -> str:
    """The mechanism as it is compared: case, spaces, `_` and `-` do not matter."""
    return _JOINS.sub("_", mechanism.strip().casefold()) if isinstance(mechanism, str) else ""


ANSWER_SCHEMAS = {
    Track.PERSPECTIVE: {
        "could_actor_have_known": "bool",
        "blocked_subsystems": "list of texts",
        "evidence": "list of artifact ids",
    },
    Track.COUNTERFACTUAL: {
        "outcome_changed": "bool",
        "mechanism": "text",
        "cause": "event id",
        "effect": "event id",
        "direction": "cause_to_effect, effect_to_cause or none",
        "actors": "list of texts",
        "evidence": "list of artifact ids",
    },
    Track.SILENCE: {"exists": "bool", "evidence": "list of artifact ids"},
}
"""What an answer to a question of each track has to hold."""


_TEMPLATES: Final = {
    Track.PERSPECTIVE: (
        "Based only on what {actor} had access to as of {date}, could {actor} have known about "
        "this: {what}?"
    ),
    Track.COUNTERFACTUAL: (
        "Suppose that {premise}. Would {outcome} all the same? Name the mechanism, and the events "
        "of cause and effect."
    ),
    Track.SILENCE: "Acting for {actor}, as of {date}: {what}",
}


@dataclass(frozen=True)
class Scaffold:
    """The topic of a question, never what its answer is."""

    track: Track
    actor: str
    date: str
    what: str
    premise: str = ""
    outcome: str = ""


def template(scaffold: Scaffold) -> str:
    """The words of a question."""
    return _TEMPLATES[scaffold.track].format(
        actor=scaffold.actor,
        date=scaffold.date,
        what=scaffold.what,
        premise=scaffold.premise,
        outcome=scaffold.outcome,
    )
