"""How trials end, and the words a reviewer may use of them [SSD §V, §VI]."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Ended(StrEnum):
    """How a scheduled trial ended: with a verdict, or why it has none."""

    MATCH = "MATCH"
    DIVERGE = "DIVERGE"
    INCONCLUSIVE = "INCONCLUSIVE"
    FAULT = "fault"
    """The environment or the harness failed; the agent is not to blame."""
    DAMAGED = "damaged"
    """There is something in the place of its bundle that is not the bundle of this trial."""
    UNFINISHED = "unfinished"
    """Its folder is there, without a bundle and without a reason."""
    NOT_RUN = "not_run"

    @property
    def has_verdict(self) -> bool:
        return self in VERDICTS


VERDICTS: Final = (Ended.MATCH, Ended.DIVERGE, Ended.INCONCLUSIVE)
FAILURES: Final = tuple(each for each in Ended if each not in VERDICTS)
"""Ends without a verdict: shown apart, and never counted as passed."""


class Label(StrEnum):
    """Whether the run was right."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNRESOLVABLE = "unresolvable"


class Cause(StrEnum):
    """Whose fault it is where run, verdict and contract do not agree."""

    AGENT = "agent-failure"
    EVALUATOR = "evaluator-failure"
    CONTRACT = "contract-ambiguity"
    ENVIRONMENT = "environment-failure"


class Component(StrEnum):
    """The stage at which the evaluator failed."""

    CAPTURE = "capture"
    RESOLVE = "resolve"
    CANONICALIZE = "canonicalize"
    DIFF = "diff"
    POLICY = "policy"
    EVIDENCE = "evidence"


class Failure(StrEnum):
    """How an evaluation went wrong [TV §3.4]; one case may show several."""

    EXACT_MATCH = "exact-match"
    OVER_SPECIFICATION = "state-over-specification"
    LOCK_IN = "trajectory-lock-in"
    ANNOTATION = "annotation-error"
    REWARD = "reward-misalignment"
    DRIFT = "rubric-drift"
    VARIANCE = "judge-variance"
    HALLUCINATED = "hallucinated-completion"
    MISMATCH = "implementation-specification-mismatch"
