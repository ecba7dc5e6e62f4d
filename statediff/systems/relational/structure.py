"""The agreement of a database with itself, as state: `db.structure`.

An index that does not have what its table has is seen by no reader of rows. The type has a row for
each place where the database disagrees with itself; a sound one has none. Sound before and unsound
after is a change: rows appear. Where soundness was not established before, nobody knows what the
run did, and the type is incomplete with the cause. Decision 34 gives the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import Table
from statediff.systems.relational.schema import Shelf

STRUCTURE: Final = "db.structure"
STRUCTURE_TYPE: Final = EntityType(
    STRUCTURE,
    ("problem",),
    (
        Field("problem", Kind.TEXT, is_nullable=False),
        Field("object", Kind.TEXT),
        Field("page", Kind.INT),
    ),
)


UNCHECKED: Final = "not checked: "
"""How a row begins that names what nobody but an application can check: it is a problem of the run
only where it was not there before."""


@dataclass(frozen=True)
class Checked:
    """The result of a check: rows of `db.structure`, sorted; `cause` says why there may be more."""

    problems: tuple[Row, ...]
    cause: str | None = None


SOUND: Final = Checked(())


def structure_table(
    checked: Checked, shelf: Shelf, entity_type: EntityType, like: Table | None
) -> Table:
    """The problems as rows of `db.structure`; after a run, `like` is the table before it."""
    table = shelf.distinct(entity_type, list(checked.problems), like)
    if like is not None and not like.enumeration.is_complete:
        return shelf.fail(table, like.enumeration.cause or "its structure was not known before")
    if checked.cause is not None:
        return shelf.fail(table, checked.cause)
    problems = [str(row["problem"]) for row in checked.problems]
    first = next((each for each in problems if not each.startswith(UNCHECKED)), None)
    if like is None and first is not None:
        return shelf.fail(table, f"its structure was not known to be sound before: {first}")
    return table


def is_established(like: Table | None) -> bool:
    """True if the state before is known to be sound, so that whatever is wrong came since."""
    if like is None or not like.enumeration.is_complete:
        return False
    return all(str(row["problem"]).startswith(UNCHECKED) for _, row in like.rows())
