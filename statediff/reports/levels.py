"""Checks along the run beside checks of where it ended; where they disagree, that is a diagnosis.

Steps, turns and rules about calls look at single spans of the run; what is forbidden, framed and
required is judged over the run as a whole [STA]. Neither overrides the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from statediff.suite.records import levels

Json = Any
_TOLD: Final[dict[tuple[str | None, str | None], str]] = {
    ("FAILS", "HOLDS"): (
        "Along the run something went wrong that its end does not show: it was repaired, or it "
        "left no trace in the state."
    ),
    ("HOLDS", "FAILS"): (
        "Every step was as it must be, and the end is wrong: no single step shows what all of "
        "them together did, or left undone."
    ),
    ("UNKNOWN", "HOLDS"): "The end is right; how the run came there is not known.",
    ("UNKNOWN", "FAILS"): "The end is wrong; whether a step shows where is not known.",
    ("HOLDS", "UNKNOWN"): "Every step was as it must be; whether the end is right is not known.",
    ("FAILS", "UNKNOWN"): "A step went wrong; whether the end is right is not known.",
}


def disagreement(clauses: Iterable[Json]) -> str:
    """The meaning of a disagreement of the two levels; empty where there is none."""
    return _TOLD.get(levels(clauses), "")
