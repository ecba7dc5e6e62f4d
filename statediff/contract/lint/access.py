"""Checks of `access:`: who sees nothing, what cannot be reached, what there is nothing of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from statediff.contract.binding.bound_access import ACCESS, BoundAccess, Holding, Shelf
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import TRUE, EntityRef, EvalContext, TooCostly
from statediff.contract.language.kinds import suggest
from statediff.contract.lint.subject import Subject
from statediff.contract.yaml.reader import NodePath
from statediff.errors import Problem
from statediff.model.trace import NoAnswer

MAX_ENTITIES: Final = 50_000
"""Of a larger type the base state is not searched; lint stays quick."""


def reading(subject: Subject) -> Iterator[Problem]:
    """What is wrong with a visibility cone, or with what must be read within it."""
    access = subject.contract.access
    if access is None:
        return
    yield from _seeing(subject, access)
    places: list[tuple[NodePath, Shelf]] = []
    for search in access.searches:
        path = subject.path(search.id)
        places += (((*path, "space", i), shelf) for i, shelf in enumerate(search.space))
    places += ((subject.path(needed.id), needed.shelf) for needed in access.needed)
    for path, shelf in places:
        yield from _reachable(subject, access, path, shelf)


def _seeing(subject: Subject, access: BoundAccess) -> Iterator[Problem]:
    names = [holding.name for holding in access.holdings]
    role = access.actors.get(access.actor)
    if role is None:
        yield subject.remark(
            "sees-nothing", (ACCESS, "actor"),
            f"`{access.actor}` has no role, and so sees nothing",
            suggest(access.actor, access.actors) or "add it under `actors`",
        )  # fmt: skip
    elif role not in access.roles:
        yield subject.remark(
            "sees-nothing", (ACCESS, "actors", access.actor),
            f"there is no role `{role}`, and so `{access.actor}` sees nothing",
            suggest(role, access.roles) or "add it under `roles`",
        )  # fmt: skip
    elif not access.sees:
        yield subject.remark(
            "sees-nothing", (ACCESS, "roles", role), f"`{role}` may read no subsystem there is"
        )
    listed: list[tuple[NodePath, str]] = [
        ((ACCESS, "roles", name, i), s)
        for name, seen in access.roles.items()
        for i, s in enumerate(seen)
    ]
    listed += [((ACCESS, "broadcast", i), s) for i, s in enumerate(access.broadcast)]
    for path, name in listed:
        if name not in names:
            yield subject.remark(
                "unknown-subsystem", path, f"there is no subsystem `{name}`; nothing is granted",
                suggest(name, names),
            )  # fmt: skip


def _reachable(
    subject: Subject, access: BoundAccess, path: NodePath, shelf: Shelf
) -> Iterator[Problem]:
    holding = access.holding(shelf.subsystem)
    if holding is None:
        return
    if shelf.subsystem not in access.sees and holding.participation is None:
        yield subject.remark(
            "unreachable-evidence", path,
            f"`{access.actor}` may not read `{shelf.subsystem}`, so nobody could look there",
        )  # fmt: skip
    elif _is_empty(subject, holding, shelf):
        yield subject.remark(
            "empty-shelf", path, f"the base state has nothing like that in `{shelf.subsystem}`"
        )


def _is_empty(subject: Subject, holding: Holding, shelf: Shelf) -> bool:
    """Whether no entity of the base state is meant, for certain."""
    base = subject.base
    if base is None or not base.enumeration(holding.type).is_complete:
        return False
    entity = base.schema.by_name[holding.type]
    named = {read.field for read in shelf.footprint if read.type == holding.type}
    fields = tuple(f.name for f in entity.fields if f.name in named)
    conditions = [node for node in (holding.where, shelf.where) if node is not None]

    def fields_of(_type_name: str) -> tuple[str, ...]:
        return fields

    try:
        for number, (key, row) in enumerate(base.rows(holding.type, fields)):
            context = EvalContext(base, base, NoAnswer("none"), fields_of=fields_of)
            it = EntityRef("before", holding.type, key, row)
            meant = all(outcomes(node, context, {"it": it}) & TRUE for node in conditions)
            if number > MAX_ENTITIES or meant:
                return False
    except (TooCostly, KeyError):
        return False
    return True
