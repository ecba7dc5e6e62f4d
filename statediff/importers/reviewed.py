"""Why a run did not match, as data; and whether somebody read that and wrote down why it is right.

A pack's reviewed reasons are words about a verdict and change none. A run is covered by them only
where every single finding against it is: one reason excuses nothing beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from statediff.importers.pack import Reviewed
from statediff.model.delta import Delta
from statediff.model.verdict import Finding, Judgement, Truth


@dataclass(frozen=True)
class Why:
    """One finding against a run. All empty but `sentence` under a benchmark's own rules."""

    clause: str
    code: str
    stage: str
    sentence: str
    on: tuple[str, ...] = ()
    """Where its deltas are: TYPE, or TYPE.FIELD for updates; sorted."""
    deltas: tuple[str, ...] = ()
    """The deltas that show it, by id."""
    is_sure: bool = True
    """False where the finding is UNKNOWN."""


def reasons(judgement: Judgement) -> tuple[Why, ...]:
    """What speaks against MATCH: what fails before what is unknown, else in report order."""
    places = {delta.id: _place(delta) for delta in judgement.deltas}
    places |= {hidden.delta.id: _place(hidden.delta) for hidden in judgement.hidden}
    against = [f for f in judgement.findings if f.truth is not Truth.HOLDS]
    return tuple(
        _why(finding, places)
        for finding in sorted(against, key=lambda f: f.truth is not Truth.FAILS)
    )


def _why(finding: Finding, places: Mapping[str, str]) -> Why:
    on = {places[d] for d in finding.deltas if d in places}
    return Why(
        finding.clause, finding.code.value, finding.stage.value, finding.sentence,
        tuple(sorted(on)), finding.deltas, finding.truth is Truth.FAILS,
    )  # fmt: skip


def _place(delta: Delta) -> str:
    return f"{delta.type}.{delta.path}" if delta.path else delta.type


def reviewed_by(notes: Sequence[Reviewed], why: Sequence[Why]) -> tuple[str, ...]:
    """The reasons that cover all of `why`, in the pack's order; none where something is left."""
    used: set[Reviewed] = set()
    for each in why:
        covering = _covering(notes, each)
        if not covering:
            return ()
        used |= covering
    return tuple(dict.fromkeys(note.because for note in notes if note in used))


def _covering(notes: Sequence[Reviewed], why: Why) -> set[Reviewed]:
    here = [note for note in notes if note.clause == why.clause]
    if whole := {note for note in here if not note.on}:
        return whole
    found: set[Reviewed] = set()  # stays empty where nothing says what the finding is about
    for place in why.on:
        about = {note for note in here if place == note.on or place.startswith(f"{note.on}.")}
        if not about:
            return set()
        found |= about
    return found
