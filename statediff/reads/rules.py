"""The rules of reads, of a contract's `access:` and of questions over a log alike [GE §3].

An artifact stands to a cone by three truths, masks of TRUE and FALSE, both where nobody knows.
A call breaks every rule that it breaks certainly; a citation the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from statediff.contract.language.context import FALSE, TRUE
from statediff.model.codes import FindingCode


class BeforeCone(Protocol):
    """An artifact before a cone: is it there, may the actor read it, did it exist by then."""

    @property
    def lies(self) -> int: ...
    @property
    def granted(self) -> int: ...
    @property
    def in_time(self) -> int: ...


class Standing(NamedTuple):
    """How an artifact stands to a cone."""

    lies: int
    granted: int
    in_time: int


def conjunction(*masks: int) -> int:
    """Strong Kleene `and` over masks of TRUE and FALSE."""
    if FALSE in masks:
        return FALSE
    return TRUE if all(mask == TRUE for mask in masks) else TRUE | FALSE


def inside(held: BeforeCone) -> int:
    """The truth of whether the cone holds it."""
    return conjunction(held.lies, held.granted, held.in_time)


def broken_by_asking(held: BeforeCone | None) -> Iterator[FindingCode]:
    """The rules that a call breaks by asking for it; what is not there tells nothing."""
    if held is not None and held.lies == TRUE:
        if held.granted == FALSE:
            yield FindingCode.ACCESS_VIOLATION
        if held.in_time == FALSE:
            yield FindingCode.HORIZON_VIOLATION


def broken_by_citing(
    held: BeforeCone | None, *, was_offered: bool, was_fetched: bool
) -> FindingCode | None:
    """The rule that a citation breaks, if all that was fetched is known; None where none is."""
    if held is None or held.lies == FALSE or not was_offered:
        return FindingCode.HALLUCINATED_CITATION
    if inside(held) == FALSE:
        return FindingCode.INVALID_CITATION
    is_unread = inside(held) == TRUE and not was_fetched
    return FindingCode.CITATION_NOT_RETRIEVED if is_unread else None
