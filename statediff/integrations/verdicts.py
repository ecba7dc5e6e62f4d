"""What a trial that did not match raises in a program that knows passed and failed only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statediff.api import Judged


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
