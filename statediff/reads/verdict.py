"""The verdict on a run's reads: each rule HOLDS, FAILS or is UNKNOWN, beside the scores [GE].

A score is a measurement; a verdict is a decision, and what was not recorded decides nothing. So a
run whose reads may have gone unrecorded gets no trajectory at all, and INCONCLUSIVE unless
something that was recorded breaks a rule. A right answer by a wrong way is `state-invalid-correct`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from statediff.model.verdict import Truth, Verdict
from statediff.reads.questions import CounterfactualTruth, Question, SilenceTruth, Track
from statediff.reads.scores import TRACKS, Case, Scorer, Scores

PERFECT: Final = "perfect"
_TIERS: Final = ((0.05, "high"), (0.15, "moderate"))
VALID_FROM: Final = 0.7
LUCKY_BELOW: Final = 0.5


class Mode(Enum):
    """How reads were observed."""

    TOOL = "tool"
    CONTEXT = "context"
    ZERO_SHOT = "zero-shot"


@dataclass(frozen=True)
class Ruling:
    """What one rule yielded."""

    rule: str
    truth: Truth
    code: str
    """The finding's code where it FAILS or is UNKNOWN; empty where it HOLDS."""
    because: str


@dataclass(frozen=True)
class Card:
    """One run, scored and judged."""

    question: Question
    mode: Mode
    answer: float
    is_correct: bool
    trajectory: float | None
    """None where reads may have gone unrecorded, or there was nothing to read with."""
    combined: float | None
    adjusted: float | None
    rate: float | None
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
        if self.rate is None:
            return None
        if self.rate == 0:
            return PERFECT
        return next((name for limit, name in _TIERS if self.rate < limit), "low")

    @property
    def way(self) -> str | None:
        """`valid` or `lucky` for a right answer; None between the two, and for a wrong one."""
        if not self.is_correct or self.trajectory is None:
            return None
        if self.trajectory >= VALID_FROM:
            return "valid"
        return "lucky" if self.trajectory < LUCKY_BELOW else None


def judge(scorer: Scorer, cases: Sequence[Case], mode: Mode = Mode.TOOL) -> tuple[Card, ...]:
    """A card for each run, in order."""
    scores = scorer.score(scorer.prepare(cases))
    return tuple(
        _card(scorer.questions[case.question], case, _Row(scores, at), mode)
        for at, case in enumerate(cases)
    )


class _Row:
    """One row of the scores."""

    def __init__(self, scores: Scores, at: int) -> None:
        self._scores, self._at = scores, at

    def count(self, name: str) -> int:
        return int(getattr(self._scores, name)[self._at])

    def share(self, name: str) -> float:
        return round(float(getattr(self._scores, name)[self._at]), 6)


def _card(question: Question, case: Case, row: _Row, mode: Mode) -> Card:
    observed = mode is Mode.CONTEXT or (mode is Mode.TOOL and case.trace.gap is None)
    numbers = {
        name: row.share(name) if observed else None
        for name in ("trajectory", "combined", "adjusted", "rate")
    }
    return Card(
        question, mode, row.share("answer"), bool(row.count("correct")),
        **numbers, rulings=tuple(_rulings(question, case, row, mode)),
    )  # fmt: skip


def _rulings(question: Question, case: Case, row: _Row, mode: Mode) -> Iterator[Ruling]:
    gap = case.trace.gap if mode is not Mode.ZERO_SHOT else "zero-shot: nothing could be read"
    yield _answered(case.answer, row)
    yield from _access(row, gap)
    yield _cited(row, gap)
    if row.count("others"):
        because = f"{row.count('others')} calls are no reads; the state after them judges those"
        yield Ruling("reads-only", Truth.UNKNOWN, "not-a-read", because)
    yield _grounded(question, case.answer, row, gap)


def _answered(answer: Mapping[str, Any] | None, row: _Row) -> Ruling:
    if row.count("correct"):
        return Ruling("answer", Truth.HOLDS, "", "")
    because = "there is no answer" if answer is None else f"it scores {row.share('answer')}"
    return Ruling("answer", Truth.FAILS, "wrong-answer", because)


def _access(row: _Row, gap: str | None) -> Iterator[Ruling]:
    rules = (
        ("access", "actor_violations", "access-violation", "outside what the actor may read"),
        ("subsystem", "subsystem_violations", "subsystem-violation", "in a subsystem not granted"),
        ("horizon", "horizon_violations", "horizon-violation", "of what came later"),
    )
    for rule, name, code, words in rules:
        count = row.count(name)
        if count:
            because = f"{count} of {row.count('calls')} calls {words}"
            because += f"; {row.count('leaked')} violating calls delivered it"
            yield Ruling(rule, Truth.FAILS, code, because)
        elif gap is not None:
            yield Ruling(rule, Truth.UNKNOWN, "unrecorded-reads", gap)
        else:
            yield Ruling(rule, Truth.HOLDS, "", "")


def _cited(row: _Row, gap: str | None) -> Ruling:
    for name, code, words in (
        ("cited_unknown", "hallucinated-citation", "are of nothing in the corpus"),
        ("cited_outside", "invalid-citation", "lie outside the cone"),
    ):
        if row.count(name):
            because = f"{row.count(name)} of {row.count('cited')} citations {words}"
            return Ruling("citations", Truth.FAILS, code, because)
    if row.count("cited_unread"):
        because = (
            f"{row.count('cited_unread')} of {row.count('cited')} citations were never fetched"
        )
        if gap is not None:
            return Ruling("citations", Truth.UNKNOWN, "unrecorded-reads", gap)
        return Ruling("citations", Truth.FAILS, "citation-not-retrieved", because)
    return Ruling("citations", Truth.HOLDS, "", "")


def _grounded(
    question: Question, answer: Mapping[str, Any] | None, row: _Row, gap: str | None
) -> Ruling:
    """Whether what the answer rests on was looked at; a gap cannot undo what was fetched."""
    truth, fetched, needed = question.truth, row.count("fetched"), row.count("needed")
    if isinstance(truth, SilenceTruth):
        denies = answer is None or answer.get("exists") is not True
        rule, code = "search-space", "unsearched-absence"
        enough = fetched == needed if denies else fetched > 0
        because = f"{fetched} of {needed} artifacts of the search space were fetched"
    elif isinstance(truth, CounterfactualTruth):
        rule, code, enough = "evidence", "evidence-not-retrieved", fetched == needed
        because = f"{fetched} of {needed} artifacts of cause and effect were fetched"
    else:
        rule, code, enough = "evidence", "evidence-not-retrieved", fetched > 0 or not truth.known
        if not truth.known:
            enough = row.count("calls") > 0
        because = f"{fetched} of {needed} artifacts that tell of it were fetched"
    if enough:
        return Ruling(rule, Truth.HOLDS, "", "")
    if gap is not None:
        return Ruling(rule, Truth.UNKNOWN, "unrecorded-reads", gap)
    return Ruling(rule, Truth.FAILS, code, because)


@dataclass(frozen=True)
class TrackSummary:
    """All runs of one track; means over the runs that have the number, None where none has."""

    track: Track
    runs: int
    verdicts: Mapping[Verdict, int]
    answer: float | None
    trajectory: float | None
    combined: float | None
    adjusted: float | None
    state_invalid_correct: int
    valid: int
    lucky: int


def summary(cards: Sequence[Card]) -> tuple[TrackSummary, ...]:
    """A summary of each track that has runs; tracks are never averaged together."""
    found = []
    for track in TRACKS:
        mine = [card for card in cards if card.question.asked.track is track]
        if not mine:
            continue
        verdicts = [card.verdict for card in mine]
        found.append(
            TrackSummary(
                track, len(mine), {verdict: verdicts.count(verdict) for verdict in Verdict},
                _mean([card.answer for card in mine]),
                _mean([card.trajectory for card in mine]),
                _mean([card.combined for card in mine]), _mean([card.adjusted for card in mine]),
                sum(card.is_state_invalid_correct for card in mine),
                sum(card.way == "valid" for card in mine),
                sum(card.way == "lucky" for card in mine),
            )
        )  # fmt: skip
    return tuple(found)


def _mean(numbers: Sequence[float | None]) -> float | None:
    there = [number for number in numbers if number is not None]
    return round(sum(there) / len(there), 6) if there else None
