"""The verdict on a run's reads: each rule HOLDS, FAILS or is UNKNOWN, beside the scores [GE].

A score is a measurement; a verdict is a decision, and what was not recorded decides nothing. So a
run whose reads may have gone unrecorded gets no trajectory at all, and INCONCLUSIVE unless
something that was recorded breaks a rule. A right answer by a wrong way is `state-invalid-correct`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from statediff.model.codes import FindingCode
from statediff.model.verdict import Truth, Verdict
from statediff_lab.reads.questions import Bucket, CounterfactualTruth, Question, SilenceTruth, Track
from statediff_lab.reads.scores import CAUSE_TO_EFFECT, WEIGHTS, ReadRun, Scorer, Scores

PERFECT: Final = "perfect"
_TIERS: Final = ((0.05, "high"), (0.15, "moderate"))
VALID_FROM: Final = 0.7
LUCKY_BELOW: Final = 0.5
UNREADABLE: Final = "zero-shot: nothing could be read"


class ReadMode(Enum):
    """How reads were observed."""

    TOOL = "tool"
    CONTEXT = "context"
    ZERO_SHOT = "zero-shot"


class Ruling(NamedTuple):
    """The result of one rule; `code` is None where the rule HOLDS."""

    rule: str
    truth: Truth
    code: FindingCode | None = None
    because: str = ""
    """Why, in words."""


class Named(NamedTuple):
    """The parts of the link that an answer to a counterfactual names rightly."""

    direction: bool
    events: bool
    """Both ends are the events of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCard:
    """One run, scored and judged."""

    question: Question
    mode: ReadMode
    answer: float
    is_correct: bool
    measured: Scores | None
    """None where reads may have gone unrecorded, or there was nothing to read with."""
    named: Named | None
    """None on the other tracks."""
    rulings: tuple[Ruling, ...]

    @property
    def verdict(self) -> Verdict:
        """FAILS anywhere is DIVERGE; else UNKNOWN anywhere is INCONCLUSIVE; else MATCH."""
        truths = {ruling.truth for ruling in self.rulings}
        if Truth.FAILS in truths:
            return Verdict.DIVERGE
        return Verdict.INCONCLUSIVE if Truth.UNKNOWN in truths else Verdict.MATCH

    @property
    def is_state_invalid_correct(self) -> bool:
        """The answer is right and the way to it breaks a rule."""
        return self.is_correct and self.verdict is Verdict.DIVERGE

    @property
    def tier(self) -> str | None:
        """The compliance tier of the violation rate."""
        if self.measured is None:
            return None
        rate = self.measured.rate
        return PERFECT if not rate else next((n for limit, n in _TIERS if rate < limit), "low")

    @property
    def way(self) -> str | None:
        """`valid` or `lucky` for a right answer; None between the two, and for a wrong one."""
        if not self.is_correct or self.measured is None:
            return None
        if self.measured.trajectory >= VALID_FROM:
            return "valid"
        return "lucky" if self.measured.trajectory < LUCKY_BELOW else None


def judge(scorer: Scorer, case: ReadRun, mode: ReadMode = ReadMode.TOOL) -> RunCard:
    """The card of a run."""
    question, scores = scorer.questions[case.question], scorer.score(case)
    gap = UNREADABLE if mode is ReadMode.ZERO_SHOT else case.trace.gap
    has_numbers = gap is None or mode is ReadMode.CONTEXT
    return RunCard(
        question=question,
        mode=mode,
        answer=scores.answer,
        is_correct=scores.is_correct,
        measured=scores if has_numbers else None,
        named=_named(question, case.answer),
        rulings=tuple(
            _ruling(rule, code, scores, case.answer, gap)
            for rule, code in _decided(question, case.answer, scores, has_gap=gap is not None)
        ),
    )


def _named(question: Question, answer: Mapping[str, Any] | None) -> Named | None:
    truth = question.truth
    if not isinstance(truth, CounterfactualTruth):
        return None
    said = answer or {}
    ends = said.get("cause") == truth.cause and said.get("effect") == truth.effect
    return Named(said.get("direction") == CAUSE_TO_EFFECT, ends)


def _decided(
    question: Question, answer: Mapping[str, Any] | None, scores: Scores, *, has_gap: bool
) -> Iterator[tuple[str, FindingCode | None]]:
    """Each rule with the code of what the run broke it by, or of what is not known; None: HOLDS."""
    unrecorded = FindingCode.UNRECORDED_READS if has_gap else None
    yield "answer", None if scores.is_correct else FindingCode.WRONG_ANSWER
    yield "access", FindingCode.ACCESS_VIOLATION if scores.actor_violations else unrecorded
    yield (
        "subsystem",
        FindingCode.SUBSYSTEM_VIOLATION if scores.subsystem_violations else unrecorded,
    )
    yield "horizon", FindingCode.HORIZON_VIOLATION if scores.horizon_violations else unrecorded
    if scores.cited_unknown:
        yield "citations", FindingCode.HALLUCINATED_CITATION
    elif scores.cited_outside:
        yield "citations", FindingCode.INVALID_CITATION
    elif scores.cited_unread:
        yield "citations", unrecorded or FindingCode.CITATION_NOT_RETRIEVED
    else:
        yield "citations", None
    if scores.others:
        yield "reads-only", FindingCode.NOT_A_READ
    is_enough = _has_grounds(question, answer, scores)
    if isinstance(question.truth, SilenceTruth):
        missing = unrecorded or FindingCode.UNSEARCHED_ABSENCE
        yield "search-space", None if is_enough else missing
    else:
        missing = unrecorded or FindingCode.EVIDENCE_NOT_RETRIEVED
        yield "evidence", None if is_enough else missing


def _ruling(
    rule: str,
    code: FindingCode | None,
    scores: Scores,
    answer: Mapping[str, Any] | None,
    gap: str | None,
) -> Ruling:
    """The decision, with its words and numbers."""
    if code is None:
        return Ruling(rule, Truth.HOLDS)
    if code is FindingCode.UNRECORDED_READS:
        return Ruling(rule, Truth.UNKNOWN, code, gap or "")
    if code is FindingCode.WRONG_ANSWER and answer is None:
        return Ruling(rule, Truth.FAILS, code, "there is no answer")
    words, *names = WORDS[code]
    truth = Truth.UNKNOWN if code is FindingCode.NOT_A_READ else Truth.FAILS
    return Ruling(rule, truth, code, words.format(*(getattr(scores, name) for name in names)))


def _has_grounds(question: Question, answer: Mapping[str, Any] | None, scores: Scores) -> bool:
    """True if what the answer has to rest on was fetched."""
    truth = question.truth
    if isinstance(truth, SilenceTruth):
        if answer is not None and answer.get("exists") is True:
            return scores.fetched > 0
        return scores.fetched == scores.needed
    if isinstance(truth, CounterfactualTruth):
        return scores.fetched == scores.needed
    return (scores.fetched if truth.known else scores.calls) > 0


WORDS: Final[Mapping[FindingCode, tuple[str, ...]]] = {
    FindingCode.WRONG_ANSWER: ("it scores {}", "answer"),
    FindingCode.ACCESS_VIOLATION: (
        "{} of {} calls outside what the actor may read, {} leaks",
        "actor_violations",
        "calls",
        "leaked",
    ),
    FindingCode.SUBSYSTEM_VIOLATION: (
        "{} of {} calls in a subsystem not granted, {} leaks",
        "subsystem_violations",
        "calls",
        "leaked",
    ),
    FindingCode.HORIZON_VIOLATION: (
        "{} of {} calls of what came later, {} leaks",
        "horizon_violations",
        "calls",
        "leaked",
    ),
    FindingCode.HALLUCINATED_CITATION: (
        "{} of {} citations are of nothing there is",
        "cited_unknown",
        "cited",
    ),
    FindingCode.INVALID_CITATION: (
        "{} of {} citations lie outside the cone",
        "cited_outside",
        "cited",
    ),
    FindingCode.CITATION_NOT_RETRIEVED: (
        "{} of {} citations were never fetched",
        "cited_unread",
        "cited",
    ),
    FindingCode.NOT_A_READ: ("{} calls are no reads; the state after them judges those", "others"),
    FindingCode.UNSEARCHED_ABSENCE: (
        "{} of {} artifacts of the search space were fetched",
        "fetched",
        "needed",
    ),
    FindingCode.EVIDENCE_NOT_RETRIEVED: (
        "{} of {} artifacts that tell of it were fetched",
        "fetched",
        "needed",
    ),
}
"""Code → words, and the scores that stand in them."""


class BucketSummary(NamedTuple):
    """The runs of one kind of truth: how many, how right on the mean, and how many correct."""

    runs: int
    answer: float | None
    correct: int


@dataclass(frozen=True, kw_only=True)
class TrackSummary:
    """All runs of one track; means over the runs that have the number, None where none has."""

    track: Track
    runs: int
    verdicts: Mapping[Verdict, int]
    answer: float | None
    trajectory: float | None
    combined: float | None
    adjusted: float | None
    actor_rate: float | None
    """Of all searches and fetches of the track, the share that broke the rule [GE §6.3]."""
    subsystem_rate: float | None
    horizon_rate: float | None
    coverage: float | None
    """The mean share fetched of what was needed: a search space, or evidence."""
    direction: float | None
    """The share of answers with the causal direction, and with both events [GE §7.3]."""
    events: float | None
    state_invalid_correct: int
    valid: int
    lucky: int
    buckets: Mapping[Bucket, BucketSummary]


def summary(cards: Sequence[RunCard]) -> tuple[TrackSummary, ...]:
    """A summary of each track that has runs; tracks are never averaged together."""
    found = []
    for track in WEIGHTS:
        mine = [card for card in cards if card.question.asked.track is track]
        if mine:
            found.append(_track_summary(track, mine))
    return tuple(found)


def _track_summary(track: Track, mine: Sequence[RunCard]) -> TrackSummary:
    verdicts = [card.verdict for card in mine]
    measured = [card.measured for card in mine if card.measured is not None]
    calls = sum(each.calls for each in measured)
    named = [card.named for card in mine if card.named is not None]
    buckets = {bucket: [c for c in mine if c.question.bucket is bucket] for bucket in Bucket}
    return TrackSummary(
        track=track,
        runs=len(mine),
        verdicts={verdict: verdicts.count(verdict) for verdict in Verdict},
        answer=_mean([card.answer for card in mine]),
        trajectory=_mean([each.trajectory for each in measured]),
        combined=_mean([each.combined for each in measured]),
        adjusted=_mean([each.adjusted for each in measured]),
        actor_rate=_share(sum(each.actor_violations for each in measured), calls),
        subsystem_rate=_share(sum(each.subsystem_violations for each in measured), calls),
        horizon_rate=_share(sum(each.horizon_violations for each in measured), calls),
        coverage=_mean([each.fetched / each.needed for each in measured if each.needed]),
        direction=_share(sum(each.direction for each in named), len(named)),
        events=_share(sum(each.events for each in named), len(named)),
        state_invalid_correct=sum(card.is_state_invalid_correct for card in mine),
        valid=sum(card.way == "valid" for card in mine),
        lucky=sum(card.way == "lucky" for card in mine),
        buckets={
            bucket: BucketSummary(
                len(of), _mean([card.answer for card in of]), sum(card.is_correct for card in of)
            )
            for bucket, of in buckets.items()
            if of
        },
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def _mean(numbers: Sequence[float]) -> float | None:
    return round(sum(numbers) / len(numbers), 6) if numbers else None
