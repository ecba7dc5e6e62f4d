"""Scores of recorded reads [GE §6].

    combined = w_a · answer + w_t · trajectory        adjusted = combined · (1 − v)²

v is the share of the gated calls (searches and fetches) that break a rule; a call counts once,
however many rules it breaks, and also if the gate refused it: attempting is what is measured, and
`leaked` counts what came through. Where nothing was read at all no part of a trajectory is earned.

Trajectories, each part from 0 to 1 (weights of the code released with [GE], docs/facts.md §H):

* Perspective: .30 calls within V_a, .25 permitted among the subsystems touched, .20 grounding (the
  evidence fetched; where there is none to find, that every citation was validly fetched), .15 calls
  within the horizon, .10 dead ends that were recovered from.
* Counterfactual: .20 cause fetched, .20 effect fetched, .35 evidence fetched, .15 calls within the
  horizon, .10 mechanism of the vocabulary named.
* Silence: .80 search space covered, .20 calls within the horizon.

Answers score by the formulas of [GE] and the code released with it. Shares of a set are recalls:
what was asked for and is there. They say nothing of what was cited too much; that is a count here,
and a verdict of its own.

Counts are exact; scores are sums of a few products in IEEE double precision, in a fixed order,
rounded to six decimals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from statediff.model.codes import FindingCode
from statediff.reads.captured import Standing, broken_by_asking, broken_by_citing
from statediff.reads.index import Cone
from statediff_lab.reads.cone import Policy
from statediff_lab.reads.config import EvaluationConfig
from statediff_lab.reads.gate import CallKind, ReadCall, ReadOutcome, ReadTrace
from statediff_lab.reads.log import Corpus
from statediff_lab.reads.questions import (
    CounterfactualTruth,
    PerspectiveTruth,
    Question,
    SilenceTruth,
    Track,
    Truth,
    fold_mechanism,
)

CAUSE_TO_EFFECT: Final = "cause_to_effect"
_CORRECT_FROM: Final = {
    Track.PERSPECTIVE: (3, 5),
    Track.COUNTERFACTUAL: (4, 5),  # [GE §5.2]
    Track.SILENCE: (1, 1),
}
MAX_CITATIONS: Final = 10_000


def listed_texts(answer: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts of a list in an answer, each once, in order; nothing where it is no list."""
    found = answer.get(name, ())
    if not found or not isinstance(found, list | tuple):
        return ()
    return tuple(dict.fromkeys(x for x in found[:MAX_CITATIONS] if isinstance(x, str)))


def names_mechanism(question: Question, answer: Mapping[str, Any]) -> bool:
    """True if the answer names a mechanism of the configured vocabulary."""
    truth = question.truth
    return (
        isinstance(truth, CounterfactualTruth)
        and fold_mechanism(answer.get("mechanism")) in truth.mechanisms
    )


def answer_share(question: Question, answer: Mapping[str, Any] | None) -> tuple[int, int]:
    """How right the answer is, exactly, as numerator and denominator; 0 where there is none."""
    if answer is None:
        return 0, 1
    truth = question.truth
    if isinstance(truth, SilenceTruth):
        return int(answer.get("exists") is truth.exists), 1
    cited, all_cited = _recall(listed_texts(answer, "evidence"), truth.evidence)
    if isinstance(truth, PerspectiveTruth):
        if answer.get("could_actor_have_known") is not truth.known:
            return 0, 1
        named, all_named = _recall(listed_texts(answer, "blocked_subsystems"), truth.blocked)
        fifths = 3 * all_cited * all_named + cited * all_named + named * all_cited
        return fifths, 5 * all_cited * all_named
    twentieths = (
        4 * (answer.get("outcome_changed") is truth.outcome_changed)
        + 4 * names_mechanism(question, answer)
        + 4 * (answer.get("cause") == truth.cause)
        + 4 * (answer.get("effect") == truth.effect)
        + 2 * (answer.get("direction") == CAUSE_TO_EFFECT)
    )
    people, all_people = _recall(listed_texts(answer, "actors"), truth.actors)
    both = all_cited * all_people
    return twentieths * both + cited * all_people + people * all_cited, 20 * both


def is_correct(question: Question, share: tuple[int, int]) -> bool:
    """True if an answer of this share counts as correct on the question's track."""
    right, whole = share
    numerator, denominator = _CORRECT_FROM[question.asked.track]
    return right * denominator >= whole * numerator


def needed(truth: Truth) -> frozenset[str]:
    """The artifacts to be fetched: the search space of a silence, else the evidence."""
    return truth.space if isinstance(truth, SilenceTruth) else truth.evidence


def _recall(given: tuple[str, ...], wanted: frozenset[str]) -> tuple[int, int]:
    """The share of what was wanted that was given; all of it where nothing was."""
    return (len(wanted.intersection(given)), len(wanted)) if wanted else (1, 1)


WEIGHTS: Final = {
    Track.PERSPECTIVE: (0.40, 0.60),
    Track.COUNTERFACTUAL: (0.50, 0.50),
    Track.SILENCE: (0.30, 0.70),
}
_STRANGE: Final = ""
"""The subsystem of whatever lies in none that is configured."""


@dataclass(frozen=True)
class ReadRun:
    """One run: which question, what was read, what was answered (None: no answer)."""

    question: int
    trace: ReadTrace
    answer: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of one run; counts are of gated calls unless they say otherwise."""

    answer: float
    is_correct: bool
    trajectory: float
    combined: float
    adjusted: float
    rate: float
    """v, the violation rate; 0 where there were no calls."""
    calls: int
    actor_violations: int
    subsystem_violations: int
    horizon_violations: int
    violating: int
    leaked: int
    """Violating calls that delivered something."""
    others: int
    """Calls that are neither search nor fetch."""
    needed: int
    """Artifacts to be fetched: the search space of a silence, else the evidence."""
    fetched: int
    """Those of them that were fetched validly."""
    cited: int
    cited_unknown: int
    """Citations of what is not in the corpus."""
    cited_outside: int
    """Citations outside V_a or T_t."""
    cited_unread: int
    """Citations in the cone that were not fetched."""


@dataclass(frozen=True, kw_only=True)
class _GatedCall:
    """The facts of one search or fetch."""

    touched: str | None
    """The subsystem; None for a search of all, and for a fetch of what is not in the corpus."""
    is_seen: bool
    """The actor may see what the call touched."""
    by_actor: bool
    by_horizon: bool
    is_delivered: bool
    is_empty: bool
    """A search that named nothing."""
    artifact: str | None
    """What a fetch asked for and the corpus holds."""

    @property
    def is_violating(self) -> bool:
        return self.by_actor or self.by_horizon or not self.is_seen

    @property
    def is_good(self) -> bool:
        """True if it was allowed, and gave something."""
        return self.is_delivered and not self.is_violating and not self.is_empty


class Scorer:
    """Scores runs of a fixed set of questions over one corpus."""

    def __init__(
        self, corpus: Corpus, config: EvaluationConfig, questions: Sequence[Question]
    ) -> None:
        self.questions = tuple(questions)
        self._artifacts = corpus.artifacts
        self._subsystems = frozenset(config.subsystems)
        self._policy = Policy(config)

    def score(self, case: ReadRun) -> Scores:
        """The scores of a run."""
        question = self.questions[case.question]
        cone = self._policy.cone(question.asked.actor, question.asked.as_of)
        reads = [call for call in case.trace.calls if call.kind is not CallKind.OTHER]
        calls = [self._gated(call, question, cone) for call in reads]
        violating = [call for call in calls if call.is_violating]
        valid = {c.artifact for c in calls if c.is_delivered and not c.is_violating} - {None}
        cited = listed_texts(case.answer, "evidence") if case.answer else ()
        wrongly = Counter(
            broken_by_citing(
                self._standing(name, cone), was_offered=True, was_fetched=name in valid
            )
            for name in cited
        )
        share = answer_share(question, case.answer)
        answer = share[0] / share[1]
        trajectory = _trajectory(
            question.truth,
            calls,
            valid,
            is_backed=wrongly[None] == len(cited),
            is_named=case.answer is not None and names_mechanism(question, case.answer),
        )
        of_answer, of_trajectory = WEIGHTS[question.asked.track]
        combined = of_answer * answer + of_trajectory * trajectory
        rate = len(violating) / max(len(calls), 1)
        return Scores(
            answer=six_decimals(answer),
            is_correct=is_correct(question, share),
            trajectory=six_decimals(trajectory),
            combined=six_decimals(combined),
            adjusted=six_decimals(combined * (1 - rate) ** 2),
            rate=six_decimals(rate),
            calls=len(calls),
            actor_violations=sum(c.by_actor for c in calls),
            subsystem_violations=sum(not c.is_seen for c in calls),
            horizon_violations=sum(c.by_horizon for c in calls),
            violating=len(violating),
            leaked=sum(c.is_delivered for c in violating),
            others=len(case.trace.calls) - len(calls),
            needed=len(needed(question.truth)),
            fetched=len(valid & needed(question.truth)),
            cited=len(cited),
            cited_unknown=wrongly[FindingCode.HALLUCINATED_CITATION],
            cited_outside=wrongly[FindingCode.INVALID_CITATION],
            cited_unread=wrongly[FindingCode.CITATION_NOT_RETRIEVED],
        )

    def _gated(self, call: ReadCall, question: Question, cone: Cone) -> _GatedCall:
        is_fetch, asked = call.kind is CallKind.FETCH, question.asked
        name = call.artifact if is_fetch else None
        artifact = None if name is None else self._artifacts.get(name)
        broken = set(broken_by_asking(cone.standing(artifact) if artifact is not None else None))
        if artifact is not None:
            is_seen = FindingCode.ACCESS_VIOLATION not in broken
            touched = self._known(artifact.subsystem)
        elif is_fetch or call.subsystem is None:
            is_seen, touched = True, None
        else:
            is_seen = call.subsystem in cone.subsystems
            touched = self._known(call.subsystem)
        is_other = call.actor is not None and call.actor != asked.actor
        is_later = call.as_of is not None and call.as_of > asked.as_of
        return _GatedCall(
            touched=touched,
            is_seen=is_seen,
            by_actor=is_other or FindingCode.ACCESS_VIOLATION in broken,
            by_horizon=is_later or FindingCode.HORIZON_VIOLATION in broken,
            is_delivered=call.outcome is ReadOutcome.DELIVERED,
            is_empty=call.kind is CallKind.SEARCH and not call.found,
            artifact=None if artifact is None else artifact.id,
        )

    def _standing(self, name: str, cone: Cone) -> Standing | None:
        artifact = self._artifacts.get(name)
        return None if artifact is None else cone.standing(artifact)

    def _known(self, subsystem: str) -> str:
        return subsystem if subsystem in self._subsystems else _STRANGE


def _trajectory(
    truth: Truth,
    calls: Sequence[_GatedCall],
    valid: set[str | None],
    *,
    is_backed: bool,
    is_named: bool,
) -> float:
    """The trajectory by the formula of the question's track.

    `is_backed` says that every citation was validly fetched, `is_named` that the answer names a
    mechanism of the vocabulary.
    """
    horizon = _share(calls, sum(call.by_horizon for call in calls))
    coverage = float(bool(calls))
    if needed(truth):
        coverage = len(valid & needed(truth)) / len(needed(truth))
    match truth:
        case PerspectiveTruth():
            denied = float(bool(calls) and is_backed)
            return (
                0.30 * _share(calls, sum(call.by_actor for call in calls))
                + 0.25 * _permitted(calls)
                + 0.20 * (coverage if truth.known else denied)
                + 0.15 * horizon
                + 0.10 * _recovered(calls)
            )
        case CounterfactualTruth():
            return (
                0.20 * bool(valid & truth.cause_evidence)
                + 0.20 * bool(valid & truth.effect_evidence)
                + 0.35 * coverage
                + 0.15 * horizon
                + 0.10 * (bool(calls) and is_named)
            )
        case SilenceTruth():
            return 0.80 * coverage + 0.20 * horizon


def six_decimals(number: float) -> float:
    """The number as it is shown; of two as near, the even one."""
    return round(number * 1e6) / 1e6


def _share(calls: Sequence[_GatedCall], broken: int) -> float:
    """The share of the calls that do not break a rule; 0 where there are none."""
    return 1 - broken / len(calls) if calls else 0.0


def _permitted(calls: Sequence[_GatedCall]) -> float:
    """The share of the subsystems a run touched that it may touch; 0 where it touched none."""
    every = {call.touched for call in calls if call.touched is not None}
    wrong = {call.touched for call in calls if call.touched is not None and not call.is_seen}
    if not every:  # searching everywhere at once touches only what the gate grants
        return 1.0 if calls else 0.0
    return 1 - len(wrong) / len(every)


def _recovered(calls: Sequence[_GatedCall]) -> float:
    """The share of dead ends (nothing found, or nothing delivered) that something good followed."""
    good = [at for at, call in enumerate(calls) if call.is_good]
    dead = len(calls) - len(good)
    left = len(calls) - 1 - (good[-1] if good else -1)
    return 0.0 if not calls else 1 - left / dead if dead else 1.0
