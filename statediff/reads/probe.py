"""The shortcut probe: how far phrasing alone gives the answers away [GE §5.4].

A classifier that sees the words alone (naive Bayes, Laplace smoothing) answers each question from
all the others. What it gets right beyond the most frequent answer is told with the chance of as
good a result by guessing; a question set it beats chance on wants other templates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from statediff.reads.questions import PerspectiveTruth, Question, SilenceTruth, Track
from statediff.reads.search import terms
from statediff.statistics.binomial import at_least

SIGNIFICANT: Final = Fraction(1, 100)


@dataclass(frozen=True)
class Shortcut:
    """What phrasing alone achieved on one track."""

    track: Track
    questions: int
    right: int
    chance: Fraction
    """The share of the most frequent answer."""
    p_value: Fraction
    """The probability of at least as many right by guessing with that share."""

    @property
    def beats_chance(self) -> bool:
        """Whether phrasing gives answers away, at a level of one in a hundred."""
        return self.p_value < SIGNIFICANT


def probe(questions: Sequence[Question]) -> tuple[Shortcut, ...]:
    """The probe of every track that has two answers; one with a single answer cannot be probed."""
    found = []
    for track in Track:
        asked = [(terms(q.asked.text), _label(q)) for q in questions if q.asked.track is track]
        labels = Counter(label for _, label in asked)
        if len(labels) < 2:
            continue
        right = sum(
            _guess([*asked[:at], *asked[at + 1 :]], words) == label
            for at, (words, label) in enumerate(asked)
        )
        chance = Fraction(max(labels.values()), len(asked))
        p_value = at_least(right, len(asked), chance)
        found.append(Shortcut(track, len(asked), right, chance, p_value))
    return tuple(found)


def _label(question: Question) -> str:
    truth = question.truth
    if isinstance(truth, PerspectiveTruth):
        return str(truth.known)
    return str(truth.exists if isinstance(truth, SilenceTruth) else truth.outcome_changed)


def _guess(known: Sequence[tuple[list[str], str]], words: list[str]) -> str:
    counts: dict[str, Counter[str]] = {}
    labels: Counter[str] = Counter()
    for each, label in known:
        labels[label] += 1
        counts.setdefault(label, Counter()).update(set(each))
    vocabulary = set().union(*counts.values())

    def likelihood(label: str) -> float:
        here = counts[label]
        return math.log(labels[label]) + math.fsum(
            math.log((here[word] + 1) / (labels[label] + 2))
            for word in sorted(set(words) & vocabulary)
        )

    return max(sorted(labels), key=likelihood)
