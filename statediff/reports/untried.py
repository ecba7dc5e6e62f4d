"""Places that no fault tried, beside the claim that all seeded faults are caught."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statediff.meta.world import NEVER_SEEDED, Untried
from statediff.reports.said import said


def untried_document(found: Sequence[Untried]) -> dict[str, Any]:
    """The keys of a report: what was not tried in numbers, and what never is."""
    return {
        "untried": [{"what": u.what, "why": u.why, "number": u.number} for u in found],
        "never_seeded": list(NEVER_SEEDED),
    }


def untried_lines(found: Sequence[Untried]) -> list[str]:
    """The same as two lines of text."""
    numbers = "; ".join(said(str(each), 200) for each in found)
    return [
        f"not tried: {numbers or 'nothing that was found to seed into'}",
        f"never seeded: {'; '.join(NEVER_SEEDED)}",
    ]
