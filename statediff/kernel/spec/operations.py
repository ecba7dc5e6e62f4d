"""The operations that one entity underwent, from its two rows (docs/design.md §4).

Of entities with a key of which everything was observed.
"""

from __future__ import annotations

from typing import TypeAlias

from statediff.model.batches import Row
from statediff.model.delta import Op
from statediff.model.schema import EntityType, marks_deletion
from statediff.model.values import ABSENT, Absent, same

Operations: TypeAlias = frozenset[tuple[Op, str]]
"""Each operation and the field that it changed, empty for the whole entity."""

NONE: Operations = frozenset()


def operations(entity: EntityType, old: Row | None, new: Row | None) -> Operations:
    """All that happened to the entity: its row came, went or is another, and its mark moved."""
    came, went = (Op.LINK, Op.UNLINK) if entity.is_association else (Op.CREATE, Op.DELETE)
    if old is None and new is None:
        return NONE
    if old is None:
        return frozenset({(came, "")} | ({(went, "")} if _is_marked(entity, new) else set()))
    if new is None:  # what was deleted already is not deleted again: its mark goes
        mark = entity.deleted_when or ""
        return frozenset({(Op.UPDATE, mark) if _is_marked(entity, old) else (went, "")})
    differing = {
        name for name in entity.by_name if not same(old.get(name, ABSENT), new.get(name, ABSENT))
    }
    if any(_is_there(old, name) and _is_there(new, name) for name in differing & entity.immutable):
        return operations(entity, old, None) | operations(entity, None, new)
    is_marked = _is_marked(entity, old), _is_marked(entity, new)
    if is_marked[0] is is_marked[1]:
        return frozenset((Op.UPDATE, name) for name in differing)
    edits = {(Op.UPDATE, name) for name in differing if name != entity.deleted_when}
    return frozenset(edits | {(went if is_marked[1] else came, "")})


def _is_marked(entity: EntityType, row: Row | None) -> bool:
    mark = entity.deleted_when
    return mark is not None and row is not None and marks_deletion(row.get(mark, ABSENT))


def _is_there(row: Row, name: str) -> bool:
    return not isinstance(row.get(name, ABSENT), Absent)
