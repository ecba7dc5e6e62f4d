"""Faults of reading: what a right answer hides about how it was reached [GE §1.2].

They are seeded into the recorded calls of a contract with `access:`. What was read beyond the cone,
cited unread or never recorded is altered there; the state and the words stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from statediff.contract.boundaccess import BoundAccess, Holding
from statediff.meta.reference import Reference
from statediff.meta.world import Fault, World
from statediff.model.state import Row
from statediff.model.trace import Action
from statediff.model.values import Key, Map

FETCH: Final = "fetch"


def reads(world: World) -> Iterator[Fault]:
    """What lies beyond role or horizon is read, what is cited is not, or the log has a gap."""
    access, trace = world.compiled.contract.access, world.reference.trace
    fetched = [action for action in trace.actions if _artifact(action)]
    if access is None or not fetched or trace.gap is not None:
        return
    for holding in access.holdings:
        rows = world.reference.rows_before(holding.type)
        if holding.name not in access.sees:
            found = world.pick(rows)
            if found is not None and holding.participation is None:
                yield _read(world, "forbidden-read", holding, found[0], fetched[0])
            continue
        later = {key: row for key, row in rows.items() if _is_later(access, holding, row)}
        found = world.pick(later)
        if found is not None:
            yield _read(world, "future-read", holding, found[0], fetched[0])
    for name in sorted(_cited(access, world.reference)):
        kept = tuple(action for action in trace.actions if _artifact(action) != name)
        mutant = replace(world.reference, trace=replace(trace, actions=kept))
        yield Fault("unread-citation", name, f"{name} is cited, and was never fetched", mutant)
    gap = replace(trace, is_complete=False, cause="the recorder was stopped")
    mutant = replace(world.reference, trace=gap)
    yield Fault("unrecorded-reads", "trace", "the recorder was stopped before the end", mutant)


def again(reference: Reference) -> Reference:
    """The trial in which everything that was fetched is fetched a second time at once."""
    actions: list[Action] = []
    for action in reference.trace.actions:
        actions.append(action)
        if _artifact(action):
            actions.append(replace(action, id=f"{action.id}-again"))
    return replace(reference, trace=replace(reference.trace, actions=tuple(actions)))


def _read(
    world: World, operator: str, holding: Holding, key: Key, like: Action
) -> Fault:  # fmt: skip
    name, trace = holding.id_of(key), world.reference.trace
    call = replace(
        like, id=f"{like.id}-more", arguments=Map.of({"id": name}), result=Map.of({"id": name})
    )
    at = trace.actions.index(like)
    actions = (*trace.actions[:at], call, *trace.actions[at:])
    mutant = replace(world.reference, trace=replace(trace, actions=actions))
    return Fault(operator, name, f"{name} is read as well", mutant)


def _artifact(action: Action) -> str:
    """The artifact that the call fetched; empty where it fetched none."""
    if action.tool != FETCH or action.error is not None or not isinstance(action.arguments, Map):
        return ""
    name = action.arguments.get("id")
    return name if isinstance(name, str) else ""


def _is_later(access: BoundAccess, holding: Holding, row: Row) -> bool:
    """Whether every instant that decides when it came to be is beyond the horizon."""
    fields = {read.field for read in holding.footprint if read.type == holding.type}
    times = [row[name] for name in fields if isinstance(row.get(name), datetime)]
    horizon = access.as_of
    return (
        bool(times)
        and horizon is not None
        and all(isinstance(time, datetime) and time.tzinfo and time > horizon for time in times)
    )


def _cited(access: BoundAccess, reference: Reference) -> set[str]:
    """The artifacts that the answer cites and the run fetched."""
    answer = reference.answer
    if access.citing is None or not isinstance(answer, Map):
        return set()
    listed = answer.get(access.citing.name)
    cited = listed if isinstance(listed, tuple) else ()
    return {name for name in cited if isinstance(name, str)} & {
        _artifact(action) for action in reference.trace.actions
    }
