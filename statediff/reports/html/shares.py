"""How trials ended, as a bar with its counts in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statediff.reports.html.words import VERDICTS, Sign


@dataclass(frozen=True)
class Share:
    """How trials ended: segments in per cent from the left, and in words."""

    segments: tuple[tuple[Sign, str, str], ...]
    """(sign, where it begins, how wide it is)."""
    counts: tuple[tuple[Sign, int], ...]
    total: int
    passed: int

    @property
    def told(self) -> str:
        """For anyone who does not see the bar."""
        parts = [f"{number:,} {sign.word}" for sign, number in self.counts]
        return f"{', '.join(parts) or 'nothing'} of {self.total:,} scheduled"


@dataclass(frozen=True)
class Field:
    """One field of a matrix; `share` is None where the agent never tried the contract."""

    share: Share | None
    link: str = ""


@dataclass(frozen=True)
class Row:
    """One contract as it was judged, with a field for each agent."""

    contract: str
    version: str
    note: str
    fields: tuple[Field, ...]


def share_of(counted: Sequence[tuple[Sign, int]]) -> Share:
    """The bar of so many trials a sign, from the left in the order given."""
    known = tuple((sign, number) for sign, number in counted if number)
    total, at = sum(number for _, number in known), 0
    segments = []
    for sign, number in known:
        segments.append((sign, f"{100 * at / total:.4f}", f"{100 * number / total:.4f}"))
        at += number
    return Share(tuple(segments), known, total, dict(known).get(VERDICTS["MATCH"], 0))
