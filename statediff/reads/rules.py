"""The rules of reads, of a contract's `access:` and of questions over a log alike [GE §3.1].

A call breaks every rule that it breaks certainly; a citation the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from statediff.contract.language.context import FALSE, TRUE
from statediff.model.codes import FindingCode


@dataclass(frozen=True)
class Standing:
    """An artifact before a cone: is it there, may the actor read it, did it exist by then.

    Each is a mask of TRUE and FALSE, both where nobody knows.
    """

    lies: int
    granted: int
    in_time: int

    @property
    def inside(self) -> int:
        """The truth of whether the cone holds it."""
        return conjunction(self.lies, self.granted, self.in_time)


def conjunction(*masks: int) -> int:
    """Strong Kleene `and` over masks of TRUE and FALSE."""
    if FALSE in masks:
        return FALSE
    return TRUE if all(mask == TRUE for mask in masks) else TRUE | FALSE


def broken_by_asking(held: Standing | None) -> Iterator[FindingCode]:
    """The rules that a call breaks by asking for it; what is not there tells nothing."""
    if held is not None and held.lies == TRUE:
        if held.granted == FALSE:
            yield FindingCode.ACCESS_VIOLATION
        if held.in_time == FALSE:
            yield FindingCode.HORIZON_VIOLATION


def broken_by_citing(
    held: Standing | None, *, was_offered: bool, was_fetched: bool
) -> FindingCode | None:
    """The rule that a citation breaks, if all that was fetched is known; None where none is."""
    if held is None or held.lies == FALSE or not was_offered:
        return FindingCode.HALLUCINATED_CITATION
    if held.inside == FALSE:
        return FindingCode.INVALID_CITATION
    is_unread = held.inside == TRUE and not was_fetched
    return FindingCode.CITATION_NOT_RETRIEVED if is_unread else None
