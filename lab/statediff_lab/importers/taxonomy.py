"""Why an evaluator and a judgement of the same run disagree: the labels, and what gives them.

The first nine are those of [TV §3.4], the next six the shapes that they take in [TV §4.3]. A
disagreement has one label or more. Labels follow from what is recorded: from the rule that failed a
run, from what a contract holds against it, from how harm was made. Where nothing recorded says it,
the label is `unexplained`, and somebody has to read the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Cause(StrEnum):
    """A label of a disagreement; its value is the code in documents."""

    EXACT_MATCH = "exact-match"
    OVER_SPECIFICATION = "state-over-specification"
    LOCK_IN = "trajectory-lock-in"
    ANNOTATION = "annotation-error"
    MISALIGNMENT = "reward-misalignment"
    RUBRIC_DRIFT = "rubric-drift"
    JUDGE_VARIANCE = "judge-variance"
    HALLUCINATED = "hallucinated-completion"
    IMPLEMENTATION = "implementation-specification-mismatch"
    WHOLE_OBJECT = "whole-object-comparison"
    PUNCTUATION = "punctuation"
    SUBSTRING = "substring-assertion"
    ENDED_EARLY = "premature-termination"
    INACTION = "inaction-rewarded"
    INCOMPLETE = "incomplete-rubric"
    EVIDENCE = "passes-without-evidence"
    SILENCE = "no-verdict"
    OWN_ERROR = "own-error"
    UNEXPLAINED = "unexplained"

    @property
    def words(self) -> str:
        """The label in words."""
        return _WORDS[self]


_WORDS: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        Cause.EXACT_MATCH: "another spelling of a right value fails",
        Cause.OVER_SPECIFICATION: "state that the task leaves open is compared",
        Cause.LOCK_IN: "one path, order or set of calls is demanded",
        Cause.ANNOTATION: "the expected outcome itself is wrong",
        Cause.MISALIGNMENT: "what is rewarded is not the outcome that the task asks for",
        Cause.RUBRIC_DRIFT: "the criteria are others from one judgement to the next",
        Cause.JUDGE_VARIANCE: "judges, or one judge twice, say different things of one run",
        Cause.HALLUCINATED: "what was said is believed, and was not done",
        Cause.IMPLEMENTATION: "the evaluator's code does something else than its rules say",
        Cause.WHOLE_OBJECT: "whole objects are compared where some fields count",
        Cause.PUNCTUATION: "punctuation or white space decides",
        Cause.SUBSTRING: "a text that must occur in the answer decides",
        Cause.ENDED_EARLY: "the run is ended before a later call that repairs it",
        Cause.INACTION: "an unchanged state passes",
        Cause.INCOMPLETE: "nothing looks at what was changed",
        Cause.EVIDENCE: "a run passes whose state cannot be seen",
        Cause.SILENCE: "the evaluator says nothing of a run that is right",
        Cause.OWN_ERROR: "our contract is wrong, or the run is not what we took it for",
        Cause.UNEXPLAINED: "nothing recorded says why; the run has to be read",
    }
)
_STAGES: Final[Mapping[str, Cause]] = MappingProxyType(
    {
        "forbid": Cause.INCOMPLETE,
        "frame": Cause.INCOMPLETE,
        "require": Cause.MISALIGNMENT,
        "steps": Cause.INCOMPLETE,
        "actions": Cause.INCOMPLETE,
        "answer": Cause.HALLUCINATED,
        "access": Cause.INCOMPLETE,
    }
)


def missed(stages: Iterable[str]) -> tuple[Cause, ...]:
    """The labels of a pass, by the stages of what a contract holds against the run."""
    return labels_of(_STAGES[stage] for stage in stages if stage in _STAGES)


def labels_of(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Each once, in the order of the taxonomy; `unexplained` where there is none."""
    found = set(causes)
    return tuple(cause for cause in Cause if cause in found) or (Cause.UNEXPLAINED,)


def counted(labels: Iterable[Iterable[Cause]]) -> dict[str, int]:
    """Disagreements by label; one with two labels counts under both."""
    found = Counter(cause for each in labels for cause in each)
    return {cause.value: found[cause] for cause in Cause if found[cause]}
