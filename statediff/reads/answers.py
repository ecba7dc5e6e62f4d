"""How right a structured answer is, by the formulas of [GE] and the code released with it.

Shares of a set are recalls: what was asked for and is there. They say nothing of what was cited too
much; that is `cited` and `retrieved` in `scores.py`, and a verdict of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from statediff.reads.questions import (
    CounterfactualTruth,
    PerspectiveTruth,
    Question,
    SilenceTruth,
)

CORRECT_FROM: Final = Fraction(4, 5)
"""The counterfactual answer is correct from here on [GE §5.2]."""
MAX_CITATIONS: Final = 10_000
_JOINS: Final = re.compile(r"[\s_\-]+")


def folded(mechanism: object) -> str:
    """The mechanism as it is compared: case, spaces, `_` and `-` do not matter."""
    return _JOINS.sub("_", mechanism.strip().casefold()) if isinstance(mechanism, str) else ""


def texts(answer: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts of a list in an answer, each once, in order; nothing where it is no list."""
    found = answer.get(name)
    if not isinstance(found, list | tuple):
        return ()
    return tuple(dict.fromkeys(x for x in found[:MAX_CITATIONS] if isinstance(x, str)))


def recall(given: Iterable[str], wanted: frozenset[str]) -> Fraction:
    """The share of what was wanted that was given; 1 where nothing was."""
    return Fraction(len(wanted.intersection(given)), len(wanted)) if wanted else Fraction(1)


def names_mechanism(question: Question, answer: Mapping[str, Any]) -> bool:
    """Whether the answer names a mechanism of the configured vocabulary."""
    truth = question.truth
    return (
        isinstance(truth, CounterfactualTruth)
        and folded(answer.get("mechanism")) in truth.mechanisms
    )


def answer_score(question: Question, answer: Mapping[str, Any] | None) -> Fraction:
    """From 0 to 1: how right the answer is; 0 where there is none."""
    if answer is None:
        return Fraction(0)
    truth = question.truth
    cited = texts(answer, "evidence")
    if isinstance(truth, SilenceTruth):
        return Fraction(answer.get("exists") is truth.exists)
    if isinstance(truth, PerspectiveTruth):
        if answer.get("could_actor_have_known") is not truth.known:
            return Fraction(0)
        blocked = recall(texts(answer, "blocked_subsystems"), truth.blocked)
        return Fraction(3, 5) + (blocked + recall(cited, truth.evidence)) / 5
    direction = "cause_to_effect"
    twentieths = (
        4 * (answer.get("outcome_changed") is truth.outcome_changed)
        + 4 * names_mechanism(question, answer)
        + 4 * (answer.get("cause") == truth.cause)
        + 4 * (answer.get("effect") == truth.effect)
        + 2 * (answer.get("direction") == direction)
    )
    partly = recall(cited, truth.evidence) + recall(texts(answer, "actors"), truth.actors)
    return (twentieths + partly) / 20


def is_correct(question: Question, score: Fraction) -> bool:
    """Whether an answer of this score counts as correct on the question's track."""
    truth = question.truth
    if isinstance(truth, CounterfactualTruth):
        return score >= CORRECT_FROM
    return score >= Fraction(3, 5) if isinstance(truth, PerspectiveTruth) else score == 1
