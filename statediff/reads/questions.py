"""Questions of the three tracks, with the truth that the event log gives them [GE §5].

A question carries what is asked and, apart from it, its truth; whoever words it or answers it is
given `Asked` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Track(Enum):
    """What a question tests."""

    PERSPECTIVE = "perspective"
    COUNTERFACTUAL = "counterfactual"
    SILENCE = "silence"


class Bucket(Enum):
    """What kind of truth a question has; never shown to who answers."""

    POSITIVE = "positive"
    PERMISSION = "permission"
    TEMPORAL = "temporal"
    LINKED = "linked"
    PRESENT = "present"
    ABSENT = "absent"


@dataclass(frozen=True)
class Asked:
    """What the agent is told: who it acts for, as of when (microseconds since 1970), and what."""

    id: str
    track: Track
    actor: str
    as_of: int
    text: str


@dataclass(frozen=True)
class PerspectiveTruth:
    """Whether the actor could have known, by which evidence, and which subsystems hide it."""

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
    """Whether the response exists, and the space to be covered before it may be denied."""

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
