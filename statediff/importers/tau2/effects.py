"""What each recorded call changed by itself, from the replay that the recording carries.

The state after a run is known from a replay on the real environment, and so is what each call left.
Where a call that changes something gave another output there than in the recording, the replay went
another way: what that call touched is not known. Where the calls' own changes do not add up to the
state after, nobody can say who made which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statediff.errors import InputError
from statediff.importers.states import Edit
from statediff.importers.tau2.domain import Domain
from statediff.importers.tau2.format import Tree, applied, delta_of, same_json
from statediff.model.delta import delta_id
from statediff.model.values import printable


@dataclass(frozen=True)
class Replayed:
    """The replay of one run's calls."""

    effects: tuple[tuple[str, ...] | None, ...]
    """For each call the ids of what it changed; None throughout where they do not add up."""
    astray: Mapping[str, str]
    """Types of which nothing is known after the run, each with the cause."""


def replayed(
    domain: Domain, before: Tree, after: Tree, calls: Sequence[Mapping[str, Any]]
) -> Replayed:
    """The effects of the calls, in their order."""
    effects: list[tuple[str, ...]] = []
    astray: dict[str, str] = {}
    state, adds_up = before, True
    for at, call in enumerate(calls):
        delta = delta_of(call.get("delta") or [], f"trace[{at}].delta")
        if not delta:
            effects.append(())
            continue
        try:
            left = applied(state, delta)
        except InputError:
            adds_up = False
            break
        edits = domain.layout.edits(state, left)
        effects.append(tuple(sorted({name for edit in edits for name in _names(edit)})))
        if call.get("replay_equal") is False:
            cause = f"replaying call {at} ({call.get('name')}) gave another output than recorded"
            for edit in edits:
                astray.setdefault(edit.type, printable(cause))
        state = left
    if adds_up and same_json(state, after):
        return Replayed(tuple(effects), astray)
    return Replayed((None,) * len(calls), astray)


def _names(edit: Edit) -> Iterator[str]:
    before, after = edit.before, edit.after
    key = ((after if before is None else before) or {})["id"]
    if before is None or after is None:
        yield delta_id(edit.type, (key,), "")
        return
    for name in {*before, *after}:
        if before.get(name) != after.get(name):
            yield delta_id(edit.type, (key,), name)
