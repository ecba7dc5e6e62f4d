"""How right a structured answer is, by the formulas of [GE] and the code released with it.

Shares of a set are recalls: what was asked for and is there. They say nothing of what was cited too
much; that is `cited` and `retrieved` in `scores.py`, and a verdict of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from statediff.reads.questions import (
    CounterfactualTruth,
    PerspectiveTruth,
    Question,
    SilenceTruth,
    Track,
)

CAUSE_TO_EFFECT: Final = "cause_to_effect"
_CORRECT_FROM: Final = {
    Track.PERSPECTIVE: (3, 5),
    Track.COUNTERFACTUAL: (4, 5),  # [GE §5.2]
    Track.SILENCE: (1, 1),
}
MAX_CITATIONS: Final = 10_000
_JOINS: Final = re.compile(r"[\s_\-]+")


def folded(mechanism: object) -> str:
    """The mechanism as it is compared: case, spaces, `_` and `-` do not matter."""
    return _JOINS.sub("_", mechanism.strip().casefold()) if isinstance(mechanism, str) else ""


def texts(answer: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts of a list in an answer, each once, in order; nothing where it is no list."""
    found = answer.get(name, ())
    if not found or not isinstance(found, list | tuple):
        return ()
    return tuple(dict.fromkeys(x for x in found[:MAX_CITATIONS] if isinstance(x, str)))


def names_mechanism(question: Question, answer: Mapping[str, Any]) -> bool:
    """Whether the answer names a mechanism of the configured vocabulary."""
    truth = question.truth
    return (
        isinstance(truth, CounterfactualTruth)
        and folded(answer.get("mechanism")) in truth.mechanisms
    )


def answer_share(
    question: Question, answer: Mapping[str, Any] | None, listed: tuple[str, ...] | None = None
) -> tuple[int, int]:
    """How right the answer is, exactly, as numerator and denominator; 0 where there is none.

    `listed` is what it cites, where that is known already.
    """
    if answer is None:
        return 0, 1
    truth = question.truth
    if isinstance(truth, SilenceTruth):
        return int(answer.get("exists") is truth.exists), 1
    listed = texts(answer, "evidence") if listed is None else listed
    cited, all_cited = _recall(listed, truth.evidence)
    if isinstance(truth, PerspectiveTruth):
        if answer.get("could_actor_have_known") is not truth.known:
            return 0, 1
        named, all_named = _recall(texts(answer, "blocked_subsystems"), truth.blocked)
        fifths = 3 * all_cited * all_named + cited * all_named + named * all_cited
        return fifths, 5 * all_cited * all_named
    twentieths = (
        4 * (answer.get("outcome_changed") is truth.outcome_changed)
        + 4 * names_mechanism(question, answer)
        + 4 * (answer.get("cause") == truth.cause)
        + 4 * (answer.get("effect") == truth.effect)
        + 2 * (answer.get("direction") == CAUSE_TO_EFFECT)
    )
    people, all_people = _recall(texts(answer, "actors"), truth.actors)
    both = all_cited * all_people
    return twentieths * both + cited * all_people + people * all_cited, 20 * both


def is_correct(question: Question, share: tuple[int, int]) -> bool:
    """Whether an answer of this share counts as correct on the question's track."""
    right, whole = share
    numerator, denominator = _CORRECT_FROM[question.asked.track]
    return right * denominator >= whole * numerator


def _recall(given: tuple[str, ...], wanted: frozenset[str]) -> tuple[int, int]:
    """The share of what was wanted that was given; all of it where nothing was."""
    return (len(wanted.intersection(given)), len(wanted)) if wanted else (1, 1)
