"""The words a reviewer may use of a trial [SSD §V, §VI]."""

from __future__ import annotations

from enum import StrEnum


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
