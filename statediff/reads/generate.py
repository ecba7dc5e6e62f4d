"""Questions from a log, the same for the same inputs on every machine [GE §5, §5.4].

1. Candidates of every track, each with its truth, from the configuration's links and silences.
2. A drawn order; then, bucket by bucket, as many as the plan asks for, of the difficulties it asks
   for as far as there are any, none above the caps on actors and on event types.
3. All tracks shuffled together, and numbered in that order.

What could not be filled is said, never made up for from another bucket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from statediff.reads.candidates import Candidate, counterfactuals, perspectives, silences
from statediff.reads.config import EvaluationConfig, QuestionPlan
from statediff.reads.draws import lot
from statediff.reads.log import Corpus
from statediff.reads.questions import Asked, Bucket, Question, Track
from statediff.reads.wording import Writer, worded

PRESENT_SHARE: Final = 50


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


def generate(corpus: Corpus, config: EvaluationConfig, writer: Writer | None = None) -> QuestionSet:
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
            _question(f"q{number:03d}", candidate, writer)
            for number, candidate in enumerate(shuffled, 1)
        ),
        tuple(shortages),
    )


def _quotas(plan: QuestionPlan) -> Mapping[Track, Mapping[Bucket, int]]:
    balance = plan.balance
    permission = plan.perspective * balance.permission // 100
    temporal = plan.perspective * balance.temporal // 100
    present = plan.silence * PRESENT_SHARE // 100
    return {
        Track.PERSPECTIVE: {
            Bucket.POSITIVE: plan.perspective - permission - temporal,
            Bucket.PERMISSION: permission,
            Bucket.TEMPORAL: temporal,
        },
        Track.COUNTERFACTUAL: {Bucket.LINKED: plan.counterfactual},
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
        left = self._shares(wanted)
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

    def _shares(self, wanted: int) -> dict[str, int]:
        plan = self._plan.difficulty
        shares: dict[str, int] = {"easy": 0, "medium": 0, "hard": 0}
        shares |= {level: wanted * percent // 100 for level, percent in plan.items()}
        shares["medium"] += wanted - sum(shares.values())
        return shares

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


def _question(name: str, it: Candidate, writer: Writer | None) -> Question:
    text = worded(it.scaffold, it.secrets, writer)
    asked = Asked(name, it.track, it.actor, it.as_of, text)
    return Question(asked, it.truth, it.bucket, it.difficulty, it.spec, it.event, it.event_type)
