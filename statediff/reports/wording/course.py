"""How a run stood on its way: when it was lost, and when one that was right was broken again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from statediff.evidence.package import Bundle
from statediff.kernel import course_of
from statediff.model.verdict import Moment
from statediff.reports.said import said

_SHOWN = 4
"""How many clauses a line names."""


def course_lines(bundle: Bundle) -> tuple[str, ...]:
    """The sentences about the states between the two ends; none where they are not known."""
    return tuple(_lines(course_of(bundle)))


def _lines(moments: Sequence[Moment]) -> Iterator[str]:
    right = next((n for n, moment in enumerate(moments) if moment.is_right), None)
    later = [] if right is None else moments[right + 1 :]
    broken = next((moment for moment in later if moment.broken), None)
    if right is not None and broken is not None:
        yield (
            f"Right {_after(moments[right])}, and broken again {_after(broken)}: "
            f"{_names(broken.broken)}."
        )
    lost = next((moment for moment in moments if moment.lost), None)
    if lost is not None:
        yield f"Lost {_after(lost)}: from there no end could satisfy {_names(lost.lost)}."


def _after(moment: Moment) -> str:
    return f"after transaction {moment.number} of {said(moment.source, 80)}"


def _names(clauses: Sequence[str]) -> str:
    more = "" if len(clauses) <= _SHOWN else f" and {len(clauses) - _SHOWN} more"
    return ", ".join(said(clause, 100) for clause in clauses[:_SHOWN]) + more
