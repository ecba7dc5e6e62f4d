"""Which stage answers for a wrong opinion, and of which kinds the failure is [SSD §V; TV §3.4]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from statediff.meta.fault_classes import EVIDENCE
from statediff.meta.study.evaluators import OURS
from statediff.meta.study.seeding import RIGHT
from statediff.meta.study.trials import EXPECTED, Opinion, Scored
from statediff.model.verdict import Verdict
from statediff.suite.review_terms import Component, Failure, Label

_STAGES: Final[Mapping[str, Component]] = {
    **dict.fromkeys(EVIDENCE, Component.CAPTURE),
    "contradictory-sources": Component.RESOLVE, "one-natural-key": Component.RESOLVE,
    "ambiguous-identity": Component.RESOLVE,
    "look-alike": Component.RESOLVE, "other-id": Component.RESOLVE,
    "other-spelling": Component.CANONICALIZE, "unapproved-spelling": Component.CANONICALIZE,
    "outside-boundary": Component.DIFF, "other-chunks": Component.DIFF,
    "row-chunks": Component.DIFF, "other-chunks-before": Component.DIFF,
    "row-chunks-before": Component.DIFF, "transient-effect": Component.CAPTURE,
    "other-day": Component.CAPTURE,
}  # fmt: skip
"""The stage that must get a case of the kind right; policy for all others."""
_TAKEN: Final[Mapping[str, Component]] = {
    "without-canonicalization": Component.CANONICALIZE, "without-labels": Component.POLICY,
    "without-evidence": Component.CAPTURE, "without-frame": Component.POLICY,
    "without-history": Component.CAPTURE, "without-identity": Component.RESOLVE,
    "without-doubt": Component.RESOLVE, "contract-diff": Component.CAPTURE,
}  # fmt: skip
"""What an evaluator lacks that the whole judge has."""
_TEXT: Final = frozenset({"final-text"})
_STATE: Final = frozenset({"raw-equality"})


def is_failure(case: Scored, opinion: Opinion) -> bool:
    """Whether the evaluator is wrong about the case; a right DIVERGE is the agent's failure."""
    return opinion.verdict is not EXPECTED[case.label]


def component(case: Scored, evaluator: str) -> Component:
    """The stage that made the error: the one taken away, where the whole judge does not err.

    Else the one whose job the case is: unsound rule, poor reading, guess, missing clause.
    """
    ours = case.opinions.get(OURS)
    if evaluator in _TAKEN and ours is not None and not is_failure(case, ours):
        return _TAKEN[evaluator]
    return _STAGES.get(case.kind, Component.POLICY)


def kinds(case: Scored, evaluator: str, opinion: Opinion) -> tuple[Failure, ...]:
    """Every kind that the failure is of; none where the taxonomy has no word for it."""
    if not is_failure(case, opinion):
        return ()
    found: set[Failure] = set()
    if opinion.verdict is Verdict.MATCH:
        # It says that something was done which was not, or which nobody saw.
        if evaluator in _TEXT or case.label is Label.UNRESOLVABLE:
            found.add(Failure.HALLUCINATED)
        if evaluator not in _TEXT and case.label is Label.INCORRECT:
            found.add(Failure.REWARD)
    elif opinion.verdict is Verdict.DIVERGE and case.label is Label.CORRECT:
        if case.is_variant:
            found.add(Failure.EXACT_MATCH)
        if evaluator in _STATE and (
            case.kind in (RIGHT, "outside-boundary") or not case.is_variant
        ):
            found.add(Failure.OVER_SPECIFICATION)
    return tuple(sorted(found))
