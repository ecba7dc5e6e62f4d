"""Schema objects of an SQLite database as entity types."""

from __future__ import annotations

from typing import Final

from statediff.model.schema import EntityType, Field, Kind
from statediff.systems.relational.structure import STRUCTURE_TYPE

SEQUENCES: Final = "sqlite_sequence"
STATISTICS: Final = {
    "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}
"""Tables of ANALYZE and PRAGMA optimize, as they define them; defined otherwise they are any table.
"""


def _text_field(name: str, *, is_nullable: bool = False, reference: str | None = None) -> Field:
    return Field(name, Kind.TEXT, is_nullable=is_nullable, reference=reference)


_NAME: Final = _text_field("name")
_DEFINITION: Final = _text_field("definition", is_nullable=True)
_PLANS: Final = "it changes plans of queries, no answer"
OBJECT_TYPES: Final = (
    EntityType(
        "db.column",
        ("table", "name"),
        (
            _text_field("table", reference="db.table"),
            _NAME,
            Field("position", Kind.INT, is_nullable=False),
            _text_field("declared_type"),
            Field("is_required", Kind.BOOL, is_nullable=False),
            _text_field("default", is_nullable=True),
            Field("key_position", Kind.INT, is_nullable=False),
            _text_field("generated", is_nullable=True),
        ),
    ),
    EntityType(
        "db.constraint", ("table", "name"), (_text_field("table", reference="db.table"), _NAME)
    ),
    EntityType(
        "db.grant",
        ("role", "object", "privilege"),
        (
            _text_field("role", reference="db.role"),
            _text_field("object"),
            _text_field("privilege"),
        ),
    ),
    EntityType(
        "db.index",
        ("name",),
        (
            _NAME,
            _text_field("table", reference="db.table"),
            _DEFINITION,
        ),
    ),
    EntityType(
        "db.membership",
        ("role", "member"),
        (
            _text_field("role", reference="db.role"),
            _text_field("member", reference="db.role"),
        ),
        is_association=True,
    ),
    EntityType("db.role", ("name",), (_NAME,)),
    EntityType(
        "db.sequence",
        ("name",),
        (
            _NAME,
            Field("value", Kind.ANY, column="seq"),
        ),
        table=SEQUENCES,
    ),
    EntityType("db.setting", ("name",), (_NAME, Field("value", Kind.ANY))),
    EntityType(
        "db.statistics",
        (),
        (
            Field("table", Kind.ANY, column="tbl"),
            Field("index", Kind.ANY, column="idx"),
            Field("counts", Kind.ANY, column="stat"),
        ),
        table="sqlite_stat1",
        outside=_PLANS,
    ),
    EntityType(
        "db.statistics_sample",
        (),
        (
            Field("table", Kind.ANY, column="tbl"),
            Field("index", Kind.ANY, column="idx"),
            Field("equal", Kind.ANY, column="neq"),
            Field("less", Kind.ANY, column="nlt"),
            Field("distinct_less", Kind.ANY, column="ndlt"),
            Field("sample", Kind.ANY),
        ),
        table="sqlite_stat4",
        outside=_PLANS,
    ),
    EntityType(
        "db.storage",
        ("name",),
        (_NAME, Field("value", Kind.ANY)),
        outside="opening the file may set it, no row depends on it",
    ),
    STRUCTURE_TYPE,
    EntityType("db.table", ("name",), (_NAME, _text_field("kind"), _DEFINITION)),
    EntityType("db.trigger", ("name",), (_NAME, _text_field("table"), _DEFINITION)),
    EntityType("db.view", ("name",), (_NAME, _DEFINITION)),
)
"""Schema objects as entity types. SQLite has no roles or grants: those types are always empty."""

OWN_TABLES: Final = frozenset({SEQUENCES, *STATISTICS})
OBJECT_NAMES: Final = frozenset(t.name for t in OBJECT_TYPES)
CATALOGUED: Final = ("db.column", "db.constraint", "db.index", "db.table", "db.trigger", "db.view")
"""The schema objects of which the catalogue's own lines tell."""
