"""Stamps: fields that go with a mark of deletion, such as `deleted_by` with `deleted_at`.

A clause about deletions explains the mark (`deleted_when`) alone. So whatever an application writes
beside it needs a clause of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from statediff.contract.lint.subject import MAX_ENTITIES, Subject
from statediff.errors import Problem
from statediff.model.delta import Op
from statediff.model.schema import EntityType, marks_deletion
from statediff.model.values import Absent, Excluded, Observed, Unobserved, same
from statediff.model.verdict import Stage

_PLAIN: Final = frozenset({"at", "by", "date", "for", "has", "is", "on", "time", "was"})
"""Words of a field's name that many fields have."""


def stamps(subject: Subject) -> Iterator[Problem]:
    """Each explained soft deletion beside which no clause explains the stamps."""
    explaining = [p for p in subject.patterns() if p.section is not Stage.FORBID]
    for pattern in explaining:
        for name in pattern.types:
            entity = subject.contract.schema.by_name[name]
            mark = entity.deleted_when
            if mark is None or Op.DELETE not in pattern.operations:
                continue
            own = [p for p in explaining if name in p.types and Op.UPDATE in p.operations]
            beside = stamps_of(subject, entity, mark)
            open_ = [field for field in beside if not any(p.selects(field, ()) for p in own)]
            if open_:
                fields = ", ".join(open_)
                yield subject.remark(
                    "stamps-unexplained",
                    subject.path(pattern.id),
                    f"`{pattern.id}` explains that `{mark}` marks a {name} as deleted, and no "
                    f"clause explains what goes with it: {fields}",
                    f"add `- {{update: {name}, fields: [{fields}]}}` under `allow`, with the "
                    "same `where`",
                )


def stamps_of(subject: Subject, entity: EntityType, mark: str) -> list[str]:
    """The fields that go with the mark, by the rows of the base state or else by their names.

    By the rows: each deleted entity has the field and no other has, or the field is what the mark
    is in each deleted one.
    """
    names = [
        f.name
        for f in entity.fields
        if f.name != mark
        and f.name not in entity.key
        and not f.is_immutable
        and subject.contract.excluded(entity.name, f.name) is None
    ]
    rows = _rows(subject, entity)
    deleted = [row for row in rows if marks_deletion(row[mark])]
    if not deleted:
        words = _words(mark)
        return [name for name in names if words & _words(name)]
    alive = [row for row in rows if not marks_deletion(row[mark])]
    found = []
    for name in names:
        is_only = all(map(_is_set, (row[name] for row in deleted))) and not any(
            _is_set(row[name]) for row in alive
        )
        if (is_only and alive) or all(same(row[name], row[mark]) for row in deleted):
            found.append(name)
    return found


def _rows(subject: Subject, entity: EntityType) -> list[dict[str, Observed]]:
    """The entities of the base state; none of a type that is too large to be searched."""
    if subject.base is None:
        return []
    found = subject.base.rows(entity.name, tuple(entity.by_name))
    rows = [row for _, row in islice(found, MAX_ENTITIES + 1)]
    return rows if len(rows) <= MAX_ENTITIES else []


def _words(name: str) -> frozenset[str]:
    return frozenset(name.lower().split("_")) - _PLAIN


def _is_set(cell: Observed) -> bool:
    return cell is not None and not isinstance(cell, Absent | Excluded | Unobserved)
