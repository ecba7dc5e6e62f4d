"""Errors for a verdict in a program that knows only passed and failed, or numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statediff.api import Judged, Score


class NoMatch(Exception):
    """The trial did not get the verdict that was required; `judged` says what it got."""

    def __init__(self, judged: Judged, required: str = "MATCH") -> None:
        self.judged = judged
        self.required = required
        super().__init__(judged.line)

    def __str__(self) -> str:
        asked = "" if self.required == "MATCH" else f", expected {self.required}"
        head = f"{self.judged.verdict.value}{asked}: {self.judged.line}"
        return f"{head}\n\n{self.judged.text().rstrip()}"


class Diverged(NoMatch, AssertionError):
    """The trial was decided, and not as required."""


class Inconclusive(NoMatch):
    """The trial was not decided: neither a pass nor a failure of the agent."""


def require(judged: Judged, required: str = "MATCH") -> None:
    """The trial has the verdict; else `Inconclusive` or `Diverged`."""
    __tracebackhide__ = True  # pytest shows the line of the test instead
    found = judged.verdict.value
    if found != required:
        kind = Inconclusive if found == "INCONCLUSIVE" else Diverged
        raise kind(judged, required)


class NoReward(Exception):
    """The run was not decided: it is left out, and never counts as a number."""


def decided(score: Score) -> float:
    """The reward; `NoReward` where the verdict is INCONCLUSIVE."""
    if score.reward is None:
        raise NoReward(f"INCONCLUSIVE, left out: {score.why}")
    return score.reward


def rewards_of(score: Score) -> dict[str, float]:
    """`{"reward": 1.0, section: share of its clauses}`; raises as `decided`."""
    return {"reward": decided(score), **score.parts}
