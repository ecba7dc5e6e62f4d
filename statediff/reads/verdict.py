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

import numpy as np

from statediff.model.verdict import Truth, Verdict
from statediff.reads.questions import CounterfactualTruth, Question, SilenceTruth, Track
from statediff.reads.scores import TRACKS, Case, Scorer, Scores

PERFECT: Final = "perfect"
_TIERS: Final = ((0.05, "high"), (0.15, "moderate"))
VALID_FROM: Final = 0.7
LUCKY_BELOW: Final = 0.5
UNRECORDED: Final = "unrecorded-reads"
UNREADABLE: Final = "zero-shot: nothing could be read"


class Mode(Enum):
    """How reads were observed."""

    TOOL = "tool"
    CONTEXT = "context"
    ZERO_SHOT = "zero-shot"


class Ruling(NamedTuple):
    """What one rule yielded; `code` is that of the finding, and empty where the rule HOLDS."""

    rule: str
    truth: Truth
    code: str = ""
    words: str = ""
    numbers: tuple[int | float, ...] = ()

    @property
    def because(self) -> str:
        """Why, in words."""
        return self.words.format(*self.numbers) if self.numbers else self.words


_HELD: Final = {
    rule: Ruling(rule, Truth.HOLDS)
    for rule in (
        "answer",
        "access",
        "subsystem",
        "horizon",
        "citations",
        "search-space",
        "evidence",
    )
}


@dataclass(frozen=True, slots=True)
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
    rows = _rows(scorer.score(scorer.prepare(cases)))
    return tuple(
        _card(scorer.questions[case.question], case, row, mode)
        for case, row in zip(cases, rows, strict=True)
    )


class _Row(NamedTuple):
    """One row of the scores, rounded as it is shown; see `Scores`."""

    answer: float
    trajectory: float
    combined: float
    adjusted: float
    rate: float
    correct: bool
    calls: int
    actor_violations: int
    subsystem_violations: int
    horizon_violations: int
    leaked: int
    others: int
    needed: int
    fetched: int
    cited: int
    cited_unknown: int
    cited_outside: int
    cited_unread: int


def _rows(scores: Scores) -> Iterator[_Row]:
    columns = (getattr(scores, name) for name in _Row._fields)
    shown = (np.round(c, 6) if c.dtype == np.float64 else c for c in columns)
    return map(_Row, *(column.tolist() for column in shown))


def _card(question: Question, case: Case, row: _Row, mode: Mode) -> Card:
    gap = case.trace.gap if mode is not Mode.ZERO_SHOT else UNREADABLE
    rulings = tuple(_rulings(question, case.answer, row, gap))
    if gap is not None and mode is not Mode.CONTEXT:
        return Card(question, mode, row.answer, row.correct, None, None, None, None, rulings)
    return Card(
        question, mode, row.answer, row.correct, row.trajectory, row.combined, row.adjusted,
        row.rate, rulings,
    )  # fmt: skip


def _rulings(
    question: Question, answer: Mapping[str, Any] | None, row: _Row, gap: str | None
) -> Iterator[Ruling]:
    yield _answered(answer, row)
    yield from _access(row, gap)
    yield _cited(row, gap)
    if row.others:
        words = "{} calls are no reads; the state after them judges those"
        yield Ruling("reads-only", Truth.UNKNOWN, "not-a-read", words, (row.others,))
    yield _grounded(question, answer, row, gap)


def _answered(answer: Mapping[str, Any] | None, row: _Row) -> Ruling:
    if row.correct:
        return _HELD["answer"]
    if answer is None:
        return Ruling("answer", Truth.FAILS, "wrong-answer", "there is no answer")
    return Ruling("answer", Truth.FAILS, "wrong-answer", "it scores {}", (row.answer,))


_ACCESS: Final = (
    ("access", "access-violation", "{} of {} calls outside what the actor may read, {} leaks"),
    ("subsystem", "subsystem-violation", "{} of {} calls in a subsystem not granted, {} leaks"),
    ("horizon", "horizon-violation", "{} of {} calls of what came later, {} leaks"),
)


def _access(row: _Row, gap: str | None) -> Iterator[Ruling]:
    counts = (row.actor_violations, row.subsystem_violations, row.horizon_violations)
    for (rule, code, words), count in zip(_ACCESS, counts, strict=True):
        if count:
            numbers = (count, row.calls, row.leaked)
            yield Ruling(rule, Truth.FAILS, code, words, numbers)
        elif gap is not None:
            yield Ruling(rule, Truth.UNKNOWN, UNRECORDED, gap)
        else:
            yield _HELD[rule]


def _cited(row: _Row, gap: str | None) -> Ruling:
    for count, code, words in (
        (row.cited_unknown, "hallucinated-citation", "{} of {} citations are of nothing there is"),
        (row.cited_outside, "invalid-citation", "{} of {} citations lie outside the cone"),
    ):
        if count:
            return Ruling("citations", Truth.FAILS, code, words, (count, row.cited))
    if not row.cited_unread:
        return _HELD["citations"]
    if gap is not None:
        return Ruling("citations", Truth.UNKNOWN, UNRECORDED, gap)
    words, numbers = "{} of {} citations were never fetched", (row.cited_unread, row.cited)
    return Ruling("citations", Truth.FAILS, "citation-not-retrieved", words, numbers)


def _grounded(
    question: Question, answer: Mapping[str, Any] | None, row: _Row, gap: str | None
) -> Ruling:
    """Whether what the answer rests on was looked at; a gap cannot undo what was fetched."""
    truth, fetched, needed = question.truth, row.fetched, row.needed
    rule, code, words = _EVIDENCE
    if isinstance(truth, SilenceTruth):
        rule, code, words = _SPACE
        denies = answer is None or answer.get("exists") is not True
        enough = fetched == needed if denies else fetched > 0
    elif isinstance(truth, CounterfactualTruth):
        enough = fetched == needed
    else:
        enough = fetched > 0 if truth.known else row.calls > 0
    if enough:
        return _HELD[rule]
    if gap is not None:
        return Ruling(rule, Truth.UNKNOWN, UNRECORDED, gap)
    return Ruling(rule, Truth.FAILS, code, words, (fetched, needed))


_SPACE: Final = (
    "search-space",
    "unsearched-absence",
    "{} of {} artifacts of the search space were fetched",
)
_EVIDENCE: Final = (
    "evidence",
    "evidence-not-retrieved",
    "{} of {} artifacts that tell of it were fetched",
)


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
