"""The frame: every change is explained (docs/design.md §3); each clause has a vote for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from statediff.contract.clauses.patterns import Pattern
from statediff.kernel.spec.changes import (
    COME,
    HOLDS,
    UNKNOWN,
    Case,
    Decided,
    doubts_about,
    fails,
    further,
    matches,
    possible,
    selects,
)
from statediff.kernel.spec.clauses import qualify, truths_of_that
from statediff.kernel.spec.values import (
    FALSE,
    OPEN,
    TRUE,
    Truths,
)
from statediff.model.codes import FindingCode, Stage
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.explanation import PARTED
from statediff.model.values import Digested, Unobserved, is_value

# ---------------------------------------------------------------- the frame


class Vote(NamedTuple):
    """A clause's word on whether it explains a delta."""

    delta: Delta
    mask: Truths


def votes_of(p: Pattern, case: Case) -> Iterator[Vote]:
    """The deltas that the pattern explains, or may, and the rows that go with what it matches.

    A require clause explains whatever it matches; an allow clause nothing beyond `count` and
    `that`.
    """
    found, bound = matches(p, case, case.changes), TRUE
    if p.section is not Stage.REQUIRE:
        doubts = doubts_about(p, case)
        found = qualify(p, found, doubts, case)
        if p.high is not None:
            is_within = len(found) + further(p, found, doubts) <= p.high
            is_beyond = sum(m.mask == TRUE for m in found) > p.high
            bound = FALSE if is_beyond else TRUE if is_within else OPEN
        if not p.speaks_of_each and bound != FALSE:
            that = truths_of_that(p, found, doubts, case)
            bound = FALSE if that == FALSE else bound if that == TRUE else OPEN
    for match in found:
        for delta in match.change.deltas:
            yield Vote(delta, _all_of(match.mask, _covers(p, delta, case), bound))


def _all_of(mask: Truths, covers: Truths, bound: Truths) -> Truths:
    if FALSE in (covers, bound):
        return FALSE
    return TRUE if mask == covers == bound == TRUE else OPEN


def _covers(p: Pattern, delta: Delta, case: Case) -> Truths:
    """The paths that the pattern selects include the delta's, and its principal made it."""
    made = TRUE if p.by is None else case.made_by(delta, p.by)
    if made != TRUE or p.fields is None:
        return made
    if delta.op is Op.UPDATE:
        return TRUE if selects(p, delta) else FALSE
    if p.names_fields and delta.is_of_mark:
        mark = case.schema.by_name[delta.type].deleted_when
        return TRUE if mark is not None and p.selects(mark, ()) else FALSE
    whole = delta.after if delta.op in COME else delta.before
    if not p.names_fields or not isinstance(whole, Entity):
        return TRUE
    key = case.schema.by_name[delta.type].key
    outside = [c for n, c in whole.fields if n not in key and not p.selects(n, (), c)]
    if any(isinstance(c, Digested) or (c is not None and is_value(c)) for c in outside):
        return FALSE
    return OPEN if any(isinstance(c, Unobserved) for c in outside) else TRUE


def explanations(patterns: Sequence[Pattern], case: Case, more: Iterable[Vote] = ()) -> list[Vote]:
    """The deltas of the case: TRUE by some vote, open by any that is not FALSE, else FALSE."""
    said: dict[int, Truths] = {}
    for delta, mask in (*(vote for p in patterns for vote in votes_of(p, case)), *more):
        held = said.get(id(delta), FALSE)
        said[id(delta)] = TRUE if TRUE in (mask, held) else held | mask
    return [Vote(d, said.get(id(d), FALSE)) for c in case.changes for d in c.deltas]


def decide_frame(
    patterns: Sequence[Pattern], case: Case, more: Iterable[Vote] = ()
) -> list[Decided]:
    """Every delta is explained, and every delta that there may be beside them."""
    masks = [mask for _, mask in explanations(patterns, case, more)]
    found = [fails(FindingCode.READINGS_PARTED) for d in case.doubts if is_parted(d)]
    found += [fails(FindingCode.UNEXPLAINED_CHANGE) for mask in masks if mask == FALSE]
    sure = [
        p
        for p in patterns
        if p.section is Stage.REQUIRE or (p.high is None and not any(p.that.values()))
    ]
    is_open = any(
        not is_parted(d) and all(possible(p, d, case) != TRUE for p in sure) for d in case.doubts
    )
    found += [UNKNOWN] if is_open or any(mask not in (TRUE, FALSE) for mask in masks) else []
    return found or [HOLDS]


def is_parted(doubt: Doubt) -> bool:
    """Readings of the place agreed before the run, and contradict each other after it."""
    return doubt.cause.partition(": ")[0] == PARTED
