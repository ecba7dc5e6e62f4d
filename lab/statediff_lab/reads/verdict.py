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
import numpy.typing as npt

from statediff.model.codes import FindingCode
from statediff.model.verdict import Truth, Verdict
from statediff_lab.reads.questions import Bucket, CounterfactualTruth, Question, SilenceTruth, Track
from statediff_lab.reads.scores import CAUSE_TO_EFFECT, TRACKS, Flags, ReadRun, Scorer, Scores

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
    """What one rule yielded; `code` is None where the rule HOLDS."""

    rule: str
    truth: Truth
    code: FindingCode | None = None
    words: str = ""
    numbers: tuple[int | float, ...] = ()

    @property
    def because(self) -> str:
        """Why, in words."""
        return self.words.format(*self.numbers) if self.numbers else self.words


RULES: Final = (
    "answer",
    "access",
    "subsystem",
    "horizon",
    "citations",
    "reads-only",
    "grounds",
)
"""What is decided of every run, a column each; `grounds` is a search space or evidence."""
CODES: Final = (
    None,
    FindingCode.WRONG_ANSWER,
    FindingCode.ACCESS_VIOLATION,
    FindingCode.SUBSYSTEM_VIOLATION,
    FindingCode.HORIZON_VIOLATION,
    FindingCode.HALLUCINATED_CITATION,
    FindingCode.INVALID_CITATION,
    FindingCode.CITATION_NOT_RETRIEVED,
    FindingCode.UNSEARCHED_ABSENCE,
    FindingCode.EVIDENCE_NOT_RETRIEVED,
    FindingCode.NOT_A_READ,
    FindingCode.UNRECORDED_READS,
)
"""Every code of a ruling, by its number; None is that of a rule that HOLDS."""
_NUMBER: Final = {code: number for number, code in enumerate(CODES)}
_FIRST_UNKNOWN: Final = _NUMBER[FindingCode.NOT_A_READ]
"""The codes before it are of violations, it and those after it of what is not known."""


@dataclass(frozen=True)
class RunFindings:
    """What was decided of each run: a row each, a column for each of RULES, numbers of CODES."""

    scores: Scores
    codes: npt.NDArray[np.int8]
    gaps: Flags
    """The runs whose reads may have gone unrecorded."""

    def verdicts(self) -> tuple[Verdict, ...]:
        """FAILS anywhere is DIVERGE; else UNKNOWN anywhere is INCONCLUSIVE; else MATCH."""
        fails = ((self.codes > 0) & (self.codes < _FIRST_UNKNOWN)).any(axis=1)
        unknown = (self.codes >= _FIRST_UNKNOWN).any(axis=1)
        names = (Verdict.MATCH, Verdict.INCONCLUSIVE, Verdict.DIVERGE)
        return tuple(names[at] for at in np.where(fails, 2, unknown * 1).tolist())

    def state_invalid_correct(self) -> Flags:
        """The runs whose answer is right, and whose way to it breaks a rule."""
        way = self.codes[:, 1:]
        broken = np.asarray(((way > 0) & (way < _FIRST_UNKNOWN)).any(axis=1), dtype=np.bool_)
        return self.scores.correct & broken


def decide(scorer: Scorer, cases: Sequence[ReadRun], mode: ReadMode = ReadMode.TOOL) -> RunFindings:
    """What every rule says of each run, in order."""
    scores = scorer.score(scorer.prepare(cases))
    unreadable = mode is ReadMode.ZERO_SHOT
    gaps = np.asarray([unreadable or c.trace.gap is not None for c in cases], dtype=np.bool_)
    affirms = np.asarray(
        [c.answer is not None and c.answer.get("exists") is True for c in cases], dtype=np.bool_
    )
    codes = np.zeros((len(cases), len(RULES)), dtype=np.int8)

    def put(rule: str, code: FindingCode, where: Flags) -> None:
        column = codes[:, RULES.index(rule)]
        column[where & (column == 0)] = _NUMBER[code]

    put("answer", FindingCode.WRONG_ANSWER, ~scores.correct)
    for rule, code, count in (
        ("access", FindingCode.ACCESS_VIOLATION, scores.actor_violations),
        ("subsystem", FindingCode.SUBSYSTEM_VIOLATION, scores.subsystem_violations),
        ("horizon", FindingCode.HORIZON_VIOLATION, scores.horizon_violations),
    ):
        put(rule, code, count > 0)
        put(rule, FindingCode.UNRECORDED_READS, gaps)
    put("citations", FindingCode.HALLUCINATED_CITATION, scores.cited_unknown > 0)
    put("citations", FindingCode.INVALID_CITATION, scores.cited_outside > 0)
    put("citations", FindingCode.UNRECORDED_READS, gaps & (scores.cited_unread > 0))
    put("citations", FindingCode.CITATION_NOT_RETRIEVED, scores.cited_unread > 0)
    put("reads-only", FindingCode.NOT_A_READ, scores.others > 0)
    kinds = np.asarray([_kind(q) for q in scorer.questions], dtype=np.int8)[scores.question]
    some, all_of = scores.fetched > 0, scores.fetched == scores.needed
    enough = np.choose(
        kinds, [np.where(affirms, some, all_of), all_of, some, scores.calls > 0]
    ).astype(np.bool_)
    put("grounds", FindingCode.UNRECORDED_READS, gaps & ~enough)
    put("grounds", FindingCode.UNSEARCHED_ABSENCE, ~enough & (kinds == _SILENCE))
    put("grounds", FindingCode.EVIDENCE_NOT_RETRIEVED, ~enough)
    return RunFindings(scores, codes, gaps)


_SILENCE: Final = 0


def _kind(question: Question) -> int:
    """What has to be fetched: a search space, every artifact, some artifact, or anything at all."""
    truth = question.truth
    if isinstance(truth, SilenceTruth):
        return _SILENCE
    if isinstance(truth, CounterfactualTruth):
        return 1
    return 2 if truth.known else 3


class Counted(NamedTuple):
    """What was counted of one run's calls; `needed` and `fetched` are artifacts."""

    calls: int
    actor: int
    subsystem: int
    horizon: int
    needed: int
    fetched: int


class Named(NamedTuple):
    """What an answer to a counterfactual says rightly of the link."""

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
    trajectory: float | None
    """None where reads may have gone unrecorded, or there was nothing to read with."""
    combined: float | None
    adjusted: float | None
    rate: float | None
    counted: Counted | None
    """None where the others are."""
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


def judge(
    scorer: Scorer, cases: Sequence[ReadRun], mode: ReadMode = ReadMode.TOOL
) -> tuple[RunCard, ...]:
    """A card for each run, in order."""
    found = decide(scorer, cases, mode)
    return tuple(
        _card(scorer.questions[case.question], case, row, codes, mode)
        for case, row, codes in zip(cases, _rows(found.scores), found.codes.tolist(), strict=True)
    )


class _ScoreRow(NamedTuple):
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


def _rows(scores: Scores) -> Iterator[_ScoreRow]:
    columns = (getattr(scores, name) for name in _ScoreRow._fields)
    shown = (np.round(c, 6) if c.dtype == np.float64 else c for c in columns)
    return map(_ScoreRow, *(column.tolist() for column in shown))


def _card(
    question: Question, case: ReadRun, row: _ScoreRow, codes: list[int], mode: ReadMode
) -> RunCard:
    gap = case.trace.gap if mode is not ReadMode.ZERO_SHOT else UNREADABLE
    grounds = "search-space" if isinstance(question.truth, SilenceTruth) else "evidence"
    rulings = tuple(
        _ruling(grounds if rule == "grounds" else rule, CODES[code], row, case.answer, gap)
        for rule, code in zip(RULES, codes, strict=True)
        if code or rule != "reads-only"
    )
    named = _named(question, case.answer)
    if gap is not None and mode is not ReadMode.CONTEXT:
        return RunCard(
            question=question,
            mode=mode,
            answer=row.answer,
            is_correct=row.correct,
            trajectory=None,
            combined=None,
            adjusted=None,
            rate=None,
            counted=None,
            named=named,
            rulings=rulings,
        )
    return RunCard(
        question=question,
        mode=mode,
        answer=row.answer,
        is_correct=row.correct,
        trajectory=row.trajectory,
        combined=row.combined,
        adjusted=row.adjusted,
        rate=row.rate,
        counted=Counted(
            row.calls,
            row.actor_violations,
            row.subsystem_violations,
            row.horizon_violations,
            row.needed,
            row.fetched,
        ),
        named=named,
        rulings=rulings,
    )


def _named(question: Question, answer: Mapping[str, Any] | None) -> Named | None:
    truth = question.truth
    if not isinstance(truth, CounterfactualTruth):
        return None
    said = answer or {}
    ends = said.get("cause") == truth.cause and said.get("effect") == truth.effect
    return Named(said.get("direction") == CAUSE_TO_EFFECT, ends)


def _ruling(
    rule: str,
    code: FindingCode | None,
    row: _ScoreRow,
    answer: Mapping[str, Any] | None,
    gap: str | None,
) -> Ruling:
    """One cell of the findings, with its words and numbers."""
    if code is None:
        return Ruling(rule, Truth.HOLDS)
    if code is FindingCode.UNRECORDED_READS:
        return Ruling(rule, Truth.UNKNOWN, code, gap or "")
    if code is FindingCode.WRONG_ANSWER and answer is None:
        return Ruling(rule, Truth.FAILS, code, "there is no answer")
    words, *names = _WORDS[code]
    truth = Truth.UNKNOWN if code is FindingCode.NOT_A_READ else Truth.FAILS
    return Ruling(rule, truth, code, words, tuple(getattr(row, name) for name in names))


_WORDS: Final[Mapping[FindingCode, tuple[str, ...]]] = {
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
"""Code → words, and the numbers of a row that stand in them."""


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
    for track in TRACKS:
        mine = [card for card in cards if card.question.asked.track is track]
        if mine:
            found.append(_track_summary(track, mine))
    return tuple(found)


def _track_summary(track: Track, mine: Sequence[RunCard]) -> TrackSummary:
    verdicts = [card.verdict for card in mine]
    counted = [card.counted for card in mine if card.counted is not None]
    calls = sum(each.calls for each in counted)
    named = [card.named for card in mine if card.named is not None]
    buckets = {bucket: [c for c in mine if c.question.bucket is bucket] for bucket in Bucket}
    return TrackSummary(
        track=track,
        runs=len(mine),
        verdicts={verdict: verdicts.count(verdict) for verdict in Verdict},
        answer=_mean([card.answer for card in mine]),
        trajectory=_mean([card.trajectory for card in mine]),
        combined=_mean([card.combined for card in mine]),
        adjusted=_mean([card.adjusted for card in mine]),
        actor_rate=_share(sum(each.actor for each in counted), calls),
        subsystem_rate=_share(sum(each.subsystem for each in counted), calls),
        horizon_rate=_share(sum(each.horizon for each in counted), calls),
        coverage=_mean([each.fetched / each.needed for each in counted if each.needed]),
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


def _mean(numbers: Sequence[float | None]) -> float | None:
    there = [number for number in numbers if number is not None]
    return round(sum(there) / len(there), 6) if there else None
